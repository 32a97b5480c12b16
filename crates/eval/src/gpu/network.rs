//! A network on a device: batch norm is folded, weights are uploaded once, and activations have
//! their channels last, as matrix products need them.

use std::{cell::Cell, collections::BTreeMap};

use burn::tensor::{
    DType, Device, Int, Tensor as Array, TensorData, activation,
    module::{avg_pool2d, max_pool2d},
    ops::{AvgPoolOptions, MaxPoolOptions},
};
use nets::{Activation, HeadKind, LEAKY_SLOPE, Layer, Network, Padding, Pooling, SELU, Shape};

use super::{input_layer::InputLayer, neighbours::neighbours};
use crate::{
    EvalError,
    folded::{fold, tensor},
};

/// The most weights of a layer over the whole board for which it is computed in `f32`. Such a layer
/// costs little time, and the value is sensitive to its rounding.
const EXACT_BOARD: usize = 1 << 17;

/// The same for a layer over single squares. Most of the error of half precision comes from rounded
/// weights, and these few weights affect all later layers.
const EXACT_CELLS: usize = 1 << 14;

/// The layers of a network, ready to run on a device.
#[derive(Clone, Debug)]
pub(crate) struct DeviceNetwork {
    trunk: Vec<Step>,
    heads: BTreeMap<HeadKind, Vec<Step>>,
    /// Bytes of the largest activations of a board, counted as `f32`.
    pub widest: usize,
}

#[derive(Clone, Debug)]
enum Step {
    Input(Box<InputLayer>, Activation),
    /// A layer over single cells: weights `[inputs, outputs]`, bias `[1, outputs]`.
    Cells(Array<2>, Array<2>, Activation),
    /// A layer over the whole board: weights `[cells * inputs, outputs]`, bias `[1, outputs]`.
    Board(Array<2>, Array<2>, Activation),
    /// A `same` convolution: side of the kernel, weights `[kernel * kernel * inputs, outputs]`, bias
    /// `[1, outputs]`.
    Convolution(usize, Array<2>, Array<2>, Activation),
    Residual(Vec<Step>, Activation),
    Pool(Pooling, usize),
    AppendMean,
    SqueezeExcite(Box<[(Array<2>, Array<2>); 2]>, Activation),
}

/// The input of a step.
#[derive(Clone)]
enum Flow {
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
        if network.description.encoding.has_history() {
            let reason = "it sees earlier positions, which only processors give to networks yet";
            let network = network.name.clone();
            return Err(EvalError::Unsupported { network, reason: reason.to_owned() });
        }
        let maker = Maker { network, device, dtype, widest: Cell::new(0) };
        let description = &network.description;
        let mut shape = description.input_shape();
        let trunk = maker.steps("trunk", &description.trunk, &mut shape)?;
        let mut heads = BTreeMap::new();
        for head in &description.heads {
            let mut shape = shape;
            heads.insert(head.kind, maker.steps(head.kind.name(), &head.layers, &mut shape)?);
        }
        Ok(Self { trunk, heads, widest: maker.widest.get() * size_of::<f32>() })
    }

    /// Do the heads have a common trunk?
    pub fn has_trunk(&self) -> bool {
        !self.trunk.is_empty()
    }

    /// Raw outputs of `heads`, `[boards * outputs]` for each, in the order cell, channel.
    ///
    /// # Errors
    /// The network does not have one of the heads.
    pub fn run(
        &self,
        boards: Array<1, Int>,
        count: usize,
        heads: &[HeadKind],
    ) -> Result<Vec<Array<1>>, EvalError> {
        let trunk = run(&self.trunk, Flow::Packed(boards, count))?;
        let outputs = heads.iter().map(|kind| {
            let steps =
                self.heads.get(kind).ok_or_else(|| failed(format!("no {} head", kind.name())))?;
            let outputs = run(steps, trunk.clone())?.cells()?;
            Ok(outputs.reshape([count * kind.outputs()]).cast(DType::F32))
        });
        outputs.collect()
    }
}

fn failed(reason: impl Into<String>) -> EvalError {
    EvalError::Device(reason.into())
}

impl Flow {
    fn cells(self) -> Result<Array<4>, EvalError> {
        match self {
            Self::Cells(cells) => Ok(cells),
            Self::Packed(..) => Err(failed("a network without an input layer")),
        }
    }
}

