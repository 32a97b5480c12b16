//! Layers and architectures on every path.

use std::sync::Arc;

use eval::{
    Batch, Evaluator, Precision,
    cpu::{CpuEvaluator, CpuOptions, CpuPath},
    reference::{self, Reference},
};
use nets::{
    Activation, Branch, Cockfish, ConvChess, Description, Encoding, Head, HeadKind, Layer,
    LeelaAttention, LeelaInput, Network, Pooling, Squares,
};
use proptest::prelude::*;

use crate::{
    descriptions::{any_architecture, any_description},
    inputs::{batch, conv, evaluator, network, positions, whole},
    tolerance::{Difference, assert_close, check, check_logits, compare_scores},
};

#[test]
fn batch_first_networks_agree() {
    check(&network(Description::batch_first(&[HeadKind::Value, HeadKind::Moves]), 5), 40, 9);
}

#[test]
fn a_shared_trunk_agrees() {
    let mut description = Description::batch_first(&[HeadKind::Value, HeadKind::Moves]);
    // Heads that begin with different kernels read different copies of the trunk's output.
    let body: Vec<Layer> = description.heads[0].layers.drain(..3).collect();
    description.heads[1].layers.drain(..3);
    description.heads[1].layers.insert(0, conv(5, 24, true, true));
    description.trunk = body;
    check(&network(description, 6), 20, 10);
}

#[test]
fn long_tails_of_heads_leave_the_bodies_of_others_alone() {
    let stem = Layer::Branches {
        branches: vec![Branch { kernel: [3, 3], dilation: [1, 1], channels: 32 }],
        norm: true,
        activation: Activation::Relu,
    };
    let dense = |channels| Layer::Dense { channels, norm: false, activation: Activation::Relu };
    let out = |channels| Layer::Dense { channels, norm: false, activation: Activation::Identity };
    // The pool of the second head's body has the size of the outputs of the first head's tail.
    let pool = Layer::Pool { pooling: Pooling::Average, size: 8 };
    let heads = vec![
        Head::plain(HeadKind::Value, vec![dense(32), dense(32), out(1)]),
        Head::plain(HeadKind::Moves, vec![pool, dense(32), out(64 * 73)]),
    ];
    let description = Description { encoding: Encoding::BatchFirst15, trunk: vec![stem], heads };
    check(&network(description, 4), 40, 4);
}

/// An input layer of single squares and a dense layer run as one table.
#[test]
fn a_table_of_the_whole_board_agrees() {
    let encodings =
        [Encoding::Attacks21, Encoding::BatchFirst15, Encoding::Cockfish13, Encoding::KingRight21];
    // The last is too wide for a table.
    for (case, channels) in [128, 7, 300, 33, 4_100].into_iter().enumerate() {
        let encoding = encodings[case % 4];
        let single = Layer::Branches {
            branches: [5, 34]
                .map(|channels| Branch { kernel: [1; 2], dilation: [1; 2], channels })
                .into(),
            norm: case % 2 == 0,
            activation: [Activation::Relu, Activation::Tanh][case % 4 / 2],
        };
        let dense = |channels| Layer::Dense { channels, norm: true, activation: Activation::Relu };
        let out =
            |channels| Layer::Dense { channels, norm: false, activation: Activation::Identity };
        let mut board = whole(channels);
        if let Layer::Conv { activation, .. } = &mut board
            && [1, 3].contains(&case)
        {
            *activation = Activation::SquaredRelu;
        }
        let mut description = Description::value_and_moves(
            vec![single, board],
            vec![dense(9), out(1)],
            vec![dense(40), out(64 * 73)],
        );
        description.encoding = encoding;
        if case == 3 {
            for head in &mut description.heads {
                head.layers.splice(0..0, description.trunk.iter().cloned());
            }
            description.trunk.clear();
        }
        check(&network(description, case as u64), 40, 4);
    }
}

