//! The tables of the evaluation cache: two hash tables of fixed size, one for values and one for
//! move scores, which differ in length from position to position.

use nets::PolicyIndex;

/// Entries of a bucket. A lookup reads them all.
const WAYS: usize = 4;

/// A position's value.
#[derive(Clone, Copy, Default)]
struct Entry {
    hash: u64,
    value: f32,
    /// Number of the store that wrote it; 0 for an empty entry.
    stamp: u32,
}

/// Values by position hash. A new entry replaces the oldest of its bucket.
pub(crate) struct ValueTable {
    entries: Vec<Entry>,
    stamp: u32,
}

impl ValueTable {
    /// A table of at most `bytes`.
    pub fn new(bytes: usize) -> Self {
        let entries = bytes / size_of::<Entry>() / WAYS * WAYS;
        Self { entries: vec![Entry::default(); entries], stamp: 0 }
    }

    pub fn bytes(&self) -> usize {
        self.entries.len() * size_of::<Entry>()
    }

    pub fn get(&self, hash: u64) -> Option<f32> {
        let first = bucket(hash, self.entries.len() / WAYS)? * WAYS;
        let found = self.entries[first..first + WAYS]
            .iter()
            .find(|entry| entry.hash == hash && entry.stamp != 0);
        found.map(|entry| entry.value)
    }

    pub fn insert(&mut self, hash: u64, value: f32) {
        let Some(first) = bucket(hash, self.entries.len() / WAYS) else { return };
        // After 2^32 stores the stamps wrap. Then the replaced entry is not always the oldest one.
        self.stamp = self.stamp.wrapping_add(1).max(1);
        let ways = &mut self.entries[first * WAYS..(first + 1) * WAYS];
        let same = ways.iter().position(|entry| entry.hash == hash && entry.stamp != 0);
        let oldest =
            ways.iter().enumerate().min_by_key(|(_, entry)| entry.stamp).map_or(0, |(way, _)| way);
        let way = &mut ways[same.unwrap_or(oldest)];
        *way = Entry { hash, value, stamp: self.stamp };
    }
}

impl std::fmt::Debug for ValueTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ValueTable of {} bytes", self.bytes())
    }
}

impl std::fmt::Debug for MoveTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MoveTable of {} bytes", self.bytes())
    }
}

/// Maps a hash to `0..buckets`; `None` without buckets.
fn bucket(hash: u64, buckets: usize) -> Option<usize> {
    (buckets > 0).then(|| ((u128::from(hash) * buckets as u128) >> 64) as usize)
}

/// Words of an entry before its moves: the hash in two words, the number of moves.
const HEADER: usize = 3;

/// Bits of an index slot that hold the start of the entry; the other 16 are low bits of the hash.
const START_BITS: u32 = 48;

/// Move scores by position hash, in a ring of words that overwrites its oldest entries.
///
/// An entry is [`HEADER`] words, then a word for each move (its policy index), then a word for each
/// score. Offsets count all words ever written and do not wrap; an entry is valid until the ring
/// has overwritten its first word.
pub(crate) struct MoveTable {
    ring: Vec<u32>,
    /// Buckets of [`WAYS`] slots: the entry's start plus one, above it the low bits of the hash.
    index: Vec<u64>,
    /// Words written so far.
    end: u64,
}

impl MoveTable {
    /// A table of at most `bytes`.
    pub fn new(bytes: usize) -> Self {
        // A position has some 35 moves, so an entry takes 73 words or 292 bytes. One 16th of the
        // memory then gives about two slots an entry.
        let slots = bytes / 16 / size_of::<u64>() / WAYS * WAYS;
        let words = (bytes - slots * size_of::<u64>()) / size_of::<u32>();
        Self { ring: vec![0; words], index: vec![0; slots], end: 0 }
    }

    pub fn bytes(&self) -> usize {
        self.index.len() * size_of::<u64>() + self.ring.len() * size_of::<u32>()
    }

    fn slots(&self, hash: u64) -> Option<std::ops::Range<usize>> {
        bucket(hash, self.index.len() / WAYS).map(|bucket| bucket * WAYS..(bucket + 1) * WAYS)
    }

    fn word(&self, offset: u64) -> u32 {
        self.ring[(offset % self.ring.len() as u64) as usize]
    }

    /// Start of the valid entry of this hash.
    fn find(&self, hash: u64) -> Option<u64> {
        self.index[self.slots(hash)?].iter().find_map(|&slot| {
            let start = (slot & ((1 << START_BITS) - 1)).checked_sub(1)?;
            let alive = self.end - start <= self.ring.len() as u64;
            let same = slot >> START_BITS == hash & 0xffff
                && alive
                && self.word(start) == hash as u32
                && self.word(start + 1) == (hash >> 32) as u32;
            same.then_some(start)
        })
    }

