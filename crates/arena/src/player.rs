//! What plays: a UCI engine in a process of its own, or a search in ours, behind one small
//! contract.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::{Duration, Instant},
};

use board::{Color, Game, Move, Score};
use search::{Clock, Control, Limits, Search};
use uci::client::{ClientError, Engine, EngineSpec, Task};

use crate::{Fault, TimeControl};

/// Plays moves, one at a time.
pub trait Player: Send {
    /// The next position is of another game.
    ///
    /// # Errors
    /// The player cannot go on.
    fn new_game(&mut self) -> Result<(), Fault>;

    /// A move for the current position of `game`, which is not over; `patience` is the longest wait
    /// for it.
    ///
    /// # Errors
    /// What the player did wrong; it is not usable any more.
    fn think(&mut self, game: &Game, task: &Task, patience: Duration)
    -> Result<EngineReply, Fault>;

    /// Ends the player in order.
    fn close(self: Box<Self>);
}

/// A move and what the player said about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineReply {
    /// `None`: the player says that there is no move.
    pub best: Option<Move>,
    /// From the player's side.
    pub score: Option<Score>,
    pub depth: Option<u32>,
    pub nodes: Option<u64>,
    pub elapsed: Duration,
}

/// Makes a search with an empty memory, or says in a sentence why not.
pub type SearchFactory = Arc<dyn Fn() -> Result<Box<dyn Search>, String> + Send + Sync>;

/// Where a player comes from.
#[derive(Clone)]
pub enum PlayerKind {
    /// Another program.
    Engine(EngineSpec),
    /// A search inside this program.
    Search(SearchFactory),
}

impl fmt::Debug for PlayerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Engine(spec) => f.debug_tuple("Engine").field(spec).finish(),
            Self::Search(_) => f.write_str("Search"),
        }
    }
}

/// A player of a match.
#[derive(Clone, Debug)]
pub struct PlayerSpec {
    /// Shown in results; `None`: what the engine calls itself.
    pub name: Option<String>,
    pub kind: PlayerKind,
    pub control: TimeControl,
    /// Everything that decides how the player plays, on one line: an interrupted match goes on only
    /// where it is equal.
    pub identity: String,
}

/// A player that cannot be started; one sentence.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Engine(#[from] ClientError),
    #[error("{0}")]
    Search(String),
}

impl From<StartError> for Fault {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Engine(error) => error.into(),
            StartError::Search(text) => Self::Crash(text),
        }
    }
}

impl PlayerSpec {
    /// Starts the player and says its name; `patience` is the longest wait for an engine to get
    /// ready.
    ///
    /// # Errors
    /// The program or the search cannot be started.
    pub fn start(&self, patience: Duration) -> Result<(Box<dyn Player>, String), StartError> {
        match &self.kind {
            PlayerKind::Engine(spec) => {
                let engine = Engine::start(spec, patience)?;
                let name = self.name.clone().unwrap_or_else(|| engine.name().to_owned());
                Ok((Box::new(engine), name))
            }
            PlayerKind::Search(factory) => {
                let search = factory().map_err(StartError::Search)?;
                let name = self.name.clone().unwrap_or_else(|| "Batch First".to_owned());
                Ok((Box::new(InProcess { search }), name))
            }
        }
    }
}

impl Player for Engine {
    fn new_game(&mut self) -> Result<(), Fault> {
        Ok(Engine::new_game(self)?)
    }

    fn think(
        &mut self,
        game: &Game,
        task: &Task,
        patience: Duration,
    ) -> Result<EngineReply, Fault> {
        let answer = Engine::think(self, game, task, patience)?;
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

/// A search on the thread of the game. It keeps its limits itself; a panic in it is a crash.
struct InProcess {
    search: Box<dyn Search>,
}

impl Player for InProcess {
    fn new_game(&mut self) -> Result<(), Fault> {
        self.search.clear();
        Ok(())
    }

    fn think(&mut self, game: &Game, task: &Task, _: Duration) -> Result<EngineReply, Fault> {
        let limits = limits(task, game.position().turn());
        let started = Instant::now();
        // After a panic the search is dropped, so nobody sees what state it was left in.
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

fn limits(task: &Task, turn: Color) -> Limits {
    let none = Limits::default();
    match *task {
        Task::Nodes(nodes) => Limits { nodes: Some(nodes), ..none },
        Task::Depth(depth) => Limits { depth: Some(depth), ..none },
        Task::MoveTime(time) => Limits { movetime: Some(time), ..none },
        Task::Clock { white, black, white_increment, black_increment } => {
            let (remaining, increment) =
                if turn.is_white() { (white, white_increment) } else { (black, black_increment) };
            Limits { clock: Some(Clock { remaining, increment, moves_to_go: None }), ..none }
        }
    }
}
