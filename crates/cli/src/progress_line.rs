//! Progress of long work on standard error: one line that is written over on a terminal, a line
//! every ten seconds elsewhere.

use std::{
    io::{self, IsTerminal, Write},
    time::{Duration, Instant},
};

/// A line of progress, and since when.
pub struct ProgressLine {
    started: Instant,
    shown: Option<Instant>,
    terminal: bool,
}

impl ProgressLine {
    /// Work begins now.
    pub fn new() -> Self {
        Self { started: Instant::now(), shown: None, terminal: io::stderr().is_terminal() }
    }

    /// Seconds since the beginning, never 0.
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
        // Progress that cannot be shown is no reason to stop.
        let _ = if self.terminal {
            write!(out, "\r\x1b[K{}", line())
        } else {
            writeln!(out, "{}", line())
        };
        let _ = out.flush();
    }

    /// Leaves the last line standing.
    pub fn finish(&self) {
        if self.terminal && self.shown.is_some() {
            // As above.
            let _ = writeln!(io::stderr());
        }
    }
}

/// How a run that can go on ended, in words.
pub fn ending(interrupted: bool) -> &'static str {
    if interrupted { "interrupted (start again to go on)" } else { "complete" }
}
