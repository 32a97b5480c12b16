//! Tests on the first device: hardware, or Mesa's software Vulkan (Debian: mesa-vulkan-drivers).

mod leela;

use board::Position;
use nets::{
    Activation, BatchFirstResidual, Branch, Cockfish, Description, Encoding, Head, HeadKind, Layer,
    Padding, Pooling,
};

use super::*;
use crate::{
    Precision, Scores,
    cpu::{CpuEvaluator, CpuOptions},
    reference::Reference,
};

fn device() -> DeviceName {
    let devices = list();
    devices.first().expect("these tests need a device; Debian's mesa-vulkan-drivers is one").name
}

fn evaluator(network: &Arc<Network>, precision: Option<Precision>) -> GpuEvaluator {
    let options = GpuOptions { devices: vec![device()], precision, preferred_batch: Some(128) };
    GpuEvaluator::new(Arc::clone(network), &options).unwrap()
}

/// Positions of a game of arbitrary moves, with those before them: both sides to move, en-passant
/// targets, promotions and lost castling rights.
fn positions(count: usize) -> Vec<Position> {
    let mut list = Vec::new();
    let mut position = Position::default().remembering();
    for step in 0..count {
        list.push(position.clone());
        let moves = position.legal_moves();
        if moves.is_empty() {
            position = Position::default().remembering();
        } else {
            position.play(moves[step * 7 % moves.len()]);
        }
    }
    list
}

/// A batch that asks for the value of each position and the moves of every second one.
fn batch(network: &Network, positions: &[Position]) -> Batch {
    let has = |kind| network.description.head(kind).is_some();
    let mut batch = Batch::default();
    for (at, position) in positions.iter().enumerate() {
        let moves = position.legal_moves();
        let asked = if has(HeadKind::Moves) && at % 2 == 0 { moves.as_slice() } else { &[] };
        batch.push(position, has(HeadKind::Value), asked);
    }
    batch
}

fn agrees(network: Network, tolerance: f32) {
    agrees_on(&positions(40), network, tolerance);
}

fn agrees_on(positions: &[Position], network: Network, tolerance: f32) {
    let network = Arc::new(network);
    let mut found = evaluator(&network, Some(Precision::F32));
    let expected =
        Reference::new(Arc::clone(&network)).evaluate(batch(&network, positions)).unwrap().scores;
    let found = found.evaluate(batch(&network, positions)).unwrap().scores;
    for (expected, found) in [(&expected.values, &found.values), (&expected.moves, &found.moves)] {
        assert_eq!(expected.len(), found.len());
        let largest = expected.iter().fold(1e-3_f32, |most, score| most.max(score.abs()));
        for (expected, found) in expected.iter().zip(found) {
            assert!(
                (expected - found).abs() <= tolerance * largest,
                "{found} instead of {expected}"
            );
        }
    }
}

#[test]
fn the_networks_of_2018_agree_with_plain_arithmetic() {
    agrees(
        Network::random(Description::batch_first(&[HeadKind::Value, HeadKind::Moves]), 1).unwrap(),
        1e-4,
    );
}

#[test]
fn residual_blocks_and_means_agree_with_plain_arithmetic() {
    let description =
        Description::batch_first_residual(&BatchFirstResidual { filters: 32, blocks: 2 });
    agrees(Network::random(description, 2).unwrap(), 1e-4);
}

#[test]
fn cockfish_sees_the_board_from_whites_side() {
    let small = Cockfish { filters: 16, blocks: 1, ..Cockfish::default() };
    agrees(Network::random(Description::cockfish(&small), 3).unwrap(), 1e-4);
}

#[test]
fn attackers_are_found_on_the_device() {
    let residual =
        Description::batch_first_residual(&BatchFirstResidual { filters: 16, blocks: 1 });
    for encoding in [Encoding::Attacks21, Encoding::KingRight21] {
        let description = Description { encoding, ..residual.clone() };
        agrees_on(&positions(300), Network::random(description, 3).unwrap(), 1e-4);
    }
}

