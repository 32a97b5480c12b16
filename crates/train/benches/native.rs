//! Training speed of the native backend: `cargo bench -p batch-first-train --bench native [-- BATCH STEPS THREADS]`.
#![allow(clippy::print_stdout)]

use nets::HeadKind;
use train::native::measure_speed;

fn main() -> Result<(), train::TrainError> {
    let numbers: Vec<usize> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    let number = |index: usize, default: usize| numbers.get(index).copied().unwrap_or(default);
    let (batch, steps, threads) = (number(0, 1024), number(1, 10), number(2, 2));
    for kind in [HeadKind::Value, HeadKind::Moves] {
        let speed = measure_speed(kind, batch, steps, threads)?;
        println!(
            "{} network, batch {batch}, {}: {:.0} positions/s, {:.0} a CPU second",
            kind.name(),
            speed.backend,
            speed.per_second(),
            speed.per_cpu_second().unwrap_or(f64::NAN)
        );
    }
    Ok(())
}
