//! Every code path says what the plain reference says, for odd shapes and any batch size.

#![allow(clippy::unwrap_used, reason = "the helpers of tests are tests")]

use std::sync::Arc;

use board::Position;
use eval::{
    Batch, Evaluator,
    cpu::{CpuEvaluator, CpuOptions, CpuPath, Precision},
    reference::Reference,
};
use nets::{Activation, Branch, Description, Encoding, Head, HeadKind, Layer, Network, Padding};
use proptest::prelude::*;

/// Every (path, precision) that this machine can run.
fn paths() -> Vec<(CpuPath, Precision)> {
    let all = CpuPath::ALL.into_iter().flat_map(|path| Precision::ALL.map(|precision| (path, precision)));
    all.filter(|&(path, precision)| path.obstacle(precision).is_none()).collect()
}

fn evaluator(network: &Arc<Network>, path: CpuPath, precision: Precision, threads: usize) -> CpuEvaluator {
    let options = CpuOptions { threads, path: Some(path), precision: Some(precision) };
    CpuEvaluator::new(Arc::clone(network), options).unwrap()
}

/// SplitMix64.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ z >> 31) >> 33) as usize % bound
    }
}

/// Positions of random games.
fn positions(count: usize, seed: u64) -> Vec<Position> {
    let mut dice = Dice(seed);
    let mut list = Vec::with_capacity(count);
    let mut position = Position::default();
    while list.len() < count {
        let moves = position.legal_moves();
        if moves.is_empty() || position.ply() > 120 {
            position = Position::default();
            continue;
        }
        position.play(moves[dice.below(moves.len())]);
        list.push(position.clone());
    }
    list
}

/// A batch that asks for values, moves or both, as far as the network has the heads.
fn batch(network: &Network, positions: &[Position], seed: u64) -> Batch {
    let has = |kind| network.description.head(kind).is_some();
    let (value, moves) = (has(HeadKind::Value), has(HeadKind::Moves));
    let mut dice = Dice(seed);
    let mut batch = Batch::default();
    for position in positions {
        let choice = dice.below(3);
        let legal = position.legal_moves();
        let asked = if moves && choice != 0 { &legal[..dice.below(legal.len() + 1)] } else { &[] };
        batch.push(position, value && choice != 1, asked);
    }
    batch
}

/// Weights with biases, means and variances that matter.
fn network(description: Description, seed: u64) -> Arc<Network> {
    let mut network = Network::random(description, seed).unwrap();
    let mut dice = Dice(seed ^ 77);
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
    // A map that neither clips nor scales, so that differences are those of the outputs.
    network.calibration.value.limit = 1e9;
    network.calibration.moves.limit = 1e9;
    Arc::new(network)
}

/// Largest difference, as a share of the spread of the expected scores.
fn difference(expected: &[f32], found: &[f32]) -> f32 {
    assert!(expected.len() == found.len());
    let spread = expected.iter().fold(1.0_f32, |spread, value| spread.max(value.abs()));
    expected.iter().zip(found).fold(0.0_f32, |worst, (a, b)| worst.max((a - b).abs())) / spread
}

/// `f32` differs by the order of summation only; bf16 keeps eight bits of every activation and weight.
fn tolerance(precision: Precision) -> f32 {
    match precision {
        Precision::F32 => 1e-4,
        Precision::Bf16 => 0.04,
        Precision::Int8 => 0.25,
    }
}

fn check(network: &Arc<Network>, count: usize, seed: u64) {
    let positions = positions(count, seed);
    let expected = Reference::new(Arc::clone(network)).evaluate(batch(network, &positions, seed)).unwrap();
    for (path, precision) in paths() {
        if precision == Precision::Int8 && !int8_holds(&network.description) {
            let options = CpuOptions { threads: 1, path: Some(path), precision: Some(precision) };
            assert!(CpuEvaluator::new(Arc::clone(network), options).is_err());
            continue;
        }
        let mut evaluator = evaluator(network, path, precision, 1);
        let found = evaluator.evaluate(batch(network, &positions, seed)).unwrap();
        for (expected, found) in
            [(&expected.scores.values, &found.scores.values), (&expected.scores.moves, &found.scores.moves)]
        {
            let difference = difference(expected, found);
            assert!(
                difference <= tolerance(precision),
                "{path} {precision} differs by {difference} on {:?}",
                network.description
            );
        }
    }
}

