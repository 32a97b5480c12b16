//! Steps: they learn, follow the optimizer's rule and repeat bit for bit.

use super::*;

/// A hundred steps on one batch take away most of the loss of every head.
pub(super) fn assert_learns(
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

pub(super) fn assert_one_batch_is_learned_by_heart(precision: Precision) {
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
pub(super) fn assert_repeatable(
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
