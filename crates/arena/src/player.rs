//! The players of a match behind one trait: a UCI engine in its own process, or a search in this
//! process.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::{Duration, Instant},
};

use board::{Color, Game, Move, Score};
use engine::{EngineBuilder, EngineError};
use search::{Clock, Control, Limits, Search};
use uci::client::{ClientError, EngineProcess, EngineSpec, SearchRequest};

use crate::{Fault, TimeControl};

/// A player of games, one move at a time.
pub trait Player: Send {
    /// Prepares the player for a new game.
    ///
    /// # Errors
    /// The fault of the player; it is not usable any more.
    fn new_game(&mut self) -> Result<(), Fault>;

    /// Chooses a move in the current position of `game`, which is not over. `timeout` is the
    /// longest wait for it.
    ///
    /// # Errors
    /// The fault of the player; it is not usable any more.
    fn think(
        &mut self,
        game: &Game,
        request: &SearchRequest,
        timeout: Duration,
    ) -> Result<EngineReply, Fault>;

    /// Shuts the player down.
    fn close(self: Box<Self>);
}

/// The reply of a player: its move and its evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineReply {
    /// `None` if the player claims that there is no legal move.
    pub best: Option<Move>,
    /// From the player's side.
    pub score: Option<Score>,
    pub depth: Option<u32>,
    pub nodes: Option<u64>,
    pub elapsed: Duration,
}

/// The kind of a player.
#[derive(Clone, Debug)]
pub enum PlayerKind {
    /// Another program.
    Engine(EngineSpec),
    /// A search inside this program.
    Search(Box<EngineBuilder>),
}

/// A player of a match.
#[derive(Clone, Debug)]
pub struct PlayerSpec {
    /// Name in the results; `None` takes the name that the engine reports.
    pub name: Option<String>,
    pub kind: PlayerKind,
    pub control: TimeControl,
    /// Everything that decides the moves of the player, on one line. An interrupted match is
    /// resumed only if it is equal.
    pub identity: String,
}

/// A player that cannot be started; each message is one sentence.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Engine(#[from] ClientError),
    #[error(transparent)]
    Search(#[from] EngineError),
}

impl From<StartError> for Fault {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Engine(error) => error.into(),
            StartError::Search(error) => Self::Crash(error.to_string()),
        }
    }
}

impl PlayerSpec {
    /// Starts the player and returns its name. `timeout` is the longest wait for the handshake of
    /// an engine.
    ///
    /// # Errors
    /// The program or the search cannot be started.
    pub fn start(&self, timeout: Duration) -> Result<(Box<dyn Player>, String), StartError> {
        match &self.kind {
            PlayerKind::Engine(spec) => {
                let engine = EngineProcess::start(spec, timeout)?;
                let name = self.name.clone().unwrap_or_else(|| engine.name().to_owned());
                Ok((Box::new(engine), name))
            }
            PlayerKind::Search(builder) => {
                let search = builder.build()?.search;
                let name = self.name.clone().unwrap_or_else(|| "Batch First".to_owned());
                Ok((Box::new(InProcessPlayer { search }), name))
            }
        }
    }
}

impl Player for EngineProcess {
    fn new_game(&mut self) -> Result<(), Fault> {
        Ok(EngineProcess::new_game(self)?)
    }

    fn think(
        &mut self,
        game: &Game,
        request: &SearchRequest,
        timeout: Duration,
    ) -> Result<EngineReply, Fault> {
        let answer = EngineProcess::think(self, game, request, timeout)?;
        let line = answer.lines.first();
        Ok(EngineReply {
            best: answer.best,
            score: answer.score(),
            depth: line.and_then(|line| line.depth),
            nodes: line.and_then(|line| line.nodes),
            elapsed: answer.elapsed,
        })
    }

    fn close(self: Box<Self>) {
        self.quit();
    }
}

/// A search on the thread of the game. It keeps its own limits; a panic in it counts as a crash.
struct InProcessPlayer {
    search: Box<dyn Search>,
}

impl Player for InProcessPlayer {
    fn new_game(&mut self) -> Result<(), Fault> {
        self.search.clear();
        Ok(())
    }

    fn think(
        &mut self,
        game: &Game,
        request: &SearchRequest,
        _: Duration,
    ) -> Result<EngineReply, Fault> {
        let limits = limits(request, game.position().turn());
        let started = Instant::now();
        // After a panic the search is dropped, so that its broken state is not used.
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            self.search.search(game, &limits, &Control::default(), &mut |_| {})
        }));
        let elapsed = started.elapsed();
        let outcome = match outcome {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(error)) => return Err(Fault::Crash(error.to_string())),
            Err(_) => return Err(Fault::Crash("the search panicked".to_owned())),
        };
        let line = outcome.lines.first();
        Ok(EngineReply {
            best: outcome.best,
            score: line.map(|line| line.score),
            depth: line.map(|line| line.depth),
            nodes: Some(outcome.nodes),
            elapsed,
        })
    }

    fn close(self: Box<Self>) {}
}

/// The limits of an in-process search for a UCI request.
fn limits(request: &SearchRequest, turn: Color) -> Limits {
    let none = Limits::default();
    match *request {
        SearchRequest::Nodes(nodes) => Limits { nodes: Some(nodes), ..none },
        SearchRequest::Depth(depth) => Limits { depth: Some(depth), ..none },
        SearchRequest::MoveTime(time) => Limits { movetime: Some(time), ..none },
        SearchRequest::Clock { white, black, white_increment, black_increment } => {
            let (remaining, increment) =
                if turn.is_white() { (white, white_increment) } else { (black, black_increment) };
            Limits { clock: Some(Clock { remaining, increment, moves_to_go: None }), ..none }
        }
    }
}
