//! Burn against the plain reference and against our own training kernels. `BATCH_FIRST_TRAIN_ON`
//! names the device, for example `cuda:0`; without it, it is the processor.
#![cfg(feature = "burn-backend")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use board::{CastlingMode, Color, Position};
use nets::{
    Activation, BatchFirstResidual, Cockfish, ConvChess, Description, Encoding, HeadKind,
    HeadOutput, Layer, MovePlaces, Network, PolicyIndex, Pooling, Squares, Tensor, TensorKind,
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use train::{
    Backend, BurnBackend, BurnDevices, Examples, Loss, Objective, OptimizerKind, OptimizerSettings,
    WeightAverage,
    native::{NativeBackend, Precision},
    ordinal_loss,
};

const START: &str = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1";

fn device_name() -> eval::Devices {
    std::env::var("BATCH_FIRST_TRAIN_ON").unwrap_or_else(|_| "cpu".to_owned()).parse().unwrap()
}

fn device() -> BurnDevices {
    BurnDevices::open(&device_name(), false).unwrap()
}

/// Positions of random games with random labels (some equal) and a legal move each.
fn examples(count: usize, seed: u64) -> Examples {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut examples = Examples::default();
    let mut position = Position::from_fen(START, CastlingMode::Standard).unwrap();
    while examples.squares.len() < count {
        let moves = position.legal_moves();
        if moves.is_empty() || random.random_bool(0.02) {
            position = Position::from_fen(START, CastlingMode::Standard).unwrap();
            continue;
        }
        let mv = moves[random.random_range(0..moves.len())];
        if random.random_bool(0.3) {
            examples.squares.push(Squares::of(&position));
            examples.turns.push(position.turn());
            examples.values.push(random.random_range(-20..20) * 25);
            examples.move_values.push(random.random_range(-20..20) * 25);
            examples.moves.push(nets::policy_index(mv, position.turn()));
        }
        position.play(mv);
    }
    examples
}

/// As [`examples`], with the legal moves of each position.
fn policy_examples(count: usize, seed: u64) -> Examples {
    let mut examples = examples(count, seed);
    examples.moves.clear();
    for (index, squares) in examples.squares.iter().enumerate() {
        let position = squares.position(Color::White).unwrap();
        let legal =
            position.legal_moves().into_iter().map(|mv| nets::policy_index(mv, Color::White));
        examples.moves.extend(legal);
        examples.ends.push(examples.moves.len());
        examples.weights.push([1.0, 0.0, 0.5][index % 3]);
    }
    examples
}

/// As [`examples`], with a square to choose in each.
fn selector_examples(count: usize, seed: u64) -> Examples {
    let mut examples = examples(count, seed);
    examples.targets = (0..count).map(|index| (index * 29 % 64) as u8).collect();
    examples
}

/// Random weights, and norms that are not the identity.
fn network(description: Description, seed: u64) -> Network {
    let specs = description.tensors().unwrap();
    let mut network = Network::random(description, seed).unwrap();
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    for spec in specs {
        let range = match spec.kind {
            TensorKind::Weight => continue,
            TensorKind::NormScale | TensorKind::NormVariance => 0.5..1.5,
            TensorKind::Bias | TensorKind::NormShift | TensorKind::NormMean => -0.3..0.3,
        };
        let tensor: &mut Tensor = network.tensors.get_mut(&spec.name).unwrap();
        tensor.data.iter_mut().for_each(|value| *value = random.random_range(range.clone()));
    }
    network
}

fn furthest(ours: &[f32], theirs: &[f32]) -> f32 {
    assert_eq!(ours.len(), theirs.len());
    ours.iter().zip(theirs).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

/// Length of the difference over the length of `theirs`.
fn distance(ours: &[f32], theirs: &[f32]) -> f32 {
    assert_eq!(ours.len(), theirs.len());
    let length = |values: &mut dyn Iterator<Item = f32>| {
        values.map(|value| value * value).sum::<f32>().sqrt()
    };
    let difference = length(&mut ours.iter().zip(theirs).map(|(a, b)| a - b));
    difference / length(&mut theirs.iter().copied()).max(1e-9)
}

#[test]
fn outputs_equal_the_reference() {
    let (value, moves) = (HeadKind::Value, HeadKind::Moves);
    let right =
        |head| Description { encoding: Encoding::KingRight21, ..Description::batch_first(&[head]) };
    for (head, description, count, seed) in [
        (value, Description::batch_first(&[value]), 6, 1),
        (moves, Description::batch_first(&[moves]), 6, 2),
        (value, squeezed(), 6, 3),
        (value, right(value), 24, 4),
        (moves, right(moves), 24, 4),
    ] {
        let network = network(description, seed);
        let encoding = network.description.encoding;
        let batch = examples(count, seed);
        assert_eq!(
            batch.squares.iter().any(|squares| encoding.mirrors(squares)),
            encoding == Encoding::KingRight21
        );
        let mut backend = BurnBackend::new(
            network.clone(),
            &[head.into()],
            OptimizerSettings::default(),
            device(),
        )
        .unwrap();
        let ours = backend.logits(head, &batch).unwrap();
        let theirs: Vec<f32> = batch
            .squares
            .iter()
            .enumerate()
            .map(|(index, squares)| {
                let logits = eval::reference::run(&network, squares, batch.turn(index)).unwrap();
                match head {
                    HeadKind::Value => logits[&head][0],
                    _ => {
                        let places = MovePlaces::new(HeadOutput::Plain, encoding, squares);
                        logits[&head][places.of(batch.moves[index])]
                    }
                }
            })
            .collect();
        let error = furthest(&ours, &theirs);
        assert!(error <= 1e-3, "{head:?}: {error}");
        assert!(
            theirs.iter().any(|logit| (logit - theirs[0]).abs() > 0.05),
            "the outputs differ among themselves"
        );
    }
}

/// Cockfish's network, small.
fn cockfish(activation: Activation) -> Description {
    let choice = Cockfish { filters: 16, blocks: 2, activation, ..Cockfish::default() };
    Description::cockfish(&choice)
}

/// A residual network with squeeze and excitation in each block.
fn squeezed() -> Description {
    let choice = BatchFirstResidual { filters: 16, blocks: 2 };
    let mut description = Description::batch_first_residual(&choice);
    let layers = description.trunk.iter_mut().chain(&mut description.heads[0].layers);
    for layer in layers {
        if let Layer::Residual { layers, .. } = layer {
            layers.push(Layer::SqueezeExcite { channels: 4, activation: Activation::Mish });
        }
    }
    assert!(description.tensors().unwrap().iter().any(|spec| spec.name.contains("squeeze")));
    description
}

/// A value head on ConvChess's convolutions and poolings, one of which takes averages.
fn pooled() -> Description {
    let mut description = Description::convchess(&ConvChess::default(), &[HeadKind::From]);
    let head = &mut description.heads[0];
    head.kind = HeadKind::Value;
    head.layers[3] = Layer::Pool { pooling: Pooling::Average, size: 2 };
    *head.layers.last_mut().unwrap() =
        Layer::Dense { channels: 1, norm: false, activation: Activation::Identity };
    description
}

/// Steps both backends from the same start and compares what they say and what they become.
#[test]
fn steps_equal_our_own_backend() {
    let (value, moves): (Objective, Objective) = (HeadKind::Value.into(), HeadKind::Moves.into());
    let tanh = Objective { loss: Loss::Tanh { scale: 300.0 }, ..value };
    let policy = Objective { loss: Loss::CrossEntropy, weight: 0.5, ..moves };
    let shared = Description::batch_first_shared();
    for (objectives, description, batch) in [
        (vec![value], Description::batch_first(&[HeadKind::Value]), examples(24, 3)),
        (vec![moves], Description::batch_first(&[HeadKind::Moves]), examples(24, 4)),
        (vec![tanh], Description::batch_first(&[HeadKind::Value]), examples(24, 5)),
        (vec![policy], Description::batch_first(&[HeadKind::Moves]), policy_examples(24, 6)),
        (vec![value, policy], shared.clone(), policy_examples(24, 7)),
        (vec![moves, tanh], shared, examples(24, 8)),
        (
            vec![value, policy],
            Description {
                encoding: Encoding::Attacks21,
                ..Description::batch_first_residual(&BatchFirstResidual { filters: 32, blocks: 2 })
            },
            policy_examples(24, 9),
        ),
        (
            vec![policy],
            Description {
                encoding: Encoding::KingRight21,
                ..Description::batch_first(&[HeadKind::Moves])
            },
            policy_examples(24, 16),
        ),
        (vec![tanh], cockfish(Activation::Gelu), examples(24, 10)),
        (vec![tanh], cockfish(Activation::Silu), examples(24, 11)),
        (vec![tanh], cockfish(Activation::LeakyRelu), examples(24, 12)),
        (vec![tanh], cockfish(Activation::Mish), examples(24, 15)),
        (vec![value], pooled(), examples(24, 13)),
        (
            vec![Objective { head: HeadKind::KingTo, loss: Loss::CrossEntropy, weight: 1.0 }],
            Description::convchess(&ConvChess::default(), &[HeadKind::KingTo]),
            selector_examples(24, 14),
        ),
    ] {
        let last_bias = format!("value.{}.bias", description.heads[0].layers.len() - 1);
        let network = network(description, 3);
        let kind = if objectives[0] == tanh { OptimizerKind::Rmsprop } else { OptimizerKind::Adam };
        let settings = OptimizerSettings {
            kind,
            weight_decay: 0.01,
            l2: 1e-3,
            clip: 1.0,
            // Behind dense layers, which only some of these networks have.
            dropout: 0.25,
            dropout_seed: 7,
            ..OptimizerSettings::default()
        };
        let mut burn =
            BurnBackend::new(network.clone(), &objectives, settings.clone(), device()).unwrap();
        let native = NativeBackend::with_precision(
            network.clone(),
            &objectives,
            settings,
            2,
            Precision::Single,
        );
        let mut native = native.unwrap();
        let (ours, theirs) = (native.step(&batch, 1e-3).unwrap(), burn.step(&batch, 1e-3).unwrap());
        assert!(
            (ours.loss - theirs.loss).abs() < 1e-4,
            "{objectives:?}: {} {}",
            ours.loss,
            theirs.loss
        );
        for (ours, theirs) in ours.losses.iter().zip(&theirs.losses) {
            assert!((ours - theirs).abs() < 1e-4, "{objectives:?}: {ours} {theirs}");
        }
        if objectives[0].loss == Loss::Ordinal {
            let plain = ordinal_loss(batch.labels(objectives[0].head), &theirs.logits[0]) as f32;
            assert!((theirs.losses[0] - plain).abs() < 1e-5, "{} {plain}", theirs.losses[0]);
        }
        for (ours, theirs) in ours.logits.iter().zip(&theirs.logits) {
            let error = furthest(ours, theirs);
            assert!(error < 1e-3, "{objectives:?}: logits differ by {error}");
        }
        // After one step the first moment is a tenth of the (clipped) gradient, with RMSprop the
        // whole.
        let (ours, theirs) = (native.optimizer().unwrap(), burn.optimizer().unwrap());
        assert_eq!(ours.steps, theirs.steps);
        assert!(ours.tensors.keys().eq(theirs.tensors.keys()), "other tensors are trained");
        for (name, gradient) in &theirs.tensors {
            let last = objectives[0].head == HeadKind::Value && name.ends_with(&last_bias);
            if last && objectives.contains(&value) {
                // A shift of all outputs changes no order: only rounding is left.
                assert!(gradient.data.iter().all(|value| value.abs() < 1e-6));
                continue;
            }
            // A sum rounded the other way may open or close a rectifier, so single elements may
            // differ more.
            let error = distance(&ours.tensors[name].data, &gradient.data);
            assert!(error < 5e-3, "{name}: differs by {error} of its length");
        }
        let (ours, theirs) = (native.network().unwrap(), burn.network().unwrap());
        for (name, tensor) in &theirs.tensors {
            let error = furthest(&ours.tensors[name].data, &tensor.data);
            if name.ends_with(".mean") || name.ends_with(".variance") {
                assert!(error < 1e-4, "{name}: differs by {error}");
            } else {
                // Where the gradient is nearly nothing, Adam's first step may go either way.
                assert!(error <= 2.1e-3, "{name}: differs by {error}");
            }
        }
    }
}

#[test]
fn one_batch_is_learned_by_heart_and_a_saved_state_goes_on_the_same() {
    let head = HeadKind::Value;
    let batch = examples(16, 5);
    let start = Network::random(Description::batch_first(&[head]), 5).unwrap();
    let mut backend =
        BurnBackend::new(start.clone(), &[head.into()], OptimizerSettings::default(), device())
            .unwrap();
    let first = backend.step(&batch, 3e-3).unwrap().loss;
    for _ in 0..100 {
        backend.step(&batch, 3e-3).unwrap();
    }
    let mut other =
        BurnBackend::new(start, &[head.into()], OptimizerSettings::default(), device()).unwrap();
    other.restore(&backend.network().unwrap(), &backend.optimizer().unwrap()).unwrap();
    let (one, two) = (backend.step(&batch, 3e-3).unwrap(), other.step(&batch, 3e-3).unwrap());
    assert!(first > 0.5 && one.loss < 0.05, "{first} {}", one.loss);
    assert!((one.loss - two.loss).abs() < 1e-6);
    assert!(furthest(&one.logits.concat(), &two.logits.concat()) < 1e-4);
    assert!(backend.optimizer().unwrap().steps == 102);
}

/// Convolutions in half precision say nearly the same, and learn; the processor has none.
#[test]
#[cfg(any(feature = "cuda", feature = "wgpu"))]
fn half_precision_learns_one_batch_by_heart() {
    let objectives: [Objective; 2] = [
        HeadKind::Value.into(),
        Objective { head: HeadKind::Moves, loss: Loss::CrossEntropy, weight: 0.5 },
    ];
    let choice = BatchFirstResidual { filters: 16, blocks: 1 };
    let start = network(Description::batch_first_residual(&choice), 8);
    let batch = policy_examples(16, 12);
    let card = if cfg!(feature = "wgpu") { "vulkan:0" } else { "cuda:0" };
    let name = if device_name().is_cpu() { card.parse().unwrap() } else { device_name() };
    let [mut exact, mut mixed] = [false, true].map(|mixed| {
        let devices = BurnDevices::open(&name, mixed).unwrap();
        BurnBackend::new(start.clone(), &objectives, OptimizerSettings::default(), devices).unwrap()
    });
    let (expected, first) = (exact.step(&batch, 3e-3).unwrap(), mixed.step(&batch, 3e-3).unwrap());
    for (expected, found) in expected.logits.iter().zip(&first.logits) {
        let error = distance(found, expected);
        assert!(error > 0.0 && error < 0.02, "logits differ by {error} of their length");
    }
    for _ in 0..20 {
        mixed.step(&batch, 3e-3).unwrap();
    }
    let last = mixed.step(&batch, 3e-3).unwrap();
    for (first, last) in first.losses.iter().zip(&last.losses) {
        println!("{first} {last}");
        assert!(*last < 0.7 * first, "{first} {last}");
    }
    assert!(
        mixed
            .network()
            .unwrap()
            .tensors
            .values()
            .all(|tensor| tensor.data.iter().all(|value| value.is_finite()))
    );
}

#[test]
fn indices_reach_the_right_square() {
    let head = HeadKind::Moves;
    let network = network(Description::batch_first(&[head]), 6);
    let squares = examples(1, 6).squares[0];
    let all = eval::reference::run(&network, &squares, Color::White).unwrap()[&head].clone();
    let indices: Vec<PolicyIndex> = (0..nets::POLICY_SIZE as PolicyIndex).step_by(311).collect();
    let batch = Examples {
        squares: vec![squares; indices.len()],
        moves: indices.clone(),
        ..Examples::default()
    };
    let mut backend =
        BurnBackend::new(network, &[head.into()], OptimizerSettings::default(), device()).unwrap();
    let logits = backend.logits(head, &batch).unwrap();
    let expected: Vec<f32> = indices.iter().map(|&index| all[usize::from(index)]).collect();
    assert!(furthest(&logits, &expected) < 1e-3);
}

#[test]
fn the_average_that_the_device_keeps_is_that_of_the_weights() {
    let head = HeadKind::Value;
    let start = network(Description::batch_first(&[head]), 4);
    let settings = OptimizerSettings { clip: 0.1, ..OptimizerSettings::default() };
    let mut backend = BurnBackend::new(start.clone(), &[head.into()], settings, device()).unwrap();
    let [mut kept, mut plain] = [0.9, 0.9].map(|decay| WeightAverage::new(start.clone(), decay));
    let mut go_on = |kept: &mut WeightAverage, backend: &mut BurnBackend| {
        for step in 0..3 {
            backend.step(&examples(16, step), 1e-2).unwrap();
            backend.mix_into(kept).unwrap();
            plain.update(&backend.network().unwrap());
        }
        backend.fetch_average(kept).unwrap();
        assert_eq!(kept.steps, plain.steps);
        for (name, tensor) in &plain.network.tensors {
            assert!(furthest(&kept.network.tensors[name].data, &tensor.data) < 1e-5, "{name}");
        }
    };
    go_on(&mut kept, &mut backend);
    assert!(kept.network != start && kept.network != backend.network().unwrap());
    // A saved run goes on with the average that was saved.
    backend.restore(&backend.network().unwrap(), &backend.optimizer().unwrap()).unwrap();
    go_on(&mut kept, &mut backend);
}

/// Without batch norm and with a loss that is a mean over positions, shared batches teach what
/// whole ones do.
#[cfg(feature = "wgpu")]
#[test]
fn devices_that_share_a_batch_learn_what_one_learns() {
    let layers = vec![
        Layer::Branches {
            branches: vec![nets::Branch { kernel: [3, 3], dilation: [1, 1], channels: 8 }],
            norm: false,
            activation: Activation::Relu,
        },
        Layer::Dense { channels: 1, norm: false, activation: Activation::Identity },
    ];
    let heads = vec![nets::Head::plain(HeadKind::Value, layers)];
    let description = Description { encoding: Encoding::BatchFirst15, trunk: Vec::new(), heads };
    let start = Network::random(description, 3).unwrap();
    let objective =
        Objective { head: HeadKind::Value, loss: Loss::Tanh { scale: 400.0 }, weight: 1.0 };
    let settings = OptimizerSettings { clip: 1.0, ..OptimizerSettings::default() };
    let batch = examples(31, 9);
    let learned = ["vulkan:0", "vulkan:0,vulkan:0"].map(|names| {
        let devices = BurnDevices::open(&names.parse().unwrap(), false).unwrap();
        let mut backend =
            BurnBackend::new(start.clone(), &[objective], settings.clone(), devices).unwrap();
        let step = backend.step(&batch, 1e-2).unwrap();
        assert_eq!(step.logits[0].len(), 31);
        (step.loss, backend.network().unwrap())
    });
    let [(loss, one), (shared_loss, two)] = learned;
    assert!((loss - shared_loss).abs() < 1e-5, "{loss} {shared_loss}");
    for (name, tensor) in &one.tensors {
        assert!(distance(&two.tensors[name].data, &tensor.data) < 1e-4, "{name}");
    }
}
