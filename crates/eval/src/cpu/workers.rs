//! Worker threads that evaluate batches in parallel.
//!
//! The threads take batches from one queue, and parts of a batch by an atomic counter, so that a
//! faster thread takes more parts and no thread waits for a lock. The thread that waits for a batch
//! evaluates parts too, unless the search would then supply batches too slowly. Waking a thread
//! takes as long as evaluating a small network, so workers spin for a while before they sleep. A
//! worker returns all its scores of a batch in one message; batches are returned in the order in
//! which they were submitted.

use std::{
    collections::VecDeque,
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread::{Builder, JoinHandle},
    time::{Duration, Instant},
};

use crossbeam_channel::{Receiver, Sender, TryRecvError, unbounded};

use super::runner::{PartialScores, Run, move_range};
use crate::{Answered, Batch, EvalError, Scores};

/// The most queries of a part. Large parts read the weights of dense layers less often; small parts
/// divide a batch more evenly.
const PART: usize = super::layout::CHUNK;

/// A batch in the queue.
#[derive(Clone)]
struct Task {
    sequence: u64,
    batch: Arc<Batch>,
    /// Queries of a part.
    size: usize,
    /// Index of the first part that no thread has taken.
    next: Arc<AtomicUsize>,
}

impl Task {
    fn parts(&self) -> usize {
        self.batch.len().div_ceil(self.size)
    }
}

/// The parts of a batch that one worker evaluated. The worker drops its reference to the batch
/// before it sends this.
struct Done {
    sequence: u64,
    parts: Result<Vec<Scored>, EvalError>,
}

/// The scores of a part, with the indices of its first query and first move in the batch.
struct Scored {
    first_query: usize,
    first_move: usize,
    part: PartialScores,
}

/// A batch in flight.
struct Pending {
    task: Task,
    scores: Scores,
    parts_left: usize,
    failure: Option<EvalError>,
}

impl Pending {
    /// Is there a part that no thread has taken?
    fn has_parts(&self) -> bool {
        self.task.next.load(Ordering::Relaxed).saturating_mul(self.task.size)
            < self.task.batch.len()
    }

    /// Stores the parts that one thread evaluated.
    fn take(&mut self, parts: Result<Vec<Scored>, EvalError>) {
        match parts {
            Ok(parts) => {
                self.parts_left -= parts.len();
                for Scored { first_query, first_move, part } in parts {
                    self.scores.values[first_query..][..part.values.len()]
                        .copy_from_slice(&part.values);
                    self.scores.moves[first_move..][..part.moves.len()]
                        .copy_from_slice(&part.moves);
                }
            }
            Err(error) => self.failure = Some(error),
        }
    }
}

/// Moving averages of durations, in seconds a part. They decide whether the waiting thread evaluates
/// parts or returns to its search.
#[derive(Debug, Default)]
struct Pace {
    /// Time that the search spends between two calls of `wait`.
    search: f64,
    /// Time that the waiting thread spends on a part.
    evaluation: f64,
    /// When the last batch was returned, and its number of parts.
    returned: Option<(Instant, usize)>,
}

impl Pace {
    fn note(mean: &mut f64, taken: f64, parts: usize) {
        if parts > 0 {
            *mean += (taken / parts as f64 - *mean) / 16.0;
        }
    }

    /// Measures the time since the last batch was returned.
    fn resume(&mut self) {
        if let Some((returned, parts)) = self.returned.take() {
            // A search that finds many positions in its cache is sometimes away for long. The limit
            // keeps such a time from dominating the average.
            Self::note(&mut self.search, returned.elapsed().as_secs_f64().min(1e-3), parts);
        }
    }

    /// Does the search supply parts at least as fast as `others` threads evaluate them? Then the
    /// waiting thread has time for a part.
    fn has_time(&self, others: usize) -> bool {
        self.search * others as f64 <= self.evaluation
    }
}

/// The worker threads and the batches in flight.
pub(crate) struct Workers {
    /// The runner of the waiting thread, which finishes a small batch before a worker wakes up.
    own: Box<dyn Run>,
    /// The queue of the worker threads, which end when it is closed.
    queue: Option<Sender<Task>>,
    done: Receiver<Done>,
    threads: Vec<JoinHandle<()>>,
    pending: VecDeque<Pending>,
    next: u64,
    pace: Pace,
}

/// Evaluates up to `most` parts of a task, as long as parts are left. A panic becomes an error, so
/// that no thread waits for ever for the parts that were taken.
fn work(runner: &mut dyn Run, task: &Task, most: usize) -> Result<Vec<Scored>, EvalError> {
    catch_unwind(AssertUnwindSafe(|| work_through(runner, task, most)))
        .unwrap_or_else(|_| Err(EvalError::Device("a worker panicked".to_owned())))
}

