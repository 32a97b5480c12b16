//! Gradients against finite differences, precisions against each other, and runs that must repeat exactly.

use board::Color;
use nets::{
    Activation, Branch, Description, Encoding, Head, Layer, MOVE_PLANES, POLICY_SIZE, Padding, Squares,
};

use super::*;

/// SplitMix64 (Steele, Lea, Flood 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

/// Boards with about 20 pieces anywhere, and labels some of which are equal.
fn examples(count: usize, seed: u64) -> Examples {
    examples_with_moves(count, 1, seed)
}

/// As [`examples`], with `each` moves of every board.
fn examples_with_moves(count: usize, each: usize, seed: u64) -> Examples {
    let mut random = Random(seed);
    let mut batch = Examples::default();
    for _ in 0..count {
        let mut squares = Squares::default();
        for square in &mut squares.0 {
            if random.below(3) == 0 {
                *square = random.below(15) as u8 + 1;
            }
        }
        batch.squares.push(squares);
        for _ in 0..each {
            batch.labels.push(random.below(2 * count) as i32);
            batch.moves.push(random.below(POLICY_SIZE) as u16);
        }
    }
    batch
}

fn conv(kernel: usize, channels: usize) -> Layer {
    Layer::Conv { kernel, channels, padding: Padding::Same, norm: true, activation: Activation::Relu }
}

fn plain(kernel: usize, channels: usize, padding: Padding) -> Layer {
    Layer::Conv { kernel, channels, padding, norm: false, activation: Activation::Identity }
}

/// A few channels of every kind of layer, with a trunk.
fn small(kind: HeadKind) -> Description {
    let branches = vec![
        Branch { kernel: [3, 3], dilation: [1, 1], channels: 5 },
        Branch { kernel: [3, 3], dilation: [2, 2], channels: 4 },
        Branch { kernel: [2, 2], dilation: [2, 4], channels: 3 },
    ];
    let trunk = vec![Layer::Branches { branches, norm: true, activation: Activation::Relu }, conv(1, 40)];
    let mut layers = vec![conv(3, 7)];
    match kind {
        HeadKind::Value => {
            let biased = Layer::Conv {
                kernel: 5,
                channels: 3,
                padding: Padding::Same,
                norm: false,
                activation: Activation::Relu,
            };
            layers.extend([
                biased,
                Layer::Conv {
                    kernel: 8,
                    channels: 4,
                    padding: Padding::Valid,
                    norm: true,
                    activation: Activation::Relu,
                },
                plain(1, 1, Padding::Same),
            ]);
        }
        _ => layers.push(plain(1, MOVE_PLANES, Padding::Same)),
    }
    Description { encoding: Encoding::BatchFirst15, trunk, heads: vec![Head { kind, layers }] }
}

fn start(description: Description, kind: HeadKind, threads: usize, precision: Precision) -> NativeBackend {
    let network = Network::random(description, 7).unwrap();
    NativeBackend::with_precision(network, kind, OptimizerSettings::default(), threads, precision).unwrap()
}

fn gradients(backend: &mut NativeBackend, batch: &Examples) -> (f64, Vec<(String, Vec<f32>)>) {
    either!(&mut backend.trainer, trainer => {
        let step = trainer.gradients(batch).unwrap();
        let list = trainer.plan.parameters.iter();
        (f64::from(step.loss), list.map(|one| (one.name.clone(), one.gradient_tensor().data)).collect())
    })
}

/// The loss with one tensor moved.
fn loss_at(network: &Network, kind: HeadKind, name: &str, step: &[f32], batch: &Examples) -> f64 {
    let mut network = network.clone();
    for (value, step) in network.tensors.get_mut(name).unwrap().data.iter_mut().zip(step) {
        *value += step;
    }
    let settings = OptimizerSettings::default();
    let mut backend = NativeBackend::with_precision(network, kind, settings, 1, Precision::Single).unwrap();
    gradients(&mut backend, batch).0
}

