//! The history heuristic (Schaeffer 1983): quiet moves that caused cutoffs elsewhere in the tree
//! come earlier.
//!
//! In alpha-beta it orders moves for networks without move scores. In K-best-first it is added to a
//! policy's scores: a policy does not learn what refutes one move after another in this tree.

use board::{Move, Position};

use crate::{quiet::exchange, selectivity::PLY};

/// History stays within ±this: winning captures come before it and losing ones behind it.
pub(crate) const MOST: i32 = 2_000;

/// Score of an even capture, above every history.
const CAPTURES: i32 = 10_000;

/// Pairs of squares.
const MOVES: usize = 64 * 64;

/// Cutoffs of each quiet move by side, from-square and to-square.
#[derive(Clone, Debug)]
pub(crate) struct History {
    table: Vec<i16>,
}

impl Default for History {
    fn default() -> Self {
        Self { table: vec![0; 2 * MOVES] }
    }
}

impl History {
    fn place(position: &Position, mv: Move) -> usize {
        let from = mv.from().map_or(0, usize::from);
        usize::from(position.turn().is_white()) * MOVES + from * 64 + usize::from(mv.to())
    }

    /// The history of a position's moves, within ±[`MOST`]; 0 for those that are not quiet.
    pub(crate) fn of(&self, position: &Position) -> impl Fn(Move) -> i32 {
        let table = &self.table.as_chunks::<MOVES>().0[usize::from(position.turn().is_white())];
        move |mv| {
            let (from, to) = match mv {
                Move::Normal { from, to, capture: None, promotion: None, .. } => (from, to),
                Move::Castle { king, rook } => (king, rook),
                _ => return 0,
            };
            table[(usize::from(from) << 6 | usize::from(to)) % MOVES].into()
        }
    }

    pub(crate) fn is_quiet(mv: Move) -> bool {
        !mv.is_capture() && !mv.is_promotion()
    }

    /// A move's score for the order, highest first.
    pub(crate) fn score(&self, position: &Position, mv: Move) -> i16 {
        let exchange = exchange(position, mv).clamp(-CAPTURES, CAPTURES);
        let score = match (Self::is_quiet(mv), exchange) {
            (true, exchange) => i32::from(self.table[Self::place(position, mv)]) + exchange.min(0),
            (false, 0..) => CAPTURES + exchange,
            (false, losing) => losing - CAPTURES,
        };
        score as i16
    }

    /// Raises the move that caused a cutoff at a depth in parts of a ply, and lowers those tried
    /// before it.
    pub(crate) fn add(
        &mut self,
        position: &Position,
        cut: Move,
        depth: i16,
        tried: impl Iterator<Item = Move>,
    ) {
        let depth = i32::from(depth / PLY);
        let bonus = (16 * depth * depth).min(MOST / 2);
        let mut change = |mv: Move, by: i32| {
            if Self::is_quiet(mv) {
                let entry = &mut self.table[Self::place(position, mv)];
                let old = i32::from(*entry);
                // History gravity: steps get smaller near ±MOST, so that it is never exceeded.
                *entry = (old + by - old * by.abs() / MOST) as i16;
            }
        };
        tried.for_each(|mv| change(mv, -bonus));
        change(cut, bonus);
    }

    pub(crate) fn clear(&mut self) {
        self.table.fill(0);
    }

    /// Ages the history at the start of a search.
    pub(crate) fn fade(&mut self) {
        self.table.iter_mut().for_each(|entry| *entry /= 4);
    }
}

#[cfg(test)]
mod tests {
    use board::CastlingMode;

    use super::*;

    #[test]
    fn captures_surround_quiet_moves_and_cutoffs_raise_them() {
        // One black pawn is undefended; another one is defended and attacked by the queen.
        let fen = "4k3/2p5/1p1p4/8/8/R2Q4/8/4K3 w - - 0 1";
        let position = Position::from_fen(fen, CastlingMode::Standard).unwrap();
        let mv = |text: &str| board::parse_uci(&position, text).unwrap();
        let mut history = History::default();
        let quiet = [mv("a3a8"), mv("d3d4"), mv("e1e2")];
        for depth in [1, 5, 30] {
            for _ in 0..1000 {
                history.add(&position, quiet[1], depth * PLY, quiet[2..].iter().copied());
            }
            let [other, cut, tried] = quiet.map(|mv| history.score(&position, mv));
            let losing = history.score(&position, mv("d3d6"));
            assert!(
                cut > other && other > tried && tried > losing,
                "{cut} {other} {tried} {losing}"
            );
        }
        assert_eq!(history.of(&position)(mv("d3d6")), 0, "a capture has no history");
        assert!((MOST / 2..=MOST).contains(&history.of(&position)(quiet[1])));
        history.fade();
        assert!(history.score(&position, quiet[1]) <= (MOST / 4) as i16);
        history.clear();
        assert_eq!(history.of(&position)(quiet[1]), 0);
    }
}
