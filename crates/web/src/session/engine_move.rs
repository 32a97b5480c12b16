//! The engine's move: its search waits for a slot, runs on a blocking thread, and rests between two
//! moves with its cache.

use std::{
    future,
    sync::Arc,
    time::{Duration, Instant},
};

use search::{Control, Outcome};
use tokio::{
    sync::watch,
    task::{JoinHandle, spawn_blocking},
};

use super::GameSession;
use crate::{ApiError, engines::GameSearch, search_slots::run_search};

/// The engine's search for a move; dropping it stops the search.
pub(super) struct RunningSearch {
    task: JoinHandle<Result<SearchResult, ApiError>>,
    /// When the search got its slot; `None` while it waits for one.
    pub(super) began: watch::Receiver<Option<Instant>>,
}

impl Drop for RunningSearch {
    fn drop(&mut self) {
        // The search stops when the task that waits for it is gone.
        self.task.abort();
    }
}

/// A finished search; `search` keeps its cache for the next move.
pub(super) struct SearchResult {
    search: GameSearch,
    outcome: Outcome,
    elapsed: Duration,
}

impl GameSession {
    /// Starts the engine's search for its move.
    pub(super) fn start_search(&mut self) {
        let limits = self.state.limits();
        let game = self.state.game().clone();
        let (opponent, threads) = (self.state.opponent, self.state.threads);
        let engines = Arc::clone(&self.registry.engines);
        let (id, idle_search) = (self.id, self.idle_search.take());
        let time = self.time.clone();
        let (start, began) = watch::channel(None);
        let task = tokio::spawn(async move {
            let slot = engines.slots.acquire().await?;
            let started = time.now();
            start.send_replace(Some(started));
            let GameSearch { search, threaded } = match idle_search {
                Some(search) => search,
                None => {
                    let engines = Arc::clone(&engines);
                    spawn_blocking(move || engines.search_for_game(opponent, threads, id))
                        .await
                        .map_err(|_| stopped_unexpectedly())??
                }
            };
            let (search, outcome) =
                run_search(search, game, limits, Control::default(), |_| {}).await?;
            drop(slot);
            let search = GameSearch { search, threaded };
            Ok(SearchResult { search, outcome, elapsed: time.elapsed(started) })
        });
        self.running = Some(RunningSearch { task, began });
    }

    /// Plays the move of a finished search.
    pub(super) async fn handle_result(&mut self, result: Result<SearchResult, ApiError>) {
        self.running = None;
        let played = match result {
            Err(error) => Err(error),
            Ok(SearchResult { search, outcome, elapsed }) => {
                self.idle_search = self.registry.engines.rest(self.id, search);
                let used = self.state.spent + elapsed.as_millis() as u64;
                let engine_side = self.state.engine_side;
                if self.state.left(engine_side).is_some_and(|left| used > left) {
                    self.flag_fell(engine_side, Some(used)).await;
                    return;
                }
                match outcome.best {
                    Some(best) => self.play(best, used).await,
                    None => Err(ApiError::new("The engine found no move.")),
                }
            }
        };
        if let Err(error) = played {
            // The notice stays until a move is taken back or the game is opened again.
            tracing::warn!("game {}: {error}", self.id);
            self.notice = Some(error.to_string());
        }
    }
}

/// Waits for the running search; pending while none runs.
pub(super) async fn finished(
    running: &mut Option<RunningSearch>,
) -> Result<SearchResult, ApiError> {
    match running {
        None => future::pending().await,
        Some(running) => match (&mut running.task).await {
            Ok(result) => result,
            Err(_) => Err(stopped_unexpectedly()),
        },
    }
}

fn stopped_unexpectedly() -> ApiError {
    ApiError::new("The search stopped unexpectedly. Please report this.")
}

/// Waits until a search has got its slot; pending where none waits.
pub(super) async fn slot_acquired(began: Option<watch::Receiver<Option<Instant>>>) {
    // The channel changes once, from waiting to searching.
    if let Some(mut began) = began
        && began.changed().await.is_ok()
    {
        return;
    }
    future::pending().await
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use board::{Color, Game};
    use engine::EngineOptions;
    use nets::Network;

    use super::*;
    use crate::{
        EngineLevel, Engines, GameCommand, GameHandle, GameState, GameStore, Opponent, TimeSource,
        registry::GameRegistry,
    };

    /// Waits until the game has so many moves.
    async fn played(handle: &mut GameHandle, count: usize) {
        let has = |state: &Arc<str>| {
            let state: serde_json::Value = serde_json::from_str(state).unwrap_or_default();
            state["moves"].as_array().is_some_and(|moves| moves.len() == count)
        };
        handle.states.wait_for(has).await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_search_with_threads_rests_between_the_moves_of_an_open_game() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../networks");
        let network = Network::load(&folder.join("batch-first-fast.safetensors")).unwrap();
        let engines = Engines::new(vec![(Opponent::Large, network)], &EngineOptions::default(), 1);
        let registry = Arc::new(GameRegistry::new(
            Arc::new(engines.unwrap()),
            GameStore::open(None).unwrap(),
            TimeSource::default(),
        ));
        let level = EngineLevel::Nodes(20);
        let (opponent, name) = (Opponent::Large, String::new());
        let mut state = GameState::new(opponent, name, level, Color::White, None, Game::default());
        state.threads = Some(2);
        let id = registry.store.create("visitor".to_owned(), state.to_stored()).await.unwrap();
        let mut handle = registry.open("visitor", id).await.unwrap();
        played(&mut handle, 1).await;
        assert_eq!(registry.engines.resting(), [(2, 1)]);
        let reply = GameCommand::Move { ply: 1, uci: "g8f6".to_owned() };
        handle.execute(reply).await.unwrap();
        played(&mut handle, 3).await;
        assert_eq!(registry.engines.resting(), [(2, 1)]);
        drop(handle);
        let gone = async {
            while registry.engines.resting() != [(2, 0)] {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), gone).await.unwrap();
        assert!(registry.open.lock().await.is_empty());
    }
}
