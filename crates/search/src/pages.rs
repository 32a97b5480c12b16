//! Large tables in pages mapped from the system. A page is zero and takes no memory before its
//! first use. Linux is asked for huge pages, because a random lookup in a large table otherwise
//! also waits for the page tables.

use std::{alloc::Layout, alloc::handle_alloc_error, sync::atomic::AtomicU64};

use memmap2::{MmapMut, MmapRaw};

/// Words that are zero at first and that several threads may share.
pub(crate) struct Pages {
    map: MmapRaw,
    words: usize,
}

impl Pages {
    /// About so many words in buckets of this size, at least one bucket. The program ends if the
    /// system has no memory for them, as with any allocation.
    pub(crate) fn zeroed(words: usize, bucket: usize) -> Self {
        let words = (words / bucket).max(1) * bucket;
        let Ok(layout) = Layout::array::<AtomicU64>(words) else {
            handle_alloc_error(Layout::new::<AtomicU64>())
        };
        let Ok(map) = MmapMut::map_anon(layout.size()) else { handle_alloc_error(layout) };
        // Huge pages only make lookups faster, so a refusal is no error.
        #[cfg(target_os = "linux")]
        map.advise(memmap2::Advice::HugePage).ok();
        Self { map: map.into(), words }
    }

    pub(crate) fn words(&self) -> &[AtomicU64] {
        // SAFETY: the map has so many bytes, aligned to a page, initialised with zeros, and lives as
        // long as `self`. Nothing else refers to it but slices made here, of atomics.
        unsafe { std::slice::from_raw_parts(self.map.as_mut_ptr().cast::<AtomicU64>(), self.words) }
    }

    /// The bucket of a key, whose upper bits choose it; buckets as in [`Pages::zeroed`].
    pub(crate) fn bucket(&self, key: u64, bucket: usize) -> &[AtomicU64] {
        let buckets = self.words / bucket;
        let at = ((u128::from(key) * buckets as u128) >> 64) as usize * bucket;
        &self.words()[at..at + bucket]
    }

    /// Lets the processor fetch the first cache line of a key's bucket in the background. Only x86-64
    /// has a stable instruction for that; elsewhere this does nothing.
    pub(crate) fn prefetch(&self, key: u64, bucket: usize) {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: every such processor has the instruction; it changes nothing but caches.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(self.bucket(key, bucket).as_ptr().cast()) };
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (key, bucket);
    }

    /// Makes all words zero.
    pub(crate) fn clear(&mut self) {
        // SAFETY: the map has so many bytes, and nobody else refers to it while `self` is borrowed
        // alone. Plain words are filled several times as fast as atomic ones.
        let words = unsafe {
            std::slice::from_raw_parts_mut(self.map.as_mut_ptr().cast::<u64>(), self.words)
        };
        words.fill(0);
    }
}

impl std::fmt::Debug for Pages {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} words", self.words)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    #[test]
    fn zeros_at_first_and_when_cleared() {
        for words in [0, 1, 3, 100_000] {
            let mut pages = Pages::zeroed(words, 2);
            assert_eq!(pages.words().len(), (words / 2 * 2).max(2));
            let is_zero = |pages: &Pages| pages.words().iter().all(|word| word.load(Relaxed) == 0);
            assert!(is_zero(&pages));
            for (word, number) in pages.words().iter().zip(1..) {
                word.store(number, Relaxed);
            }
            assert!(pages.words().iter().zip(1..).all(|(word, n)| word.load(Relaxed) == n));
            pages.clear();
            assert!(is_zero(&pages));
        }
    }

    #[test]
    fn keys_choose_all_buckets_and_none_beyond() {
        let pages = Pages::zeroed(40, 8);
        let first = |key| pages.bucket(key, 8).as_ptr();
        assert_eq!(first(0), pages.words().as_ptr());
        assert_eq!(first(u64::MAX), pages.words()[32..].as_ptr());
    }
}