#[test]
fn gradients_match_finite_differences() {
    for (kind, each) in [(HeadKind::Value, 1), (HeadKind::Moves, 1), (HeadKind::Moves, 3)] {
        let mut batch = examples_with_moves(24, each, 3);
        if kind == HeadKind::Value {
            batch.moves.clear();
        }
        let mut backend = start(small(kind), kind, 2, Precision::Single);
        let network = backend.network().unwrap();
        let (_, list) = gradients(&mut backend, &batch);
        for (name, gradient) in list {
            let norm = gradient.iter().map(|&g| f64::from(g) * f64::from(g)).sum::<f64>().sqrt();
            let length = network.tensors[&name].data.len() as f64;
            // Along the gradient, and along one random sign vector: both have slopes that are known from it.
            let mut random = Random(5);
            let along: Vec<f32> = gradient.iter().map(|&g| (f64::from(g) / norm.max(1e-12)) as f32).collect();
            let signs: Vec<f32> = gradient
                .iter()
                .map(|_| if random.below(2) == 0 { 1.0 } else { -1.0 } / length.sqrt() as f32)
                .collect();
            for direction in [along, signs] {
                let slope: f64 =
                    gradient.iter().zip(&direction).map(|(&g, &d)| f64::from(g) * f64::from(d)).sum();
                let epsilon = 2e-3;
                let moved = |sign: f32| -> f64 {
                    let step: Vec<f32> = direction.iter().map(|d| d * sign * epsilon).collect();
                    loss_at(&network, kind, &name, &step, &batch)
                };
                let found = (moved(1.0) - moved(-1.0)) / (2.0 * f64::from(epsilon));
                assert!(
                    (found - slope).abs() < 0.02 * norm + 1e-4,
                    "{name}: finite difference {found}, slope {slope}, norm {norm}"
                );
            }
        }
    }
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot =
        |a: &[f32], b: &[f32]| -> f64 { a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum() };
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt().max(1e-30)
}

#[test]
fn bf16_gradients_point_where_single_precision_points() {
    for kind in [HeadKind::Value, HeadKind::Moves] {
        let batch = examples(96, 4);
        let description = Description::batch_first(&[kind]);
        let (loss, exact) = gradients(&mut start(description.clone(), kind, 2, Precision::Single), &batch);
        let (rough_loss, rough) = gradients(&mut start(description, kind, 2, Precision::Bf16), &batch);
        assert!((loss - rough_loss).abs() < 0.02 * loss, "{loss} {rough_loss}");
        for ((name, exact), (_, rough)) in exact.iter().zip(&rough) {
            // The first layers see the rounding of ten layers twice; a wrong formula would be far off.
            let agreement = cosine(exact, rough);
            assert!(agreement > 0.9, "{name}: cosine {agreement}");
        }
    }
}

#[test]
fn one_batch_is_learned_by_heart() {
    for kind in [HeadKind::Value, HeadKind::Moves] {
        for precision in [Precision::Single, Precision::Bf16] {
            let batch = examples(20, 5);
            let mut backend = start(Description::batch_first(&[kind]), kind, 2, precision);
            let first = backend.step(&batch, 0.0).unwrap().loss;
            let mut last = first;
            for _ in 0..100 {
                last = backend.step(&batch, 0.01).unwrap().loss;
            }
            assert!(first > 0.5 && last < 0.1, "{kind:?} {precision:?}: {first} to {last}");
        }
    }
}

#[test]
fn equal_runs_give_equal_bits_and_a_resumed_run_equals_the_whole() {
    for kind in [HeadKind::Value, HeadKind::Moves] {
        for threads in [1, 2] {
            for precision in [Precision::Single, Precision::Bf16] {
                let run = |backend: &mut NativeBackend, steps: std::ops::Range<u64>| {
                    for step in steps {
                        backend.step(&examples(37, 100 + step), 0.01).unwrap();
                    }
                };
                let mut whole = start(small(kind), kind, threads, precision);
                run(&mut whole, 0..6);
                let mut again = start(small(kind), kind, threads, precision);
                run(&mut again, 0..3);
                let (network, optimizer) = (again.network().unwrap(), again.optimizer().unwrap());
                let mut resumed = start(small(kind), kind, threads, precision);
                run(&mut resumed, 7..8);
                resumed.restore(&network, &optimizer).unwrap();
                run(&mut again, 3..6);
                run(&mut resumed, 3..6);
                assert!(whole.network().unwrap() == again.network().unwrap(), "the same run twice");
                assert!(whole.network().unwrap() == resumed.network().unwrap(), "a resumed run");
                assert!(whole.optimizer().unwrap() == resumed.optimizer().unwrap(), "a resumed optimizer");
            }
        }
    }
}

