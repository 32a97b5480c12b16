//! The search cache: evaluations and bounds in memory of a fixed size. A position is evaluated
//! twice only if its evaluation was overwritten.

use bytemuck::{Pod, Zeroable};
use nets::MoveScores;

use crate::{
    pages::Pages,
    score::{INFINITY, Value, from_evaluation, log_chances},
};

/// Lower and upper bound on a position's value at one depth, and the move behind the lower bound
/// or, without one, the move with the largest upper bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub lower: Value,
    pub upper: Value,
    /// Index of the best move in generation order, or [`NO_MOVE`].
    pub best: u8,
}

pub(crate) const NO_MOVE: u8 = u8::MAX;

impl Default for Bounds {
    fn default() -> Self {
        Self { lower: -INFINITY, upper: INFINITY, best: NO_MOVE }
    }
}

/// Bounds of one position at one depth; all zero: empty.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct BoundsEntry {
    key: u64,
    lower: i16,
    upper: i16,
    depth: i16,
    /// Root number, from 1; bounds of earlier roots only order moves, since repetitions may have
    /// changed.
    age: u8,
    best: u8,
}

impl BoundsEntry {
    fn is_used(&self) -> bool {
        self.age != 0
    }

    fn bounds(&self) -> Bounds {
        Bounds { lower: self.lower.into(), upper: self.upper.into(), best: self.best }
    }
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct ValueEntry {
    key: u64,
    value: i32,
    /// 0 or 1.
    is_used: u32,
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct ScoresEntry {
    key: u64,
    /// Position in the stream of all scores written, from 1; 0: empty. The ring holds the end of
    /// the stream.
    offset: u64,
}

/// The entries of one lookup: one cache line, because a lookup mostly waits for memory.
type Bucket = [BoundsEntry; 4];

/// Bounds, values and move scores by Zobrist key.
pub(crate) struct SearchCache {
    bounds: Pages<Bucket>,
    values: Pages<ValueEntry>,
    index: Pages<ScoresEntry>,
    /// Move scores, position after position.
    ring: Pages<i16>,
    /// Position in the stream of the next scores, from 1.
    written: u64,
    age: u8,
    stored: usize,
}

impl std::fmt::Debug for SearchCache {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("SearchCache")
            .field("bounds", &self.bounds.len())
            .finish_non_exhaustive()
    }
}

impl SearchCache {
    /// Uses at most `mib` MiB.
    pub(crate) fn new(mib: usize) -> Self {
        let bytes = mib.max(1) << 20;
        Self::shared_out(bytes / 4, bytes / 4, bytes / 16, bytes * 7 / 16)
    }

    /// For evaluations only, in at most `bytes`, but at least a few KiB.
    pub(crate) fn of_evaluations(bytes: usize) -> Self {
        Self::shared_out(0, bytes / 4, bytes / 16, bytes * 11 / 16)
    }

    /// For values only, in at most `bytes`.
    pub(crate) fn of_values(bytes: usize) -> Self {
        Self::shared_out(0, bytes.saturating_sub(16 << 10), 0, 0)
    }

    fn shared_out(bounds: usize, values: usize, index: usize, ring: usize) -> Self {
        Self {
            bounds: Pages::zeroed(bounds / size_of::<Bucket>()),
            values: Pages::zeroed(values / size_of::<ValueEntry>()),
            index: Pages::zeroed(index / size_of::<ScoresEntry>()),
            ring: Pages::zeroed((ring / size_of::<i16>()).max(4096)),
            written: 1,
            age: 1,
            stored: 0,
        }
    }

    /// Clears the cache in place. This touches all pages, so a clear before a game saves that time
    /// on the clock.
    pub(crate) fn clear(&mut self) {
        self.bounds.fill(Bucket::zeroed());
        self.values.fill(ValueEntry::zeroed());
        self.index.fill(ScoresEntry::zeroed());
        self.ring.fill(0);
        (self.written, self.age, self.stored) = (1, 1, 0);
    }

