//! The analysis of a whole game for the page: every position is searched as `batch-first analyze
//! FILE` does it, in turns with other searches, with progress after each position.

use std::sync::Arc;

use annotate::{
    AnalysisSettings, GameAnalyser, GameAnalysis, Judgment, annotated_pgn, remove_old_analysis,
    win_percent,
};
use board::{Game, Move, Score, to_uci};
use games::{PgnGame, ReadGame, read_pgn};
use nets::System;
use search::{Control, Limits, Search};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{
    sync::watch,
    task::{JoinHandle, spawn_blocking},
};

use super::{MAX_SEARCH_TIME, game_tree::GameTree, tree_request::compute_in_turn};
use crate::{ApiError, Engines, Opponent, TimeSource, search_slots::SearchSlot};

/// The most evaluations a position.
const MAX_EVALUATIONS: u64 = 100_000;
/// Bad moves that lost this many percent of winning chances get the better line, as the command's
/// default is.
const THRESHOLD: f64 = 5.0;

/// A move is the only good one if the second best loses this many percent of winning chances more.
const ONLY_MOVE_GAP: f64 = 10.0;
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
                "a position gets 1 to {MAX_EVALUATIONS} evaluations"
            )));
        }
        let network = engines.network(Opponent::System(System::BatchFirst))?;
        let version = env!("CARGO_PKG_VERSION");
        let engine = format!("Batch First {version}, network {}", network.name);
        let mut game = self.tree.into_pgn()?;
        if game.game.moves().is_empty() {
            return Err(ApiError::new("there are no moves to analyse"));
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

/// What goes from turn to turn.
struct Work {
    analyser: GameAnalyser,
    search: Box<dyn Search>,
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

    /// Searches in turns with others until every position is done or the time is up.
    async fn review(&self, task: ReviewTask) -> Result<(), ApiError> {
        let system = Opponent::System(System::BatchFirst);
        let search = self.engines.build(system, task.settings.multipv, task.settings.batch)?;
        let mut work = Work { analyser: GameAnalyser::new(task.game, &task.settings), search };
        let began = self.time.now();
        let mut is_late = false;
        while !work.analyser.is_done() && !is_late {
            self.send(self.progress(&work.analyser, "waiting"));
            let slot = self.engines.slots.acquire().await?;
            let run = self.clone();
            let turn = spawn_blocking(move || run.turn(work, slot));
            work = turn.await.map_err(|_| {
                ApiError::new("the analysis stopped unexpectedly; please report this")
            })??;
            is_late = self.time.elapsed(began) >= MAX_SEARCH_TIME;
        }
        let slot = self.engines.slots.acquire().await?;
        let two_lines = self.engines.build(system, 2, task.settings.batch)?;
        let run = self.clone();
        let done =
            spawn_blocking(move || run.finish(work.analyser, &task.settings, two_lines, slot));
        self.send(done.await.map_err(|_| ApiError::new("the analysis stopped unexpectedly"))??);
        Ok(())
    }

    /// Searches positions until all are done, or others wait for the slot.
    fn turn(&self, mut work: Work, slot: SearchSlot) -> Result<Work, ApiError> {
        let began = self.time.now();
        while !work.analyser.is_done() && !self.control.is_stopped() {
            work.analyser
                .search_next(work.search.as_mut(), &self.control)
                .map_err(|error| ApiError::new(format!("the evaluator failed: {error}")))?;
            self.send(self.progress(&work.analyser, "running"));
            let elapsed = self.time.elapsed(began);
            if elapsed >= MAX_SEARCH_TIME || self.engines.slots.is_turn_over(elapsed) {
                break;
            }
        }
        drop(slot);
        Ok(work)
    }

    fn progress(&self, analyser: &GameAnalyser, state: &str) -> Value {
        let scores: Vec<Value> = analyser.scores().iter().map(|&score| score_json(score)).collect();
        let done = self.total - analyser.positions_left();
        json!({ "state": state, "done": done, "total": self.total, "scores": scores })
    }

    /// The annotated game as a tree, in which the only good moves have a glyph.
    fn finish(
        &self,
        analyser: GameAnalyser,
        settings: &AnalysisSettings,
        mut two_lines: Box<dyn Search>,
        slot: SearchSlot,
    ) -> Result<Value, ApiError> {
        let left = analyser.positions_left();
        let analysis = analyser.into_analysis();
        let mut tree = annotated_tree(&analysis, settings)?;
        for (ply, best) in self.only_moves(&analysis, settings, two_lines.as_mut())? {
            tree.add_glyph(ply, &best, ONLY_MOVE);
        }
        drop(slot);
        Ok(json!({ "state": "done", "done": self.total - left, "total": self.total, "tree": tree }))
    }

    /// The positions of mistakes, as plies, in which one move was much better than all others, and
    /// that move in UCI notation.
    fn only_moves(
        &self,
        analysis: &GameAnalysis,
        settings: &AnalysisSettings,
        two_lines: &mut dyn Search,
    ) -> Result<Vec<(usize, String)>, ApiError> {
        let nodes = settings.nodes.map(|nodes| 2 * nodes);
        let limits = Limits { nodes, analysis: true, ..Limits::default() };
        let mut game = Game::new(analysis.source.game.start().clone());
        let mut found = Vec::new();
        for (ply, &mv) in analysis.source.game.moves().iter().enumerate() {
            if analysis.judgment(ply) >= Some(Judgment::Mistake) && !self.control.is_stopped() {
                let outcome = two_lines
                    .search(&game, &limits, &self.control, &mut |_| {})
                    .map_err(|error| ApiError::new(format!("the evaluator failed: {error}")))?;
                let lines: Vec<(Score, Move)> = outcome
                    .lines
                    .iter()
                    .filter_map(|line| Some((line.score, *line.pv.first()?)))
                    .collect();
                if let [(best, only), (second, _)] = lines[..]
                    && win_percent(best) - win_percent(second) >= ONLY_MOVE_GAP
                    && only != mv
                {
                    found.push((ply, to_uci(game.position(), only)));
                }
            }
            game.play(mv);
        }
        Ok(found)
    }
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
    let mut game = game.ok_or_else(|| ApiError::new("the analysed game cannot be read"))?;
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
