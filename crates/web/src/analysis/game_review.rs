//! The analysis of a whole game for the page: every position is searched as `batch-first analyze
//! FILE` does it, in turns with other searches, with progress after each position.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use annotate::{AnalysisSettings, GameAnalyser, GameAnalysis, annotated_pgn, remove_old_analysis};
use board::Score;
use eval::EvalError;
use games::{PgnGame, ReadGame, read_pgn};
use nets::System;
use search::{Control, Search};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{
    sync::watch,
    task::{JoinHandle, spawn_blocking},
    time::sleep,
};

use super::{
    MAX_SEARCH_TIME, game_tree::GameTree, only_moves::OnlyMoves, tree_request::compute_in_turn,
};
use crate::{ApiError, Engines, Opponent, TimeSource, search_slots::SearchSlot};

/// The most evaluations a position.
const MAX_EVALUATIONS: u64 = 100_000;
/// Bad moves that lost this many percent of winning chances get the better line, as the command's
/// default is.
const THRESHOLD: f64 = 5.0;
/// While others wait, a position is searched for this long at most.
const POSITION_SHARE: Duration = Duration::from_secs(1);
/// Time between two looks at whether others wait.
const WATCH_PERIOD: Duration = Duration::from_millis(50);
/// The glyph of the only good move.
const ONLY_MOVE: u16 = 7;

/// The page's request to analyse a game.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReviewRequest {
    /// The page's number of the request; every report carries it.
    pub tag: u32,
    pub tree: GameTree,
    /// Evaluations a position.
    pub evaluations: u64,
}

/// A checked request.
#[derive(Debug)]
pub struct ReviewTask {
    tag: u32,
    game: PgnGame,
    settings: AnalysisSettings,
}

impl ReviewRequest {
    /// Checks the request.
    ///
    /// # Errors
    /// The game or the number of evaluations is not allowed.
    pub async fn check(self, engines: &Arc<Engines>) -> Result<ReviewTask, ApiError> {
        let engines = Arc::clone(engines);
        compute_in_turn(move || self.check_at_once(&engines)).await
    }

    fn check_at_once(self, engines: &Engines) -> Result<ReviewTask, ApiError> {
        if !(1..=MAX_EVALUATIONS).contains(&self.evaluations) {
            return Err(ApiError::new(format!(
                "A position gets 1 to {MAX_EVALUATIONS} evaluations."
            )));
        }
        let network = engines.network(Opponent::System(System::BatchFirst))?;
        let version = env!("CARGO_PKG_VERSION");
        let engine = format!("Batch First {version}, network {}", network.name);
        let mut game = self.tree.into_pgn()?;
        if game.game.moves().is_empty() {
            return Err(ApiError::new("There are no moves to analyse."));
        }
        remove_old_analysis(&mut game);
        let settings = AnalysisSettings {
            nodes: Some(self.evaluations),
            movetime: None,
            depth: None,
            batch: 0,
            hash_mib: 0,
            from: 1,
            to: usize::MAX,
            multipv: 1,
            threshold: THRESHOLD,
            strip: false,
            engine,
        };
        Ok(ReviewTask { tag: self.tag, game, settings })
    }
}

/// The game analysis of one page. A new one ends the one before it.
#[derive(Debug)]
pub struct GameReview {
    engines: Arc<Engines>,
    time: TimeSource,
    running: Option<(Control, JoinHandle<()>)>,
    reports: watch::Sender<Arc<str>>,
}

impl Drop for GameReview {
    fn drop(&mut self) {
        self.stop();
    }
}

impl GameReview {
    /// An idle analysis that will send its reports to `reports`, as JSON.
    pub fn new(engines: Arc<Engines>, time: TimeSource, reports: watch::Sender<Arc<str>>) -> Self {
        Self { engines, time, running: None, reports }
    }

    /// Ends the running analysis, if any. Its slot is free when its last search has ended.
    pub fn stop(&mut self) {
        if let Some((control, task)) = self.running.take() {
            control.stop();
            task.abort();
        }
    }

