//! The networks in the program, and which of them suits a machine.

use std::path::Path;

use eval::cpu::{self, CpuPath};
use nets::{Network, System};

use crate::{EngineError, EngineOptions};

/// Batch First's network for devices that evaluate it ten thousand times a second and more, for
/// files of games and for the page.
const LARGE: &[u8] = include_bytes!("../../../networks/batch-first.safetensors");

/// Batch First's network for slower processors: a tenth of the time of the large one.
const FAST: &[u8] = include_bytes!("../../../networks/batch-first-fast.safetensors");

const COCKFISH: &[u8] = include_bytes!("../../../networks/cockfish.safetensors");

/// ConvChess's seven networks.
const CONVCHESS: &[u8] = include_bytes!("../../../networks/convchess.safetensors");

/// Batch First's networks by their names in options.
const NAMED: [(&str, &[u8]); 2] = [("large", LARGE), ("fast", FAST)];

/// Threads up to which the fast network should make several times the evaluations of the large one:
/// with more of them its search waits for the tree. An estimate (docs/networks.md).
const FAST_THREADS: usize = 8;

/// The network of a file or with a name in the program; `None`: the large one.
///
/// # Errors
/// The file is no network.
pub fn load_or_large(path: Option<&Path>) -> Result<Network, EngineError> {
    match path {
        Some(path) => load(path),
        None => embedded(System::BatchFirst),
    }
}

/// The network of a file or with a name in the program.
///
/// # Errors
/// The file is no network.
pub fn load(path: &Path) -> Result<Network, EngineError> {
    match named(path) {
        Some(bytes) => in_program(bytes),
        None => Ok(Network::load(path)?),
    }
}

/// Is this the name of a network in the program, not a file?
#[must_use]
pub fn is_named(path: &Path) -> bool {
    named(path).is_some()
}

fn named(path: &Path) -> Option<&'static [u8]> {
    NAMED.iter().find(|(name, _)| path == Path::new(name)).map(|&(_, bytes)| bytes)
}

fn in_program(bytes: &[u8]) -> Result<Network, EngineError> {
    Network::from_bytes(bytes, "the embedded network").map_err(EngineError::Damaged)
}

/// The network of a system in the program; Batch First's large one.
///
/// # Errors
/// The program is damaged.
pub fn embedded(system: System) -> Result<Network, EngineError> {
    in_program(match system {
        System::BatchFirst => LARGE,
        System::Cockfish => COCKFISH,
        System::ConvChess => CONVCHESS,
    })
}

/// Batch First's network in the program that plays better where these options evaluate it
/// (docs/networks.md).
///
/// # Errors
/// The program is damaged, or no code path of the processor fits the options.
pub fn fitting(options: &EngineOptions) -> Result<Network, EngineError> {
    let affords_large = !options.devices.is_cpu()
        || options.threads > FAST_THREADS
        || matches!(
            cpu::choose(options.path, options.precision, true)?.path,
            CpuPath::Amx | CpuPath::Avx512
        );
    in_program(if affords_large { LARGE } else { FAST })
}
