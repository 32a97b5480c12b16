//! References for tests: plain negamax from the rules, without pruning.

use std::collections::HashMap;

use board::{Move, Position, to_uci};
use eval::{Answered, Batch, EvalError, Evaluator, Mock};

use crate::{
    kbest::opponent::ReplyPenalty,
    quiet::forcing_moves,
    rules,
    score::{
        INFINITY, MATE, MOST_MOVES, Value, from_child, from_child_with_penalty, from_evaluation,
        log_chances,
    },
};

/// Negamax from the rules, with quiescence as in [`crate::quiet`].
pub(crate) struct Plain {
    pub evaluator: Mock,
    pub leaves: HashMap<u64, Value>,
    /// Penalty of unlikely replies ([`crate::Settings::opponent_errors`]).
    pub errors: Value,
}

impl Plain {
    pub(crate) fn new(seed: u64) -> Self {
        Self { evaluator: Mock::new(seed).with_policy(), leaves: HashMap::new(), errors: 0 }
    }

    /// The penalty of each move at this distance from the root, in centipawns.
    fn penalties(&mut self, position: &Position, moves: &[Move], ply: usize) -> Vec<Value> {
        if ply.is_multiple_of(2) || self.errors == 0 {
            return vec![0; moves.len()];
        }
        let mut batch = Batch::default();
        batch.push(position, false, moves);
        let logits = self.evaluator.evaluate(batch).unwrap().scores.moves;
        let mut scores = [0; MOST_MOVES];
        let scores = log_chances(&logits, &mut scores);
        let penalties = ReplyPenalty::new(self.errors, scores);
        scores.iter().map(|&score| penalties.of(score).into()).collect()
    }

    fn evaluation(&mut self, position: &Position) -> Value {
        let mut batch = Batch::default();
        batch.push(position, true, &[]);
        from_evaluation(self.evaluator.evaluate(batch).unwrap().scores.values[0])
    }

    fn leaf(&mut self, position: &Position) -> Value {
        if let Some(&value) = self.leaves.get(&position.key()) {
            return value;
        }
        let value = if position.is_insufficient_material() {
            0
        } else if !position.has_legal_moves() {
            if position.is_check() { -MATE } else { 0 }
        } else {
            let declined = if position.is_check() { -INFINITY } else { self.evaluation(position) };
            let moves = forcing_moves(position);
            moves
                .iter()
                .map(|&mv| from_child(self.leaf(&position.after(mv))))
                .fold(declined, Value::max)
        };
        self.leaves.insert(position.key(), value);
        value
    }

    pub(crate) fn value(&mut self, position: &Position, depth: u32, path: &mut Vec<u64>) -> Value {
        if position.is_insufficient_material() {
            return 0;
        }
        if path.len() > 1 && path[1..].contains(&position.key()) {
            return 0;
        }
        let moves = position.legal_moves();
        if moves.is_empty() {
            return if position.is_check() { -MATE } else { 0 };
        }
        if position.halfmove_clock() >= 100 {
            return 0;
        }
        if depth == 0 {
            return self.leaf(position);
        }
        let penalties = self.penalties(position, &moves, path.len());
        path.push(position.key());
        let value = moves
            .iter()
            .zip(penalties)
            .map(|(&mv, penalty)| {
                from_child_with_penalty(self.value(&position.after(mv), depth - 1, path), penalty)
            })
            .fold(-INFINITY, Value::max);
        path.pop();
        value
    }

    pub(crate) fn root(&mut self, position: &Position, depth: u32) -> HashMap<String, Value> {
        let mut path = vec![position.key()];
        let moves = position.legal_moves();
        moves
            .iter()
            .map(|&mv| {
                let value = from_child(self.value(&position.after(mv), depth - 1, &mut path));
                (to_uci(position, mv), value)
            })
            .collect()
    }
}

/// Negamax whose leaves take the static evaluation.
pub(crate) fn plain_without_quiet(evaluator: &mut Mock, position: &Position, depth: u32) -> Value {
    if let Some(value) = rules::ended(position, None) {
        return value;
    }
    if depth == 0 {
        let mut batch = Batch::default();
        batch.push(position, true, &[]);
        return evaluator
            .evaluate(batch)
            .map_or(0, |answered| from_evaluation(answered.scores.values[0]));
    }
    let moves = position.legal_moves();
    let values = moves
        .iter()
        .map(|&mv| from_child(plain_without_quiet(evaluator, &position.after(mv), depth - 1)));
    values.fold(-INFINITY, Value::max)
}

/// An evaluator with equal priors and values: with random ones some moves would hardly be visited.
pub(crate) struct Impartial(pub Mock);

impl Evaluator for Impartial {
    fn submit(&mut self, batch: Batch) -> Result<(), EvalError> {
        self.0.submit(batch)
    }
    fn wait(&mut self) -> Result<Answered, EvalError> {
        let mut answered = self.0.wait()?;
        answered.scores.moves.fill(0.0);
        answered.scores.values.fill(0.0);
        Ok(answered)
    }
    fn in_flight(&self) -> usize {
        self.0.in_flight()
    }
    fn preferred_batch(&self) -> usize {
        1
    }
    fn largest_batch(&self) -> usize {
        4096
    }
    fn describe(&self) -> String {
        self.0.describe()
    }
}

/// Can the side to move force mate within `moves` of its moves? Searches all moves.
pub(crate) fn mates_in(position: &Position, moves: u32) -> bool {
    position.legal_moves().iter().any(|&mv| {
        let after = position.after(mv);
        let replies = after.legal_moves();
        if replies.is_empty() {
            return after.is_check();
        }
        moves > 1
            && !after.is_insufficient_material()
            && replies.iter().all(|&reply| mates_in(&after.after(reply), moves - 1))
    })
}
