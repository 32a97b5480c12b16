//! Builds the steps of a network on a device from its layers, with their weights uploaded.

use std::cell::{Cell, OnceCell};

use burn::tensor::{DType, Device, Tensor as Array, TensorData};
use nets::{Activation, Attention, Branch, Layer, Network, Padding, SHARED_SCORES, Shape};

use super::{
    attention::{AttentionStep, BoardScoresStep, MoveAttentionStep},
    input_layer::InputLayer,
    network::DeviceStep,
};
use crate::{
    EvalError,
    folded::{fold, scale_and_shift, tensor},
};

/// The most weights of a layer over the whole board for which it is computed in `f32`. Such a layer
/// costs little time, and the value is sensitive to its rounding.
const EXACT_BOARD: usize = 1 << 17;

/// The same for a layer over single squares. Most of the error of half precision comes from rounded
/// weights, and these few weights affect all later layers.
const EXACT_CELLS: usize = 1 << 14;

pub(super) struct Maker<'a> {
    network: &'a Network,
    device: &'a Device,
    dtype: DType,
    /// Elements of the largest activations of a board so far.
    pub widest: Cell<usize>,
    /// The matrix of scores that attention layers share, `[generated, cells * cells]`.
    shared_scores: OnceCell<Array<2>>,
}

/// The weights and the bias of a product, with batch norm folded.
struct Product {
    /// `[inputs, outputs]`
    weight: Vec<f32>,
    bias: Vec<f32>,
}

impl Product {
    fn scaled(mut self, factor: f32) -> Self {
        self.weight.iter_mut().chain(&mut self.bias).for_each(|value| *value *= factor);
        self
    }
}

impl<'a> Maker<'a> {
    pub fn new(network: &'a Network, device: &'a Device, dtype: DType) -> Self {
        Self { network, device, dtype, widest: Cell::new(0), shared_scores: OnceCell::new() }
    }

    pub fn steps(
        &self,
        prefix: &str,
        layers: &[Layer],
        shape: &mut Shape,
    ) -> Result<Vec<DeviceStep>, EvalError> {
        let mut steps = Vec::with_capacity(layers.len());
        for (index, layer) in layers.iter().enumerate() {
            steps.push(self.step(&format!("{prefix}.{index}"), layer, *shape)?);
            let inputs = shape.cells * shape.channels;
            let largest = match layer {
                &Layer::Conv { kernel, padding: Padding::Same, .. } => inputs * kernel * kernel,
                Layer::Attention(attention) => {
                    shape.cells * (shape.cells * attention.heads).max(3 * attention.width)
                }
                &Layer::MoveAttention { width } => inputs.max(shape.cells * 2 * width),
                _ => inputs,
            };
            *shape = layer.output_shape(*shape).map_err(|reason| self.unsupported(reason))?;
            self.widest.set(self.widest.get().max(largest).max(shape.cells * shape.channels));
        }
        Ok(steps)
    }

