//! Analysis of a position: principal variations and the inside of the search, several times a
//! second, until the visitor stops it. Beside it: games with variations, their PGN, and the
//! analysis of whole games.

mod game_review;
mod game_tree;
mod only_moves;
mod pgn_text;
mod report;
mod request;
mod tree_builder;
mod tree_request;

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use engine::has_search;
use search::{Control, Limits, Search, SearchInfo};
use serde_json::Value;
use tokio::{
    sync::watch,
    task::{JoinHandle, spawn_blocking},
    time::sleep,
};

pub use self::{
    game_review::{GameReview, ReviewRequest},
    game_tree::{MAX_NODES, too_many_moves},
    pgn_text::{MAX_PGN, odd, only_game},
    request::{AnalysisRequest, AnalysisTask},
    tree_request::{TreeRequest, compute_in_turn},
};
use self::{
    report::{Report, failure_json, move_chances_json},
    request::SearchKey,
};
use crate::{ApiError, Engines, Opponent, TimeSource, search_slots::run_search};

/// Time between two reports.
const REPORT_PERIOD: Duration = Duration::from_millis(100);
/// An analysis ends after this search time.
const MAX_SEARCH_TIME: Duration = Duration::from_secs(600);

/// A search between two requests, with the settings that it was built for. It keeps its cache.
type IdleSearch = Arc<Mutex<Option<(SearchKey, Box<dyn Search>)>>>;

/// The analysis of one page. A new request ends the one before it.
pub struct Analysis {
    engines: Arc<Engines>,
    time: TimeSource,
    idle_search: IdleSearch,
    /// Whether the search runs; while false, the task waits for a search slot.
    is_searching: Arc<AtomicBool>,
    running: Option<(Control, JoinHandle<()>)>,
    reports: watch::Sender<Arc<str>>,
}

impl Drop for Analysis {
    fn drop(&mut self) {
        if let Some((control, task)) = self.running.take() {
            control.stop();
            task.abort();
        }
    }
}

impl Analysis {
    /// An idle analysis that will send its reports to `reports`, as JSON.
    pub fn new(engines: Arc<Engines>, time: TimeSource, reports: watch::Sender<Arc<str>>) -> Self {
        Self {
            engines,
            time,
            idle_search: Arc::default(),
            is_searching: Arc::default(),
            running: None,
            reports,
        }
    }

    /// Ends the running analysis, if any.
    pub async fn stop(&mut self) {
        if let Some((control, task)) = self.running.take() {
            control.stop();
            if !self.is_searching.load(Ordering::Acquire) {
                task.abort();
            }
            // A task that is searching returns its search first; an aborted one is an error here.
            let _ = task.await;
        }
    }

    /// Ends the running analysis and starts another.
    pub async fn start(&mut self, task: AnalysisTask) {
        self.stop().await;
        // A flag of its own: an aborted task may have left the old one set.
        self.is_searching = Arc::default();
        let control = Control::default();
        let run = Run {
            report: Report::new(&task),
            task,
            engines: Arc::clone(&self.engines),
            time: self.time.clone(),
            idle_search: Arc::clone(&self.idle_search),
            is_searching: Arc::clone(&self.is_searching),
            control: control.clone(),
            reports: self.reports.clone(),
        };
        self.running = Some((control, tokio::spawn(run.run())));
    }
}

/// The task of one analysis.
struct Run {
    task: AnalysisTask,
    report: Report,
    engines: Arc<Engines>,
    time: TimeSource,
    idle_search: IdleSearch,
    is_searching: Arc<AtomicBool>,
    /// Stops the whole analysis.
    control: Control,
    reports: watch::Sender<Arc<str>>,
}

impl Run {
    async fn run(self) {
        if let Err(error) = self.search().await {
            self.send(failure_json(self.task.tag, &error));
        }
    }

    fn send(&self, report: Value) {
        self.reports.send_replace(Arc::from(report.to_string()));
    }

