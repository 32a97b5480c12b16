//! The open games: which are open, for whom, and how many may be.

use std::{collections::HashMap, sync::Arc};

use tokio::{
    sync::{Mutex, watch},
    task::{JoinHandle, JoinSet},
};

use crate::{
    ApiError, Engines, GameState, GameStore, TimeSource,
    session::{CommandSender, GameCommand, GameHandle, GameSession},
};

/// The most games that one visitor may have open.
const MAX_OPEN_PER_VISITOR: usize = 8;
/// The most games that all visitors together may have open.
const MAX_OPEN: usize = 64;

/// A game that has a session task.
#[derive(Debug)]
pub struct OpenGame {
    visitor: String,
    commands: CommandSender,
    states: Arc<watch::Sender<Arc<str>>>,
    task: JoinHandle<()>,
}

impl OpenGame {
    fn handle(&self, id: i64) -> GameHandle {
        GameHandle { id, commands: self.commands.clone(), states: self.states.subscribe() }
    }
}

/// All open games, and the engines, store and time source that their sessions share.
#[derive(Debug)]
pub struct GameRegistry {
    pub engines: Arc<Engines>,
    pub store: GameStore,
    pub time: TimeSource,
    /// The open games by their ids.
    pub open: Mutex<HashMap<i64, OpenGame>>,
}

impl GameRegistry {
    /// A registry without open games.
    #[must_use]
    pub fn new(engines: Arc<Engines>, store: GameStore, time: TimeSource) -> Self {
        Self { engines, store, time, open: Mutex::new(HashMap::new()) }
    }

    /// Opens a visitor's game, or joins it where it is open already.
    ///
    /// # Errors
    /// The visitor has no such game or too many are open, or the disk failed.
    pub async fn open(self: &Arc<Self>, visitor: &str, id: i64) -> Result<GameHandle, ApiError> {
        // The lock is held while the game is read, so that a game never has two sessions.
        let mut open = self.open.lock().await;
        // A game whose task panicked is opened again from the store.
        if let Some(game) = open.get(&id).filter(|game| !game.task.is_finished()) {
            if game.visitor != visitor {
                return Err(ApiError(format!("You have no game {id}.")));
            }
            let handle = game.handle(id);
            drop(open);
            handle.execute(GameCommand::RetryEngine).await?;
            return Ok(handle);
        }
        // A game that no page shows is about to close: it counts no more.
        let shown = || open.values().filter(|game| game.states.receiver_count() > 0);
        if shown().filter(|game| game.visitor == visitor).count() >= MAX_OPEN_PER_VISITOR {
            return Err(ApiError(format!(
                "You have {MAX_OPEN_PER_VISITOR} games open in other windows. Close one of them."
            )));
        }
        if shown().count() >= MAX_OPEN {
            return Err(ApiError(format!(
                "{MAX_OPEN} games are open on this server. Please try again later."
            )));
        }
        let state = GameState::from_stored(&self.store.load(visitor.to_owned(), id).await?)?;
        let (session, handle, states) = GameSession::new(id, state, Arc::clone(self));
        let task = tokio::spawn(session.run());
        let commands = handle.commands.clone();
        open.insert(id, OpenGame { visitor: visitor.to_owned(), commands, states, task });
        Ok(handle)
    }

    /// Closes and deletes a visitor's game.
    ///
    /// # Errors
    /// The visitor has no such game, or the disk failed.
    pub async fn delete(&self, visitor: &str, id: i64) -> Result<(), ApiError> {
        let mut open = self.open.lock().await;
        if open.get(&id).is_some_and(|game| game.visitor == visitor)
            && let Some(game) = open.remove(&id)
        {
            game.task.abort();
        }
        self.store.delete(visitor.to_owned(), id).await
    }

    /// Stores the clock of every open game as it stands.
    pub async fn save_clocks(&self) {
        // The lock is not held during the commands: a session without viewers takes it to close.
        let handles: Vec<GameHandle> =
            self.open.lock().await.iter().map(|(&id, game)| game.handle(id)).collect();
        let mut saving = JoinSet::new();
        for handle in handles {
            // A session that closes at the same time stores its clock itself; its error is ignored.
            saving.spawn(async move { handle.execute(GameCommand::SaveClock).await });
        }
        saving.join_all().await;
    }
}
