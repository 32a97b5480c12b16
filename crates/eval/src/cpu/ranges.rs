//! The ranges of int8 activations: the largest output of each layer over sample positions, computed
//! in `f32`, gives the scale of the layer. The largest squares are so far from most that cutting
//! them off may cost less than rounding all others.

use board::Position;
use nets::Network;

use super::{
    kernels::Kernels, memory::Element, plan::Plan, runner::PlanRunner, whole_board::BoardTable,
};
use crate::{Batch, EvalError};

/// Number of sample positions.
const POSITIONS: usize = 256;

/// The range of the outputs of each step of the network's plan: first the trunk, then the heads.
pub(crate) fn observe<K: Kernels>(network: &Network) -> Result<Vec<f32>, EvalError>
where
    K::Element: Element,
{
    let plan = std::sync::Arc::new(Plan::compile(network, &[])?);
    let squares: Vec<bool> =
        plan.steps().map(|step| step.board_table().is_some_and(BoardTable::squares)).collect();
    let mut runner = PlanRunner::<K>::new(plan, std::sync::Arc::new(network.calibration.clone()));
    let positions = games();
    let mut ranges = vec![0.0_f32; squares.len()];
    runner.observe(&positions, |step, outputs| {
        let largest = outputs.iter().map(|output| output.to_f32().abs());
        ranges[step] = largest.fold(ranges[step], f32::max);
    })?;
    if !squares.contains(&true) {
        return Ok(ranges);
    }
    let mut errors = vec![[0.0_f64; SHARES.len()]; squares.len()];
    runner.observe(&positions, |step, outputs| {
        if squares[step] {
            for (error, share) in errors[step].iter_mut().zip(SHARES) {
                *error += rounding_error(outputs, ranges[step] * share);
            }
        }
    })?;
    for (range, errors) in ranges.iter_mut().zip(&errors) {
        let best = SHARES.iter().zip(errors).min_by(|one, other| one.1.total_cmp(other.1));
        *range *= best.map_or(1.0, |(share, _)| *share);
    }
    Ok(ranges)
}

/// The shares of the largest square that a range may end at.
const SHARES: [f32; 5] = [1.0, 0.5, 0.25, 0.125, 0.0625];

/// The sum of the errors of outputs that are not negative, stored in 8 bits up to `range`. The errors
/// count as they are: their squares would be those of the few outputs that are cut off.
fn rounding_error<E: Element>(outputs: &[E], range: f32) -> f64 {
    let unit = range / f32::from(u8::MAX);
    let error = |output: &E| {
        let exact = output.to_f32();
        f64::from((exact.min(range) / unit).round() * unit - exact).abs()
    };
    if unit > 0.0 { outputs.iter().map(error).sum() } else { 0.0 }
}

/// Positions of random games of a fixed seed.
fn games() -> Batch {
    let mut state = 1_u64;
    let mut position = Position::default().remembering();
    let mut batch = Batch::default();
    while batch.len() < POSITIONS {
        let moves = position.legal_moves();
        if moves.is_empty() || position.ply() > 120 {
            position = Position::default().remembering();
            continue;
        }
        // Knuth's MMIX generator, of which the high bits are the random ones.
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        position.play(moves[(state >> 33) as usize % moves.len()]);
        batch.push(&position, true, &[]);
    }
    batch
}