    /// Ends the running analysis and starts another.
    pub fn start(&mut self, task: ReviewTask) {
        self.stop();
        let control = Control::default();
        let run = Run {
            total: task.game.game.moves().len() + 1,
            tag: task.tag,
            engines: Arc::clone(&self.engines),
            time: self.time.clone(),
            control: control.clone(),
            reports: self.reports.clone(),
        };
        self.running = Some((control, tokio::spawn(run.run(task))));
    }
}

/// One analysis under way.
#[derive(Clone)]
struct Run {
    tag: u32,
    /// Number of positions.
    total: usize,
    engines: Arc<Engines>,
    time: TimeSource,
    control: Control,
    reports: watch::Sender<Arc<str>>,
}

/// A part of the analysis: searches one after another, in turns.
trait Stage: Send + 'static {
    /// Is every position searched?
    fn is_done(&self) -> bool;

    /// Searches the next position. If `control` stops the search, what it has found counts.
    fn search_next(&mut self, control: &Control) -> Result<(), EvalError>;

    /// White's score of each position so far.
    fn scores(&self) -> &[Option<Score>];

    /// Number of positions without a score that are to get one.
    fn positions_left(&self) -> usize;
}

/// Every position is searched for its score.
struct Scores {
    analyser: GameAnalyser,
    search: Box<dyn Search>,
}

impl Stage for Scores {
    fn is_done(&self) -> bool {
        self.analyser.is_done()
    }

    fn search_next(&mut self, control: &Control) -> Result<(), EvalError> {
        self.analyser.search_next_until_stopped(self.search.as_mut(), control)
    }

    fn scores(&self) -> &[Option<Score>] {
        self.analyser.scores()
    }

    fn positions_left(&self) -> usize {
        self.analyser.positions_left()
    }
}

/// The positions of mistakes are searched again, with two lines.
struct Mistakes {
    only_moves: OnlyMoves,
    two_lines: Box<dyn Search>,
    positions_left: usize,
}

impl Stage for Mistakes {
    fn is_done(&self) -> bool {
        self.only_moves.is_done()
    }

    fn search_next(&mut self, control: &Control) -> Result<(), EvalError> {
        self.only_moves.search_next(self.two_lines.as_mut(), control)
    }

    fn scores(&self) -> &[Option<Score>] {
        &self.only_moves.analysis.scores
    }

    fn positions_left(&self) -> usize {
        self.positions_left
    }
}

/// The search of one position under way: when it began, and what stops it.
struct Current(Mutex<(Instant, Control)>);

impl Current {
    fn get(&self) -> (Instant, Control) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The control of the next search, which begins now.
    fn begin(&self, now: Instant) -> Control {
        let control = Control::default();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (now, control.clone());
        control
    }
}

/// Stops the search of a position when nobody waits for it any more.
struct StopOnDrop(Arc<Current>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.get().1.stop();
    }
}

impl Run {
    async fn run(self, task: ReviewTask) {
        if let Err(ApiError(error)) = self.review(task).await {
            self.send(json!({ "state": "failed", "error": error }));
        }
    }

    fn send(&self, mut report: Value) {
        report["type"] = "review".into();
        report["tag"] = self.tag.into();
        self.reports.send_replace(Arc::from(report.to_string()));
    }

    /// Searches in turns with others until every position and every mistake is done, or the time is
    /// up.
    async fn review(&self, task: ReviewTask) -> Result<(), ApiError> {
        let began = self.time.now();
        let system = Opponent::System(System::BatchFirst);
        let settings = task.settings;
        let search = self.engines.build(system, settings.multipv, settings.batch)?;
        let scores = Scores { analyser: GameAnalyser::new(task.game, &settings), search };
        let Scores { analyser, search } = self.in_turns(scores, began).await?;
        drop(search);
        let positions_left = analyser.positions_left();
        let only_moves = OnlyMoves::new(analyser.into_analysis(), &settings);
        let two_lines = self.engines.build(system, 2, settings.batch)?;
        let mistakes = Mistakes { only_moves, two_lines, positions_left };
        let Mistakes { only_moves, .. } = self.in_turns(mistakes, began).await?;
        let tree = compute_in_turn(move || {
            let mut tree = annotated_tree(&only_moves.analysis, &settings)?;
            for (ply, best) in only_moves.found {
                tree.add_glyph(ply, &best, ONLY_MOVE);
            }
            Ok(tree)
        });
        let (done, total) = (self.total - positions_left, self.total);
        self.send(json!({ "state": "done", "done": done, "total": total, "tree": tree.await? }));
        Ok(())
    }