    fn step(&self, name: &str, layer: &Layer, input: Shape) -> Result<DeviceStep, EvalError> {
        Ok(match layer {
            Layer::Branches { branches, norm, activation } => {
                self.branches(name, branches, *norm, *activation)?
            }
            &Layer::Conv { kernel: 1, channels, norm, activation, .. } => {
                let exact = if input.cells == 1 { EXACT_BOARD } else { EXACT_CELLS };
                let (weight, bias) = self.product(name, channels, 1, norm, exact)?;
                DeviceStep::Cells(weight, bias, activation)
            }
            &Layer::Conv { channels, padding: Padding::Valid, norm, activation, .. }
            | &Layer::Dense { channels, norm, activation } => {
                let (weight, bias) =
                    self.product(name, channels, input.cells, norm, EXACT_BOARD)?;
                DeviceStep::Board(weight, bias, activation)
            }
            &Layer::Conv { kernel, channels, norm, activation, .. } => {
                let (weight, bias) = self.product(name, channels, kernel * kernel, norm, 0)?;
                DeviceStep::Convolution(kernel, weight, bias, activation)
            }
            Layer::Residual { layers, activation } => {
                let mut shape = input;
                DeviceStep::Residual(
                    self.steps(&format!("{name}.layers"), layers, &mut shape)?,
                    *activation,
                )
            }
            &Layer::Pool { pooling, size } => DeviceStep::Pool(pooling, size),
            Layer::AppendMean => DeviceStep::AppendMean,
            &Layer::SqueezeExcite { channels, activation } => {
                let dense = |part: &str, outputs| {
                    self.product(&format!("{name}.{part}"), outputs, 1, false, EXACT_BOARD)
                };
                let both = [dense("squeeze", channels)?, dense("excite", 2 * input.channels)?];
                DeviceStep::SqueezeExcite(Box::new(both), activation)
            }
            &Layer::Gate { activation } => {
                let shape = [1, input.side(), input.side(), input.channels];
                let [scale, shift] = scale_and_shift(self.network, name)?
                    .map(|data| self.on(data.to_vec(), shape, DType::F32));
                DeviceStep::Gate(scale, shift, activation)
            }
            &Layer::LayerNorm { millionths } => {
                let [scale, shift] = scale_and_shift(self.network, name)?
                    .map(|data| self.on(data.to_vec(), [input.channels], DType::F32));
                DeviceStep::LayerNorm(scale, shift, f64::from(millionths) * 1e-6)
            }
            Layer::Attention(own) => {
                DeviceStep::Attention(Box::new(self.attention(name, own, input)?))
            }
            &Layer::BoardEmbedding { planes, channels } => {
                let (weight, bias) =
                    self.product(name, input.cells * channels, 1, false, EXACT_BOARD)?;
                DeviceStep::BoardEmbedding(planes, weight, bias)
            }
            &Layer::MoveAttention { width } => {
                DeviceStep::MoveAttention(Box::new(self.move_attention(name, width)?))
            }
        })
    }

    fn branches(
        &self,
        name: &str,
        branches: &[Branch],
        norm: bool,
        activation: Activation,
    ) -> Result<DeviceStep, EvalError> {
        let channels = branches.iter().map(|branch| branch.channels).sum();
        let (factors, bias) = fold(self.network, name, norm, channels)?;
        let weights: Vec<&[f32]> = (0..branches.len())
            .map(|index| tensor(self.network, &format!("{name}.branches.{index}.weight")))
            .collect::<Result<_, _>>()?;
        let relu = activation == Activation::Relu;
        let encoding = self.network.description.encoding;
        let layer =
            InputLayer::new(encoding, branches, &weights, (&factors, bias), relu, self.device);
        let rest = if relu { Activation::Identity } else { activation };
        Ok(DeviceStep::Input(Box::new(layer.cast(self.dtype)), rest))
    }

    fn attention(
        &self,
        name: &str,
        attention: &Attention,
        input: Shape,
    ) -> Result<AttentionStep, EvalError> {
        let &Attention { heads, width, .. } = attention;
        let mut board = None;
        if attention.board.is_some() {
            let mut layers = Vec::new();
            let mut shape = input;
            for (part, layer) in attention.board_layers() {
                layers.push(self.step(&format!("{name}.{part}"), &layer, shape)?);
                shape = layer.output_shape(shape).map_err(|reason| self.unsupported(reason))?;
            }
            board = Some(BoardScoresStep { layers, scores: self.shared_scores(input.cells)? });
        }
        let names = ["query", "key", "value"];
        let projections = self.projections(name, &names, width, width / heads)?;
        Ok(AttentionStep { heads, projections, board })
    }

