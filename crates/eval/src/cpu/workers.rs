//! Worker threads. They take batches from one queue, and parts of a batch by counting up one atomic
//! number, so that a faster thread does more and no thread waits for a lock. The thread that waits
//! for a batch takes parts too, unless a search needs it more. Waking a thread takes as long as
//! evaluating a small network, so workers stay awake between two batches of a search. Scores come
//! back once a worker and batch; batches are assembled in the order in which they were submitted.

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

use super::engine::{PartialScores, Run, move_range};
use crate::{Answered, Batch, EvalError, Scores};

/// Most queries in a part: enough to read large dense weights seldom, few enough to share a batch
/// out evenly.
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

impl Task {
    fn parts(&self) -> usize {
        self.batch.len().div_ceil(self.size)
    }
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
    part: PartialScores,
}

/// A batch that is not all back.
struct Pending {
    task: Task,
    scores: Scores,
    parts_left: usize,
    failure: Option<EvalError>,
}

impl Pending {
    /// Is there a part that no thread has begun?
    fn has_parts(&self) -> bool {
        self.task.next.load(Ordering::Relaxed).saturating_mul(self.task.size)
            < self.task.batch.len()
    }

    /// Takes over the parts that one thread has evaluated.
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

/// Durations in seconds a part, the latest weighted most. They decide whether the waiting thread
/// evaluates parts or returns to its search.
#[derive(Debug, Default)]
struct Pace {
    /// Between two batches.
    elsewhere: f64,
    /// In the waiting thread's engine.
    here: f64,
    /// When the last batch was handed back, and its parts.
    back: Option<(Instant, usize)>,
}

impl Pace {
    fn note(mean: &mut f64, taken: f64, parts: usize) {
        if parts > 0 {
            *mean += (taken / parts as f64 - *mean) / 16.0;
        }
    }

    /// The waiting thread is back.
    fn resume(&mut self) {
        if let Some((back, parts)) = self.back.take() {
            // A search that walks through what it knows is away for long, but not each time.
            Self::note(&mut self.elsewhere, back.elapsed().as_secs_f64().min(1e-3), parts);
        }
    }