    /// Writes the score of each of `moves` to `scores` if all are known.
    pub fn get(&self, hash: u64, moves: &[PolicyIndex], scores: &mut [f32]) -> bool {
        self.visit(hash, moves, |place, score| scores[place] = score)
    }

    /// Calls `see` with the index in `moves` and the score of each move; false if one is unknown.
    fn visit(&self, hash: u64, moves: &[PolicyIndex], mut see: impl FnMut(usize, f32)) -> bool {
        let Some(start) = self.find(hash) else { return false };
        let count = u64::from(self.word(start + 2));
        let (first, first_score) = (start + HEADER as u64, start + HEADER as u64 + count);
        for (number, &mv) in moves.iter().enumerate() {
            // A position's moves usually come in the same order again.
            let known = |place: &u64| *place < count && self.word(first + place) == u32::from(mv);
            let Some(place) = Some(number as u64).filter(known).or_else(|| (0..count).find(known))
            else {
                return false;
            };
            see(number, f32::from_bits(self.word(first_score + place)));
        }
        true
    }

    /// Stores the scores, unless all are known already.
    pub fn insert(&mut self, hash: u64, moves: &[PolicyIndex], scores: &[f32]) {
        if self.visit(hash, moves, |_, _| {}) {
            return;
        }
        let Some(slots) = self.slots(hash) else { return };
        let size = HEADER + 2 * moves.len();
        if size > self.ring.len() || self.end >= 1 << (START_BITS - 1) {
            return;
        }
        let start = self.end;
        let words = [hash as u32, (hash >> 32) as u32, moves.len() as u32]
            .into_iter()
            .chain(moves.iter().map(|&mv| u32::from(mv)))
            .chain(scores.iter().map(|score| score.to_bits()));
        let mut at = (start % self.ring.len() as u64) as usize;
        for word in words {
            self.ring[at] = word;
            at = if at + 1 == self.ring.len() { 0 } else { at + 1 };
        }
        self.end += size as u64;
        let mask = (1 << START_BITS) - 1;
        let ways = &mut self.index[slots];
        let same =
            ways.iter().position(|&slot| slot & mask != 0 && slot >> START_BITS == hash & 0xffff);
        let oldest =
            ways.iter().enumerate().min_by_key(|&(_, &slot)| slot & mask).map_or(0, |(way, _)| way);
        ways[same.unwrap_or(oldest)] = (hash & 0xffff) << START_BITS | (start + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_until_they_are_replaced() {
        let mut table = ValueTable::new(64 * 1024);
        assert!(table.bytes() <= 64 * 1024);
        let hash = |n: u64| (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for n in 0..50_000 {
            table.insert(hash(n), n as f32);
            assert_eq!(table.get(hash(n)), Some(n as f32));
        }
        let kept = (0..50_000).filter(|&n| table.get(hash(n)).is_some()).count();
        assert_eq!(kept, 64 * 1024 / 16);
        assert!((0..50_000).all(|n| table.get(hash(n)).is_none_or(|value| value == n as f32)));
    }

    #[test]
    fn move_scores_are_found_complete_or_not_at_all() {
        let mut table = MoveTable::new(32 * 1024);
        assert!(table.bytes() <= 32 * 1024);
        let hash = |n: u64| (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let moves =
            |n: u64| -> Vec<u16> { (0..n as u16 % 40).map(|mv| mv * 7 + n as u16 % 5).collect() };
        let scores = |n: u64| -> Vec<f32> { (0..n % 40).map(|mv| (n * 100 + mv) as f32).collect() };
        for n in 0..5_000 {
            table.insert(hash(n), &moves(n), &scores(n));
            for back in n.saturating_sub(300)..=n {
                let mut found = vec![0.0; moves(back).len()];
                let known = table.get(hash(back), &moves(back), &mut found);
                assert!(!known || found == scores(back));
                assert!(known || back < n);
            }
        }
        // Some of the moves in another order are found; a move that was not stored is not.
        table.insert(1, &[5, 6, 7], &[0.5, 0.6, 0.7]);
        let mut two = [0.0; 2];
        assert!(table.get(1, &[7, 5], &mut two) && two == [0.7, 0.5]);
        assert!(!table.get(1, &[7, 8], &mut two));
    }

    #[test]
    fn tables_without_memory_find_nothing() {
        let (mut values, mut moves) = (ValueTable::new(0), MoveTable::new(0));
        values.insert(1, 1.0);
        moves.insert(1, &[1], &[1.0]);
        assert_eq!(values.get(1), None);
        assert!(!moves.get(1, &[1], &mut [0.0]));
    }
}
