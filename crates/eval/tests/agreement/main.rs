//! Every code path says what the plain reference says, for odd shapes and any batch size.

#![allow(clippy::unwrap_used, reason = "the helpers of tests are tests")]

mod descriptions;

use std::{collections::HashMap, fmt::Display, path::Path, sync::Arc};

use board::{Color, Position};
use descriptions::{any_architecture, any_description};
use eval::{
    Batch, EvalError, Evaluator, Precision,
    cpu::{CpuEvaluator, CpuLogits, CpuOptions, CpuPath, observe_ranges},
    reference::{self, Reference},
};
use nets::{
    Activation, Branch, Cockfish, ConvChess, Description, Encoding, Head, HeadKind, Layer, Network,
    Padding, Pooling, Squares,
};
use proptest::{
    prelude::*,
    strategy::ValueTree,
    test_runner::{RngAlgorithm, TestRng, TestRunner},
};

/// Every (path, precision) that this machine can run.
fn paths() -> Vec<(CpuPath, Precision)> {
    let all = CpuPath::ALL
        .into_iter()
        .flat_map(|path| Precision::OF_PROCESSORS.map(|precision| (path, precision)));
    // Int8 looks at 256 positions before it begins: too long under Miri.
    all.filter(|&(path, precision)| path.obstacle(precision).is_none())
        .filter(|&(_, precision)| !(cfg!(miri) && precision == Precision::Int8))
        .collect()
}

