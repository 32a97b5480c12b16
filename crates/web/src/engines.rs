//! The systems that play on the page: one engine a system, shared by all its searches, and the
//! search slots.

use std::sync::Arc;

use engine::{EngineBuilder, EngineError, EngineOptions, SharedEngine, has_search};
use eval::{Devices, EvalError};
use nets::{Network, System};
use search::{Search, Settings};

use crate::search_slots::SearchSlots;

/// Memory of one search, in MiB.
const HASH_MIB: usize = 32;

/// The engines of all systems, and the slots for searches on them.
#[derive(Debug)]
pub struct Engines {
    systems: Vec<SystemEngine>,
    options: EngineOptions,
    pub slots: SearchSlots,
}

/// A system that can play.
#[derive(Debug)]
struct SystemEngine {
    system: System,
    network: Arc<Network>,
    /// Shared by all searches of the system; `None` for a system without a search.
    shared: Option<SharedEngine>,
}

impl Engines {
    /// Engines with the evaluators that `options` describes, and `slots` searches at once.
    ///
    /// # Errors
    /// A network cannot be used.
    pub fn new(
        networks: Vec<(System, Network)>,
        options: &EngineOptions,
        slots: usize,
    ) -> Result<Self, EngineError> {
        let mut systems = Vec::new();
        for (system, network) in networks {
            let network = Arc::new(network);
            let shared =
                has_search(system).then(|| SharedEngine::over(&network, options)).transpose()?;
            systems.push(SystemEngine { system, network, shared });
        }
        let engines = Self { systems, options: options.clone(), slots: SearchSlots::new(slots) };
        for engine in engines.systems.iter().filter(|engine| engine.shared.is_none()) {
            // An unusable network is an error here and not in the first game.
            engines.build(engine.system, 1, 0)?;
        }
        Ok(engines)
    }

    /// The systems that can play, and their networks.
    pub fn systems(&self) -> impl Iterator<Item = (System, &Network)> {
        self.systems.iter().map(|engine| (engine.system, engine.network.as_ref()))
    }

    /// Whether a system can play.
    #[must_use]
    pub fn has(&self, system: System) -> bool {
        self.systems.iter().any(|engine| engine.system == system)
    }

    /// A search of a system. `batch`: positions evaluated together; 0 uses the evaluator's preferred
    /// batch size.
    ///
    /// # Errors
    /// The system has no network here, or it cannot be run.
    pub fn build(
        &self,
        system: System,
        multipv: usize,
        batch: usize,
    ) -> Result<Box<dyn Search>, EngineError> {
        let settings = Settings { hash_mib: HASH_MIB, multipv, batch, ..Settings::default() };
        let Some(engine) = self.systems.iter().find(|engine| engine.system == system) else {
            let reason = "it was not given to the page".to_owned();
            return Err(EvalError::Unsupported { network: system.name().to_owned(), reason }.into());
        };
        match &engine.shared {
            Some(shared) => Ok(shared.search(&settings)),
            None => {
                let options =
                    EngineOptions { settings, devices: Devices::cpu(), ..self.options.clone() };
                let network = Arc::clone(&engine.network);
                Ok(EngineBuilder::over(network, system, options).build()?.search)
            }
        }
    }
}