    /// Bounds found from here on belong to a new root.
    pub(crate) fn new_root(&mut self) {
        if self.age == u8::MAX {
            // The counter has wrapped, so the oldest bounds would look new.
            for entry in self.entries_mut().filter(|entry| entry.depth > 0) {
                *entry = BoundsEntry::zeroed();
            }
            self.stored = self.entries_mut().filter(|entry| entry.is_used()).count();
            self.age = 0;
        }
        self.age += 1;
    }

    /// Drops the bounds of leaves, which otherwise hold for every root.
    pub(crate) fn forget_leaves(&mut self) {
        if self.stored == 0 {
            return;
        }
        let mut forgotten = 0;
        for entry in self.entries_mut().filter(|entry| entry.is_used() && entry.depth == 0) {
            *entry = BoundsEntry::zeroed();
            forgotten += 1;
        }
        self.stored -= forgotten;
    }

    fn entries_mut(&mut self) -> impl Iterator<Item = &mut BoundsEntry> {
        self.bounds.as_flattened_mut().iter_mut()
    }

    /// Share of the bounds table in use, per mille.
    pub(crate) fn fill_per_mille(&self) -> u32 {
        (self.stored as u64 * 1000 / self.bounds.as_flattened().len() as u64) as u32
    }

    fn bucket(&self, key: u64) -> usize {
        ((u128::from(key) * self.bounds.len() as u128) >> 64) as usize
    }

    /// Bounds at exactly this depth that hold for the current root.
    pub(crate) fn bounds(&self, key: u64, depth: i16) -> Option<Bounds> {
        self.answer(key, depth, None, |_| true)
    }

    /// Bounds that answer a question: at `depth` or, if `deeper` is given, the deepest ones at
    /// `deeper` or more. They hold for the current root; those of leaves hold for every root.
    pub(crate) fn answer(
        &self,
        key: u64,
        depth: i16,
        deeper: Option<i16>,
        answers: impl Fn(&Bounds) -> bool,
    ) -> Option<Bounds> {
        self.bounds[self.bucket(key)]
            .iter()
            .filter(|entry| entry.key == key && (entry.age == self.age || entry.depth == 0))
            .filter(|entry| entry.is_used())
            .filter(|entry| {
                entry.depth == depth || deeper.is_some_and(|least| entry.depth >= least)
            })
            .map(|entry| (entry.depth, entry.bounds()))
            .filter(|(_, bounds)| answers(bounds))
            .max_by_key(|&(depth, _)| depth)
            .map(|(_, bounds)| bounds)
    }

    /// Did the position reach the bound when it was last searched to a smaller depth? `None` if the
    /// cache does not know.
    pub(crate) fn reached_before(&self, key: u64, depth: i16, bound: Value) -> Option<bool> {
        let entries = self.bounds[self.bucket(key)].iter();
        let known = entries
            .filter(|entry| {
                entry.key == key && entry.is_used() && (1..depth).contains(&entry.depth)
            })
            .max_by_key(|entry| entry.depth)?
            .bounds();
        let reaches = known.lower >= bound;
        (reaches || known.upper < bound).then_some(reaches)
    }

    /// The best move known at any depth, deepest first.
    pub(crate) fn best_move(&self, key: u64) -> u8 {
        self.bounds[self.bucket(key)]
            .iter()
            .filter(|entry| entry.key == key && entry.best != NO_MOVE && entry.depth > 0)
            .max_by_key(|entry| entry.depth)
            .map_or(NO_MOVE, |entry| entry.best)
    }

