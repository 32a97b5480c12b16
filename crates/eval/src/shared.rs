//! Evaluators that many searches use at once. Requests that wait at the same time are merged into
//! one batch.
//!
//! There is no thread between a search and the evaluators. A client that waits takes a free
//! evaluator and evaluates the waiting requests of all clients in one batch, in the order in which
//! they were submitted. So a single search runs at full speed, and with more searches than
//! evaluators the batches become larger.

use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

use crate::{Answered, Batch, EvalError, Evaluator, Scores, Stream};

/// Evaluators of one network. Each search uses them through its own [`Shared::client`].
#[derive(Clone)]
pub struct Shared {
    inner: Arc<Inner>,
}

struct Inner {
    state: Mutex<State>,
    evaluators: usize,
    preferred: usize,
    largest: usize,
    moves_are_dear: bool,
    description: String,
}

struct State {
    /// Free evaluators with their numbers.
    free: Vec<(usize, Box<dyn Evaluator>)>,
    /// Evaluators that have not panicked, free or in use.
    left: usize,
    waiting: VecDeque<Request>,
}

/// A client's batch that no evaluator has taken yet.
struct Request {
    batch: Batch,
    slot: Arc<Slot>,
}

/// The place of a request's answer. Its condition variable is used with the lock of
/// [`Inner::state`].
#[derive(Default)]
struct Slot {
    answer: Mutex<Option<Result<Answered, EvalError>>>,
    ready: Condvar,
}

impl Shared {
    /// Shares `evaluator` and `more`, which must have the same network and number format.
    #[must_use]
    pub fn new(evaluator: Box<dyn Evaluator>, more: Vec<Box<dyn Evaluator>>) -> Self {
        let (preferred, largest) = (evaluator.preferred_batch(), evaluator.largest_batch());
        let moves_are_dear = evaluator.preferred_stream().moves_are_dear;
        let description = evaluator.describe();
        let free: Vec<_> = more.into_iter().chain([evaluator]).enumerate().collect();
        let evaluators = free.len();
        let state = Mutex::new(State { left: evaluators, free, waiting: VecDeque::new() });
        Self {
            inner: Arc::new(Inner {
                state,
                evaluators,
                preferred,
                largest,
                moves_are_dear,
                description,
            }),
        }
    }

    /// An evaluator for one search.
    #[must_use]
    pub fn client(&self) -> Client {
        Client { inner: Arc::clone(&self.inner), slots: VecDeque::new(), last: 0 }
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Shared")
            .field("evaluators", &self.inner.description)
            .finish_non_exhaustive()
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic never leaves the state inconsistent, so a poisoned lock is usable.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the oldest requests for one batch: an equal share of all waiting queries, but not less
    /// than the preferred batch. More than one request never exceeds `largest` queries.
    fn take(&self, waiting: &mut VecDeque<Request>) -> Vec<Request> {
        let all: usize = waiting.iter().map(|request| request.batch.len()).sum();
        let enough = all.div_ceil(self.evaluators).max(self.preferred);
        let (mut taken, mut queries) = (Vec::new(), 0);
        while let Some(next) = waiting.front() {
            if !taken.is_empty() && (queries >= enough || queries + next.batch.len() > self.largest)
            {
                break;
            }
            queries += next.batch.len();
            taken.extend(waiting.pop_front());
        }
        taken
    }
}

impl State {
    /// A free evaluator, `last` if it is free: its weights may still be in this core's cache.
    fn take(&mut self, last: usize) -> Option<(usize, Box<dyn Evaluator>)> {
        let place = self.free.iter().position(|&(number, _)| number == last);
        place.map(|place| self.free.swap_remove(place)).or_else(|| self.free.pop())
    }

    /// Wakes all waiting clients when an evaluator becomes free. The client of the first request may
    /// be searching instead of waiting, so waking that one does not suffice.
    fn wake(&self) {
        self.waiting.iter().for_each(|request| request.slot.ready.notify_one());
    }
}

impl Slot {
    fn answer(&self) -> MutexGuard<'_, Option<Result<Answered, EvalError>>> {
        self.answer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The connection of one search to the shared evaluators.
pub struct Client {
    inner: Arc<Inner>,
    /// The slots of the batches in flight, the oldest first.
    slots: VecDeque<Arc<Slot>>,
    /// Number of the evaluator that this client used last.
    last: usize,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Client")
            .field("in_flight", &self.slots.len())
            .finish_non_exhaustive()
    }
}

impl Evaluator for Client {
    fn submit(&mut self, batch: Batch) -> Result<(), EvalError> {
        batch.check()?;
        let slot = Arc::new(Slot::default());
        self.slots.push_back(Arc::clone(&slot));
        self.inner.lock().waiting.push_back(Request { batch, slot });
        Ok(())
    }

