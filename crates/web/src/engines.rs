//! The opponents on the page: one engine each, shared by all its searches, and the search slots.

use std::sync::{Arc, Mutex, PoisonError};

use engine::{EngineBuilder, EngineError, EngineOptions, SharedEngine, has_search};
use eval::Devices;
use nets::{Network, System};
use search::{Search, Settings};

use crate::{ApiError, Opponent, search_slots::SearchSlots};

/// Memory of one search, in MiB.
const HASH_MIB: usize = 32;

/// The most evaluators with threads of their own that are kept; those of running searches besides.
const MAX_THREADED: usize = 4;

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
    /// The most threads that a game may ask for; 0 where the evaluators are not on the processor.
    max_threads: usize,
    /// The evaluators of games with threads of their own, by opponent and threads, the latest last.
    threaded: Mutex<Vec<(Opponent, usize, Arc<SharedEngine>)>>,
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
        let max_threads = if options.devices.found().is_cpu() { options.threads } else { 0 };
        let engines = Self {
            opponents,
            options: options.clone(),
            max_threads,
            threaded: Mutex::default(),
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
    /// its levels were measured. With `threads` it has an evaluator on the processor beside that of
    /// all searches, and that evaluator's preferred batch size. An evaluator takes a while to build:
    /// this is for threads that may wait.
    ///
    /// # Errors
    /// As [`Engines::build`].
    pub fn build_for_game(
        &self,
        opponent: Opponent,
        threads: Option<usize>,
    ) -> Result<Box<dyn Search>, ApiError> {
        let engine = self.find(opponent)?;
        match threads.filter(|_| engine.shared.is_some()) {
            Some(threads) => {
                let settings = Settings { hash_mib: HASH_MIB, ..Settings::default() };
                Ok(self.threaded(engine, threads).map_err(cannot_run)?.search(&settings))
            }
            None => {
                let batch = usize::from(opponent.system() == System::BatchFirst);
                self.build(opponent, 1, batch)
            }
        }
    }

    /// The evaluator of an opponent with so many threads. Games with the same share one.
    fn threaded(
        &self,
        engine: &OpponentEngine,
        threads: usize,
    ) -> Result<Arc<SharedEngine>, EngineError> {
        let mut kept = self.threaded.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = |&(opponent, count, _): &(Opponent, usize, _)| {
            (opponent, count) == (engine.opponent, threads)
        };
        let found = match kept.iter().position(is_same) {
            Some(index) => kept.remove(index).2,
            None => {
                // The oldest makes room before the new one takes memory.
                let too_many = (kept.len() + 1).saturating_sub(MAX_THREADED);
                kept.drain(..too_many);
                let options =
                    EngineOptions { threads, devices: Devices::cpu(), ..self.options.clone() };
                Arc::new(SharedEngine::over(&engine.network, &options)?)
            }
        };
        kept.push((engine.opponent, threads, Arc::clone(&found)));
        Ok(found)
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
    let error = error.to_string().replace('`', "");
    ApiError(format!("The engine cannot run: {error}."))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn few_evaluators_with_threads_are_kept_and_games_share_them() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../networks");
        let network = Network::load(&folder.join("batch-first-fast.safetensors")).unwrap();
        let engines =
            Engines::new(vec![(Opponent::Fast, network)], &EngineOptions::default(), 1).unwrap();
        let kept = || {
            let kept = engines.threaded.lock().unwrap();
            kept.iter().map(|(_, threads, _)| *threads).collect::<Vec<_>>()
        };
        for threads in [1, 2, 3, 2, 4, 5, 3] {
            engines.build_for_game(Opponent::Fast, Some(threads)).unwrap();
        }
        assert_eq!(kept(), [2, 4, 5, 3]);
        let first = Arc::clone(&engines.threaded.lock().unwrap()[0].2);
        let again = engines.threaded(engines.find(Opponent::Fast).unwrap(), 2).unwrap();
        assert!(Arc::ptr_eq(&first, &again));
    }
}