#[test]
fn every_other_layer_agrees_with_plain_arithmetic() {
    let branch =
        |kernel: [usize; 2], dilation: [usize; 2]| Branch { kernel, dilation, channels: 6 };
    let conv = |kernel, channels, activation| Layer::Conv {
        kernel,
        channels,
        padding: Padding::Same,
        norm: true,
        activation,
    };
    let layers = vec![
        Layer::Branches {
            branches: vec![branch([3, 3], [2, 2]), branch([2, 2], [2, 4]), branch([1, 1], [1, 1])],
            norm: false,
            activation: Activation::Gelu,
        },
        Layer::Pool { pooling: Pooling::Max, size: 2 },
        conv(3, 8, Activation::LeakyRelu),
        Layer::Pool { pooling: Pooling::Average, size: 2 },
        conv(1, 8, Activation::Silu),
        Layer::SqueezeExcite { channels: 4, activation: Activation::Mish },
        Layer::Dense { channels: 16, norm: true, activation: Activation::Tanh },
        Layer::Dense { channels: 1, norm: false, activation: Activation::Identity },
    ];
    let heads = vec![Head::plain(HeadKind::Value, layers)];
    let description = Description { encoding: Encoding::BatchFirst15, trunk: Vec::new(), heads };
    agrees(Network::random(description, 4).unwrap(), 1e-4);
}

#[test]
fn batches_of_any_size_are_returned_in_order() {
    let network = Arc::new(
        Network::random(
            Description::batch_first_residual(&BatchFirstResidual { filters: 16, blocks: 1 }),
            5,
        )
        .unwrap(),
    );
    let mut one = evaluator(&network, None);
    // The same device listed twice is run as two devices.
    let options =
        GpuOptions { devices: vec![device(); 2], precision: None, preferred_batch: Some(128) };
    let mut two = GpuEvaluator::new(Arc::clone(&network), &options).unwrap();
    assert_eq!(
        two.preferred_stream(),
        Stream {
            batch: 2 * 128,
            in_flight: 2 * one.preferred_stream().in_flight,
            moves_are_dear: false
        }
    );
    let alone: Vec<Scores> = [1, 130, 7]
        .map(|count| one.evaluate(batch(&network, &positions(count))).unwrap().scores)
        .into();
    for evaluator in [&mut one, &mut two] {
        for count in [1, 130, 7] {
            evaluator.submit(batch(&network, &positions(count))).unwrap();
        }
        assert_eq!(evaluator.in_flight(), 3);
        for expected in &alone {
            let found = evaluator.wait().unwrap();
            assert_eq!(found.batch.len(), expected.values.len());
            assert_eq!(&found.scores, expected);
        }
        assert!(matches!(evaluator.wait(), Err(EvalError::NothingInFlight)));
        assert!(evaluator.evaluate(Batch::default()).unwrap().scores.values.is_empty());
    }
}

#[test]
fn the_error_names_a_missing_device() {
    let network =
        Arc::new(Network::random(Description::batch_first(&[HeadKind::Value]), 6).unwrap());
    let options = GpuOptions {
        devices: vec![DeviceName::Wgpu(99)],
        precision: None,
        preferred_batch: Some(128),
    };
    let error = GpuEvaluator::new(network, &options).unwrap_err().to_string();
    assert!(error.contains("vulkan:99"), "{error}");
}

/// The positions of `tests/games/labelled.pgn` with Stockfish's evaluations, in centipawns for the
/// side to move: self-play of `batch-first label --games 140 --nodes 200 --max-plies 120`.
fn labelled() -> (Vec<Position>, Vec<f32>) {
    let (mut positions, mut labels) = (Vec::new(), Vec::new());
    let text = include_str!("../../tests/games/labelled.pgn");
    for moves in text.lines().filter(|line| !line.is_empty() && !line.starts_with('[')) {
        let mut position = Position::default();
        for word in
            moves.split(' ').filter(|word| !word.ends_with('.') && !["*", "{[%eval"].contains(word))
        {
            if let Some(pawns) = word.strip_suffix("]}") {
                let label = 100.0 * pawns.parse::<f32>().unwrap();
                labels.push(if position.turn().is_white() { label } else { -label });
                positions.push(position.clone());
            } else {
                position.play(board::parse_san(&position, word).unwrap());
            }
        }
    }
    (positions, labels)
}

