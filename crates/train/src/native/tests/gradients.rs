//! Gradients against finite differences, and bf16 against single precision.

use super::*;

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
pub(super) fn assert_gradients(
    case: &str,
    description: Description,
    objectives: &[Objective],
    batch: &Examples,
) {
    assert_gradients_with(OptimizerSettings::default(), case, description, objectives, batch);
}

pub(super) fn assert_gradients_with(
    settings: OptimizerSettings,
    case: &str,
    description: Description,
    objectives: &[Objective],
    batch: &Examples,
) {
    let mut network = Network::random(description, 7).unwrap();
    // A square that sees no piece gives its bias alone: off zero, where a rectifier has two slopes.
    for name in ["trunk.0.bias", "value.0.bias", "moves.0.bias", "from.0.bias"] {
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
pub(super) fn assert_close_gradients(
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
