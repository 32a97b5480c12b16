//! Residual blocks, means, pooling, dense layers and every activation, alone and in networks.

use nets::{BatchFirstResidual, Cockfish, ConvChess, Pooling};

use super::*;

fn input(norm: bool, activation: Activation) -> Layer {
    let branches = vec![
        Branch { kernel: [3, 3], dilation: [1, 1], channels: 6 },
        Branch { kernel: [2, 2], dilation: [4, 2], channels: 5 },
    ];
    Layer::Branches { branches, norm, activation }
}

fn linear(kernel: usize, channels: usize) -> Layer {
    Layer::Conv {
        kernel,
        channels,
        padding: Padding::Same,
        norm: true,
        activation: Activation::Identity,
    }
}

fn dense(channels: usize, norm: bool, activation: Activation) -> Layer {
    Layer::Dense { channels, norm, activation }
}

fn block(channels: usize, activation: Activation) -> Layer {
    Layer::Residual { layers: vec![conv(3, channels), linear(3, channels)], activation }
}

/// Blocks (one inside another, one that ends in a mean's output), means and both heads.
fn residual() -> Description {
    let nested = Layer::Residual {
        layers: vec![block(7, Activation::Relu), conv(1, 7)],
        activation: Activation::Identity,
    };
    let trunk = vec![
        input(true, Activation::Relu),
        conv(1, 7),
        block(7, Activation::Relu),
        nested,
        Layer::AppendMean,
        block(14, Activation::Relu),
        conv(1, 40),
    ];
    let value = vec![Layer::AppendMean, plain(8, 1, Padding::Valid)];
    let moves = vec![block(40, Activation::Relu), plain(1, MOVE_PLANES, Padding::Same)];
    Description::value_and_moves(trunk, value, moves)
}

/// Every activation, layers with bias only, and what Cockfish's network ends in.
fn curved() -> Description {
    let biased = |kernel, channels, activation| Layer::Conv {
        kernel,
        channels,
        padding: Padding::Same,
        norm: false,
        activation,
    };
    let inside = Layer::Residual {
        layers: vec![biased(3, 5, Activation::Silu), biased(1, 5, Activation::LeakyRelu)],
        activation: Activation::Gelu,
    };
    let trunk = vec![input(false, Activation::LeakyRelu), biased(1, 5, Activation::Tanh), inside];
    let value = vec![
        block(5, Activation::Silu),
        Layer::AppendMean,
        dense(6, false, Activation::Gelu),
        dense(4, true, Activation::Silu),
        dense(1, false, Activation::Tanh),
    ];
    let moves = vec![biased(3, 6, Activation::Gelu), plain(1, MOVE_PLANES, Padding::Same)];
    Description::value_and_moves(trunk, value, moves)
}

/// Boards that shrink to one cell, convolutions on them, and moves from a dense layer.
fn pooled() -> Description {
    let pool = |pooling| Layer::Pool { pooling, size: 2 };
    let max = pool(Pooling::Max);
    let trunk = vec![input(false, Activation::Relu), max.clone()];
    let value = vec![
        conv(3, 7),
        pool(Pooling::Average),
        conv(5, 4),
        block(4, Activation::LeakyRelu),
        max,
        conv(1, 6),
        plain(1, 1, Padding::Same),
    ];
    let valid = Layer::Conv {
        kernel: 4,
        channels: 5,
        padding: Padding::Valid,
        norm: true,
        activation: Activation::Relu,
    };
    let moves = vec![conv(1, 4), valid, dense(POLICY_SIZE, false, Activation::Identity)];
    Description::value_and_moves(trunk, value, moves)
}

/// An input layer of single squares, a dense layer that runs with it, and dense heads.
fn whole_board() -> Description {
    let branches = [5, 34].map(|channels| Branch { kernel: [1; 2], dilation: [1; 2], channels });
    let single =
        Layer::Branches { branches: branches.into(), norm: false, activation: Activation::Relu };
    let value = vec![dense(6, true, Activation::Relu), dense(1, false, Activation::Identity)];
    let moves = vec![dense(POLICY_SIZE, false, Activation::Identity)];
    let trunk = vec![single, dense(40, true, Activation::Relu)];
    let encoding = Encoding::Attacks21;
    Description { encoding, ..Description::value_and_moves(trunk, value, moves) }
}

