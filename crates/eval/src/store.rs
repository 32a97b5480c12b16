//! The memory of the cache: two tables of fixed size, one for values, one for move scores.

use nets::PolicyIndex;

/// Entries of a bucket; all are looked at.
const WAYS: usize = 4;

/// A position's value.
#[derive(Clone, Copy, Default)]
struct Entry {
    hash: u64,
    value: f32,
    /// When it was stored; 0 for an empty entry.
    stamp: u32,
}

/// Values by position hash; the oldest of a bucket gives way.
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
        // After four billion stores the ages start anew, which costs order, not correctness.
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

/// Bits of an index slot that say where the entry begins; the rest is part of the hash.
const POSITION_BITS: u32 = 48;

/// Move scores by position hash, in a ring of words that overwrites its oldest entries.
///
/// An entry is [`HEADER`] words, then a word a move (its index), then a word a score. Positions
/// count words since the beginning and never turn back; an entry is alive while less than the
/// ring's length has been written since it began.
pub(crate) struct MoveTable {
    ring: Vec<u32>,
    /// Buckets of [`WAYS`] slots: position plus one, and the low bits of the hash above it.
    index: Vec<u64>,
    /// Words written so far.
    end: u64,
}

impl MoveTable {
    /// A table of at most `bytes`.
    pub fn new(bytes: usize) -> Self {
        // Positions have some 35 moves: an entry of 73 words, 292 bytes, to an 8-byte slot; two
        // slots an entry.
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

    fn word(&self, position: u64) -> u32 {
        self.ring[(position % self.ring.len() as u64) as usize]
    }

    /// Position of the living entry of this hash.
    fn find(&self, hash: u64) -> Option<u64> {
        self.index[self.slots(hash)?].iter().find_map(|&slot| {
            let position = (slot & ((1 << POSITION_BITS) - 1)).checked_sub(1)?;
            let alive = self.end - position <= self.ring.len() as u64;
            let same = slot >> POSITION_BITS == hash & 0xffff
                && alive
                && self.word(position) == hash as u32
                && self.word(position + 1) == (hash >> 32) as u32;
            same.then_some(position)
        })
    }

    /// Writes the score of each of `moves` to `scores` if all are known.
    pub fn get(&self, hash: u64, moves: &[PolicyIndex], scores: &mut [f32]) -> bool {
        self.visit(hash, moves, |place, score| scores[place] = score)
    }

    /// Calls `see` with the place and score of each of `moves`; false when one is not known.
    fn visit(&self, hash: u64, moves: &[PolicyIndex], mut see: impl FnMut(usize, f32)) -> bool {
        let Some(position) = self.find(hash) else { return false };
        let count = u64::from(self.word(position + 2));
        let (first, first_score) = (position + HEADER as u64, position + HEADER as u64 + count);
        for (number, &mv) in moves.iter().enumerate() {
            // Usually the same moves are asked for in the same order.
            let known = |place: &u64| *place < count && self.word(first + place) == u32::from(mv);
            let Some(place) = Some(number as u64).filter(known).or_else(|| (0..count).find(known))
            else {
                return false;
            };
            see(number, f32::from_bits(self.word(first_score + place)));
        }
        true
    }

    /// Remembers the scores, unless all are known already.
    pub fn insert(&mut self, hash: u64, moves: &[PolicyIndex], scores: &[f32]) {
        if self.visit(hash, moves, |_, _| {}) {
            return;
        }
        let Some(slots) = self.slots(hash) else { return };
        let size = HEADER + 2 * moves.len();
        if size > self.ring.len() || self.end >= 1 << (POSITION_BITS - 1) {
            return;
        }
        let position = self.end;
        let words = [hash as u32, (hash >> 32) as u32, moves.len() as u32]
            .into_iter()
            .chain(moves.iter().map(|&mv| u32::from(mv)))
            .chain(scores.iter().map(|score| score.to_bits()));
        let mut at = (position % self.ring.len() as u64) as usize;
        for word in words {
            self.ring[at] = word;
            at = if at + 1 == self.ring.len() { 0 } else { at + 1 };
        }
        self.end += size as u64;
        let mask = (1 << POSITION_BITS) - 1;
        let ways = &mut self.index[slots];
        let same = ways
            .iter()
            .position(|&slot| slot & mask != 0 && slot >> POSITION_BITS == hash & 0xffff);
        let oldest =
            ways.iter().enumerate().min_by_key(|&(_, &slot)| slot & mask).map_or(0, |(way, _)| way);
        ways[same.unwrap_or(oldest)] = (hash & 0xffff) << POSITION_BITS | (position + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_until_they_give_way() {
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
    fn move_scores_come_back_whole_or_not_at_all() {
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
        // A part of the moves in another order is known, a move that was never asked is not.
        table.insert(1, &[5, 6, 7], &[0.5, 0.6, 0.7]);
        let mut two = [0.0; 2];
        assert!(table.get(1, &[7, 5], &mut two) && two == [0.7, 0.5]);
        assert!(!table.get(1, &[7, 8], &mut two));
    }

    #[test]
    fn tables_without_memory_know_nothing() {
        let (mut values, mut moves) = (ValueTable::new(0), MoveTable::new(0));
        values.insert(1, 1.0);
        moves.insert(1, &[1], &[1.0]);
        assert_eq!(values.get(1), None);
        assert!(!moves.get(1, &[1], &mut [0.0]));
    }
}
