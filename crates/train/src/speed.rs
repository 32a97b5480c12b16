//! Measures the training speed of this machine.

use std::time::{Duration, Instant};

use board::Color;
use nets::{POLICY_SIZE, Squares};

use crate::{Backend, Examples, Loss, Objective, TrainError};

/// The result of [`measure_speed`].
#[derive(Clone, Debug)]
pub struct SpeedMeasurement {
    /// Description of the backend.
    pub backend: String,
    pub batch: usize,
    pub steps: usize,
    pub wall: Duration,
    /// Processor time of the whole process; `None` where the system does not report it.
    pub cpu: Option<Duration>,
}

impl SpeedMeasurement {
    /// Positions per second of wall time.
    #[must_use]
    pub fn per_second(&self) -> f64 {
        (self.batch * self.steps) as f64 / self.wall.as_secs_f64().max(1e-9)
    }

    /// Positions per second of processor time.
    #[must_use]
    pub fn per_cpu_second(&self) -> Option<f64> {
        self.cpu.map(|cpu| (self.batch * self.steps) as f64 / cpu.as_secs_f64().max(1e-9))
    }
}

/// User and system time of this process so far, from `/proc`.
fn cpu_time() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The fields follow the command's closing bracket; a clock tick is 1/100 s on Linux.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let ticks: u64 = fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?;
    Some(Duration::from_millis(10 * ticks))
}

/// Legal moves of each position, about as many as in a game.
const LEGAL_MOVES: usize = 30;

/// Random boards of about 21 pieces with random labels, and random moves for cross entropy.
fn examples(count: usize, objectives: &[Objective]) -> Examples {
    let mut state = 1_u64;
    let mut below = move |bound: u64| {
        // Numerical Recipes' 64-bit generator.
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    };
    let policy = objectives.iter().any(|objective| objective.loss == Loss::CrossEntropy);
    let mut batch = Examples::default();
    for _ in 0..count {
        let mut squares = Squares::default();
        for square in &mut squares.0 {
            if below(3) == 0 {
                *square = below(15) as u8 + 1;
            }
        }
        batch.squares.push(squares);
        batch.turns.push(if below(2) == 0 { Color::White } else { Color::Black });
        batch.values.push(below(1000) as i32);
        batch.move_values.push(below(1000) as i32);
        let moves = if policy { LEGAL_MOVES } else { 1 };
        batch.moves.extend((0..moves).map(|_| below(POLICY_SIZE as u64) as u16));
        if policy {
            batch.ends.push(batch.moves.len());
            batch.weights.push(1.0);
        }
    }
    batch
}

/// Steps before the timed ones: a GPU compiles kernels in the first steps and fuses some only after
/// two.
const WARM_UP: usize = 3;

/// Times `steps` training steps on random positions, after a few steps of warm-up.
///
/// # Errors
/// As [`Backend::step`].
pub fn measure_speed(
    backend: &mut dyn Backend,
    objectives: &[Objective],
    batch: usize,
    steps: usize,
) -> Result<SpeedMeasurement, TrainError> {
    let examples = examples(batch, objectives);
    for _ in 0..WARM_UP {
        backend.step(&examples, 1e-3)?;
    }
    let (start, cpu) = (Instant::now(), cpu_time());
    for _ in 0..steps {
        backend.step(&examples, 1e-3)?;
    }
    let wall = start.elapsed();
    let cpu = cpu_time().zip(cpu).map(|(end, start)| end.saturating_sub(start));
    Ok(SpeedMeasurement { backend: backend.describe(), batch, steps, wall, cpu })
}
