//! Several threads of one search.
//!
//! Each thread searches the root by itself, with an evaluator, a queue and nodes of its own, and all
//! share the cache (Hyatt 1997; in Stockfish "lazy SMP"). The first thread decides: it reports lines
//! and chooses the move. The others work at depths that it will come to, so that it finds their
//! evaluations and bounds in the cache. Which thread finds what first is chance, so searches with
//! several threads do not repeat themselves.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI16, AtomicI32, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use board::{Game, Move};
use eval::{EvalError, Evaluator};
use nets::Calibration;

use super::pass::{Context, PassRules, Root, Searcher};
use crate::{
    Control, Limits, cache::SearchCache, score::Value, selectivity::PLY, time::TimeManager,
};

/// What the first thread is at, for the others.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// In parts of a ply.
    depth: AtomicI16,
    /// The value that it found at the depth before, in centipawns.
    value: AtomicI32,
}

impl Progress {
    /// The first thread begins a depth; `value` is what it found at the one before.
    pub(super) fn begin(&self, depth: i16, value: Option<Value>) {
        self.depth.store(depth, Relaxed);
        if let Some(value) = value {
            self.value.store(value, Relaxed);
        }
    }
}

/// A thread that helps the first one.
struct Helper {
    searcher: Searcher,
    evaluator: Box<dyn Evaluator>,
    /// So many steps of iterative deepening it works ahead of the first thread.
    ahead: i16,
}

/// What several threads search with.
#[derive(Default)]
pub(super) struct Crew {
    /// The evaluator of the first thread.
    pub(super) evaluator: Option<Box<dyn Evaluator>>,
    helpers: Vec<Helper>,
}

/// The task of the helpers in one search.
pub(super) struct HelpersTask<'a> {
    pub game: &'a Game,
    /// The moves to consider, with their index in generation order.
    pub moves: &'a [(Move, u8)],
    pub rules: &'a PassRules,
    pub cache: &'a SearchCache,
    pub progress: &'a Progress,
    /// Counts the evaluations of all threads.
    pub evaluations: &'a Arc<AtomicU64>,
    /// [`KBest::tolerance`](super::KBest).
    pub tolerance: Value,
    /// In parts of a ply.
    pub last_depth: i16,
}

impl Crew {
    /// One thread for each evaluator; `bytes` limit the memory of all threads' nodes.
    pub(super) fn new(
        evaluators: Vec<Box<dyn Evaluator>>,
        calibration: &Calibration,
        bytes: usize,
    ) -> Self {
        let bytes = bytes / evaluators.len().max(1);
        let mut evaluators = evaluators.into_iter();
        let evaluator = evaluators.next();
        // Half of the helpers work at the next depth, a quarter at the one after it, and so on.
        let helper = |(number, evaluator): (u32, _)| Helper {
            searcher: Searcher { has_company: true, ..Searcher::new(calibration, bytes) },
            evaluator,
            ahead: 1 + number.trailing_zeros() as i16,
        };
        Self { evaluator, helpers: (1..).zip(evaluators).map(helper).collect() }
    }

    /// Number of threads, the first one included.
    pub(super) fn threads(&self) -> usize {
        1 + self.helpers.len()
    }

    /// Limits the memory of each helper's nodes to so many bytes.
    pub(super) fn limit_memory(&mut self, bytes: usize) {
        for helper in &mut self.helpers {
            helper.searcher.limit_memory(bytes);
        }
    }

    /// Forgets what the helpers learned in a game.
    pub(super) fn clear(&mut self) {
        for helper in &mut self.helpers {
            helper.searcher.forget();
        }
    }

    /// Does what the first thread has to do while the others help it.
    ///
    /// # Errors
    /// An evaluator of a helper failed.
    pub(super) fn help<T>(
        &mut self,
        task: &HelpersTask<'_>,
        first: impl FnOnce() -> T,
    ) -> Result<T, EvalError> {
        let control = Control::default();
        thread::scope(|scope| {
            let control = &control;
            let helpers: Vec<_> = (self.helpers.iter_mut())
                .map(|helper| scope.spawn(move || helper.run(task, control)))
                .collect();
            let done = first();
            control.stop();
            for helper in helpers {
                match helper.join() {
                    Ok(result) => result?,
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            Ok(done)
        })
    }
}

impl Helper {
    /// Searches one depth after the other, never behind the first thread, until it is stopped.
    fn run(&mut self, task: &HelpersTask<'_>, control: &Control) -> Result<(), EvalError> {
        let endless = Limits { infinite: true, ..Limits::default() };
        let mut timer = TimeManager::new(&endless, Duration::ZERO, control);
        timer.count_together(task.evaluations);
        self.searcher.rules.clone_from(task.rules);
        self.searcher.reset_statistics();
        let (position, moves) = (task.game.position(), task.moves);
        let has_all_moves = moves.len() == position.legal_moves().len();
        let step = task.rules.selectivity.deepening;
        let width = self.evaluator.preferred_stream().batch;
        let mut last = 0;
        while !timer.is_over() && !moves.is_empty() {
            let ahead = task.progress.depth.load(Relaxed).max(PLY) + self.ahead * step;
            let depth = ahead.max(last + step).min(task.last_depth);
            if depth <= last {
                break;
            }
            let root = Root {
                position,
                moves,
                has_all_moves,
                history: task.game.keys(),
                depth,
                last_depth: task.last_depth,
            };
            let guess = task.progress.value.load(Relaxed);
            let (cache, evaluator) = (task.cache, &mut self.evaluator);
            let mut context = Context { cache, evaluator, timer: &mut timer };
            self.searcher.resolve(&root, (1, guess), task.tolerance, width, &mut context)?;
            last = depth;
        }
        Ok(())
    }
}
