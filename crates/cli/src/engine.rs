//! The engine that the commands share: a network, an evaluator for this machine and the search over
//! it.

use std::{
    num::NonZero,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
};

use anyhow::{Context, bail, ensure};
use board::Tablebases;
use clap::builder::TypedValueParser;
use eval::{
    Cached, Devices, Evaluator, Precision, ScoreMemory, Shared,
    cpu::{self, CpuOptions, CpuPath},
};
use nets::{Network, System};
use search::{Algorithm, ConvChess, Search, Settings, memory_without_room_for};
use uci::{Built, Options};

/// The network for devices that evaluate it ten thousand times a second and more, for files of
/// games and for the page.
const LARGE: &[u8] = include_bytes!("../../../networks/batch-first.safetensors");

/// A network that takes a tenth of the time, for processors on which that is worth more than what
/// it knows less.
const FAST: &[u8] = include_bytes!("../../../networks/batch-first-fast.safetensors");

/// Threads up to which the fast network should have several times as many evaluations as the large
/// one: with more of them its search waits for its tree. An estimate (docs/networks.md).
const FAST_THREADS: usize = 8;

/// Batch First's networks by the names that they have in the program.
const NAMED: [(&str, &[u8]); 2] = [("large", LARGE), ("fast", FAST)];

/// The network of `--system cockfish`.
const COCKFISH: &[u8] = include_bytes!("../../../networks/cockfish.safetensors");

/// ConvChess's seven networks.
const CONVCHESS: &[u8] = include_bytes!("../../../networks/convchess.safetensors");

/// Flags of every command that searches.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct EngineArgs {
    /// Network file, or `large` or `fast`, which are in the program (default: the one of these that
    /// fits the device; for files of games `large`).
    #[arg(long, value_name = "FILE")]
    pub net: Option<PathBuf>,
    /// The system: batch-first, cockfish or convchess (default: the network's; without one
    /// batch-first).
    #[arg(long, value_name = "NAME")]
    pub system: Option<System>,
    /// Threads of the evaluator.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=256))]
    pub threads: Option<u64>,
    /// The search: kbest, kbest-classic, alphabeta, puct or minimax (default: the system's own).
    #[arg(long, value_name = "NAME")]
    pub search: Option<Algorithm>,
    /// Where networks are evaluated: auto, cpu, cuda:N or vulkan:N, several with commas (`doctor`
    /// lists what is here).
    #[arg(long, value_name = "NAME", default_value_t)]
    pub device: Devices,
    /// Code path on the processor: amx, avx512, avx2 or portable (default: the fastest here).
    #[arg(long, value_name = "PATH")]
    pub cpu: Option<CpuPath>,
    /// Number format: bf16, f32 or int8 on the processor, f16, bf16 or f32 on GPUs (default: the
    /// fastest good one).
    #[arg(long, value_name = "FORMAT")]
    pub precision: Option<Precision>,
    /// Positions evaluated together (default: as many as the evaluator likes).
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u64).range(1..=16_384))]
    pub batch: Option<u64>,
    /// Memory for the search tree, in MiB.
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=65_536).try_map(within_memory))]
    pub hash: Option<u64>,
    /// Syzygy endgame tables: a folder, or several with `:` between them (`;` on Windows).
    #[arg(long, value_name = "DIR")]
    pub syzygy: Option<PathBuf>,
}

impl EngineArgs {
    /// The options of a UCI engine with these flags; `threads` is used where no flag says.
    ///
    /// # Errors
    /// There are no tables where they should be.
    pub fn options(&self, threads: usize) -> anyhow::Result<Options> {
        let defaults = Options::default().settings;
        let tables = self.syzygy.as_deref().map(Tablebases::open).transpose()?;
        Ok(Options {
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
            ..Options::default()
        })
    }
}

/// A size of the search tree in MiB that this machine has memory for.
fn within_memory(mib: u64) -> Result<u64, String> {
    match memory_without_room_for(mib) {
        Some(machine) => {
            Err(format!("this machine has {machine} MiB of memory; give the tree less"))
        }
        None => Ok(mib),
    }
}

/// Processors of this machine.
#[must_use]
pub fn processors() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// The network of a file or with a name in the program, or the large one.
///
/// # Errors
/// The file is no network.
pub fn network(path: Option<&Path>) -> anyhow::Result<Network> {
    match path {
        Some(path) => load(path),
        None => embedded(System::BatchFirst),
    }
}

/// The network of a file or with a name in the program.
///
/// # Errors
/// The file is no network.
pub fn load(path: &Path) -> anyhow::Result<Network> {
    match named(path) {
        Some(bytes) => in_program(bytes),
        None => Ok(Network::load(path)?),
    }
}

