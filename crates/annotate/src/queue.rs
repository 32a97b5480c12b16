//! The analysis of files by many hosts: a coordinator puts games into a NATS JetStream work queue,
//! workers take them and return the texts, and the coordinator writes these in order.
//!
//! A worker reports progress while it analyses a game; without progress the server gives the game
//! to another worker. A result may therefore arrive twice, and it is written once. If a coordinator
//! dies, the same command started again resumes its run.

mod coordinator;
mod worker;

use std::time::Duration;

use async_nats::jetstream::{
    self, Context,
    consumer::{self, PullConsumer},
    stream,
};
use board::{CastlingMode, Game, Position};
use games::{PgnGame, Unread, Variation};
use serde::{Deserialize, Serialize};

use crate::{AnalysisSettings, AnnotateError, run::AnnotatedGame};

pub use coordinator::coordinate;
pub use worker::{WorkerProgress, run_worker};

/// Name of the stream of games to be analysed.
const WORK: &str = "BATCH_FIRST_WORK";
/// Name of the stream of analysed games.
const RESULTS: &str = "BATCH_FIRST_RESULTS";

/// A message that is not fetched is deleted after this time.
const MAX_AGE: Duration = Duration::from_secs(7 * 24 * 3600);

/// A NATS server with JetStream, and its timeout for workers.
#[derive(Clone, Debug)]
pub struct QueueServer {
    /// As in `nats://host:4222`.
    pub url: String,
    /// After this time without progress of a worker its game goes to another worker.
    pub worker_timeout: Duration,
}

impl QueueServer {
    fn failed(&self, reason: impl std::fmt::Display) -> AnnotateError {
        AnnotateError::Queue { url: self.url.clone(), reason: reason.to_string() }
    }

    async fn connect(&self) -> Result<Context, AnnotateError> {
        let client = async_nats::ConnectOptions::new()
            .name("batch-first")
            .connect(&self.url)
            .await
            .map_err(|error| self.failed(error))?;
        Ok(jetstream::new(client))
    }

    /// The stream of games to be analysed.
    async fn work_stream(&self, context: &Context) -> Result<stream::Stream, AnnotateError> {
        let config = stream::Config {
            name: WORK.to_owned(),
            subjects: vec!["batch-first.work.*".to_owned()],
            retention: stream::RetentionPolicy::WorkQueue,
            max_age: MAX_AGE,
            ..stream::Config::default()
        };
        context.get_or_create_stream(config).await.map_err(|error| self.failed(error))
    }

    /// The stream of analysed games.
    async fn result_stream(&self, context: &Context) -> Result<stream::Stream, AnnotateError> {
        let config = stream::Config {
            name: RESULTS.to_owned(),
            subjects: vec!["batch-first.result.*".to_owned()],
            max_age: MAX_AGE,
            ..stream::Config::default()
        };
        context.get_or_create_stream(config).await.map_err(|error| self.failed(error))
    }

    /// The durable consumer that all workers share.
    async fn work_consumer(&self, work: &stream::Stream) -> Result<PullConsumer, AnnotateError> {
        let config = consumer::pull::Config {
            durable_name: Some("workers".to_owned()),
            ack_policy: consumer::AckPolicy::Explicit,
            ack_wait: self.worker_timeout,
            max_ack_pending: -1,
            ..consumer::pull::Config::default()
        };
        work.create_consumer(config).await.map_err(|error| self.failed(error))
    }
}

fn runtime() -> Result<tokio::runtime::Runtime, AnnotateError> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| AnnotateError::File(games::FileError::Thread(error)))
}

/// A game to be analysed.
#[derive(Debug, Serialize, Deserialize)]
struct AnalysisJob {
    /// Subject for the result.
    result: String,
    /// Number of the game, from 0.
    number: u64,
    game: GameMessage,
    analysis: AnalysisSettings,
    /// True if the JSON text is wanted too.
    json: bool,
}

/// The outcome of a job: the texts, or the reason why the game could not be analysed.
#[derive(Debug, Serialize, Deserialize)]
struct JobResult {
    number: u64,
    outcome: Result<AnnotatedGame, String>,
}

/// Message as compressed JSON.
fn pack(message: &impl Serialize) -> Result<Vec<u8>, String> {
    let text = serde_json::to_vec(message).map_err(|error| error.to_string())?;
    zstd::encode_all(text.as_slice(), 3).map_err(|error| error.to_string())
}

/// The message of [`pack`].
fn unpack<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    let text = zstd::stream::read::Decoder::new(bytes).map_err(|error| error.to_string())?;
    serde_json::from_reader(std::io::BufReader::new(text)).map_err(|error| error.to_string())
}

/// A game as a message. Evaluations of the source are left out, as the analysis replaces them.
#[derive(Debug, Serialize, Deserialize)]
struct GameMessage {
    tags: Vec<(String, String)>,
    fen: String,
    chess960: bool,
    /// In UCI notation.
    moves: Vec<String>,
    comments: Vec<(usize, String)>,
    nags: Vec<(usize, u16)>,
    variations: Vec<(usize, Variation)>,
    unread: Option<Unread>,
    rest: String,
}

impl GameMessage {
    fn new(game: PgnGame) -> Self {
        let mut position = game.game.start().clone();
        let (fen, chess960) = (position.fen(), position.castling_mode() == CastlingMode::Chess960);
        let mut moves = Vec::new();
        for &mv in game.game.moves() {
            moves.push(board::to_uci(&position, mv));
            position.play(mv);
        }
        Self {
            tags: game.tags,
            fen,
            chess960,
            moves,
            comments: game.comments,
            nags: game.nags,
            variations: game.variations,
            unread: game.unread,
            rest: game.rest,
        }
    }

    fn into_game(self) -> Result<PgnGame, board::BoardError> {
        let start = Position::from_fen(&self.fen, CastlingMode::from_chess960(self.chess960))?;
        let mut game = Game::new(start);
        for text in &self.moves {
            game.play(board::parse_uci(game.position(), text)?);
        }
        let Self { tags, comments, nags, variations, unread, rest, .. } = self;
        Ok(PgnGame { tags, game, comments, nags, variations, unread, rest, ..PgnGame::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_keeps_the_whole_game() {
        let pgn = "[White \"A\"]\n[Variant \"Chess960\"]\n[FEN \"4k2r/8/8/8/8/8/8/4K2R w Hh - 2 9\"]\n\n\
                   {first} 9. O-O!? {[%clk 1:00] castled} (9. Rh2 -- {why}) Rh5 10. Qd4 *\n\n";
        let game = games::read_pgn(pgn.as_bytes()).next().unwrap().unwrap().into_game().unwrap();
        let bytes = pack(&GameMessage::new(game.clone())).unwrap();
        let back = unpack::<GameMessage>(&bytes).unwrap().into_game().unwrap();
        assert_eq!(back.game.moves(), game.game.moves());
        assert_eq!(back.game.position(), game.game.position());
        assert_eq!((&back.tags, &back.comments), (&game.tags, &game.comments));
        assert_eq!((&back.nags, &back.variations), (&game.nags, &game.variations));
        assert_eq!((&back.unread, back.rest.as_str()), (&game.unread, "Qd4 *"));
        assert!(game.unread.is_some() && game.variations.len() == 1);
        assert!(unpack::<GameMessage>(b"nonsense").is_err());
    }
}
