//! Variations of a game, kept as people wrote them.

use std::borrow::Cow;

use board::{Position, to_san};

use super::{
    decoded,
    problem::{GameWarning, Unread, UnreadKind},
    tokens::{Token, Tokens, without_symbols},
    walk::{ReadWord, read_word},
};

/// Alternatives to a move.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Variation {
    pub items: Vec<VariationItem>,
}

/// A part of a variation.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum VariationItem {
    /// In SAN; `--` for a null move.
    Move(String),
    /// A numeric annotation glyph.
    Nag(u16),
    Comment(String),
    /// Alternatives to the last move.
    Variation(Variation),
}

/// Variations nested more deeply are not read.
const DEEPEST: usize = 40;

impl Variation {
    /// The moves, without those of nested variations.
    pub fn moves(&self) -> impl Iterator<Item = &str> {
        self.items.iter().filter_map(|item| match item {
            VariationItem::Move(san) => Some(san.as_str()),
            _ => None,
        })
    }

    /// Without moves, as in `(=)`, it says something of the last move.
    pub(super) fn has_moves(&self) -> bool {
        self.moves().next().is_some()
    }
}

/// Reads a variation up to its closing parenthesis; the opening one has been read. `None`: it is
/// never closed.
pub(super) fn read_variation(
    tokens: &mut Tokens<'_>,
    before: &Position,
    depth: usize,
    warn: &mut dyn FnMut(GameWarning),
) -> Option<Variation> {
    let mut reader =
        VariationReader { items: Vec::new(), position: before.clone(), last: None, depth };
    loop {
        let from = tokens.rest();
        let (kind, word) = match tokens.next()? {
            Token::UnendingComment => return None,
            Token::Close => return Some(Variation { items: reader.items }),
            Token::Open => match reader.nested(tokens, warn)? {
                true => continue,
                false => (UnreadKind::NotUnderstood, Cow::Borrowed("(")),
            },
            Token::Word(word) => match reader.word(&word) {
                Ok(()) => continue,
                Err(kind) => (kind, word),
            },
            token => {
                reader.annotation(&token);
                continue;
            }
        };
        // The rest is kept as a comment.
        let open = 1 + usize::from(*word == *"(");
        warn(GameWarning::Variation(Unread::new(kind, &word, reader.position.ply() / 2 + 1)));
        skip_variation(tokens, open)?;
        let length = from.len() - tokens.rest().len() - 1;
        reader.items.push(VariationItem::Comment(one_line(&decoded(&from[..length]))));
        return Some(Variation { items: reader.items });
    }
}

/// What has been read of a variation.
struct VariationReader {
    items: Vec<VariationItem>,
    /// The position after the last move, and the one before it.
    position: Position,
    last: Option<Position>,
    /// Variations around this one.
    depth: usize,
}

impl VariationReader {
    /// Keeps glyphs, comments, and results as comments.
    fn annotation(&mut self, token: &Token<'_>) {
        self.items.push(match token {
            Token::Nag(nag) => VariationItem::Nag(*nag),
            Token::Comment(text) => VariationItem::Comment(one_line(&decoded(text))),
            Token::Result(result) => VariationItem::Comment((*result).to_owned()),
            _ => return,
        });
    }

    /// Reads alternatives to the last move; false where there is no such move, or they are nested
    /// too deeply. `None`: they are never closed.
    fn nested(
        &mut self,
        tokens: &mut Tokens<'_>,
        warn: &mut dyn FnMut(GameWarning),
    ) -> Option<bool> {
        let Some(before) = self.last.as_ref().filter(|_| self.depth < DEEPEST) else {
            return Some(false);
        };
        let nested = read_variation(tokens, before, self.depth + 1, warn)?;
        if nested.has_moves() {
            self.items.push(VariationItem::Variation(nested));
        } else {
            self.items.extend(nested.items);
        }
        Some(true)
    }

    /// Reads a move or a mark.
    fn word(&mut self, word: &str) -> Result<(), UnreadKind> {
        let (san, nags, after) = if is_null_move(word) {
            let after = self.position.after_null_move().ok_or(UnreadKind::IllegalMove)?;
            ("--".to_owned(), without_symbols(word).1, after)
        } else {
            match read_word(&self.position, word) {
                ReadWord::Move(mv, nags) => {
                    (to_san(&self.position, mv), nags, self.position.after(mv))
                }
                ReadWord::Mark => return Ok(()),
                ReadWord::Unread(kind) => return Err(kind),
            }
        };
        self.items.push(VariationItem::Move(san));
        self.items.extend(nags.into_iter().map(VariationItem::Nag));
        self.last = Some(std::mem::replace(&mut self.position, after));
        Ok(())
    }
}

/// Passes over text until so many open parentheses are closed; `None`: they never are.
pub(super) fn skip_variation(tokens: &mut Tokens<'_>, mut open: usize) -> Option<()> {
    while open > 0 {
        match tokens.next()? {
            Token::Open => open += 1,
            Token::Close => open -= 1,
            Token::UnendingComment => return None,
            _ => {}
        }
    }
    Some(())
}

/// A null move, as ChessBase, Chess Assistant, SCID and UCI write it.
fn is_null_move(word: &str) -> bool {
    matches!(without_symbols(word).0, "--" | "Z0" | "@@@@" | "0000" | "null" | "pass")
}

/// A text with single blanks in place of line breaks.
pub(super) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