    fn wait(&mut self) -> Result<Answered, EvalError> {
        let slot = self.slots.pop_front().ok_or(EvalError::NothingInFlight)?;
        let mut state = self.inner.lock();
        loop {
            if let Some(answer) = slot.answer().take() {
                return answer;
            }
            let is_waiting = state.waiting.iter().any(|request| Arc::ptr_eq(&request.slot, &slot));
            if is_waiting && state.left == 0 {
                state.waiting.retain(|request| !Arc::ptr_eq(&request.slot, &slot));
                return Err(EvalError::Device("no evaluator is left".to_owned()));
            }
            let evaluator = if is_waiting { state.take(self.last) } else { None };
            let Some((number, mut evaluator)) = evaluator else {
                state = slot.ready.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            self.last = number;
            let requests = self.inner.take(&mut state.waiting);
            drop(state);
            let slots: Vec<Arc<Slot>> =
                requests.iter().map(|request| Arc::clone(&request.slot)).collect();
            // A panic costs this evaluator; the clients that wait for it get an error.
            let answers = catch_unwind(AssertUnwindSafe(|| evaluate(evaluator.as_mut(), requests)));
            state = self.inner.lock();
            let answers = match answers {
                Ok(answers) => {
                    state.free.push((number, evaluator));
                    answers
                }
                Err(_) => {
                    state.left -= 1;
                    let failed = || Err(EvalError::Device("the evaluator panicked".to_owned()));
                    slots.into_iter().map(|slot| (slot, failed())).collect()
                }
            };
            for (slot, answer) in answers {
                *slot.answer() = Some(answer);
                slot.ready.notify_one();
            }
            state.wake();
        }
    }

    fn in_flight(&self) -> usize {
        self.slots.len()
    }

    fn preferred_batch(&self) -> usize {
        self.inner.preferred
    }

    fn preferred_stream(&self) -> Stream {
        let moves_are_dear = self.inner.moves_are_dear;
        Stream { batch: self.preferred_batch(), in_flight: 1, moves_are_dear }
    }

    fn largest_batch(&self) -> usize {
        self.inner.largest
    }

    fn describe(&self) -> String {
        self.inner.description.clone()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let mut state = self.inner.lock();
        state
            .waiting
            .retain(|request| !self.slots.iter().any(|slot| Arc::ptr_eq(slot, &request.slot)));
        // This client may have been the one that was woken to take a free evaluator.
        state.wake();
    }
}

type Answer = (Arc<Slot>, Result<Answered, EvalError>);

/// Evaluates requests in one batch and returns the scores of each request.
fn evaluate(evaluator: &mut dyn Evaluator, mut requests: Vec<Request>) -> Vec<Answer> {
    if requests.len() == 1 {
        return requests.drain(..).map(|one| (one.slot, evaluator.evaluate(one.batch))).collect();
    }
    let mut together = Batch::default();
    for batch in requests.iter().map(|request| &request.batch) {
        for query in &batch.queries {
            let past = &batch.past[query.past_range()];
            together.push_query(query, &batch.moves[query.move_range()], past);
        }
    }
    let (mut first_query, mut first_move) = (0, 0);
    let answered = evaluator.evaluate(together);
    let part = |request: Request| {
        let Request { batch, slot } = request;
        let answer = match &answered {
            Ok(answered) => {
                let queries = first_query..first_query + batch.len();
                let moves = first_move..first_move + batch.moves.len();
                (first_query, first_move) = (queries.end, moves.end);
                let values = answered.scores.values[queries].to_vec();
                let moves = answered.scores.moves[moves].to_vec();
                Ok(Answered { batch, scores: Scores { values, moves } })
            }
            Err(error) => Err(EvalError::Device(error.to_string())),
        };
        (slot, answer)
    };
    requests.into_iter().map(part).collect()
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        thread,
        time::Duration,
    };

    use board::Position;

    use super::*;
    use crate::Mock;

    /// A slow mock that counts its batches and fails when two threads use it at once.
    struct Slow {
        mock: Mock,
        batches: Arc<AtomicUsize>,
    }

    impl Evaluator for Slow {
        fn submit(&mut self, batch: Batch) -> Result<(), EvalError> {
            assert_eq!(self.mock.in_flight(), 0);
            self.batches.fetch_add(1, Ordering::Relaxed);
            thread::sleep(Duration::from_millis(2));
            self.mock.submit(batch)
        }
        fn wait(&mut self) -> Result<Answered, EvalError> {
            self.mock.wait()
        }
        fn in_flight(&self) -> usize {
            self.mock.in_flight()
        }
        fn preferred_batch(&self) -> usize {
            16
        }
        fn largest_batch(&self) -> usize {
            20
        }
        fn describe(&self) -> String {
            "slow".to_owned()
        }
    }

