//! A decorator that remembers: scores by position, in fixed memory, and each position of a batch
//! evaluated once.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{
    Answered, Batch, EvalError, Evaluator, Query, Scores, Stream,
    store::{MoveTable, ValueTable},
};

/// What a cache has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounts {
    /// Values answered from memory, and not.
    pub value_hits: u64,
    pub value_misses: u64,
    /// Positions whose asked move scores were all answered from memory, and not.
    pub move_hits: u64,
    pub move_misses: u64,
    /// Misses that another query of the same batch already asked for.
    pub duplicates: u64,
}

/// An evaluator with a memory of its scores.
///
/// What it answers is bit for bit what the inner evaluator answered before; positions are told
/// apart by 64 bits of a hash over their key and squares.
#[derive(Debug)]
pub struct Cached<E> {
    inner: E,
    memory: EvaluationCache,
    pending: VecDeque<Pending>,
    /// Where in the inner batch a hash was asked for first, and last with moves; only used within
    /// `submit`.
    asked: HashMap<u64, (usize, usize)>,
    /// Batches whose memory can be used again.
    spare: Vec<Batch>,
}

/// Scores in fixed memory, which evaluators of one network and number format can have together: a
/// clone is the same memory.
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
    /// What memory answered; the rest is filled in when the inner batch comes back.
    scores: Scores,
    /// Query of the inner batch that answers this query's value, its moves.
    open: Vec<Open>,
    /// Was anything asked of the inner evaluator?
    inner: bool,
}

/// A query that waits for the inner evaluator.
#[derive(Clone, Copy, Debug)]
struct Open {
    query: usize,
    value: Option<usize>,
    moves: Option<usize>,
    hash: u64,
}

const MEBIBYTE: usize = 1 << 20;

impl EvaluationCache {
    /// At most `mebibytes`, of which one third holds values, two thirds move scores; 0 remembers
    /// nothing beyond a batch.
    #[must_use]
    pub fn new(mebibytes: usize) -> Self {
        let bytes = mebibytes.saturating_mul(MEBIBYTE);
        Self(Arc::new(Mutex::new(Tables {
            values: ValueTable::new(bytes / 3),
            moves: MoveTable::new(bytes / 3 * 2),
            counts: CacheCounts::default(),
        })))
    }

    /// Hits and misses since the beginning.
    #[must_use]
    pub fn counts(&self) -> CacheCounts {
        self.tables().counts
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        // Tables are never left half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<E: Evaluator> Cached<E> {
    /// A cache over `inner` with a memory of its own, of at most `mebibytes`.
    #[must_use]
    pub fn new(inner: E, mebibytes: usize) -> Self {
        Self::over(inner, &EvaluationCache::new(mebibytes))
    }

    /// A cache over `inner` with a memory that others of its network and number format may have
    /// too.
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

    /// Bytes that the tables hold.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let tables = self.tables();
        tables.values.bytes() + tables.moves.bytes()
    }

    /// Looks a query up; unknown scores are added to the inner batch, once a position.
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
        // The same position with other moves is asked anew, for its moves.
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

    /// Copies the inner evaluator's answers to their askers and into memory.
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

/// Hash of everything that a score can depend on.
fn hash(query: &Query) -> u64 {
    let words = query.squares.0.chunks_exact(8);
    let mixed = words.fold(query.key ^ 0x9e37_79b9_7f4a_7c15, |hash, chunk| {
        let word = chunk.iter().fold(0_u64, |word, &class| word << 8 | u64::from(class));
        (hash ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd).rotate_left(29)
    });
    // Zero would look like an empty entry's hash; the finaliser spreads the last word.
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
}

#[cfg(test)]
mod tests {
    use board::Position;

    use super::*;
    use crate::Mock;

    /// A mock that counts what reaches it.
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
    fn answers_are_the_inner_ones_with_batches_in_flight() {
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
    fn a_memory_can_be_had_together() {
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
