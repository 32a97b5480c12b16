//! Networks of random architecture, with every kind of layer and odd widths.

use nets::{
    Activation, Attention, BoardScores, Branch, Description, Encoding, Head, HeadKind, HeadOutput,
    Layer, LeelaInput, Padding, Pooling, Shape,
};
use proptest::prelude::*;

use crate::inputs::{Dice, conv, whole};

/// Random layers that fit each other. Their widths are rarely multiples of a block.
fn any_layers(
    dice: &mut Dice,
    mut shape: Shape,
    count: usize,
    keep_board: bool,
) -> (Vec<Layer>, Shape) {
    let mut layers = Vec::new();
    for _ in 0..count {
        let layer = any_layer_after(dice, shape, keep_board, 2);
        shape = layer.output_shape(shape).unwrap();
        layers.push(layer);
    }
    (layers, shape)
}

fn any_activation(dice: &mut Dice) -> Activation {
    // Mostly ReLU, which int8 needs.
    let all = [
        Activation::LeakyRelu,
        Activation::Gelu,
        Activation::Silu,
        Activation::Tanh,
        Activation::Mish,
        Activation::SquaredRelu,
        Activation::Selu,
        Activation::Identity,
    ];
    *all.get(dice.below(16)).unwrap_or(&Activation::Relu)
}

fn any_layer_after(dice: &mut Dice, shape: Shape, keep_board: bool, depth: usize) -> Layer {
    let side = shape.side();
    let channels = 1 + dice.below(70);
    let (norm, activation) = (dice.below(2) == 0, any_activation(dice));
    let kernel = if side == 1 { 1 } else { [1, 3, 3, 5][dice.below(4)] };
    match dice.below(8) {
        0 | 1 if depth > 0 => {
            let (mut layers, mut inner) = (Vec::new(), shape);
            for _ in 0..dice.below(2) {
                let layer = any_layer_after(dice, inner, true, depth - 1);
                inner = layer.output_shape(inner).unwrap();
                layers.push(layer);
            }
            let last = [Activation::Identity, activation][dice.below(2)];
            let (padding, squeezed, channels) = (Padding::Same, channels, shape.channels);
            layers.push(Layer::Conv { kernel, channels, padding, norm, activation: last });
            if dice.below(3) == 0 {
                layers.push(Layer::SqueezeExcite { channels: squeezed, activation });
            }
            Layer::Residual { layers, activation }
        }
        2 if !keep_board && side > 1 => {
            let pooling = [Pooling::Max, Pooling::Average][dice.below(2)];
            Layer::Pool { pooling, size: if side == 8 && dice.below(3) == 0 { 4 } else { 2 } }
        }
        3 if shape.channels <= 80 => Layer::AppendMean,
        6 if dice.below(3) == 0 => Layer::SqueezeExcite { channels, activation },
        7 => match dice.below(6) {
            0 => Layer::Gate { activation },
            1 => Layer::LayerNorm { millionths: [1, 1000][dice.below(2)] },
            2 if side == 8 => Layer::Attention(any_attention(dice)),
            _ => Layer::Conv { kernel, channels, padding: Padding::Same, norm, activation },
        },
        4 if !keep_board => Layer::Dense { channels, norm, activation },
        5 if !keep_board && side > 1 => {
            Layer::Conv { kernel: side, channels, padding: Padding::Valid, norm, activation }
        }
        _ => Layer::Conv { kernel, channels, padding: Padding::Same, norm, activation },
    }
}

/// Attention of odd widths; all of a network share a matrix of scores of one size.
fn any_attention(dice: &mut Dice) -> Attention {
    let heads = [1, 2, 3, 5, 17, 33][dice.below(6)];
    let board = (dice.below(2) == 0).then(|| BoardScores {
        compressed: 1 + dice.below(5),
        hidden: 1 + dice.below(40),
        generated: 7,
        activation: any_activation(dice),
    });
    Attention { heads, width: heads * (1 + dice.below(18)), board }
}

