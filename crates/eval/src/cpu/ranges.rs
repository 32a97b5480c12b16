//! The ranges of int8 activations: the largest output of each layer over sample positions, computed
//! in `f32`, gives the scale of the layer.

use board::Position;
use nets::Network;

use super::{kernels::Kernels, memory::Element, plan::Plan, runner::PlanRunner};
use crate::{Batch, EvalError};

/// Number of sample positions.
const POSITIONS: usize = 256;

/// The largest output of each step of the network's plan: first the trunk, then the heads.
pub(crate) fn observe<K: Kernels>(network: &Network) -> Result<Vec<f32>, EvalError>
where
    K::Element: Element,
{
    let plan = std::sync::Arc::new(Plan::compile(network, &[])?);
    let mut runner = PlanRunner::<K>::new(plan, std::sync::Arc::new(network.calibration.clone()));
    runner.observe(&games())
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
