//! What is searched less deeply, or not at all.
//!
//! Moves are ordered by their scores. A late quiet move that gives no check is first searched to a
//! smaller depth, the smaller the later it comes (logarithmically, as late-move reductions in
//! alpha-beta engines); if it still reaches the bound it is searched again to its full depth
//! before that is believed. A late quiet move whose chance in the policy is small is not searched,
//! the smaller the deeper; without a policy, next to the leaves, one whose score lies far below the
//! bound. The K-best-first search skips more of them the further the position's own value lies
//! below the bound, and captures that cannot lift it so far (delta pruning).
//!
//! Within two plies of the leaves a position is first asked for its value. Far above the bound,
//! that settles it (reverse futility); far below, only forcing moves are looked at (razoring). Only
//! in between its moves are scored. How far is in proportion to the depth, which grows by half a
//! ply at a time: half a ply more looks further at the leaves in doubt only.

use board::{Move, Position, Role};
use nets::MoveScores;

use crate::{
    quiet::exchange,
    score::{LARGEST_VALUE, Value},
};

/// Depths are counted in parts of a ply, so that moves may cost more or less than one.
pub(crate) const PLY: i16 = 16;

/// What a position's value says about the bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StaticVerdict {
    /// The position is worth at least this, which reaches the bound.
    FailsHigh(Value),
    /// Without forcing moves it is worth at most this, which misses the bound.
    FailsLow(Value),
    /// Its moves have to be looked at.
    Open,
}

/// The rules; `None` switches one off.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Selectivity {
    /// Divides ln(depth) x ln(rank) into plies of reduction.
    pub reduction_divisor: Option<f32>,
    /// At depth 1 a late quiet move is skipped when its score plus this is below the bound,
    /// centipawns.
    pub late_pruning_margin: Option<Value>,
    /// With a policy, a late quiet move is skipped when its chance is below this, in hundredths of
    /// the natural logarithm: at depth 1, and how much less for each further ply.
    pub late_pruning_chance: Option<(Value, Value)>,
    /// By how much more of the same, for each centipawn by which the position's value is below the
    /// bound.
    pub late_pruning_below: Option<Value>,
    /// Where only forcing moves are looked at, a capture counts when the value, what it wins by
    /// exchange and this reach the bound, centipawns.
    pub delta_margin: Option<Value>,
    /// How far from the bound a value must lie to settle a position, in centipawns a ply of
    /// depth.
    pub static_margin: Option<Value>,
    /// By how much deeper the root is searched each time, in parts of a ply. At half a ply a
    /// position asks its moves only where its value lies within half the margin of a ply.
    pub deepening: i16,
}

/// Moves in front of the order that are always searched in full; twice as many at the root.
const NEVER_LATE: usize = 3;

/// Centipawns below the bound that count for [`Selectivity::late_pruning_below`].
const MOST_BELOW: Value = 150;

/// Depth, in plies, up to which values may settle a position.
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
    /// Every move to full depth.
    pub(crate) const NONE: Self = Self {
        reduction_divisor: None,
        late_pruning_margin: None,
        late_pruning_chance: None,
        late_pruning_below: None,
        delta_margin: None,
        static_margin: None,
        deepening: PLY,
    };

    /// Is a position of this depth asked for its value before its moves? All leaves are, unless in
    /// check.
    pub(crate) fn evaluates_first(&self, depth: i16, bound: Value, check: bool) -> bool {
        let near = self.static_margin.is_some()
            && depth <= STATIC_PLIES * PLY
            && bound.abs() <= LARGEST_VALUE;
        !check && (depth == 0 || near)
    }

    /// What a position's value says.
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

    /// Is a late quiet move with this score not worth a search? `value` is the position's own, if
    /// that counts. Where the question is a mate, every move is: it may be the only defence.
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

    /// What a capture that wins `gain` by exchange may lift a position to that is worth `value`
    /// without it, where that is below the bound: it need not be searched, unless it decides
    /// the game.
    pub(crate) fn delta_prunes(&self, value: Value, gain: Value, bound: Value) -> Option<Value> {
        let reach = value + gain + self.delta_margin?;
        (bound.abs() <= LARGEST_VALUE && reach < bound).then_some(reach)
    }

    /// By how many plies a late quiet move is searched less.
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
    fn far_below_the_separator_more_moves_are_hopeless() {
        let rules = Selectivity::default();
        let prunes_late_move =
            |score, value| rules.prunes_late_move(score, PLY, 100, value, MoveScores::Policy);
        assert!(prunes_late_move(-310, None) && !prunes_late_move(-290, None));
        assert!(!prunes_late_move(-290, Some(150)), "above the separator nothing changes");
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