fn work_through(runner: &mut dyn Run, task: &Task, most: usize) -> Result<Vec<Scored>, EvalError> {
    let mut parts = Vec::new();
    while parts.len() < most {
        // Relaxed suffices: the counter orders no other memory, and batches and scores are sent
        // through channels.
        let start = task.next.fetch_add(1, Ordering::Relaxed).saturating_mul(task.size);
        if start >= task.batch.len() {
            break;
        }
        let range: Range<usize> = start..(start + task.size).min(task.batch.len());
        let first_move = move_range(&task.batch, &range).start;
        let part = runner.run(&task.batch, range)?;
        parts.push(Scored { first_query: start, first_move, part });
    }
    Ok(parts)
}

/// How long a thread polls its channel before it sleeps. A search with a small network sends the
/// next batch within some ten microseconds, unless most positions are in its cache.
const AWAKE: Duration = Duration::from_micros(200);

/// Receives the next message; `None` when the channel is closed. While it polls, the thread yields
/// to other threads.
fn receive<T>(inbox: &Receiver<T>) -> Option<T> {
    let until = Instant::now() + AWAKE;
    loop {
        for _ in 0..32 {
            match inbox.try_recv() {
                Ok(message) => return Some(message),
                Err(TryRecvError::Disconnected) => return None,
                Err(TryRecvError::Empty) => std::hint::spin_loop(),
            }
        }
        if Instant::now() >= until {
            return inbox.recv().ok();
        }
        std::thread::yield_now();
    }
}

impl Workers {
    /// Starts one thread for each of `runners`; `own` is for the thread that calls `wait`.
    pub fn start(own: Box<dyn Run>, runners: Vec<Box<dyn Run>>) -> Result<Self, EvalError> {
        let (outbox, done) = unbounded();
        let (queue, inbox) = unbounded::<Task>();
        let mut threads = Vec::with_capacity(runners.len());
        for (index, mut runner) in runners.into_iter().enumerate() {
            let (inbox, outbox) = (inbox.clone(), outbox.clone());
            let thread = Builder::new()
                .name(format!("eval-{index}"))
                .spawn(move || {
                    while let Some(task) = receive(&inbox) {
                        let sequence = task.sequence;
                        let parts = work(runner.as_mut(), &task, usize::MAX);
                        drop(task);
                        if parts.as_ref().is_ok_and(Vec::is_empty) {
                            continue; // Other threads took all parts.
                        }
                        if outbox.send(Done { sequence, parts }).is_err() {
                            return;
                        }
                    }
                })
                .map_err(|error| EvalError::Device(format!("cannot start a thread: {error}")))?;
            threads.push(thread);
        }
        let (pending, pace) = (VecDeque::new(), Pace::default());
        Ok(Self { own, queue: Some(queue), done, threads, pending, next: 0, pace })
    }

    pub fn in_flight(&self) -> usize {
        self.pending.len()
    }

    /// Queues the batch for as many threads as it has parts. The oldest batch in flight is queued
    /// for one thread less, because the waiting thread evaluates a part of it.
    pub fn submit(&mut self, batch: Batch) -> Result<(), EvalError> {
        let (queries, threads) = (batch.len(), self.threads.len());
        let size = queries.div_ceil(threads + 1).clamp(1, PART);
        let scores = Scores { values: vec![0.0; queries], moves: vec![0.0; batch.moves.len()] };
        let next = Arc::new(AtomicUsize::new(0));
        let task = Task { sequence: self.next, batch: Arc::new(batch), size, next };
        let parts_left = task.parts();
        self.next += 1;
        let own = usize::from(self.pending.is_empty());
        let queue = self.queue.as_ref().ok_or_else(gone)?;
        for _ in 0..parts_left.saturating_sub(own).min(threads) {
            queue.send(task.clone()).map_err(|_| gone())?;
        }
        self.pending.push_back(Pending { task, scores, parts_left, failure: None });
        Ok(())
    }

    /// Waits for the oldest batch. Meanwhile the calling thread evaluates the parts of it that no
    /// worker has taken, then parts of the newest batch, which workers reach last.
    pub fn wait(&mut self) -> Result<Answered, EvalError> {
        self.pace.resume();
        loop {
            let oldest = self.pending.front_mut().ok_or(EvalError::NothingInFlight)?;
            if oldest.parts_left == 0 || oldest.failure.is_some() {
                break;
            }
            if oldest.has_parts() {
                self.help(0, usize::MAX);
                continue;
            }
            let done = match self.done.try_recv() {
                Ok(done) => done,
                Err(_) if self.help_last() => continue,
                Err(_) => receive(&self.done).ok_or_else(gone)?,
            };
            // A batch that failed is no longer pending; its other parts are dropped.
            if let Some(pending) =
                self.pending.iter_mut().find(|other| other.task.sequence == done.sequence)
            {
                pending.take(done.parts);
            }
        }
        let pending = self.pending.pop_front().ok_or(EvalError::NothingInFlight)?;
        self.pace.returned = Some((Instant::now(), pending.task.parts()));
        if let Some(error) = pending.failure {
            return Err(error);
        }
        // A worker that found no part left, or the queue, may still hold the batch. Then it is
        // copied.
        let batch = Arc::try_unwrap(pending.task.batch).unwrap_or_else(|shared| (*shared).clone());
        Ok(Answered { batch, scores: pending.scores })
    }

