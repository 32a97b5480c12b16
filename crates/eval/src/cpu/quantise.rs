//! Ranges for int8: the largest output of each layer over the positions of some games, seen in
//! `f32` at load.

use board::{Color, Position};
use nets::{Network, Squares};

use super::{engine::Engine, kernels::Kernels, memory::Element, plan::Plan};
use crate::EvalError;

/// Positions that are looked at.
const POSITIONS: usize = 256;

/// The largest output of each step of the network's plan, trunk first, then the heads.
pub(crate) fn ranges<K: Kernels>(network: &Network) -> Result<Vec<f32>, EvalError>
where
    K::Element: Element,
{
    let plan = std::sync::Arc::new(Plan::compile(network, &[])?);
    let mut engine = Engine::<K>::new(plan, std::sync::Arc::new(network.calibration.clone()));
    engine.observe(&games())
}

/// Positions of random games, always the same.
fn games() -> Vec<(Squares, Color)> {
    let mut state = 1_u64;
    let mut position = Position::default();
    let mut list = Vec::with_capacity(POSITIONS);
    while list.len() < POSITIONS {
        let moves = position.legal_moves();
        if moves.is_empty() || position.ply() > 120 {
            position = Position::default();
            continue;
        }
        // Knuth's MMIX generator; its high bits are the good ones.
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        position.play(moves[(state >> 33) as usize % moves.len()]);
        list.push((Squares::of(&position), position.turn()));
    }
    list
}
