//! Ctrl-C and, on Unix, SIGTERM: the first asks the command to end in good order, a second one ends
//! the program at once. What long commands have written by then is whole.

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

/// Exit code of a program that was interrupted, as shells have it for Ctrl-C.
const CODE: u8 = 130;

/// What comes so soon after the first is the first again: `timeout` signals a program, then its
/// group.
const ECHO: Duration = Duration::from_millis(500);

/// The command ended in good order before its work was done. It has said so itself.
#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted;

impl Interrupted {
    /// How a command ends whose work may have been cut short; `shown` is how telling of it went.
    /// Ctrl-C also ends the reader of a pipe; that does not count as success.
    ///
    /// # Errors
    /// It was cut short, or `shown` is one.
    pub fn or(cut_short: bool, shown: anyhow::Result<()>) -> anyhow::Result<()> {
        if cut_short { Err(Self.into()) } else { shown }
    }

    /// The program's exit code then: a script does not go on with half the work.
    pub fn exit_code() -> ExitCode {
        ExitCode::from(CODE)
    }
}

/// What a terminal or a service manager sends to end a program.
struct Signals {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
}

impl Signals {
    #[cfg(unix)]
    fn caught() -> io::Result<Self> {
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
    fn caught() -> io::Result<Self> {
        Ok(Self {})
    }

    #[cfg(not(unix))]
    async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending().await // It cannot be caught: it ends the program.
        }
    }
}

fn on_interrupt(ask: impl Fn() + Send + 'static) -> anyhow::Result<()> {
    let start = || -> io::Result<()> {
        let runtime = runtime::Builder::new_current_thread().enable_io().build()?;
        // On Unix they are caught from here on, not only once the thread runs.
        let mut signals = runtime.block_on(async { Signals::caught() })?;
        thread::Builder::new().name("signals".to_owned()).spawn(move || {
            runtime.block_on(async {
                signals.next().await;
                let asked = Instant::now();
                ask();
                while asked.elapsed() < ECHO {
                    signals.next().await;
                }
                std::process::exit(i32::from(CODE));
            });
        })?;
        Ok(())
    };
    start().context("Ctrl-C cannot be caught")
}

/// A flag that an interruption raises.
///
/// # Errors
/// Ctrl-C cannot be caught.
pub fn flag() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let raised = Arc::clone(&stop);
    on_interrupt(move || raised.store(true, Ordering::Relaxed))?;
    Ok(stop)
}

/// An interruption stops the search.
///
/// # Errors
/// Ctrl-C cannot be caught.
pub fn stops(control: &Control) -> anyhow::Result<()> {
    let control = control.clone();
    on_interrupt(move || control.stop())
}

/// Wakes who waits for an interruption.
///
/// # Errors
/// Ctrl-C cannot be caught.
pub fn notice() -> anyhow::Result<Arc<Notify>> {
    let notify = Arc::new(Notify::new());
    let notified = Arc::clone(&notify);
    on_interrupt(move || notified.notify_one())?;
    Ok(notify)
}