    /// Evaluates a part of the newest batch that has one left, if there is time for it.
    fn help_last(&mut self) -> bool {
        if !self.pace.has_time(self.threads.len()) {
            return false;
        }
        let last = self.pending.iter().rposition(Pending::has_parts);
        last.inspect(|&last| self.help(last, 1)).is_some()
    }

    /// Evaluates up to `most` parts of the batch `index`.
    fn help(&mut self, index: usize, most: usize) {
        let Some(pending) = self.pending.get_mut(index) else { return };
        let started = Instant::now();
        let parts = work(self.own.as_mut(), &pending.task, most);
        let count = parts.as_ref().map_or(0, Vec::len);
        Pace::note(&mut self.pace.evaluation, started.elapsed().as_secs_f64(), count);
        pending.take(parts);
    }
}

fn gone() -> EvalError {
    EvalError::Device("the worker threads ended".to_owned())
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.queue = None;
        for thread in self.threads.drain(..) {
            // The panic of a worker has already been reported as an error.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use board::Position;
    use nets::HeadKind;

    use super::*;

    /// A runner for tests, by the result of a part.
    #[derive(Clone, Copy)]
    enum Fake {
        Scores,
        Fails,
        Panics,
        IsLate,
    }

    impl Run for Fake {
        fn run(&mut self, _: &Batch, range: Range<usize>) -> Result<PartialScores, EvalError> {
            match self {
                Self::Scores => {}
                Self::Fails => return Err(EvalError::Device("broken".to_owned())),
                Self::Panics => panic!("a panic of the test"),
                Self::IsLate => std::thread::sleep(Duration::from_millis(20)),
            }
            Ok(PartialScores {
                values: range.map(|query| query as f32).collect(),
                moves: Vec::new(),
            })
        }

        fn logits(&mut self, _: &Batch, _: HeadKind) -> Result<Vec<f32>, EvalError> {
            Ok(Vec::new())
        }
    }

    fn batch(queries: usize) -> Batch {
        let mut batch = Batch::default();
        (0..queries).for_each(|_| batch.push(&Position::default(), true, &[]));
        batch
    }

    fn workers(own: Fake, others: &[Fake]) -> Workers {
        let others = others.iter().map(|&other| -> Box<dyn Run> { Box::new(other) });
        Workers::start(Box::new(own), others.collect()).unwrap()
    }

    /// The values of batches of these sizes that are in flight together; `None` for a failed one.
    fn answers(workers: &mut Workers, sizes: &[usize]) -> Vec<Option<Vec<f32>>> {
        sizes.iter().for_each(|&size| workers.submit(batch(size)).unwrap());
        let answers =
            sizes.iter().map(|_| workers.wait().ok().map(|answered| answered.scores.values));
        let answers = answers.collect();
        assert!(matches!(workers.wait(), Err(EvalError::NothingInFlight)));
        answers
    }

    #[test]
    fn every_part_is_evaluated_once_by_threads_of_any_speed() {
        let sizes = [1, 0, 2, 300, 3];
        let expected: Vec<_> = sizes
            .map(|size| Some((0..size).map(|query| query as f32).collect::<Vec<f32>>()))
            .to_vec();
        for (own, other) in [
            (Fake::Scores, Fake::Scores),
            (Fake::IsLate, Fake::Scores),
            (Fake::Scores, Fake::IsLate),
        ] {
            assert_eq!(answers(&mut workers(own, &[other; 2]), &sizes), expected);
        }
    }

    /// The search takes 6 microseconds a position, the network 16. With one or two worker threads
    /// the waiting thread has time to evaluate; three workers are faster than the search.
    #[test]
    fn the_waiting_thread_evaluates_only_when_it_has_time() {
        let mut pace = Pace::default();
        for _ in 0..100 {
            Pace::note(&mut pace.search, 6e-6, 1);
            Pace::note(&mut pace.evaluation, 32e-6, 2);
        }
        assert_eq!([1, 2, 3].map(|others| pace.has_time(others)), [true, true, false]);
        // The worker is busy with the second batch for long, so the third is left.
        let mut workers = workers(Fake::Scores, &[Fake::IsLate]);
        (0..3).for_each(|_| workers.submit(batch(1)).unwrap());
        workers.pace.search = 1.0;
        assert!(!workers.help_last());
        workers.pace.search = 0.0;
        assert!(workers.help_last());
    }

    #[test]
    fn a_failed_part_fails_its_batch_only() {
        for broken in [Fake::Fails, Fake::Panics] {
            // The runner of the waiting thread fails. It evaluates the first batch alone.
            let mut workers = workers(broken, &[Fake::IsLate]);
            let found = answers(&mut workers, &[1, 1, 1]);
            assert!(
                found[0].is_none() && found.iter().flatten().all(|found| *found == [0.0]),
                "{found:?}"
            );
            // The runner of the worker fails. A batch of which it took a part fails; the others are
            // complete.
            let mut workers = super::tests::workers(Fake::IsLate, &[broken]);
            for found in answers(&mut workers, &[2, 1, 2]).into_iter().flatten() {
                assert!(found == [0.0] || found == [0.0, 1.0], "{found:?}");
            }
        }
    }
}
