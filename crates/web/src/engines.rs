//! The opponents on the page: one engine each, shared by all its searches, and the search slots.

use std::sync::Arc;

use engine::{EngineBuilder, EngineError, EngineOptions, SharedEngine, has_search};
use eval::Devices;
use nets::{Network, System};
use search::{Search, Settings};

use crate::{ApiError, Opponent, search_slots::SearchSlots};

/// Memory of one search, in MiB.
const HASH_MIB: usize = 32;

/// Temperature of a Maia's choice: moves are played as often as people play them
/// (docs/11-leela-and-maia.md).
const MAIA_TEMPERATURE: u32 = 100;
/// Percent of the chances that a Maia chooses from: blunders that few people make are left out.
const MAIA_TOP_P: u32 = 90;

/// The engines of all opponents, and the slots for searches on them.
#[derive(Debug)]
pub struct Engines {
    opponents: Vec<OpponentEngine>,
    options: EngineOptions,
    pub slots: SearchSlots,
}

/// An opponent that can play.
#[derive(Debug)]
struct OpponentEngine {
    opponent: Opponent,
    network: Arc<Network>,
    /// Shared by all searches of the opponent; `None` for one that does not search.
    shared: Option<SharedEngine>,
}

impl Engines {
    /// Engines with the evaluators that `options` describes, and `slots` searches at once.
    ///
    /// # Errors
    /// A network cannot be used.
    pub fn new(
        networks: Vec<(Opponent, Network)>,
        options: &EngineOptions,
        slots: usize,
    ) -> Result<Self, EngineError> {
        let mut opponents = Vec::new();
        for (opponent, network) in networks {
            let network = Arc::new(network);
            let shared = has_search(opponent.system())
                .then(|| SharedEngine::over(&network, options))
                .transpose()?;
            opponents.push(OpponentEngine { opponent, network, shared });
        }
        let engines = Self { opponents, options: options.clone(), slots: SearchSlots::new(slots) };
        for engine in engines.opponents.iter().filter(|engine| engine.shared.is_none()) {
            // An unusable network is an error here and not in the first game.
            engines.search(engine, 1, 0)?;
        }
        Ok(engines)
    }

    /// The opponents that can play, and their networks.
    pub fn opponents(&self) -> impl Iterator<Item = (Opponent, &Network)> {
        self.opponents.iter().map(|engine| (engine.opponent, engine.network.as_ref()))
    }

    /// The network of an opponent.
    ///
    /// # Errors
    /// The opponent cannot play here; the text says what is missing.
    pub fn network(&self, opponent: Opponent) -> Result<&Network, ApiError> {
        self.find(opponent).map(|engine| engine.network.as_ref())
    }

    fn find(&self, opponent: Opponent) -> Result<&OpponentEngine, ApiError> {
        let found = self.opponents.iter().find(|engine| engine.opponent == opponent);
        found.ok_or_else(|| opponent.unavailable())
    }

    /// A search for the moves of a game. Batch First evaluates positions one by one, as the ratings of
    /// its levels were measured. With `threads` it has an evaluator of its own on the processor, and
    /// that evaluator's preferred batch size.
    ///
    /// # Errors
    /// As [`Engines::build`].
    pub fn build_for_game(
        &self,
        opponent: Opponent,
        threads: Option<usize>,
    ) -> Result<Box<dyn Search>, ApiError> {
        let Some(threads) = threads else {
            let batch = usize::from(opponent.system() == System::BatchFirst);
            return self.build(opponent, 1, batch);
        };
        let network = Arc::clone(&self.find(opponent)?.network);
        let settings = Settings { hash_mib: HASH_MIB, ..Settings::default() };
        let devices = Devices::cpu();
        let options = EngineOptions { settings, threads, devices, ..self.options.clone() };
        let engine = EngineBuilder::over(network, opponent.system(), options).build();
        Ok(engine.map_err(cannot_run)?.search)
    }

    /// The most threads that a game may ask for; 0 where the evaluators are not on the processor.
    #[must_use]
    pub fn max_threads(&self) -> usize {
        if self.options.devices.found().is_cpu() { self.options.threads } else { 0 }
    }

    /// A search for hints and draw offers: of the first opponent that searches.
    ///
    /// # Errors
    /// No opponent searches, or as [`Engines::build`].
    pub fn build_adviser(&self) -> Result<Box<dyn Search>, ApiError> {
        let adviser = self.opponents.iter().find(|engine| engine.shared.is_some());
        let adviser =
            adviser.ok_or_else(|| ApiError::new("This server has no engine that can advise."))?;
        self.build_for_game(adviser.opponent, None)
    }

    /// A search of an opponent. `batch`: positions evaluated together; 0 uses the evaluator's
    /// preferred batch size.
    ///
    /// # Errors
    /// The opponent has no network here, or it cannot be run.
    pub fn build(
        &self,
        opponent: Opponent,
        multipv: usize,
        batch: usize,
    ) -> Result<Box<dyn Search>, ApiError> {
        self.search(self.find(opponent)?, multipv, batch).map_err(cannot_run)
    }

    fn search(
        &self,
        engine: &OpponentEngine,
        multipv: usize,
        batch: usize,
    ) -> Result<Box<dyn Search>, EngineError> {
        let mut settings = Settings { hash_mib: HASH_MIB, multipv, batch, ..Settings::default() };
        if let Opponent::Maia(_) = engine.opponent {
            (settings.temperature, settings.top_p) = (MAIA_TEMPERATURE, MAIA_TOP_P);
        }
        match &engine.shared {
            Some(shared) => Ok(shared.search(&settings)),
            None => {
                let options =
                    EngineOptions { settings, devices: Devices::cpu(), ..self.options.clone() };
                let (network, system) = (Arc::clone(&engine.network), engine.opponent.system());
                Ok(EngineBuilder::over(network, system, options).build()?.search)
            }
        }
    }
}

fn cannot_run(error: EngineError) -> ApiError {
    ApiError(format!("The engine cannot run: {error}"))
}
