//! The published architectures, written down as descriptions.

use crate::{
    Activation, Branch, Description, Encoding, Head, HeadKind, Layer, MOVE_PLANES, Padding, Pooling,
};

/// The settings of our own residual network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchFirstResidual {
    /// Channels of the trunk after the input layer.
    pub filters: usize,
    /// Residual blocks.
    pub blocks: usize,
}

impl Default for BatchFirstResidual {
    fn default() -> Self {
        Self { filters: 64, blocks: 4 }
    }
}

/// The settings of Cockfish's network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cockfish {
    /// Channels of the stem and of every block.
    pub filters: usize,
    /// Residual blocks.
    pub blocks: usize,
    pub activation: Activation,
    /// Append each channel's average over the board to every square before the dense layers.
    pub global_mean: bool,
}

impl Default for Cockfish {
    /// As published.
    fn default() -> Self {
        Self { filters: 64, blocks: 4, activation: Activation::Relu, global_mean: true }
    }
}

/// The settings of ConvChess's networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvChess {
    /// Number of 3x3 convolutions.
    pub convolutions: usize,
    /// Channels of each convolution.
    pub filters: usize,
    /// Number of convolutions, counted from the first, with a 2x2 max-pooling behind them; at most
    /// three fit the board.
    pub pools: usize,
    /// Outputs of the dense layer before the last layer.
    pub dense: usize,
}

impl Default for ConvChess {
    /// As published: three convolutions of 32 channels, each followed by pooling, and 128 dense
    /// outputs.
    fn default() -> Self {
        Self { convolutions: 3, filters: 32, pools: 3, dense: 128 }
    }
}

impl Description {
    /// A value head and a move head on one trunk (which may be empty), for positions encoded as in
    /// Batch First.
    #[must_use]
    pub fn value_and_moves(trunk: Vec<Layer>, value: Vec<Layer>, moves: Vec<Layer>) -> Self {
        let heads = vec![Head::plain(HeadKind::Value, value), Head::plain(HeadKind::Moves, moves)];
        Self { encoding: Encoding::BatchFirst15, trunk, heads }
    }

    /// The nine input convolutions of Batch First: together they cover the squares from which some
    /// piece could reach the centre.
    fn batch_first_input() -> Layer {
        let widths = [64, 32, 20, 20, 18, 18, 16];
        let mut branches: Vec<Branch> = (1..)
            .zip(widths)
            .map(|(step, channels)| Branch { kernel: [3, 3], dilation: [step, step], channels })
            .collect();
        for dilation in [[2, 4], [4, 2]] {
            branches.push(Branch { kernel: [2, 2], dilation, channels: 24 });
        }
        Layer::Branches { branches, norm: true, activation: Activation::Relu }
    }

    /// The layers that the value and the move network of Batch First (2018) have in common.
    fn batch_first_body() -> Vec<Layer> {
        let conv = |kernel, channels| Layer::Conv {
            kernel,
            channels,
            padding: Padding::Same,
            norm: true,
            activation: Activation::Relu,
        };
        let mut layers = vec![Self::batch_first_input(), conv(1, 512), conv(1, 128)];
        layers.extend((0..6).map(|_| conv(3, 32)));
        layers
    }

    /// The value network of Batch First (2018), or its move network, or both side by side.
    #[must_use]
    pub fn batch_first(kinds: &[HeadKind]) -> Self {
        let heads = kinds
            .iter()
            .map(|&kind| {
                let mut layers = Self::batch_first_body();
                if kind == HeadKind::Value {
                    layers.push(Layer::Conv {
                        kernel: 8,
                        channels: 16,
                        padding: Padding::Valid,
                        norm: true,
                        activation: Activation::Relu,
                    });
                }
                layers.push(Layer::Conv {
                    kernel: 1,
                    channels: if kind == HeadKind::Value { 1 } else { MOVE_PLANES },
                    padding: Padding::Same,
                    norm: false,
                    activation: Activation::Identity,
                });
                Head::plain(kind, layers)
            })
            .collect();
        Self { encoding: Encoding::BatchFirst15, trunk: Vec::new(), heads }
    }

