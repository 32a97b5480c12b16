//! What the visitor may do in an open game, and the handle through which a page does it.

use std::sync::Arc;

use board::{Color, parse_san, parse_uci};
use search::Outcome;
use tokio::sync::{mpsc, oneshot, watch};

use super::GameSession;
use crate::{ApiError, advice::Question, game_state::GameResult};

/// A command for an open game.
#[derive(Clone, Debug)]
pub enum GameCommand {
    /// A move in UCI notation or SAN, and the number of plies before it.
    Move {
        ply: usize,
        uci: String,
    },
    TakeBack,
    Resign,
    /// The visitor wants to be shown a good move.
    Hint,
    OfferDraw,
    /// A page has opened the game: an engine that failed is started again.
    RetryEngine,
    /// The server shuts down: the time that the visitor has used is stored.
    SaveClock,
}

/// A command with the channel for its result.
pub(super) type CommandRequest = (GameCommand, oneshot::Sender<Result<(), ApiError>>);

pub type CommandSender = mpsc::Sender<CommandRequest>;

/// A page's access to an open game. The session ends when no handle is left.
#[derive(Clone, Debug)]
pub struct GameHandle {
    pub id: i64,
    pub commands: CommandSender,
    /// The game as the page shows it, as JSON.
    pub states: watch::Receiver<Arc<str>>,
}

impl GameHandle {
    /// Executes a command; returns once its effect is stored.
    ///
    /// # Errors
    /// The command is refused, the disk failed, or the session has ended.
    pub async fn execute(&self, command: GameCommand) -> Result<(), ApiError> {
        let closed = || ApiError::new("The game is closed. Open it again.");
        let (reply, result) = oneshot::channel();
        self.commands.send((command, reply)).await.map_err(|_| closed())?;
        result.await.map_err(|_| closed())?
    }
}

impl GameSession {
    /// Executes a command of the visitor.
    pub(super) async fn execute(&mut self, command: GameCommand) -> Result<(), ApiError> {
        match command {
            GameCommand::RetryEngine => {
                self.notice = None;
                Ok(())
            }
            GameCommand::SaveClock => {
                self.save_clock().await;
                Ok(())
            }
            GameCommand::Move { ply, uci } => self.play_visitor_move(ply, &uci).await,
            GameCommand::TakeBack => self.take_back().await,
            GameCommand::Hint => self.ask_adviser(Question::Hint),
            GameCommand::OfferDraw => self.ask_adviser(Question::Draw),
            GameCommand::Resign => {
                self.refuse_if_over()?;
                let used = self.used();
                self.running = None;
                self.end(self.state.resigned(), used).await
            }
        }
    }

    fn refuse_if_over(&self) -> Result<(), ApiError> {
        if self.state.result.is_some() { Err(ApiError::new("The game is over.")) } else { Ok(()) }
    }

    async fn take_back(&mut self) -> Result<(), ApiError> {
        let ply = self
            .state
            .ply_to_take_back()
            .ok_or_else(|| ApiError::new("There is no move of yours to take back."))?;
        self.running = None;
        self.notice = None;
        self.adviser.withdraw();
        self.registry.store.take_back(self.id, ply).await?;
        self.state.truncate(ply);
        self.turn_began = self.time.now();
        Ok(())
    }

    async fn play_visitor_move(&mut self, ply: usize, uci: &str) -> Result<(), ApiError> {
        self.refuse_if_over()?;
        if let Some(error) = &self.unavailable {
            return Err(error.clone());
        }
        let position = self.state.game().position();
        if position.turn() == self.state.engine_side || ply != self.state.game().moves().len() {
            return Err(ApiError::new("It is not your turn."));
        }
        let mv = parse_uci(position, uci).or_else(|_| parse_san(position, uci))?;
        let used = self.used().unwrap_or(0);
        if self.state.left(position.turn()).is_some_and(|left| used >= left) {
            self.flag_fell(!self.state.engine_side, Some(used)).await;
            return Err(ApiError::new("Your time was up."));
        }
        self.play(mv, used).await
    }

    /// Stores a move, then plays it.
    pub(super) async fn play(&mut self, mv: board::Move, used: u64) -> Result<(), ApiError> {
        let (stored, result) = self.state.prepare(mv, used);
        let ply = self.state.game().moves().len();
        self.registry.store.add_move(self.id, ply, stored.clone(), result.clone()).await?;
        self.state.play(mv, &stored, result);
        self.adviser.withdraw();
        self.turn_began = self.time.now();
        Ok(())
    }

    /// Ends the game without a move; `used`: milliseconds that the side to move has used.
    async fn end(&mut self, result: GameResult, used: Option<u64>) -> Result<(), ApiError> {
        let spent = used.unwrap_or(self.state.spent);
        // A draw that is still considered must not replace this result.
        self.adviser.withdraw();
        self.registry.store.end(self.id, result.clone(), spent).await?;
        self.state.result = Some(result);
        self.state.spent = spent;
        Ok(())
    }

    /// Ends the game on time.
    pub(super) async fn flag_fell(&mut self, loser: Color, used: Option<u64>) {
        if let Err(error) = self.end(self.state.lost_on_time(loser), used).await {
            self.notice = Some(error.to_string());
        }
    }

    /// Asks for a hint or offers a draw.
    fn ask_adviser(&mut self, question: Question) -> Result<(), ApiError> {
        self.refuse_if_over()?;
        if self.state.game().position().turn() == self.state.engine_side {
            return Err(ApiError::new("It is not your turn."));
        }
        self.adviser.ask(question, self.state.game().clone());
        Ok(())
    }

    /// Shows a hint, or ends the game if the engine takes a draw.
    pub(super) async fn handle_advice(&mut self, result: Result<Outcome, ApiError>) {
        if self.adviser.answer(result, self.state.game()) {
            let used = self.used();
            if let Err(error) = self.end(self.state.draw_agreed(), used).await {
                self.notice = Some(error.to_string());
            }
        }
    }
}
