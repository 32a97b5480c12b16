//! An evaluator that counts and times what a search asks of it.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use eval::{Answered, Batch, EvalError, Evaluator, Stream};

/// Counts and times of an evaluator's queries.
#[derive(Clone, Debug, Default)]
pub(super) struct EvaluatorStatistics {
    pub(super) batches: u64,
    pub(super) queries: u64,
    /// Queries that are equal to an earlier one of the same search or batch.
    pub(super) repeated: u64,
    /// Time inside the evaluator.
    pub(super) time: Duration,
    /// Time for counting.
    pub(super) counting: Duration,
    /// The queries of this search: key, value requested, moves requested.
    pub(super) seen: HashSet<(u64, bool, bool)>,
}

/// An evaluator that counts and times its queries.
pub(super) struct CountingEvaluator {
    pub(super) inner: Box<dyn Evaluator>,
    pub(super) statistics: Arc<Mutex<EvaluatorStatistics>>,
}

impl CountingEvaluator {
    fn timed<T>(&mut self, call: impl FnOnce(&mut dyn Evaluator) -> T) -> T {
        let started = Instant::now();
        let answer = call(self.inner.as_mut());
        self.statistics.lock().unwrap_or_else(PoisonError::into_inner).time += started.elapsed();
        answer
    }
}

impl Evaluator for CountingEvaluator {
    fn submit(&mut self, batch: Batch) -> Result<(), EvalError> {
        {
            let mut statistics = self.statistics.lock().unwrap_or_else(PoisonError::into_inner);
            let started = Instant::now();
            statistics.batches += 1;
            statistics.queries += batch.len() as u64;
            for query in &batch.queries {
                let is_new = statistics.seen.insert((query.key, query.value, query.move_count > 0));
                statistics.repeated += u64::from(!is_new);
            }
            statistics.counting += started.elapsed();
        }
        self.timed(|inner| inner.submit(batch))
    }

    fn wait(&mut self) -> Result<Answered, EvalError> {
        self.timed(|inner| inner.wait())
    }

    fn in_flight(&self) -> usize {
        self.inner.in_flight()
    }

    fn preferred_batch(&self) -> usize {
        self.inner.preferred_batch()
    }

    fn largest_batch(&self) -> usize {
        self.inner.largest_batch()
    }

    fn preferred_stream(&self) -> Stream {
        self.inner.preferred_stream()
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }

    fn apart(&self) -> Vec<Box<dyn Evaluator>> {
        let counting = |inner| -> Box<dyn Evaluator> {
            Box::new(CountingEvaluator { inner, statistics: Arc::clone(&self.statistics) })
        };
        self.inner.apart().into_iter().map(counting).collect()
    }
}

#[cfg(test)]
mod tests {
    use eval::Mock;

    use super::*;

    #[test]
    fn queries_are_counted() {
        let statistics = Arc::new(Mutex::new(EvaluatorStatistics::default()));
        let mut counting = CountingEvaluator {
            inner: Box::new(Mock::new(1)),
            statistics: Arc::clone(&statistics),
        };
        let position = board::Position::default();
        let mut batch = Batch::default();
        batch.push(&position, true, &[]);
        batch.push(&position, true, &position.legal_moves());
        for _ in 0..2 {
            counting.evaluate(batch.clone()).unwrap();
        }
        let statistics = statistics.lock().unwrap();
        assert_eq!((statistics.batches, statistics.queries, statistics.repeated), (2, 4, 2));
    }
}
