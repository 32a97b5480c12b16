//! Move scores of positions: most of a search's memory, and of a different length for each position.
//!
//! They lie in a ring, in the order in which they were stored; an index says where. Threads share
//! both without locks: an entry of the index has a checksum of its key and scores, so that scores
//! which another thread has overwritten, wholly or in part, are not found. A wrong mixture passes
//! once in two million times.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::pages::Pages;

/// Words of an entry of the index.
const ENTRY: usize = 2;

/// Scores in a word.
const PER_WORD: usize = 4;

/// Bits of the number of words in an entry's content, and of the place in the ring above it. The
/// checksum is above both.
const COUNT_BITS: u32 = 6;
const PLACE_BITS: u32 = 36;

pub(super) struct ScoresCache {
    /// By key: the key combined with the content, and the content; 0: empty.
    index: Pages,
    ring: Pages,
    /// The number of words that were ever given away; the place of the next is its remainder.
    end: AtomicU64,
}

/// The content of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    /// Of the first word in the ring.
    place: usize,
    /// Words.
    count: usize,
    checksum: u64,
}

impl Entry {
    fn pack(self) -> u64 {
        let Self { place, count, checksum } = self;
        (checksum << PLACE_BITS | place as u64) << COUNT_BITS | (count - 1) as u64
    }

    fn unpack(content: u64) -> Self {
        Self {
            place: (content >> COUNT_BITS & ((1 << PLACE_BITS) - 1)) as usize,
            count: (content & ((1 << COUNT_BITS) - 1)) as usize + 1,
            checksum: content >> (COUNT_BITS + PLACE_BITS),
        }
    }
}

/// A checksum over a key and words, one after the other.
#[derive(Clone, Copy)]
struct Checksum(u64);

impl Checksum {
    fn add(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    /// Its upper bits, as many as an entry has; never 0, so that no entry looks empty.
    fn bits(self) -> u64 {
        self.0 >> (COUNT_BITS + PLACE_BITS) | 1
    }
}

impl ScoresCache {
    /// Uses so many bytes for the index and for the ring, but at least a few KiB.
    pub(super) fn new(index: usize, ring: usize) -> Self {
        let most = 1 << PLACE_BITS;
        Self {
            index: Pages::zeroed(index / 8, ENTRY),
            ring: Pages::zeroed((ring / 8).clamp(1024, most), 1),
            end: AtomicU64::new(0),
        }
    }

    pub(super) fn clear(&mut self) {
        self.index.clear();
        self.ring.clear();
        self.end = AtomicU64::new(0);
    }

    /// The words of a position's scores, each given to `take`; false if they are not known. What
    /// was taken counts only if this is true.
    fn words(&self, key: u64, mut take: impl FnMut(u64)) -> bool {
        let [combined, content] = self.index.bucket(key, ENTRY) else { return false };
        let content = content.load(Relaxed);
        if content == 0 || combined.load(Relaxed) ^ content != key {
            return false;
        }
        let Entry { place, count, checksum } = Entry::unpack(content);
        let mut found = Checksum(key);
        for word in self.ring.words().iter().skip(place).take(count) {
            let word = word.load(Relaxed);
            found.add(word);
            take(word);
        }
        found.bits() == checksum
    }

    /// Lets the processor fetch a position's entry of the index in the background.
    pub(super) fn prefetch(&self, key: u64) {
        self.index.prefetch(key, ENTRY);
    }

    /// Are the scores of a position known, of this number of moves if it is given?
    pub(super) fn has(&self, key: u64, moves: Option<usize>) -> bool {
        let mut count = 0;
        self.words(key, |_| count += 1)
            && moves.is_none_or(|moves| count == moves.div_ceil(PER_WORD))
    }

    pub(super) fn read(&self, key: u64, moves: usize, into: &mut Vec<i16>) -> bool {
        into.clear();
        let is_known = self.words(key, |word| {
            into.extend([word, word >> 16, word >> 32, word >> 48].map(|score| score as i16));
        });
        // Another number of moves: two positions share a key.
        let is_known = is_known && into.len() == moves.next_multiple_of(PER_WORD);
        into.truncate(if is_known { moves } else { 0 });
        is_known
    }

