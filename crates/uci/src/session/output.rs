//! Writes whole lines from any thread and flushes each; a closed pipe is recorded, not fatal.

use std::{
    fmt::Display,
    io::Write,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

/// Clones write to the same place.
#[derive(Clone)]
pub(super) struct Output {
    shared: Arc<Shared>,
}

struct Shared {
    sink: Mutex<Box<dyn Write + Send>>,
    closed: AtomicBool,
    on_close: Box<dyn Fn() + Send + Sync>,
}

impl Output {
    /// `on_close` is called when the sink can no longer be written.
    pub(super) fn new(
        sink: impl Write + Send + 'static,
        on_close: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        Self {
            shared: Arc::new(Shared {
                sink: Mutex::new(Box::new(sink)),
                closed: AtomicBool::new(false),
                on_close: Box::new(on_close),
            }),
        }
    }

    /// Writes a line of the protocol and flushes it.
    pub(super) fn line(&self, text: &str) {
        if self.is_closed() {
            return;
        }
        let mut bytes = Vec::with_capacity(text.len() + 1);
        bytes.extend_from_slice(text.as_bytes());
        bytes.push(b'\n');
        let mut sink = self.shared.sink.lock().unwrap_or_else(PoisonError::into_inner);
        if sink.write_all(&bytes).and_then(|()| sink.flush()).is_err() {
            self.shared.closed.store(true, Ordering::Release);
            (self.shared.on_close)();
        }
    }

    /// Writes an `info string`.
    pub(super) fn note(&self, text: impl Display) {
        self.line(&format!("info string {text}"));
    }

    /// True once a write has failed.
    pub(super) fn is_closed(&self) -> bool {
        self.shared.closed.load(Ordering::Acquire)
    }
}
