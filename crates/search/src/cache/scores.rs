//! Move scores of positions: most of a search's memory, and of a different length for each position.
//!
//! They lie in a ring, in the order in which they were stored; an index says where. Threads share
//! both without locks. Who stores scores first takes their place in the ring, by moving the end of
//! the stream on; who reads them looks afterwards whether the stream has come around meanwhile.

use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
    fence,
};

use crate::pages::Pages;

/// Words of an entry of the index.
const ENTRY: usize = 2;

/// Scores in a word.
const PER_WORD: usize = 4;

pub(super) struct ScoresCache {
    /// By key: the place in the stream of all words written, from 1, combined with the key, and the
    /// place; 0: empty. The ring holds the end of the stream.
    index: Pages,
    ring: Pages,
    /// The place in the stream of the next scores, from 1.
    end: AtomicU64,
}

impl ScoresCache {
    /// Uses so many bytes for the index and for the ring, but at least a few KiB.
    pub(super) fn new(index: usize, ring: usize) -> Self {
        Self {
            index: Pages::zeroed(index / 8, ENTRY),
            ring: Pages::zeroed((ring / 8).max(1024), 1),
            end: AtomicU64::new(1),
        }
    }

    pub(super) fn clear(&mut self) {
        self.index.clear();
        self.ring.clear();
        self.end = AtomicU64::new(1);
    }

    /// The place in the stream of a position's scores, if the ring still holds them.
    fn place(&self, key: u64) -> Option<u64> {
        let [combined, place] = self.index.bucket(key, ENTRY) else { return None };
        let place = place.load(Relaxed);
        let is_found = place != 0 && combined.load(Relaxed) ^ place == key;
        // What the entry tells of was written before the entry.
        fence(Acquire);
        (is_found && self.holds(place)).then_some(place)
    }

    /// Has nobody begun to write over this place of the stream?
    fn holds(&self, place: u64) -> bool {
        self.end.load(Relaxed) - place <= self.ring.words().len() as u64
    }

    pub(super) fn has(&self, key: u64) -> bool {
        self.place(key).is_some()
    }

    pub(super) fn read(&self, key: u64, moves: usize, into: &mut Vec<i16>) -> bool {
        into.clear();
        let Some(place) = self.place(key) else { return false };
        let ring = self.ring.words();
        let start = (place % ring.len() as u64) as usize;
        let Some(words) = ring.get(start..start + moves.div_ceil(PER_WORD)) else { return false };
        for word in words {
            let word = word.load(Relaxed);
            into.extend([word, word >> 16, word >> 32, word >> 48].map(|score| score as i16));
        }
        into.truncate(moves);
        fence(Acquire);
        let is_whole = self.holds(place);
        if !is_whole {
            into.clear();
        }
        is_whole
    }

    pub(super) fn store(&self, key: u64, scores: &[i16]) {
        let ring = self.ring.words();
        let (fours, rest) = scores.as_chunks::<PER_WORD>();
        let count = scores.len().div_ceil(PER_WORD);
        if count == 0 || count > ring.len() {
            return;
        }
        let place = self.take(count as u64);
        fence(Release);
        let start = (place % ring.len() as u64) as usize;
        let mut last = [0; PER_WORD];
        last[..rest.len()].copy_from_slice(rest);
        for (word, four) in ring[start..start + count].iter().zip(fours.iter().chain([&last])) {
            let packed =
                four.iter().rev().fold(0, |packed, &score| packed << 16 | u64::from(score as u16));
            word.store(packed, Relaxed);
        }
        fence(Release);
        if let [combined, content] = self.index.bucket(key, ENTRY) {
            combined.store(key ^ place, Relaxed);
            content.store(place, Relaxed);
        }
    }

    /// Takes so many words of the ring in sequence: their place in the stream.
    fn take(&self, count: u64) -> u64 {
        let capacity = self.ring.words().len() as u64;
        let mut end = self.end.load(Relaxed);
        loop {
            let start = end % capacity;
            // Never across the end of the ring.
            let place = if start + count > capacity { end + capacity - start } else { end };
            match self.end.compare_exchange_weak(end, place + count, Relaxed, Relaxed) {
                Ok(_) => return place,
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
                        if is_over.load(Relaxed) {
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
