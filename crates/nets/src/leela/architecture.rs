//! The architectures of Leela's networks, written down as descriptions.

use super::{
    input::LeelaInput,
    moves::{LEELA_MOVE_PLANES, LEELA_MOVES},
};
use crate::{
    Activation, Attention, BoardScores, Description, Encoding, Head, HeadKind, HeadOutput, Layer,
    Padding,
};

/// The size and the form of a convolutional network of Leela's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leela {
    pub input: LeelaInput,
    pub channels: usize,
    /// Residual blocks.
    pub blocks: usize,
    /// Channels between squeeze and excitation; 0: the blocks have none.
    pub squeezed: usize,
    /// The policy is a list of moves and the value one number.
    pub is_older: bool,
}

/// The size and the form of a network of Leela's with an attention body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeelaAttention {
    pub input: LeelaInput,
    pub channels: usize,
    /// Layers of attention.
    pub layers: usize,
    pub heads: usize,
    /// Channels between the two dense layers behind attention.
    pub hidden: usize,
    /// Channels that the embedding computes from the whole board.
    pub embedded: usize,
    /// Outputs a head from which the scores of the board are made; 0: there are none.
    pub generated: usize,
    pub activation: Activation,
}

impl Description {
    /// A convolutional network of Leela's, as the Maias are.
    #[must_use]
    pub fn leela(choice: &Leela) -> Self {
        let &Leela { input, channels, blocks, squeezed, is_older } = choice;
        let (relu, identity) = (Activation::Relu, Activation::Identity);
        let conv = |kernel, channels, norm, activation| Layer::Conv {
            kernel,
            channels,
            padding: Padding::Same,
            norm,
            activation,
        };
        let dense = |channels, activation| Layer::Dense { channels, norm: false, activation };
        let mut layers = vec![conv(3, channels, true, relu), conv(3, channels, true, identity)];
        if squeezed > 0 {
            layers.push(Layer::SqueezeExcite { channels: squeezed, activation: relu });
        }
        let mut trunk = vec![conv(3, channels, true, relu)];
        trunk.resize(blocks + 1, Layer::Residual { layers, activation: relu });
        let (moves, policy, value, outputs) = if is_older {
            let moves = vec![conv(1, 32, true, relu), dense(LEELA_MOVES, identity)];
            (moves, HeadOutput::LeelaMoves, HeadOutput::Expectation, 1)
        } else {
            let last = conv(3, LEELA_MOVE_PLANES, false, identity);
            let moves = vec![conv(3, channels, true, relu), last];
            (moves, HeadOutput::LeelaPlanes, HeadOutput::WinDrawLoss, 3)
        };
        let values = vec![conv(1, 32, true, relu), dense(128, relu), dense(outputs, identity)];
        let heads = vec![
            Head { kind: HeadKind::Moves, output: policy, layers: moves },
            Head { kind: HeadKind::Value, output: value, layers: values },
        ];
        Self { encoding: Encoding::Leela(input), trunk, heads }
    }

    /// A network of Leela's with an attention body, as her largest are.
    #[must_use]
    pub fn leela_attention(choice: &LeelaAttention) -> Self {
        let &LeelaAttention { channels, heads, generated, activation, .. } = choice;
        let identity = Activation::Identity;
        let each = Layer::each_cell;
        let dense = |channels, activation| Layer::Dense { channels, norm: false, activation };
        let sum = |layers| Layer::Residual { layers, activation: identity };
        let norm = Layer::LayerNorm { millionths: 1000 };
        let board = (generated > 0).then_some(BoardScores {
            compressed: 32,
            hidden: 8 * heads,
            generated,
            activation: Activation::Silu,
        });
        let attention = Layer::Attention(Attention { heads, width: channels, board });
        let feed_forward = sum(vec![each(choice.hidden, activation), each(channels, identity)]);
        let mut trunk = vec![
            Layer::BoardEmbedding { planes: 12, channels: choice.embedded },
            each(channels, activation),
            norm.clone(),
            Layer::Gate { activation: identity },
            feed_forward.clone(),
            norm.clone(),
        ];
        for _ in 0..choice.layers {
            let attention = sum(vec![attention.clone(), each(channels, identity)]);
            trunk.extend([attention, norm.clone(), feed_forward.clone(), norm.clone()]);
        }
        let moves = vec![each(channels, activation), Layer::MoveAttention { width: channels }];
        let value = vec![each(32, activation), dense(128, activation), dense(3, identity)];
        let heads = vec![
            Head { kind: HeadKind::Moves, output: HeadOutput::LeelaPairs, layers: moves },
            Head { kind: HeadKind::Value, output: HeadOutput::WinDrawLoss, layers: value },
        ];
        Self { encoding: Encoding::Leela(choice.input), trunk, heads }
    }
}
