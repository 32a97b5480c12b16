//! The opponents on the page: one engine each, shared by all its searches, and the search slots.

mod threaded;

pub use threaded::GameSearch;

use std::sync::Arc;

use engine::{EngineBuilder, EngineError, EngineOptions, SharedEngine, has_search};
use eval::Devices;
use nets::{Network, System};
use search::{Search, Settings};

use crate::{
    ApiError, Opponent,
    levels::{RatedLevel, rated_levels},
    search_slots::SearchSlots,
};
use threaded::ThreadedEngines;

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
    rated: Vec<RatedLevel>,
    options: EngineOptions,
    /// The most threads that a game may ask for; 0 where the evaluators are not on the processor.
    max_threads: usize,
    threaded: ThreadedEngines,
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
        let (mut opponents, mut rated) = (Vec::new(), Vec::new());
        for (opponent, network) in networks {
            if let Opponent::System(system) = opponent {
                rated.extend(rated_levels(system, &network));
            }
            let network = Arc::new(network);
            let shared = has_search(opponent.system())
                .then(|| SharedEngine::over(&network, options))
                .transpose()?;
            opponents.push(OpponentEngine { opponent, network, shared });
        }
        let max_threads = if options.devices.found().is_cpu() { options.threads } else { 0 };
        let engines = Self {
            opponents,
            rated,
            options: options.clone(),
            max_threads,
            threaded: ThreadedEngines::default(),
            slots: SearchSlots::new(slots),
        };
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

    /// The rated levels of all opponents.
    pub fn rated_levels(&self) -> &[RatedLevel] {
        &self.rated
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

    /// The search for the next move of a game. With `threads` it has an evaluator on the processor
    /// beside that of all searches, and that evaluator's preferred batch size, and it is the one that
    /// [rests](Engines::rest) since the game's last move, if any does. An evaluator takes a while to
    /// build: this is for threads that may wait.
    ///
    /// # Errors
    /// As [`Engines::build`].
    pub fn search_for_game(
        &self,
        opponent: Opponent,
        threads: Option<usize>,
        game: i64,
    ) -> Result<GameSearch, ApiError> {
        let engine = self.find(opponent)?;
        let Some(threads) = threads.filter(|_| engine.shared.is_some()) else {
            return Ok(GameSearch { search: self.search_alone(opponent)?, threaded: None });
        };
        let settings = Settings { hash_mib: HASH_MIB, ..Settings::default() };
        let build = || {
            let options =
                EngineOptions { threads, devices: Devices::cpu(), ..self.options.clone() };
            SharedEngine::over(&engine.network, &options)
        };
        self.threaded.search((opponent, threads), game, &settings, build).map_err(cannot_run)
    }

    /// Keeps the search of a game until its next move, and returns it if the caller is to do so. One
    /// with threads of its own stays here, beside the few evaluators that are kept.
    pub fn rest(&self, game: i64, search: GameSearch) -> Option<GameSearch> {
        if search.threaded.is_none() {
            return Some(search);
        }
        self.threaded.rest(game, search);
        None
    }

    /// Drops the resting search of a game that is closed.
    pub fn forget(&self, game: i64) {
        self.threaded.forget(game);
    }

    /// Threads of the evaluators that games with threads have, and how many searches rest with each.
    #[cfg(test)]
    pub fn resting(&self) -> Vec<(usize, usize)> {
        self.threaded.list()
    }

    /// A search for moves. Batch First evaluates positions one by one, as the ratings of its levels
    /// were measured.
    fn search_alone(&self, opponent: Opponent) -> Result<Box<dyn Search>, ApiError> {
        self.build(opponent, 1, usize::from(opponent.system() == System::BatchFirst))
    }

    /// The most threads that a game may ask for; 0 where the evaluators are not on the processor.
    #[must_use]
    pub fn max_threads(&self) -> usize {
        self.max_threads
    }

    /// A search for hints and draw offers: of the first opponent that searches.
    ///
    /// # Errors
    /// No opponent searches, or as [`Engines::build`].
    pub fn build_adviser(&self) -> Result<Box<dyn Search>, ApiError> {
        let adviser = self.opponents.iter().find(|engine| engine.shared.is_some());
        let adviser =
            adviser.ok_or_else(|| ApiError::new("This server has no engine that can advise."))?;
        self.search_alone(adviser.opponent)
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
    let error = error.to_string().replace('`', "");
    ApiError(format!("The engine cannot run: {error}."))
}
