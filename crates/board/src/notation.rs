//! Moves to and from text: UCI (standard and Chess960) and SAN.

use shakmaty::{Move, san::San, san::SanPlus, uci::UciMove};

use crate::{
    BoardError, Position,
    error::quoted,
    loose_moves::{Loose, loose_move},
};

/// Reads a move in UCI notation, legal in `position`. Castling is accepted both as the king's
/// two-square step and as king takes own rook.
///
/// # Errors
/// The text is not a move, or the move is not legal.
pub fn parse_uci(position: &Position, text: &str) -> Result<Move, BoardError> {
    let uci: UciMove = text.parse().map_err(|_| BoardError::MoveSyntax { text: quoted(text) })?;
    uci.to_move(position.chess())
        .map_err(|_| BoardError::IllegalMove { text: quoted(text), fen: position.fen() })
}

/// Reads a move in SAN, legal in `position`, or as other programs and people write it: long
/// algebraic (`Ng1-f3`, `e2e4`), figurines, `a8Q`, `a8(Q)`, `exd6 e.p.`, castling with zeros, pieces
/// in lower case. Check and annotation marks are ignored.
///
/// # Errors
/// The text is not a move, or the move is not legal, or several moves fit.
pub fn parse_san(position: &Position, text: &str) -> Result<Move, BoardError> {
    let bare = text.trim_end_matches(['!', '?', '+', '#']);
    if let Ok(mv) = bare
        .parse::<San>()
        .map_err(drop)
        .and_then(|san| san.to_move(position.chess()).map_err(drop))
    {
        return Ok(mv);
    }
    match loose_move(position, bare) {
        Loose::Move(mv) => Ok(mv),
        Loose::NotLegal => Err(BoardError::IllegalMove { text: quoted(text), fen: position.fen() }),
        Loose::NoMove => Err(BoardError::MoveSyntax { text: quoted(text) }),
    }
}

/// UCI notation in the position's castling mode (`e1g1`, or `e1h1` in Chess960).
#[must_use]
pub fn to_uci(position: &Position, mv: Move) -> String {
    mv.to_uci(position.castling_mode()).to_string()
}

/// SAN with check and mate marks.
#[must_use]
pub fn to_san(position: &Position, mv: Move) -> String {
    SanPlus::from_move(position.chess().clone(), mv).to_string()
}

/// A numbered line of SAN moves, as in `12. Nf3 d5 13. c4` or `12... d5 13. c4`; stops before an
/// illegal move.
#[must_use]
pub fn san_line(position: &Position, moves: &[Move]) -> String {
    let mut position = position.clone();
    let mut line = String::new();
    for (index, &mv) in moves.iter().enumerate() {
        if !position.legal_moves().contains(&mv) {
            break;
        }
        let number = position.ply() / 2 + 1;
        if index > 0 {
            line.push(' ');
        }
        if position.turn().is_white() {
            line.push_str(&format!("{number}. "));
        } else if index == 0 {
            line.push_str(&format!("{number}... "));
        }
        line.push_str(&to_san(&position, mv));
        position.play(mv);
    }
    line
}