fn evaluator(
    network: &Arc<Network>,
    path: CpuPath,
    precision: Precision,
    threads: usize,
) -> CpuEvaluator {
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

/// Why scores may differ.
#[derive(Clone, Copy, Debug)]
enum Difference {
    /// The order of summation, in `f32`.
    Order,
    /// The same in bf16: where it moves a sum across the middle between two numbers, the other one
    /// is stored.
    OrderOfBf16,
    /// Eight bits of every activation and weight, against `f32`.
    Bf16,
    /// The same for random networks: a few in a thousand lose more than 3 %, one whose value passes
    /// through a single number 5.5 %.
    Bf16OfAny,
    /// Activations and weights in 256 steps, against `f32`.
    Int8,
    /// The same for a random network's value. It is one number of few, narrow layers, whose rounded
    /// weights shift it in every position alike: of 1,428 networks five are off by 10 to 13.5 % on
    /// AVX2, where weights have fewer steps, and two by 8 to 9.4 % on AVX-512.
    Int8ValueOfAny,
}

impl Difference {
    /// The most that the root mean square of the differences may be, as a share of that of the
    /// expected scores, and the largest difference as a share of the largest score. Of single
    /// outputs near zero bf16 and int8 keep little; the second bound only finds scores that are
    /// somebody else's.
    ///
    /// Seen on hundreds of random networks, but of those that nobody would train: at most 8e-6 and
    /// 1.1e-5, 0.0032 and 0.008, 0.028 and 0.054, 0.062 and 0.088.
    fn limits(self) -> (f64, f64) {
        match self {
            Self::Order => (3e-5, 1e-4),
            Self::OrderOfBf16 => (0.01, 0.05),
            Self::Bf16 => (0.03, 0.2),
            Self::Bf16OfAny => (0.08, 0.2),
            Self::Int8 => (0.1, 0.3),
            Self::Int8ValueOfAny => (0.2, 0.5),
        }
    }
}

/// Returns the root mean square of the differences, as the share that is limited.
fn assert_close(expected: &[f32], found: &[f32], why: Difference, what: impl Display) -> f64 {
    assert_eq!(expected.len(), found.len(), "{what}");
    let root_mean_square =
        |sum: f64| if expected.is_empty() { 0.0 } else { (sum / expected.len() as f64).sqrt() };
    let square = |value: f32| f64::from(value) * f64::from(value);
    let differences =
        || expected.iter().zip(found).map(|(expected, found)| (expected - found).abs());
    let spread = root_mean_square(expected.iter().copied().map(square).sum()).max(1.0);
    let typical = root_mean_square(differences().map(square).sum()) / spread;
    let largest = f64::from(differences().fold(0.0, f32::max))
        / f64::from(expected.iter().fold(1.0_f32, |largest, value| largest.max(value.abs())));
    let (typical_limit, largest_limit) = why.limits();
    assert!(
        typical <= typical_limit && largest <= largest_limit,
        "{why:?}: {typical} instead of {typical_limit} (largest {largest}): {what}"
    );
    typical
}

/// Outputs of every path that can run the network: `f32` and int8 are held to the reference in
/// `f32`, bf16 to plain Rust in bf16 and, as far as `[bf16, int8]` say, to the reference.
fn compare(
    network: &Network,
    [bf16, int8]: [Difference; 2],
    expected: &[f32],
    outputs: impl Fn(CpuPath, Precision) -> Result<Vec<f32>, EvalError>,
    what: &str,
) {
    let plain = outputs(CpuPath::Portable, Precision::Bf16).unwrap();
    for (path, precision) in paths() {
        let what = format!("{path} {what} on {:?}", network.description);
        let found = outputs(path, precision);
        if precision == Precision::Int8 && !int8_holds(&network.description) {
            assert!(found.is_err(), "{what}");
            continue;
        }
        let found = found.unwrap();
        match precision {
            Precision::F32 => assert_close(expected, &found, Difference::Order, &what),
            Precision::Int8 => assert_close(expected, &found, int8, &what),
            Precision::F16 | Precision::Bf16 => {
                assert_close(&plain, &found, Difference::OrderOfBf16, &what);
                assert_close(expected, &found, bf16, &what)
            }
        };
    }
}

/// Scores of a batch; `any`: of a network that nobody would train.
fn compare_scores(network: &Arc<Network>, count: usize, seed: u64, any: bool) {
    let positions = positions(count, seed);
    let ask = || batch(network, &positions, seed);
    let expected = Reference::new(Arc::clone(network)).evaluate(ask()).unwrap().scores;
    for (kind, expected) in
        [(HeadKind::Value, &expected.values), (HeadKind::Moves, &expected.moves)]
    {
        let outputs = |path, precision| {
            let options = CpuOptions { threads: 1, path: Some(path), precision: Some(precision) };
            let scores = CpuEvaluator::new(Arc::clone(network), options)?.evaluate(ask())?.scores;
            Ok(if kind == HeadKind::Value { scores.values } else { scores.moves })
        };
        let limits = match (any, kind) {
            (false, _) => [Difference::Bf16, Difference::Int8],
            (true, HeadKind::Value) => [Difference::Bf16OfAny, Difference::Int8ValueOfAny],
            (true, _) => [Difference::Bf16OfAny, Difference::Int8],
        };
        compare(network, limits, expected, outputs, kind.name());
    }
}

fn check(network: &Arc<Network>, count: usize, seed: u64) {
    compare_scores(network, count, seed, false);
}

/// Raw outputs of every head agree too, those that no search asks for among them.
fn check_logits(network: &Arc<Network>, count: usize, seed: u64) {
    let boards: Vec<_> =
        positions(count, seed).iter().map(|at| (Squares::of(at), at.turn())).collect();
    for kind in network.description.heads.iter().map(|head| head.kind) {
        let logits = |(squares, turn): &(Squares, _)| {
            reference::run(network, squares, *turn).unwrap()[&kind].clone()
        };
        let expected: Vec<f32> = boards.iter().flat_map(logits).collect();
        let outputs = |path, precision| {
            let options = CpuOptions { threads: 1, path: Some(path), precision: Some(precision) };
            CpuLogits::new(Arc::clone(network), options)?.logits(&boards, kind)
        };
        compare(network, [Difference::Bf16, Difference::Int8], &expected, outputs, kind.name());
    }
}

/// Int8 activations cannot be negative, and a last layer that is no convolution would be rounded.
fn int8_holds(description: &Description) -> bool {
    fn holds(layer: &Layer) -> bool {
        match layer {
            Layer::Branches { activation, .. }
            | Layer::Conv { activation, .. }
            | Layer::Dense { activation, .. } => *activation == Activation::Relu,
            Layer::Residual { layers, activation } => {
                let (last, body) = layers.split_last().unwrap();
                let sum = matches!(
                    last,
                    Layer::Conv { activation: Activation::Identity, .. }
                        | Layer::Dense { activation: Activation::Identity, .. }
                );
                *activation == Activation::Relu && body.iter().all(holds) && (sum || holds(last))
            }
            Layer::Pool { .. } | Layer::AppendMean => true,
        }
    }
    description.trunk.iter().all(holds)
        && description.heads.iter().all(|head| match head.layers.split_last() {
            Some((Layer::Conv { .. } | Layer::Dense { .. }, body)) => body.iter().all(holds),
            _ => false,
        })
}

fn conv(kernel: usize, channels: usize, norm: bool, relu: bool) -> Layer {
    let activation = if relu { Activation::Relu } else { Activation::Identity };
    Layer::Conv { kernel, channels, padding: Padding::Same, norm, activation }
}

fn whole(channels: usize) -> Layer {
    Layer::Conv {
        kernel: 8,
        channels,
        padding: Padding::Valid,
        norm: true,
        activation: Activation::Relu,
    }
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
fn long_tails_of_heads_leave_the_bodies_of_others_alone() {
    let stem = Layer::Branches {
        branches: vec![Branch { kernel: [3, 3], dilation: [1, 1], channels: 32 }],
        norm: true,
        activation: Activation::Relu,
    };
    let dense = |channels| Layer::Dense { channels, norm: false, activation: Activation::Relu };
    let out = |channels| Layer::Dense { channels, norm: false, activation: Activation::Identity };
    // The body of the second head, its pool, is as large as what the tail of the first one
    // computes.
    let pool = Layer::Pool { pooling: Pooling::Average, size: 8 };
    let heads = vec![
        Head { kind: HeadKind::Value, layers: vec![dense(32), dense(32), out(1)] },
        Head { kind: HeadKind::Moves, layers: vec![pool, dense(32), out(64 * 73)] },
    ];
    let description = Description { encoding: Encoding::BatchFirst15, trunk: vec![stem], heads };
    check(&network(description, 4), 40, 4);
}

#[test]
fn what_a_block_adds_is_kept_however_small_its_weights() {
    let relu = |layers| Layer::Residual { layers, activation: Activation::Relu };
    let block = relu(vec![conv(3, 24, false, true), conv(3, 24, false, false)]);
    let value = vec![conv(3, 24, true, true), block, whole(8), conv(1, 1, false, false)];
    let stem = Layer::Branches {
        branches: vec![Branch { kernel: [3, 3], dilation: [1, 1], channels: 24 }],
        norm: true,
        activation: Activation::Relu,
    };
    let layers = std::iter::once(stem).chain(value).collect();
    let heads = vec![Head { kind: HeadKind::Value, layers }];
    let mut network = Arc::unwrap_or_clone(network(
        Description { encoding: Encoding::BatchFirst15, trunk: vec![], heads },
        6,
    ));
    let last = network
        .tensors
        .keys()
        .rfind(|name| name.starts_with("value.2.") && name.ends_with("weight"));
    let last = last.cloned().unwrap();
    for factor in [1e-10, 0.0] {
        network
            .tensors
            .get_mut(&last)
            .unwrap()
            .data
            .iter_mut()
            .for_each(|weight| *weight *= factor);
        check(&Arc::new(network.clone()), 40, 6);
    }
}

#[test]
fn heads_without_a_plain_last_layer_agree() {
    let input = |channels| Layer::Branches {
        branches: vec![Branch { kernel: [3, 3], dilation: [1, 1], channels }],
        norm: true,
        activation: Activation::Relu,
    };
    let description =
        Description::value_and_moves(Vec::new(), vec![input(40), whole(1)], vec![input(73)]);
    check(&network(description, 8), 9, 12);
}

#[test]
fn cockfish_agrees() {
    let published = Description::cockfish(&Cockfish::default());
    assert_eq!(
        published.multiply_adds(),
        Ok(64 * 13 * 9 * 64 + 8 * 64 * 9 * 64 * 64 + 8192 * 256 + 256 * 128 + 128)
    );
    check(&network(published, 21), 9, 31);
    for (seed, activation) in
        (22..).zip([Activation::Gelu, Activation::Silu, Activation::LeakyRelu, Activation::Tanh])
    {
        let choice = Cockfish { filters: 40, blocks: 2, activation, global_mean: seed % 2 == 0 };
        let mut description = Description::cockfish(&choice);
        // A last tanh would hide the size of the outputs, which errors are compared with.
        description.heads[0].layers.pop();
        description.heads[0].layers.push(conv(1, 1, false, false));
        check(&network(description, seed), 9, seed);
    }
}

#[test]
fn values_meant_for_white_are_turned_for_black() {
    let network = network(
        Description::cockfish(&Cockfish { filters: 8, blocks: 1, ..Cockfish::default() }),
        2,
    );
    let mut batch = Batch::default();
    let positions = positions(20, 3);
    positions.iter().for_each(|position| batch.push(position, true, &[]));
    let scores =
        evaluator(&network, CpuPath::Portable, Precision::F32, 1).evaluate(batch).unwrap().scores;
    for (position, value) in positions.iter().zip(scores.values) {
        let whites = reference::run(&network, &Squares::of(position), position.turn()).unwrap();
        let whites = whites[&HeadKind::Value][0];
        assert!((value - if position.turn().is_white() { whites } else { -whites }).abs() < 1e-4);
    }
}

#[test]
fn convchess_agrees() {
    let kinds = [HeadKind::From, HeadKind::PawnTo, HeadKind::KingTo];
    for (convolutions, pools) in [(3, 3), (3, 0), (2, 1), (1, 0)] {
        let description = Description::convchess(
            &ConvChess { convolutions, pools, ..ConvChess::default() },
            &kinds,
        );
        check_logits(&network(description, 41), 40, 42);
    }
}

#[test]
fn any_architecture_agrees() {
    for seed in 0..40 {
        let network = network(any_architecture(seed), seed);
        check(&network, 19, seed);
        check_logits(&network, 19, seed);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 40, ..ProptestConfig::default() })]

    #[test]
    fn any_description_agrees(description in any_description(), seed in any::<u64>()) {
        compare_scores(&network(description, seed), 11, seed, true);
    }
}

