//! Large tables in pages mapped from the system. A page is zero and takes no memory before its
//! first use. Linux is asked for huge pages, because a random lookup in a large table otherwise
//! also waits for the page tables.

use std::{
    alloc::{Layout, handle_alloc_error},
    marker::PhantomData,
    ops::{Deref, DerefMut},
};

use bytemuck::Pod;
use memmap2::MmapMut;

/// A slice of elements that are zero at first.
pub(crate) struct Pages<T> {
    map: MmapMut,
    element: PhantomData<T>,
}

impl<T: Pod> Pages<T> {
    /// `count` elements, at least one. The program ends if the system has no memory for them, as
    /// with any allocation.
    pub(crate) fn zeroed(count: usize) -> Self {
        let Ok(layout) = Layout::array::<T>(count.max(1)) else {
            handle_alloc_error(Layout::new::<T>())
        };
        let Ok(map) = MmapMut::map_anon(layout.size()) else { handle_alloc_error(layout) };
        // Huge pages only make lookups faster, so a refusal is no error.
        #[cfg(target_os = "linux")]
        map.advise(memmap2::Advice::HugePage).ok();
        Self { map, element: PhantomData }
    }
}

impl<T: Pod> Deref for Pages<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        bytemuck::cast_slice(&self.map)
    }
}

impl<T: Pod> DerefMut for Pages<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        bytemuck::cast_slice_mut(&mut self.map)
    }
}

impl<T> std::fmt::Debug for Pages<T> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} bytes", self.map.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_at_first() {
        for count in [0, 1, 3, 100_000] {
            let mut pages = Pages::<[u64; 3]>::zeroed(count);
            assert_eq!(pages.len(), count.max(1));
            assert!(pages.iter().all(|element| *element == [0; 3]));
            if let Some(last) = pages.last_mut() {
                *last = [1, 2, 3];
            }
            assert_eq!(pages.last(), Some(&[1, 2, 3]));
        }
    }
}
