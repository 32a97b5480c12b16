//! One network whose evaluators many searches use together: files of games, the page.

use std::sync::Arc;

use board::Tablebases;
use eval::{Cached, EvaluationCache, Evaluator, Shared, cpu::CpuOptions};
use nets::Network;
use search::{Algorithm, Search, Settings};

use crate::{
    EngineError, EngineOptions,
    build::{Use, algorithm, choose_or, evaluator, has_search},
    networks::for_files,
};

/// MiB for evaluations that all searches of [`SharedEngine::for_files`] share.
const MEMORY_MIB: usize = 64;

/// A network, and evaluators that answer many searches at once.
#[derive(Debug)]
pub struct SharedEngine {
    network: Arc<Network>,
    algorithm: Algorithm,
    evaluators: Shared,
    tables: Option<Arc<Tablebases>>,
    name: String,
}

impl SharedEngine {
    /// One evaluator a thread of the processor, or one for all GPUs, with a common cache. The
    /// network of Batch First is `fast` on every machine unless the options name one: the effort of
    /// such searches is counted in evaluations, and hosts that share the work must agree.
    ///
    /// # Errors
    /// The network cannot be used, or its system has no search.
    pub fn for_files(options: &EngineOptions) -> Result<Self, EngineError> {
        let (network, system) = choose_or(options, Use::Evaluate, for_files)?;
        if !has_search(system) {
            return Err(EngineError::NoValues { system });
        }
        let network = Arc::new(network);
        let cpu = CpuOptions { threads: 1, ..options.cpu() };
        let devices = options.devices.found();
        let count = if devices.is_cpu() { options.threads } else { 1 };
        let memory = EvaluationCache::new(MEMORY_MIB);
        let cached = || -> Result<Box<dyn Evaluator>, EngineError> {
            Ok(Box::new(Cached::over(devices.evaluator(&network, cpu)?, &memory)))
        };
        let first = cached()?;
        let more = (1..count).map(|_| cached()).collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            evaluators: Shared::new(first, more),
            algorithm: algorithm(options, &network),
            tables: options.settings.tables.clone(),
            name: name(options, &network),
            network,
        })
    }

    /// One evaluator of a network, with all threads of the options.
    ///
    /// # Errors
    /// The network cannot be used.
    pub fn over(network: &Arc<Network>, options: &EngineOptions) -> Result<Self, EngineError> {
        Ok(Self {
            evaluators: Shared::new(evaluator(network, options)?, Vec::new()),
            algorithm: algorithm(options, network),
            tables: options.settings.tables.clone(),
            name: name(options, network),
            network: Arc::clone(network),
        })
    }

    /// Program, network with its fingerprint, and search, code path, number format and tables
    /// unless they are the default: everything that decides a score.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A search over the evaluators.
    #[must_use]
    pub fn search(&self, settings: &Settings) -> Box<dyn Search> {
        let settings = Settings { tables: self.tables.clone(), ..settings.clone() };
        self.algorithm.build(Box::new(self.evaluators.client()), &self.network, &settings)
    }
}

fn name(options: &EngineOptions, network: &Network) -> String {
    let algorithm = algorithm(options, network);
    let given = [
        (algorithm != Algorithm::of(network)).then(|| format!(", search {}", algorithm.name())),
        options.path.map(|path| format!(", {path}")),
        options.precision.map(|precision| format!(", {precision}")),
        options.settings.tables.as_ref().map(|_| ", endgame tables".to_owned()),
    ];
    let given: String = given.into_iter().flatten().collect();
    format!(
        "Batch First {}, network {} {}{given}",
        env!("CARGO_PKG_VERSION"),
        network.name,
        network.fingerprint()
    )
}
