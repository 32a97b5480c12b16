//! Reductions and pruning.
//!
//! * Late-move reductions: a late quiet move without check is searched to a smaller depth first,
//!   the smaller the later it comes (logarithmically) and, in alpha-beta, the less likely the policy
//!   finds it; if it reaches the bound it is searched again to full depth.
//! * Late-move pruning: a late quiet move with a small chance in the policy is not searched; the
//!   limit falls with the depth and rises the further the static evaluation lies below the bound.
//!   Without a policy, at depth 1, a move whose score lies far below the bound is not searched
//!   (futility pruning).
//! * Delta pruning: a capture that cannot lift the static evaluation to the bound is not searched.
//! * Reverse futility pruning: near the leaves, a static evaluation far above the bound settles the
//!   position.
//! * Razoring: within two plies of the leaves, with a static evaluation far below the bound, only
//!   forcing moves are searched.
//! * Checks that lose nothing by exchange are searched half a ply deeper, in K-best-first.
//! * A quiet move that caused cutoffs elsewhere in the tree counts as likelier (history heuristic),
//!   in K-best-first.
//! * A static evaluation is mixed with what the parent's says of the position, and corrected by what
//!   searches found for the same pawns and pieces (correction history), in K-best-first.
//! * Null-move pruning: where the static evaluation reaches the bound, the side to move first passes
//!   its turn; if a shallower search still reaches the bound, the position is settled.
//!
//! The static margins are in proportion to the depth, which grows by half a ply at a time in
//! K-best-first, so half a ply more resolves only positions near the bound.
//!
//! Sources: delta pruning, reverse futility pruning (static null move pruning) and its margin where
//! the evaluation improves as in Stockfish; razoring after Birmingham and Kent 1977 and Heinz 1998;
//! late-move reductions as in Fruit and Stockfish, by the policy after realization probability
//! (Tsuruoka and others 2002); null move after Beal 1989 and Donninger 1993.

use board::{Move, Position, Role};
use nets::MoveScores;

use crate::{
    quiet::exchange,
    score::{LARGEST_VALUE, Value},
    tuning::Tuning,
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

/// Null-move pruning (Beal 1989, Donninger 1993); depths in parts of a ply.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct NullMove {
    /// Least depth.
    pub least_depth: i16,
    /// The search after the null move is shallower by this,
    pub base: i16,
    /// by the depth divided by this,
    pub divisor: i16,
    /// and by a ply for each of these centipawns of the static evaluation above the bound, up to
    /// three.
    pub step: Value,
}

/// Late-move reductions by the policy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PolicyReduction {
    /// Log-chance, in hundredths, of a move that is reduced by its rank alone.
    pub likely: i16,
    /// Sixteenths of a ply more for each unit of the log-chance below it, and less above it, times
    /// half ln(depth).
    pub each: i16,
}

/// The rules; `None` switches one off.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Selectivity {
    /// Late-move reductions: ln(depth) x ln(rank) is divided by this, in plies.
    pub reduction_divisor: Option<f32>,
    /// Late-move reductions grow as the policy's chance of the move falls.
    pub reduction_by_policy: Option<PolicyReduction>,
    /// Futility pruning: at depth 1 a late quiet move is pruned when its score plus this is below
    /// the bound, in centipawns.
    pub late_pruning_margin: Option<Value>,
    /// Late-move pruning by policy, in hundredths of a log-chance: a move below the first number at
    /// depth 1, and below the second more for each further ply, is pruned.
    pub late_pruning_chance: Option<(i32, i32)>,
    /// The first of these numbers rises by this, in hundredths of a log-chance, for each centipawn
    /// by which the static evaluation misses the bound.
    pub late_pruning_below: Option<Value>,
    /// Delta pruning: a capture is pruned when the static evaluation, the exchange and this are
    /// below the bound, in centipawns.
    pub delta_margin: Option<Value>,
    /// Reverse futility pruning: distance of the static evaluation above the bound, in centipawns
    /// for each ply of depth.
    pub static_margin: Option<Value>,
    /// Razoring: the same distance below the bound.
    pub razor_margin: Value,
    /// Largest depth of reverse futility pruning, in plies.
    pub static_plies: i16,
    /// Reverse futility pruning: the margin is smaller by this, in centipawns, where the static
    /// evaluation is better than two plies before.
    pub improving: Value,
    /// Null-move pruning.
    pub null_move: Option<NullMove>,
    /// Step of iterative deepening, in parts of a ply. At depth half a ply a position's moves are
    /// searched only if its static evaluation lies within half of [`Self::static_margin`].
    pub deepening: i16,
    /// So many first moves of a position are never late; of the root [`ROOT_NEVER_LATE`].
    pub never_late: usize,
    /// The part of the parent's static evaluation in a position's, in percent: the mean of two
    /// evaluations has a smaller error than one.
    pub parent_part: Value,
    /// The part of the correction history's sum that is added to a static evaluation, in percent.
    pub correction: i32,
    /// The largest history of a quiet move adds this to its log-chance, in hundredths.
    pub history: i32,
    /// A check that loses nothing by exchange is searched deeper by this, in parts of a ply.
    pub check_extension: i16,
}

