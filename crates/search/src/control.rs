//! The handle by which another thread stops a search, signals a ponder hit, or asks for a view.

use std::{
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use crate::View;

/// Shared between a running search and its caller; clones are the same handle.
#[derive(Clone, Debug, Default)]
pub struct Control {
    flags: Arc<Flags>,
}

#[derive(Debug, Default)]
struct Flags {
    stop: AtomicBool,
    ponder_hit: OnceLock<Instant>,
    wants_view: AtomicBool,
    view: Mutex<Option<View>>,
}

impl Control {
    /// Asks the search to end with its best move so far.
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
        let _ = self.flags.ponder_hit.set(Instant::now());
    }

    /// True once [`Control::ponder_hit`] was called.
    #[must_use]
    pub fn is_ponder_hit(&self) -> bool {
        self.ponder_hit_at().is_some()
    }

    /// When [`Control::ponder_hit`] was first called.
    pub(crate) fn ponder_hit_at(&self) -> Option<Instant> {
        self.flags.ponder_hit.get().copied()
    }

    /// Asks for one view of the inside; only the K-best search answers, after its next batch.
    pub fn ask_for_view(&self) {
        self.flags.wants_view.store(true, Ordering::Relaxed);
    }

    /// The latest view that was asked for and not taken yet.
    #[must_use]
    pub fn take_view(&self) -> Option<View> {
        self.flags.view.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(crate) fn wants_view(&self) -> bool {
        self.flags.wants_view.load(Ordering::Relaxed)
    }

    pub(crate) fn show(&self, view: View) {
        self.flags.wants_view.store(false, Ordering::Relaxed);
        *self.flags.view.lock().unwrap_or_else(PoisonError::into_inner) = Some(view);
    }
}
