//! Paths, networks and batches for the tests.

use std::sync::{Arc, Once};

use board::{Position, SplitMix64, testing::skip};
use eval::{
    Batch, Precision,
    cpu::{CpuEvaluator, CpuOptions, CpuPath},
};
use nets::{Activation, Branch, Description, HeadKind, Layer, Network, Padding};

/// Every path and precision that this machine can run. The others are reported as skipped.
pub fn paths() -> Vec<(CpuPath, Precision)> {
    static REPORTED: Once = Once::new();
    let mut paths = Vec::new();
    let mut obstacles = Vec::new();
    for path in CpuPath::ALL {
        for precision in Precision::OF_PROCESSORS {
            match path.obstacle(precision) {
                Some(obstacle) => obstacles.push(format!("{path} in {precision}: {obstacle}")),
                // Int8 first observes 256 positions, which takes too long under Miri.
                None if cfg!(miri) && precision == Precision::Int8 => {}
                None => paths.push((path, precision)),
            }
        }
    }
    REPORTED.call_once(|| obstacles.iter().for_each(|obstacle| skip("agreement", obstacle)));
    paths
}

pub fn evaluator(
    network: &Arc<Network>,
    path: CpuPath,
    precision: Precision,
    threads: usize,
) -> CpuEvaluator {
    let options = CpuOptions { threads, path: Some(path), precision: Some(precision) };
    CpuEvaluator::new(Arc::clone(network), options).unwrap()
}

/// Random numbers from the upper bits of [`SplitMix64`].
pub struct Dice(SplitMix64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.0.next_u64() >> 33) as usize % bound
    }
}

/// Positions of random games, which remember the way to them.
pub fn positions(count: usize, seed: u64) -> Vec<Position> {
    let mut dice = Dice::new(seed);
    let mut list = Vec::with_capacity(count);
    let mut position = Position::default().remembering();
    while list.len() < count {
        let moves = position.legal_moves();
        if moves.is_empty() || position.ply() > 120 {
            position = Position::default().remembering();
            continue;
        }
        position.play(moves[dice.below(moves.len())]);
        list.push(position.clone());
    }
    list
}

/// A batch that asks for values, moves or both, as far as the network has the heads.
pub fn batch(network: &Network, positions: &[Position], seed: u64) -> Batch {
    let has = |kind| network.description.head(kind).is_some();
    let (value, moves) = (has(HeadKind::Value), has(HeadKind::Moves));
    let mut dice = Dice::new(seed);
    let mut batch = Batch::default();
    for position in positions {
        let choice = dice.below(3);
        let legal = position.legal_moves();
        let asked = if moves && choice != 0 { &legal[..dice.below(legal.len() + 1)] } else { &[] };
        batch.push(position, value && choice != 1, asked);
    }
    batch
}

/// A random network whose biases, means and variances are not trivial.
pub fn network(description: Description, seed: u64) -> Arc<Network> {
    let mut network = Network::random(description, seed).unwrap();
    let mut dice = Dice::new(seed ^ 77);
    for (name, tensor) in &mut network.tensors {
        let mut unit = || dice.below(1000) as f32 / 1000.0;
        for value in &mut tensor.data {
            if name.ends_with(".norm.scale") {
                *value = 0.6 + 0.8 * unit();
            } else if name.ends_with(".norm.variance") {
                *value = 0.5 + unit();
            } else if name.ends_with(".bias") || name.contains(".norm.") {
                *value = 0.4 * (unit() - 0.5);
            }
        }
    }
    // The calibration does not clip, so that all differences of the outputs are seen.
    network.calibration.value.limit = 1e9;
    network.calibration.moves.limit = 1e9;
    Arc::new(network)
}

pub fn conv(kernel: usize, channels: usize, norm: bool, relu: bool) -> Layer {
    let activation = if relu { Activation::Relu } else { Activation::Identity };
    Layer::Conv { kernel, channels, padding: Padding::Same, norm, activation }
}

pub fn whole(channels: usize) -> Layer {
    Layer::Conv {
        kernel: 8,
        channels,
        padding: Padding::Valid,
        norm: true,
        activation: Activation::Relu,
    }
}

/// A network small enough for many batches.
pub fn small() -> Arc<Network> {
    let stem = vec![
        Layer::Branches {
            branches: vec![
                Branch { kernel: [3, 3], dilation: [1, 1], channels: 20 },
                Branch { kernel: [2, 2], dilation: [2, 4], channels: 9 },
            ],
            norm: true,
            activation: Activation::Relu,
        },
        conv(3, 17, true, true),
    ];
    let value = vec![whole(5), conv(1, 1, false, false)];
    network(Description::value_and_moves(stem, value, vec![conv(1, 73, false, false)]), 3)
}
