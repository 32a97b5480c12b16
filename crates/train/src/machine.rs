//! The machine and the git revision of a run, which are stored with its results.

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

/// The git revision that this program was built from, with `-dirty` when files of its crates were
/// changed; `unknown` if it was not built in a checkout.
#[must_use]
pub fn revision() -> String {
    env!("BATCH_FIRST_REVISION").to_owned()
}
