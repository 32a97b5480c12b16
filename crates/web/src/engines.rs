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
    /// its levels were measured.
    ///
    /// # Errors
    /// As [`Engines::build`].
    pub fn build_for_game(&self, opponent: Opponent) -> Result<Box<dyn Search>, ApiError> {
        let batch = usize::from(opponent == Opponent::System(System::BatchFirst));
        self.build(opponent, 1, batch)
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
        self.search(self.find(opponent)?, multipv, batch)
            .map_err(|error| ApiError::new(format!("the engine cannot run: {error}")))
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
