//! A network on a device: batch norm is folded, weights are uploaded once, and activations have
//! their channels last, as matrix products need them.

use std::collections::BTreeMap;

use burn::tensor::{
    DType, Device, Int, Tensor as Array, activation,
    module::{avg_pool2d, layer_norm, max_pool2d},
    ops::{AvgPoolOptions, MaxPoolOptions},
};
use nets::{Activation, Head, HeadKind, LEAKY_SLOPE, Network, Pooling, SELU};

use super::{
    attention::{AttentionStep, MoveAttentionStep},
    input_layer::InputLayer,
    maker::Maker,
    neighbours::neighbours,
};
use crate::EvalError;

/// The layers of a network, ready to run on a device.
#[derive(Clone, Debug)]
pub(crate) struct DeviceNetwork {
    trunk: Vec<DeviceStep>,
    heads: BTreeMap<HeadKind, Vec<DeviceStep>>,
    /// The number format of most layers.
    pub dtype: DType,
    /// Bytes of the largest activations of a board, counted as `f32`.
    pub widest: usize,
}

#[derive(Clone, Debug)]
pub(super) enum DeviceStep {
    Input(Box<InputLayer>, Activation),
    /// A layer over single cells: weights `[inputs, outputs]`, bias `[1, outputs]`.
    Cells(Array<2>, Array<2>, Activation),
    /// A layer over the whole board: weights `[cells * inputs, outputs]`, bias `[1, outputs]`.
    Board(Array<2>, Array<2>, Activation),
    /// A `same` convolution: side of the kernel, weights `[kernel * kernel * inputs, outputs]`, bias
    /// `[1, outputs]`.
    Convolution(usize, Array<2>, Array<2>, Activation),
    Residual(Vec<DeviceStep>, Activation),
    Pool(Pooling, usize),
    AppendMean,
    SqueezeExcite(Box<[(Array<2>, Array<2>); 2]>, Activation),
    /// Scale and shift, both `[1, side, side, channels]` in `f32`.
    Gate(Array<4>, Array<4>, Activation),
    /// Scale, shift and what is added to the variance.
    LayerNorm(Array<1>, Array<1>, f64),
    Attention(Box<AttentionStep>),
    /// So many of the first planes, weights `[cells * planes, cells * channels]`, bias `[1, cells *
    /// channels]`.
    BoardEmbedding(usize, Array<2>, Array<2>),
    MoveAttention(Box<MoveAttentionStep>),
}

/// The input of a step.
#[derive(Clone)]
pub(super) enum Flow {
    /// Packed boards ([`super::packed`]) and their number.
    Packed(Array<1, Int>, usize),
    /// `[boards, side, side, channels]`
    Cells(Array<4>),
}

impl DeviceNetwork {
    /// Uploads `network` in the number format `dtype`.
    ///
    /// # Errors
    /// A layer cannot be run, or a tensor is missing.
    pub fn new(network: &Network, device: &Device, dtype: DType) -> Result<Self, EvalError> {
        let maker = Maker::new(network, device, dtype);
        let description = &network.description;
        let mut shape = description.input_shape();
        let trunk = maker.steps("trunk", &description.trunk, &mut shape)?;
        let mut heads = BTreeMap::new();
        for head in &description.heads {
            let mut shape = shape;
            heads.insert(head.kind, maker.steps(head.kind.name(), &head.layers, &mut shape)?);
        }
        Ok(Self { trunk, heads, dtype, widest: maker.widest.get() * size_of::<f32>() })
    }

    /// Do the heads have a common trunk?
    pub fn has_trunk(&self) -> bool {
        !self.trunk.is_empty()
    }

    /// Raw outputs of `heads`, `[boards * outputs]` for each, in the order cell, channel.
    ///
    /// # Errors
    /// The network does not have one of the heads.
    pub fn run(&self, boards: Flow, heads: &[&Head]) -> Result<Vec<Array<1>>, EvalError> {
        let trunk = run(&self.trunk, boards)?;
        let outputs = heads.iter().map(|head| {
            let name = head.kind.name();
            let steps =
                self.heads.get(&head.kind).ok_or_else(|| failed(format!("no {name} head")))?;
            let outputs = run(steps, trunk.clone())?.cells()?;
            let count = outputs.shape().num_elements();
            Ok(outputs.reshape([count]).cast(DType::F32))
        });
        outputs.collect()
    }
}

fn failed(reason: impl Into<String>) -> EvalError {
    EvalError::Device(reason.into())
}

impl Flow {
    pub fn cells(self) -> Result<Array<4>, EvalError> {
        match self {
            Self::Cells(cells) => Ok(cells),
            Self::Packed(..) => Err(failed("a network without an input layer")),
        }
    }
}

pub(super) fn run(steps: &[DeviceStep], mut flow: Flow) -> Result<Flow, EvalError> {
    for step in steps {
        flow = match (step, flow) {
            (DeviceStep::Input(layer, activation), Flow::Packed(boards, count)) => {
                Flow::Cells(activated(layer.run(boards, count), *activation))
            }
            (DeviceStep::Input(..), Flow::Cells(_)) => {
                return Err(failed("an input layer that is not the first"));
            }
            (step, flow) => Flow::Cells(apply(step, flow.cells()?)?),
        };
    }
    Ok(flow)
}

