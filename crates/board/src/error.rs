//! Errors of chess text from outside.

/// A FEN or a move that cannot be used; the message is one sentence with a hint. Foreign text is
/// cut to a readable length.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BoardError {
    /// The text is not a FEN.
    #[error("`{fen}` is not a FEN: {reason} (expected e.g. `8/8/8/8/8/8/4K2k/8 w - - 0 1`)")]
    FenSyntax { fen: String, reason: String },
    /// The text is a FEN, but of a position that cannot be searched.
    #[error("the position `{fen}` cannot be played: {reason}")]
    FenPosition { fen: String, reason: String },
    /// The text is not a move.
    #[error(
        "`{text}` is not a move (expected UCI notation like `e2e4` or `e7e8q`, or SAN like `Nf3`)"
    )]
    MoveSyntax { text: String },
    /// The text is a move, but not a legal one here.
    #[error("`{text}` is not legal in `{fen}`")]
    IllegalMove { text: String, fen: String },
}

/// Foreign text for a message: one line, at most 100 characters.
pub(crate) fn quoted(text: &str) -> String {
    const LONGEST: usize = 100;
    let mut characters = text.trim().chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut quoted: String = characters.by_ref().take(LONGEST).collect();
    if characters.next().is_some() {
        quoted.push('…');
    }
    quoted
}

/// Foreign text for a message: at most 80 characters.
#[must_use]
pub fn shortened(text: &str) -> String {
    const LONGEST: usize = 80;
    if text.chars().count() <= LONGEST {
        return text.to_owned();
    }
    text.chars().take(LONGEST).chain("...".chars()).collect()
}