/// So many first moves of the root are never late.
const ROOT_NEVER_LATE: usize = 6;

/// Largest distance below the bound, in centipawns, for [`Selectivity::late_pruning_below`].
const MOST_BELOW: Value = 150;

/// Largest depth of razoring, in plies.
const RAZOR_PLIES: i16 = 2;

impl Selectivity {
    /// The rules of K-best-first.
    pub(crate) fn kbest(tuning: &Tuning) -> Self {
        Self {
            reduction_divisor: Some(tuning.kbest_reduction_divisor as f32 / 100.0),
            reduction_by_policy: None,
            late_pruning_margin: Some(150),
            late_pruning_chance: Some((
                -tuning.kbest_late_pruning,
                -tuning.kbest_late_pruning_each,
            )),
            late_pruning_below: Some(1),
            delta_margin: Some(tuning.kbest_delta_margin),
            static_margin: Some(tuning.kbest_static_margin),
            razor_margin: tuning.kbest_razor_margin,
            static_plies: tuning.kbest_static_plies as i16,
            improving: 0,
            null_move: Some(NullMove {
                least_depth: tuning.kbest_null_move_plies as i16 * PLY,
                base: tuning.kbest_null_move_base as i16,
                divisor: tuning.kbest_null_move_divisor as i16,
                step: tuning.kbest_null_move_step,
            }),
            deepening: PLY / 2,
            never_late: tuning.kbest_never_late as usize,
            parent_part: tuning.kbest_parent_part,
            correction: tuning.kbest_correction,
            history: tuning.kbest_history,
            check_extension: tuning.kbest_check_extension as i16,
        }
    }

    /// The rules of alpha-beta.
    pub(crate) fn alphabeta(tuning: &Tuning) -> Self {
        Self {
            reduction_divisor: Some(tuning.alphabeta_reduction_divisor as f32 / 100.0),
            reduction_by_policy: Some(PolicyReduction {
                likely: -tuning.alphabeta_reduction_likely as i16,
                each: tuning.alphabeta_reduction_each as i16,
            }),
            late_pruning_chance: Some((
                -tuning.alphabeta_late_pruning,
                -tuning.alphabeta_late_pruning_each,
            )),
            delta_margin: Some(tuning.alphabeta_delta_margin),
            static_margin: Some(tuning.alphabeta_static_margin),
            razor_margin: tuning.alphabeta_razor_margin,
            static_plies: tuning.alphabeta_static_plies as i16,
            improving: tuning.alphabeta_improving,
            null_move: Some(NullMove {
                least_depth: tuning.alphabeta_null_move_plies as i16 * PLY,
                base: tuning.alphabeta_null_move_base as i16,
                divisor: tuning.alphabeta_null_move_divisor as i16,
                step: tuning.alphabeta_null_move_step,
            }),
            never_late: tuning.alphabeta_never_late as usize,
            ..Self::kbest(tuning)
        }
    }

    /// Every move is searched to full depth.
    pub(crate) const NONE: Self = Self {
        reduction_divisor: None,
        reduction_by_policy: None,
        late_pruning_margin: None,
        late_pruning_chance: None,
        late_pruning_below: None,
        delta_margin: None,
        static_margin: None,
        razor_margin: 0,
        static_plies: 0,
        improving: 0,
        null_move: None,
        deepening: PLY,
        never_late: usize::MAX,
        parent_part: 0,
        correction: 0,
        history: 0,
        check_extension: 0,
    };

    /// A position's static evaluation, mixed with what its parent's says of it, both for the side
    /// to move.
    pub(crate) fn mixed(&self, value: Value, parent: Option<Value>) -> Value {
        match parent {
            Some(parent) if value.abs().max(parent.abs()) <= LARGEST_VALUE => {
                value + (parent - value) * self.parent_part / 100
            }
            _ => value,
        }
    }

    /// Does a position of this depth get its static evaluation before its moves? All leaves do,
    /// unless in check.
    pub(crate) fn evaluates_first(&self, depth: i16, bound: Value, check: bool) -> bool {
        let near = self.static_margin.is_some()
            && depth <= self.static_plies.max(RAZOR_PLIES) * PLY
            && bound.abs() <= LARGEST_VALUE;
        !check && (depth == 0 || near)
    }

