//! The forward pass of the networks in Burn's tensors, channels first.

use std::collections::BTreeMap;

use burn::tensor::{
    DType, Device, Int, Tensor as Array, TensorData, activation,
    module::{avg_pool2d, conv2d, max_pool2d},
    ops::{AvgPoolOptions, ConvOptions, MaxPoolOptions},
};
use nets::{
    Activation, Branch, Encoding, HeadKind, LEAKY_SLOPE, Layer, NORM_EPSILON, Network, Padding,
    Pooling, SELU,
};

use super::failed;
use crate::{
    Examples, TrainError,
    dropout::{Dropout, layer_number},
};

/// Mean and unbiased variance of a batch at one batch norm, by the tensor names' common prefix.
pub(super) type BatchStatistics = Vec<(String, Array<4>, Array<4>)>;

/// A network on one device, with the settings of a forward pass.
#[derive(Clone, Copy, Debug)]
pub(super) struct Graph<'a> {
    pub network: &'a Network,
    pub device: &'a Device,
    /// Number format of the convolutions.
    pub products: DType,
    /// Dropout of a training step; `None` in play.
    pub dropout: Option<Dropout>,
    /// Index of the first position within the batch.
    pub first: usize,
}

impl Graph<'_> {
    /// The requested outputs of these heads. Training passes `statistics`: the pass then uses batch
    /// statistics and appends them. Otherwise it uses the running statistics in `weights`.
    pub fn forward(
        &self,
        heads: &[HeadKind],
        weights: &BTreeMap<String, Array<1>>,
        batch: &Examples,
        mut statistics: Option<&mut BatchStatistics>,
    ) -> Result<Vec<Array<1>>, TrainError> {
        let description = &self.network.description;
        let count = batch.squares.len();
        let mut boards = planes(description.encoding, batch, self.device);
        if statistics.is_some() {
            boards = boards.autodiff();
        }
        for (index, layer) in description.trunk.iter().enumerate() {
            let prefix = format!("trunk.{index}");
            boards = self.layer(&prefix, layer, boards, weights, statistics.as_deref_mut())?;
        }
        let mut outputs = Vec::with_capacity(heads.len());
        for &kind in heads {
            let head = description.head(kind).ok_or_else(|| failed("the head is gone"))?;
            let mut boards = boards.clone();
            for (index, layer) in head.layers.iter().enumerate() {
                let prefix = format!("{}.{index}", kind.name());
                // The last layer has no dropout.
                let dropout = self.dropout.filter(|_| index + 1 < head.layers.len());
                let graph = Graph { dropout, ..*self };
                boards = graph.layer(&prefix, layer, boards, weights, statistics.as_deref_mut())?;
            }
            outputs.push(match kind {
                HeadKind::Value => {
                    let signs = (0..count).map(|position| {
                        let turned = description.encoding.is_whites_view()
                            && batch.turn(position).is_black();
                        if turned { -1.0_f32 } else { 1.0 }
                    });
                    let signs = TensorData::new(signs.collect::<Vec<_>>(), [count]);
                    let mut signs = Array::<1>::from_data(signs, self.device);
                    if statistics.is_some() {
                        signs = signs.autodiff();
                    }
                    boards.reshape([count]) * signs
                }
                _ if kind.is_selector() => {
                    // Outputs are ordered by cell, then by channel.
                    let [_, channels, rows, columns] = boards.dims();
                    let cells = boards.reshape([count, channels, rows * columns]).swap_dims(1, 2);
                    cells.reshape([count * kind.outputs()])
                }
                _ => {
                    let [_, channels, rows, columns] = boards.dims();
                    let cells = rows * columns;
                    let place = |(index, &mv): (usize, &u16)| {
                        let (cell, channel) =
                            (usize::from(mv) / channels, usize::from(mv) % channels);
                        let board = match batch.ends.as_slice() {
                            [] => index / batch.moves_each().max(1),
                            ends => ends.partition_point(|&end| end <= index),
                        };
                        ((board * channels + channel) * cells + cell) as i64
                    };
                    let places: Vec<i64> = batch.moves.iter().enumerate().map(place).collect();
                    let asked = places.len();
                    let mut places =
                        Array::<1, Int>::from_data(TensorData::new(places, [asked]), self.device);
                    if statistics.is_some() {
                        places = places.autodiff();
                    }
                    boards.reshape([count * channels * cells]).gather(0, places)
                }
            });
        }
        Ok(outputs)
    }

    /// The outputs of all branches of an input layer, concatenated along the channels.
    fn branches(
        &self,
        prefix: &str,
        branches: &[Branch],
        boards: Array<4>,
        weights: &BTreeMap<String, Array<1>>,
    ) -> Result<Array<4>, TrainError> {
        let [_, inputs, ..] = boards.dims();
        let mut outputs = Vec::with_capacity(branches.len());
        for (index, branch) in branches.iter().enumerate() {
            let name = format!("{prefix}.branches.{index}.weight");
            let kernel = weights.get(&name).ok_or_else(|| failed(format!("no tensor `{name}`")))?;
            let [rows, columns] = branch.kernel;
            let kernel = kernel.clone().reshape([branch.channels, inputs, rows, columns]);
            let padding = [0, 1].map(|axis| same(branch.kernel[axis], branch.dilation[axis]));
            let options = ConvOptions::new_with_padding([1, 1], padding, branch.dilation, 1);
            outputs.push(self.product(boards.clone(), kernel, options));
        }
        Ok(Array::cat(outputs, 1))
    }

    fn layer(
        &self,
        prefix: &str,
        layer: &Layer,
        boards: Array<4>,
        weights: &BTreeMap<String, Array<1>>,
        mut statistics: Option<&mut BatchStatistics>,
    ) -> Result<Array<4>, TrainError> {
        let [count, inputs, side, _] = boards.dims();
        let weight = |name: String, shape: [usize; 4]| {
            let weight = weights.get(&name).ok_or_else(|| failed(format!("no tensor `{name}`")))?;
            Ok::<_, TrainError>(weight.clone().reshape(shape))
        };
        let (outputs, has_norm, activation) = match layer {
            Layer::Branches { branches, norm, activation } => {
                (self.branches(prefix, branches, boards, weights)?, *norm, activation)
            }
            Layer::Conv { kernel, channels, padding, norm, activation } => {
                let weight =
                    weight(format!("{prefix}.weight"), [*channels, inputs, *kernel, *kernel])?;
                let padding = match padding {
                    Padding::Same => [same(*kernel, 1); 2],
                    Padding::Valid => [(0, 0); 2],
                };
                let options = ConvOptions::new_with_padding([1, 1], padding, [1, 1], 1);
                (self.product(boards, weight, options), *norm, activation)
            }
            Layer::Dense { channels, norm, activation } => {
                let weight = weight(format!("{prefix}.weight"), [*channels, inputs, side, side])?;
                let options = ConvOptions::new([1, 1], [0, 0], [1, 1], 1);
                (self.product(boards, weight, options), *norm, activation)
            }
            Layer::Residual { layers, activation } => {
                let mut sum = boards.clone();
                for (index, layer) in layers.iter().enumerate() {
                    let prefix = format!("{prefix}.layers.{index}");
                    sum = self.layer(&prefix, layer, sum, weights, statistics.as_deref_mut())?;
                }
                return Ok(activated(sum + boards, *activation));
            }
            Layer::Pool { pooling, size } => {
                let size = [*size; 2];
                return Ok(match pooling {
                    Pooling::Max => max_pool2d(boards, MaxPoolOptions::new(size)),
                    Pooling::Average => avg_pool2d(boards, AvgPoolOptions::new(size)),
                });
            }
            Layer::AppendMean => {
                let mean =
                    boards.clone().mean_dim(2).mean_dim(3).expand([count, inputs, side, side]);
                return Ok(Array::cat(vec![boards, mean], 1));
            }
            &Layer::SqueezeExcite { channels, activation } => {
                let dense = |part: &str, boards: Array<4>, inputs, outputs| {
                    let matrix =
                        weight(format!("{prefix}.{part}.weight"), [outputs, inputs, 1, 1])?;
                    let bias = weight(format!("{prefix}.{part}.bias"), [1, outputs, 1, 1])?;
                    let options = ConvOptions::new([1, 1], [0, 0], [1, 1], 1);
                    Ok::<_, TrainError>(self.product(boards, matrix, options) + bias)
                };
                let mean = boards.clone().mean_dim(2).mean_dim(3);
                let hidden = activated(dense("squeeze", mean, inputs, channels)?, activation);
                let excited = dense("excite", hidden, channels, 2 * inputs)?;
                let part = |first: usize| {
                    excited.clone().narrow(1, first, inputs).expand([count, inputs, side, side])
                };
                return Ok(boards * activation::sigmoid(part(0)) + part(inputs));
            }
            Layer::Gate { .. }
            | Layer::LayerNorm { .. }
            | Layer::Attention(_)
            | Layer::BoardEmbedding { .. }
            | Layer::MoveAttention { .. } => return Err(TrainError::untrained(prefix)),
        };
        let [_, channels, ..] = outputs.dims();
        let outputs = if has_norm {
            self.norm(prefix, outputs, weights, statistics)?
        } else {
            outputs + weight(format!("{prefix}.bias"), [1, channels, 1, 1])?
        };
        let outputs = activated(outputs, *activation);
        match self.dropout {
            Some(dropout) if matches!(layer, Layer::Dense { .. }) => {
                let number = layer_number(prefix);
                let factors: Vec<f32> = (0..count)
                    .flat_map(|position| {
                        dropout.factors(number, self.first + position).take(channels)
                    })
                    .collect();
                let factors = TensorData::new(factors, [count, channels, 1, 1]);
                Ok(outputs * Array::<4>::from_data(factors, self.device).autodiff())
            }
            _ => Ok(outputs),
        }
    }

    /// A convolution in the number format of products; sums between layers stay in single
    /// precision.
    fn product(&self, boards: Array<4>, weight: Array<4>, options: ConvOptions<2>) -> Array<4> {
        if self.products == DType::F32 {
            return conv2d(boards, weight, None, options);
        }
        conv2d(boards.cast(self.products), weight.cast(self.products), None, options)
            .cast(DType::F32)
    }

    fn norm(
        &self,
        prefix: &str,
        boards: Array<4>,
        weights: &BTreeMap<String, Array<1>>,
        statistics: Option<&mut BatchStatistics>,
    ) -> Result<Array<4>, TrainError> {
        let [count, channels, rows, columns] = boards.dims();
        let shape = [1, channels, 1, 1];
        let vector = |part: &str| {
            let name = format!("{prefix}.norm.{part}");
            let weight = weights.get(&name).ok_or_else(|| failed(format!("no tensor `{name}`")))?;
            Ok::<_, TrainError>(weight.clone().reshape(shape))
        };
        let mean_of = |values: Array<4>| values.mean_dim(0).mean_dim(2).mean_dim(3);
        let (mean, variance) = match statistics {
            Some(statistics) => {
                let mean = mean_of(boards.clone());
                let centred = boards.clone() - mean.clone();
                let variance = mean_of(centred.clone() * centred);
                let cells = (count * rows * columns) as f64;
                let unbiased = variance.clone().inner() * (cells / (cells - 1.0).max(1.0));
                statistics.push((prefix.to_owned(), mean.clone().inner(), unbiased));
                (mean, variance)
            }
            None => (vector("mean")?, vector("variance")?),
        };
        let normal = (boards - mean) / (variance + f64::from(NORM_EPSILON)).sqrt();
        Ok(normal * vector("scale")? + vector("shift")?)
    }
}

