//! The transposition table of depth-first searches: bounds by position. A new entry replaces the
//! old one, unless that belongs to the same search, to another position, and is more than two plies
//! deeper.

use crate::{Bound, cache::NO_MOVE, score::Value, selectivity::PLY};

/// A bound on a position's value, and the move behind it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    key: u64,
    pub value: i16,
    /// In parts of a ply; negative: empty.
    pub depth: i16,
    pub bound: Bound,
    /// Index in generation order, or [`NO_MOVE`].
    pub best: u8,
    /// Number of the search that wrote it.
    age: u8,
}

const EMPTY: Entry =
    Entry { key: 0, value: 0, depth: -1, bound: Bound::Exact, best: NO_MOVE, age: 0 };

/// Entries by the high bits of the key.
#[derive(Debug)]
pub(crate) struct TranspositionTable {
    entries: Vec<Entry>,
    age: u8,
    stored: usize,
}

impl TranspositionTable {
    /// Bytes of an entry.
    pub(crate) const ENTRY: usize = size_of::<Entry>();

    pub(crate) fn new(entries: usize) -> Self {
        Self { entries: vec![EMPTY; entries.max(1)], age: 0, stored: 0 }
    }

    pub(crate) fn clear(&mut self) {
        self.entries.fill(EMPTY);
        self.stored = 0;
    }

    /// Begins a search. Entries of earlier searches only order moves, because repetitions may have
    /// changed.
    pub(crate) fn new_search(&mut self) {
        self.age = self.age.wrapping_add(1);
        if self.age == 0 {
            // The counter has wrapped, so old entries would look new.
            self.clear();
        }
    }

    pub(crate) fn is_of_this_search(&self, entry: &Entry) -> bool {
        entry.age == self.age
    }

    fn slot(&self, key: u64) -> usize {
        ((u128::from(key) * self.entries.len() as u128) >> 64) as usize
    }

    pub(crate) fn probe(&self, key: u64) -> Option<Entry> {
        let entry = self.entries[self.slot(key)];
        (entry.key == key && entry.depth >= 0).then_some(entry)
    }

    pub(crate) fn store(&mut self, key: u64, depth: i16, value: Value, bound: Bound, best: u8) {
        let (slot, age) = (self.slot(key), self.age);
        let old = &mut self.entries[slot];
        if old.key != key && old.age == age && old.depth > depth + 2 * PLY {
            return;
        }
        self.stored += usize::from(old.depth < 0);
        let best = if best == NO_MOVE && old.key == key { old.best } else { best };
        *old = Entry { key, value: value as i16, depth, bound, best, age };
    }

    /// Share of the entries in use.
    pub(crate) fn fill_per_mille(&self) -> u32 {
        (self.stored as u64 * 1000 / self.entries.len() as u64) as u32
    }
}
