//! Evaluators with threads of their own, for games that ask for threads. Few are kept, and with each
//! the searches of its games between two moves: an evaluator that makes room takes them with it.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use engine::{EngineError, SharedEngine};
use search::{Search, Settings};

use crate::Opponent;

/// The most evaluators that are kept; those of running searches besides.
const MAX_KEPT: usize = 4;

/// The search for the moves of a game. It keeps its cache from move to move.
pub struct GameSearch {
    pub search: Box<dyn Search>,
    /// The evaluator below it, if that one has threads of its own.
    pub threaded: Option<Arc<SharedEngine>>,
}

/// The evaluators by opponent and threads, and the searches that rest.
#[derive(Debug, Default)]
pub(super) struct ThreadedEngines {
    /// The latest last.
    kept: Mutex<Vec<Kept>>,
    /// Held while an evaluator is built, so that none is built twice.
    building: Mutex<()>,
}

struct Kept {
    opponent: Opponent,
    threads: usize,
    engine: Arc<SharedEngine>,
    /// Searches between two moves, by the ids of their games.
    resting: HashMap<i64, Box<dyn Search>>,
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kept")
            .field("opponent", &self.opponent)
            .field("threads", &self.threads)
            .field("resting", &self.resting.len())
            .finish_non_exhaustive()
    }
}

impl ThreadedEngines {
    fn kept(&self) -> MutexGuard<'_, Vec<Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The search of a game: the one that rests since its last move, or a new one. `build` makes an
    /// evaluator if none is kept for this opponent with so many threads.
    ///
    /// # Errors
    /// Those of `build`.
    pub(super) fn search(
        &self,
        (opponent, threads): (Opponent, usize),
        game: i64,
        settings: &Settings,
        build: impl FnOnce() -> Result<SharedEngine, EngineError>,
    ) -> Result<GameSearch, EngineError> {
        let _building = self.building.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = self.find((opponent, threads), game, settings) {
            return Ok(found);
        }
        self.make_room();
        let engine = Arc::new(build()?);
        let search = engine.search(settings);
        let threaded = Some(Arc::clone(&engine));
        self.kept().push(Kept { opponent, threads, engine, resting: HashMap::new() });
        Ok(GameSearch { search, threaded })
    }

    /// As [`search`](Self::search), over an evaluator that is kept.
    fn find(
        &self,
        wanted: (Opponent, usize),
        game: i64,
        settings: &Settings,
    ) -> Option<GameSearch> {
        let mut kept = self.kept();
        let place = kept.iter().position(|one| (one.opponent, one.threads) == wanted)?;
        let mut found = kept.remove(place);
        let search = found.resting.remove(&game).unwrap_or_else(|| found.engine.search(settings));
        let threaded = Some(Arc::clone(&found.engine));
        kept.push(found);
        Some(GameSearch { search, threaded })
    }

    /// Drops the oldest before a new one takes memory.
    fn make_room(&self) {
        let mut kept = self.kept();
        let too_many = (kept.len() + 1).saturating_sub(MAX_KEPT);
        let gone: Vec<Kept> = kept.drain(..too_many).collect();
        drop(kept);
        drop(gone);
    }

    /// Keeps the search of a game until its next move, if its evaluator is kept.
    pub(super) fn rest(&self, game: i64, search: GameSearch) {
        let mut kept = self.kept();
        let home = search
            .threaded
            .as_ref()
            .and_then(|engine| kept.iter_mut().find(|one| Arc::ptr_eq(&one.engine, engine)));
        if let Some(home) = home {
            home.resting.insert(game, search.search);
        }
    }

    /// Drops the search of a game.
    pub(super) fn forget(&self, game: i64) {
        let mut kept = self.kept();
        let gone: Vec<_> = kept.iter_mut().map(|one| one.resting.remove(&game)).collect();
        drop(kept);
        drop(gone);
    }

    /// Threads of the evaluators, and how many searches rest with each; the latest last.
    #[cfg(test)]
    pub(super) fn list(&self) -> Vec<(usize, usize)> {
        self.kept().iter().map(|one| (one.threads, one.resting.len())).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use board::Game;
    use engine::EngineOptions;
    use nets::Network;
    use search::{Control, Limits};

    use super::*;

    fn engine(threads: usize) -> Result<SharedEngine, EngineError> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../networks");
        let network = Network::load(&folder.join("batch-first-fast.safetensors")).unwrap();
        SharedEngine::over(
            &Arc::new(network),
            &EngineOptions { threads, ..EngineOptions::default() },
        )
    }

    fn search(engines: &ThreadedEngines, threads: usize, game: i64) -> GameSearch {
        let settings = Settings { hash_mib: 1, ..Settings::default() };
        engines.search((Opponent::Large, threads), game, &settings, || engine(threads)).unwrap()
    }

    /// Evaluations of a search to depth 3.
    fn evaluations(search: &mut GameSearch) -> u64 {
        let limits = Limits { depth: Some(3), ..Limits::default() };
        let (game, control) = (Game::default(), Control::default());
        search.search.search(&game, &limits, &control, &mut |_| {}).unwrap().nodes
    }

    #[test]
    fn few_evaluators_are_kept_and_games_share_them() {
        let engines = ThreadedEngines::default();
        for threads in [1, 2, 3, 2, 4, 5, 3] {
            search(&engines, threads, 1);
        }
        let kept: Vec<usize> = engines.list().into_iter().map(|(threads, _)| threads).collect();
        assert_eq!(kept, [2, 4, 5, 3]);
        let [one, other] = [1, 2].map(|game| search(&engines, 2, game).threaded.unwrap());
        assert!(Arc::ptr_eq(&one, &other));
    }

    #[test]
    fn a_search_rests_with_its_cache_until_the_next_move_of_its_game() {
        let engines = ThreadedEngines::default();
        let mut first = search(&engines, 2, 1);
        let cold = evaluations(&mut first);
        engines.rest(1, first);
        let mut again = search(&engines, 2, 1);
        let (mut other, warm) = (search(&engines, 2, 2), evaluations(&mut again));
        assert!(cold > 20 && 4 * warm < cold, "{cold} evaluations, then {warm}");
        assert_eq!(evaluations(&mut other), cold, "games share evaluators and no cache");
        engines.rest(1, again);
        engines.rest(2, other);
        engines.forget(2);
        assert_eq!(engines.list(), [(2, 1)]);
    }

    #[test]
    fn an_evaluator_that_makes_room_takes_its_resting_searches_with_it() {
        let engines = ThreadedEngines::default();
        let [resting, running] = [1, 2].map(|game| search(&engines, 1, game));
        engines.rest(1, resting);
        assert_eq!(engines.list(), [(1, 1)]);
        let old = Arc::downgrade(running.threaded.as_ref().unwrap());
        (2..=5).for_each(|threads| drop(search(&engines, threads, 3)));
        // The search that was running then does not hold the evaluator longer than its move.
        search(&engines, 1, 3);
        engines.rest(2, running);
        assert_eq!(old.strong_count(), 0);
        assert_eq!(engines.list(), [(3, 0), (4, 0), (5, 0), (1, 0)]);
    }
}
