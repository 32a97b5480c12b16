//! Memory in large pages. A processor remembers where some thousand pages lie; of usual ones these
//! are a few megabytes, and every read beyond first waits for the page's address.

/// Bytes of a large page on Linux's usual processors.
const LARGE: usize = 2 << 20;

/// Asks the system for large pages under memory that is large enough. Pages that were written before
/// stay as they are for the time being. A refusal is no loss.
pub fn use_large_pages<E>(memory: &[E]) {
    let begin = (memory.as_ptr() as usize).next_multiple_of(LARGE);
    let end = (memory.as_ptr() as usize + size_of_val(memory)) / LARGE * LARGE;
    if begin + LARGE <= end {
        #[cfg(target_os = "linux")]
        // SAFETY: advice on pages that lie wholly inside this allocation; it changes no content.
        unsafe {
            libc::madvise(begin as *mut libc::c_void, end - begin, libc::MADV_HUGEPAGE)
        };
    }
}
