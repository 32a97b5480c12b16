//! An evaluator behind a cache, so that each position is evaluated once: for all searches but
//! K-best-first.

use std::collections::HashSet;

use board::Position;
use eval::{Batch, EvalError, Evaluator};
use nets::{Calibration, MoveScores};

use crate::{cache::SearchCache, score::Value, time::TimeManager};

/// Why a search returns without a value.
#[derive(Debug)]
pub(crate) enum Stop {
    /// Time or evaluations ran out, or the search was stopped.
    Over,
    Failed(EvalError),
}

/// An evaluator and a cache of its evaluations.
pub(crate) struct Evaluations {
    evaluator: Box<dyn Evaluator>,
    cache: SearchCache,
    move_scores: MoveScores,
    batch: Batch,
}

impl std::fmt::Debug for Evaluations {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Evaluations")
            .field("evaluator", &self.evaluator.describe())
            .finish_non_exhaustive()
    }
}

impl Evaluations {
    /// A cache of values and move scores in at most `bytes`.
    pub(crate) fn new(
        evaluator: Box<dyn Evaluator>,
        calibration: &Calibration,
        bytes: usize,
    ) -> Self {
        Self {
            evaluator,
            cache: SearchCache::of_evaluations(bytes),
            move_scores: calibration.move_scores,
            batch: Batch::default(),
        }
    }

    /// For an evaluator without move scores: a cache of values in at most `bytes`.
    pub(crate) fn of_values(evaluator: Box<dyn Evaluator>, bytes: usize) -> Self {
        Self {
            evaluator,
            cache: SearchCache::of_values(bytes),
            move_scores: MoveScores::Centipawns,
            batch: Batch::default(),
        }
    }

    /// The unit of move scores.
    pub(crate) fn move_scores(&self) -> MoveScores {
        self.move_scores
    }

    /// Evaluations for the value and the moves of one position.
    pub(crate) fn each(&self) -> u64 {
        if self.move_scores == MoveScores::Policy { 1 } else { 2 }
    }

    /// Positions in one batch: `wanted`, or for 0 the evaluator's preferred batch.
    pub(crate) fn width(&self, wanted: usize) -> usize {
        let width = if wanted == 0 { self.evaluator.preferred_batch() } else { wanted };
        width.clamp(1, self.evaluator.largest_batch())
    }

    pub(crate) fn resize(&mut self, bytes: usize) {
        // The old cache is freed before the new one is made: together they could exceed the limit.
        self.cache = SearchCache::of_evaluations(0);
        self.cache = SearchCache::of_evaluations(bytes);
    }

    /// As [`Evaluations::resize`], for values only.
    pub(crate) fn resize_values(&mut self, bytes: usize) {
        self.cache = SearchCache::of_values(0);
        self.cache = SearchCache::of_values(bytes);
    }

    pub(crate) fn clear(&mut self) {
        self.cache.clear();
    }

    /// The scores of a position's moves, if they are in the cache.
    pub(crate) fn known_scores(&self, position: &Position) -> Option<Vec<i16>> {
        let mut scores = Vec::new();
        let moves = position.legal_moves().len();
        self.cache.read_scores(position.key(), moves, &mut scores).then_some(scores)
    }

    /// The value of a position, if it is in the cache.
    pub(crate) fn known_value(&self, position: &Position) -> Option<Value> {
        self.cache.value(position.key())
    }

    /// Evaluates, in one batch, the values of those positions that are not in the cache.
    pub(crate) fn learn_values(
        &mut self,
        positions: &[&Position],
        timer: &mut TimeManager<'_>,
    ) -> Result<(), Stop> {
        let mut seen = HashSet::with_capacity(positions.len());
        let unvalued: Vec<&Position> = positions
            .iter()
            .copied()
            .filter(|at| seen.insert(at.key()) && self.cache.value(at.key()).is_none())
            .collect();
        self.ask(&unvalued, true, false, timer)
    }

    /// The value of a position for its mover.
    pub(crate) fn value(
        &mut self,
        position: &Position,
        timer: &mut TimeManager<'_>,
    ) -> Result<Value, Stop> {
        if let Some(value) = self.cache.value(position.key()) {
            return Ok(value);
        }
        self.ask(&[position], true, self.move_scores == MoveScores::Policy, timer)?;
        self.cache.value(position.key()).ok_or(Stop::Over)
    }

    /// The scores of a position's legal moves in generation order: centipawns, or hundredths of the
    /// logarithm of chances.
    pub(crate) fn scores(
        &mut self,
        position: &Position,
        timer: &mut TimeManager<'_>,
    ) -> Result<Vec<i16>, Stop> {
        if let Some(scores) = self.known_scores(position) {
            return Ok(scores);
        }
        self.ask(&[position], self.move_scores == MoveScores::Policy, true, timer)?;
        self.known_scores(position).ok_or(Stop::Over)
    }

    /// Evaluates, in one batch for each kind, the values and move scores of those positions that
    /// are not in the cache.
    pub(crate) fn learn(
        &mut self,
        positions: &[&Position],
        timer: &mut TimeManager<'_>,
    ) -> Result<(), Stop> {
        let cache = &self.cache;
        let mut seen = HashSet::with_capacity(positions.len());
        let positions: Vec<&Position> =
            positions.iter().copied().filter(|at| seen.insert(at.key())).collect();
        let unscored: Vec<_> =
            positions.iter().copied().filter(|at| !cache.has_scores(at.key(), None)).collect();
        if self.move_scores == MoveScores::Policy {
            return self.ask(&unscored, true, true, timer);
        }
        let unvalued: Vec<_> =
            positions.iter().copied().filter(|at| cache.value(at.key()).is_none()).collect();
        self.ask(&unvalued, true, false, timer)?;
        self.ask(&unscored, false, true, timer)
    }

    fn ask(
        &mut self,
        positions: &[&Position],
        value: bool,
        moves: bool,
        timer: &mut TimeManager<'_>,
    ) -> Result<(), Stop> {
        if positions.is_empty() {
            return Ok(());
        }
        // A search that may not begin chooses its move by one evaluation.
        let is_first = timer.nodes() == 0 && positions.len() == 1;
        if !is_first && (timer.is_over() || timer.evaluations_left() < positions.len() as u64) {
            return Err(Stop::Over);
        }
        let mut batch = std::mem::take(&mut self.batch);
        batch.clear();
        for position in positions {
            let legal = if moves { position.legal_moves() } else { Default::default() };
            batch.push(position, value, &legal);
        }
        let answered = self.evaluator.evaluate(batch).map_err(Stop::Failed)?;
        timer.spend(positions.len() as u64);
        for (query, &found) in answered.batch.queries.iter().zip(&answered.scores.values) {
            let scores = &answered.scores.moves[query.move_range()];
            self.cache.store_answer(query.key, value.then_some(found), scores, self.move_scores);
        }
        self.batch = answered.batch;
        Ok(())
    }
}
