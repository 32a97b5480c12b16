//! Worker threads. Each has a queue of its own; the parts of a batch are taken by counting up one atomic number, so that
//! whoever is faster does more and nobody waits for a lock. Scores come back once a worker and batch, and batches are put
//! together again in the order in which they were submitted.

use std::{
    collections::VecDeque,
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread::{Builder, JoinHandle},
};

use crossbeam_channel::{Receiver, Sender, unbounded};

use super::engine::{Part, Run, move_range};
use crate::{Answered, Batch, EvalError, Scores};

/// Most queries in a part: enough to read large dense weights seldom, few enough to share a batch out evenly.
const PART: usize = super::layout::CHUNK;

/// A batch whose parts wait to be taken.
#[derive(Clone)]
struct Task {
    sequence: u64,
    batch: Arc<Batch>,
    /// Queries in a part.
    size: usize,
    /// The next part.
    next: Arc<AtomicUsize>,
}

/// What one worker did for a batch. The worker has let go of the batch when it sends this.
struct Done {
    sequence: u64,
    parts: Result<Vec<Scored>, EvalError>,
}

/// A part's scores and where its queries and moves begin.
struct Scored {
    first_query: usize,
    first_move: usize,
    part: Part,
}

/// A batch that is not all back.
struct Pending {
    sequence: u64,
    batch: Arc<Batch>,
    scores: Scores,
    workers_left: usize,
    failure: Option<EvalError>,
}

/// Threads that evaluate, and the batches they have.
pub(crate) struct Workers {
    /// A queue for each thread; closing them ends the threads.
    queues: Vec<Sender<Task>>,
    done: Receiver<Done>,
    threads: Vec<JoinHandle<()>>,
    pending: VecDeque<Pending>,
    next: u64,
    /// Whose turn it is to be asked first.
    turn: usize,
}

/// Takes parts of a task until none is left.
fn work(engine: &mut dyn Run, task: &Task) -> Result<Vec<Scored>, EvalError> {
    let mut parts = Vec::new();
    loop {
        // Relaxed: the number is all that is shared; batches and scores travel through channels.
        let start = task.next.fetch_add(1, Ordering::Relaxed).saturating_mul(task.size);
        if start >= task.batch.len() {
            return Ok(parts);
        }
        let range: Range<usize> = start..(start + task.size).min(task.batch.len());
        let first_move = move_range(&task.batch, &range).start;
        let part = engine.run(&task.batch, range)?;
        parts.push(Scored { first_query: start, first_move, part });
    }
}

impl Workers {
    /// One thread an engine.
    pub fn start(engines: Vec<Box<dyn Run>>) -> Result<Self, EvalError> {
        let (outbox, done) = unbounded();
        let (mut queues, mut threads) = (Vec::new(), Vec::with_capacity(engines.len()));
        for (index, mut engine) in engines.into_iter().enumerate() {
            let (queue, inbox) = unbounded::<Task>();
            let outbox = outbox.clone();
            let thread = Builder::new()
                .name(format!("eval-{index}"))
                .spawn(move || {
                    for task in inbox {
                        let sequence = task.sequence;
                        // A panic must not leave the batch waiting for ever.
                        let parts = catch_unwind(AssertUnwindSafe(|| work(engine.as_mut(), &task)))
                            .unwrap_or_else(|_| Err(EvalError::Device("a worker panicked".to_owned())));
                        drop(task);
                        if outbox.send(Done { sequence, parts }).is_err() {
                            return;
                        }
                    }
                })
                .map_err(|error| EvalError::Device(format!("cannot start a thread: {error}")))?;
            queues.push(queue);
            threads.push(thread);
        }
        Ok(Self { queues, done, threads, pending: VecDeque::new(), next: 0, turn: 0 })
    }

    pub fn in_flight(&self) -> usize {
        self.pending.len()
    }

    /// Hands the batch to as many threads as it has parts.
    pub fn submit(&mut self, batch: Batch) -> Result<(), EvalError> {
        let (queries, threads) = (batch.len(), self.queues.len());
        let size = queries.div_ceil(threads).clamp(1, PART);
        let scores = Scores { values: vec![0.0; queries], moves: vec![0.0; batch.moves.len()] };
        let (batch, sequence) = (Arc::new(batch), self.next);
        self.next += 1;
        let workers = queries.div_ceil(size).min(threads);
        let task = Task { sequence, batch: Arc::clone(&batch), size, next: Arc::new(AtomicUsize::new(0)) };
        for offset in 0..workers {
            self.queues[(self.turn + offset) % threads].send(task.clone()).map_err(|_| gone())?;
        }
        self.turn = (self.turn + workers) % threads;
        self.pending.push_back(Pending { sequence, batch, scores, workers_left: workers, failure: None });
        Ok(())
    }

    /// The oldest batch.
    pub fn wait(&mut self) -> Result<Answered, EvalError> {
        while self.pending.front().ok_or(EvalError::NothingInFlight)?.workers_left > 0 {
            let done = self.done.recv().map_err(|_| gone())?;
            let Some(pending) = self.pending.iter_mut().find(|pending| pending.sequence == done.sequence)
            else {
                continue;
            };
            pending.workers_left -= 1;
            match done.parts {
                Ok(parts) => {
                    for Scored { first_query, first_move, part } in parts {
                        pending.scores.values[first_query..][..part.values.len()]
                            .copy_from_slice(&part.values);
                        pending.scores.moves[first_move..][..part.moves.len()].copy_from_slice(&part.moves);
                    }
                }
                Err(error) => pending.failure = Some(error),
            }
        }
        let pending = self.pending.pop_front().ok_or(EvalError::NothingInFlight)?;
        if let Some(error) = pending.failure {
            return Err(error);
        }
        // Every worker has let go of the batch before it said that it was done, so no copy is made.
        let batch = Arc::try_unwrap(pending.batch).unwrap_or_else(|shared| (*shared).clone());
        Ok(Answered { batch, scores: pending.scores })
    }
}

fn gone() -> EvalError {
    EvalError::Device("the worker threads ended".to_owned())
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.queues.clear();
        for thread in self.threads.drain(..) {
            // A worker that panicked has nothing more to say here.
            let _ = thread.join();
        }
    }
}