    /// Runs a stage until it is done or the time is up, which began at `began`.
    async fn in_turns<S: Stage>(&self, mut stage: S, began: Instant) -> Result<S, ApiError> {
        while !stage.is_done() && self.time.elapsed(began) < MAX_SEARCH_TIME {
            self.send(self.progress(&stage, "waiting"));
            let slot = self.engines.slots.acquire().await?;
            let current = Arc::new(Current(Mutex::new((self.time.now(), Control::default()))));
            let _stop = StopOnDrop(Arc::clone(&current));
            let (run, searched) = (self.clone(), Arc::clone(&current));
            let mut turn = spawn_blocking(move || run.turn(stage, began, &searched, slot));
            stage = loop {
                tokio::select! {
                    ended = &mut turn => break ended.map_err(|_| unexpected())??,
                    () = sleep(WATCH_PERIOD) => self.watch(&current, began),
                }
            };
        }
        Ok(stage)
    }

    /// Stops the search of a position that has had its share while others wait, or the time is up.
    fn watch(&self, current: &Current, began: Instant) {
        let (position_began, control) = current.get();
        let used = self.time.elapsed(position_began);
        let has_had_share = used >= POSITION_SHARE && self.engines.slots.is_turn_over(used);
        if has_had_share || self.time.elapsed(began) >= MAX_SEARCH_TIME {
            control.stop();
        }
    }

    /// Searches positions until all are done, the time is up, or others wait for the slot.
    fn turn<S: Stage>(
        &self,
        mut stage: S,
        began: Instant,
        current: &Current,
        slot: SearchSlot,
    ) -> Result<S, ApiError> {
        let turn_began = self.time.now();
        while !stage.is_done() {
            let control = current.begin(self.time.now());
            // Looked at behind `begin`: whoever cancels stops the current control afterwards.
            if self.control.is_stopped() || self.time.elapsed(began) >= MAX_SEARCH_TIME {
                break;
            }
            stage
                .search_next(&control)
                .map_err(|error| ApiError::sentence(&format!("The evaluator failed: {error}")))?;
            self.send(self.progress(&stage, "running"));
            if self.engines.slots.is_turn_over(self.time.elapsed(turn_began)) {
                break;
            }
        }
        drop(slot);
        Ok(stage)
    }

    fn progress(&self, stage: &impl Stage, state: &str) -> Value {
        let scores: Vec<Value> = stage.scores().iter().map(|&score| score_json(score)).collect();
        let done = self.total - stage.positions_left();
        json!({ "state": state, "done": done, "total": self.total, "scores": scores })
    }
}

fn unexpected() -> ApiError {
    ApiError::new("The analysis stopped unexpectedly. Please report this.")
}

/// The game with its evaluations, judgments and better lines.
fn annotated_tree(
    analysis: &GameAnalysis,
    settings: &AnalysisSettings,
) -> Result<GameTree, ApiError> {
    let evaluations = settings.nodes.unwrap_or_default();
    let annotator = format!("{}, {evaluations} evaluations a position", settings.engine);
    let pgn = annotated_pgn(analysis, &annotator, settings.threshold);
    let game = read_pgn(pgn.as_bytes()).next().and_then(Result::ok).and_then(ReadGame::into_game);
    let mut game = game.ok_or_else(|| ApiError::new("The analysed game cannot be read."))?;
    for (ply, score) in analysis.scores.iter().enumerate() {
        // The mate or draw at the end has no comment.
        if let Some(score) = score.filter(|_| analysis.positions[ply].is_none()) {
            game.evaluations.push((ply, score));
        }
    }
    GameTree::from_pgn(&game)
}

/// White's score.
fn score_json(score: Option<Score>) -> Value {
    match score {
        None => Value::Null,
        Some(Score::Centipawns(cp)) => json!({ "cp": cp }),
        Some(Score::Mate(mate)) => json!({ "mate": mate }),
    }
}