    /// Narrows the bounds at this depth. Where new bounds contradict the old ones (another path to
    /// the position, or more knowledge), the new ones replace them.
    pub(crate) fn store_bounds(&mut self, key: u64, depth: i16, found: Bounds) {
        let age = self.age;
        let bucket = self.bucket(key);
        let ways = &mut self.bounds[bucket];
        let same = ways
            .iter()
            .position(|entry| entry.key == key && entry.depth == depth && entry.is_used());
        let slot = same.unwrap_or_else(|| {
            // Replacement: an empty slot, then one of another root, then the shallowest.
            let worst = ways
                .iter()
                .enumerate()
                .min_by_key(|(_, entry)| (entry.is_used(), entry.age == age, entry.depth));
            worst.map_or(0, |(slot, _)| slot)
        });
        let entry = &mut ways[slot];
        self.stored += usize::from(!entry.is_used());
        let fresh = same.is_none() || (entry.age != age && depth != 0);
        let old = if fresh {
            Bounds { best: if same.is_some() { entry.best } else { NO_MOVE }, ..Bounds::default() }
        } else {
            entry.bounds()
        };
        let (mut lower, mut upper) = (old.lower.max(found.lower), old.upper.min(found.upper));
        if lower > upper {
            (lower, upper) = (found.lower, found.upper);
        }
        *entry = BoundsEntry {
            key,
            lower: lower as i16,
            upper: upper as i16,
            depth,
            age,
            best: if found.best == NO_MOVE { old.best } else { found.best },
        };
    }

    fn value_slot(&self, key: u64) -> usize {
        ((u128::from(key) * self.values.len() as u128) >> 64) as usize
    }

    /// The evaluation of a position.
    pub(crate) fn value(&self, key: u64) -> Option<Value> {
        let entry = self.values[self.value_slot(key)];
        (entry.key == key && entry.is_used == 1).then_some(entry.value)
    }

    /// Stores an evaluation.
    pub(crate) fn store_value(&mut self, key: u64, value: Value) {
        let slot = self.value_slot(key);
        self.values[slot] = ValueEntry { key, value, is_used: 1 };
    }

    /// Stores an answer of the network: the value if it was asked for, and the scores of all legal
    /// moves or of none.
    pub(crate) fn store_answer(
        &mut self,
        key: u64,
        value: Option<f32>,
        moves: &[f32],
        meaning: MoveScores,
    ) {
        if let Some(value) = value {
            self.store_value(key, from_evaluation(value));
        }
        match meaning {
            MoveScores::Centipawns => {
                self.store_scores(key, moves.iter().map(|&score| from_evaluation(score)));
            }
            MoveScores::Policy => self.store_scores(key, log_chances(moves)),
        }
    }

    fn index_slot(&self, key: u64) -> usize {
        ((u128::from(key) * self.index.len() as u128) >> 64) as usize
    }

    /// The scores of a position's legal moves, in generation order.
    pub(crate) fn scores(&self, key: u64, moves: usize) -> Option<&[i16]> {
        let entry = self.index[self.index_slot(key)];
        let capacity = self.ring.len() as u64;
        if entry.key != key || entry.offset == 0 || self.written - entry.offset > capacity {
            return None;
        }
        let start = (entry.offset % capacity) as usize;
        self.ring.get(start..start + moves)
    }

