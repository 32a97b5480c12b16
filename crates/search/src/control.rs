//! The handle by which another thread ends a search or turns pondering into thinking.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// Shared between a running search and whoever started it; clones are the same handle.
#[derive(Clone, Debug, Default)]
pub struct Control {
    flags: Arc<Flags>,
}

#[derive(Debug, Default)]
struct Flags {
    stop: AtomicBool,
    ponder_hit: AtomicBool,
}

impl Control {
    /// Asks the search to end with what it has.
    pub fn stop(&self) {
        self.flags.stop.store(true, Ordering::Release);
    }

    /// True once [`Control::stop`] was called.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.flags.stop.load(Ordering::Acquire)
    }

    /// The opponent played the expected move: the clock runs from now.
    pub fn ponder_hit(&self) {
        self.flags.ponder_hit.store(true, Ordering::Release);
    }

    /// True once [`Control::ponder_hit`] was called.
    #[must_use]
    pub fn is_ponder_hit(&self) -> bool {
        self.flags.ponder_hit.load(Ordering::Acquire)
    }
}
