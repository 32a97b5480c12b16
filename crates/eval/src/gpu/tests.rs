//! On whatever device is there: a card, or Mesa's software Vulkan (Debian: mesa-vulkan-drivers).

use board::Position;
use nets::{
    Activation, BatchFirstResidual, Branch, Cockfish, Description, Encoding, Head, Layer, Padding, Pooling,
};

use super::*;
use crate::reference::Reference;

fn device() -> DeviceName {
    let devices = list();
    devices.first().expect("these tests want a device; Debian's mesa-vulkan-drivers is one").name
}

fn evaluator(network: &Arc<Network>, precision: Option<GpuPrecision>) -> GpuEvaluator {
    let options = GpuOptions { devices: vec![device()], precision, preferred_batch: Some(128) };
    GpuEvaluator::new(Arc::clone(network), &options).unwrap()
}

/// Positions of a game without plan, both sides to move, with targets, promotions and lost castling rights among them.
fn positions(count: usize) -> Vec<Position> {
    let mut list = Vec::new();
    let mut position = Position::default();
    for step in 0..count {
        list.push(position.clone());
        let moves = position.legal_moves();
        if moves.is_empty() {
            position = Position::default();
        } else {
            position.play(moves[step * 7 % moves.len()]);
        }
    }
    list
}

/// Values for all, moves for every second position.
fn batch(network: &Network, count: usize) -> Batch {
    let has = |kind| network.description.head(kind).is_some();
    let mut batch = Batch::default();
    for (at, position) in positions(count).iter().enumerate() {
        let moves = position.legal_moves();
        let asked = if has(HeadKind::Moves) && at % 2 == 0 { moves.as_slice() } else { &[] };
        batch.push(position, has(HeadKind::Value), asked);
    }
    batch
}

fn agrees(network: Network, tolerance: f32) {
    let network = Arc::new(network);
    let mut found = evaluator(&network, Some(GpuPrecision::F32));
    let count = 40;
    let expected = Reference::new(Arc::clone(&network)).evaluate(batch(&network, count)).unwrap().scores;
    let found = found.evaluate(batch(&network, count)).unwrap().scores;
    for (expected, found) in [(&expected.values, &found.values), (&expected.moves, &found.moves)] {
        assert_eq!(expected.len(), found.len());
        let largest = expected.iter().fold(1e-3_f32, |most, score| most.max(score.abs()));
        for (expected, found) in expected.iter().zip(found) {
            assert!((expected - found).abs() <= tolerance * largest, "{found} instead of {expected}");
        }
    }
}

#[test]
fn the_networks_of_2018_agree_with_plain_arithmetic() {
    agrees(Network::random(Description::batch_first(&[HeadKind::Value, HeadKind::Moves]), 1).unwrap(), 1e-4);
}

#[test]
fn residual_blocks_and_means_agree_with_plain_arithmetic() {
    let description = Description::batch_first_residual(&BatchFirstResidual { filters: 32, blocks: 2 });
    agrees(Network::random(description, 2).unwrap(), 1e-4);
}

#[test]
fn cockfish_sees_the_board_from_whites_side() {
    let small = Cockfish { filters: 16, blocks: 1, ..Cockfish::default() };
    agrees(Network::random(Description::cockfish(&small), 3).unwrap(), 1e-4);
}

#[test]
fn every_other_layer_agrees_with_plain_arithmetic() {
    let branch = |kernel: [usize; 2], dilation: [usize; 2]| Branch { kernel, dilation, channels: 6 };
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
        Layer::Dense { channels: 16, norm: true, activation: Activation::Tanh },
        Layer::Dense { channels: 1, norm: false, activation: Activation::Identity },
    ];
    let heads = vec![Head { kind: HeadKind::Value, layers }];
    let description = Description { encoding: Encoding::BatchFirst15, trunk: Vec::new(), heads };
    agrees(Network::random(description, 4).unwrap(), 1e-4);
}

#[test]
fn batches_come_back_in_their_order_and_whatever_their_size() {
    let network = Arc::new(
        Network::random(Description::batch_first_residual(&BatchFirstResidual { filters: 16, blocks: 1 }), 5)
            .unwrap(),
    );
    let mut evaluator = evaluator(&network, None);
    let alone: Vec<Scores> =
        [1, 130, 7].map(|count| evaluator.evaluate(batch(&network, count)).unwrap().scores).into();
    for count in [1, 130, 7] {
        evaluator.submit(batch(&network, count)).unwrap();
    }
    assert_eq!(evaluator.in_flight(), 3);
    for expected in alone {
        let found = evaluator.wait().unwrap();
        assert_eq!(found.batch.len(), expected.values.len());
        assert_eq!(found.scores, expected);
    }
    assert!(matches!(evaluator.wait(), Err(EvalError::NothingInFlight)));
    assert!(evaluator.evaluate(Batch::default()).unwrap().scores.values.is_empty());
}

#[test]
fn a_device_that_is_not_there_is_named() {
    let network = Arc::new(Network::random(Description::batch_first(&[HeadKind::Value]), 6).unwrap());
    let options =
        GpuOptions { devices: vec![DeviceName::Wgpu(99)], precision: None, preferred_batch: Some(128) };
    let error = GpuEvaluator::new(network, &options).unwrap_err().to_string();
    assert!(error.contains("vulkan:99"), "{error}");
}