fn run(steps: &[Step], mut flow: Flow) -> Result<Flow, EvalError> {
    for step in steps {
        flow = match (step, flow) {
            (Step::Input(layer, activation), Flow::Packed(boards, count)) => {
                Flow::Cells(activated(layer.run(boards, count), *activation))
            }
            (Step::Input(..), Flow::Cells(_)) => {
                return Err(failed("an input layer that is not the first"));
            }
            (step, flow) => Flow::Cells(apply(step, flow.cells()?)?),
        };
    }
    Ok(flow)
}

fn apply(step: &Step, boards: Array<4>) -> Result<Array<4>, EvalError> {
    let [count, side, _, channels] = boards.dims();
    Ok(match step {
        Step::Input(..) => return Err(failed("an input layer that is not the first")),
        Step::Cells(weight, bias, activation) => {
            let [_, outputs] = weight.dims();
            let cells = boards.reshape([count * side * side, channels]).cast(weight.dtype());
            let cells = cells.matmul(weight.clone()) + bias.clone();
            activated(cells, *activation).reshape([count, side, side, outputs])
        }
        Step::Board(weight, bias, activation) => {
            let [_, outputs] = weight.dims();
            let board = boards.reshape([count, side * side * channels]).cast(weight.dtype());
            activated(board.matmul(weight.clone()) + bias.clone(), *activation)
                .reshape([count, 1, 1, outputs])
        }
        Step::Convolution(kernel, weight, bias, activation) => {
            let [_, outputs] = weight.dims();
            let cells = neighbours(boards.cast(weight.dtype()), *kernel).matmul(weight.clone())
                + bias.clone();
            activated(cells, *activation).reshape([count, side, side, outputs])
        }
        Step::Residual(steps, activation) => {
            let inner = run(steps, Flow::Cells(boards.clone()))?.cells()?;
            // One of the two may be `f32`.
            let boards = boards.cast(inner.dtype());
            activated(inner + boards, *activation)
        }
        Step::Pool(pooling, size) => {
            let (boards, size) = (channels_first(boards), [*size; 2]);
            channels_last(match pooling {
                Pooling::Max => max_pool2d(boards, MaxPoolOptions::new(size)),
                Pooling::Average => avg_pool2d(boards, AvgPoolOptions::new(size)),
            })
        }
        Step::AppendMean => {
            let cells = side * side;
            let mean = boards.clone().reshape([count, cells, channels]).mean_dim(1);
            let mean = mean.reshape([count, 1, 1, channels]).expand([count, side, side, channels]);
            Array::cat(vec![boards, mean], 3)
        }
        Step::SqueezeExcite(dense, activation) => {
            let [(squeeze, squeeze_bias), (excite, excite_bias)] = &**dense;
            let mean = boards.clone().reshape([count, side * side, channels]).mean_dim(1);
            let mean = mean.reshape([count, channels]).cast(squeeze.dtype());
            let hidden =
                activated(mean.matmul(squeeze.clone()) + squeeze_bias.clone(), *activation);
            let excited = hidden.cast(excite.dtype()).matmul(excite.clone()) + excite_bias.clone();
            let part = |index: usize, part: Array<2>| {
                let part = part.narrow(1, index * channels, channels).cast(boards.dtype());
                part.reshape([count, 1, 1, channels]).expand([count, side, side, channels])
            };
            let factors = part(0, activation::sigmoid(excited.clone()));
            boards.clone() * factors + part(1, excited)
        }
    })
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

struct Maker<'a> {
    network: &'a Network,
    device: &'a Device,
    dtype: DType,
    /// Elements of the largest activations of a board so far.
    widest: Cell<usize>,
}

