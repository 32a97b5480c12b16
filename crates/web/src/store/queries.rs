//! What is written and read: games, their moves, clocks and results.

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{GameStore, GameSummary, StoredGame, StoredMove};
use crate::{ApiError, game_state::GameResult};

/// The most games in a list, the newest ones.
const MAX_LISTED: i64 = 500;

/// The most games that one visitor may keep.
const MAX_GAMES_PER_VISITOR: i64 = 2_000;
/// The most games that all visitors together may keep.
const MAX_GAMES: i64 = 200_000;

impl GameStore {
    /// Stores a new game and returns its id.
    ///
    /// # Errors
    /// Too many games are stored, or the disk failed.
    pub async fn create(&self, visitor: String, game: StoredGame) -> Result<i64, ApiError> {
        self.with(move |connection| {
            let transaction = connection.transaction()?;
            let (own, all): (i64, i64) = transaction.query_row(
                "SELECT count(*) FILTER (WHERE visitor = ?1), count(*) FROM games",
                [&visitor],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )?;
            if own >= MAX_GAMES_PER_VISITOR || all >= MAX_GAMES {
                return Err(ApiError::new("Too many games are kept. Delete some first."));
            }
            transaction.execute(
                "INSERT INTO games (visitor, system, engine, level, engine_white, start, chess960, \
                 initial_ms, increment_ms, threads) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
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
                    game.threads.map(|threads| threads as i64),
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
    pub async fn load(&self, visitor: String, id: i64) -> Result<StoredGame, ApiError> {
        self.with(move |connection| {
            let query = "SELECT system, engine, level, engine_white, start, chess960, initial_ms, \
                 increment_ms, spent_ms, result, ending, begun, threads FROM games \
                 WHERE id = ?1 AND visitor = ?2";
            let game = connection.query_row(query, params![id, visitor], stored_game).optional()?;
            let Some(mut game) = game else {
                return Err(ApiError::new(format!("You have no game {id}.")));
            };
            let mut statement = connection.prepare(
                "SELECT uci, white_ms, black_ms FROM moves WHERE game = ?1 ORDER BY ply",
            )?;
            let moves = statement.query_map([id], |row| {
                let clocks = milliseconds(row.get(1)?, row.get(2)?);
                Ok(StoredMove { uci: row.get(0)?, clocks })
            })?;
            game.moves = moves.collect::<Result<_, _>>()?;
            Ok(game)
        })
        .await
    }

    /// Stores a move, and the result if it ends the game.
    ///
    /// # Errors
    /// The disk failed; nothing was stored.
    pub async fn add_move(
        &self,
        id: i64,
        ply: usize,
        mv: StoredMove,
        result: Option<GameResult>,
    ) -> Result<(), ApiError> {
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

    /// Deletes the moves from a ply on, and the result.
    ///
    /// # Errors
    /// The disk failed.
    pub async fn take_back(&self, id: i64, ply: usize) -> Result<(), ApiError> {
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

    /// Ends a game without a move. `spent`: milliseconds that the side to move has used.
    ///
    /// # Errors
    /// The disk failed.
    pub async fn end(&self, id: i64, result: GameResult, spent: u64) -> Result<(), ApiError> {
        self.with(move |connection| {
            let transaction = connection.transaction()?;
            set_result(&transaction, id, &result)?;
            set_spent(&transaction, id, spent)?;
            Ok(transaction.commit()?)
        })
        .await
    }

    /// Stores the milliseconds that the side to move has used.
    ///
    /// # Errors
    /// The disk failed.
    pub async fn set_spent(&self, id: i64, milliseconds: u64) -> Result<(), ApiError> {
        self.with(move |connection| Ok(set_spent(connection, id, milliseconds)?)).await
    }

    /// The ids of all games of a visitor, the oldest first.
    ///
    /// # Errors
    /// The disk failed.
    pub async fn ids(&self, visitor: String) -> Result<Vec<i64>, ApiError> {
        self.with(move |connection| {
            let mut statement =
                connection.prepare("SELECT id FROM games WHERE visitor = ?1 ORDER BY id")?;
            let ids = statement.query_map([visitor], |row| row.get(0))?;
            Ok(ids.collect::<Result<_, _>>()?)
        })
        .await
    }

    /// A visitor's newest games, the newest first.
    ///
    /// # Errors
    /// The disk failed.
    pub async fn list(&self, visitor: String) -> Result<Vec<GameSummary>, ApiError> {
        self.with(move |connection| {
            let mut statement = connection.prepare(
                "SELECT id, begun, system, level, engine_white, result, ending, \
                 (SELECT count(*) FROM moves WHERE game = games.id) FROM games WHERE visitor = ?1 \
                 ORDER BY id DESC LIMIT ?2",
            )?;
            let games = statement.query_map(params![visitor, MAX_LISTED], |row| {
                let level: String = row.get(3)?;
                Ok(GameSummary {
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

    /// Deletes a visitor's game.
    ///
    /// # Errors
    /// The visitor has no such game, or the disk failed.
    pub async fn delete(&self, visitor: String, id: i64) -> Result<(), ApiError> {
        self.with(move |connection| {
            let count = connection.execute(
                "DELETE FROM games WHERE id = ?1 AND visitor = ?2",
                params![id, visitor],
            )?;
            if count == 0 {
                return Err(ApiError::new(format!("You have no game {id}.")));
            }
            Ok(())
        })
        .await
    }
}

/// A game without its moves, from the columns that [`GameStore::load`] selects.
fn stored_game(row: &Row<'_>) -> rusqlite::Result<StoredGame> {
    let result: Option<String> = row.get(9)?;
    let ending: Option<String> = row.get(10)?;
    Ok(StoredGame {
        system: row.get(0)?,
        engine: row.get(1)?,
        level: row.get(2)?,
        threads: row.get::<_, Option<i64>>(12)?.and_then(|threads| threads.try_into().ok()),
        engine_white: row.get(3)?,
        start: row.get(4)?,
        chess960: row.get(5)?,
        clock: milliseconds(row.get(6)?, row.get(7)?),
        spent: row.get::<_, i64>(8)?.unsigned_abs(),
        result: result.map(|result| (result, ending.unwrap_or_default())),
        moves: Vec::new(),
        begun: row.get(11)?,
    })
}

/// Two times from the file; `None` if one is missing.
fn milliseconds(one: Option<i64>, other: Option<i64>) -> Option<(u64, u64)> {
    one.zip(other).map(|(one, other)| (one.unsigned_abs(), other.unsigned_abs()))
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

fn set_result(connection: &Connection, id: i64, result: &GameResult) -> rusqlite::Result<()> {
    connection.execute(
        "UPDATE games SET result = ?2, ending = ?3 WHERE id = ?1",
        params![id, result.0, result.1],
    )?;
    Ok(())
}