#[test]
fn leelas_attention_agrees() {
    let small = LeelaAttention {
        input: LeelaInput::Hectoplies,
        channels: 40,
        layers: 2,
        heads: 5,
        hidden: 70,
        embedded: 9,
        generated: 0,
        activation: Activation::Relu,
    };
    let activation = Activation::Mish;
    // More heads than a product has rows.
    let large = LeelaAttention { channels: 80, heads: 40, generated: 33, activation, ..small };
    // Heads of one and two blocks of channels.
    let block = LeelaAttention { channels: 64, heads: 2, generated: 32, activation, ..small };
    let wide = LeelaAttention { channels: 128, heads: 2, ..small };
    for (choice, seed) in [(small, 3), (large, 4), (block, 5), (wide, 6)] {
        check(&network(Description::leela_attention(&choice), seed), 35, seed);
    }
}

/// The planes are a trunk of their own, so heads run side by side.
#[test]
fn heads_on_input_planes_leave_each_other_alone() {
    let dense = |channels, activation| Layer::Dense { channels, norm: false, activation };
    let value =
        vec![conv(1, 32, true, true), dense(40, Activation::Relu), dense(1, Activation::Identity)];
    let moves = vec![conv(1, 32, true, true), conv(1, 73, false, false)];
    let heads = vec![Head::plain(HeadKind::Value, value), Head::plain(HeadKind::Moves, moves)];
    check(
        &network(
            Description { encoding: Encoding::Leela(LeelaInput::Classical), trunk: vec![], heads },
            8,
        ),
        40,
        8,
    );
}

#[test]
fn what_a_block_adds_is_kept_however_small_its_weights() {
    let relu = |layers| Layer::Residual { layers, activation: Activation::Relu };
    let block = relu(vec![conv(3, 24, false, true), conv(3, 24, false, false)]);
    let value = vec![conv(3, 24, true, true), block, whole(8), conv(1, 1, false, false)];
    let stem = Layer::Branches {
        branches: vec![Branch { kernel: [3, 3], dilation: [1, 1], channels: 24 }],
        norm: true,
        activation: Activation::Relu,
    };
    let layers = std::iter::once(stem).chain(value).collect();
    let heads = vec![Head::plain(HeadKind::Value, layers)];
    let mut network = Arc::unwrap_or_clone(network(
        Description { encoding: Encoding::BatchFirst15, trunk: vec![], heads },
        6,
    ));
    let last = network
        .tensors
        .keys()
        .rfind(|name| name.starts_with("value.2.") && name.ends_with("weight"));
    let last = last.cloned().unwrap();
    for factor in [1e-10, 0.0] {
        network
            .tensors
            .get_mut(&last)
            .unwrap()
            .data
            .iter_mut()
            .for_each(|weight| *weight *= factor);
        check(&Arc::new(network.clone()), 40, 6);
    }
}

#[test]
fn heads_without_a_plain_last_layer_agree() {
    let input = |channels| Layer::Branches {
        branches: vec![Branch { kernel: [3, 3], dilation: [1, 1], channels }],
        norm: true,
        activation: Activation::Relu,
    };
    let description =
        Description::value_and_moves(Vec::new(), vec![input(40), whole(1)], vec![input(73)]);
    check(&network(description, 8), 9, 12);
}

#[test]
fn cockfish_agrees() {
    let published = Description::cockfish(&Cockfish::default());
    assert_eq!(
        published.multiply_adds(),
        Ok(64 * 13 * 9 * 64 + 8 * 64 * 9 * 64 * 64 + 8192 * 256 + 256 * 128 + 128)
    );
    check(&network(published, 21), 9, 31);
    for (seed, activation) in
        (22..).zip([Activation::Gelu, Activation::Silu, Activation::LeakyRelu, Activation::Tanh])
    {
        let choice = Cockfish { filters: 40, blocks: 2, activation, global_mean: seed % 2 == 0 };
        let mut description = Description::cockfish(&choice);
        // Errors are relative to the size of the outputs, which a last tanh would limit.
        description.heads[0].layers.pop();
        description.heads[0].layers.push(conv(1, 1, false, false));
        check(&network(description, seed), 9, seed);
    }
}

#[test]
fn values_meant_for_white_are_turned_for_black() {
    let network = network(
        Description::cockfish(&Cockfish { filters: 8, blocks: 1, ..Cockfish::default() }),
        2,
    );
    let mut batch = Batch::default();
    let positions = positions(20, 3);
    positions.iter().for_each(|position| batch.push(position, true, &[]));
    let scores =
        evaluator(&network, CpuPath::Portable, Precision::F32, 1).evaluate(batch).unwrap().scores;
    for (position, value) in positions.iter().zip(scores.values) {
        let whites = reference::run(&network, &Squares::of(position), position.turn()).unwrap();
        let whites = whites[&HeadKind::Value][0];
        assert!((value - if position.turn().is_white() { whites } else { -whites }).abs() < 1e-4);
    }
}

