//! Pruning and reductions: nodes that are settled before their moves are searched, and moves that are
//! searched to a smaller depth or not at all.

use board::{Move, Position};
use nets::MoveScores;

use super::AlphaBeta;
use crate::{
    depth_first::child_window,
    evaluations::Stop,
    quiet::exchange,
    score::{LARGEST_VALUE, Value, from_child},
    selectivity::{Selectivity, StaticVerdict},
    time::TimeManager,
};

impl AlphaBeta {
    /// The static evaluation of a node, kept by distance from the root; `None` in check and where no
    /// rule uses it. With a policy it costs nothing, because one evaluation gives both; without one
    /// only nodes with zero windows are evaluated.
    pub(super) fn static_value(
        &mut self,
        position: &Position,
        (alpha, beta): (Value, Value),
        ply: usize,
        timer: &mut TimeManager<'_>,
    ) -> Result<Option<Value>, Stop> {
        let has_policy = self.stack.evaluations.move_scores() == MoveScores::Policy;
        let value = if position.is_check()
            || self.selectivity == Selectivity::NONE
            || !has_policy && beta - alpha > 1
        {
            None
        } else {
            Some(self.stack.evaluations.value(position, timer)?)
        };
        self.static_values.resize(self.static_values.len().max(ply + 1), None);
        self.static_values[ply] = value;
        Ok(value)
    }

    /// Is the static evaluation of a node better than that of the same side two plies before, or four
    /// if that one was in check? Also where it is not known.
    fn is_improving(&self, ply: usize) -> bool {
        let at = |before: usize| {
            let ply = ply.checked_sub(before)?;
            self.static_values.get(ply).copied().flatten()
        };
        at(2).or_else(|| at(4)).is_none_or(|before| at(0).is_none_or(|now| now > before))
    }

    /// The value of a node that its static evaluation `value` settles: reverse futility pruning far
    /// above the window, razoring far below it.
    pub(super) fn settle_by_value(
        &mut self,
        position: &Position,
        depth: i16,
        value: Value,
        (alpha, beta): (Value, Value),
        ply: usize,
        timer: &mut TimeManager<'_>,
    ) -> Result<Option<Value>, Stop> {
        let is_improving = || self.is_improving(ply);
        match self.selectivity.static_verdict(depth, beta, false, value, is_improving) {
            StaticVerdict::FailsHigh(lower) => Ok(Some(lower)),
            StaticVerdict::FailsLow(upper) => {
                let found = self.forcing(position, depth, (alpha, beta), upper, ply, timer)?;
                Ok(Some(found.max(upper.min(alpha))))
            }
            StaticVerdict::Open => Ok(None),
        }
    }

    /// Null-move pruning: a lower bound of at least `beta` if a node reaches it although its side
    /// passes. With one piece left, where zugzwang is likely, a search of the moves to the same
    /// reduced depth must confirm it; with none, the side does not pass.
    pub(super) fn null_move(
        &mut self,
        position: &Position,
        depth: i16,
        value: Value,
        beta: Value,
        ply: usize,
        timer: &mut TimeManager<'_>,
    ) -> Result<Option<Value>, Stop> {
        let pieces = position.piece_count();
        if pieces == 0 {
            return Ok(None);
        }
        let Some(depth) = self.selectivity.null_move_depth(depth, beta, value) else {
            return Ok(None);
        };
        let Some(after) = position.after_null_move() else { return Ok(None) };
        let window = (beta - 1, beta);
        self.stack.step_to(position);
        self.after_null_move = true;
        let found = self.value(&after, depth, child_window(window), ply + 1, timer);
        self.stack.step_back();
        let found = from_child(found?).min(LARGEST_VALUE);
        if found < beta {
            return Ok(None);
        }
        if pieces == 1 && depth > 0 {
            self.after_null_move = true;
            if self.value(position, depth, window, ply, timer)? < beta {
                return Ok(None);
            }
        }
        Ok(Some(found))
    }

    /// Is a late quiet move pruned (late-move pruning by its score)? A reply to the root's move
    /// that draws by repetition is not.
    pub(super) fn prunes_late_move(
        &self,
        after: &Position,
        score: i16,
        depth: i16,
        bound: Value,
        ply: usize,
    ) -> bool {
        let value = self.static_values.get(ply).copied().flatten();
        let move_scores = self.stack.evaluations.move_scores();
        self.history.is_none()
            && self
                .selectivity
                .late_pruning_limit(depth, bound, value, move_scores)
                .is_some_and(|limit| i32::from(score) < limit)
            && !(ply == 1 && self.stack.is_repetition_here(after))
    }

    /// Late-move reduction of a move with this score, in parts of a ply.
    pub(super) fn reduction(&self, depth: i16, place: usize, score: i16) -> i16 {
        let move_scores = match self.history {
            None => self.stack.evaluations.move_scores(),
            Some(_) => MoveScores::Centipawns,
        };
        self.selectivity.reduction(depth, place, score, move_scores)
    }

    /// Delta pruning: the upper bound on a capture or promotion in a position with the static
    /// evaluation `value`, where that is below the bound and the move does not decide the game.
    pub(super) fn delta_prunes(
        &self,
        position: &Position,
        mv: Move,
        after: &Position,
        value: Value,
        bound: Value,
    ) -> Option<Value> {
        if !mv.is_capture() && !mv.is_promotion() {
            return None;
        }
        let reach = self.selectivity.delta_prunes(value, exchange(position, mv), bound)?;
        let decides = after.is_check() || self.stack.ended(after).is_some();
        (!decides).then_some(reach)
    }
}
