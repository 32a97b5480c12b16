//! Comparison of scores with the reference, and the limits of their differences.

use std::{fmt::Display, sync::Arc};

use eval::{
    Batch, EvalError, Evaluator, Precision,
    cpu::{CpuEvaluator, CpuLogits, CpuOptions, CpuPath},
    reference::{self, Reference},
};
use nets::{Activation, Description, HeadKind, Layer, Network};

use crate::inputs::{batch, paths, positions};

/// Why scores may differ from the reference.
#[derive(Clone, Copy, Debug)]
pub enum Difference {
    /// The order of summation, in `f32`.
    Order,
    /// The order of summation, in bf16. It can change a sum so that it rounds to the next number.
    OrderOfBf16,
    /// bf16 activations and weights, which have eight significant bits, against `f32`.
    Bf16,
    /// The same for networks of random architecture. A few in a thousand differ by more than 3 %; one
    /// whose value depends on a single activation differs by 5.5 %.
    Bf16OfAny,
    /// int8 activations and weights against `f32`.
    Int8,
    /// The same for the value of a network of random architecture. The rounded weights of its few,
    /// narrow layers shift the value of all positions: of 1,428 networks five differ by 10 to 13.5 %
    /// on AVX2, where weights have fewer steps, and two by 8 to 9.4 % on AVX-512.
    Int8ValueOfAny,
}

impl Difference {
    /// Two limits: for the root mean square of the differences, as a share of that of the expected
    /// scores, and for the largest difference, as a share of the largest score. Outputs near zero
    /// have large relative errors in bf16 and int8, so the second limit only detects scores of
    /// another position.
    ///
    /// The largest values on hundreds of random networks of usual architecture are 8e-6 and 1.1e-5,
    /// 0.0032 and 0.008, 0.028 and 0.054, 0.062 and 0.088.
    pub fn limits(self) -> (f64, f64) {
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

/// Checks the limits. Returns the root mean square of the differences, as a share of that of the
/// expected scores.
pub fn assert_close(expected: &[f32], found: &[f32], why: Difference, what: impl Display) -> f64 {
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

/// Compares the outputs of every path that can run the network with the reference, and those in
/// bf16 also with plain Rust in bf16. `[bf16, int8]` are the limits of these formats.
pub fn compare(
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

/// Compares the scores of a batch. `any` says that the architecture is random.
pub fn compare_scores(network: &Arc<Network>, count: usize, seed: u64, any: bool) {
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

pub fn check(network: &Arc<Network>, count: usize, seed: u64) {
    compare_scores(network, count, seed, false);
}

/// Compares the raw outputs of every head, including heads that no search uses.
pub fn check_logits(network: &Arc<Network>, count: usize, seed: u64) {
    let mut boards = Batch::default();
    positions(count, seed).iter().for_each(|position| boards.push(position, true, &[]));
    for kind in network.description.heads.iter().map(|head| head.kind) {
        let logits = |query| {
            reference::run_heads(network, &boards.seen(query), &[kind]).unwrap()[&kind].clone()
        };
        let expected: Vec<f32> = (0..count).flat_map(logits).collect();
        let outputs = |path, precision| {
            let options = CpuOptions { threads: 1, path: Some(path), precision: Some(precision) };
            CpuLogits::new(Arc::clone(network), options)?.logits_of(&boards, kind)
        };
        compare(network, [Difference::Bf16, Difference::Int8], &expected, outputs, kind.name());
    }
}

/// Can int8 run the network? Its activations cannot be negative, and a last layer that is no
/// convolution would be rounded. An input layer of single squares in front of a dense layer is part
/// of that layer, which may square its sums.
pub fn int8_holds(description: &Description) -> bool {
    fn holds(layer: &Layer) -> bool {
        match layer {
            Layer::Branches { activation, .. }
            | Layer::Conv { activation, .. }
            | Layer::Dense { activation, .. } => *activation == Activation::Relu,
            Layer::Residual { layers, activation } => {
                let (mut last, mut body) = layers.split_last().unwrap();
                if matches!(last, Layer::SqueezeExcite { .. }) {
                    // It reads outputs of either sign.
                    let Some(before) = body.split_last() else {
                        return *activation == Activation::Relu;
                    };
                    (last, body) = before;
                }
                let sum = matches!(
                    last,
                    Layer::Conv { activation: Activation::Identity, .. }
                        | Layer::Dense { activation: Activation::Identity, .. }
                );
                *activation == Activation::Relu && body.iter().all(holds) && (sum || holds(last))
            }
            Layer::Pool { .. } | Layer::AppendMean => true,
            Layer::SqueezeExcite { .. }
            | Layer::Gate { .. }
            | Layer::LayerNorm { .. }
            | Layer::Attention(_)
            | Layer::BoardEmbedding { .. }
            | Layer::MoveAttention { .. } => false,
        }
    }
    fn all_hold(layers: &[Layer]) -> bool {
        let Some([_, board]) = Layer::whole_board(layers) else { return layers.iter().all(holds) };
        let squares = matches!(
            board,
            Layer::Conv { activation: Activation::SquaredRelu, .. }
                | Layer::Dense { activation: Activation::SquaredRelu, .. }
        );
        layers.iter().skip(if squares { 2 } else { 1 }).all(holds)
    }
    all_hold(&description.trunk)
        && description.heads.iter().all(|head| match head.layers.split_last() {
            Some((Layer::Conv { .. } | Layer::Dense { .. }, body)) => all_hold(body),
            _ => false,
        })
}