    /// Reverse futility pruning and razoring by a position's static evaluation `value`;
    /// `is_improving`: is it better than two plies before?
    pub(crate) fn static_verdict(
        &self,
        depth: i16,
        bound: Value,
        check: bool,
        value: Value,
        is_improving: impl FnOnce() -> bool,
    ) -> StaticVerdict {
        if !self.evaluates_first(depth, bound, check) {
            return StaticVerdict::Open;
        }
        let margin_of = |each: Value| each * Value::from(depth) / Value::from(PLY);
        let margin = margin_of(self.static_margin.unwrap_or(0));
        let razor_margin = margin_of(self.razor_margin);
        let smallest = (margin - self.improving).max(0);
        if value - margin >= bound {
            StaticVerdict::FailsHigh(value - margin)
        } else if value - smallest >= bound && is_improving() {
            StaticVerdict::FailsHigh(value - smallest)
        } else if depth <= RAZOR_PLIES * PLY && value + razor_margin < bound {
            StaticVerdict::FailsLow(value + razor_margin)
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
        let first = if at_root { ROOT_NEVER_LATE } else { self.never_late };
        place >= first && !check && !is_forcing(position, mv)
    }

    /// Late quiet moves with a score below this are pruned. `value` is the static evaluation, if it
    /// counts. Where the bound is a mate no move is pruned, because it may be the only defence.
    pub(crate) fn late_pruning_limit(
        &self,
        depth: i16,
        bound: Value,
        value: Option<Value>,
        scores: MoveScores,
    ) -> Option<i32> {
        let further = i32::from(depth - PLY);
        if bound.abs() > LARGEST_VALUE {
            return None;
        }
        match scores {
            MoveScores::Centipawns if further > 0 => None,
            MoveScores::Centipawns => self.late_pruning_margin.map(|margin| bound - margin),
            MoveScores::Policy => {
                let below = value.map_or(0, |value| (bound - value).clamp(0, MOST_BELOW));
                let more = self.late_pruning_below.unwrap_or(0) * below;
                self.late_pruning_chance
                    .map(|(least, each)| least + each * further / i32::from(PLY) + more)
            }
        }
    }

    /// What a move at this depth, from a position to the one `after` it, is searched deeper, in parts
    /// of a ply.
    pub(crate) fn extension(
        &self,
        depth: i16,
        position: &Position,
        mv: Move,
        after: &Position,
    ) -> i16 {
        let is_extended = self.check_extension > 0
            && depth >= PLY
            && after.is_check()
            && exchange(position, mv) >= 0;
        if is_extended { self.check_extension } else { 0 }
    }

    /// Delta pruning: the upper bound on a capture that wins `gain` by exchange in a position with
    /// static evaluation `value`, where that is below the bound. Then the capture is not searched
    /// unless it decides the game.
    pub(crate) fn delta_prunes(&self, value: Value, gain: Value, bound: Value) -> Option<Value> {
        let reach = value + gain + self.delta_margin?;
        (bound.abs() <= LARGEST_VALUE && reach < bound).then_some(reach)
    }

    /// The depth of the search after a null move, if there is to be one; `value`: the static
    /// evaluation.
    pub(crate) fn null_move_depth(&self, depth: i16, bound: Value, value: Value) -> Option<i16> {
        let NullMove { least_depth, base, divisor, step } = self.null_move?;
        if depth < least_depth || value < bound || bound.abs() > LARGEST_VALUE {
            return None;
        }
        let above = (Value::from(PLY) * (value - bound) / step).min(3 * Value::from(PLY));
        Some((depth - base - depth / divisor - above as i16).max(0))
    }

    /// Late-move reduction of a move with this score, in parts of a ply, whole plies.
    pub(crate) fn reduction(
        &self,
        depth: i16,
        place: usize,
        score: i16,
        scores: MoveScores,
    ) -> i16 {
        let Some(divisor) = self.reduction_divisor.filter(|_| depth > PLY) else { return 0 };
        let plies = f32::from(depth) / f32::from(PLY);
        let mut less = plies.ln() * (1.0 + place as f32).ln() / divisor;
        if let Some(PolicyReduction { likely, each }) = self.reduction_by_policy
            && scores == MoveScores::Policy
        {
            let below = (f32::from(likely) - f32::from(score)) / 100.0;
            less += below * f32::from(each) / 16.0 * plies.ln() / 2.0;
        }
        (0.5 + less.clamp(0.0, plies)) as i16 * PLY
    }
}

/// Promotions and captures that lose nothing.
fn is_forcing(position: &Position, mv: Move) -> bool {
    mv.promotion() == Some(Role::Queen) || mv.is_capture() && exchange(position, mv) >= 0
}

#[cfg(test)]
mod tests;