    /// So many others evaluate no faster than batches come: there is time for a part.
    fn has_time(&self, others: usize) -> bool {
        self.elsewhere * others as f64 <= self.here
    }
}

/// Threads that evaluate, and the batches they have.
pub(crate) struct Workers {
    /// The waiting thread's own: a small batch is done before the others have woken up.
    own: Box<dyn Run>,
    /// What the other threads take; closing it ends them.
    queue: Option<Sender<Task>>,
    done: Receiver<Done>,
    threads: Vec<JoinHandle<()>>,
    pending: VecDeque<Pending>,
    next: u64,
    pace: Pace,
}

/// Evaluates at most `most` parts of a task, until none is left. A panic becomes an error, so that
/// no thread waits for ever for the parts that were taken.
fn work(engine: &mut dyn Run, task: &Task, most: usize) -> Result<Vec<Scored>, EvalError> {
    catch_unwind(AssertUnwindSafe(|| work_through(engine, task, most)))
        .unwrap_or_else(|_| Err(EvalError::Device("a worker panicked".to_owned())))
}

fn work_through(engine: &mut dyn Run, task: &Task, most: usize) -> Result<Vec<Scored>, EvalError> {
    let mut parts = Vec::new();
    while parts.len() < most {
        // Relaxed: the number is all that is shared; batches and scores travel through channels.
        let start = task.next.fetch_add(1, Ordering::Relaxed).saturating_mul(task.size);
        if start >= task.batch.len() {
            break;
        }
        let range: Range<usize> = start..(start + task.size).min(task.batch.len());
        let first_move = move_range(&task.batch, &range).start;
        let part = engine.run(&task.batch, range)?;
        parts.push(Scored { first_query: start, first_move, part });
    }
    Ok(parts)
}

/// How long a thread looks for what comes next before it sleeps. A search with a small network asks
/// again within some ten microseconds, and only where much is in memory later than this.
const AWAKE: Duration = Duration::from_micros(200);

/// What comes next; `None` once nothing can come any more. A thread that stays awake gives way to
/// others that could run.
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
    /// The first engine is for the thread that waits; one thread more for each of the others.
    pub fn start(own: Box<dyn Run>, engines: Vec<Box<dyn Run>>) -> Result<Self, EvalError> {
        let (outbox, done) = unbounded();
        let (queue, inbox) = unbounded::<Task>();
        let mut threads = Vec::with_capacity(engines.len());
        for (index, mut engine) in engines.into_iter().enumerate() {
            let (inbox, outbox) = (inbox.clone(), outbox.clone());
            let thread = Builder::new()
                .name(format!("eval-{index}"))
                .spawn(move || {
                    while let Some(task) = receive(&inbox) {
                        let sequence = task.sequence;
                        let parts = work(engine.as_mut(), &task, usize::MAX);
                        drop(task);
                        if parts.as_ref().is_ok_and(Vec::is_empty) {
                            continue; // Others were faster.
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

    /// Hands the batch to as many threads as it has parts, less the one that will wait for it if
    /// nothing else is waited for first.
    pub fn submit(&mut self, batch: Batch) -> Result<(), EvalError> {
        let (queries, threads) = (batch.len(), self.threads.len());
        let size = queries.div_ceil(threads + 1).clamp(1, PART);
        let scores = Scores { values: vec![0.0; queries], moves: vec![0.0; batch.moves.len()] };
        let next = Arc::new(AtomicUsize::new(0));
        let task = Task { sequence: self.next, batch: Arc::new(batch), size, next };
        let parts_left = task.parts();
        self.next += 1;
        // One part of the next batch is left to the thread that will wait for it.
        let own = usize::from(self.pending.is_empty());
        let queue = self.queue.as_ref().ok_or_else(gone)?;
        for _ in 0..parts_left.saturating_sub(own).min(threads) {
            queue.send(task.clone()).map_err(|_| gone())?;
        }
        self.pending.push_back(Pending { task, scores, parts_left, failure: None });
        Ok(())
    }

    /// Waits for the oldest batch. Meanwhile the calling thread evaluates the parts of it that no
    /// worker has begun, then parts of the last batch in the queue, which workers reach last.
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
            // Not there: it failed, and its other parts come too late.
            if let Some(pending) =
                self.pending.iter_mut().find(|other| other.task.sequence == done.sequence)
            {
                pending.take(done.parts);
            }
        }
        let pending = self.pending.pop_front().ok_or(EvalError::NothingInFlight)?;
        self.pace.back = Some((Instant::now(), pending.task.parts()));
        if let Some(error) = pending.failure {
            return Err(error);
        }
        // A worker that will find nothing left to do may still hold the batch, or it lies in the
        // queue for one; then this is a copy.
        let batch = Arc::try_unwrap(pending.task.batch).unwrap_or_else(|shared| (*shared).clone());
        Ok(Answered { batch, scores: pending.scores })
    }

    /// Evaluates a part of the last batch that has one left, if there is time for it.
    fn help_last(&mut self) -> bool {
        if !self.pace.has_time(self.threads.len()) {
            return false;
        }
        let last = self.pending.iter().rposition(Pending::has_parts);
        last.inspect(|&last| self.help(last, 1)).is_some()
    }

    /// Evaluates so many parts of a batch at most.
    fn help(&mut self, index: usize, most: usize) {
        let Some(pending) = self.pending.get_mut(index) else { return };
        let started = Instant::now();
        let parts = work(self.own.as_mut(), &pending.task, most);
        let count = parts.as_ref().map_or(0, Vec::len);
        Pace::note(&mut self.pace.here, started.elapsed().as_secs_f64(), count);
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
            // A worker that panicked has nothing more to say here.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use board::{Color, Position};
    use nets::{HeadKind, Squares};

    use super::*;

    /// What an engine of a test does with a part.
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
                Self::Panics => panic!("as the test wants it"),
                Self::IsLate => std::thread::sleep(Duration::from_millis(20)),
            }
            Ok(PartialScores {
                values: range.map(|query| query as f32).collect(),
                moves: Vec::new(),
            })
        }

        fn logits(&mut self, _: &[(Squares, Color)], _: HeadKind) -> Result<Vec<f32>, EvalError> {
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

    /// The values of batches of these sizes that are in flight together; none for one that failed.
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

    /// A tree that takes 6 microseconds a position, a network that takes 16: with one other thread
    /// the tree's has time to evaluate, with three it is what they wait for.
    #[test]
    fn who_is_waited_for_does_not_help() {
        let mut pace = Pace::default();
        for _ in 0..100 {
            Pace::note(&mut pace.elsewhere, 6e-6, 1);
            Pace::note(&mut pace.here, 32e-6, 2);
        }
        assert_eq!([1, 2, 3].map(|others| pace.has_time(others)), [true, true, false]);
        // The first batch is the waiting thread's, the other thread is at the second one for long,
        // and the third is left.
        let mut workers = workers(Fake::Scores, &[Fake::IsLate]);
        (0..3).for_each(|_| workers.submit(batch(1)).unwrap());
        workers.pace.elsewhere = 1.0;
        assert!(!workers.help_last());
        workers.pace.elsewhere = 0.0;
        assert!(workers.help_last());
    }

    #[test]
    fn a_failure_is_an_answer_too() {
        for broken in [Fake::Fails, Fake::Panics] {
            // The waiting thread's own engine, which has the first batch for itself: every batch
            // that it has to do with fails, and none is waited for for ever.
            let mut workers = workers(broken, &[Fake::IsLate]);
            let found = answers(&mut workers, &[1, 1, 1]);
            assert!(
                found[0].is_none() && found.iter().flatten().all(|found| *found == [0.0]),
                "{found:?}"
            );
            // Another's: it may have been too late to take anything, else its batch fails. The
            // others are whole.
            let mut workers = super::tests::workers(Fake::IsLate, &[broken]);
            for found in answers(&mut workers, &[2, 1, 2]).into_iter().flatten() {
                assert!(found == [0.0] || found == [0.0, 1.0], "{found:?}");
            }
        }
    }
}
