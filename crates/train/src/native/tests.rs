//! Gradients against finite differences, precisions against each other, and runs that must repeat
//! exactly.

use board::{Color, SplitMix64};
use nets::{
    Activation, Branch, Description, Encoding, Head, HeadOutput, Layer, MOVE_PLANES, MovePlaces,
    POLICY_SIZE, Padding, Squares,
};

use super::*;
use crate::{Loss, OptimizerKind};

mod gradients;
mod layers;
mod steps;

use gradients::{assert_close_gradients, assert_gradients, assert_gradients_with};
use steps::{assert_learns, assert_repeatable};

/// Boards with about 20 pieces anywhere, and labels some of which are equal.
fn examples(count: usize, seed: u64) -> Examples {
    examples_with_moves(count, 1, seed)
}

/// As [`examples`], with `each` moves of every board.
fn examples_with_moves(count: usize, each: usize, seed: u64) -> Examples {
    let mut random = SplitMix64::new(seed);
    let mut batch = Examples::default();
    for index in 0..count {
        batch.turns.push(if index % 2 == 0 { Color::White } else { Color::Black });
        let mut squares = Squares::default();
        for square in &mut squares.0 {
            if random.below(3) == 0 {
                *square = random.below(15) as u8 + 1;
            }
        }
        batch.squares.push(squares);
        batch.values.push(random.below(2 * count) as i32);
        for _ in 0..each {
            batch.move_values.push(random.below(2 * count) as i32);
            batch.moves.push(random.below(POLICY_SIZE) as u16);
        }
    }
    batch
}

/// As [`examples`], for cross entropy: up to 30 moves a board, on some none, and some boards that
/// do not count.
fn policy_examples(count: usize, seed: u64) -> Examples {
    let mut random = SplitMix64::new(seed ^ 77);
    let mut batch =
        Examples { moves: Vec::new(), move_values: Vec::new(), ..examples(count, seed) };
    for board in 0..count {
        let moves = if board == 3 { 0 } else { 1 + random.below(30) };
        batch.moves.extend((0..moves).map(|_| random.below(POLICY_SIZE) as u16));
        batch.ends.push(batch.moves.len());
        batch.weights.push([1.0, 0.0, 0.5][random.below(3)]);
    }
    batch
}

const POLICY: Objective =
    Objective { head: HeadKind::Moves, loss: Loss::CrossEntropy, weight: 0.7 };
const TANH: Objective =
    Objective { head: HeadKind::Value, loss: Loss::Tanh { scale: 20.0 }, weight: 2.0 };

/// Every loss, alone and together, and a batch for each.
fn cases(count: usize, seed: u64) -> Vec<(Vec<Objective>, Examples)> {
    let ordinal = HeadKind::Value.into();
    vec![
        (vec![ordinal], examples(count, seed)),
        (vec![HeadKind::Moves.into()], examples(count, seed)),
        (vec![HeadKind::Moves.into()], examples_with_moves(count, 3, seed)),
        (vec![TANH], examples(count, seed)),
        (vec![POLICY], policy_examples(count, seed)),
        (vec![ordinal, POLICY], policy_examples(count, seed)),
        (vec![POLICY, TANH], policy_examples(count, seed)),
        (vec![ordinal, HeadKind::Moves.into()], examples_with_moves(count, 2, seed)),
    ]
}

fn conv(kernel: usize, channels: usize) -> Layer {
    Layer::Conv {
        kernel,
        channels,
        padding: Padding::Same,
        norm: true,
        activation: Activation::Relu,
    }
}

fn plain(kernel: usize, channels: usize, padding: Padding) -> Layer {
    Layer::Conv { kernel, channels, padding, norm: false, activation: Activation::Identity }
}

/// A few channels of every kind of layer, and both heads on a trunk.
fn small() -> Description {
    let branches = vec![
        Branch { kernel: [3, 3], dilation: [1, 1], channels: 5 },
        Branch { kernel: [3, 3], dilation: [2, 2], channels: 4 },
        Branch { kernel: [2, 2], dilation: [2, 4], channels: 3 },
    ];
    let trunk =
        vec![Layer::Branches { branches, norm: true, activation: Activation::Relu }, conv(1, 40)];
    let biased = Layer::Conv {
        kernel: 5,
        channels: 3,
        padding: Padding::Same,
        norm: false,
        activation: Activation::Relu,
    };
    let valid = Layer::Conv {
        kernel: 8,
        channels: 4,
        padding: Padding::Valid,
        norm: true,
        activation: Activation::Relu,
    };
    let value = vec![conv(3, 7), biased, valid, plain(1, 1, Padding::Same)];
    let moves = vec![conv(3, 7), plain(1, MOVE_PLANES, Padding::Same)];
    Description::value_and_moves(trunk, value, moves)
}

