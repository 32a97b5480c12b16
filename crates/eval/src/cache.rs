//! A cache in front of an evaluator: it keeps scores by position in memory of a fixed size, and a
//! position that occurs twice in a batch is evaluated once.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{
    Answered, Batch, EvalError, Evaluator, Query, Scores, Stream,
    store::{MoveTable, ValueTable},
};

/// Hits and misses of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounts {
    /// Requested values that were found in the cache, and those that were not.
    pub value_hits: u64,
    pub value_misses: u64,
    /// Queries whose move scores were all found in the cache, and the others.
    pub move_hits: u64,
    pub move_misses: u64,
    /// Misses that an earlier query of the same batch already covers.
    pub duplicates: u64,
}

/// An evaluator with a cache of its scores.
///
/// Cached scores equal those of the inner evaluator to the last bit. A position is identified by 64
/// bits of a hash over its key and squares.
#[derive(Debug)]
pub struct Cached<E> {
    inner: E,
    memory: EvaluationCache,
    pending: VecDeque<Pending>,
    /// By hash: index in the inner batch of the first query, and of the last one with moves. Used
    /// within `submit` only.
    asked: HashMap<u64, (usize, usize)>,
    /// Batches whose memory is reused.
    spare: Vec<Batch>,
}

/// A cache of scores of a fixed size. A clone shares its memory, so several evaluators of the same
/// network and number format can use one cache.
#[derive(Clone, Debug)]
pub struct EvaluationCache(Arc<Mutex<Tables>>);

#[derive(Debug)]
struct Tables {
    values: ValueTable,
    moves: MoveTable,
    counts: CacheCounts,
}

/// A batch in flight.
#[derive(Debug)]
struct Pending {
    batch: Batch,
    /// Scores from the cache; `wait` adds those of the inner batch.
    scores: Scores,
    /// Queries with missing scores.
    open: Vec<Open>,
    /// Was an inner batch submitted?
    inner: bool,
}

/// A query that needs scores of the inner batch.
#[derive(Clone, Copy, Debug)]
struct Open {
    query: usize,
    /// Index of the inner query with the value, if it is missing.
    value: Option<usize>,
    /// Index of the inner query with the move scores, if they are missing.
    moves: Option<usize>,
    hash: u64,
}

const MEBIBYTE: usize = 1 << 20;

impl EvaluationCache {
    /// A cache of at most `mebibytes`: one third for values, two thirds for move scores. With 0 it
    /// only merges equal queries of a batch.
    #[must_use]
    pub fn new(mebibytes: usize) -> Self {
        let bytes = mebibytes.saturating_mul(MEBIBYTE);
        Self(Arc::new(Mutex::new(Tables {
            values: ValueTable::new(bytes / 3),
            moves: MoveTable::new(bytes / 3 * 2),
            counts: CacheCounts::default(),
        })))
    }

    /// Hits and misses since the cache was made.
    #[must_use]
    pub fn counts(&self) -> CacheCounts {
        self.tables().counts
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        // A panic never leaves the tables inconsistent, so a poisoned lock is usable.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<E: Evaluator> Cached<E> {
    /// `inner` behind a cache of its own of at most `mebibytes`.
    #[must_use]
    pub fn new(inner: E, mebibytes: usize) -> Self {
        Self::over(inner, &EvaluationCache::new(mebibytes))
    }

    /// `inner` behind a cache that may be shared with evaluators of the same network and number
    /// format.
    #[must_use]
    pub fn over(inner: E, memory: &EvaluationCache) -> Self {
        Self {
            inner,
            memory: memory.clone(),
            pending: VecDeque::new(),
            asked: HashMap::new(),
            spare: Vec::new(),
        }
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.memory.tables()
    }

    /// Size of the tables in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let tables = self.tables();
        tables.values.bytes() + tables.moves.bytes()
    }