    fn shared(evaluators: usize) -> (Shared, Arc<AtomicUsize>) {
        let batches = Arc::new(AtomicUsize::new(0));
        let slow = |_| {
            Box::new(Slow { mock: Mock::new(1), batches: Arc::clone(&batches) })
                as Box<dyn Evaluator>
        };
        (Shared::new(slow(0), (1..evaluators).map(slow).collect()), Arc::clone(&batches))
    }

    fn batch(number: usize) -> Batch {
        let mut batch = Batch::default();
        let mut position = Position::default();
        for step in 0..number % 4 {
            let moves = position.legal_moves();
            batch.push(&position, step % 2 == 0, &moves[..(number + step) % moves.len()]);
            position.play(moves[number % moves.len()]);
        }
        batch
    }

    #[test]
    fn every_client_gets_its_own_answers_and_batches_are_merged() {
        for evaluators in [1, 2] {
            let (shared, batches) = shared(evaluators);
            const CLIENTS: usize = 12;
            const EACH: usize = 20;
            thread::scope(|scope| {
                for client in 0..CLIENTS {
                    let mut one = shared.client();
                    scope.spawn(move || {
                        for number in 0..EACH {
                            let asked = [batch(client * 7 + number), batch(number)];
                            for batch in &asked {
                                one.submit(batch.clone()).unwrap();
                            }
                            assert_eq!(one.in_flight(), 2);
                            for batch in asked {
                                let expected = Mock::new(1).evaluate(batch.clone()).unwrap().scores;
                                let answered = one.wait().unwrap();
                                assert!(
                                    answered.scores == expected
                                        && answered.batch.moves == batch.moves
                                );
                            }
                        }
                        assert!(matches!(one.wait(), Err(EvalError::NothingInFlight)));
                    });
                }
            });
            let (asked, evaluated) = (2 * CLIENTS * EACH, batches.load(Ordering::Relaxed));
            assert!(evaluated < asked / 2, "{evaluated} batches for {asked} requests");
        }
    }

    #[test]
    fn a_client_prefers_the_evaluator_that_it_used_last() {
        let (shared, _) = shared(3);
        let mut state = shared.inner.lock();
        for last in [1, 0, 2] {
            let (number, evaluator) = state.take(last).unwrap();
            assert_eq!(number, last);
            state.free.push((number, evaluator));
        }
        let taken = [state.take(1), state.take(1), state.take(1)].map(|taken| taken.unwrap().0);
        assert!(taken[0] == 1 && taken[1] != taken[2], "another one rather than none");
        assert!(state.take(1).is_none());
    }

    #[test]
    fn a_dropped_client_blocks_no_other() {
        let (shared, _) = shared(1);
        thread::scope(|scope| {
            for number in 0..30 {
                let mut client = shared.client();
                scope.spawn(move || {
                    client.submit(batch(number)).unwrap();
                    client.submit(batch(number + 1)).unwrap();
                    if number % 3 > 0 {
                        client.wait().unwrap();
                    }
                });
            }
        });
        assert!(shared.inner.lock().waiting.is_empty());
    }

    /// An evaluator that fails or panics on each batch.
    struct Failing {
        panics: bool,
        preferred: usize,
    }

    impl Evaluator for Failing {
        fn submit(&mut self, _: Batch) -> Result<(), EvalError> {
            assert!(!self.panics, "a panic of the test");
            Err(EvalError::Device("burnt".to_owned()))
        }
        fn wait(&mut self) -> Result<Answered, EvalError> {
            Err(EvalError::NothingInFlight)
        }
        fn in_flight(&self) -> usize {
            0
        }
        fn preferred_batch(&self) -> usize {
            self.preferred
        }
        fn largest_batch(&self) -> usize {
            16
        }
        fn describe(&self) -> String {
            String::new()
        }
    }

    #[test]
    fn a_failure_is_reported_to_all_clients_of_the_batch() {
        let shared = Shared::new(Box::new(Failing { panics: false, preferred: 16 }), Vec::new());
        let (mut one, mut other) = (shared.client(), shared.client());
        one.submit(batch(1)).unwrap();
        other.submit(batch(2)).unwrap();
        for client in [&mut other, &mut one] {
            assert!(client.wait().unwrap_err().to_string().contains("burnt"));
        }
    }

    #[test]
    fn after_a_panic_no_client_waits_for_ever() {
        let shared = Shared::new(Box::new(Failing { panics: true, preferred: 1 }), Vec::new());
        thread::scope(|scope| {
            for number in 1..8 {
                let mut client = shared.client();
                scope.spawn(move || {
                    client.submit(batch(number)).unwrap();
                    assert!(matches!(client.wait(), Err(EvalError::Device(_))));
                });
            }
        });
    }

    #[test]
    fn malformed_batches_are_refused() {
        let mut client = shared(1).0.client();
        let mut bad = batch(1);
        bad.queries[0].squares.0[0] = 99;
        assert!(client.submit(bad).is_err());
        assert_eq!(client.in_flight(), 0);
    }
}