/// As [`small`], with a move head that is only its last layer.
fn short() -> Description {
    let mut description = small();
    description.heads[1].layers.remove(0);
    description
}

fn start(
    description: Description,
    objectives: &[Objective],
    threads: usize,
    precision: Precision,
) -> NativeBackend {
    let network = Network::random(description, 7).unwrap();
    NativeBackend::with_precision(
        network,
        objectives,
        OptimizerSettings::default(),
        threads,
        precision,
    )
    .unwrap()
}

fn gradients(backend: &mut NativeBackend, batch: &Examples) -> (f64, Vec<(String, Vec<f32>)>) {
    with_trainer!(&mut backend.trainer, trainer => {
        let step = trainer.gradients(batch).unwrap();
        let list = trainer.graph.parameters.iter();
        (f64::from(step.loss), list.map(|one| (one.name.clone(), one.gradient_tensor().data)).collect())
    })
}

/// Compares a head's outputs, after a few steps, with the plain reference's.
fn assert_reference(
    description: Description,
    kind: HeadKind,
    precision: Precision,
    tolerance: f32,
) {
    let heads: Vec<Objective> = description.heads.iter().map(|head| head.kind.into()).collect();
    let mut backend = start(description, &heads, 2, precision);
    // So that running statistics, scales and shifts are no longer trivial.
    for seed in 0..4 {
        backend.step(&examples(32, seed), 0.01).unwrap();
    }
    let batch = examples(11, 9);
    let network = backend.network().unwrap();
    let logits = backend.logits(kind, &batch).unwrap();
    let mut exact = Vec::new();
    for (position, squares) in batch.squares.iter().enumerate() {
        let turn = batch.turn(position);
        let all =
            eval::reference::run_heads(&network, &nets::BoardSeen::alone(squares, turn), &[kind])
                .unwrap();
        let turned = network.description.encoding.is_whites_view() && turn.is_black();
        exact.push(match kind {
            HeadKind::Value if turned => -all[&kind][0],
            HeadKind::Value => all[&kind][0],
            _ => {
                let encoding = network.description.encoding;
                let places = MovePlaces::new(HeadOutput::Plain, encoding, squares);
                all[&kind][places.of(batch.moves[position])]
            }
        });
    }
    let size = (exact.iter().map(|x| x * x).sum::<f32>() / exact.len() as f32).sqrt();
    for (logit, exact) in logits.iter().zip(&exact) {
        assert!(
            (logit - exact).abs() < tolerance * (size + 0.1),
            "{kind:?} {precision:?} {logit} {exact}"
        );
    }
}

#[test]
fn logits_are_those_of_the_reference() {
    for kind in [HeadKind::Value, HeadKind::Moves] {
        for (precision, tolerance) in [(Precision::Single, 1e-3), (Precision::Bf16, 0.1)] {
            for description in
                [small(), Description::batch_first(&[HeadKind::Value, HeadKind::Moves])]
            {
                assert_reference(description, kind, precision, tolerance);
            }
        }
    }
}

#[test]
fn bad_batches_are_refused() {
    let mut backend = start(small(), &[HeadKind::Moves.into()], 1, Precision::Single);
    assert!(backend.step(&Examples::default(), 0.1).is_err());
    assert!(backend.logits(HeadKind::Value, &examples(4, 1)).is_err(), "not trained");
    let good = examples(4, 1);
    let short = Examples { move_values: good.move_values[..3].to_vec(), ..good.clone() };
    assert!(backend.step(&short, 0.1).is_err());
    let unmoved = Examples { moves: Vec::new(), ..good.clone() };
    assert!(backend.step(&unmoved, 0.1).is_err());
    let mut beyond = good.clone();
    beyond.moves[0] = POLICY_SIZE as u16;
    assert!(backend.step(&beyond, 0.1).is_err());
    let mut classless = good.clone();
    classless.squares[0].0[5] = 16;
    assert!(backend.step(&classless, 0.1).is_err());

    let mut backend = start(small(), &[POLICY], 1, Precision::Single);
    assert!(backend.step(&good, 0.1).is_err(), "no legal moves");
    let policy = policy_examples(4, 1);
    let unweighted = Examples { weights: Vec::new(), ..policy.clone() };
    assert!(backend.step(&unweighted, 0.1).is_err());
    let mut falling = policy.clone();
    falling.ends.swap(0, 1);
    assert!(backend.step(&falling, 0.1).is_err());
    assert!(backend.step(&policy, 0.1).is_ok());
    let network = Network::random(small(), 1).unwrap();
    let crossed = Objective { head: HeadKind::Value, ..POLICY };
    assert!(
        NativeBackend::new(network.clone(), &[crossed], OptimizerSettings::default(), 1).is_err()
    );
    assert!(NativeBackend::new(network, &[], OptimizerSettings::default(), 1).is_err());
}