    /// Searches in turns with others until stopped or out of time.
    async fn search(&self) -> Result<(), ApiError> {
        if !self.report.position.has_legal_moves() {
            self.send(self.report.to_json("done", None));
            return Ok(());
        }
        let mut used = Duration::ZERO;
        loop {
            self.send(self.report.to_json("waiting", None));
            let slot = self.engines.slots.acquire().await?;
            let search = self.take_search().await?;
            if !has_search(self.task.system) {
                return self.report_move_chances(search);
            }
            let began = self.time.now();
            let turn = Control::default();
            let gave_way = self.search_turn(search, &turn, used).await?;
            drop(slot);
            used += self.time.elapsed(began);
            if !gave_way || self.control.is_stopped() || used >= MAX_SEARCH_TIME {
                self.send(self.report.to_json("done", turn.take_view().as_ref()));
                return Ok(());
            }
        }
    }

    /// Searches until the search ends, is stopped or gives way to others; true if it gave way.
    /// `used`: search time of the turns before.
    async fn search_turn(
        &self,
        search: Box<dyn Search>,
        turn: &Control,
        used: Duration,
    ) -> Result<bool, ApiError> {
        self.is_searching.store(true, Ordering::Release);
        let lines = Arc::clone(&self.report.lines);
        let on_info = move |info: &SearchInfo| {
            let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
            let rank = info.multipv.max(1) - 1;
            if rank < lines.len() {
                lines[rank] = info.clone();
            } else {
                lines.push(info.clone());
            }
        };
        let movetime = Some(MAX_SEARCH_TIME.saturating_sub(used));
        let limits = Limits { movetime, ..Limits::default() };
        let began = self.time.now();
        let thinking = run_search(search, self.task.game.clone(), limits, turn.clone(), on_info);
        let mut thinking = std::pin::pin!(thinking);
        let mut gave_way = false;
        let result = loop {
            turn.ask_for_view();
            tokio::select! {
                result = &mut thinking => break result,
                () = sleep(REPORT_PERIOD) => {}
            }
            self.send(self.report.to_json("running", turn.take_view().as_ref()));
            gave_way |= self.engines.slots.is_turn_over(self.time.elapsed(began));
            if self.control.is_stopped() || gave_way {
                turn.stop();
            }
        };
        self.is_searching.store(false, Ordering::Release);
        let (search, _) = result?;
        self.keep_search(search);
        Ok(gave_way)
    }

    /// Reports the move probabilities of a system without a search.
    fn report_move_chances(&self, mut search: Box<dyn Search>) -> Result<(), ApiError> {
        // This takes half a millisecond and needs no thread of its own.
        let chances = search.chances(&self.task.game);
        self.keep_search(search);
        if let Some(chances) = chances {
            let chances = chances
                .map_err(|error| ApiError::sentence(&format!("The evaluator failed: {error}")))?;
            self.send(move_chances_json(self.task.tag, &self.report.position, &chances));
        }
        Ok(())
    }

    /// The idle search if it has the right settings, else a new one.
    async fn take_search(&self) -> Result<Box<dyn Search>, ApiError> {
        let idle = self.idle_search.lock().unwrap_or_else(PoisonError::into_inner).take();
        match idle {
            Some((key, search)) if key == self.task.key() => Ok(search),
            _ => {
                let engines = Arc::clone(&self.engines);
                let (system, lines, batch) = self.task.key();
                // One that does not search gets an evaluator of its own, which takes a while.
                spawn_blocking(move || engines.build(Opponent::System(system), lines, batch))
                    .await
                    .map_err(|_| ApiError::new("The engine cannot run. Please report this."))?
            }
        }
    }

    fn keep_search(&self, search: Box<dyn Search>) {
        *self.idle_search.lock().unwrap_or_else(PoisonError::into_inner) =
            Some((self.task.key(), search));
    }
}