/// The same layers in each head, and as many channels as panels of the product have.
fn whole_board_in_heads() -> Description {
    let mut description = whole_board();
    let mut trunk = std::mem::take(&mut description.trunk);
    trunk[1] = Layer::Conv {
        kernel: 8,
        channels: 128,
        padding: Padding::Valid,
        norm: false,
        activation: Activation::LeakyRelu,
    };
    for head in &mut description.heads {
        head.layers.splice(0..0, trunk.iter().cloned());
    }
    description
}

/// Cockfish's network, small.
fn cockfish() -> Description {
    let choice =
        Cockfish { filters: 6, blocks: 1, activation: Activation::Silu, global_mean: true };
    Description::cockfish(&choice)
}

/// ConvChess's planes and layers with a value head.
fn convchess() -> Description {
    let mut description = Description::convchess(&ConvChess::default(), &[HeadKind::From]);
    description.heads[0].kind = HeadKind::Value;
    *description.heads[0].layers.last_mut().unwrap() = dense(1, false, Activation::Identity);
    description
}

/// Boards whose mover's king stands on the left are seen as their mirror images, with the moves.
#[test]
fn mirror_images_are_learned_as_one_board() {
    let description =
        Description { encoding: Encoding::KingRight21, ..Description::batch_first_shared() };
    let policy = Objective { loss: Loss::CrossEntropy, ..HeadKind::Moves.into() };
    let heads = [HeadKind::Value.into(), policy];
    let mut left = policy_examples(24, 8);
    for squares in &mut left.squares {
        *squares =
            Squares(squares.0.map(|class| [class, 3][usize::from([7, 8, 15].contains(&class))]));
        squares.0[1] = 7;
    }
    let mut right = left.clone();
    right.squares.iter_mut().for_each(|squares| *squares = squares.mirror());
    right.moves.iter_mut().for_each(|index| *index = nets::mirror_index(*index));
    let [mut one, mut other] =
        [(); 2].map(|()| start(description.clone(), &heads, 2, Precision::Single));
    for _ in 0..3 {
        let losses = [(&mut one, &left), (&mut other, &right)]
            .map(|(backend, batch)| backend.step(batch, 0.01).unwrap().losses);
        assert_eq!(losses[0], losses[1]);
    }
    let network = one.network().unwrap();
    assert!(network == other.network().unwrap());
    let logits = one.logits(HeadKind::Moves, &left).unwrap();
    let seen = nets::BoardSeen::alone(&left.squares[0], left.turn(0));
    let all = eval::reference::run_heads(&network, &seen, &[HeadKind::Moves]).unwrap();
    let places = MovePlaces::new(HeadOutput::Plain, Encoding::KingRight21, &left.squares[0]);
    for (logit, &index) in logits.iter().zip(&left.moves[..left.ends[0]]) {
        let exact = all[&HeadKind::Moves][places.of(index)];
        assert!((logit - exact).abs() < 1e-3 * (1.0 + exact.abs()), "{logit} {exact}");
    }
}

#[test]
fn other_encodings_are_learned() {
    let attacks = Description { encoding: Encoding::Attacks21, ..convchess() };
    for description in [cockfish(), convchess(), attacks] {
        let batch = examples(24, 6);
        assert_gradients("encoding", description.clone(), &[TANH], &batch);
        assert_reference(description, HeadKind::Value, Precision::Single, 1e-3);
    }
    // Small steps keep the last tanh from where it is flat, and rectifiers without norm from dying.
    let mut batch = examples(16, 3);
    batch.values.iter_mut().for_each(|value| *value -= 16);
    for (description, rate) in [(cockfish(), 5e-4), (convchess(), 2e-3)] {
        assert_learns(description, &[TANH], &batch, (Precision::Single, rate));
    }
    let unturned = Examples { turns: Vec::new(), ..examples(4, 1) };
    assert!(
        start(cockfish(), &[TANH], 1, Precision::Single).step(&unturned, 0.1).is_err(),
        "who moves?"
    );
}