    /// Looks a query up. Missing scores are added to the inner batch, once for each position.
    fn look_up(
        asked_before: &mut HashMap<u64, (usize, usize)>,
        tables: &mut Tables,
        batch: &Batch,
        query: usize,
        scores: &mut Scores,
        inner: &mut Batch,
    ) -> Option<Open> {
        let asked = &batch.queries[query];
        let moves = &batch.moves[asked.move_range()];
        let hash = hash(asked);
        let (mut needs_value, mut needs_moves) = (asked.value, !moves.is_empty());
        if needs_value && let Some(value) = tables.values.get(hash) {
            scores.values[query] = value;
            needs_value = false;
            tables.counts.value_hits += 1;
        }
        if needs_moves && tables.moves.get(hash, moves, &mut scores.moves[asked.move_range()]) {
            needs_moves = false;
            tables.counts.move_hits += 1;
        }
        tables.counts.value_misses += u64::from(needs_value);
        tables.counts.move_misses += u64::from(needs_moves);
        if !needs_value && !needs_moves {
            return None;
        }
        let known = asked_before.get(&hash).copied();
        // The same position with other moves needs a query of its own.
        let fits = |index: &usize| inner.moves[inner.queries[*index].move_range()] == *moves;
        let index = match known {
            Some((first, _)) if !needs_moves => Some(first),
            Some((_, with_moves)) => Some(with_moves).filter(fits),
            None => None,
        };
        tables.counts.duplicates += u64::from(index.is_some());
        let index = index.unwrap_or_else(|| {
            inner.push_query(
                &Query { value: false, ..*asked },
                if needs_moves { moves } else { &[] },
                &batch.past[asked.past_range()],
            );
            inner.len() - 1
        });
        let first = known.map_or(index, |(first, _)| first);
        asked_before.insert(
            hash,
            (first, if needs_moves { index } else { known.map_or(index, |known| known.1) }),
        );
        let value = needs_value.then(|| {
            inner.queries[first].value = true;
            first
        });
        Some(Open { query, value, moves: needs_moves.then_some(index), hash })
    }

    /// Copies the inner batch's scores to the queries that need them and into the cache.
    fn take(tables: &mut Tables, answered: &Answered, pending: &mut Pending) {
        for open in &pending.open {
            if let Some(index) = open.value {
                let value = answered.scores.values[index];
                pending.scores.values[open.query] = value;
                tables.values.insert(open.hash, value);
            }
            if let Some(index) = open.moves {
                let range = answered.batch.queries[index].move_range();
                let scores = &answered.scores.moves[range.clone()];
                let asker = pending.batch.queries[open.query].move_range();
                pending.scores.moves[asker].copy_from_slice(scores);
                tables.moves.insert(open.hash, &answered.batch.moves[range], scores);
            }
        }
    }
}

/// Hash of all that a score depends on: the position's key and its squares. A network that sees the
/// way to a position answers for the first way that is asked; only a repeated position is another
/// one.
fn hash(query: &Query) -> u64 {
    let words = query.squares.0.chunks_exact(8);
    let key = query.key ^ u64::from(query.has_occurred);
    let mixed = words.fold(key ^ 0x9e37_79b9_7f4a_7c15, |hash, chunk| {
        let word = chunk.iter().fold(0_u64, |word, &class| word << 8 | u64::from(class));
        (hash ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd).rotate_left(29)
    });
    // The last step spreads the last word over all bits.
    (mixed ^ mixed >> 32).wrapping_mul(0xc4ce_b9fe_1a85_ec53)
}

impl<E: Evaluator> Evaluator for Cached<E> {
    fn submit(&mut self, batch: Batch) -> Result<(), EvalError> {
        batch.check()?;
        let mut scores =
            Scores { values: vec![0.0; batch.len()], moves: vec![0.0; batch.moves.len()] };
        let mut inner = self.spare.pop().unwrap_or_default();
        inner.clear();
        self.asked.clear();
        let mut open = Vec::new();
        let mut tables = self.memory.tables();
        for query in 0..batch.len() {
            let asked = &mut self.asked;
            open.extend(Self::look_up(asked, &mut tables, &batch, query, &mut scores, &mut inner));
        }
        drop(tables);
        let asks = !inner.is_empty();
        if asks {
            self.inner.submit(inner)?;
        } else {
            self.spare.push(inner);
        }
        self.pending.push_back(Pending { batch, scores, open, inner: asks });
        Ok(())
    }

    fn wait(&mut self) -> Result<Answered, EvalError> {
        let mut pending = self.pending.pop_front().ok_or(EvalError::NothingInFlight)?;
        if pending.inner {
            let answered = self.inner.wait()?;
            Self::take(&mut self.tables(), &answered, &mut pending);
            self.spare.push(answered.batch);
        }
        Ok(Answered { batch: pending.batch, scores: pending.scores })
    }

    fn in_flight(&self) -> usize {
        self.pending.len()
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
        format!("{}, cache of {} MiB", self.inner.describe(), self.bytes().div_ceil(MEBIBYTE))
    }

    fn apart(&self) -> Vec<Box<dyn Evaluator>> {
        let cached = |inner| -> Box<dyn Evaluator> { Box::new(Cached::over(inner, &self.memory)) };
        self.inner.apart().into_iter().map(cached).collect()
    }
}