    pub(super) fn store(&self, key: u64, scores: &[i16]) {
        let (fours, rest) = scores.as_chunks::<PER_WORD>();
        let count = scores.len().div_ceil(PER_WORD);
        if count == 0 || count > 1 << COUNT_BITS {
            return;
        }
        let mut last = [0; PER_WORD];
        last[..rest.len()].copy_from_slice(rest);
        let place = self.take(count);
        let mut checksum = Checksum(key);
        let words = &self.ring.words()[place..place + count];
        for (word, four) in words.iter().zip(fours.iter().chain([&last])) {
            let packed =
                four.iter().rev().fold(0, |packed, &score| packed << 16 | u64::from(score as u16));
            checksum.add(packed);
            word.store(packed, Relaxed);
        }
        if let [combined, content] = self.index.bucket(key, ENTRY) {
            let entry = Entry { place, count, checksum: checksum.bits() }.pack();
            combined.store(key ^ entry, Relaxed);
            content.store(entry, Relaxed);
        }
    }

    /// Takes so many words of the ring in sequence: the place of the first.
    fn take(&self, count: usize) -> usize {
        let capacity = self.ring.words().len() as u64;
        let count = count as u64;
        let mut end = self.end.load(Relaxed);
        loop {
            let start = end % capacity;
            // Never across the end of the ring.
            let from = if start + count > capacity { end + capacity - start } else { end };
            match self.end.compare_exchange_weak(end, from + count, Relaxed, Relaxed) {
                Ok(_) => return (from % capacity) as usize,
                Err(now) => end = now,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::atomic::AtomicBool, thread};

    use super::*;

    /// The scores that the test stores for a key: each word of them can be told from those of other
    /// keys.
    fn scores_of(key: u64) -> Vec<i16> {
        (0..30 + key % 7).map(|move_| (key * 131 + move_ * 7) as i16).collect()
    }

    #[test]
    fn an_entry_keeps_its_fields() {
        for place in [0, 1, (1 << PLACE_BITS) - 1] {
            for count in [1, 8, 1 << COUNT_BITS] {
                let entry = Entry { place, count, checksum: 0x2a_aaab };
                assert_eq!(Entry::unpack(entry.pack()), entry);
            }
        }
    }

    /// What a slow thread writes over scores that were stored meanwhile is found out.
    #[test]
    fn overwritten_scores_are_not_found() {
        let cache = ScoresCache::new(1 << 10, 8 << 10);
        let (key, scores) = (5 << 57, scores_of(5));
        cache.store(key, &scores);
        let mut found = Vec::new();
        for word in 0..scores.len().div_ceil(PER_WORD) {
            assert!(
                cache.has(key, Some(scores.len())) && cache.read(key, scores.len(), &mut found),
                "{word}"
            );
            assert_eq!(found, scores);
            let word = &cache.ring.words()[word];
            let before = word.load(Relaxed);
            word.store(before ^ 1 << 20, Relaxed);
            assert!(
                !cache.has(key, Some(scores.len())) && !cache.read(key, scores.len(), &mut found)
            );
            assert!(found.is_empty());
            word.store(before, Relaxed);
        }
        assert!(!cache.read(key, scores.len() + PER_WORD, &mut found) && found.is_empty());
    }

    /// A ring of a few dozen positions, which two threads overwrite all the time while two others
    /// read: what is read is what was stored.
    #[test]
    fn threads_read_whole_scores_or_none() {
        let cache = ScoresCache::new(1 << 10, 8 << 10);
        let is_over = AtomicBool::new(false);
        let found = thread::scope(|scope| {
            let writers = [1, 2].map(|writer| {
                let cache = &cache;
                scope.spawn(move || {
                    for round in 0..400_000_u64 {
                        let key = (round * 7 + writer) % 97;
                        let scores = scores_of(key);
                        cache.store(key << 57, &scores);
                    }
                })
            });
            let readers = [0, 1].map(|reader| {
                let (cache, is_over) = (&cache, &is_over);
                scope.spawn(move || {
                    let (mut found, mut scores) = (0_u64, Vec::new());
                    for round in reader.. {
                        let key = round % 97;
                        let expected = scores_of(key);
                        if cache.read(key << 57, expected.len(), &mut scores) {
                            assert_eq!(scores, expected, "{key}");
                            found += 1;
                        }
                        if found > 1_000 && is_over.load(Relaxed) {
                            break;
                        }
                    }
                    found
                })
            });
            writers.into_iter().for_each(|writer| writer.join().unwrap());
            is_over.store(true, Relaxed);
            readers.map(|reader| reader.join().unwrap())
        });
        assert!(found.iter().all(|&found| found > 1_000), "{found:?}");
    }
}