#[test]
fn threads_change_nothing() {
    for kind in [HeadKind::Value, HeadKind::Moves] {
        // Fewer boards than parts: some have none.
        for count in [5, 70] {
            let batch = examples(count, 8);
            let one = gradients(&mut start(small(kind), kind, 1, Precision::best()), &batch);
            let many = gradients(&mut start(small(kind), kind, 7, Precision::best()), &batch);
            assert!(one == many, "{kind:?} {count}");
        }
    }
}

#[test]
fn logits_are_those_of_the_reference() {
    for kind in [HeadKind::Value, HeadKind::Moves] {
        for (precision, tolerance) in [(Precision::Single, 1e-3), (Precision::Bf16, 0.1)] {
            for description in [small(kind), Description::batch_first(&[HeadKind::Value, HeadKind::Moves])] {
                let mut backend = start(description, kind, 2, precision);
                // A few steps, so that running statistics, scales and shifts are no longer trivial.
                for seed in 0..4 {
                    backend.step(&examples(32, seed), 0.01).unwrap();
                }
                let batch = examples(11, 9);
                let network = backend.network().unwrap();
                let logits = backend.logits(&batch).unwrap();
                let mut exact = Vec::new();
                for (squares, &index) in batch.squares.iter().zip(&batch.moves) {
                    let all = eval::reference::run_heads(&network, squares, Color::White, &[kind]).unwrap();
                    exact.push(match kind {
                        HeadKind::Value => all[&kind][0],
                        _ => all[&kind][usize::from(index)],
                    });
                }
                let size = (exact.iter().map(|x| x * x).sum::<f32>() / exact.len() as f32).sqrt();
                for (logit, exact) in logits.iter().zip(&exact) {
                    assert!(
                        (logit - exact).abs() < tolerance * (size + 0.1),
                        "{precision:?} {logit} {exact}"
                    );
                }
            }
        }
    }
}

#[test]
fn bad_batches_are_refused() {
    let kind = HeadKind::Moves;
    let mut backend = start(small(kind), kind, 1, Precision::Single);
    assert!(backend.step(&Examples::default(), 0.1).is_err());
    let good = examples(4, 1);
    let short = Examples { labels: good.labels[..3].to_vec(), ..good.clone() };
    assert!(backend.step(&short, 0.1).is_err());
    let unmoved = Examples { moves: Vec::new(), ..good.clone() };
    assert!(backend.step(&unmoved, 0.1).is_err());
    let mut beyond = good.clone();
    beyond.moves[0] = POLICY_SIZE as u16;
    assert!(backend.step(&beyond, 0.1).is_err());
    let mut classless = good;
    classless.squares[0].0[5] = 16;
    assert!(backend.step(&classless, 0.1).is_err());
}

#[test]
fn moves_of_one_position_are_compared_twice() {
    let (kind, each) = (HeadKind::Moves, 4);
    let batch = examples_with_moves(9, each, 5);
    let mut backend = start(small(kind), kind, 2, Precision::Single);
    let step = backend.step(&batch, 0.01).unwrap();
    let among_all = crate::ordinal_loss(&batch.labels, &step.logits);
    // The mean over sibling pairs: each position's mean weighs as many pairs as have different labels.
    let (mut sum, mut pairs) = (0.0, 0);
    for (labels, logits) in batch.labels.chunks(each).zip(step.logits.chunks(each)) {
        let different = (0..each).flat_map(|i| (0..i).map(move |j| (i, j)));
        let count = different.filter(|&(i, j)| labels[i] != labels[j]).count();
        sum += crate::ordinal_loss(labels, logits) * count as f64;
        pairs += count;
    }
    let expected = among_all + sum / pairs as f64;
    assert!((f64::from(step.loss) - expected).abs() < 1e-4, "{} {expected}", step.loss);
}
