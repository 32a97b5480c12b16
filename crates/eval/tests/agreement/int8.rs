//! Eight-bit integers: accuracy on random networks, bias compensation, ranges of activations.

use std::{collections::HashMap, path::Path, sync::Arc};

use board::{Color, testing::skip};
use eval::{
    Batch, Evaluator, Precision,
    cpu::{CpuEvaluator, CpuOptions, CpuPath, observe_ranges},
    reference::Reference,
};
use nets::{Activation, Layer, Network};
use proptest::{
    prelude::*,
    strategy::ValueTree,
    test_runner::{RngAlgorithm, TestRng, TestRunner},
};

use crate::{
    descriptions::any_description,
    inputs::{batch, evaluator, network, paths, positions, small},
    tolerance::{Difference, assert_close},
};

/// Why tests of int8 are skipped.
const NO_INT8: &str = "no path of this processor computes in int8";

/// Networks of fixed seeds, which keep the ordinary limit and a limit of the mean. Networks of other
/// seeds may exceed them by chance.
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

/// The biases compensate the mean error of rounded weights. Cockfish's value is White's, so for the
/// mover a shift changes its sign with the side to move.
#[test]
fn rounded_weights_shift_nothing() {
    let Some(path) = CpuPath::least_exact_in_int8() else {
        return skip("rounded_weights_shift_nothing", NO_INT8);
    };
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../networks/cockfish.safetensors");
    let network = Arc::new(Network::load(Path::new(file)).unwrap());
    let mut asked = Batch::default();
    positions(300, 11).iter().for_each(|position| asked.push(position, true, &[]));
    let [exact, rounded] = [Precision::F32, Precision::Int8].map(|precision| {
        evaluator(&network, path, precision, 1).evaluate(asked.clone()).unwrap().scores.values
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
    let Some(path) = CpuPath::least_exact_in_int8() else {
        return skip("a_network_that_knows_its_ranges_is_computed_in_integers_unasked", NO_INT8);
    };
    let plain = small();
    let ranges = observe_ranges(&plain).unwrap();
    let ranged = Arc::new(Network { int8_ranges: Some(ranges.clone()), ..(*plain).clone() });
    let unasked = |network: &Arc<Network>| {
        let options = CpuOptions { path: Some(path), ..CpuOptions::default() };
        CpuEvaluator::new(Arc::clone(network), options)
    };
    let mut found = unasked(&ranged).unwrap();
    assert_eq!(found.choice().precision, Precision::Int8);
    assert_eq!(unasked(&plain).unwrap().choice().precision, Precision::F32);
    // The ranges in the file equal those that are observed at load.
    let mut observed = evaluator(&plain, path, Precision::Int8, 1);
    let asked = batch(&plain, &positions(40, 3), 3);
    let scores = found.evaluate(asked.clone()).unwrap().scores;
    assert!(scores == observed.evaluate(asked).unwrap().scores);
    // A file with too few or too many ranges is refused.
    for wrong in [ranges[1..].to_vec(), [ranges, vec![1.0]].concat()] {
        let short = Arc::new(Network { int8_ranges: Some(wrong), ..(*plain).clone() });
        let error = unasked(&short).unwrap_err().to_string();
        assert!(error.contains("net quantise"), "{error}");
    }
}