/// A random architecture: any kind of layer in trunk and heads, a value head and perhaps heads of
/// squares or moves.
pub(super) fn any_architecture(seed: u64) -> Description {
    let mut dice = Dice::new(seed);
    let encoding = [
        Encoding::BatchFirst15,
        Encoding::Cockfish13,
        Encoding::ConvChess6,
        Encoding::Attacks21,
        Encoding::Leela(LeelaInput::ALL[dice.below(LeelaInput::ALL.len())]),
    ][dice.below(5)];
    let branches = (0..1 + dice.below(3))
        .map(|_| Branch {
            kernel: [1 + dice.below(4), 1 + dice.below(4)],
            dilation: [1 + dice.below(3), 1 + dice.below(3)],
            channels: 1 + dice.below(50),
        })
        .collect();
    let (norm, activation) = (dice.below(2) == 0, any_activation(&mut dice));
    let stem = if encoding.has_history() {
        let (kernel, channels) = ([1, 3, 5][dice.below(3)], 1 + dice.below(70));
        Layer::Conv { kernel, channels, padding: Padding::Same, norm, activation }
    } else {
        Layer::Branches { branches, norm, activation }
    };
    let mut input = Shape { cells: 64, channels: encoding.planes() };
    let embedding = (encoding.has_history() && dice.below(2) == 0).then(|| {
        let (planes, channels) = (1 + dice.below(14), 1 + dice.below(40));
        Layer::BoardEmbedding { planes, channels }
    });
    if let Some(embedding) = &embedding {
        input = embedding.output_shape(input).unwrap();
    }
    let shape = stem.output_shape(input).unwrap();
    let count = dice.below(4);
    // Move heads need a whole board; value and square heads do not.
    let kinds: &[HeadKind] = [
        &[HeadKind::Value][..],
        &[HeadKind::Value, HeadKind::From],
        &[HeadKind::Value, HeadKind::Moves],
    ][dice.below(3)];
    let (mut trunk, shape) = any_layers(&mut dice, shape, count, kinds.contains(&HeadKind::Moves));
    trunk.insert(0, stem);
    let mut heads: Vec<Head> = kinds
        .iter()
        .map(|&kind| {
            let count = dice.below(3);
            let (mut layers, _) = any_layers(&mut dice, shape, count, kind == HeadKind::Moves);
            let activation = any_activation(&mut dice);
            if kind == HeadKind::Moves && encoding.has_history() && dice.below(2) == 0 {
                layers.push(Layer::MoveAttention { width: 1 + dice.below(50) });
                return Head { kind, output: HeadOutput::LeelaPairs, layers };
            }
            layers.push(match kind {
                HeadKind::Moves => conv([1, 3][dice.below(2)], 73, false, false),
                _ => Layer::Dense { channels: kind.outputs(), norm: false, activation },
            });
            Head::plain(kind, layers)
        })
        .collect();
    trunk.splice(0..0, embedding.clone());
    if embedding.is_none() && dice.below(2) == 0 {
        for head in &mut heads {
            head.layers.splice(0..0, trunk.iter().cloned());
        }
        trunk.clear();
    }
    Description { encoding, trunk, heads }
}

fn any_layer() -> impl Strategy<Value = Layer> {
    (
        prop_oneof![Just(1_usize), Just(3), Just(5), Just(7)],
        1..70_usize,
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(kernel, channels, norm, relu)| conv(kernel, channels, norm, relu))
}

fn any_branches() -> impl Strategy<Value = Layer> {
    let branch = (1..5_usize, 1..5_usize, 1..4_usize, 1..4_usize, 1..90_usize).prop_map(
        |(rows, columns, rank_step, file_step, channels)| Branch {
            kernel: [rows, columns],
            dilation: [rank_step, file_step],
            channels,
        },
    );
    (prop::collection::vec(branch, 1..5), any::<bool>()).prop_map(|(branches, relu)| {
        Layer::Branches {
            branches,
            norm: true,
            activation: if relu { Activation::Relu } else { Activation::Identity },
        }
    })
}

prop_compose! {
    /// A value and a move head with the kinds of layers of Batch First's networks, in any size.
    pub(super) fn any_description()(
        input in any_branches(),
        trunk in prop::collection::vec(any_layer(), 0..3),
        value in prop::collection::vec(any_layer(), 0..3),
        moves in prop::collection::vec(any_layer(), 0..3),
        width in 1..50_usize,
        last in prop_oneof![Just(1_usize), Just(3)],
        shared in any::<bool>(),
    ) -> Description {
        let mut value = value;
        value.extend([whole(width), conv(1, width + 3, true, true), conv(1, 1, false, false)]);
        let mut moves = moves;
        moves.push(conv(last, 73, false, false));
        let mut stem = vec![input];
        stem.extend(trunk);
        let trunk = if shared {
            stem
        } else {
            value.splice(0..0, stem.clone());
            moves.splice(0..0, stem);
            Vec::new()
        };
        Description::value_and_moves(trunk, value, moves)
    }
}
