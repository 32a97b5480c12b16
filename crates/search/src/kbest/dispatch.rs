//! A pass's traffic with the evaluator: pending questions go out in batches, answers come back in
//! the same order. Evaluators that work in the background have several batches in flight, so that
//! the tree works while they do.

use std::{
    collections::{HashSet, VecDeque},
    hash::BuildHasherDefault,
};

use eval::{Answered, Batch, EvalError, Evaluator};
use nets::MoveScores;

use super::pass::{Ask, Context, KeyHasher, Pending, Root, Searcher};
use crate::score::from_evaluation;

/// A question as the evaluator hears it: the position's key, and whether its value and its moves
/// are asked for.
type Question = (u64, bool, bool);

/// Questions that have been asked and not been answered.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    /// Whose they are, batch after batch, the oldest first.
    batches: VecDeque<Vec<Pending>>,
    questions: HashSet<Question, BuildHasherDefault<KeyHasher>>,
    /// Whoever would have asked the same again (other depths or bounds).
    again: Vec<Pending>,
    /// Batches whose memory can be used again.
    spare: Vec<Batch>,
}

impl InFlight {
    pub(super) fn len(&self) -> usize {
        self.batches.len()
    }
}

fn question(move_scores: MoveScores, key: u64, ask: Ask) -> Question {
    match ask {
        // A policy comes with the value.
        _ if move_scores == MoveScores::Policy => (key, true, true),
        Ask::Value => (key, true, false),
        Ask::Moves => (key, false, true),
    }
}

impl Searcher {
    /// Sends at most `width` of the pending questions off, each once. How many; none where all of
    /// them are in flight already.
    pub(super) fn send(
        &mut self,
        width: usize,
        context: &mut Context<'_>,
    ) -> Result<usize, EvalError> {
        let mut batch = self.in_flight.spare.pop().unwrap_or_default();
        batch.clear();
        let later = self.pending.split_off(width.min(self.pending.len()));
        let mut asked = std::mem::replace(&mut self.pending, later);
        asked.retain(|pending| {
            let Some(node) = self.nodes.get_mut(pending.node) else { return false };
            let question @ (_, value, moves) =
                question(self.move_scores, node.position.key(), pending.ask);
            if !self.in_flight.questions.insert(question) {
                self.in_flight.again.push(*pending);
                return false;
            }
            if moves {
                node.generate_moves();
            }
            batch.push(&node.position, value, if moves { node.legal() } else { &[] });
            self.spent[usize::from(node.root_edge)] += 1;
            true
        });
        let count = batch.len();
        if count == 0 {
            self.in_flight.spare.push(batch);
            return Ok(0);
        }
        self.batches += 1;
        self.evaluations += count as u64;
        self.last_batch = count;
        self.in_flight.batches.push_back(asked);
        context.evaluator.submit(batch)?;
        context.timer.send(count as u64);
        Ok(count)
    }

    /// Waits for the oldest batch and takes up its answers.
    pub(super) fn receive(
        &mut self,
        root: &Root<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), EvalError> {
        let (asked, answered) = self.take_oldest(context)?;
        let cache = &mut *context.cache;
        for (pending, &value) in asked.iter().zip(&answered.scores.values) {
            match pending.ask {
                _ if self.nodes.get(pending.node).is_none() => {}
                Ask::Moves => self.ask_moves(root, pending.node, cache),
                Ask::Value => {
                    let value = from_evaluation(value);
                    if let Some((lower, upper)) = self.apply_value(root, pending.node, value, cache)
                    {
                        self.close(pending.node, lower, upper, cache, true);
                    }
                }
            }
        }
        self.in_flight.spare.push(answered.batch);
        // Some that wait to be sent may have been answered meanwhile.
        let (nodes, again) = (&mut self.nodes, &mut self.in_flight.again);
        self.pending.retain(|pending| {
            let Some(node) = nodes.get_mut(pending.node) else { return false };
            let key = node.position.key();
            let is_known = match pending.ask {
                Ask::Value => cache.value(key).is_some(),
                Ask::Moves => {
                    node.generate_moves();
                    cache.scores(key, node.legal().len()).is_some()
                }
            };
            if is_known {
                again.push(*pending);
            }
            !is_known
        });
        for pending in std::mem::take(&mut self.in_flight.again) {
            let reference = pending.node;
            let Some(node) = self.nodes.get(reference) else { continue };
            let key = node.position.key();
            if self.in_flight.questions.contains(&question(self.move_scores, key, pending.ask)) {
                self.in_flight.again.push(pending); // Still in flight.
                continue;
            }
            let value = cache.value(key);
            if let Some((lower, upper)) = self.begin(root, reference, value, cache) {
                self.close(reference, lower, upper, cache, true);
            }
        }
        Ok(())
    }

    /// Waits for everything in flight; what it says is remembered for later passes.
    pub(super) fn drain(&mut self, context: &mut Context<'_>) -> Result<(), EvalError> {
        while self.in_flight.len() > 0 {
            let (_, answered) = self.take_oldest(context)?;
            self.in_flight.spare.push(answered.batch);
        }
        Ok(())
    }

    /// The oldest batch, its answers in memory.
    fn take_oldest(
        &mut self,
        context: &mut Context<'_>,
    ) -> Result<(Vec<Pending>, Answered), EvalError> {
        let asked = self.in_flight.batches.pop_front().unwrap_or_default();
        let answered = context.evaluator.wait()?;
        context.timer.receive(answered.batch.len() as u64);
        for (query, &value) in answered.batch.queries.iter().zip(&answered.scores.values) {
            let moves = &answered.scores.moves[query.move_range()];
            context.cache.store_answer(
                query.key,
                query.value.then_some(value),
                moves,
                self.move_scores,
            );
            self.in_flight.questions.remove(&(query.key, query.value, !moves.is_empty()));
        }
        Ok((asked, answered))
    }

    /// After an error: nothing is in flight any more.
    pub(super) fn abort(&mut self, evaluator: &mut dyn Evaluator) {
        for _ in 0..evaluator.in_flight() {
            evaluator.wait().ok();
        }
        self.in_flight = InFlight::default();
    }
}