    fn move_attention(&self, name: &str, width: usize) -> Result<MoveAttentionStep, EvalError> {
        let rows = tensor(self.network, &format!("{name}.promotion.weight"))?;
        // Each of the three pieces adds its row and the last one.
        let promotion = |at: usize| rows[at % 3 * width + at / 3] + rows[3 * width + at / 3];
        let promotions = (0..3 * width).map(promotion).collect();
        let projections = self.projections(name, &["query", "key"], width, width)?;
        // A product needs one number format for both factors.
        let promotions = self.on(promotions, [width, 3], projections.0.dtype());
        Ok(MoveAttentionStep { projections, promotions })
    }

    /// The products of several projections of `width` channels side by side; the first one, the
    /// query, is divided by the root of `depth`.
    fn projections(
        &self,
        name: &str,
        names: &[&str],
        width: usize,
        depth: usize,
    ) -> Result<(Array<2>, Array<2>), EvalError> {
        let (mut weights, mut biases) = (Vec::new(), Vec::new());
        for (index, part) in names.iter().enumerate() {
            let factor = if index == 0 { 1.0 / (depth as f32).sqrt() } else { 1.0 };
            let product = self.folded(&format!("{name}.{part}"), width, 1, false)?.scaled(factor);
            let (weight, bias) = self.upload(product, EXACT_CELLS);
            weights.push(weight);
            biases.push(bias);
        }
        Ok((Array::cat(weights, 1), Array::cat(biases, 1)))
    }

    fn shared_scores(&self, cells: usize) -> Result<Array<2>, EvalError> {
        let own = tensor(self.network, SHARED_SCORES)?;
        let pairs = cells * cells;
        let upload = || {
            let scores = transposed(own, pairs, 1);
            self.on(scores, [own.len() / pairs, pairs], self.dtype)
        };
        Ok(self.shared_scores.get_or_init(upload).clone())
    }

    fn unsupported(&self, reason: String) -> EvalError {
        EvalError::Unsupported { network: self.network.name.clone(), reason }
    }

    /// Weight `[cells * inputs, outputs]` and bias `[1, outputs]` of a layer that reads `cells` cells,
    /// in `f32` if it has at most `exact` weights.
    fn product(
        &self,
        name: &str,
        outputs: usize,
        cells: usize,
        norm: bool,
        exact: usize,
    ) -> Result<(Array<2>, Array<2>), EvalError> {
        Ok(self.upload(self.folded(name, outputs, cells, norm)?, exact))
    }

    fn folded(
        &self,
        name: &str,
        outputs: usize,
        cells: usize,
        norm: bool,
    ) -> Result<Product, EvalError> {
        let (factors, bias) = fold(self.network, name, norm, outputs)?;
        let own = tensor(self.network, &format!("{name}.weight"))?;
        let mut weight = transposed(own, outputs, cells);
        for row in weight.chunks_exact_mut(outputs) {
            row.iter_mut().zip(&factors).for_each(|(weight, factor)| *weight *= factor);
        }
        Ok(Product { weight, bias })
    }

    fn upload(&self, Product { weight, bias }: Product, exact: usize) -> (Array<2>, Array<2>) {
        let dtype = if weight.len() <= exact { DType::F32 } else { self.dtype };
        let outputs = bias.len();
        let inputs = weight.len() / outputs;
        (self.on(weight, [inputs, outputs], dtype), self.on(bias, [1, outputs], dtype))
    }

    fn on<const D: usize>(&self, data: Vec<f32>, shape: [usize; D], dtype: DType) -> Array<D> {
        Array::from_data(TensorData::new(data, shape), (self.device, dtype))
    }
}

/// Weights `[cells][inputs][outputs]` from their order in the file, `[outputs][inputs][cells]`.
fn transposed(own: &[f32], outputs: usize, cells: usize) -> Vec<f32> {
    let each = own.len() / outputs;
    let inputs = each / cells;
    let mut weight = vec![0.0_f32; own.len()];
    for (at, &value) in own.iter().enumerate() {
        let (output, input, cell) = (at / each, at % each / cells, at % cells);
        weight[(cell * inputs + input) * outputs + output] = value;
    }
    weight
}
