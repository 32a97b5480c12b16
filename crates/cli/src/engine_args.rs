//! The flags that choose an engine, shared by all commands that search.

use std::{
    num::NonZero,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
};

use board::{Tablebases, memory_without_room_for};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use engine::{Algorithm, EngineOptions, SEARCHES};
use eval::{Devices, Precision, cpu::CpuPath};
use nets::System;
use search::Settings;

/// Flags of every command that searches.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct EngineArgs {
    /// Network file, or `large` or `fast`, which are in the program (default: the one of these that
    /// fits the device; for annotated files `fast`).
    #[arg(long, value_name = "FILE")]
    pub net: Option<PathBuf>,
    /// The system: batch-first, cockfish or convchess (default: the network's; without one
    /// batch-first).
    #[arg(long, value_name = "NAME")]
    pub system: Option<System>,
    /// Threads of the evaluator.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=256))]
    pub threads: Option<u64>,
    /// The search (default: the system's own).
    #[arg(long, value_name = "NAME", value_parser = search_names())]
    pub search: Option<Algorithm>,
    /// Where networks are evaluated: auto, cpu, cuda:N or vulkan:N, several with commas (`doctor`
    /// lists what is here).
    #[arg(long, value_name = "NAME", default_value_t)]
    pub device: Devices,
    /// Code path on the processor: amx, avx512, avx2, neon or portable (default: the fastest here).
    #[arg(long, value_name = "PATH")]
    pub cpu: Option<CpuPath>,
    /// Number format: bf16, f32 or int8 on the processor, f16, bf16 or f32 on GPUs (default: the
    /// fastest good one).
    #[arg(long, value_name = "FORMAT")]
    pub precision: Option<Precision>,
    /// Positions evaluated together (default: the evaluator's preference).
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u64).range(1..=16_384))]
    pub batch: Option<u64>,
    /// Memory for the search, in MiB: evaluations, bounds and the tree.
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=65_536).try_map(within_memory))]
    pub hash: Option<u64>,
    /// Syzygy endgame tables: a folder, or several with `:` between them (`;` on Windows).
    #[arg(long, value_name = "DIR")]
    pub syzygy: Option<PathBuf>,
}

impl EngineArgs {
    /// The options that these flags choose. `threads` is the number of threads if no flag gives it.
    ///
    /// # Errors
    /// The folder of endgame tables holds no tables.
    pub fn options(&self, threads: usize) -> anyhow::Result<EngineOptions> {
        let defaults = EngineOptions::default().settings;
        let tables = self.syzygy.as_deref().map(open_tables).transpose()?;
        Ok(EngineOptions {
            network: self.net.clone(),
            system: self.system,
            threads: self.threads.map_or(threads, |threads| threads as usize),
            algorithm: self.search,
            devices: self.device.clone(),
            path: self.cpu,
            precision: self.precision,
            settings: Settings {
                batch: self.batch.map_or(defaults.batch, |batch| batch as usize),
                hash_mib: self.hash.map_or(defaults.hash_mib, |hash| hash as usize),
                tables: tables.map(Arc::new),
                ..defaults
            },
        })
    }
}

/// Accepts the name of a search; the help lists the searches with their descriptions.
fn search_names() -> impl TypedValueParser<Value = Algorithm> {
    let names = SEARCHES.map(|entry| PossibleValue::new(entry.name).help(entry.description));
    PossibleValuesParser::new(names).try_map(|name| name.parse::<Algorithm>())
}

/// Accepts a size of the search tree in MiB that this machine has memory for.
fn within_memory(mib: u64) -> Result<u64, String> {
    match memory_without_room_for(mib) {
        Some(machine) => {
            Err(format!("this machine has {machine} MiB of memory; give the tree less"))
        }
        None => Ok(mib),
    }
}

/// Number of processors of this machine.
#[must_use]
pub fn processors() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// Opens endgame tables; folders that give none are named.
///
/// # Errors
/// No folder has tables.
pub fn open_tables(path: &Path) -> anyhow::Result<Tablebases> {
    let tables = Tablebases::open(path)?;
    for reason in tables.unusable() {
        tracing::warn!("{reason}");
    }
    Ok(tables)
}