/// The same limit as for everybody, and a mean, for the values of networks that are always the
/// same: what a network drawn anew may exceed by chance, these do not.
#[test]
fn int8_keeps_the_values_of_random_networks() {
    const NETWORKS: usize = 48;
    let mut runner = TestRunner::new_with_rng(
        ProptestConfig::default(),
        TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]),
    );
    let relu = |layer: &mut Layer| {
        if let Layer::Branches { activation, .. } | Layer::Conv { activation, .. } = layer {
            *activation = Activation::Relu;
        }
    };
    let mut shares: HashMap<CpuPath, Vec<f64>> = HashMap::new();
    for _ in 0..NETWORKS {
        let (mut description, seed) =
            (any_description(), any::<u64>()).new_tree(&mut runner).unwrap().current();
        description.trunk.iter_mut().for_each(relu);
        for head in &mut description.heads {
            let inner = head.layers.len() - 1;
            head.layers[..inner].iter_mut().for_each(relu);
        }
        let network = network(description, seed);
        let positions = positions(11, seed);
        let ask = || batch(&network, &positions, seed);
        let expected = Reference::new(Arc::clone(&network)).evaluate(ask()).unwrap().scores.values;
        for (path, precision) in paths() {
            if precision == Precision::Int8 {
                let found =
                    evaluator(&network, path, precision, 1).evaluate(ask()).unwrap().scores.values;
                let share = assert_close(&expected, &found, Difference::Int8, path);
                shares.entry(path).or_default().push(share);
            }
        }
    }
    for (path, shares) in shares {
        let mean = shares.iter().sum::<f64>() / shares.len() as f64;
        assert!(mean < 0.03, "{path}: {mean}");
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
            norm: true,
            activation: Activation::Relu,
        },
        conv(3, 17, true, true),
    ];
    let value = vec![whole(5), conv(1, 1, false, false)];
    network(Description::value_and_moves(stem, value, vec![conv(1, 73, false, false)]), 3)
}

