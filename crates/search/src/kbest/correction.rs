//! Correction history: what searches found is often above, or below, the static evaluation of all
//! positions with the same pawns, or with the same pieces of one side. The mean difference corrects
//! later static evaluations.
//!
//! Source: as in Stockfish (2024), which keeps such tables for pawns and for pieces.

use board::{Position, mix64};
use shakmaty::{Board, Color};

use crate::{
    score::{LARGEST_VALUE, Value},
    selectivity::PLY,
};

/// Entries for each structure and side to move.
const ENTRIES: usize = 1 << 14;

/// Structures of a position: its pawns, White's pieces, Black's pieces.
const STRUCTURES: usize = 3;

/// Parts of a centipawn in an entry.
const GRAIN: i32 = 128;

/// A search far from the static evaluation counts as one at this distance, in centipawns.
const MOST: Value = 150;

/// Mean differences between search and static evaluation, for the side to move.
#[derive(Debug)]
pub(super) struct Corrections {
    entries: Vec<i16>,
}

impl Default for Corrections {
    fn default() -> Self {
        Self { entries: vec![0; STRUCTURES * 2 * ENTRIES] }
    }
}

impl Corrections {
    pub(super) fn clear(&mut self) {
        self.entries.fill(0);
    }

    /// A static evaluation, corrected; `percent` of the sum over the structures counts.
    pub(super) fn corrected(&self, structures: Structures, value: Value, percent: i32) -> Value {
        if percent == 0 || value.abs() > LARGEST_VALUE {
            return value;
        }
        let sum: i32 = structures.places().iter().map(|&at| i32::from(self.entries[at])).sum();
        (value + sum * percent / (100 * GRAIN)).clamp(-LARGEST_VALUE, LARGEST_VALUE)
    }

    /// Learns from a search of a position: the value is at least `lower` and at most `upper`, one of
    /// them on the far side of `bound`; `value` is the static evaluation without correction. A bound
    /// on the value that the static evaluation keeps teaches nothing.
    pub(super) fn learn(
        &mut self,
        structures: Structures,
        depth: i16,
        value: Value,
        (lower, upper): (Value, Value),
        bound: Value,
    ) {
        let found = if lower >= bound { lower.max(value) } else { upper.min(value) };
        if found == value || found.abs() > LARGEST_VALUE || value.abs() > LARGEST_VALUE {
            return;
        }
        let difference = (found - value).clamp(-MOST, MOST) * GRAIN;
        let weight = (i32::from(depth / PLY) + 1).min(12);
        for at in structures.places() {
            let entry = i32::from(self.entries[at]);
            self.entries[at] = (entry + (difference - entry) * weight / 256) as i16;
        }
    }
}

/// A position's structures, as far as corrections tell them apart: their entries.
#[derive(Clone, Copy, Debug)]
pub(super) struct Structures([u16; STRUCTURES]);

impl Structures {
    pub(super) fn of(position: &Position) -> Self {
        let board = position.board();
        let white_pawns = u64::from(board.pawns() & board.white());
        let keys = [
            mix64(mix64(white_pawns) ^ u64::from(board.pawns())),
            pieces_key(board, Color::White),
            pieces_key(board, Color::Black),
        ];
        let of_side = usize::from(position.turn().is_black()) * ENTRIES;
        Self(keys.map(|key| (of_side + key as usize % ENTRIES) as u16))
    }

    /// Places in [`Corrections::entries`].
    fn places(self) -> [usize; STRUCTURES] {
        let mut table = 0;
        self.0.map(|place| {
            let at = table + usize::from(place);
            table += 2 * ENTRIES;
            at
        })
    }
}

/// A key of the squares of one side's pieces, the king among them.
fn pieces_key(board: &Board, side: Color) -> u64 {
    let own = board.by_color(side);
    [board.knights(), board.bishops(), board.rooks(), board.queens(), board.kings()]
        .into_iter()
        .fold(0, |key, pieces| mix64(key ^ u64::from(pieces & own)))
}

#[cfg(test)]
mod tests {
    use board::CastlingMode;

    use super::*;

    /// Corrections after many searches that found one value for a position whose evaluation is 0.
    fn taught(position: &Position, lower: Value, upper: Value, bound: Value) -> Corrections {
        let mut corrections = Corrections::default();
        for _ in 0..500 {
            corrections.learn(Structures::of(position), 4 * PLY, 0, (lower, upper), bound);
        }
        corrections
    }

    #[test]
    fn the_mean_difference_is_learned_for_each_structure() {
        let position = Position::default();
        let corrections = taught(&position, 40, LARGEST_VALUE, 30);
        let corrected =
            |position: &Position| corrections.corrected(Structures::of(position), 10, 50);
        assert!((65..=70).contains(&corrected(&position)), "half of three times 40");
        let other = Position::from_fen(
            "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBN1 w Qkq - 0 1",
            CastlingMode::Standard,
        )
        .unwrap();
        assert!((47..=50).contains(&corrected(&other)), "White's pieces are others");
        let black = position.after_null_move().unwrap();
        assert_eq!(corrected(&black), 10, "the other side to move");
    }

    #[test]
    fn bounds_that_allow_the_evaluation_teach_nothing() {
        let position = Position::default();
        for (lower, upper, bound) in [(-20, LARGEST_VALUE, -30), (-LARGEST_VALUE, 20, 30)] {
            let corrections = taught(&position, lower, upper, bound);
            assert_eq!(corrections.corrected(Structures::of(&position), 0, 100), 0);
        }
        let mated = taught(&position, -LARGEST_VALUE - 5, -LARGEST_VALUE - 1, 0);
        assert_eq!(
            mated.corrected(Structures::of(&position), 0, 100),
            0,
            "a mate is no evaluation"
        );
    }

    #[test]
    fn a_correction_is_limited_and_can_be_cleared() {
        let position = Position::default();
        let mut corrections = taught(&position, -LARGEST_VALUE, -2000, -100);
        assert!((-450..=-440).contains(&corrections.corrected(Structures::of(&position), 0, 100)));
        assert_eq!(corrections.corrected(Structures::of(&position), 0, 0), 0);
        corrections.clear();
        assert_eq!(corrections.corrected(Structures::of(&position), 0, 100), 0);
    }
}
