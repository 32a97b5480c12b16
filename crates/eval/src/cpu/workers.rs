//! Worker threads: parts of batches go out through one channel, scores come back through another, and batches are
//! put together again in the order in which they were submitted.

use std::{
    collections::VecDeque,
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread::{Builder, JoinHandle},
};

use crossbeam_channel::{Receiver, Sender, unbounded};

use super::engine::{Part, Run, move_range};
use crate::{Answered, Batch, EvalError, Scores};

/// Queries in a part: enough to forget the hand-over, few enough to share a batch out evenly.
const PART: usize = 32;

/// A part of a batch to evaluate.
struct Task {
    sequence: u64,
    batch: Arc<Batch>,
    range: Range<usize>,
}

/// A part's scores. The worker has let go of the batch when it sends this.
struct Done {
    sequence: u64,
    /// Where the part's queries and moves begin.
    first_query: usize,
    first_move: usize,
    result: Result<Part, EvalError>,
}

/// A batch whose parts are not all back.
struct Pending {
    sequence: u64,
    batch: Arc<Batch>,
    scores: Scores,
    parts_left: usize,
    failure: Option<EvalError>,
}

/// Threads that evaluate, and the batches they have.
pub(crate) struct Workers {
    /// `None` only while dropping: closing the channel ends the threads.
    tasks: Option<Sender<Task>>,
    done: Receiver<Done>,
    threads: Vec<JoinHandle<()>>,
    pending: VecDeque<Pending>,
    next: u64,
}

impl Workers {
    /// One thread an engine.
    pub fn start(engines: Vec<Box<dyn Run>>) -> Result<Self, EvalError> {
        let (tasks, inbox) = unbounded::<Task>();
        let (outbox, done) = unbounded();
        let mut threads = Vec::with_capacity(engines.len());
        for (index, mut engine) in engines.into_iter().enumerate() {
            let (inbox, outbox) = (inbox.clone(), outbox.clone());
            let thread = Builder::new()
                .name(format!("eval-{index}"))
                .spawn(move || {
                    for Task { sequence, batch, range } in inbox {
                        let first_query = range.start;
                        let first_move = move_range(&batch, &range).start;
                        // A panic must not leave the batch waiting for ever.
                        let result = catch_unwind(AssertUnwindSafe(|| engine.run(&batch, range)))
                            .unwrap_or_else(|_| Err(EvalError::Device("a worker panicked".to_owned())));
                        drop(batch);
                        if outbox.send(Done { sequence, first_query, first_move, result }).is_err() {
                            return;
                        }
                    }
                })
                .map_err(|error| EvalError::Device(format!("cannot start a thread: {error}")))?;
            threads.push(thread);
        }
        Ok(Self { tasks: Some(tasks), done, threads, pending: VecDeque::new(), next: 0 })
    }

    pub fn in_flight(&self) -> usize {
        self.pending.len()
    }

    /// Hands the batch out in parts, at least one a thread if there are that many queries.
    pub fn submit(&mut self, batch: Batch) -> Result<(), EvalError> {
        let queries = batch.len();
        let size = queries.div_ceil(self.threads.len()).clamp(1, PART);
        let scores = Scores { values: vec![0.0; queries], moves: vec![0.0; batch.moves.len()] };
        let (batch, sequence) = (Arc::new(batch), self.next);
        self.next += 1;
        let gone = || EvalError::Device("the worker threads ended".to_owned());
        let tasks = self.tasks.as_ref().ok_or_else(gone)?;
        for start in (0..queries).step_by(size) {
            let range = start..(start + size).min(queries);
            tasks.send(Task { sequence, batch: Arc::clone(&batch), range }).map_err(|_| gone())?;
        }
        let parts_left = queries.div_ceil(size);
        self.pending.push_back(Pending { sequence, batch, scores, parts_left, failure: None });
        Ok(())
    }

    /// The oldest batch.
    pub fn wait(&mut self) -> Result<Answered, EvalError> {
        while self.pending.front().ok_or(EvalError::NothingInFlight)?.parts_left > 0 {
            let gone = |_| EvalError::Device("the worker threads ended".to_owned());
            let done = self.done.recv().map_err(gone)?;
            let Some(pending) = self.pending.iter_mut().find(|pending| pending.sequence == done.sequence)
            else {
                continue;
            };
            pending.parts_left -= 1;
            match done.result {
                Ok(part) => {
                    pending.scores.values[done.first_query..][..part.values.len()]
                        .copy_from_slice(&part.values);
                    pending.scores.moves[done.first_move..][..part.moves.len()].copy_from_slice(&part.moves);
                }
                Err(error) => pending.failure = Some(error),
            }
        }
        let pending = self.pending.pop_front().ok_or(EvalError::NothingInFlight)?;
        if let Some(error) = pending.failure {
            return Err(error);
        }
        // Every worker has let go of the batch before its last part came back, so no copy is made.
        let batch = Arc::try_unwrap(pending.batch).unwrap_or_else(|shared| (*shared).clone());
        Ok(Answered { batch, scores: pending.scores })
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.tasks = None;
        for thread in self.threads.drain(..) {
            // A worker that panicked has nothing more to say here.
            let _ = thread.join();
        }
    }
}