/// As [`examples`], with squares to choose.
fn selector_examples(count: usize, seed: u64) -> Examples {
    let mut random = SplitMix64::new(seed ^ 13);
    let targets = (0..count).map(|_| random.below(64) as u8).collect();
    Examples { targets, ..examples(count, seed) }
}

#[test]
fn selectors_learn_squares() {
    let of = |head| Objective { head, loss: Loss::CrossEntropy, weight: 1.0 };
    let select = [of(HeadKind::From)];
    let batch = selector_examples(24, 6);
    let choice = ConvChess { filters: 9, pools: 1, dense: 20, ..ConvChess::default() };
    let dense = Description::convchess(&choice, &[HeadKind::From]);
    // The squares may also be cells of the board.
    let mut cells = dense.clone();
    let layers = vec![input(true, Activation::Relu), conv(3, 7), plain(1, 1, Padding::Same)];
    cells.heads = vec![Head::plain(HeadKind::From, layers)];
    for description in [dense.clone(), cells] {
        assert_gradients("selector", description.clone(), &select, &batch);
        let mut backend = start(description, &select, 2, Precision::Single);
        let step = backend.step(&batch, 0.0).unwrap();
        // The outputs are all 64, those of the reference, and the loss is what its definition says.
        let network = backend.network().unwrap();
        let logits = backend.logits(HeadKind::From, &batch).unwrap();
        assert_eq!((step.logits[0].len(), logits.len()), (24 * 64, 24 * 64));
        let mut sum = 0.0;
        for (index, logits) in step.logits[0].chunks(64).enumerate() {
            let all: f64 = logits.iter().map(|&logit| f64::from(logit).exp()).sum();
            sum += all.ln() - f64::from(logits[usize::from(batch.targets[index])]);
        }
        assert!((f64::from(step.loss) - sum / 24.0).abs() < 1e-4, "{} {}", step.loss, sum / 24.0);
        let squares = &batch.squares[7];
        let exact = eval::reference::run_heads(
            &network,
            &nets::BoardSeen::alone(squares, Color::White),
            &[HeadKind::From],
        )
        .unwrap();
        for (ours, exact) in logits[7 * 64..].iter().zip(&exact[&HeadKind::From]) {
            assert!((ours - exact).abs() < 1e-3, "{ours} {exact}");
        }
    }
    for precision in [Precision::Single, Precision::Bf16] {
        assert_learns(dense.clone(), &select, &batch, (precision, 0.01));
    }
    let batch = |step: u64| selector_examples(37, 100 + step);
    assert_repeatable(&dense, &select, batch, 2, Precision::Bf16);

    let mut backend = start(dense.clone(), &select, 1, Precision::Single);
    let mut wrong = selector_examples(4, 1);
    wrong.targets[2] = 64;
    assert!(backend.step(&wrong, 0.1).is_err());
    wrong.targets.pop();
    assert!(backend.step(&wrong, 0.1).is_err());
    let two = Description::convchess(&choice, &[HeadKind::From, HeadKind::KingTo]);
    let network = Network::random(two, 7).unwrap();
    let objectives = [of(HeadKind::From), of(HeadKind::KingTo)];
    assert!(NativeBackend::new(network, &objectives, OptimizerSettings::default(), 1).is_err());
}

#[test]
fn gradients_match_finite_differences() {
    for (case, (objectives, batch)) in
        cases(24, 3).into_iter().enumerate().filter(|(case, _)| case % 3 == 0)
    {
        for (name, description) in [
            ("residual", residual()),
            ("curved", curved()),
            ("pooled", pooled()),
            ("whole board", whole_board()),
            ("whole board in heads", whole_board_in_heads()),
        ] {
            assert_gradients(&format!("{name} {case}"), description, &objectives, &batch);
        }
    }
}

#[test]
fn logits_are_those_of_the_reference() {
    for kind in [HeadKind::Value, HeadKind::Moves] {
        for description in [residual(), curved(), pooled(), whole_board(), whole_board_in_heads()] {
            assert_reference(description.clone(), kind, Precision::Single, 1e-3);
            assert_reference(description, kind, Precision::Bf16, 0.15);
        }
    }
}