#[cfg(test)]
mod tests {
    use board::Position;

    use super::*;
    use crate::Mock;

    /// A mock that counts the queries, values and moves it receives.
    #[derive(Debug)]
    struct Counting {
        mock: Mock,
        values: usize,
        moves: usize,
        queries: usize,
    }

    impl Evaluator for Counting {
        fn submit(&mut self, batch: Batch) -> Result<(), EvalError> {
            self.queries += batch.len();
            self.values += batch.queries.iter().filter(|query| query.value).count();
            self.moves += batch.moves.len();
            self.mock.submit(batch)
        }
        fn wait(&mut self) -> Result<Answered, EvalError> {
            self.mock.wait()
        }
        fn in_flight(&self) -> usize {
            self.mock.in_flight()
        }
        fn preferred_batch(&self) -> usize {
            1
        }
        fn largest_batch(&self) -> usize {
            100
        }
        fn describe(&self) -> String {
            String::new()
        }
    }

    fn cached(mebibytes: usize) -> Cached<Counting> {
        Cached::new(Counting { mock: Mock::new(1), values: 0, moves: 0, queries: 0 }, mebibytes)
    }

    fn positions(count: usize) -> Vec<Position> {
        let mut list = vec![Position::default()];
        let mut next = 0;
        while list.len() < count {
            let moves = list[next].legal_moves();
            let position = list[next].clone();
            list.extend(moves.into_iter().map(|mv| position.after(mv)));
            next += 1;
        }
        list.truncate(count);
        list
    }

    #[test]
    fn a_position_is_evaluated_once() {
        let mut cached = cached(1);
        let start = Position::default();
        let moves = start.legal_moves();
        let mut batch = Batch::default();
        batch.push(&start, true, &[]);
        batch.push(&start, true, &moves);
        batch.push(&start, false, &moves);
        batch.push(&start, true, &moves[..3]);
        let expected = Mock::new(1).evaluate(batch.clone()).unwrap().scores;
        assert!(cached.evaluate(batch.clone()).unwrap().scores == expected);
        assert_eq!((cached.inner.values, cached.inner.moves), (1, moves.len() + 3));
        assert!(cached.evaluate(batch).unwrap().scores == expected);
        assert_eq!((cached.inner.values, cached.inner.moves), (1, moves.len() + 3));
        let counts = cached.memory.counts();
        assert_eq!(
            (counts.value_hits, counts.value_misses, counts.move_hits, counts.move_misses),
            (3, 3, 3, 3)
        );
    }

    #[test]
    fn scores_equal_the_inner_ones_with_batches_in_flight() {
        for mebibytes in [0, 1] {
            let mut cached = cached(mebibytes);
            let positions = positions(600);
            let batches: Vec<Batch> = (0..40)
                .map(|number| {
                    let mut batch = Batch::default();
                    for index in 0..number * 3 % 50 {
                        let position = &positions[(index * 7 + number * 13) % positions.len()];
                        let moves = position.legal_moves();
                        let count =
                            if index % 3 == 0 { 0 } else { moves.len().saturating_sub(index % 4) };
                        batch.push(position, index % 2 == 0, &moves[..count]);
                    }
                    batch
                })
                .collect();
            for pair in batches.chunks(3) {
                for batch in pair {
                    cached.submit(batch.clone()).unwrap();
                }
                assert_eq!(cached.in_flight(), pair.len());
                for batch in pair {
                    let answered = cached.wait().unwrap();
                    assert!(
                        answered.scores == Mock::new(1).evaluate(batch.clone()).unwrap().scores
                    );
                    assert!(answered.batch.moves == batch.moves);
                }
            }
            assert_eq!(cached.in_flight(), 0);
            assert!(cached.wait().is_err());
            assert!(cached.bytes() <= mebibytes * MEBIBYTE);
        }
    }

    #[test]
    fn a_cache_can_be_shared() {
        let mut one = cached(1);
        let counting = Counting { mock: Mock::new(1), values: 0, moves: 0, queries: 0 };
        let mut other = Cached::over(counting, &one.memory);
        let mut batch = Batch::default();
        batch.push(&Position::default(), true, &Position::default().legal_moves());
        let first = one.evaluate(batch.clone()).unwrap().scores;
        assert!(other.evaluate(batch).unwrap().scores == first);
        assert_eq!((one.inner.queries, other.inner.queries), (1, 0));
    }
}
