//! The search thread: builds the search when it is first needed or its network changes, and answers
//! every `go` with exactly one `bestmove`.

use std::{
    collections::hash_map::RandomState,
    hash::{BuildHasher, Hasher},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use board::{Game, Move, Tablebases, stoppable_perft};
use crossbeam_channel::Receiver;
use engine::{Engine, EngineOptions, NamedOptions};
use eval::Devices;
use nets::Wdl;
use search::{Control, Limits, Outcome, SearchInfo, Settings};

use super::{EngineFactory, Pause, output::Output};
use crate::response::{ScoreText, best_move_line, info_line};

/// Time between two checks for `stop` and `ponderhit` of a finished search that must not answer yet.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

pub(super) struct SearchJob {
    pub(super) game: Game,
    pub(super) limits: Limits,
    pub(super) options: NamedOptions,
    pub(super) control: Control,
    /// Set when the answer is written.
    pub(super) done: Arc<AtomicBool>,
    pub(super) received: Instant,
}

pub(super) enum WorkerJob {
    /// Make the search ready; `answer` with `readyok`.
    Prepare {
        options: EngineOptions,
        answer: bool,
    },
    Search(SearchJob),
    Perft {
        job: SearchJob,
        depth: u32,
    },
    /// Show what the network says of the position.
    Evaluate {
        game: Game,
        options: NamedOptions,
    },
    Bench,
    Clear,
}

struct ReadyEngine {
    engine: Engine,
    /// The options that it was built for, with the settings that it has now.
    options: EngineOptions,
}

impl ReadyEngine {
    fn adopt(&mut self, settings: &Settings) {
        if self.options.settings != *settings {
            self.engine.search.configure(settings);
            self.options.settings.clone_from(settings);
        }
    }
}

pub(super) struct Worker {
    factory: EngineFactory,
    ready: Option<ReadyEngine>,
    /// Options that could not be used; they are not tried again until they change.
    refused: Option<EngineOptions>,
    output: Output,
    queue: Receiver<WorkerJob>,
    pause: Pause,
}

impl Worker {
    pub(super) fn new(
        factory: EngineFactory,
        output: Output,
        queue: Receiver<WorkerJob>,
        pause: Pause,
    ) -> Self {
        Self { factory, ready: None, refused: None, output, queue, pause }
    }

    /// Works until the session closes the queue.
    pub(super) fn run(mut self) {
        while let Ok(job) = self.queue.recv() {
            match job {
                WorkerJob::Prepare { options, answer } => {
                    self.prepare(&options);
                    if answer {
                        self.output.line("readyok");
                    }
                }
                WorkerJob::Search(job) => self.search(&job),
                WorkerJob::Perft { job, depth } => {
                    self.perft(&job, depth);
                    job.done.store(true, Ordering::Release);
                }
                WorkerJob::Evaluate { game, options } => self.evaluate(&game, &options),
                WorkerJob::Bench => match engine::bench() {
                    Ok(result) => self.output.line(&result.to_string()),
                    Err(error) => self.output.note(format!("error: {error}")),
                },
                WorkerJob::Clear => {
                    if let Some(ready) = &mut self.ready {
                        ready.engine.search.clear();
                    }
                }
            }
        }
    }

    /// Makes the engine fit the options. A network, device or format that cannot be used is reported
    /// once and [`Worker::fall_back`] takes its place; all other options are followed.
    fn prepare(&mut self, options: &EngineOptions) {
        if self.ready.as_ref().is_some_and(|ready| same_build(&ready.options, options)) {
            self.refused = None;
        } else if !self.refused.as_ref().is_some_and(|refused| same_build(refused, options)) {
            match self.build(options) {
                Ok(()) => self.refused = None,
                Err(reason) => {
                    self.output.note(format!("error: {reason}"));
                    self.refused = Some(options.clone());
                    self.fall_back(options);
                }
            }
        } else if self.ready.is_none() {
            // The fallback failed in a search.
            self.fall_back(options);
        }
        if let Some(ready) = &mut self.ready {
            ready.adopt(&options.settings);
        }
    }

    /// An engine in place of these options: first without the given device, code path and format,
    /// which this machine may lack; else the engine as it is; else the embedded network.
    fn fall_back(&mut self, options: &EngineOptions) {
        let plain = EngineOptions {
            devices: Devices::default(),
            path: None,
            precision: None,
            ..options.clone()
        };
        let has_plain = self.ready.as_ref().is_some_and(|ready| same_build(&ready.options, &plain));
        if !same_build(&plain, options) && !has_plain && self.build(&plain).is_ok() {
            self.output
                .note("the engine goes on with the device, code path and format of its own choice");
        } else if self.ready.is_some() {
            self.output.note("the engine goes on as it was");
        } else if options.network.is_some() || options.system.is_some() {
            self.output.note("the engine goes on with its embedded network");
            let embedded = EngineOptions { network: None, system: None, ..plain };
            if let Err(reason) = self.build(&embedded) {
                self.output.note(format!("error: {reason}"));
            }
        }
    }

    fn build(&mut self, options: &EngineOptions) -> Result<(), String> {
        if let Some(ready) = &mut self.ready {
            // The old and the new search exist together for a moment and must not exceed the memory
            // limit.
            ready
                .engine
                .search
                .configure(&Settings { hash_mib: 1, ..ready.options.settings.clone() });
        }
        let engine = self.make(options);
        if let (Err(_), Some(ready)) = (&engine, &mut self.ready) {
            ready.engine.search.configure(&ready.options.settings);
        }
        let engine = engine?;
        self.output.note(&engine.description);
        self.ready = Some(ReadyEngine { engine, options: options.clone() });
        Ok(())
    }

    fn make(&mut self, options: &EngineOptions) -> Result<Engine, String> {
        catch_unwind(AssertUnwindSafe(|| (self.factory)(options)))
            .unwrap_or_else(|_| Err("the search could not be set up".to_owned()))
    }

    fn search(&mut self, job: &SearchJob) {
        let position = job.game.position();
        let legal = position.legal_moves();
        if legal.is_empty() {
            let score = if position.is_check() { "mate 0" } else { "cp 0" };
            self.output.line(&format!("info depth 0 score {score}"));
            self.wait_for_permission(job);
            job.done.store(true, Ordering::Release);
            self.output.line(&best_move_line(position, None, None));
            return;
        }
        if let Some(mv) = self.book_move(job) {
            job.done.store(true, Ordering::Release);
            self.output.line(&best_move_line(position, Some(mv), None));
            return;
        }
        self.prepare(&job.options.engine);
        let outcome = self.think(job);
        self.show_chances(&job.game, &job.options.engine.settings);
        self.wait_for_permission(job);
        let best = outcome.best.filter(|best| legal.contains(best));
        let best = best.or_else(|| legal.iter().copied().find(|&mv| job.limits.allows(mv)));
        let ponder = outcome.ponder.filter(|_| best == outcome.best);
        // `done` is set first: the next command may arrive as soon as `bestmove` is written.
        job.done.store(true, Ordering::Release);
        self.output.line(&best_move_line(position, best, ponder));
    }

    /// The move of the opening book, if a move is to be played; chosen by a new random number for
    /// every move.
    fn book_move(&self, job: &SearchJob) -> Option<Move> {
        let plays = job.limits.is_move_to_play() && !job.limits.ponder;
        let book = job.options.book.as_ref().filter(|_| job.options.own_book && plays)?;
        let dice = RandomState::new().build_hasher().finish();
        match book.choose(job.game.position(), dice) {
            Ok(mv) => {
                if mv.is_some() {
                    self.output.note("book");
                }
                mv
            }
            Err(error) => {
                self.output.note(error);
                None
            }
        }
    }

    /// Shows the likeliest moves, as many as lines are wanted, of a search that has chances.
    fn show_chances(&mut self, game: &Game, settings: &Settings) {
        let Some(ready) = &mut self.ready else { return };
        let Some(Ok(chances)) = ready.engine.search.chances(game) else { return };
        for (mv, chance) in chances.iter().take(settings.multipv) {
            let mv = board::to_uci(game.position(), *mv);
            self.output.note(format!("{mv} {:.1} %", 100.0 * chance));
        }
    }

    /// Shows what the network says of the position itself: its value, and the chances of moves where
    /// there is no search. The search and its memory have no part in it.
    fn evaluate(&mut self, game: &Game, options: &NamedOptions) {
        if !game.position().has_legal_moves() {
            return self.output.note("the game is over: there is nothing to evaluate");
        }
        self.prepare(&options.engine);
        self.show_chances(game, &options.engine.settings);
        let Some(ready) = &self.ready else {
            return self.output.note("error: there is no network to evaluate with");
        };
        let evaluated = catch_unwind(AssertUnwindSafe(|| engine::evaluate(&ready.options, game)));
        self.output.note(match evaluated {
            Ok(Ok(Some((score, Wdl { win, draw, loss })))) => {
                let score = ScoreText(score);
                format!("eval {score} wdl {win} {draw} {loss}, for the side to move")
            }
            Ok(Ok(None)) => "the network has no value of the position".to_owned(),
            Ok(Err(error)) => format!("error: {error}"),
            Err(_) => "error: the evaluation failed".to_owned(),
        });
    }

    /// Runs the search; an error or panic in it is reported and gives an empty outcome.
    fn think(&mut self, job: &SearchJob) -> Outcome {
        let Some(ready) = &mut self.ready else {
            self.output
                .note("error: there is no network to search with; the move is the first legal one");
            return Outcome::default();
        };
        // Loading a network, or the end of an earlier search, may have taken time.
        let limits = job.limits.less(job.received.elapsed());
        let output = &self.output;
        let show_wdl = job.options.show_wdl;
        let position = job.game.position();
        let tables = job.options.engine.settings.tables.as_deref();
        let hits_before = tables.map_or(0, Tablebases::hits);
        let line = |info: &SearchInfo| {
            let hits = tables.map(|tables| tables.hits() - hits_before);
            output.line(&info_line(position, info, show_wdl, hits));
        };
        // First move of the line last shown at each rank.
        let mut shown: Vec<Option<Move>> = Vec::new();
        let searched = catch_unwind(AssertUnwindSafe(|| {
            ready.engine.search.search(&job.game, &limits, &job.control, &mut |info| {
                let rank = info.multipv.saturating_sub(1);
                shown.resize(shown.len().max(rank + 1), None);
                shown[rank] = info.pv.first().copied();
                line(info);
            })
        }));
        let reason = match searched {
            Ok(Ok(outcome)) => {
                // An interrupted depth may have reported a new first line above old ones: all lines
                // are reported again, in order.
                let agrees = outcome
                    .lines
                    .iter()
                    .map(|line| line.pv.first())
                    .eq(shown.iter().map(Option::as_ref));
                if !agrees {
                    outcome.lines.iter().for_each(line);
                }
                return outcome;
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => "the search failed".to_owned(),
        };
        output.note(format!("error: {reason}; the move is the first legal one"));
        // The state of the search is unknown: the next search builds a new one.
        self.ready = None;
        Outcome::default()
    }

    /// Holds the answer back until `stop` (`go infinite`), or `stop` or `ponderhit` (`go ponder`).
    fn wait_for_permission(&mut self, job: &SearchJob) {
        let (limits, output) = (&job.limits, self.output.clone());
        let may_answer = || {
            job.control.is_stopped()
                || output.is_closed()
                || !(limits.infinite || limits.ponder && !job.control.is_ponder_hit())
        };
        while !may_answer() {
            (self.pause)(POLL_INTERVAL);
        }
    }

    fn perft(&self, job: &SearchJob, depth: u32) {
        let position = job.game.position();
        let is_stopped = || job.control.is_stopped();
        let started = Instant::now();
        let mut sum = 0_u64;
        if depth == 0 {
            sum = 1;
        } else {
            for &mv in &position.legal_moves() {
                let next = position.after(mv);
                let Some(count) = stoppable_perft(&next, depth - 1, &is_stopped) else {
                    self.output.note("perft was stopped");
                    return;
                };
                sum = sum.saturating_add(count);
                self.output.line(&format!("{}: {count}", board::to_uci(position, mv)));
            }
        }
        self.output.line(&format!("Nodes searched: {sum}"));
        self.output.note(format!("perft took {} ms", started.elapsed().as_millis()));
    }
}

/// Can a search built for `a` be configured for `b`?
fn same_build(a: &EngineOptions, b: &EngineOptions) -> bool {
    (&a.network, a.system, &a.devices, a.threads, a.algorithm, a.path, a.precision)
        == (&b.network, b.system, &b.devices, b.threads, b.algorithm, b.path, b.precision)
}