fn activated(boards: Array<4>, activation: Activation) -> Array<4> {
    match activation {
        Activation::Identity => boards,
        Activation::Relu => activation::relu(boards),
        Activation::LeakyRelu => activation::leaky_relu(boards, f64::from(LEAKY_SLOPE)),
        Activation::Gelu => activation::gelu(boards),
        Activation::Silu => activation::silu(boards),
        Activation::Tanh => boards.tanh(),
        Activation::Mish => activation::mish(boards),
        Activation::SquaredRelu => activation::relu(boards).powi_scalar(2),
        Activation::Selu => {
            let below = boards.clone().clamp_max(0.0).exp().sub_scalar(1.0).mul_scalar(SELU[0]);
            (activation::relu(boards) + below).mul_scalar(SELU[1])
        }
    }
}

/// Padding before and after that keeps the size, as defined by `nets::Branch`.
fn same(kernel: usize, dilation: usize) -> (usize, usize) {
    let reach = dilation * (kernel - 1);
    (reach / 2, reach - reach / 2)
}

/// The input planes `[positions, planes, rows, columns]`: the states of the squares are uploaded
/// and expanded to planes on the device.
fn planes(encoding: Encoding, batch: &Examples, device: &Device) -> Array<4> {
    let (planes, states, count) = (encoding.planes(), encoding.states(), batch.squares.len());
    let mut table = vec![0.0_f32; states * planes];
    for (state, row) in table.chunks_exact_mut(planes).enumerate() {
        encoding.planes_of(state).into_iter().for_each(|(plane, value)| row[plane] = value);
    }
    let mut squares = Vec::with_capacity(count * 64);
    for (position, board) in batch.squares.iter().enumerate() {
        squares.extend(encoding.states_of(board, batch.turn(position)).map(i32::from));
    }
    let table = Array::<2>::from_data(TensorData::new(table, [states, planes]), device);
    let squares = Array::<1, Int>::from_data(TensorData::new(squares, [count * 64]), device);
    table.select(0, squares).reshape([count, 8, 8, planes]).permute([0, 3, 1, 2])
}