impl Maker<'_> {
    fn steps(
        &self,
        prefix: &str,
        layers: &[Layer],
        shape: &mut Shape,
    ) -> Result<Vec<Step>, EvalError> {
        let mut steps = Vec::with_capacity(layers.len());
        for (index, layer) in layers.iter().enumerate() {
            steps.push(self.step(&format!("{prefix}.{index}"), layer, *shape)?);
            let sees = match layer {
                &Layer::Conv { kernel, padding: Padding::Same, .. } => kernel * kernel,
                _ => 1,
            };
            let read = shape.cells * shape.channels * sees;
            *shape = layer.output_shape(*shape).map_err(|reason| EvalError::Unsupported {
                network: self.network.name.clone(),
                reason,
            })?;
            self.widest.set(self.widest.get().max(read).max(shape.cells * shape.channels));
        }
        Ok(steps)
    }

    fn step(&self, name: &str, layer: &Layer, input: Shape) -> Result<Step, EvalError> {
        Ok(match layer {
            Layer::Branches { branches, norm, activation } => {
                let channels = branches.iter().map(|branch| branch.channels).sum();
                let (factors, bias) = fold(self.network, name, *norm, channels)?;
                let weights: Vec<&[f32]> = (0..branches.len())
                    .map(|index| tensor(self.network, &format!("{name}.branches.{index}.weight")))
                    .collect::<Result<_, _>>()?;
                let relu = *activation == Activation::Relu;
                let encoding = self.network.description.encoding;
                let layer = InputLayer::new(
                    encoding,
                    branches,
                    &weights,
                    (&factors, bias),
                    relu,
                    self.device,
                );
                Step::Input(
                    Box::new(layer.cast(self.dtype)),
                    if relu { Activation::Identity } else { *activation },
                )
            }
            &Layer::Conv { kernel: 1, channels, norm, activation, .. } => {
                let exact = if input.cells == 1 { EXACT_BOARD } else { EXACT_CELLS };
                let (weight, bias) = self.product(name, channels, 1, norm, exact)?;
                Step::Cells(weight, bias, activation)
            }
            &Layer::Conv { channels, padding: Padding::Valid, norm, activation, .. }
            | &Layer::Dense { channels, norm, activation } => {
                let (weight, bias) =
                    self.product(name, channels, input.cells, norm, EXACT_BOARD)?;
                Step::Board(weight, bias, activation)
            }
            &Layer::Conv { kernel, channels, norm, activation, .. } => {
                let (weight, bias) = self.product(name, channels, kernel * kernel, norm, 0)?;
                Step::Convolution(kernel, weight, bias, activation)
            }
            Layer::Residual { layers, activation } => {
                let mut shape = input;
                Step::Residual(
                    self.steps(&format!("{name}.layers"), layers, &mut shape)?,
                    *activation,
                )
            }
            &Layer::Pool { pooling, size } => Step::Pool(pooling, size),
            Layer::AppendMean => Step::AppendMean,
            &Layer::SqueezeExcite { channels, activation } => {
                let dense = |part: &str, outputs| {
                    self.product(&format!("{name}.{part}"), outputs, 1, false, EXACT_BOARD)
                };
                let both = [dense("squeeze", channels)?, dense("excite", 2 * input.channels)?];
                Step::SqueezeExcite(Box::new(both), activation)
            }
            Layer::Gate { .. }
            | Layer::LayerNorm { .. }
            | Layer::Attention(_)
            | Layer::BoardEmbedding { .. }
            | Layer::MoveAttention { .. } => {
                let reason = format!("layer {name} is one that only processors compute yet");
                let network = self.network.name.clone();
                return Err(EvalError::Unsupported { network, reason });
            }
        })
    }

    /// Weight `[cells * inputs, outputs]` and bias of a layer that reads `cells` cells, in `f32` if it
    /// has at most `exact` weights. The order in the file is `[outputs][inputs][cells]`.
    fn product(
        &self,
        name: &str,
        outputs: usize,
        cells: usize,
        norm: bool,
        exact: usize,
    ) -> Result<(Array<2>, Array<2>), EvalError> {
        let (factors, bias) = fold(self.network, name, norm, outputs)?;
        let own = tensor(self.network, &format!("{name}.weight"))?;
        let each = own.len() / outputs;
        let inputs = each / cells;
        let mut weight = vec![0.0_f32; own.len()];
        for (at, value) in own.iter().enumerate() {
            let (output, input, cell) = (at / each, at % each / cells, at % cells);
            weight[(cell * inputs + input) * outputs + output] = value * factors[output];
        }
        let dtype = if own.len() <= exact { DType::F32 } else { self.dtype };
        let on = |data: Vec<f32>, shape| {
            Array::<2>::from_data(TensorData::new(data, shape), (self.device, dtype))
        };
        Ok((on(weight, [each, outputs]), on(bias, [1, outputs])))
    }
}
