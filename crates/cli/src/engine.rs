//! The engine that the commands share: a network, an evaluator for this machine and the search over it.

use std::{
    num::NonZero,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
};

use anyhow::Context;
use eval::{
    Evaluator,
    cpu::{CpuEvaluator, CpuOptions, CpuPath, Precision},
};
use nets::Network;
use search::{Algorithm, Settings};
use uci::{Built, Options};

/// The network that is used unless another is asked for.
const EMBEDDED: &[u8] = include_bytes!("../../../networks/batch-first.safetensors");

/// Flags of every command that searches.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct EngineArgs {
    /// Network file (default: the network in the program).
    #[arg(long, value_name = "FILE")]
    pub net: Option<PathBuf>,
    /// Threads of the evaluator.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=256))]
    pub threads: Option<u64>,
    /// The search: kbest, alphabeta or puct (default: kbest).
    #[arg(long, value_name = "NAME")]
    pub search: Option<Algorithm>,
    /// Code path of the evaluator: amx, avx512, avx2 or portable (default: the fastest here).
    #[arg(long, value_name = "PATH")]
    pub cpu: Option<CpuPath>,
    /// Number format of the evaluator: bf16, f32 or int8 (default: the code path's own).
    #[arg(long, value_name = "FORMAT")]
    pub precision: Option<Precision>,
    /// Positions evaluated together (default: as many as the evaluator likes).
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u64).range(1..=4096))]
    pub batch: Option<u64>,
    /// Memory for the search tree, in MiB.
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=65_536))]
    pub hash: Option<u64>,
}

impl EngineArgs {
    /// The options of a UCI engine with these flags; `threads` is used where no flag says.
    #[must_use]
    pub fn options(&self, threads: usize) -> Options {
        let defaults = Settings::default();
        Options {
            network: self.net.clone(),
            threads: self.threads.map_or(threads, |threads| threads as usize),
            algorithm: self.search.unwrap_or_default(),
            path: self.cpu,
            precision: self.precision,
            settings: Settings {
                batch: self.batch.map_or(defaults.batch, |batch| batch as usize),
                hash_mib: self.hash.map_or(defaults.hash_mib, |hash| hash as usize),
                ..defaults
            },
            ..Options::default()
        }
    }
}

/// Processors of this machine.
#[must_use]
pub fn processors() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// The network of a file, or the embedded one.
///
/// # Errors
/// The file is no network.
pub fn network(path: Option<&Path>) -> anyhow::Result<Network> {
    match path {
        Some(path) => Ok(Network::load(path)?),
        None => Network::from_bytes(EMBEDDED, "the embedded network").context("the program is damaged"),
    }
}

/// A search for these options.
///
/// # Errors
/// The network cannot be used.
pub fn build(options: &Options) -> anyhow::Result<Built> {
    let network = Arc::new(network(options.network.as_deref())?);
    let evaluator = CpuEvaluator::new(
        Arc::clone(&network),
        CpuOptions { threads: options.threads, precision: options.precision, path: options.path },
    )?;
    let description = evaluator.describe();
    let search = options.algorithm.build(Box::new(evaluator), &network.calibration, &options.settings);
    Ok(Built { search, description })
}