#[test]
fn scores_depend_neither_on_the_batch_nor_on_the_threads() {
    let network = small();
    let positions = positions(2000, 4);
    for (path, precision) in paths() {
        let all = evaluator(&network, path, precision, 1)
            .evaluate(batch(&network, &positions, 1))
            .unwrap();
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

/// Small enough for Miri (`just miri`): every kind of layer, few channels, few boards.
#[test]
fn a_tiny_network_agrees() {
    let branches = vec![Branch { kernel: [3, 2], dilation: [2, 1], channels: 5 }];
    let residual =
        Layer::Residual { layers: vec![conv(3, 5, false, false)], activation: Activation::Relu };
    let trunk =
        vec![Layer::Branches { branches, norm: true, activation: Activation::Relu }, residual];
    let pool = |pooling| Layer::Pool { pooling, size: 2 };
    let dense = |channels| Layer::Dense { channels, norm: false, activation: Activation::Relu };
    let value = vec![
        Layer::AppendMean,
        pool(Pooling::Max),
        conv(3, 3, true, true),
        pool(Pooling::Average),
        dense(7),
        conv(1, 1, false, false),
    ];
    let moves = vec![conv(1, 73, false, false)];
    check(&network(Description::value_and_moves(trunk, value, moves), 9), 2, 9);
}

/// Weights are rounded; what that shifts on average, the biases take back. Cockfish's value is
/// White's: for the mover a shift changes its sign with the side to move.
#[test]
fn rounded_weights_shift_nothing() {
    if CpuPath::Avx2.obstacle(Precision::Int8).is_some() {
        return;
    }
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../networks/cockfish.safetensors");
    let network = Arc::new(Network::load(Path::new(file)).unwrap());
    let mut asked = Batch::default();
    positions(300, 11).iter().for_each(|position| asked.push(position, true, &[]));
    let [exact, rounded] = [Precision::F32, Precision::Int8].map(|precision| {
        evaluator(&network, CpuPath::Avx2, precision, 1)
            .evaluate(asked.clone())
            .unwrap()
            .scores
            .values
    });
    let shift = |turn: Color| {
        let of_turn = asked
            .queries
            .iter()
            .zip(exact.iter().zip(&rounded))
            .filter(|(query, _)| query.turn == turn);
        let shifts: Vec<f32> = of_turn.map(|(_, (exact, rounded))| rounded - exact).collect();
        shifts.iter().sum::<f32>() / shifts.len() as f32
    };
    let shifts = [Color::White, Color::Black].map(shift);
    assert!(shifts.iter().all(|shift| shift.abs() < 15.0), "{shifts:?} centipawns");
}

#[test]
fn a_network_that_knows_its_ranges_is_computed_in_integers_unasked() {
    if CpuPath::Avx2.obstacle(Precision::Int8).is_some() {
        return;
    }
    let plain = small();
    let ranges = observe_ranges(&plain).unwrap();
    let ranged = Arc::new(Network { int8_ranges: Some(ranges.clone()), ..(*plain).clone() });
    let unasked = |network: &Arc<Network>| {
        let options = CpuOptions { path: Some(CpuPath::Avx2), ..CpuOptions::default() };
        CpuEvaluator::new(Arc::clone(network), options)
    };
    let mut found = unasked(&ranged).unwrap();
    assert_eq!(found.choice().precision, Precision::Int8);
    assert_eq!(unasked(&plain).unwrap().choice().precision, Precision::F32);
    // What the file says is what would be observed at load.
    let mut observed = evaluator(&plain, CpuPath::Avx2, Precision::Int8, 1);
    let asked = batch(&plain, &positions(40, 3), 3);
    let scores = found.evaluate(asked.clone()).unwrap().scores;
    assert!(scores == observed.evaluate(asked).unwrap().scores);
    // A file that knows too few or too many is refused with a sentence.
    for wrong in [ranges[1..].to_vec(), [ranges, vec![1.0]].concat()] {
        let short = Arc::new(Network { int8_ranges: Some(wrong), ..(*plain).clone() });
        let error = unasked(&short).unwrap_err().to_string();
        assert!(error.contains("net quantise"), "{error}");
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
    let tiles =
        CpuOptions { path: Some(CpuPath::Amx), precision: Some(Precision::F32), threads: 1 };
    assert!(CpuEvaluator::new(network, tiles).is_err());
}
