//! The target square of a selector head for a move: the origin square for the piece selector, the
//! destination square for the move selector of the moving piece.

use board::Role;

use crate::{HeadKind, MOVE_PLANES, PolicyIndex, Squares, moves::step_of_plane};

/// Classes of [`Squares`]: the mover's pieces from pawn to king begin here; then its rook that may
/// still castle.
const OWN_PAWN: u8 = 2;
const OWN_CASTLING_ROOK: u8 = 8;

impl HeadKind {
    /// Every kind of head.
    pub const ALL: [Self; 9] = [
        Self::Value,
        Self::Moves,
        Self::From,
        Self::PawnTo,
        Self::KnightTo,
        Self::BishopTo,
        Self::RookTo,
        Self::QueenTo,
        Self::KingTo,
    ];

    /// The piece selector and the six move selectors.
    pub const SELECTORS: [Self; 7] = [
        Self::From,
        Self::PawnTo,
        Self::KnightTo,
        Self::BishopTo,
        Self::RookTo,
        Self::QueenTo,
        Self::KingTo,
    ];

    /// True when the outputs are logits of a softmax over the 64 squares.
    #[must_use]
    pub fn is_selector(self) -> bool {
        Self::SELECTORS.contains(&self)
    }

    /// The piece of a move selector; `None` for other heads.
    #[must_use]
    pub fn role(self) -> Option<Role> {
        Role::ALL.into_iter().find(|&role| Self::to(role) == self)
    }

    /// The square, from the mover's side, that this selector should choose when `played` was
    /// played; `None` when another selector is trained on that move. A castling king goes to the g-
    /// or the c-file.
    #[must_use]
    pub fn target(self, squares: &Squares, played: PolicyIndex) -> Option<u8> {
        let (from, to) = move_squares(squares, played)?;
        let role = own_role(squares.0[usize::from(from)])?;
        match self {
            Self::Value | Self::Moves => None,
            Self::From => Some(from),
            _ => (Self::to(role) == self).then_some(to),
        }
    }
}

/// The role of the mover's piece of a class; `None` for other classes.
fn own_role(class: u8) -> Option<Role> {
    match class {
        OWN_PAWN..OWN_CASTLING_ROOK => Role::ALL.get(usize::from(class - OWN_PAWN)).copied(),
        OWN_CASTLING_ROOK => Some(Role::Rook),
        _ => None,
    }
}

/// Origin and destination square of a move, from the mover's side; `None` when the index is out of
/// range or leads off the board.
#[must_use]
pub fn move_squares(squares: &Squares, index: PolicyIndex) -> Option<(u8, u8)> {
    let (from, plane) = (usize::from(index) / MOVE_PLANES, usize::from(index) % MOVE_PLANES);
    if from >= 64 {
        return None;
    }
    let (files, ranks) = step_of_plane(plane);
    let (file, rank) = ((from % 8) as i32 + files, (from / 8) as i32 + ranks);
    if !(0..8).contains(&file) || !(0..8).contains(&rank) {
        return None;
    }
    let mut to = (8 * rank + file) as u8;
    let is_king = own_role(squares.0[from]) == Some(Role::King);
    if is_king && own_role(squares.0[usize::from(to)]) == Some(Role::Rook) {
        // Castling is encoded as the king moving onto its rook; the king ends on the g- or the
        // c-file.
        to = 8 * rank as u8 + if files > 0 { 6 } else { 2 };
    }
    Some((from as u8, to))
}

#[cfg(test)]
mod tests {
    use board::{CastlingMode, Position};

    use super::*;
    use crate::policy_index;

    #[test]
    fn every_legal_move_has_its_squares() {
        let fens = [
            "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
            "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R b KQkq - 0 1",
            "8/P1k5/8/3pP3/8/8/6p1/4K2R w K d6 0 1",
            "8/P1k5/8/8/3pP3/8/6p1/4K2R b K e3 0 1",
        ];
        for fen in fens {
            let position = Position::from_fen(fen, CastlingMode::Standard).unwrap();
            let squares = Squares::of(&position);
            let flip = if position.turn().is_white() { 0 } else { 56 };
            for mv in position.legal_moves() {
                let index = policy_index(mv, position.turn());
                let from = mv.from().map_or(64, usize::from);
                let mut to = usize::from(mv.to());
                if mv.is_castle() {
                    to = to / 8 * 8 + if to > from { 6 } else { 2 };
                }
                let wanted = ((from ^ flip) as u8, (to ^ flip) as u8);
                assert_eq!(move_squares(&squares, index), Some(wanted), "{fen} {mv:?}");
                let role = mv.role();
                for head in HeadKind::SELECTORS {
                    let target = match head {
                        HeadKind::From => Some(wanted.0),
                        _ => (HeadKind::to(role) == head).then_some(wanted.1),
                    };
                    assert_eq!(head.target(&squares, index), target);
                }
                assert_eq!(HeadKind::to(role).role(), Some(role));
            }
            assert_eq!(HeadKind::From.target(&squares, PolicyIndex::MAX), None);
            assert_eq!(HeadKind::From.role(), None);
        }
    }

    #[test]
    fn no_index_gives_a_square_off_the_board() {
        for index in 0..=PolicyIndex::MAX {
            if let Some((from, to)) = move_squares(&Squares::default(), index) {
                assert!(from < 64 && to < 64 && from != to, "{index}");
            }
        }
    }
}
