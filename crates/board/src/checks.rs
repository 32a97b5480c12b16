//! Which moves give check, where many moves of one position are looked at: the lines to the king
//! are drawn once.

use shakmaty::{Bitboard, ByRole, Move, attacks};

use crate::Position;

/// The squares and pieces that give check in a position.
#[derive(Clone, Debug)]
pub struct Checks<'a> {
    position: &'a Position,
    /// Squares from which each kind of piece of the side to move attacks the king.
    from: ByRole<Bitboard>,
    /// Pieces of the side to move that uncover an attack if they leave their line.
    uncovering: Bitboard,
}

impl<'a> Checks<'a> {
    /// Of the moves of a position.
    #[must_use]
    pub fn of(position: &'a Position) -> Self {
        let (board, turn) = (position.board(), position.turn());
        let (mut from, mut uncovering) = (ByRole::default(), Bitboard::EMPTY);
        if let Some(king) = board.king_of(!turn) {
            let occupied = board.occupied();
            let (straight, diagonal) =
                (attacks::rook_attacks(king, occupied), attacks::bishop_attacks(king, occupied));
            from = ByRole {
                pawn: attacks::pawn_attacks(!turn, king),
                knight: attacks::knight_attacks(king),
                bishop: diagonal,
                rook: straight,
                queen: straight | diagonal,
                king: Bitboard::EMPTY,
            };
            let in_line = attacks::rook_attacks(king, Bitboard::EMPTY) & board.rooks_and_queens()
                | attacks::bishop_attacks(king, Bitboard::EMPTY) & board.bishops_and_queens();
            for slider in in_line & board.by_color(turn) {
                let between = attacks::between(king, slider) & occupied;
                if between.count() == 1 {
                    uncovering |= between & board.by_color(turn);
                }
            }
        }
        Self { position, from, uncovering }
    }

    /// Does this legal move give check?
    #[must_use]
    pub fn gives(&self, mv: Move) -> bool {
        match mv {
            Move::Normal { role, from, to, promotion: None, .. }
                if !self.uncovering.contains(from) =>
            {
                self.from.get(role).contains(to)
            }
            // Squares on the line become empty, or two pieces move.
            _ => self.position.gives_check(mv),
        }
    }
}
