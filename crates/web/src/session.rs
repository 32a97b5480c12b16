//! The session of an open game: a task that executes the visitor's commands, runs the engine, keeps
//! the clocks, and stores every move before it publishes the new state.

use std::{
    future,
    sync::Arc,
    time::{Duration, Instant},
};

use board::{Color, parse_san, parse_uci};
use search::{Control, Outcome, Search};
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::{JoinHandle, spawn_blocking},
};

use crate::{
    ApiError, GameState, TimeSource,
    advice::{Adviser, Question},
    game_state::GameResult,
    registry::GameRegistry,
    search_slots::run_search,
};

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
type CommandRequest = (GameCommand, oneshot::Sender<Result<(), ApiError>>);

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

/// The engine's search for a move; dropping it stops the search.
struct RunningSearch {
    task: JoinHandle<Result<SearchResult, ApiError>>,
    /// When the search got its slot; `None` while it waits for one.
    began: watch::Receiver<Option<Instant>>,
}

impl Drop for RunningSearch {
    fn drop(&mut self) {
        // The search stops when the task that waits for it is gone.
        self.task.abort();
    }
}

/// A finished search; `search` keeps its cache for the next move.
struct SearchResult {
    search: Box<dyn Search>,
    outcome: Outcome,
    elapsed: Duration,
}

/// An open game.
pub struct GameSession {
    id: i64,
    registry: Arc<GameRegistry>,
    time: TimeSource,
    state: GameState,
    /// When the visitor began to think, less the time that was used before the game was opened.
    turn_began: Instant,
    /// The engine's search between two moves.
    idle_search: Option<Box<dyn Search>>,
    running: Option<RunningSearch>,
    /// Hints and draw offers.
    adviser: Adviser,
    /// Why this server does not have the opponent; the clocks stand still then.
    unavailable: Option<ApiError>,
    /// Error of the engine, shown to the visitor.
    notice: Option<String>,
    requests: mpsc::Receiver<CommandRequest>,
    states: Arc<watch::Sender<Arc<str>>>,
}

impl GameSession {
    /// A session with its first handle and the sender of its states.
    #[must_use]
    pub fn new(
        id: i64,
        state: GameState,
        registry: Arc<GameRegistry>,
    ) -> (Self, GameHandle, Arc<watch::Sender<Arc<str>>>) {
        let (commands, requests) = mpsc::channel(16);
        let (states, receiver) = watch::channel(Arc::from(""));
        let states = Arc::new(states);
        let time = registry.time.clone();
        let now = time.now();
        // The visitor's clock continues from the time used before.
        let turn_began = now.checked_sub(Duration::from_millis(state.spent)).unwrap_or(now);
        let unavailable = registry.engines.network(state.opponent).err();
        let adviser = Adviser::new(Arc::clone(&registry.engines));
        let mut session = Self {
            id,
            registry,
            time,
            state,
            turn_began,
            idle_search: None,
            running: None,
            adviser,
            unavailable,
            notice: None,
            requests,
            states: Arc::clone(&states),
        };
        session.publish();
        (session, GameHandle { id, commands, states: receiver }, states)
    }

    /// Serves the game until no page has it open.
    pub async fn run(mut self) {
        loop {
            // A game that no page shows does not search.
            if !self.is_unused()
                && self.state.awaits_engine()
                && self.running.is_none()
                && self.notice.is_none()
            {
                self.start_search();
            }
            self.publish();
            if self.is_unused() {
                let registry = Arc::clone(&self.registry);
                let mut open = registry.open.lock().await;
                // Under the lock no page can open the game.
                if self.is_unused() {
                    self.save_clock().await;
                    open.remove(&self.id);
                    return;
                }
            }
            let began = self.running.as_ref().map(|running| running.began.clone());
            let flag = self.flag_time();
            let states = Arc::clone(&self.states);
            let time = self.time.clone();
            tokio::select! {
                request = self.requests.recv() => {
                    let Some((command, reply)) = request else { return };
                    let result = self.execute(command).await;
                    // The page may be gone.
                    let _ = reply.send(result);
                }
                result = finished(&mut self.running) => self.handle_result(result).await,
                () = slot_acquired(began) => {}
                () = reached(&time, flag) => {
                    self.flag_fell(!self.state.engine_side, self.used()).await;
                }
                advice = self.adviser.finished() => self.handle_advice(advice).await,
                () = states.closed() => {}
            }
        }
    }

    /// Whether no page has the game open and no command waits.
    fn is_unused(&self) -> bool {
        self.states.receiver_count() == 0 && self.requests.is_empty()
    }

