//! An evaluator without a network, for tests and for the node signature of `bench`: its scores are
//! the same on every machine.

use std::collections::VecDeque;

use crate::{Answered, Batch, EvalError, Evaluator, Scores, Stream};

/// Computes scores from a hash of each query's squares. Values are uniform in ±`spread`
/// centipawns; move scores are uniform in ±`spread * moves`.
#[derive(Clone, Debug)]
pub struct Mock {
    seed: u64,
    spread: f32,
    moves: f32,
    preferred: usize,
    in_flight: usize,
    threads: usize,
    moves_are_dear: bool,
    waiting: VecDeque<Batch>,
}

impl Mock {
    /// A mock whose scores depend on `seed`, as those of a network on its weights.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            spread: 500.0,
            moves: 1.0,
            preferred: 64,
            in_flight: 1,
            threads: 1,
            moves_are_dear: false,
            waiting: VecDeque::new(),
        }
    }

    /// Scales the move scores to ±5, the usual spread of a policy's logits.
    #[must_use]
    pub fn with_policy(self) -> Self {
        Self { moves: 0.01, ..self }
    }

    /// Sets the preferred batch size.
    #[must_use]
    pub fn preferring(self, preferred: usize) -> Self {
        Self { preferred, ..self }
    }

    /// Sets the preferred number of batches in flight.
    #[must_use]
    pub fn keeping(self, in_flight: usize) -> Self {
        Self { in_flight, ..self }
    }

    /// Says that move scores are dear ([`Stream::moves_are_dear`]).
    #[must_use]
    pub fn with_dear_moves(self) -> Self {
        Self { moves_are_dear: true, ..self }
    }

    /// Sets the number of evaluators that it can be divided into ([`Evaluator::apart`]).
    #[must_use]
    pub fn with_threads(self, threads: usize) -> Self {
        Self { threads, ..self }
    }

    /// The score of a query: uniform in ±`spread`, in whole centipawns.
    fn score(&self, squares: &nets::Squares, extra: u64) -> f32 {
        let mut hash = self.seed ^ extra.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for chunk in squares.0.chunks_exact(8) {
            let word = chunk.iter().fold(0_u64, |word, &class| word << 8 | u64::from(class));
            hash = (hash ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd);
            hash ^= hash >> 32;
        }
        let unit = (hash >> 40) as f32 / (1_u32 << 24) as f32;
        ((unit * 2.0 - 1.0) * self.spread).round()
    }
}

impl Evaluator for Mock {
    fn submit(&mut self, batch: Batch) -> Result<(), EvalError> {
        self.waiting.push_back(batch);
        Ok(())
    }

    fn wait(&mut self) -> Result<Answered, EvalError> {
        let batch = self.waiting.pop_front().ok_or(EvalError::NothingInFlight)?;
        let mut scores = Scores::default();
        for query in &batch.queries {
            scores.values.push(if query.value { self.score(&query.squares, 0) } else { 0.0 });
            let moves = &batch.moves[query.move_range()];
            let score = |mv| self.moves * self.score(&query.squares, 1 + u64::from(mv));
            scores.moves.extend(moves.iter().map(|&mv| score(mv)));
        }
        Ok(Answered { batch, scores })
    }

    fn in_flight(&self) -> usize {
        self.waiting.len()
    }

    fn preferred_batch(&self) -> usize {
        self.preferred
    }

    fn largest_batch(&self) -> usize {
        4096
    }

    fn preferred_stream(&self) -> Stream {
        let Self { preferred: batch, in_flight, moves_are_dear, .. } = *self;
        Stream { batch, in_flight, moves_are_dear }
    }

    fn describe(&self) -> String {
        format!("mock evaluator, seed {}", self.seed)
    }

    fn apart(&self) -> Vec<Box<dyn Evaluator>> {
        let alone = || -> Box<dyn Evaluator> {
            let alone = self.clone().with_threads(1).preferring(1);
            Box::new(Self { waiting: VecDeque::new(), ..alone })
        };
        let count = if self.threads > 1 { self.threads } else { 0 };
        (0..count).map(|_| alone()).collect()
    }
}
