//! Ctrl-C and, on Unix, SIGTERM: the first signal asks the command to end in good order, a second one
//! ends the program at once. Long commands write whole games, so their files stay valid.

use std::{
    io,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::Context;
use search::Control;
use tokio::{runtime, sync::Notify};

/// Exit code of an interrupted program: the code of shells for Ctrl-C.
const EXIT_CODE: u8 = 130;

/// A signal within this time after the first one is a repetition: `timeout` signals a program, then
/// its group.
const REPETITION: Duration = Duration::from_millis(500);

/// The command ended in good order before its work was done, and has reported this.
#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted;

impl Interrupted {
    /// The result of a command whose work may have been interrupted; `shown` is the result of its
    /// report. An interruption also ends the reader of a pipe, so it comes before a closed pipe.
    ///
    /// # Errors
    /// The work was interrupted, or `shown` is an error.
    pub fn or(interrupted: bool, shown: anyhow::Result<()>) -> anyhow::Result<()> {
        if interrupted { Err(Self.into()) } else { shown }
    }

    /// The exit code of an interrupted program, which stops a script.
    pub fn exit_code() -> ExitCode {
        ExitCode::from(EXIT_CODE)
    }
}

/// The signals by which a terminal or a service manager ends a program.
struct Signals {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
}

impl Signals {
    #[cfg(unix)]
    fn catch() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    #[cfg(unix)]
    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => (),
            _ = self.interrupt.recv() => (),
        }
    }

    #[cfg(not(unix))]
    fn catch() -> io::Result<Self> {
        Ok(Self {})
    }

    #[cfg(not(unix))]
    async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending().await // An uncaught signal ends the program.
        }
    }
}

fn on_interrupt(on_first: impl Fn() + Send + 'static) -> anyhow::Result<()> {
    let start = || -> io::Result<()> {
        let runtime = runtime::Builder::new_current_thread().enable_io().build()?;
        // On Unix the signals are caught from here on, before the thread runs.
        let mut signals = runtime.block_on(async { Signals::catch() })?;
        thread::Builder::new().name("signals".to_owned()).spawn(move || {
            runtime.block_on(async {
                signals.next().await;
                let first = Instant::now();
                on_first();
                while first.elapsed() < REPETITION {
                    signals.next().await;
                }
                std::process::exit(i32::from(EXIT_CODE));
            });
        })?;
        Ok(())
    };
    start().context("Ctrl-C cannot be caught")
}

/// A flag that an interruption sets.
///
/// # Errors
/// Ctrl-C cannot be caught.
pub fn stop_flag() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let raised = Arc::clone(&stop);
    on_interrupt(move || raised.store(true, Ordering::Relaxed))?;
    Ok(stop)
}

/// Lets an interruption stop the search.
///
/// # Errors
/// Ctrl-C cannot be caught.
pub fn stop_search(control: &Control) -> anyhow::Result<()> {
    let control = control.clone();
    on_interrupt(move || control.stop())
}

/// A notification of an interruption.
///
/// # Errors
/// Ctrl-C cannot be caught.
pub fn notification() -> anyhow::Result<Arc<Notify>> {
    let notify = Arc::new(Notify::new());
    let notified = Arc::clone(&notify);
    on_interrupt(move || notified.notify_one())?;
    Ok(notify)
}