/// Int8 activations cannot be negative, and a last layer that is no convolution would be rounded.
fn int8_holds(description: &Description) -> bool {
    let relu = |layer: &Layer| match layer {
        Layer::Branches { activation, .. } | Layer::Conv { activation, .. } => {
            *activation == Activation::Relu
        }
    };
    description.trunk.iter().all(relu)
        && description.heads.iter().all(|head| match head.layers.split_last() {
            Some((Layer::Conv { .. }, body)) => body.iter().all(relu),
            _ => false,
        })
}

fn conv(kernel: usize, channels: usize, norm: bool, relu: bool) -> Layer {
    let activation = if relu { Activation::Relu } else { Activation::Identity };
    Layer::Conv { kernel, channels, padding: Padding::Same, norm, activation }
}

fn whole(channels: usize) -> Layer {
    Layer::Conv { kernel: 8, channels, padding: Padding::Valid, norm: true, activation: Activation::Relu }
}

#[test]
fn batch_first_networks_agree() {
    check(&network(Description::batch_first(&[HeadKind::Value, HeadKind::Moves]), 5), 40, 9);
}

#[test]
fn a_shared_trunk_agrees() {
    let mut description = Description::batch_first(&[HeadKind::Value, HeadKind::Moves]);
    // Heads that begin with different kernels look at different copies of the trunk's output.
    let body: Vec<Layer> = description.heads[0].layers.drain(..3).collect();
    description.heads[1].layers.drain(..3);
    description.heads[1].layers.insert(0, conv(5, 24, true, true));
    description.trunk = body;
    check(&network(description, 6), 20, 10);
}

#[test]
fn heads_without_a_plain_last_layer_agree() {
    let input = |channels| Layer::Branches {
        branches: vec![Branch { kernel: [3, 3], dilation: [1, 1], channels }],
        activation: Activation::Relu,
    };
    let description = Description {
        encoding: Encoding::BatchFirst15,
        trunk: Vec::new(),
        heads: vec![
            Head { kind: HeadKind::Value, layers: vec![input(40), whole(1)] },
            Head { kind: HeadKind::Moves, layers: vec![input(73)] },
        ],
    };
    check(&network(description, 8), 9, 12);
}

fn any_layer() -> impl Strategy<Value = Layer> {
    (prop_oneof![Just(1_usize), Just(3), Just(5), Just(7)], 1..70_usize, any::<bool>(), any::<bool>())
        .prop_map(|(kernel, channels, norm, relu)| conv(kernel, channels, norm, relu))
}

fn any_branches() -> impl Strategy<Value = Layer> {
    let branch = (1..5_usize, 1..5_usize, 1..4_usize, 1..4_usize, 1..90_usize).prop_map(
        |(rows, columns, rank_step, file_step, channels)| Branch {
            kernel: [rows, columns],
            dilation: [rank_step, file_step],
            channels,
        },
    );
    (prop::collection::vec(branch, 1..5), any::<bool>()).prop_map(|(branches, relu)| Layer::Branches {
        branches,
        activation: if relu { Activation::Relu } else { Activation::Identity },
    })
}

prop_compose! {
    fn any_description()(
        input in any_branches(),
        trunk in prop::collection::vec(any_layer(), 0..3),
        value in prop::collection::vec(any_layer(), 0..3),
        moves in prop::collection::vec(any_layer(), 0..3),
        width in 1..50_usize,
        last in prop_oneof![Just(1_usize), Just(3)],
        shared in any::<bool>(),
    ) -> Description {
        let mut value = value;
        value.extend([whole(width), conv(1, width + 3, true, true), conv(1, 1, false, false)]);
        let mut moves = moves;
        moves.push(conv(last, 73, false, false));
        let mut stem = vec![input];
        stem.extend(trunk);
        let trunk = if shared {
            stem
        } else {
            value.splice(0..0, stem.clone());
            moves.splice(0..0, stem);
            Vec::new()
        };
        Description {
            encoding: Encoding::BatchFirst15,
            trunk,
            heads: vec![
                Head { kind: HeadKind::Value, layers: value },
                Head { kind: HeadKind::Moves, layers: moves },
            ],
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 40, ..ProptestConfig::default() })]

    #[test]
    fn any_description_agrees(description in any_description(), seed in any::<u64>()) {
        check(&network(description, seed), 11, seed);
    }
}

