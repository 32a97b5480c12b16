//! Games on disk: a SQLite file in which every move is written, and synced, before it is answered.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use rusqlite::{Connection, OptionalExtension, params};
use serde::Serialize;
use tokio::task;

use crate::{Refusal, WebError};

/// The most games in a list.
const LISTED: i64 = 500;

/// Version of the tables below.
const FORMAT: i64 = 1;

const TABLES: &str = "
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
    ending TEXT
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

/// Games that one visitor, and all together, may keep.
const MOST_GAMES_OF_ONE: i64 = 2_000;
const MOST_GAMES: i64 = 200_000;

/// The file; clones share it.
#[derive(Clone, Debug)]
pub struct Store {
    connection: Arc<Mutex<Connection>>,
}

/// A game as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredGame {
    /// Name of the system that plays.
    pub system: String,
    /// Name of its network.
    pub engine: String,
    /// As JSON.
    pub level: String,
    pub engine_white: bool,
    /// FEN.
    pub start: String,
    pub chess960: bool,
    /// Milliseconds: both sides' time, and what every move adds.
    pub clock: Option<(u64, u64)>,
    /// Milliseconds that the side to move had used for its move when the game was last left.
    pub spent: u64,
    pub result: Option<(String, String)>,
    pub moves: Vec<StoredMove>,
    /// UTC, as in `2026-11-21T12:00:00Z`; empty for a new game.
    pub begun: String,
}

/// A move, and White's and Black's clocks after it in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredMove {
    pub uci: String,
    pub clocks: Option<(u64, u64)>,
}

/// A line of the list of games.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListedGame {
    pub id: i64,
    pub begun: String,
    pub system: String,
    pub level: serde_json::Value,
    pub engine_white: bool,
    pub plies: u64,
    pub result: Option<String>,
    pub ending: Option<String>,
}

