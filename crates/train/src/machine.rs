//! The machine and the git revision of a run, which are stored with its results.

use std::process::Command;

/// Processor, number of cores and operating system, in one line.
#[must_use]
pub fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let processor = std::fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("model name"))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    });
    let processor = processor.unwrap_or_else(|| std::env::consts::ARCH.to_owned());
    format!("{processor}, {cores} cores, {}", std::env::consts::OS)
}

/// The git revision of the working folder, with `-dirty` when tracked files have changed; `unknown`
/// outside of git.
#[must_use]
pub fn revision() -> String {
    let run = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Some(revision) = run(&["rev-parse", "--short=12", "HEAD"]) else {
        return "unknown".to_owned();
    };
    match run(&["status", "--porcelain", "--untracked-files=no"]) {
        Some(changes) if changes.is_empty() => revision,
        _ => format!("{revision}-dirty"),
    }
}
