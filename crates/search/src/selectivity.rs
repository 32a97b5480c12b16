//! Reductions and pruning.
//!
//! * Late-move reductions: a late quiet move without check is searched to a smaller depth first,
//!   the smaller the later it comes (logarithmically); if it reaches the bound it is searched again
//!   to full depth.
//! * Late-move pruning: a late quiet move with a small chance in the policy is not searched; the
//!   limit falls with the depth. Without a policy, at depth 1, a move whose score lies far below
//!   the bound is not searched (futility pruning).
//! * Delta pruning: a capture that cannot lift the static evaluation to the bound is not searched.
//! * Reverse futility pruning: within two plies of the leaves, a static evaluation far above the
//!   bound settles the position.
//! * Razoring: within two plies of the leaves, with a static evaluation far below the bound, only
//!   forcing moves are searched.
//!
//! Late-move pruning in the K-best-first search prunes more moves the further the static evaluation
//! lies below the bound. The static margins are in proportion to the depth, which grows by half a
//! ply at a time, so half a ply more resolves only positions near the bound.
//!
//! Sources: delta pruning and reverse futility pruning (static null move pruning) as in Stockfish;
//! razoring after Birmingham and Kent 1977 and Heinz 1998; late-move reductions as in Fruit and
//! Stockfish.

use board::{Move, Position, Role};
use nets::MoveScores;

use crate::{
    quiet::exchange,
    score::{LARGEST_VALUE, Value},
};

/// Parts of a ply in one ply: the unit of depths, so that a search can deepen by less than a ply.
pub(crate) const PLY: i16 = 16;

/// What a position's static evaluation says about the bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StaticVerdict {
    /// The value is at least this, which reaches the bound (reverse futility pruning).
    FailsHigh(Value),
    /// Without forcing moves the value is at most this, which misses the bound (razoring).
    FailsLow(Value),
    /// The moves have to be searched.
    Open,
}

/// The rules; `None` switches one off.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Selectivity {
    /// Late-move reductions: ln(depth) x ln(rank) is divided by this, in plies.
    pub reduction_divisor: Option<f32>,
    /// Futility pruning: at depth 1 a late quiet move is pruned when its score plus this is below
    /// the bound, in centipawns.
    pub late_pruning_margin: Option<Value>,
    /// Late-move pruning by policy: a late quiet move is pruned when its log-chance is below the
    /// first number at depth 1, plus the second for each further ply, in hundredths.
    pub late_pruning_chance: Option<(Value, Value)>,
    /// Late-move pruning by policy: the limit rises by this for each centipawn by which the static
    /// evaluation is below the bound.
    pub late_pruning_below: Option<Value>,
    /// Delta pruning: a capture is searched when static evaluation, exchange and this margin
    /// together reach the bound, in centipawns.
    pub delta_margin: Option<Value>,
    /// Reverse futility pruning and razoring: distance between static evaluation and bound, in
    /// centipawns for each ply of depth.
    pub static_margin: Option<Value>,
    /// Step of iterative deepening, in parts of a ply. At depth half a ply a position's moves are
    /// searched only if its static evaluation lies within half of [`Self::static_margin`].
    pub deepening: i16,
}

/// Moves at the front of the order that are never late; twice as many at the root.
const NEVER_LATE: usize = 3;

/// Largest distance below the bound, in centipawns, for [`Selectivity::late_pruning_below`].
const MOST_BELOW: Value = 150;

/// Largest depth, in plies, of reverse futility pruning and razoring.
const STATIC_PLIES: i16 = 2;

impl Default for Selectivity {
    fn default() -> Self {
        Self {
            reduction_divisor: Some(2.0),
            late_pruning_margin: Some(150),
            late_pruning_chance: Some((-300, -60)),
            late_pruning_below: Some(1),
            delta_margin: Some(100),
            static_margin: Some(100),
            deepening: PLY / 2,
        }
    }
}

impl Selectivity {
    /// Every move is searched to full depth.
    pub(crate) const NONE: Self = Self {
        reduction_divisor: None,
        late_pruning_margin: None,
        late_pruning_chance: None,
        late_pruning_below: None,
        delta_margin: None,
        static_margin: None,
        deepening: PLY,
    };

    /// Does a position of this depth get its static evaluation before its moves? All leaves do,
    /// unless in check.
    pub(crate) fn evaluates_first(&self, depth: i16, bound: Value, check: bool) -> bool {
        let near = self.static_margin.is_some()
            && depth <= STATIC_PLIES * PLY
            && bound.abs() <= LARGEST_VALUE;
        !check && (depth == 0 || near)
    }

    /// Reverse futility pruning and razoring by a position's static evaluation `value`.
    pub(crate) fn static_verdict(
        &self,
        depth: i16,
        bound: Value,
        check: bool,
        value: Value,
    ) -> StaticVerdict {
        if !self.evaluates_first(depth, bound, check) {
            return StaticVerdict::Open;
        }
        let margin = self.static_margin.unwrap_or(0) * Value::from(depth) / Value::from(PLY);
        if value - margin >= bound {
            StaticVerdict::FailsHigh(value - margin)
        } else if value + margin < bound {
            StaticVerdict::FailsLow(value + margin)
        } else {
            StaticVerdict::Open
        }
    }

