//! The session of an open game: a task that executes the visitor's commands, runs the engine, keeps
//! the clocks, and stores every move before it publishes the new state.

mod commands;
mod engine_move;

pub use commands::{CommandSender, GameCommand, GameHandle};

use std::{
    future,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::{mpsc, watch};

use crate::{
    ApiError, GameState, TimeSource, advice::Adviser, engines::GameSearch, registry::GameRegistry,
};
use commands::CommandRequest;
use engine_move::{RunningSearch, finished, slot_acquired};

/// An open game.
pub struct GameSession {
    id: i64,
    registry: Arc<GameRegistry>,
    time: TimeSource,
    state: GameState,
    /// When the visitor began to think, less the time that was used before the game was opened.
    turn_began: Instant,
    /// The engine's search between two moves; one with threads of its own rests with the engines.
    idle_search: Option<GameSearch>,
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
}

impl Drop for GameSession {
    fn drop(&mut self) {
        self.registry.engines.forget(self.id);
    }
}

/// Waits until a time; pending where there is none.
async fn reached(time: &TimeSource, deadline: Option<Instant>) {
    match deadline {
        None => future::pending().await,
        Some(deadline) => time.sleep_until(deadline).await,
    }
}
