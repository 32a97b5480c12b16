//! Games on disk: a SQLite file. Every move is written and synced before the page sees it.

mod queries;

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use rusqlite::Connection;
use serde::Serialize;
use tokio::task;

use crate::{ApiError, WebError, game_state::GameResult};

/// Version of the schema.
const FORMAT: i64 = 2;

const SCHEMA: &str = "
CREATE TABLE games (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    visitor TEXT NOT NULL,
    begun TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%SZ', 'now')),
    system TEXT NOT NULL,
    engine TEXT NOT NULL,
    level TEXT NOT NULL,
    engine_white INTEGER NOT NULL,
    start TEXT NOT NULL,
    chess960 INTEGER NOT NULL,
    initial_ms INTEGER,
    increment_ms INTEGER,
    spent_ms INTEGER NOT NULL DEFAULT 0,
    result TEXT,
    ending TEXT,
    threads INTEGER
) STRICT;
CREATE INDEX games_of_visitor ON games (visitor, id);
CREATE TABLE moves (
    game INTEGER NOT NULL REFERENCES games (id) ON DELETE CASCADE,
    ply INTEGER NOT NULL,
    uci TEXT NOT NULL,
    white_ms INTEGER,
    black_ms INTEGER,
    PRIMARY KEY (game, ply)
) STRICT, WITHOUT ROWID;
";

/// From format 1 to 2.
const ADD_THREADS: &str = "ALTER TABLE games ADD COLUMN threads INTEGER;";

/// The file of games; clones share it.
#[derive(Clone, Debug)]
pub struct GameStore {
    connection: Arc<Mutex<Connection>>,
}

/// A game as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredGame {
    /// Name of the opponent, a system or a Maia.
    pub system: String,
    /// Name of its network.
    pub engine: String,
    /// The level as JSON.
    pub level: String,
    /// Threads of the engine's own evaluator.
    pub threads: Option<usize>,
    pub engine_white: bool,
    /// FEN of the start position.
    pub start: String,
    pub chess960: bool,
    /// Initial time and increment of both sides, in milliseconds.
    pub clock: Option<(u64, u64)>,
    /// Milliseconds that the side to move had used when the game was last closed.
    pub spent: u64,
    pub result: Option<GameResult>,
    pub moves: Vec<StoredMove>,
    /// UTC, as in `2026-11-21T12:00:00Z`; empty for a game that was not stored yet.
    pub begun: String,
}

/// A move in UCI notation, and White's and Black's clocks after it in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredMove {
    pub uci: String,
    pub clocks: Option<(u64, u64)>,
}

/// A game in the list of games.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GameSummary {
    pub id: i64,
    pub begun: String,
    pub system: String,
    pub level: serde_json::Value,
    pub engine_white: bool,
    pub plies: u64,
    pub result: Option<String>,
    pub ending: Option<String>,
}

impl GameStore {
    /// Opens or creates the file; `None` keeps the games in memory only.
    ///
    /// # Errors
    /// The file cannot be used, or a newer version wrote it.
    pub fn open(path: Option<&Path>) -> Result<Self, WebError> {
        let shown = path.map_or_else(|| PathBuf::from(":memory:"), Path::to_owned);
        let failed = |source| WebError::Store { path: shown.clone(), source };
        let connection = match path {
            Some(path) => Connection::open(path),
            None => Connection::open_in_memory(),
        }
        .map_err(failed)?;
        // FULL: every stored move survives a loss of power.
        connection
            .execute_batch(
                "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;",
            )
            .map_err(failed)?;
        let found: i64 =
            connection.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(failed)?;
        match found {
            0 => connection
                .execute_batch(&format!("BEGIN; {SCHEMA} PRAGMA user_version = {FORMAT}; COMMIT;"))
                .map_err(failed)?,
            1 => connection
                .execute_batch(&format!(
                    "BEGIN; {ADD_THREADS} PRAGMA user_version = {FORMAT}; COMMIT;"
                ))
                .map_err(failed)?,
            FORMAT => {}
            found => return Err(WebError::Newer { path: shown, found, known: FORMAT }),
        }
        Ok(Self { connection: Arc::new(Mutex::new(connection)) })
    }

    /// Runs `work` on a blocking thread.
    async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let connection = Arc::clone(&self.connection);
        task::spawn_blocking(move || {
            // After a panic SQLite has rolled the transaction back: the connection stays usable.
            let mut connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
            work(&mut connection)
        })
        .await
        .map_err(|_| ApiError::new("The games cannot be reached."))?
    }
}