/// A network small enough for many batches.
fn small() -> Arc<Network> {
    let stem = vec![
        Layer::Branches {
            branches: vec![
                Branch { kernel: [3, 3], dilation: [1, 1], channels: 20 },
                Branch { kernel: [2, 2], dilation: [2, 4], channels: 9 },
            ],
            activation: Activation::Relu,
        },
        conv(3, 17, true, true),
    ];
    let description = Description {
        encoding: Encoding::BatchFirst15,
        trunk: stem,
        heads: vec![
            Head { kind: HeadKind::Value, layers: vec![whole(5), conv(1, 1, false, false)] },
            Head { kind: HeadKind::Moves, layers: vec![conv(1, 73, false, false)] },
        ],
    };
    network(description, 3)
}

#[test]
fn scores_depend_neither_on_the_batch_nor_on_the_threads() {
    let network = small();
    let positions = positions(2000, 4);
    for (path, precision) in paths() {
        let all = evaluator(&network, path, precision, 1).evaluate(batch(&network, &positions, 1)).unwrap();
        for threads in [1, 2, 3] {
            let mut evaluator = evaluator(&network, path, precision, threads);
            for size in [1, 2, 3, 31, 33, 64, 100, 257, 1024, 1999, 2000] {
                // A consecutive part of the large batch, asked for on its own.
                let first = (size * 7) % (positions.len() - size + 1);
                let mut part = Batch::default();
                for query in &all.batch.queries[first..first + size] {
                    part.push_query(query, &all.batch.moves[query.move_range()]);
                }
                let moves = all.batch.queries[first].first_move as usize..;
                let found = evaluator.evaluate(part).unwrap();
                assert!(found.scores.values == all.scores.values[first..first + size]);
                assert!(found.scores.moves == all.scores.moves[moves][..found.scores.moves.len()]);
            }
        }
    }
}

#[test]
fn batches_come_back_in_order() {
    let network = small();
    let positions = positions(50, 4);
    for threads in [1, 2] {
        let mut evaluator = evaluator(&network, CpuPath::Portable, Precision::F32, threads);
        assert!(evaluator.wait().is_err());
        let sizes = [3, 0, 50, 1, 17, 0, 2];
        for size in sizes {
            evaluator.submit(batch(&network, &positions[..size], 5)).unwrap();
        }
        assert_eq!(evaluator.in_flight(), sizes.len());
        for size in sizes {
            let answered = evaluator.wait().unwrap();
            assert_eq!((answered.batch.len(), answered.scores.values.len()), (size, size));
        }
        assert_eq!(evaluator.in_flight(), 0);
    }
}

#[test]
fn impossible_questions_are_refused() {
    let network = network(Description::batch_first(&[HeadKind::Value]), 5);
    let mut evaluator = evaluator(&network, CpuPath::Portable, Precision::F32, 1);
    let start = Position::default();
    let mut wrong = Batch::default();
    wrong.push(&start, true, &start.legal_moves());
    assert!(evaluator.submit(wrong).is_err());
    let mut broken = Batch::default();
    broken.push(&start, true, &[]);
    broken.queries[0].squares.0[3] = 16;
    assert!(evaluator.submit(broken).is_err());
    assert_eq!(evaluator.in_flight(), 0);
    let tiles = CpuOptions { path: Some(CpuPath::Amx), precision: Some(Precision::F32), threads: 1 };
    assert!(CpuEvaluator::new(network, tiles).is_err());
}