/// Is this the name of a network in the program instead of a file?
#[must_use]
pub fn is_named(path: &Path) -> bool {
    named(path).is_some()
}

fn named(path: &Path) -> Option<&'static [u8]> {
    NAMED.iter().find(|(name, _)| path == Path::new(name)).map(|&(_, bytes)| bytes)
}

fn in_program(bytes: &[u8]) -> anyhow::Result<Network> {
    Network::from_bytes(bytes, "the embedded network").context("the program is damaged")
}

/// The network of a system in this program; of Batch First's the large one.
///
/// # Errors
/// The program is damaged.
pub fn embedded(system: System) -> anyhow::Result<Network> {
    in_program(match system {
        System::BatchFirst => LARGE,
        System::Cockfish => COCKFISH,
        System::ConvChess => CONVCHESS,
    })
}

/// Of Batch First's networks in the program the one that plays better where these options evaluate
/// it (docs/networks.md).
///
/// # Errors
/// The program is damaged, or no code path of the processor fits the options.
pub fn fitting(options: &Options) -> anyhow::Result<Network> {
    let affords_large = !options.devices.is_cpu()
        || options.threads > FAST_THREADS
        || matches!(
            cpu::choose(options.path, options.precision, true)?.path,
            CpuPath::Amx | CpuPath::Avx512
        );
    in_program(if affords_large { LARGE } else { FAST })
}

/// The network that the options ask for, and the system that plays with it.
///
/// # Errors
/// The file is no network or one of another system, or the system has no network here.
pub fn choose(options: &Options) -> anyhow::Result<(Network, System)> {
    choose_or(options, |system| {
        if system == System::BatchFirst { fitting(options) } else { embedded(system) }
    })
}

/// As [`choose`], with the system's network from `unnamed` where the options name none.
fn choose_or(
    options: &Options,
    unnamed: impl Fn(System) -> anyhow::Result<Network>,
) -> anyhow::Result<(Network, System)> {
    let (network, system) = match (&options.network, options.system) {
        (None, wanted) => {
            let system = wanted.unwrap_or(System::BatchFirst);
            (unnamed(system)?, system)
        }
        (Some(path), wanted) => {
            let network = load(path)?;
            let mut system = System::of(&network.description);
            // A policy can always be asked for moves without a search.
            if wanted == Some(System::ConvChess) && ConvChess::check(&network).is_ok() {
                system = System::ConvChess;
            }
            if let Some(wanted) = wanted.filter(|&wanted| wanted != system) {
                bail!("`{}` is a network of the system {system}, not {wanted}", path.display());
            }
            (network, system)
        }
    };
    if let Some(algorithm) = options.algorithm {
        ensure!(
            system != System::ConvChess,
            "{system} plays without a search; {} is one of the other systems",
            algorithm.name()
        );
        ensure!(
            algorithm.suits(&network),
            "the search {} wants a network that scores moves, and {} does not; there are {} and {}",
            algorithm.name(),
            network.name,
            Algorithm::AlphaBeta.name(),
            Algorithm::Minimax.name()
        );
    }
    if system == System::ConvChess {
        ConvChess::check(&network)?;
    }
    Ok((network, system))
}

fn cpu_options(options: &Options) -> CpuOptions {
    CpuOptions { threads: options.threads, precision: options.precision, path: options.path }
}

/// The search that is asked for, or the network's own.
fn algorithm(options: &Options, network: &Network) -> Algorithm {
    options.algorithm.unwrap_or_else(|| Algorithm::of(network))
}

/// An evaluator for these options.
///
/// # Errors
/// The network, the device or the code path cannot be used.
pub fn evaluator(network: &Arc<Network>, options: &Options) -> anyhow::Result<Box<dyn Evaluator>> {
    Ok(options.devices.evaluator(network, cpu_options(options))?)
}

/// A search for these options.
///
/// # Errors
/// The network cannot be used.
pub fn build(options: &Options) -> anyhow::Result<Built> {
    let (network, system) = choose(options)?;
    build_over(&Arc::new(network), system, options, None)
}

/// A search over what these options [`choose`], which may have a memory of evaluations together
/// with others.
///
/// # Errors
/// The network cannot be used.
pub fn build_over(
    network: &Arc<Network>,
    system: System,
    options: &Options,
    memory: Option<&ScoreMemory>,
) -> anyhow::Result<Built> {
    if system == System::ConvChess {
        ensure!(
            options.devices == Devices::default() || options.devices.is_cpu(),
            "the system {system} is asked for one position at a time and runs on the processor; leave the device {} away",
            options.devices
        );
        let description =
            format!("network {}, {system}: moves by their chances, without a search", network.name);
        let search =
            Box::new(ConvChess::new(Arc::clone(network), cpu_options(options), &options.settings)?);
        return Ok(Built { search, description });
    }
    let mut evaluator = evaluator(network, options)?;
    let description = evaluator.describe();
    if let Some(memory) = memory {
        evaluator = Box::new(Cached::over(evaluator, memory));
    }
    let search = algorithm(options, network).build(evaluator, network, &options.settings);
    Ok(Built { search, description })
}

