//! Whether a network of Leela's may be evaluated in int8 on this machine's processor.
//!
//! Its file holds no ranges of activations, so they are observed here, and the cost of int8 is
//! measured over games of the network against itself. That takes up to minutes, so it is done beside
//! the first use of a network, which is evaluated in another precision. The answer is kept
//! ([`measured`]) and holds from the next start on.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    thread::{Builder, JoinHandle},
};

use board::{Position, SplitMix64};
use eval::{
    Batch, Evaluator, Precision,
    cpu::{self, CpuEvaluator, CpuOptions, CpuPath},
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

/// So many more first choices may differ than their share of the positions so far.
const SLACK: f64 = 5.0;

/// Ranges that fit a network; `None`: int8 costs it too much.
type Ranges = Option<Vec<f32>>;

/// The answers by which this process evaluates: all evaluators of a network have one precision, even
/// where it has been measured since.
static OF_THIS_RUN: Mutex<BTreeMap<String, Ranges>> = Mutex::new(BTreeMap::new());

/// What int8 costs a network, as far as positions were compared.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    positions: usize,
    /// Positions with another first choice.
    differing: usize,
    /// Differences of wins minus losses, added up.
    difference: f64,
}

impl Cost {
    /// Is it too much already? Of all positions so many may differ, and of fewer, fewer: a network that
    /// fails is known after a hundred.
    fn is_too_much(self) -> bool {
        let allowed = (1.0 - LEAST_AGREEMENT) * self.positions as f64;
        let allowed_of_all = (1.0 - LEAST_AGREEMENT) * (GAMES * PLIES) as f64;
        self.differing as f64 > (allowed + SLACK).min(allowed_of_all)
            || self.difference > LARGEST_DIFFERENCE * (GAMES * PLIES) as f64
    }
}

/// The network, with ranges for int8 where these options would use it, it is known to cost little, and
/// the file has none. `known` is the file of earlier answers. Where it has none, int8 is measured: at
/// once if the options ask for int8, else by a thread of its own for the next start.
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
    let key = key(&network, choice.path);
    let mut of_this_run = OF_THIS_RUN.lock().unwrap_or_else(PoisonError::into_inner);
    let asked = options.precision.is_some();
    let ranges = match (of_this_run.get(&key), known.and_then(|known| kept(known, &key))) {
        (Some(ranges), _) if !asked => ranges.clone(),
        (_, Some(ranges)) => ranges,
        _ if asked => measure_and_keep(&network, options, known, &key)?,
        _ => {
            measure_beside(&network, options, known, &key);
            None
        }
    };
    of_this_run.insert(key, ranges.clone());
    Ok(Network { int8_ranges: ranges, ..network })
}

/// What an answer is for.
fn key(network: &Network, path: CpuPath) -> String {
    format!("{}, program {}, {path}", network.fingerprint(), env!("CARGO_PKG_VERSION"))
}

/// The answer in this file, if it has one.
fn kept(known: &Path, key: &str) -> Option<Ranges> {
    measured::read(known).get(key).map(ranges_of)
}

/// Measures in a thread of its own, if there is a file for the answer.
fn measure_beside(
    network: &Network,
    options: &EngineOptions,
    known: Option<&Path>,
    key: &str,
) -> Option<JoinHandle<()>> {
    let known = known?.to_owned();
    let (network, options, key) = (network.clone(), options.clone(), key.to_owned());
    let measuring = move || {
        if let Err(error) = measure_and_keep(&network, &options, Some(&known), &key) {
            tracing::debug!("{}: int8 was not measured: {error}", network.name);
        }
    };
    Builder::new().name("int8".to_owned()).spawn(measuring).ok()
}

/// Measures, and adds the answer to the file.
fn measure_and_keep(
    network: &Network,
    options: &EngineOptions,
    known: Option<&Path>,
    key: &str,
) -> Result<Ranges, EngineError> {
    tracing::info!("{}: measuring once what int8 costs it", network.name);
    let ranges = measure(network, options)?;
    if let Some(path) = known {
        let mut answers = measured::read(path);
        answers.insert(key.to_owned(), json!(ranges));
        measured::write(path, &answers);
    }
    Ok(ranges)
}

/// The ranges of an answer; `null`: int8 costs too much.
fn ranges_of(answer: &Value) -> Ranges {
    answer.as_array()?.iter().map(|range| range.as_f64().map(|range| range as f32)).collect()
}

/// The ranges of a network that int8 costs little. One thread computes.
fn measure(network: &Network, options: &EngineOptions) -> Result<Ranges, EngineError> {
    let Ok(ranges) = cpu::observe_ranges(network) else { return Ok(None) };
    // The identity instead of the calibration: values are wins minus losses.
    let bare = Network { calibration: Calibration::default(), ..network.clone() };
    let ranged = Arc::new(Network { int8_ranges: Some(ranges.clone()), ..bare });
    let evaluator = |precision| {
        let cpu = CpuOptions { precision: Some(precision), threads: 1, ..options.cpu() };
        CpuEvaluator::new(Arc::clone(&ranged), cpu)
    };
    // A layer that int8 does not hold.
    let Ok(mut int8) = evaluator(Precision::Int8) else { return Ok(None) };
    let cost = cost(&mut evaluator(Precision::F32)?, &mut int8)?;
    tracing::debug!(
        "{}: int8 chooses another move in {} of {} positions and moves the value by {:.4}",
        network.name,
        cost.differing,
        cost.positions,
        cost.difference / cost.positions as f64
    );
    Ok(Some(ranges).filter(|_| !cost.is_too_much()))
}

/// Plays games by the chances that `exact` gives the moves and compares `other` with it, until it is
/// known to cost too much.
fn cost(exact: &mut dyn Evaluator, other: &mut dyn Evaluator) -> Result<Cost, EngineError> {
    let mut random = SplitMix64::new(1);
    let mut games = vec![Position::default().remembering(); GAMES];
    for _ in 0..RANDOM_PLIES {
        for game in &mut games {
            let moves = game.legal_moves();
            game.play(moves[random.below(moves.len())]);
        }
    }
    let mut cost = Cost::default();
    for _ in 0..PLIES {
        let mut batch = Batch::default();
        for game in &mut games {
            if game.legal_moves().is_empty() {
                *game = Position::default().remembering();
            }
            batch.push(game, true, &game.legal_moves());
        }
        let answered = exact.evaluate(batch.clone())?;
        let scores = other.evaluate(batch)?.scores;
        for (index, query) in answered.batch.queries.iter().enumerate() {
            let first = |moves: &[f32]| {
                let moves = moves[query.move_range()].iter().enumerate();
                moves.max_by(|one, other| one.1.total_cmp(other.1)).map(|(at, _)| at)
            };
            cost.positions += 1;
            cost.differing += usize::from(first(&answered.scores.moves) != first(&scores.moves));
            let values = [&answered.scores, &scores].map(|of| f64::from(of.values[index]));
            cost.difference += (values[0] - values[1]).abs();
        }
        if cost.is_too_much() {
            break;
        }
        for (game, query) in games.iter_mut().zip(&answered.batch.queries) {
            let logits = &answered.scores.moves[query.move_range()];
            game.play(game.legal_moves()[drawn(logits, &mut random)]);
        }
    }
    Ok(cost)
}

/// A place among these logits, by their chances.
fn drawn(logits: &[f32], random: &mut SplitMix64) -> usize {
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

#[cfg(test)]
mod tests;
