//! Progress of long work on standard error: on a terminal one line that is overwritten, elsewhere a
//! line every ten seconds.

use std::{
    io::{self, IsTerminal, Write},
    time::{Duration, Instant},
};

/// A line of progress, with the start of the work.
pub struct ProgressLine {
    started: Instant,
    shown: Option<Instant>,
    terminal: bool,
}

impl ProgressLine {
    /// The work starts now.
    pub fn new() -> Self {
        Self { started: Instant::now(), shown: None, terminal: io::stderr().is_terminal() }
    }

    /// Seconds since the start, never 0.
    pub fn seconds(&self) -> f64 {
        self.started.elapsed().as_secs_f64().max(1e-3)
    }

    /// Shows a line if one is due.
    pub fn show(&mut self, line: impl FnOnce() -> String) {
        let wait = if self.terminal { Duration::from_millis(200) } else { Duration::from_secs(10) };
        if self.shown.unwrap_or(self.started).elapsed() < wait {
            return;
        }
        self.shown = Some(Instant::now());
        let mut out = io::stderr().lock();
        // A failed write of progress does not stop the work.
        let _ = if self.terminal {
            write!(out, "\r\x1b[K{}", line())
        } else {
            writeln!(out, "{}", line())
        };
        let _ = out.flush();
    }

    /// Keeps the last line on the screen.
    pub fn finish(&self) {
        if self.terminal && self.shown.is_some() {
            // A failed write is ignored, as in `show`.
            let _ = writeln!(io::stderr());
        }
    }
}

/// The end of a resumable run, in words.
pub fn ending(interrupted: bool) -> &'static str {
    if interrupted { "interrupted (start again to go on)" } else { "complete" }
}
