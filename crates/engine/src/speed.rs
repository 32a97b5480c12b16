//! The evaluations a second of a network in a search on this machine. They are measured once, which
//! takes some milliseconds, and then read from a file in the user's cache folder.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use board::Position;
use eval::{
    Batch, Evaluator,
    cpu::{self, CpuEvaluator},
};
use nets::Network;
use serde_json::Value;

use crate::{EngineError, EngineOptions, measured};

/// Seconds that the search itself takes for an evaluation, on one thread
/// (docs/experiments/2026-11-search-speed.md).
const TREE_SECONDS: f64 = 5e-6;

/// Rounds of a measurement. The fastest counts, because other work only slows one down.
const ROUNDS: usize = 5;

/// Positions of a round for each thread.
const POSITIONS: usize = 8;

/// Evaluations a second that a search makes of `network` with these options on the processor. They
/// are looked up in the file `known`, or measured and added to it; `None`: measured.
///
/// # Errors
/// The network cannot be evaluated.
pub(crate) fn evaluations_a_second(
    network: &Arc<Network>,
    options: &EngineOptions,
    known: Option<&Path>,
) -> Result<f64, EngineError> {
    let key = key(network, options)?;
    let mut speeds = known.map(measured::read).unwrap_or_default();
    if let Some(speed) = speeds.get(&key).and_then(Value::as_f64) {
        return Ok(speed);
    }
    let speed = 1.0 / (TREE_SECONDS + seconds_of_position(network, options)?);
    if let Some(path) = known {
        speeds.insert(key, speed.round().into());
        measured::write(path, &speeds);
    }
    Ok(speed)
}

/// The file of the speeds that were measured on this machine.
pub(crate) fn file() -> Option<PathBuf> {
    measured::file("speeds.json")
}

/// Everything that decides a speed: network, program, processor, code path, number format, threads.
fn key(network: &Network, options: &EngineOptions) -> Result<String, EngineError> {
    let choice = cpu::choose(options.path, options.precision, network.int8_ranges.is_some())?;
    Ok(format!(
        "network {}, program {}, {}, {} {}, threads {}",
        network.fingerprint(),
        env!("CARGO_PKG_VERSION"),
        processor(),
        choice.path,
        choice.precision,
        options.threads
    ))
}

/// Seconds that the network takes for a position with all threads.
fn seconds_of_position(
    network: &Arc<Network>,
    options: &EngineOptions,
) -> Result<f64, EngineError> {
    let mut evaluator = CpuEvaluator::new(Arc::clone(network), options.cpu())?;
    let mut batch = game(POSITIONS * options.threads.max(1));
    let count = batch.len() as f64;
    let mut fastest = f64::INFINITY;
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        batch = evaluator.evaluate(batch)?.batch;
        fastest = fastest.min(begun.elapsed().as_secs_f64() / count);
    }
    Ok(fastest)
}

/// The first `plies` positions of a game, with value and move scores requested.
fn game(plies: usize) -> Batch {
    let mut batch = Batch::default();
    let mut position = Position::default();
    for step in 0..plies {
        let mut moves = position.legal_moves();
        if moves.is_empty() {
            position = Position::default();
            moves = position.legal_moves();
        }
        batch.push(&position, true, &moves);
        position.play(moves[step * 7 % moves.len()]);
    }
    batch
}

/// The processor's name if the system reports it, else the architecture.
fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    name.map_or(std::env::consts::ARCH.to_owned(), |(_, name)| name.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load;

    #[test]
    fn a_speed_is_measured_once_and_then_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new").join("speeds.json");
        let network = Arc::new(load(Path::new("fast")).unwrap());
        let options = EngineOptions::default();
        let of =
            |options: &EngineOptions| evaluations_a_second(&network, options, Some(&path)).unwrap();
        let measured = of(&options);
        assert!(measured > 10.0 && measured < 1.0 / TREE_SECONDS, "{measured}");
        assert_eq!(of(&options), measured.round());
        // Two threads are another entry; a damaged file is measured again.
        of(&EngineOptions { threads: 2, ..options.clone() });
        assert_eq!(measured::read(&path).len(), 2);
        std::fs::write(&path, "{").unwrap();
        of(&options);
        assert_eq!(measured::read(&path).len(), 1);
    }

    #[test]
    fn a_network_is_measured_where_nothing_can_be_written() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        let network = Arc::new(load(Path::new("fast")).unwrap());
        let path = file.join("speeds.json");
        assert!(evaluations_a_second(&network, &EngineOptions::default(), Some(&path)).is_ok());
    }
}