#[test]
fn convchess_agrees() {
    let kinds = [HeadKind::From, HeadKind::PawnTo, HeadKind::KingTo];
    for (convolutions, pools) in [(3, 3), (3, 0), (2, 1), (1, 0)] {
        let description = Description::convchess(
            &ConvChess { convolutions, pools, ..ConvChess::default() },
            &kinds,
        );
        check_logits(&network(description, 41), 40, 42);
    }
}

#[test]
fn any_architecture_agrees() {
    for seed in 0..40 {
        let network = network(any_architecture(seed), seed);
        check(&network, 19, seed);
        check_logits(&network, 19, seed);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 40, ..ProptestConfig::default() })]

    #[test]
    fn any_description_agrees(description in any_description(), seed in any::<u64>()) {
        compare_scores(&network(description, seed), 11, seed, true);
    }
}

/// Small enough for Miri (`just miri`): every kind of layer, few channels, few boards.
#[test]
fn a_tiny_network_agrees() {
    let branches = vec![Branch { kernel: [3, 2], dilation: [2, 1], channels: 5 }];
    let residual =
        Layer::Residual { layers: vec![conv(3, 5, false, false)], activation: Activation::Relu };
    let trunk =
        vec![Layer::Branches { branches, norm: true, activation: Activation::Relu }, residual];
    let pool = |pooling| Layer::Pool { pooling, size: 2 };
    let dense = |channels| Layer::Dense { channels, norm: false, activation: Activation::Relu };
    let value = vec![
        Layer::AppendMean,
        pool(Pooling::Max),
        conv(3, 3, true, true),
        pool(Pooling::Average),
        dense(7),
        conv(1, 1, false, false),
    ];
    let moves = vec![conv(1, 73, false, false)];
    check(&network(Description::value_and_moves(trunk, value, moves), 9), 2, 9);
}

/// One branch of every kernel size and dilation, against the reference's padded board.
#[test]
fn every_kernel_and_dilation_agrees() {
    for (kernel, dilation) in (1..=8).flat_map(|k| (1..=8).map(move |d| (k, d))) {
        let branch = Branch {
            kernel: [kernel, 9 - kernel],
            dilation: [dilation, kernel % dilation + 1],
            channels: 2,
        };
        let activation = Activation::ALL[dilation % 7];
        let stem = Layer::Branches { branches: vec![branch], norm: true, activation };
        let layers = vec![stem, whole(3), conv(1, 1, false, false)];
        let heads = vec![Head::plain(HeadKind::Value, layers)];
        let description = Description { encoding: Encoding::BatchFirst15, trunk: vec![], heads };
        let network = network(description, (kernel * 8 + dilation) as u64);
        let asked = batch(&network, &positions(2, 7), 1);
        let expected = Reference::new(Arc::clone(&network)).evaluate(asked.clone()).unwrap().scores;
        let scores = evaluator(&network, CpuPath::Portable, Precision::F32, 1).evaluate(asked);
        let found = scores.unwrap().scores.values;
        assert_close(&expected.values, &found, Difference::Order, format!("{kernel}, {dilation}"));
    }
}

/// Moves cost as much again where they share nothing with the value, or only a sum of table rows.
#[test]
fn searches_learn_where_moves_are_dear() {
    let both = [HeadKind::Value, HeadKind::Moves];
    let table: Description =
        serde_json::from_str(include_str!("../../../../configs/batch-first-fast-squares.json"))
            .unwrap();
    for (description, dear) in [
        (Description::batch_first(&both), true),
        (Description::batch_first_shared(), false),
        (table, true),
    ] {
        let network = Arc::new(Network::random(description, 1).unwrap());
        let options = CpuOptions { threads: 1, path: None, precision: None };
        let evaluator = CpuEvaluator::new(network, options).unwrap();
        assert_eq!(evaluator.preferred_stream().moves_are_dear, dear);
    }
}
