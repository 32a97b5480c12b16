//! What is wrong with a FEN, in words that say where: the move generator only names the rule.

use shakmaty::{Board, Chess, Color, PositionError, PositionErrorKinds, Role, fen::ParseFenError};

/// What is wrong with the text of a FEN.
pub(crate) fn of_text(error: &ParseFenError, text: &str) -> String {
    let fields: Vec<&str> = text.split_whitespace().collect();
    match error {
        ParseFenError::InvalidBoard | ParseFenError::InvalidPocket => {
            of_placement(fields.first().copied().unwrap_or_default())
        }
        ParseFenError::InvalidTurn => {
            "the second field, the side to move, must be w or b".to_owned()
        }
        ParseFenError::InvalidCastling => {
            "the third field, castling, must be letters such as KQkq, or -".to_owned()
        }
        ParseFenError::InvalidEpSquare => {
            "the fourth field, en passant, must be a square such as e3, or -".to_owned()
        }
        ParseFenError::InvalidHalfmoveClock => {
            "the fifth field, the halfmove clock, must be a number".to_owned()
        }
        ParseFenError::InvalidFullmoves => {
            "the sixth field, the move number, must be a number".to_owned()
        }
        ParseFenError::InvalidFen | ParseFenError::InvalidRemainingChecks => {
            format!("it has {} fields, and a FEN has four to six", fields.len())
        }
    }
}

/// The first rank of a piece placement that does not have eight squares, or holds something else.
fn of_placement(placement: &str) -> String {
    let ranks: Vec<&str> = placement.split('/').collect();
    if ranks.len() != 8 {
        return match ranks.len() {
            1 => "it has no ranks such as 8/4k3".to_owned(),
            count => format!("it has {count} ranks instead of 8"),
        };
    }
    for (rank, text) in (1..=8).rev().zip(ranks) {
        let is_known =
            |letter: &char| letter.is_ascii_digit() || Role::from_char(*letter).is_some();
        if let Some(other) = text.chars().find(|letter| !is_known(letter)) {
            return format!("rank {rank} holds {other:?}, which is not a piece");
        }
        let squares: u32 = text.chars().map(|letter| letter.to_digit(10).unwrap_or(1)).sum();
        if squares != 8 {
            return format!("rank {rank} has {squares} squares instead of 8");
        }
    }
    "its piece placement cannot be read".to_owned()
}

/// The rules that a position breaks.
pub(crate) fn of_position(error: &PositionError<Chess>, board: &Board) -> String {
    let kinds = error.kinds();
    let has = |kind| kinds.contains(kind);
    if has(PositionErrorKinds::EMPTY_BOARD) {
        return "the board is empty".to_owned();
    }
    let mut faults = Vec::new();
    for (side, name) in [(Color::White, "White"), (Color::Black, "Black")] {
        match (board.by_color(side) & board.kings()).count() {
            0 => faults.push(format!("{name} has no king")),
            1 => {}
            kings => faults.push(format!("{name} has {kings} kings")),
        }
    }
    let others = [
        (PositionErrorKinds::PAWNS_ON_BACKRANK, "a pawn stands on the first or the last rank"),
        (PositionErrorKinds::OPPOSITE_CHECK, "the side that is not to move is in check"),
        (
            PositionErrorKinds::TOO_MUCH_MATERIAL,
            "a side has more pieces than are possible in a game",
        ),
        (
            PositionErrorKinds::INVALID_CASTLING_RIGHTS,
            "the king or a rook is not where castling needs it",
        ),
    ];
    faults.extend(others.iter().filter(|(kind, _)| has(*kind)).map(|(_, text)| (*text).to_owned()));
    if faults.is_empty() { error.to_string() } else { faults.join(", ") }
}

#[cfg(test)]
mod tests {
    use crate::{CastlingMode, Position};

    #[test]
    fn a_refusal_says_where() {
        for (text, words) in [
            ("nonsense", "no ranks"),
            ("8/8/8/8 w - - 0 1", "4 ranks instead of 8"),
            ("k7/8/8/9/8/8/8/K7 w - - 0 1", "rank 5 has 9 squares"),
            ("k7/8/8/8/8/8/6/K7 w - - 0 1", "rank 2 has 6 squares"),
            ("k7/8/8/8/8/8/7z/K7 w - - 0 1", "rank 2 holds 'z'"),
            ("k7/8/8/8/8/8/8/K7 x - - 0 1", "second field"),
            ("k7/8/8/8/8/8/8/K7 w ? - 0 1", "third field"),
            ("k7/8/8/8/8/8/8/K7 w - e9 0 1", "fourth field"),
            ("k7/8/8/8/8/8/8/K7 w - - x 1", "fifth field"),
            ("k7/8/8/8/8/8/8/K7 w - - 0 x", "sixth field"),
            ("8/8/8/8/8/8/8/8 w - - 0 1", "the board is empty"),
            ("8/8/8/8/8/8/8/K7 w - - 0 1", "Black has no king"),
            ("kk6/8/8/8/8/8/8/8 w - - 0 1", "White has no king, Black has 2 kings"),
            ("k6P/8/8/8/8/8/8/K7 w - - 0 1", "the last rank"),
            ("k7/8/8/8/8/8/8/K6r b - - 0 1", "not to move is in check"),
        ] {
            let error = Position::from_fen(text, CastlingMode::Standard).unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
