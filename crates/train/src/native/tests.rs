//! Gradients against finite differences, precisions against each other, and runs that must repeat
//! exactly.

use board::{Color, SplitMix64};
use nets::{
    Activation, Branch, Description, Encoding, Head, Layer, MOVE_PLANES, POLICY_SIZE, Padding,
    Squares,
};

use super::*;
use crate::{Loss, OptimizerKind};

mod layers;

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

/// The loss with one tensor moved.
fn loss_at(
    network: &Network,
    (objectives, settings): (&[Objective], &OptimizerSettings),
    name: &str,
    step: &[f32],
    batch: &Examples,
) -> f64 {
    let mut network = network.clone();
    for (value, step) in network.tensors.get_mut(name).unwrap().data.iter_mut().zip(step) {
        *value += step;
    }
    let backend =
        NativeBackend::with_precision(network, objectives, settings.clone(), 1, Precision::Single);
    gradients(&mut backend.unwrap(), batch).0
}

/// Compares the slopes of the loss along two directions of every tensor with its differences.
fn assert_gradients(
    case: &str,
    description: Description,
    objectives: &[Objective],
    batch: &Examples,
) {
    assert_gradients_with(OptimizerSettings::default(), case, description, objectives, batch);
}

fn assert_gradients_with(
    settings: OptimizerSettings,
    case: &str,
    description: Description,
    objectives: &[Objective],
    batch: &Examples,
) {
    let mut network = Network::random(description, 7).unwrap();
    // A square that sees no piece gives its bias alone: off zero, where a rectifier has two slopes.
    for name in ["trunk.0.bias", "value.0.bias", "from.0.bias"] {
        let Some(bias) = network.tensors.get_mut(name) else { continue };
        bias.data.iter_mut().enumerate().for_each(|(i, bias)| *bias = 0.04 * (i % 6) as f32 - 0.1);
    }
    let backend = NativeBackend::with_precision(
        network.clone(),
        objectives,
        settings.clone(),
        2,
        Precision::Single,
    );
    let (_, list) = gradients(&mut backend.unwrap(), batch);
    for (name, gradient) in list {
        let norm = gradient.iter().map(|&g| f64::from(g) * f64::from(g)).sum::<f64>().sqrt();
        let length = network.tensors[&name].data.len() as f64;
        // Along the gradient, and along one random sign vector: both have slopes that are known
        // from it.
        let mut random = SplitMix64::new(5);
        let along: Vec<f32> =
            gradient.iter().map(|&g| (f64::from(g) / norm.max(1e-12)) as f32).collect();
        let signs: Vec<f32> = gradient
            .iter()
            .map(|_| if random.below(2) == 0 { 1.0 } else { -1.0 } / length.sqrt() as f32)
            .collect();
        for direction in [along, signs] {
            let slope: f64 =
                gradient.iter().zip(&direction).map(|(&g, &d)| f64::from(g) * f64::from(d)).sum();
            let epsilon = 5e-4;
            let moved = |sign: f32| -> f64 {
                let step: Vec<f32> = direction.iter().map(|d| d * sign * epsilon).collect();
                loss_at(&network, (objectives, &settings), &name, &step, batch)
            };
            let found = (moved(1.0) - moved(-1.0)) / (2.0 * f64::from(epsilon));
            assert!(
                (found - slope).abs() < 0.02 * norm + 2e-4,
                "{case}, {name}: finite difference {found}, slope {slope}, norm {norm}"
            );
        }
    }
}

#[test]
fn gradients_match_finite_differences() {
    for (case, (objectives, batch)) in cases(24, 3).into_iter().enumerate() {
        for description in [small(), short()] {
            assert_gradients(&case.to_string(), description, &objectives, &batch);
        }
    }
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| -> f64 {
        a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
    };
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt().max(1e-30)
}

/// Compares gradients of both precisions.
fn assert_close_gradients(
    case: &str,
    description: Description,
    objectives: &[Objective],
    batch: &Examples,
) {
    let exact = &mut start(description.clone(), objectives, 2, Precision::Single);
    let (loss, exact) = gradients(exact, batch);
    let (rough_loss, rough) =
        gradients(&mut start(description, objectives, 2, Precision::Bf16), batch);
    assert!((loss - rough_loss).abs() < 0.02 * loss, "{case}: {loss} {rough_loss}");
    for ((name, exact), (_, rough)) in exact.iter().zip(&rough) {
        // A shift of all of a head's outputs changes no order: only rounding is left.
        if exact.iter().all(|gradient| gradient.abs() < 1e-6) {
            continue;
        }
        // The first layers see the rounding of ten layers twice; a wrong formula would be far off.
        let agreement = cosine(exact, rough);
        assert!(agreement > 0.9, "{case}, {name}: cosine {agreement}");
    }
}