fn apply(step: &DeviceStep, boards: Array<4>) -> Result<Array<4>, EvalError> {
    let [count, side, _, channels] = boards.dims();
    Ok(match step {
        DeviceStep::Input(..) => return Err(failed("an input layer that is not the first")),
        DeviceStep::Cells(weight, bias, activation) => {
            let [_, outputs] = weight.dims();
            let cells = boards.reshape([count * side * side, channels]).cast(weight.dtype());
            let cells = cells.matmul(weight.clone()) + bias.clone();
            activated(cells, *activation).reshape([count, side, side, outputs])
        }
        DeviceStep::Board(weight, bias, activation) => {
            let [_, outputs] = weight.dims();
            let board = boards.reshape([count, side * side * channels]).cast(weight.dtype());
            activated(board.matmul(weight.clone()) + bias.clone(), *activation)
                .reshape([count, 1, 1, outputs])
        }
        DeviceStep::Convolution(kernel, weight, bias, activation) => {
            let [_, outputs] = weight.dims();
            let cells = neighbours(boards.cast(weight.dtype()), *kernel).matmul(weight.clone())
                + bias.clone();
            activated(cells, *activation).reshape([count, side, side, outputs])
        }
        DeviceStep::Residual(steps, activation) => {
            let inner = run(steps, Flow::Cells(boards.clone()))?.cells()?;
            // One of the two may be `f32`.
            let boards = boards.cast(inner.dtype());
            activated(inner + boards, *activation)
        }
        DeviceStep::Pool(pooling, size) => {
            let (boards, size) = (channels_first(boards), [*size; 2]);
            channels_last(match pooling {
                Pooling::Max => max_pool2d(boards, MaxPoolOptions::new(size)),
                Pooling::Average => avg_pool2d(boards, AvgPoolOptions::new(size)),
            })
        }
        DeviceStep::AppendMean => {
            let cells = side * side;
            let mean = boards.clone().reshape([count, cells, channels]).mean_dim(1);
            let mean = mean.reshape([count, 1, 1, channels]).expand([count, side, side, channels]);
            Array::cat(vec![boards, mean], 3)
        }
        DeviceStep::SqueezeExcite(dense, activation) => squeeze_excite(boards, dense, *activation),
        DeviceStep::Gate(scale, shift, activation) => {
            let dtype = boards.dtype();
            let gated = boards.cast(DType::F32) * scale.clone() + shift.clone();
            activated(gated, *activation).cast(dtype)
        }
        DeviceStep::LayerNorm(scale, shift, epsilon) => {
            let (dtype, boards) = (boards.dtype(), boards.cast(DType::F32));
            layer_norm(boards, scale.clone(), Some(shift.clone()), *epsilon).cast(dtype)
        }
        DeviceStep::Attention(attention) => attention.run(boards)?,
        DeviceStep::BoardEmbedding(planes, weight, bias) => {
            board_embedding(boards, *planes, weight, bias)
        }
        DeviceStep::MoveAttention(attention) => attention.run(boards),
    })
}

fn squeeze_excite(
    boards: Array<4>,
    dense: &[(Array<2>, Array<2>); 2],
    activation: Activation,
) -> Array<4> {
    let [count, side, _, channels] = boards.dims();
    let [(squeeze, squeeze_bias), (excite, excite_bias)] = dense;
    let mean = boards.clone().reshape([count, side * side, channels]).mean_dim(1);
    let mean = mean.reshape([count, channels]).cast(squeeze.dtype());
    let hidden = activated(mean.matmul(squeeze.clone()) + squeeze_bias.clone(), activation);
    let excited = hidden.cast(excite.dtype()).matmul(excite.clone()) + excite_bias.clone();
    let part = |index: usize, part: Array<2>| {
        let part = part.narrow(1, index * channels, channels).cast(boards.dtype());
        part.reshape([count, 1, 1, channels]).expand([count, side, side, channels])
    };
    let factors = part(0, activation::sigmoid(excited.clone()));
    boards.clone() * factors + part(1, excited)
}

fn board_embedding(
    boards: Array<4>,
    planes: usize,
    weight: &Array<2>,
    bias: &Array<2>,
) -> Array<4> {
    let [count, side, _, _] = boards.dims();
    let first = boards.clone().narrow(3, 0, planes);
    let first = first.reshape([count, side * side * planes]).cast(weight.dtype());
    let outputs = first.matmul(weight.clone()) + bias.clone();
    let channels = weight.dims()[1] / (side * side);
    let outputs = outputs.reshape([count, side, side, channels]).cast(boards.dtype());
    Array::cat(vec![boards, outputs], 3)
}

fn channels_first(boards: Array<4>) -> Array<4> {
    boards.permute([0, 3, 1, 2])
}

fn channels_last(boards: Array<4>) -> Array<4> {
    boards.permute([0, 2, 3, 1])
}

fn activated<const D: usize>(values: Array<D>, activation: Activation) -> Array<D> {
    match activation {
        Activation::Identity => values,
        Activation::Relu => activation::relu(values),
        Activation::LeakyRelu => activation::leaky_relu(values, f64::from(LEAKY_SLOPE)),
        Activation::Gelu => activation::gelu(values),
        Activation::Silu => activation::silu(values),
        Activation::Tanh => values.tanh(),
        Activation::Mish => activation::mish(values),
        Activation::SquaredRelu => activation::relu(values).powi_scalar(2),
        Activation::Selu => {
            let below = values.clone().clamp_max(0.0).exp().sub_scalar(1.0).mul_scalar(SELU[0]);
            (activation::relu(values) + below).mul_scalar(SELU[1])
        }
    }
}
