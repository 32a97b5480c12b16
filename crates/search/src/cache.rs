//! The search cache: evaluations and bounds in memory of a fixed size. One thread evaluates a
//! position twice only if its evaluation was overwritten, or for its moves after its value.
//!
//! Several threads of one search share it without locks: an entry is two words, its key combined
//! with its content and the content, so that an entry of which two threads wrote one word each has
//! no key that anybody asks for (Hyatt and Mann, *A lock-less transposition table implementation
//! for parallel search*, 2002).

mod claims;
mod scores;

use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering::Relaxed};

use nets::MoveScores;

use crate::{
    pages::Pages,
    score::{INFINITY, MOST_MOVES, Value, from_evaluation, log_chances},
};
use claims::Claims;
use scores::ScoresCache;

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
#[derive(Clone, Copy, Default)]
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

    fn read(words: &[AtomicU64; 2]) -> Self {
        let content = words[1].load(Relaxed);
        Self {
            key: words[0].load(Relaxed) ^ content,
            lower: content as i16,
            upper: (content >> 16) as i16,
            depth: (content >> 32) as i16,
            age: (content >> 48) as u8,
            best: (content >> 56) as u8,
        }
    }

    fn write(&self, words: &[AtomicU64; 2]) {
        let content = u64::from(self.lower as u16)
            | u64::from(self.upper as u16) << 16
            | u64::from(self.depth as u16) << 32
            | u64::from(self.age) << 48
            | u64::from(self.best) << 56;
        words[0].store(self.key ^ content, Relaxed);
        words[1].store(content, Relaxed);
    }
}

/// Entries of one lookup: one cache line, because a lookup mostly waits for memory.
const WAYS: usize = 4;

/// Words of an entry.
const ENTRY: usize = 2;

/// In the content of an evaluation, above its 32 bits: the entry is in use.
const IS_USED: u64 = 1 << 32;

/// Bounds, values and move scores by Zobrist key.
pub(crate) struct SearchCache {
    bounds: Pages,
    values: Pages,
    scores: ScoresCache,
    claims: Claims,
    /// The root number of bounds that hold now.
    age: AtomicU8,
    stored: AtomicUsize,
}

impl std::fmt::Debug for SearchCache {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("SearchCache").field("bounds", &self.bounds).finish_non_exhaustive()
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

    /// Bytes for bounds, values, and the index and the ring of move scores.
    fn shared_out(bounds: usize, values: usize, index: usize, ring: usize) -> Self {
        Self {
            bounds: Pages::zeroed(bounds / 8, ENTRY * WAYS),
            values: Pages::zeroed(values / 8, ENTRY),
            scores: ScoresCache::new(index, ring),
            claims: Claims::new(),
            age: AtomicU8::new(1),
            stored: AtomicUsize::new(0),
        }
    }

    /// Clears the cache in place. This touches all pages, so a clear before a game saves that time
    /// on the clock.
    pub(crate) fn clear(&mut self) {
        self.bounds.clear();
        self.values.clear();
        self.scores.clear();
        (self.age, self.stored) = (AtomicU8::new(1), AtomicUsize::new(0));
    }

    /// Bounds found from here on belong to a new root.
    pub(crate) fn new_root(&self) {
        let mut age = self.age.load(Relaxed);
        if age == u8::MAX {
            // The counter has wrapped, so the oldest bounds would look new.
            self.drop_bounds(|entry| entry.depth > 0);
            age = 0;
        }
        self.age.store(age + 1, Relaxed);
    }

    /// Drops the bounds of leaves, which otherwise hold for every root.
    pub(crate) fn forget_leaves(&self) {
        if self.stored.load(Relaxed) > 0 {
            self.drop_bounds(|entry| entry.depth == 0);
        }
    }

    fn drop_bounds(&self, is_dropped: impl Fn(&BoundsEntry) -> bool) {
        let mut left = 0;
        for words in self.bounds.words().as_chunks().0 {
            let entry = BoundsEntry::read(words);
            if entry.is_used() && is_dropped(&entry) {
                words.iter().for_each(|word| word.store(0, Relaxed));
            } else {
                left += usize::from(entry.is_used());
            }
        }
        self.stored.store(left, Relaxed);
    }

    /// Share of the bounds table in use, per mille.
    pub(crate) fn fill_per_mille(&self) -> u32 {
        let entries = self.bounds.words().len() / ENTRY;
        (self.stored.load(Relaxed) as u64 * 1000 / entries as u64) as u32
    }

    /// The entries of a key's lookup.
    fn ways(&self, key: u64) -> &[[AtomicU64; ENTRY]] {
        self.bounds.bucket(key, ENTRY * WAYS).as_chunks().0
    }

    fn entries(&self, key: u64) -> impl Iterator<Item = BoundsEntry> {
        self.ways(key).iter().map(BoundsEntry::read).filter(move |entry| entry.key == key)
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
        let age = self.age.load(Relaxed);
        self.entries(key)
            .filter(|entry| entry.age == age || entry.depth == 0)
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
        let known = self
            .entries(key)
            .filter(|entry| entry.is_used() && (1..depth).contains(&entry.depth))
            .max_by_key(|entry| entry.depth)?
            .bounds();
        let reaches = known.lower >= bound;
        (reaches || known.upper < bound).then_some(reaches)
    }

