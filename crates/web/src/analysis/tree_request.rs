//! The page's requests about a game with variations: read it, complete it, write it. The answers
//! carry the request's tag.

use board::{BoardError, parse_san, parse_uci, to_uci};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{sync::Semaphore, task::spawn_blocking};

use super::{
    game_tree::GameTree,
    pgn_text::{ReadPgnRequest, write_pgn},
};
use crate::{
    ApiError,
    new_game::{parse_game, parse_position},
};

/// The most games that are read or written at once, for all visitors together.
const MAX_AT_ONCE: usize = 2;

/// Reads or writes a game on a thread of its own: a large one takes a second. Others wait their
/// turn, so that searches keep their processors.
///
/// # Errors
/// As `work`.
pub async fn compute_in_turn<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    static TURNS: Semaphore = Semaphore::const_new(MAX_AT_ONCE);
    let turn = TURNS.acquire().await.map_err(|_| ApiError::new("The server is closing."))?;
    // The turn lasts until the work is done, even if its page is gone.
    let computed = spawn_blocking(move || {
        let _turn = turn;
        work()
    });
    computed.await.map_err(|_| ApiError::new("The game cannot be read. Please report this."))?
}

/// A request.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum TreeRequest {
    ReadPgn(ReadPgnRequest),
    /// Add SAN and positions to moves.
    Complete(WholeTree),
    WritePgn(WholeTree),
    ReadMove(TypedMove),
}

/// A tree and the page's number of the request.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WholeTree {
    pub tag: u32,
    pub tree: GameTree,
}

/// A move as it was typed, in a position.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TypedMove {
    pub tag: u32,
    /// FEN of the start position.
    pub start: String,
    #[serde(default)]
    pub chess960: bool,
    /// Moves from the start position, in UCI notation.
    #[serde(default)]
    pub moves: Vec<String>,
    pub text: String,
}

impl TreeRequest {
    /// The page's number of the request.
    pub fn tag(&self) -> u32 {
        match self {
            Self::ReadPgn(request) => request.tag,
            Self::Complete(request) | Self::WritePgn(request) => request.tag,
            Self::ReadMove(request) => request.tag,
        }
    }

    /// The answer, for this page alone.
    ///
    /// # Errors
    /// What was sent is not understood; the text says what, and where.
    pub async fn answer(self) -> Result<Value, ApiError> {
        let tag = self.tag();
        let mut answer = compute_in_turn(move || self.compute()).await?;
        answer["type"] = "reply".into();
        answer["tag"] = tag.into();
        Ok(answer)
    }

    fn compute(self) -> Result<Value, ApiError> {
        match self {
            Self::ReadPgn(request) => request.answer(),
            Self::Complete(request) => Ok(json!({ "tree": request.tree.complete()? })),
            Self::WritePgn(request) => Ok(json!({ "pgn": write_pgn(&request.tree.into_pgn()?) })),
            Self::ReadMove(request) => Ok(json!({ "uci": request.uci()? })),
        }
    }
}

impl TypedMove {
    fn uci(&self) -> Result<String, ApiError> {
        let start = parse_position(&self.start, self.chess960)?;
        let game = parse_game(start, self.moves.iter().map(String::as_str))?;
        let (position, text) = (game.position(), self.text.trim());
        let mv = parse_uci(position, text).or_else(|_| parse_san(position, text));
        match mv {
            Ok(mv) => Ok(to_uci(position, mv)),
            Err(BoardError::IllegalMove { .. }) => Err(ApiError::not_legal(text)),
            Err(_) => Err(ApiError(format!(
                "That is not a move: {text:.20}. Moves are written like Nf3 or g1f3."
            ))),
        }
    }
}