    /// Value and move head of Batch First on one trunk: the layers up to the last 3x3 convolution
    /// are computed once for both.
    #[must_use]
    pub fn batch_first_shared() -> Self {
        let conv = |kernel, channels, padding| Layer::Conv {
            kernel,
            channels,
            padding,
            norm: true,
            activation: Activation::Relu,
        };
        let last = |channels| Layer::Conv {
            kernel: 1,
            channels,
            padding: Padding::Same,
            norm: false,
            activation: Activation::Identity,
        };
        let value = vec![conv(8, 16, Padding::Valid), last(1)];
        // The 73 move planes need more input channels than the trunk's 32.
        let moves = vec![conv(3, 64, Padding::Same), last(MOVE_PLANES)];
        Self::value_and_moves(Self::batch_first_body(), value, moves)
    }

    /// Batch First's input layer, then residual blocks as in Cockfish: two 3x3 convolutions whose
    /// output is added to their input. Then every channel's average over the board is appended to
    /// every square and mixed by a 1x1 convolution. Value and move head share these layers.
    #[must_use]
    pub fn batch_first_residual(settings: &BatchFirstResidual) -> Self {
        let &BatchFirstResidual { filters, blocks } = settings;
        let conv = |kernel, channels, padding, activation| Layer::Conv {
            kernel,
            channels,
            padding,
            norm: true,
            activation,
        };
        let same = |kernel, channels, activation| conv(kernel, channels, Padding::Same, activation);
        let last = |channels| Layer::Conv {
            kernel: 1,
            channels,
            padding: Padding::Same,
            norm: false,
            activation: Activation::Identity,
        };
        let relu = Activation::Relu;
        let mut trunk = vec![Self::batch_first_input(), same(1, filters, relu)];
        trunk.extend((0..blocks).map(|_| Layer::Residual {
            layers: vec![same(3, filters, relu), same(3, filters, Activation::Identity)],
            activation: relu,
        }));
        trunk.extend([Layer::AppendMean, same(1, filters, relu)]);
        let value = vec![conv(8, 32, Padding::Valid, relu), last(1)];
        let moves = vec![same(3, 64, relu), last(MOVE_PLANES)];
        Self::value_and_moves(trunk, value, moves)
    }

    /// Cockfish's value network (2026). Its value is White's, between -1 and 1.
    #[must_use]
    pub fn cockfish(settings: &Cockfish) -> Self {
        let &Cockfish { filters, blocks, activation, global_mean } = settings;
        let conv = |activation| Layer::Conv {
            kernel: 3,
            channels: filters,
            padding: Padding::Same,
            norm: true,
            activation,
        };
        let stem = vec![Branch { kernel: [3, 3], dilation: [1, 1], channels: filters }];
        let mut layers = vec![Layer::Branches { branches: stem, norm: true, activation }];
        layers.extend((0..blocks).map(|_| Layer::Residual {
            layers: vec![conv(activation), conv(Activation::Identity)],
            activation,
        }));
        if global_mean {
            layers.push(Layer::AppendMean);
        }
        let dense = |channels, activation| Layer::Dense { channels, norm: false, activation };
        layers.extend([dense(256, activation), dense(128, activation), dense(1, Activation::Tanh)]);
        let heads = vec![Head::plain(HeadKind::Value, layers)];
        Self { encoding: Encoding::Cockfish13, trunk: Vec::new(), heads }
    }

    /// ConvChess's networks (2015) for the heads in `kinds`, side by side: [`HeadKind::From`] and
    /// the six move selectors. Their outputs are logits; the caller applies the published softmax.
    #[must_use]
    pub fn convchess(settings: &ConvChess, kinds: &[HeadKind]) -> Self {
        let relu = Activation::Relu;
        let &ConvChess { convolutions, filters, pools, dense } = settings;
        let mut body = Vec::new();
        for index in 0..convolutions {
            body.push(if index == 0 {
                let branches = vec![Branch { kernel: [3, 3], dilation: [1, 1], channels: filters }];
                Layer::Branches { branches, norm: false, activation: relu }
            } else {
                let padding = Padding::Same;
                Layer::Conv { kernel: 3, channels: filters, padding, norm: false, activation: relu }
            });
            if index < pools {
                body.push(Layer::Pool { pooling: Pooling::Max, size: 2 });
            }
        }
        body.push(Layer::Dense { channels: dense, norm: false, activation: relu });
        body.push(Layer::Dense { channels: 64, norm: false, activation: Activation::Identity });
        let heads = kinds.iter().map(|&kind| Head::plain(kind, body.clone())).collect();
        Self { encoding: Encoding::ConvChess6, trunk: Vec::new(), heads }
    }
}