#[test]
fn bf16_gradients_point_where_single_precision_points() {
    for (case, (objectives, batch)) in cases(96, 4).into_iter().enumerate() {
        let description = match objectives.as_slice() {
            [one] => Description::batch_first(&[one.head]),
            _ => Description::batch_first_shared(),
        };
        assert_close_gradients(&case.to_string(), description, &objectives, &batch);
    }
}

/// A hundred steps on one batch take away most of the loss of every head.
fn assert_learns(
    description: Description,
    objectives: &[Objective],
    batch: &Examples,
    (precision, rate): (Precision, f32),
) {
    let mut backend = start(description, objectives, 2, precision);
    let first = backend.step(batch, 0.0).unwrap().losses;
    let mut last = Vec::new();
    for _ in 0..100 {
        last = backend.step(batch, rate).unwrap().losses;
    }
    for (first, last) in first.iter().zip(&last) {
        assert!(*last < 0.2 * first, "{objectives:?} {precision:?}: {first} to {last}");
    }
}

fn assert_one_batch_is_learned_by_heart(precision: Precision) {
    for (objectives, mut batch) in cases(20, 5) {
        batch.weights.fill(1.0);
        let description = match objectives.as_slice() {
            [one] => Description::batch_first(&[one.head]),
            _ => Description::batch_first_shared(),
        };
        assert_learns(description, &objectives, &batch, (precision, 0.01));
    }
}

#[test]
fn one_batch_is_learned_by_heart() {
    assert_one_batch_is_learned_by_heart(Precision::Single);
}

#[test]
fn one_batch_is_learned_by_heart_in_bf16() {
    assert_one_batch_is_learned_by_heart(Precision::Bf16);
}

/// The same run twice, and one that is saved and taken up by another backend.
fn assert_repeatable(
    description: &Description,
    objectives: &[Objective],
    batch: impl Fn(u64) -> Examples,
    threads: usize,
    precision: Precision,
) {
    let run = |backend: &mut NativeBackend, steps: std::ops::Range<u64>| {
        for step in steps {
            backend.step(&batch(step), 0.01).unwrap();
        }
    };
    let start = || start(description.clone(), objectives, threads, precision);
    let mut whole = start();
    run(&mut whole, 0..6);
    let mut again = start();
    run(&mut again, 0..3);
    let (network, optimizer) = (again.network().unwrap(), again.optimizer().unwrap());
    let mut resumed = start();
    run(&mut resumed, 7..8);
    resumed.restore(&network, &optimizer).unwrap();
    run(&mut again, 3..6);
    run(&mut resumed, 3..6);
    assert!(whole.network().unwrap() == again.network().unwrap(), "the same run twice");
    assert!(whole.network().unwrap() == resumed.network().unwrap(), "a resumed run");
    assert!(whole.optimizer().unwrap() == resumed.optimizer().unwrap(), "a resumed optimizer");
}

#[test]
fn equal_runs_give_equal_bits_and_a_resumed_run_equals_the_whole() {
    for (case, (objectives, _)) in cases(2, 0).into_iter().enumerate() {
        for threads in [1, 2] {
            for precision in [Precision::Single, Precision::Bf16] {
                let batch = |step: u64| cases(37, 100 + step).swap_remove(case).1;
                assert_repeatable(&small(), &objectives, batch, threads, precision);
            }
        }
    }
}

#[test]
fn threads_change_nothing() {
    // Fewer boards than parts: some have none.
    for count in [5, 70] {
        for (case, (objectives, batch)) in cases(count, 8).into_iter().enumerate() {
            let one = gradients(&mut start(small(), &objectives, 1, Precision::best()), &batch);
            let many = gradients(&mut start(small(), &objectives, 7, Precision::best()), &batch);
            assert!(one == many, "case {case} {count}");
        }
    }
}