    /// The best move known at any depth, deepest first.
    pub(crate) fn best_move(&self, key: u64) -> u8 {
        self.entries(key)
            .filter(|entry| entry.best != NO_MOVE && entry.depth > 0)
            .max_by_key(|entry| entry.depth)
            .map_or(NO_MOVE, |entry| entry.best)
    }

    /// Narrows the bounds at this depth. Where new bounds contradict the old ones (another path to
    /// the position, or more knowledge), the new ones replace them.
    pub(crate) fn store_bounds(&self, key: u64, depth: i16, found: Bounds) {
        let age = self.age.load(Relaxed);
        let ways = self.ways(key);
        let mut entries = [BoundsEntry::default(); WAYS];
        entries.iter_mut().zip(ways).for_each(|(entry, words)| *entry = BoundsEntry::read(words));
        let same = entries
            .iter()
            .position(|entry| entry.key == key && entry.depth == depth && entry.is_used());
        let slot = same.unwrap_or_else(|| {
            // Replacement: an empty slot, then one of another root, then the shallowest.
            let worst = entries
                .iter()
                .enumerate()
                .min_by_key(|(_, entry)| (entry.is_used(), entry.age == age, entry.depth));
            worst.map_or(0, |(slot, _)| slot)
        });
        let entry = entries[slot];
        if !entry.is_used() {
            self.stored.fetch_add(1, Relaxed);
        }
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
        let best = if found.best == NO_MOVE { old.best } else { found.best };
        BoundsEntry { key, lower: lower as i16, upper: upper as i16, depth, age, best }
            .write(&ways[slot]);
    }

    /// The evaluation of a position.
    pub(crate) fn value(&self, key: u64) -> Option<Value> {
        let [combined, content] = self.values.bucket(key, ENTRY) else { return None };
        let content = content.load(Relaxed);
        let is_found = combined.load(Relaxed) ^ content == key && content & IS_USED != 0;
        is_found.then_some(content as i32)
    }

    /// Stores an evaluation.
    pub(crate) fn store_value(&self, key: u64, value: Value) {
        if let [combined, content] = self.values.bucket(key, ENTRY) {
            let value = u64::from(value as u32) | IS_USED;
            combined.store(key ^ value, Relaxed);
            content.store(value, Relaxed);
        }
    }

    /// Lets the processor fetch the bounds of a position in the background.
    pub(crate) fn prefetch_bounds(&self, key: u64) {
        self.bounds.prefetch(key, ENTRY * WAYS);
    }

    /// As [`SearchCache::prefetch_bounds`], the evaluation.
    pub(crate) fn prefetch_value(&self, key: u64) {
        self.values.prefetch(key, ENTRY);
    }

    /// As [`SearchCache::prefetch_bounds`], where the scores of the moves are.
    pub(crate) fn prefetch_scores(&self, key: u64) {
        self.scores.prefetch(key);
    }

    /// Claims the evaluation of a position for this thread; false if another thread evaluates it.
    pub(crate) fn claim(&self, key: u64) -> bool {
        self.claims.claim(key)
    }

    /// The position has been evaluated.
    pub(crate) fn release(&self, key: u64) {
        self.claims.release(key);
    }

    /// Releases all positions.
    pub(crate) fn release_all(&self) {
        self.claims.release_all();
    }

    /// Stores an answer of the network: the value if it was asked for, and the scores of all legal
    /// moves or of none.
    pub(crate) fn store_answer(
        &self,
        key: u64,
        value: Option<f32>,
        moves: &[f32],
        meaning: MoveScores,
    ) {
        if let Some(value) = value {
            self.store_value(key, from_evaluation(value));
        }
        let mut scores = [0; MOST_MOVES];
        match meaning {
            MoveScores::Centipawns => {
                for (score, &value) in scores.iter_mut().zip(moves) {
                    *score = from_evaluation(value) as i16;
                }
                self.store_scores(key, &scores[..moves.len().min(MOST_MOVES)]);
            }
            MoveScores::Policy => self.store_scores(key, log_chances(moves, &mut scores)),
        }
    }

    /// Reads the scores of a position's legal moves, in generation order, into a list; false if
    /// they are not known, and then the list is empty.
    pub(crate) fn read_scores(&self, key: u64, moves: usize, into: &mut Vec<i16>) -> bool {
        self.scores.read(key, moves, into)
    }

    /// Are the scores of a position's legal moves known, of this number if it is given?
    pub(crate) fn has_scores(&self, key: u64, moves: Option<usize>) -> bool {
        self.scores.has(key, moves)
    }

    /// Stores the scores of a position's legal moves.
    pub(crate) fn store_scores(&self, key: u64, scores: &[i16]) {
        self.scores.store(key, scores);
    }
}

#[cfg(test)]
mod tests;