#[test]
fn a_value_that_is_a_tanh_is_compared_as_it_is() {
    let batch = examples(9, 4);
    let step = start(curved(), &[TANH], 1, Precision::Single).step(&batch, 0.0).unwrap();
    let target = |&label: &i32| (label as f32 / 20.0).tanh();
    let squares =
        step.logits[0].iter().zip(batch.values.iter().map(target)).map(|(a, b)| (a - b) * (a - b));
    let mean = squares.sum::<f32>() / 9.0;
    assert!((step.losses[0] - mean).abs() < 1e-5, "{} {mean}", step.losses[0]);
}

/// As the network that is shipped, but small.
fn small_residual() -> Description {
    Description::batch_first_residual(&BatchFirstResidual { filters: 32, blocks: 2 })
}

#[test]
fn residual_networks_learn_one_batch_by_heart() {
    let (objectives, mut batch) = cases(20, 5).swap_remove(5);
    batch.weights.fill(1.0);
    for precision in [Precision::Single, Precision::Bf16] {
        assert_learns(small_residual(), &objectives, &batch, (precision, 0.01));
    }
}

#[test]
fn bf16_gradients_point_where_single_precision_points() {
    for (case, (objectives, batch)) in cases(96, 4).into_iter().enumerate().skip(5) {
        assert_close_gradients(&case.to_string(), small_residual(), &objectives, &batch);
    }
}

#[test]
fn equal_runs_give_equal_bits_and_a_resumed_run_equals_the_whole() {
    for description in [residual(), curved(), pooled(), whole_board()] {
        for (threads, precision) in [(1, Precision::Bf16), (2, Precision::Single)] {
            let (objectives, _) = cases(2, 0).swap_remove(5);
            let batch = |step: u64| cases(37, 100 + step).swap_remove(5).1;
            assert_repeatable(&description, &objectives, batch, threads, precision);
        }
    }
}

#[test]
fn threads_change_nothing() {
    let (objectives, batch) = cases(70, 8).swap_remove(5);
    for description in [residual(), pooled(), whole_board()] {
        let one =
            gradients(&mut start(description.clone(), &objectives, 1, Precision::best()), &batch);
        let many = gradients(&mut start(description, &objectives, 7, Precision::best()), &batch);
        assert!(one == many);
    }
}

#[test]
fn dropout_leaves_out_its_part_in_training_only() {
    let settings =
        OptimizerSettings { dropout: 0.3, dropout_seed: 5, ..OptimizerSettings::default() };
    let batch = examples(24, 6);
    // The same elements are left out at each of these first steps.
    assert_gradients_with(settings.clone(), "dropout", curved(), &[TANH], &batch);
    let start = |settings: &OptimizerSettings, threads| {
        let network = Network::random(curved(), 7).unwrap();
        NativeBackend::with_precision(
            network,
            &[TANH],
            settings.clone(),
            threads,
            Precision::Single,
        )
        .unwrap()
    };
    let (mut with, mut without) = (start(&settings, 2), start(&OptimizerSettings::default(), 2));
    let play = with.logits(HeadKind::Value, &batch).unwrap();
    assert!(play == without.logits(HeadKind::Value, &batch).unwrap());
    let other = OptimizerSettings { dropout_seed: 6, ..settings.clone() };
    let first = with.step(&batch, 0.0).unwrap().loss;
    assert!(first != without.step(&batch, 0.0).unwrap().loss);
    assert!(first != start(&other, 2).step(&batch, 0.0).unwrap().loss, "another seed");
    assert!(first != with.step(&batch, 0.0).unwrap().loss, "another step");
    assert!(first == start(&settings, 1).step(&batch, 0.0).unwrap().loss);
    // A saved state goes on the same.
    let (network, optimizer) = (with.network().unwrap(), with.optimizer().unwrap());
    let mut resumed = start(&settings, 2);
    resumed.restore(&network, &optimizer).unwrap();
    assert!(with.step(&batch, 0.01).unwrap().loss == resumed.step(&batch, 0.01).unwrap().loss);
    assert!(with.network().unwrap() == resumed.network().unwrap());
}