impl Store {
    /// Opens or creates the file; `None` keeps games in memory only.
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
        // FULL: what was answered survives a loss of power, too.
        connection
            .execute_batch(
                "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;",
            )
            .map_err(failed)?;
        let found: i64 =
            connection.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(failed)?;
        match found {
            0 => connection
                .execute_batch(&format!("BEGIN; {TABLES} PRAGMA user_version = {FORMAT}; COMMIT;"))
                .map_err(failed)?,
            FORMAT => {}
            found => return Err(WebError::Newer { path: shown, found, known: FORMAT }),
        }
        Ok(Self { connection: Arc::new(Mutex::new(connection)) })
    }

    /// Works with the file on a thread that may wait for the disk.
    async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let connection = Arc::clone(&self.connection);
        task::spawn_blocking(move || {
            // A transaction that a panic broke off was rolled back.
            let mut connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
            work(&mut connection)
        })
        .await
        .map_err(|_| Refusal::new("the games cannot be reached"))?
    }

    /// Keeps a new game; its number.
    ///
    /// # Errors
    /// The visitor keeps too many, or the disk failed.
    pub async fn create(&self, visitor: String, game: StoredGame) -> Result<i64, Refusal> {
        self.with(move |connection| {
            let transaction = connection.transaction()?;
            let (own, all): (i64, i64) = transaction.query_row(
                "SELECT count(*) FILTER (WHERE visitor = ?1), count(*) FROM games",
                [&visitor],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )?;
            if own >= MOST_GAMES_OF_ONE || all >= MOST_GAMES {
                return Err(Refusal::new("too many games are kept; delete some first"));
            }
            transaction.execute(
                "INSERT INTO games (visitor, system, engine, level, engine_white, start, chess960, initial_ms, \
                 increment_ms) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
                params![
                    visitor,
                    game.system,
                    game.engine,
                    game.level,
                    game.engine_white,
                    game.start,
                    game.chess960,
                    game.clock.map(|clock| clock.0 as i64),
                    game.clock.map(|clock| clock.1 as i64),
                ],
            )?;
            let id = transaction.last_insert_rowid();
            for (ply, mv) in game.moves.iter().enumerate() {
                insert_move(&transaction, id, ply, mv)?;
            }
            transaction.commit()?;
            Ok(id)
        })
        .await
    }

    /// A visitor's game.
    ///
    /// # Errors
    /// The visitor has no such game, or the disk failed.
    pub async fn load(&self, visitor: String, id: i64) -> Result<StoredGame, Refusal> {
        self.with(move |connection| {
            let game = connection
                .query_row(
                    "SELECT system, engine, level, engine_white, start, chess960, initial_ms, increment_ms, \
                     spent_ms, result, ending, begun FROM games WHERE id = ?1 AND visitor = ?2",
                    params![id, visitor],
                    |row| {
                        let initial: Option<i64> = row.get(6)?;
                        let increment: Option<i64> = row.get(7)?;
                        let result: Option<String> = row.get(9)?;
                        let ending: Option<String> = row.get(10)?;
                        Ok(StoredGame {
                            system: row.get(0)?,
                            engine: row.get(1)?,
                            level: row.get(2)?,
                            engine_white: row.get(3)?,
                            start: row.get(4)?,
                            chess960: row.get(5)?,
                            clock: initial.zip(increment).map(|(initial, increment)| {
                                (initial.unsigned_abs(), increment.unsigned_abs())
                            }),
                            spent: row.get::<_, i64>(8)?.unsigned_abs(),
                            result: result.map(|result| (result, ending.unwrap_or_default())),
                            moves: Vec::new(),
                            begun: row.get(11)?,
                        })
                    },
                )
                .optional()?;
            let Some(mut game) = game else {
                return Err(Refusal::new(format!("you have no game {id}")));
            };
            let mut statement = connection
                .prepare("SELECT uci, white_ms, black_ms FROM moves WHERE game = ?1 ORDER BY ply")?;
            let moves = statement.query_map([id], |row| {
                let white: Option<i64> = row.get(1)?;
                let black: Option<i64> = row.get(2)?;
                let clocks =
                    white.zip(black).map(|(white, black)| (white.unsigned_abs(), black.unsigned_abs()));
                Ok(StoredMove { uci: row.get(0)?, clocks })
            })?;
            game.moves = moves.collect::<Result<_, _>>()?;
            Ok(game)
        })
        .await
    }

    /// Keeps a move, and the result where it ends the game.
    ///
    /// # Errors
    /// The disk failed: then nothing was kept.
    pub async fn add_move(
        &self,
        id: i64,
        ply: usize,
        mv: StoredMove,
        result: Option<(String, String)>,
    ) -> Result<(), Refusal> {
        self.with(move |connection| {
            let transaction = connection.transaction()?;
            insert_move(&transaction, id, ply, &mv)?;
            set_spent(&transaction, id, 0)?;
            if let Some(result) = &result {
                set_result(&transaction, id, result)?;
            }
            Ok(transaction.commit()?)
        })
        .await
    }

    /// Takes the moves from a ply on back; the game goes on.
    ///
    /// # Errors
    /// The disk failed.
    pub async fn take_back(&self, id: i64, ply: usize) -> Result<(), Refusal> {
        self.with(move |connection| {
            let transaction = connection.transaction()?;
            transaction.execute(
                "DELETE FROM moves WHERE game = ?1 AND ply >= ?2",
                params![id, ply as i64],
            )?;
            transaction.execute(
                "UPDATE games SET spent_ms = 0, result = NULL, ending = NULL WHERE id = ?1",
                [id],
            )?;
            Ok(transaction.commit()?)
        })
        .await
    }

    /// Ends a game without a move, after the side to move has thought for some milliseconds.
    ///
    /// # Errors
    /// The disk failed.
    pub async fn end(&self, id: i64, result: (String, String), spent: u64) -> Result<(), Refusal> {
        self.with(move |connection| {
            let transaction = connection.transaction()?;
            set_result(&transaction, id, &result)?;
            set_spent(&transaction, id, spent)?;
            Ok(transaction.commit()?)
        })
        .await
    }

    /// Remembers how long the side to move has thought.
    ///
    /// # Errors
    /// The disk failed.
    pub async fn set_spent(&self, id: i64, milliseconds: u64) -> Result<(), Refusal> {
        self.with(move |connection| Ok(set_spent(connection, id, milliseconds)?)).await
    }

    /// All of a visitor's games, the first one first.
    ///
    /// # Errors
    /// The disk failed.
    pub async fn ids(&self, visitor: String) -> Result<Vec<i64>, Refusal> {
        self.with(move |connection| {
            let mut statement =
                connection.prepare("SELECT id FROM games WHERE visitor = ?1 ORDER BY id")?;
            let ids = statement.query_map([visitor], |row| row.get(0))?;
            Ok(ids.collect::<Result<_, _>>()?)
        })
        .await
    }

    /// A visitor's latest games, the last one first.
    ///
    /// # Errors
    /// The disk failed.
    pub async fn list(&self, visitor: String) -> Result<Vec<ListedGame>, Refusal> {
        self.with(move |connection| {
            let mut statement = connection.prepare(
                "SELECT id, begun, system, level, engine_white, result, ending, \
                 (SELECT count(*) FROM moves WHERE game = games.id) FROM games WHERE visitor = ?1 \
                 ORDER BY id DESC LIMIT ?2",
            )?;
            let games = statement.query_map(params![visitor, LISTED], |row| {
                let level: String = row.get(3)?;
                Ok(ListedGame {
                    id: row.get(0)?,
                    begun: row.get(1)?,
                    system: row.get(2)?,
                    level: serde_json::from_str(&level).unwrap_or_default(),
                    engine_white: row.get(4)?,
                    result: row.get(5)?,
                    ending: row.get(6)?,
                    plies: row.get::<_, i64>(7)?.unsigned_abs(),
                })
            })?;
            Ok(games.collect::<Result<_, _>>()?)
        })
        .await
    }

    /// Forgets a visitor's game.
    ///
    /// # Errors
    /// The visitor has no such game, or the disk failed.
    pub async fn delete(&self, visitor: String, id: i64) -> Result<(), Refusal> {
        self.with(move |connection| {
            let count = connection.execute(
                "DELETE FROM games WHERE id = ?1 AND visitor = ?2",
                params![id, visitor],
            )?;
            if count == 0 {
                return Err(Refusal::new(format!("you have no game {id}")));
            }
            Ok(())
        })
        .await
    }
}

fn insert_move(
    connection: &Connection,
    id: i64,
    ply: usize,
    mv: &StoredMove,
) -> rusqlite::Result<()> {
    let (white, black) =
        (mv.clocks.map(|clocks| clocks.0 as i64), mv.clocks.map(|clocks| clocks.1 as i64));
    connection
        .prepare(
            "INSERT INTO moves (game, ply, uci, white_ms, black_ms) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![id, ply as i64, mv.uci, white, black])?;
    Ok(())
}

fn set_spent(connection: &Connection, id: i64, milliseconds: u64) -> rusqlite::Result<()> {
    connection.execute(
        "UPDATE games SET spent_ms = ?2 WHERE id = ?1",
        params![id, milliseconds as i64],
    )?;
    Ok(())
}

fn set_result(connection: &Connection, id: i64, result: &(String, String)) -> rusqlite::Result<()> {
    connection.execute(
        "UPDATE games SET result = ?2, ending = ?3 WHERE id = ?1",
        params![id, result.0, result.1],
    )?;
    Ok(())
}