/// Evaluators for many searches at once, with one memory, and how to make such a search.
pub struct SharedEngine {
    shared: Shared,
    network: Arc<Network>,
    algorithm: Algorithm,
    tables: Option<Arc<Tablebases>>,
    /// Program, network with its fingerprint, and search, code path, number format and tables
    /// unless they are the default.
    pub name: String,
}

impl SharedEngine {
    /// One evaluator a thread of the processor, or one for all GPUs. Unless another network is
    /// asked for it is the large one, since what such searches do is counted in evaluations, and
    /// hosts that share it must agree.
    ///
    /// # Errors
    /// The network cannot be used, or its system has no search.
    pub fn new(options: &Options) -> anyhow::Result<Self> {
        /// Of what was evaluated in any of the searches, in MiB.
        const MEMORY: usize = 64;
        let (network, system) = choose_or(options, embedded)?;
        ensure!(
            system != System::ConvChess,
            "the system {system} says which move is likely, not what a position is worth; choose another with --system"
        );
        let network = Arc::new(network);
        let cpu = CpuOptions { threads: 1, ..cpu_options(options) };
        let devices = options.devices.found();
        let evaluators = if devices.is_cpu() { options.threads } else { 1 };
        let memory = ScoreMemory::new(MEMORY);
        let evaluator = || -> anyhow::Result<Box<dyn Evaluator>> {
            Ok(Box::new(Cached::over(devices.evaluator(&network, cpu)?, &memory)))
        };
        let first = evaluator()?;
        let more = (1..evaluators).map(|_| evaluator()).collect::<anyhow::Result<Vec<_>>>()?;
        let algorithm = algorithm(options, &network);
        let given = [
            (algorithm != Algorithm::of(&network))
                .then(|| format!(", search {}", algorithm.name())),
            options.path.map(|path| format!(", {path}")),
            options.precision.map(|precision| format!(", {precision}")),
            options.settings.tables.as_ref().map(|_| ", endgame tables".to_owned()),
        ];
        let given: String = given.into_iter().flatten().collect();
        Ok(Self {
            shared: Shared::new(first, more),
            algorithm,
            tables: options.settings.tables.clone(),
            name: format!(
                "Batch First {}, network {} {}{given}",
                env!("CARGO_PKG_VERSION"),
                network.name,
                network.fingerprint()
            ),
            network,
        })
    }

    /// A search over the evaluators.
    #[must_use]
    pub fn search(&self, settings: &Settings) -> Box<dyn Search> {
        let settings = Settings { tables: self.tables.clone(), ..settings.clone() };
        self.algorithm.build(Box::new(self.shared.client()), &self.network, &settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_processors_get_the_fast_network() {
        let name = |network: Option<&str>, path: CpuPath, threads: usize| {
            let options = Options {
                network: network.map(PathBuf::from),
                path: Some(path),
                threads,
                devices: Devices::cpu(),
                ..Options::default()
            };
            let alone = choose(&options).map(|(network, _)| network.name);
            let shared = SharedEngine::new(&options).map(|engine| engine.network.name.clone());
            (alone.unwrap(), shared.unwrap())
        };
        let (large, fast) = ("batch-first-attacks".to_owned(), "batch-first-fast".to_owned());
        assert_eq!(name(None, CpuPath::Portable, 1), (fast.clone(), large.clone()));
        assert_eq!(name(None, CpuPath::Portable, 8), (fast.clone(), large.clone()));
        assert_eq!(name(None, CpuPath::Portable, 9), (large.clone(), large.clone()));
        assert_eq!(name(Some("large"), CpuPath::Portable, 1), (large.clone(), large.clone()));
        assert_eq!(name(Some("fast"), CpuPath::Portable, 9), (fast.clone(), fast));
        let devices = "cuda:0".parse().unwrap();
        let on_card =
            Options { devices, path: Some(CpuPath::Portable), threads: 1, ..Options::default() };
        assert_eq!(fitting(&on_card).unwrap().name, large);
        if CpuPath::Avx512.obstacle(Precision::F32).is_none() {
            assert_eq!(name(None, CpuPath::Avx512, 1), (large.clone(), large));
        }
    }
}
