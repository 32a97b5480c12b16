//! How far scores may be from the reference, and the comparison.

use std::{fmt::Display, sync::Arc};

use eval::{
    EvalError, Evaluator, Precision,
    cpu::{CpuEvaluator, CpuLogits, CpuOptions, CpuPath},
    reference::{self, Reference},
};
use nets::{Activation, Description, HeadKind, Layer, Network, Squares};

use crate::inputs::{batch, paths, positions};

/// Why scores may differ.
#[derive(Clone, Copy, Debug)]
pub enum Difference {
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
    /// outputs near zero bf16 and int8 keep little; the second bound only finds scores of
    /// another position.
    ///
    /// Seen on hundreds of random networks, but of those that nobody would train: at most 8e-6 and
    /// 1.1e-5, 0.0032 and 0.008, 0.028 and 0.054, 0.062 and 0.088.
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

/// Returns the root mean square of the differences, as the share that is limited.
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

/// Outputs of every path that can run the network: `f32` and int8 are held to the reference in
/// `f32`, bf16 to plain Rust in bf16 and, as far as `[bf16, int8]` say, to the reference.
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

/// Scores of a batch; `any`: of a randomly drawn architecture.
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

/// Raw outputs of every head agree too, those that no search asks for among them.
pub fn check_logits(network: &Arc<Network>, count: usize, seed: u64) {
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
pub fn int8_holds(description: &Description) -> bool {
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
