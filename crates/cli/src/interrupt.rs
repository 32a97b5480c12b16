//! Ctrl-C: the first asks the command to end in good order, the second ends the program at once. What long commands have
//! written by then is whole.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use anyhow::Context;
use search::Control;

/// Exit code of a program that was interrupted.
const INTERRUPTED: i32 = 130;

fn on_interrupt(ask: impl Fn() + Send + 'static) -> anyhow::Result<()> {
    let asked = AtomicBool::new(false);
    ctrlc::set_handler(move || {
        if asked.swap(true, Ordering::Relaxed) {
            std::process::exit(INTERRUPTED);
        }
        ask();
    })
    .context("Ctrl-C cannot be caught")
}

/// A flag that Ctrl-C raises.
///
/// # Errors
/// Ctrl-C cannot be caught.
pub fn flag() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let raised = Arc::clone(&stop);
    on_interrupt(move || raised.store(true, Ordering::Relaxed))?;
    Ok(stop)
}

/// Ctrl-C stops the search.
///
/// # Errors
/// Ctrl-C cannot be caught.
pub fn stops(control: &Control) -> anyhow::Result<()> {
    let control = control.clone();
    on_interrupt(move || control.stop())
}