    fn publish(&mut self) {
        let thinking = match &mut self.running {
            None => "no",
            // What is published counts as seen: `slot_acquired` returns when it changes.
            Some(running) => match *running.began.borrow_and_update() {
                None => "waiting",
                Some(_) => "yes",
            },
        };
        let unavailable = self.unavailable.as_ref().filter(|_| self.state.result.is_none());
        let notice = self.notice.as_deref().or(unavailable.map(|ApiError(text)| text.as_str()));
        let mut shown = self.state.to_json(self.id, self.used(), thinking, notice);
        shown["advice"] = self.adviser.to_json();
        let shown = shown.to_string();
        self.states.send_if_modified(|state| {
            let is_new = **state != *shown;
            if is_new {
                *state = Arc::from(shown);
            }
            is_new
        });
    }

    /// Milliseconds that the side to move has used; `None` while its clock does not run.
    fn used(&self) -> Option<u64> {
        self.state.time_control?;
        if self.state.result.is_some() || self.unavailable.is_some() {
            return None;
        }
        let began = match &self.running {
            // The engine's clock does not run while it waits for a search slot.
            Some(running) => (*running.began.borrow())?,
            None if self.state.awaits_engine() => return None,
            None => self.turn_began,
        };
        let used = self.time.elapsed(began).as_millis() as u64;
        // The engine's search before the game was last closed counts as well.
        let before = if self.running.is_some() { self.state.spent } else { 0 };
        Some(before + used)
    }

    /// When the visitor's flag falls; `None` while the visitor's clock does not run.
    fn flag_time(&self) -> Option<Instant> {
        if self.state.awaits_engine() || self.running.is_some() || self.notice.is_some() {
            return None;
        }
        self.used()?;
        let left = self.state.left(!self.state.engine_side)?;
        Some(self.turn_began + Duration::from_millis(left))
    }

    /// Stores the time that the side to move has used. Its clock stops until the game is opened
    /// again.
    async fn save_clock(&mut self) {
        if let Some(used) = self.used()
            && let Err(error) = self.registry.store.set_spent(self.id, used).await
        {
            tracing::warn!("game {}: {error}", self.id);
        }
    }

    async fn execute(&mut self, command: GameCommand) -> Result<(), ApiError> {
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
    async fn play(&mut self, mv: board::Move, used: u64) -> Result<(), ApiError> {
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

    async fn flag_fell(&mut self, loser: Color, used: Option<u64>) {
        if let Err(error) = self.end(self.state.lost_on_time(loser), used).await {
            self.notice = Some(error.to_string());
        }
    }

    fn start_search(&mut self) {
        let limits = self.state.limits();
        let game = self.state.game().clone();
        let (opponent, threads) = (self.state.opponent, self.state.threads);
        let engines = Arc::clone(&self.registry.engines);
        let idle_search = self.idle_search.take();
        let time = self.time.clone();
        let (start, began) = watch::channel(None);
        let task = tokio::spawn(async move {
            let slot = engines.slots.acquire().await?;
            let started = time.now();
            start.send_replace(Some(started));
            let search = match idle_search {
                Some(search) => search,
                None => {
                    let engines = Arc::clone(&engines);
                    spawn_blocking(move || engines.build_for_game(opponent, threads))
                        .await
                        .map_err(|_| stopped_unexpectedly())??
                }
            };
            let (search, outcome) =
                run_search(search, game, limits, Control::default(), |_| {}).await?;
            drop(slot);
            Ok(SearchResult { search, outcome, elapsed: time.elapsed(started) })
        });
        self.running = Some(RunningSearch { task, began });
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

    async fn handle_advice(&mut self, result: Result<Outcome, ApiError>) {
        if self.adviser.answer(result, self.state.game()) {
            let used = self.used();
            if let Err(error) = self.end(self.state.draw_agreed(), used).await {
                self.notice = Some(error.to_string());
            }
        }
    }

    async fn handle_result(&mut self, result: Result<SearchResult, ApiError>) {
        self.running = None;
        let played = match result {
            Err(error) => Err(error),
            Ok(SearchResult { search, outcome, elapsed }) => {
                // One with threads of its own would keep them until the next move.
                self.idle_search = Some(search).filter(|_| self.state.threads.is_none());
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
async fn finished(running: &mut Option<RunningSearch>) -> Result<SearchResult, ApiError> {
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

/// Waits until a time; pending where there is none.
async fn reached(time: &TimeSource, deadline: Option<Instant>) {
    match deadline {
        None => future::pending().await,
        Some(deadline) => time.sleep_until(deadline).await,
    }
}

/// Waits until a search has got its slot; pending where none waits.
async fn slot_acquired(began: Option<watch::Receiver<Option<Instant>>>) {
    // The channel changes once, from waiting to searching.
    if let Some(mut began) = began
        && began.changed().await.is_ok()
    {
        return;
    }
    future::pending().await
}