/// Every n-th position, where n is `BATCH_FIRST_GPU_EVERY` or 1: software Vulkan evaluates some 60
/// positions a second.
fn sampled((positions, labels): (Vec<Position>, Vec<f32>)) -> (Vec<Position>, Vec<f32>) {
    assert!(positions.len() > 10_000);
    let every = std::env::var("BATCH_FIRST_GPU_EVERY").map_or(1, |n| n.parse().unwrap());
    (positions.into_iter().step_by(every).collect(), labels.into_iter().step_by(every).collect())
}

/// Kendall's tau-b.
fn tau_b(scores: &[f32], labels: &[f32]) -> f64 {
    let order = |values: &[f32], first: usize, second: usize| {
        i64::from(values[first] > values[second]) - i64::from(values[first] < values[second])
    };
    let (mut agreement, mut of_scores, mut of_labels) = (0, 0, 0);
    for first in 0..labels.len() {
        for second in 0..first {
            let (score, label) = (order(scores, first, second), order(labels, first, second));
            agreement += score * label;
            of_scores += score.abs();
            of_labels += label.abs();
        }
    }
    agreement as f64 / (of_scores as f64 * of_labels as f64).sqrt()
}

/// The values of positions and the scores of all their legal moves.
fn scores(evaluator: &mut dyn Evaluator, positions: &[Position]) -> Scores {
    let mut all = Scores::default();
    for part in positions.chunks(512) {
        let mut batch = Batch::default();
        part.iter().for_each(|position| batch.push(position, true, &position.legal_moves()));
        let scores = evaluator.evaluate(batch).unwrap().scores;
        all.values.extend(scores.values);
        all.moves.extend(scores.moves);
    }
    all
}

fn differences(found: &[f32], exact: &[f32]) -> (f32, f32) {
    assert_eq!(found.len(), exact.len());
    assert!(found.iter().all(|score| score.is_finite()));
    let each = found.iter().zip(exact).map(|(found, exact)| (found - exact).abs());
    let largest = each.clone().fold(0.0, f32::max);
    (each.sum::<f32>() / exact.len() as f32, largest)
}

/// A trained network (16 filters, one block) on positions of games. Its file says how it was trained.
#[test]
fn scores_and_ranking_of_played_positions_are_those_of_the_cpu() {
    let network = include_bytes!("../../tests/games/small.safetensors");
    let network = Arc::new(Network::from_bytes(network, "small").unwrap());
    let (positions, labels) = sampled(labelled());
    let options = CpuOptions { threads: 2, path: None, precision: Some(Precision::F32) };
    let exact = scores(&mut CpuEvaluator::new(Arc::clone(&network), options).unwrap(), &positions);
    let best = tau_b(&exact.values, &labels);
    for precision in [Some(Precision::F32), None] {
        let mut evaluator = evaluator(&network, precision);
        let found = scores(&mut evaluator, &positions);
        let (mean, largest) = differences(&found.values, &exact.values);
        let (moves_mean, moves_largest) = differences(&found.moves, &exact.moves);
        let fall = best - tau_b(&found.values, &labels);
        println!(
            "{}: values differ by {mean:.3} centipawns on average, {largest:.3} at most, the order of pairs by {fall:.6}; \
             logarithms of chances by {moves_mean:.5}, {moves_largest:.5}",
            evaluator.describe()
        );
        assert!(fall.abs() <= 0.001);
        // In half precision the last bit of an activation is worth more than the limits of f32.
        let limits = if precision.is_some() { [0.1, 0.001, 0.01] } else { [0.8, 0.002, 0.02] };
        let differences =
            [if precision.is_some() { largest } else { mean }, moves_mean, moves_largest];
        assert!(
            differences.iter().zip(limits).all(|(found, limit)| *found <= limit),
            "{differences:?}"
        );
        let far = found
            .values
            .iter()
            .zip(&exact.values)
            .filter(|(found, exact)| (*found - *exact).abs() > 2.0);
        let far = far.count();
        println!("{far} of {} values are off by more than two centipawns", positions.len());
        assert!(far * 100 <= positions.len());
    }
}