#[test]
fn losses_add_up_and_each_head_learns_as_if_alone() {
    let batch = policy_examples(40, 6);
    let value: Objective = HeadKind::Value.into();
    let both = gradients(&mut start(small(), &[value, POLICY], 2, Precision::Single), &batch);
    let alone = [value, POLICY]
        .map(|one| gradients(&mut start(small(), &[one], 2, Precision::Single), &batch));
    assert!((both.0 - alone[0].0 - alone[1].0).abs() < 1e-5);
    for (name, sum) in &both.1 {
        let find = |list: &[(String, Vec<f32>)]| {
            list.iter().find(|(other, _)| other == name).map(|(_, gradient)| gradient.clone())
        };
        let mut expected = vec![0.0; sum.len()];
        for part in alone.iter().filter_map(|(_, list)| find(list)) {
            expected.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
        }
        let size = expected.iter().map(|x| x * x).sum::<f32>().sqrt();
        for (sum, expected) in sum.iter().zip(&expected) {
            assert!((sum - expected).abs() < 1e-4 * size + 1e-7, "{name}: {sum} {expected}");
        }
    }
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
        let all = eval::reference::run_heads(&network, squares, turn, &[kind]).unwrap();
        let turned = network.description.encoding.is_whites_view() && turn.is_black();
        exact.push(match kind {
            HeadKind::Value if turned => -all[&kind][0],
            HeadKind::Value => all[&kind][0],
            _ => all[&kind][usize::from(batch.moves[position])],
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

#[test]
fn moves_of_one_position_are_compared_twice() {
    let each = 4;
    let batch = examples_with_moves(9, each, 5);
    let mut backend = start(small(), &[HeadKind::Moves.into()], 2, Precision::Single);
    let step = backend.step(&batch, 0.01).unwrap();
    let logits = &step.logits[0];
    let among_all = crate::ordinal_loss(&batch.move_values, logits);
    // The mean over sibling pairs: each position's mean weighs as many pairs as have different
    // labels.
    let (mut sum, mut pairs) = (0.0, 0);
    for (labels, logits) in batch.move_values.chunks(each).zip(logits.chunks(each)) {
        let different = (0..each).flat_map(|i| (0..i).map(move |j| (i, j)));
        let count = different.filter(|&(i, j)| labels[i] != labels[j]).count();
        sum += crate::ordinal_loss(labels, logits) * count as f64;
        pairs += count;
    }
    let expected = among_all + sum / pairs as f64;
    assert!((f64::from(step.loss) - expected).abs() < 1e-4, "{} {expected}", step.loss);
}

#[test]
fn an_optimizer_moves_weights_as_its_rule_says() {
    for kind in [OptimizerKind::Adam, OptimizerKind::Rmsprop] {
        let network = Network::random(small(), 7).unwrap();
        let settings = OptimizerSettings {
            kind,
            weight_decay: 0.1,
            beta1: 0.8,
            beta2: 0.9,
            ..OptimizerSettings::default()
        };
        let (name, rate, index) = ("trunk.1.weight", 0.01, 5);
        let objectives = [HeadKind::Value.into()];
        let backend = NativeBackend::with_precision(
            network.clone(),
            &objectives,
            settings,
            1,
            Precision::Single,
        );
        let mut backend = backend.unwrap();
        let mut value = f64::from(network.tensors[name].data[index]);
        let (mut first, mut second) = (0.0, 0.0);
        for step in 1..=3 {
            let batch = examples(30, step);
            let list = gradients(&mut backend, &batch).1;
            let gradient = list.iter().find(|(other, _)| other == name).unwrap().1[index];
            let gradient = f64::from(gradient);
            backend.step(&batch, rate).unwrap();
            first = 0.8 * first + 0.2 * gradient;
            second = 0.9 * second + 0.1 * gradient * gradient;
            let steps = i32::try_from(step).unwrap();
            let along = match kind {
                OptimizerKind::Adam => {
                    let root = (second / (1.0 - 0.9_f64.powi(steps))).sqrt();
                    first / (1.0 - 0.8_f64.powi(steps)) / (root + 1e-8)
                }
                OptimizerKind::Rmsprop => gradient / (second.sqrt() + 1e-8),
            };
            value -= f64::from(rate) * (along + 0.1 * value);
            let found = f64::from(backend.network().unwrap().tensors[name].data[index]);
            assert!((found - value).abs() < 1e-5, "{kind:?}, step {step}: {found} {value}");
        }
    }
}
