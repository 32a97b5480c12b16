//! Progress of long work on standard error: on a terminal one line that is overwritten, elsewhere a
//! line every ten seconds. What is said at its end.

use std::{
    io::{self, IsTerminal, Write},
    path::Path,
    time::{Duration, Instant},
};

use games::is_standard;

use crate::CheckFailed;

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

/// Where the last line of a run goes: to standard error where `output` is standard output.
pub fn summary_output(output: &Path) -> Box<dyn Write> {
    if is_standard(output) { Box::new(io::stderr()) } else { Box::new(io::stdout()) }
}

/// Fails where games were not understood to their end.
///
/// # Errors
/// There are such games.
pub fn ensure_none_broken(count: u64) -> anyhow::Result<()> {
    match count {
        0 => Ok(()),
        1 => {
            Err(CheckFailed("the text of one game was not understood to its end".to_owned()).into())
        }
        _ => {
            let reason = format!("the texts of {count} games were not understood to their end");
            Err(CheckFailed(reason).into())
        }
    }
}