    /// Is the move at this place of the order late and quiet, unless it gives check? `check`: is
    /// its side in check?
    pub(crate) fn is_late(
        &self,
        position: &Position,
        check: bool,
        mv: Move,
        place: usize,
        at_root: bool,
    ) -> bool {
        let first = if at_root { 2 * NEVER_LATE } else { NEVER_LATE };
        place >= first && !check && !is_forcing(position, mv)
    }

    /// Is a late quiet move with this score pruned? `value` is the static evaluation, if it counts.
    /// Where the bound is a mate no move is pruned, because it may be the only defence.
    pub(crate) fn prunes_late_move(
        &self,
        score: i16,
        depth: i16,
        bound: Value,
        value: Option<Value>,
        scores: MoveScores,
    ) -> bool {
        let further = i32::from(depth - PLY);
        let score = i32::from(score);
        bound.abs() <= LARGEST_VALUE
            && match scores {
                MoveScores::Centipawns => {
                    further <= 0
                        && self.late_pruning_margin.is_some_and(|margin| score + margin < bound)
                }
                MoveScores::Policy => {
                    let below = value.map_or(0, |value| (bound - value).clamp(0, MOST_BELOW));
                    let more = self.late_pruning_below.unwrap_or(0) * below;
                    self.late_pruning_chance.is_some_and(|(least, each)| {
                        score < least + each * further / i32::from(PLY) + more
                    })
                }
            }
    }

    /// Delta pruning: the upper bound on a capture that wins `gain` by exchange in a position with
    /// static evaluation `value`, where that is below the bound. Then the capture is not searched
    /// unless it decides the game.
    pub(crate) fn delta_prunes(&self, value: Value, gain: Value, bound: Value) -> Option<Value> {
        let reach = value + gain + self.delta_margin?;
        (bound.abs() <= LARGEST_VALUE && reach < bound).then_some(reach)
    }

    /// Late-move reduction, in plies.
    pub(crate) fn reduction(&self, depth: i16, place: usize) -> i16 {
        let Some(divisor) = self.reduction_divisor.filter(|_| depth > PLY) else { return 0 };
        let depth = f32::from(depth) / f32::from(PLY);
        (0.5 + depth.ln() * (1.0 + place as f32).ln() / divisor) as i16
    }
}

/// Promotions and captures that lose nothing.
fn is_forcing(position: &Position, mv: Move) -> bool {
    mv.promotion() == Some(Role::Queen) || mv.is_capture() && exchange(position, mv) >= 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_moves_are_pruned_far_below_the_bound() {
        let rules = Selectivity::default();
        let prunes_late_move =
            |score, value| rules.prunes_late_move(score, PLY, 100, value, MoveScores::Policy);
        assert!(prunes_late_move(-310, None) && !prunes_late_move(-290, None));
        assert!(!prunes_late_move(-290, Some(150)), "no change above the bound");
        assert!(prunes_late_move(-290, Some(80)) && !prunes_late_move(-270, Some(80)));
        assert!(!prunes_late_move(-140, Some(-2000)), "likely moves are always searched");
        let mated =
            rules.prunes_late_move(-900, PLY, -LARGEST_VALUE - 1, Some(0), MoveScores::Policy);
        assert!(!mated, "a mate may have one defence only");
    }

    #[test]
    fn margins_grow_with_depth() {
        let rules = Selectivity::default();
        let static_verdict = |depth, value| rules.static_verdict(depth, 0, false, value);
        assert_eq!(static_verdict(PLY / 2, 50), StaticVerdict::FailsHigh(0));
        assert_eq!(
            [static_verdict(PLY / 2, 49), static_verdict(PLY / 2, -50)],
            [StaticVerdict::Open; 2]
        );
        assert_eq!(static_verdict(PLY / 2, -51), StaticVerdict::FailsLow(-1));
        assert_eq!(
            [
                static_verdict(PLY, 99),
                static_verdict(PLY * 3 / 2, 149),
                static_verdict(PLY * 2, 199)
            ],
            [StaticVerdict::Open; 3]
        );
        assert_eq!(static_verdict(0, 0), StaticVerdict::FailsHigh(0));
    }

    #[test]
    fn captures_that_win_too_little_are_bounded_by_what_they_win() {
        let rules = Selectivity::default();
        assert_eq!(rules.delta_prunes(-500, 300, 0), Some(-100));
        assert_eq!(rules.delta_prunes(-500, 400, 0), None);
        assert_eq!(rules.delta_prunes(-500, 0, -LARGEST_VALUE - 1), None);
        assert_eq!(Selectivity::NONE.delta_prunes(-500, 0, 0), None);
    }
}
