//! A simulated device: it answers a batch after a latency and evaluates at a limited rate. It tells
//! what a search would make of a device that is not at hand. The last part of a wait is spent
//! looking at the clock, because a system wakes threads late: with more threads than cores that
//! takes time from the search.
//!
//! Its values are material and a little noise, its policy is noise, so a search meets a tree of
//! about the usual shape and spends next to nothing on the scores themselves.

use std::{
    collections::VecDeque,
    str::FromStr,
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use nets::Squares;

use crate::{Answered, Batch, EvalError, Evaluator, Scores, Stream};

/// The most positions of a batch that keeps the device busy.
const LARGEST_STREAM: usize = 1024;

/// A system may wake a thread so much later than it asked for.
const WAKING: Duration = Duration::from_micros(150);

/// How fast an simulated device is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeviceSpeed {
    /// From the submission of a batch to its answer, the evaluation apart.
    pub latency: Duration,
    /// Evaluations a second.
    pub rate: f64,
}

impl DeviceSpeed {
    /// Positions that are evaluated in the time of the latency: so many must be in flight.
    fn stream(&self) -> usize {
        ((self.latency.as_secs_f64() * self.rate).ceil() as usize).clamp(1, LARGEST_STREAM)
    }
}

impl FromStr for DeviceSpeed {
    type Err = String;

    /// `100us,200000/s`: latency and evaluations a second.
    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || {
            format!("`{text}`: expected a latency and evaluations a second, as `100us,200000/s`")
        };
        let (latency, rate) = text.split_once(',').ok_or_else(expected)?;
        let latency = board::parse_duration(latency).map_err(|_| expected())?;
        let rate = rate.trim().strip_suffix("/s").ok_or_else(expected)?;
        let rate: f64 = rate.parse().map_err(|_| expected())?;
        if rate.is_finite() && rate >= 1.0 && latency <= Duration::from_secs(10) {
            Ok(Self { latency, rate })
        } else {
            Err(expected())
        }
    }
}

/// An simulated device.
#[derive(Debug)]
pub struct DeviceModel {
    speed: DeviceSpeed,
    threads: usize,
    /// When the device will have evaluated all that it was sent.
    free_at: Arc<Mutex<Instant>>,
    /// The batches, and when they will be answered.
    waiting: VecDeque<(Instant, Batch)>,
}

impl DeviceModel {
    /// `threads`: so many threads of a search may share the device ([`Evaluator::apart`]).
    #[must_use]
    pub fn new(speed: DeviceSpeed, threads: usize) -> Self {
        Self {
            speed,
            threads: threads.max(1),
            free_at: Arc::new(Mutex::new(Instant::now())),
            waiting: VecDeque::new(),
        }
    }
}

impl Evaluator for DeviceModel {
    fn submit(&mut self, batch: Batch) -> Result<(), EvalError> {
        let busy = Duration::from_secs_f64(batch.len() as f64 / self.speed.rate);
        let mut free_at = self.free_at.lock().unwrap_or_else(PoisonError::into_inner);
        *free_at = (*free_at).max(Instant::now()) + busy;
        self.waiting.push_back((*free_at + self.speed.latency, batch));
        Ok(())
    }

    fn wait(&mut self) -> Result<Answered, EvalError> {
        let (ready_at, batch) = self.waiting.pop_front().ok_or(EvalError::NothingInFlight)?;
        let left = ready_at.saturating_duration_since(Instant::now());
        if let Some(sleep) = left.checked_sub(WAKING) {
            thread::sleep(sleep);
        }
        while Instant::now() < ready_at {
            thread::yield_now();
        }
        let mut scores = Scores::default();
        for query in &batch.queries {
            scores.values.push(if query.value { value(&query.squares, query.key) } else { 0.0 });
            let moves = &batch.moves[query.move_range()];
            let logit = |&mv: &u16| 4.0 * noise(query.key ^ u64::from(mv) << 40);
            scores.moves.extend(moves.iter().map(logit));
        }
        Ok(Answered { batch, scores })
    }

    fn in_flight(&self) -> usize {
        self.waiting.len()
    }

    fn preferred_batch(&self) -> usize {
        self.speed.stream().div_ceil(self.threads)
    }

    fn largest_batch(&self) -> usize {
        4096
    }

    fn preferred_stream(&self) -> Stream {
        Stream { batch: self.preferred_batch(), in_flight: 2, moves_are_dear: false }
    }

    fn describe(&self) -> String {
        let DeviceSpeed { latency, rate } = self.speed;
        format!("simulated device: latency {latency:?}, {rate} evaluations a second")
    }

    fn apart(&self) -> Vec<Box<dyn Evaluator>> {
        let count = if self.threads > 1 { self.threads } else { 0 };
        let client = |_| -> Box<dyn Evaluator> {
            Box::new(Self {
                speed: self.speed,
                threads: self.threads,
                free_at: Arc::clone(&self.free_at),
                waiting: VecDeque::new(),
            })
        };
        (0..count).map(client).collect()
    }
}

/// Material from the mover's side and a little noise, in centipawns.
fn value(squares: &Squares, key: u64) -> f32 {
    /// By class of a square: see `nets::Squares`.
    const WORTH: [i16; 16] =
        [0, 0, 100, 310, 325, 500, 950, 0, 500, -100, -310, -325, -500, -950, 0, -500];
    let material: i16 = squares.0.iter().map(|&class| WORTH[usize::from(class) % 16]).sum();
    f32::from(material) + 40.0 * noise(key)
}

/// From -1 to 1, the same for the same key.
fn noise(key: u64) -> f32 {
    let mixed = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 40) as f32 / (1_u32 << 23) as f32 - 1.0
}

#[cfg(test)]
mod tests {
    use board::Position;

    use super::*;

    #[test]
    fn speeds_are_a_latency_and_a_rate() {
        let speed = DeviceSpeed { latency: Duration::from_micros(100), rate: 200_000.0 };
        assert_eq!("100us,200000/s".parse(), Ok(speed));
        assert_eq!(speed.stream(), 20);
        let without_latency: DeviceSpeed = "0us, 1e9/s".parse().unwrap();
        assert_eq!(without_latency.stream(), 1);
        for bad in
            ["", "100us", "100us,5", "100us,0/s", "-1us,5/s", "1s,inf/s", "1s,nan/s", "1h,5/s"]
        {
            assert!(bad.parse::<DeviceSpeed>().unwrap_err().contains("100us,200000/s"), "{bad}");
        }
    }

    #[test]
    fn answers_come_in_order_and_not_before_their_time() {
        let speed = DeviceSpeed { latency: Duration::from_millis(2), rate: 1_000.0 };
        let device = DeviceModel::new(speed, 2);
        assert!(DeviceModel::new(speed, 1).apart().is_empty(), "nothing to divide");
        let mut clients = device.apart();
        let mut batch = Batch::default();
        let position = Position::default();
        batch.push(&position, true, &position.legal_moves());
        let started = Instant::now();
        for client in &mut clients {
            client.submit(batch.clone()).unwrap();
        }
        let answers: Vec<Answered> =
            clients.iter_mut().map(|client| client.wait().unwrap()).collect();
        // Two evaluations of a millisecond each on one device, and the latency.
        assert!(started.elapsed() >= Duration::from_millis(4));
        assert_eq!(answers[0].scores, answers[1].scores);
        assert_eq!(answers[0].scores.moves.len(), 20);
        assert!(answers[0].scores.values[0].abs() <= 40.0, "material is even");
        assert!(matches!(clients[0].wait(), Err(EvalError::NothingInFlight)));
    }
}