    /// Stores the scores of a position's legal moves.
    pub(crate) fn store_scores(&mut self, key: u64, scores: impl ExactSizeIterator<Item = Value>) {
        let capacity = self.ring.len() as u64;
        let count = scores.len() as u64;
        if count == 0 || count > capacity {
            return;
        }
        let start = self.written % capacity;
        if start + count > capacity {
            self.written += capacity - start; // Never across the end.
        }
        let offset = self.written;
        let start = (offset % capacity) as usize;
        for (cell, score) in self.ring[start..].iter_mut().zip(scores) {
            *cell = score as i16;
        }
        self.written += count;
        let slot = self.index_slot(key);
        self.index[slot] = ScoresEntry { key, offset };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_lost_only_when_the_ring_has_come_around() {
        let mut cache = SearchCache::new(1);
        cache.store_scores(7 << 40, [1, -2, 3].into_iter());
        assert_eq!(cache.scores(7 << 40, 3), Some(&[1, -2, 3][..]));
        assert_eq!(cache.scores(8 << 40, 3), None);
        let capacity = cache.ring.len();
        for key in 1..=(capacity / 200) as u64 + 1 {
            cache.store_scores(key << 50 | 1, (0..200).collect::<Vec<_>>().into_iter());
        }
        assert_eq!(cache.scores(7 << 40, 3), None);
    }

    #[test]
    fn nothing_is_left_after_clearing() {
        let mut cache = SearchCache::new(1);
        let found = Bounds { lower: 1, upper: 2, best: 0 };
        for key in [0, 5] {
            let nothing = |cache: &SearchCache| {
                cache.bounds(key, 0).is_none()
                    && cache.bounds(key, 1).is_none()
                    && cache.value(key).is_none()
                    && cache.scores(key, 2).is_none()
                    && cache.best_move(key) == NO_MOVE
                    && cache.fill_per_mille() == 0
            };
            assert!(nothing(&cache), "{key}");
            cache.store_value(key, -3);
            assert_eq!(cache.value(key), Some(-3));
            cache.clear();
            assert!(nothing(&cache), "{key}");
            cache.store_scores(key, [4, 5].into_iter());
            assert_eq!(cache.scores(key, 2), Some(&[4, 5][..]));
            cache.clear();
            assert!(nothing(&cache), "{key}");
            cache.store_bounds(key, 0, found);
            cache.store_bounds(key, 1, found);
            assert_eq!((cache.bounds(key, 0), cache.best_move(key)), (Some(found), 0));
            cache.forget_leaves();
            assert_eq!((cache.bounds(key, 0), cache.bounds(key, 1)), (None, Some(found)));
            cache.clear();
            assert!(nothing(&cache), "{key}");
        }
    }

    #[test]
    fn bounds_narrow_and_older_roots_only_order() {
        let mut cache = SearchCache::new(1);
        cache.store_bounds(5, 2, Bounds { lower: 10, upper: INFINITY, best: 3 });
        cache.store_bounds(5, 2, Bounds { lower: -INFINITY, upper: 40, best: NO_MOVE });
        assert_eq!(cache.bounds(5, 2), Some(Bounds { lower: 10, upper: 40, best: 3 }));
        assert_eq!(cache.bounds(5, 3), None);
        cache.new_root();
        assert_eq!(cache.bounds(5, 2), None);
        assert_eq!(cache.best_move(5), 3);
    }

    #[test]
    fn deeper_bounds_answer_where_they_may() {
        let mut cache = SearchCache::new(1);
        let at_least = |lower| Bounds { lower, upper: INFINITY, best: NO_MOVE };
        cache.store_bounds(5, 2, at_least(10));
        cache.store_bounds(5, 4, at_least(30));
        cache.store_bounds(5, 0, at_least(20));
        let answer = |cache: &SearchCache, depth, deeper, bound| {
            cache.answer(5, depth, deeper, |known| known.lower >= bound).map(|known| known.lower)
        };
        assert_eq!(answer(&cache, 2, None, 10), Some(10));
        assert_eq!(answer(&cache, 2, None, 20), None);
        assert_eq!(answer(&cache, 2, Some(2), 20), Some(30));
        assert_eq!(answer(&cache, 2, Some(2), 10), Some(30), "the deepest");
        assert_eq!(answer(&cache, 2, Some(5), 20), None);
        assert_eq!(answer(&cache, 4, Some(4), 40), None);
        cache.new_root();
        assert_eq!(answer(&cache, 2, Some(2), 10), None);
        assert_eq!(answer(&cache, 0, None, 10), Some(20), "leaves know no root");
        // New bounds replace contradicting ones.
        cache.store_bounds(5, 0, Bounds { lower: -INFINITY, upper: 15, best: NO_MOVE });
        assert_eq!(cache.bounds(5, 0), Some(Bounds { lower: -INFINITY, upper: 15, best: NO_MOVE }));
    }
}
