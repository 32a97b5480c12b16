//! Whether a network of Leela's may be evaluated in int8 on this machine's processor.
//!
//! Its file holds no ranges of activations, so they are observed here, and the cost of int8 is
//! measured over games of the network against itself. That takes seconds; the answer is kept
//! ([`measured`]).

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use board::{Position, SplitMix64};
use eval::{
    Batch, Evaluator, Precision,
    cpu::{self, CpuEvaluator, CpuOptions},
};
use nets::{Calibration, Network};
use serde_json::{Value, json};

use crate::{EngineError, EngineOptions, measured};

/// Games, played side by side, and their plies.
const GAMES: usize = 40;
const PLIES: usize = 50;

/// Plies of random moves before the network plays.
const RANDOM_PLIES: usize = 4;

/// The least share of positions with the same first choice of the policy.
const LEAST_AGREEMENT: f64 = 0.99;

/// The largest mean difference of wins minus losses.
const LARGEST_DIFFERENCE: f64 = 0.01;

/// What int8 costs a network.
#[derive(Clone, Copy, Debug)]
struct Cost {
    /// Share of positions with the same first choice.
    agreement: f64,
    /// Mean difference of wins minus losses.
    difference: f64,
}

impl Cost {
    fn is_small(self) -> bool {
        self.agreement >= LEAST_AGREEMENT && self.difference <= LARGEST_DIFFERENCE
    }
}

/// The network, with ranges for int8 where these options would use it, it costs little, and the
/// file has none. `known` is the file of earlier answers.
///
/// # Errors
/// The network cannot be evaluated.
pub(crate) fn with_ranges(
    network: Network,
    options: &EngineOptions,
    known: Option<&Path>,
) -> Result<Network, EngineError> {
    let is_candidate = network.description.encoding.has_history()
        && network.int8_ranges.is_none()
        && options.devices.is_cpu()
        && options.precision.is_none_or(|precision| precision == Precision::Int8);
    if !is_candidate {
        return Ok(network);
    }
    let choice = cpu::choose(options.path, options.precision, true)?;
    if choice.precision != Precision::Int8 {
        return Ok(network);
    }
    let program = env!("CARGO_PKG_VERSION");
    let key = format!("{}, program {program}, {}", network.fingerprint(), choice.path);
    let mut answers = known.map(measured::read).unwrap_or_default();
    let ranges = match answers.get(&key) {
        Some(answer) => ranges_of(answer),
        None => {
            tracing::info!("{}: measuring once what int8 costs it", network.name);
            let ranges = measure(&network, options)?;
            if let Some(path) = known {
                answers.insert(key, json!(ranges));
                measured::write(path, &answers);
            }
            ranges
        }
    };
    Ok(Network { int8_ranges: ranges, ..network })
}

/// The ranges of an answer; `null`: int8 costs too much.
fn ranges_of(answer: &Value) -> Option<Vec<f32>> {
    answer.as_array()?.iter().map(|range| range.as_f64().map(|range| range as f32)).collect()
}

/// The ranges of a network that int8 costs little.
fn measure(network: &Network, options: &EngineOptions) -> Result<Option<Vec<f32>>, EngineError> {
    let Ok(ranges) = cpu::observe_ranges(network) else { return Ok(None) };
    // The identity instead of the calibration: values are wins minus losses.
    let bare = Network { calibration: Calibration::default(), ..network.clone() };
    let ranged = Arc::new(Network { int8_ranges: Some(ranges.clone()), ..bare });
    let evaluator = |precision| {
        let cpu = CpuOptions { precision: Some(precision), ..options.cpu() };
        CpuEvaluator::new(Arc::clone(&ranged), cpu)
    };
    // A layer that int8 does not hold.
    let Ok(mut int8) = evaluator(Precision::Int8) else { return Ok(None) };
    let cost = cost(&mut evaluator(Precision::F32)?, &mut int8)?;
    tracing::debug!(
        "{}: int8 chooses the same move in {:.1} % of positions and moves the value by {:.4}",
        network.name,
        100.0 * cost.agreement,
        cost.difference
    );
    Ok(Some(ranges).filter(|_| cost.is_small()))
}

/// Plays games by the chances that `exact` gives the moves and compares `other` with it.
fn cost(exact: &mut dyn Evaluator, other: &mut dyn Evaluator) -> Result<Cost, EngineError> {
    let mut random = SplitMix64::new(1);
    let mut games = vec![Position::default().remembering(); GAMES];
    let (mut positions, mut agreeing, mut difference) = (0_usize, 0_usize, 0.0);
    for ply in 0..PLIES + RANDOM_PLIES {
        let mut batch = Batch::default();
        for game in &mut games {
            if game.legal_moves().is_empty() {
                *game = Position::default().remembering();
            }
            batch.push(game, true, &game.legal_moves());
        }
        let answered = exact.evaluate(batch.clone())?;
        if ply >= RANDOM_PLIES {
            let scores = other.evaluate(batch)?.scores;
            for (index, query) in answered.batch.queries.iter().enumerate() {
                let first = |moves: &[f32]| {
                    let moves = moves[query.move_range()].iter().enumerate();
                    moves.max_by(|one, other| one.1.total_cmp(other.1)).map(|(at, _)| at)
                };
                positions += 1;
                agreeing += usize::from(first(&answered.scores.moves) == first(&scores.moves));
                let values = [&answered.scores, &scores].map(|of| f64::from(of.values[index]));
                difference += (values[0] - values[1]).abs();
            }
        }
        for (game, query) in games.iter_mut().zip(&answered.batch.queries) {
            let logits = &answered.scores.moves[query.move_range()];
            let logits = if ply < RANDOM_PLIES { None } else { Some(logits) };
            game.play(game.legal_moves()[drawn(query.move_count as usize, logits, &mut random)]);
        }
    }
    let all = positions as f64;
    Ok(Cost { agreement: agreeing as f64 / all, difference: difference / all })
}

/// A place among so many, by chance: equal chances, or those of these logits.
fn drawn(count: usize, logits: Option<&[f32]>, random: &mut SplitMix64) -> usize {
    let Some(logits) = logits else { return random.below(count) };
    let highest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let weights: Vec<f32> = logits.iter().map(|logit| (logit - highest).exp()).collect();
    let mut left = random.unit() * weights.iter().sum::<f32>();
    let found = weights.iter().position(|weight| {
        left -= weight;
        left < 0.0
    });
    found.unwrap_or(0)
}

/// The file of the answers.
pub(crate) fn file() -> Option<PathBuf> {
    measured::file("int8.json")
}
