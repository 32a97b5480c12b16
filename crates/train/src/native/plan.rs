//! The layers of one head or several (and the trunk before them) as training runs them: stages that end in a batch norm
//! or bias and an activation, and each head's last 1x1 convolution, of which only the asked-for outputs are computed.

use eval::cpu::matmul::{Buffer, Element, padded};
use nets::{
    Activation, Encoding, HeadKind, Layer, MOVE_PLANES, NORM_EPSILON, Network, PLANES, Padding, Shape,
    Tensor, TensorSpec,
};

use super::{
    input::InputLayer,
    parameters::{Parameter, tensor},
    passes::{Affine, NormBackward},
};
use crate::TrainError;

/// A convolution as a product over taps.
#[derive(Debug)]
pub(super) struct Convolution<E> {
    weight: usize,
    /// Odd size; an 8x8 `valid` convolution is size 1 over one cell that holds the whole board.
    pub kernel: usize,
    /// Rows a board has in the product: 64 or 1.
    pub cells: usize,
    /// Padded input channels of a row.
    pub inner: usize,
    /// Packed weights, and packed weights of the way back.
    pub forward: Buffer<E>,
    pub backward: Buffer<E>,
}

/// What a stage multiplies by.
#[derive(Debug)]
pub(super) enum Operation<E> {
    Input { layer: InputLayer, branches: Vec<usize>, slabs: Buffer<f32> },
    Product(Convolution<E>),
}

/// What follows a stage's product.
#[derive(Debug)]
pub(super) enum Norm {
    Batch { scale: usize, shift: usize, prefix: String, running_mean: Vec<f32>, running_variance: Vec<f32> },
    Bias(usize),
}

/// One layer but the last.
#[derive(Debug)]
pub(super) struct Stage<E> {
    /// The stage whose output this one reads; none for an input layer.
    pub before: Option<usize>,
    /// On the way back a later head has already left its part of the gradient of the stage before.
    pub adds: bool,
    pub operation: Operation<E>,
    pub norm: Norm,
    pub cells: usize,
    pub channels: usize,
    /// Channels with padding.
    pub width: usize,
    /// Elements of the gradient that a shard collects.
    pub gradient_size: usize,
    /// The map before the activation, with the statistics now in use.
    pub affine: Affine,
    /// Mean now in use (0 without norm).
    pub mean: Vec<f32>,
    variance: Vec<f64>,
    pub back: NormBackward,
}

/// A head's last convolution.
#[derive(Debug)]
pub(super) struct Last {
    /// The stage whose output it reads.
    pub stage: usize,
    /// The head's first stage; where it has none, the first of the next head.
    pub first: usize,
    /// As [`Stage::adds`].
    pub adds: bool,
    pub weight: usize,
    pub bias: usize,
    /// Elements of the input that one output sees.
    pub inner: usize,
}

/// Stages, last layers and all trained tensors.
#[derive(Debug)]
pub(super) struct Plan<E> {
    /// The trunk's, then each head's in turn.
    pub stages: Vec<Stage<E>>,
    /// One a head, in the order of the heads.
    pub lasts: Vec<Last>,
    /// The trunk's last stage, where several heads follow it.
    pub junction: Option<usize>,
    pub parameters: Vec<Parameter>,
}

/// Where the elements of a tensor `[outputs, inputs, kernel, kernel]` lie.
fn convolution_places(shape: &[usize], index: impl Fn(usize, usize, usize, usize) -> usize) -> Vec<u32> {
    let mut places = Vec::with_capacity(shape.iter().product());
    for output in 0..shape[0] {
        for input in 0..shape[1] {
            for row in 0..shape[2] {
                places.extend((0..shape[3]).map(|column| index(output, input, row, column) as u32));
            }
        }
    }
    places
}

/// Reads a network's tensors into parameters.
struct Reader<'a> {
    network: &'a Network,
    specs: &'a [TensorSpec],
    parameters: Vec<Parameter>,
}

impl Reader<'_> {
    fn spec(&self, name: &str) -> Result<TensorSpec, TrainError> {
        let spec = self.specs.iter().find(|spec| spec.name == name).cloned();
        spec.ok_or_else(|| TrainError::Backend(format!("the network has no tensor `{name}`")))
    }

    fn add(
        &mut self,
        name: &str,
        size: usize,
        places: impl FnOnce(&[usize]) -> Vec<u32>,
    ) -> Result<usize, TrainError> {
        let spec = self.spec(name)?;
        let places = places(&spec.shape);
        self.parameters.push(Parameter::read(self.network, &spec, places, size)?);
        Ok(self.parameters.len() - 1)
    }

    fn vector(&mut self, name: &str, width: usize) -> Result<usize, TrainError> {
        self.add(name, width, |shape| (0..shape[0] as u32).collect())
    }

    fn norm(
        &mut self,
        prefix: &str,
        has_norm: bool,
        channels: usize,
        width: usize,
    ) -> Result<Norm, TrainError> {
        if !has_norm {
            return Ok(Norm::Bias(self.vector(&format!("{prefix}.bias"), width)?));
        }
        let statistic = |part: &str| -> Result<Vec<f32>, TrainError> {
            Ok(tensor(self.network, &format!("{prefix}.norm.{part}"), &[channels])?.data.clone())
        };
        let (running_mean, running_variance) = (statistic("mean")?, statistic("variance")?);
        Ok(Norm::Batch {
            scale: self.vector(&format!("{prefix}.norm.scale"), width)?,
            shift: self.vector(&format!("{prefix}.norm.shift"), width)?,
            prefix: prefix.to_owned(),
            running_mean,
            running_variance,
        })
    }

    fn stage<E: Element>(
        &mut self,
        prefix: &str,
        layer: &Layer,
        input: Shape,
    ) -> Result<Stage<E>, TrainError> {
        let output = layer.output_shape(input).map_err(TrainError::Backend)?;
        let width = padded(output.channels);
        let (operation, has_norm, activation, gradient_size) = match layer {
            Layer::Branches { branches, norm, activation } => {
                let layer = InputLayer::new(branches, width);
                let slots = (0..branches.len())
                    .map(|index| {
                        let name = format!("{prefix}.branches.{index}.weight");
                        self.add(&name, layer.branch_size(index), |_| layer.branch_places(index))
                    })
                    .collect::<Result<Vec<_>, _>>()?;
                let size = PLANES * layer.slab;
                let operation = Operation::Input { layer, branches: slots, slabs: Buffer::zeros(size) };
                (operation, *norm, *activation, size)
            }
            &Layer::Conv { kernel, padding, norm, activation, .. } => {
                let name = format!("{prefix}.weight");
                let (cells, inner, kernel) = match padding {
                    Padding::Same => (input.cells, padded(input.channels), kernel),
                    Padding::Valid => (1, 64 * padded(input.channels), 1),
                };
                if input.cells != 64 && kernel > 1 {
                    return Err(unsupported(prefix));
                }
                let size = kernel * kernel * inner * width;
                let weight = self.add(&name, size, |shape| {
                    convolution_places(shape, |output, input, row, column| match padding {
                        // Stored flipped, as the way back reads it.
                        Padding::Same => {
                            let (row, column) = (kernel - 1 - row, kernel - 1 - column);
                            ((row * inner + input) * kernel + column) * width + output
                        }
                        Padding::Valid => ((row * 8 + column) * (inner / 64) + input) * width + output,
                    })
                })?;
                let (forward, backward) = (Buffer::zeros(size), Buffer::zeros(size));
                let convolution = Convolution { weight, kernel, cells, inner, forward, backward };
                (Operation::Product(convolution), norm, activation, size)
            }
            _ => return Err(unsupported(prefix)),
        };
        let relu = match activation {
            Activation::Relu => true,
            Activation::Identity => false,
            _ => return Err(unsupported(prefix)),
        };
        let zeros = vec![0.0; width];
        Ok(Stage {
            before: None,
            adds: false,
            operation,
            norm: self.norm(prefix, has_norm, output.channels, width)?,
            cells: output.cells,
            channels: output.channels,
            width,
            gradient_size,
            affine: Affine { scale: zeros.clone(), shift: zeros.clone(), relu },
            mean: zeros.clone(),
            variance: vec![0.0; output.channels],
            back: NormBackward { gain: zeros.clone(), slope: zeros.clone(), offset: zeros },
        })
    }

    fn last(
        &mut self,
        prefix: &str,
        layer: &Layer,
        input: Shape,
        kind: HeadKind,
    ) -> Result<Last, TrainError> {
        let &Layer::Conv { kernel, channels, padding, norm: false, activation: Activation::Identity } = layer
        else {
            return Err(unsupported_last(kind));
        };
        let width = padded(input.channels);
        let inner = match (padding, kernel) {
            (Padding::Same, 1) => width,
            (Padding::Valid, 8) if kind == HeadKind::Value => 64 * width,
            _ => return Err(unsupported_last(kind)),
        };
        let weight = self.add(&format!("{prefix}.weight"), channels * inner, |shape| {
            convolution_places(shape, |output, input, row, column| match padding {
                Padding::Same => output * inner + input,
                Padding::Valid => output * inner + (row * 8 + column) * width + input,
            })
        })?;
        let bias = self.vector(&format!("{prefix}.bias"), channels)?;
        Ok(Last { stage: 0, first: 0, adds: false, weight, bias, inner })
    }
}

fn unsupported(prefix: &str) -> TrainError {
    TrainError::Config(format!(
        "the native backend cannot train layer {prefix}: it knows convolutions of whole boards, with ReLU or without \
         activation"
    ))
}

fn unsupported_last(kind: HeadKind) -> TrainError {
    TrainError::Config(format!(
        "the native backend trains {} heads that end in a 1x1 convolution (or, for values, an 8x8 one) with bias \
         and without activation",
        kind.name()
    ))
}

impl<E: Element> Plan<E> {
    /// The ways from the input to these heads of a network.
    ///
    /// # Errors
    /// The network lacks one of the heads, or ends in a layer that cannot be trained here.
    pub fn new(network: &Network, kinds: &[HeadKind]) -> Result<Self, TrainError> {
        let description = &network.description;
        let specs = description.tensors().map_err(TrainError::Config)?;
        if description.encoding != Encoding::BatchFirst15 {
            return Err(TrainError::Config(
                "the native backend trains on Batch First's planes only".to_owned(),
            ));
        }
        let mut reader = Reader { network, specs: &specs, parameters: Vec::new() };
        let mut stages: Vec<Stage<E>> = Vec::new();
        let mut follow = |list: &str, layers: &[Layer], (mut shape, mut before), adds: bool| {
            for (index, layer) in layers.iter().enumerate() {
                let stage = reader.stage(&format!("{list}.{index}"), layer, shape)?;
                stages.push(Stage { before, adds: adds && index == 0, ..stage });
                before = Some(stages.len() - 1);
                shape = layer.output_shape(shape).map_err(TrainError::Backend)?;
            }
            Ok::<_, TrainError>((shape, before))
        };
        let input = (Shape { cells: 64, channels: PLANES }, None);
        let trunk = follow("trunk", &description.trunk, input, false)?;
        let mut ends = Vec::new();
        for (index, &kind) in kinds.iter().enumerate() {
            let name = kind.name();
            let head = description
                .head(kind)
                .ok_or_else(|| TrainError::Config(format!("the network has no {name} head")))?;
            let (last, body) = head.layers.split_last().ok_or_else(|| unsupported_last(kind))?;
            // The way back takes the heads in reverse.
            let adds = trunk.1.is_some() && index + 1 < kinds.len();
            ends.push((kind, last, body.len(), follow(name, body, trunk, adds)?, adds));
        }
        let mut lasts = Vec::new();
        let mut first = description.trunk.len();
        for (kind, layer, index, (shape, end), adds) in ends {
            let stage = end.ok_or_else(|| unsupported_last(kind))?;
            let last = reader.last(&format!("{}.{index}", kind.name()), layer, shape, kind)?;
            lasts.push(Last { stage, first, adds: adds && index == 0, ..last });
            first += index;
        }
        let trunk = trunk.1;
        let junction = trunk.filter(|_| kinds.len() > 1);
        let mut plan = Self { stages, lasts, junction, parameters: reader.parameters };
        plan.pack();
        Ok(plan)
    }

    /// In which of a shard's buffers the gradient of a stage lies: two take turns along a way, the junction's waits for
    /// all heads.
    pub fn slot(&self, stage: usize) -> usize {
        if self.junction == Some(stage) { 2 } else { stage % 2 }
    }

    /// Packs the weights anew after they changed.
    pub fn pack(&mut self) {
        let mut scratch = Vec::new();
        for stage in &mut self.stages {
            match &mut stage.operation {
                Operation::Input { layer, branches, slabs } => {
                    for (index, &branch) in branches.iter().enumerate() {
                        layer.fill(index, &self.parameters[branch].value, slabs);
                    }
                }
                Operation::Product(convolution) => {
                    convolution.pack(&self.parameters[convolution.weight].value, stage.width, &mut scratch);
                }
            }
        }
    }

    /// Points a stage at the running statistics (as in play).
    pub fn use_running_statistics(&mut self) {
        for stage in &mut self.stages {
            let (mean, variance) = match &stage.norm {
                Norm::Batch { running_mean, running_variance, .. } => {
                    (running_mean.clone(), running_variance.iter().map(|&value| f64::from(value)).collect())
                }
                Norm::Bias(_) => (vec![0.0; stage.channels], Vec::new()),
            };
            stage.set_affine(&self.parameters, &mean, variance);
        }
    }

    /// Points stage `index` at a batch's statistics, from its sums over `count` cells.
    pub fn use_batch_statistics(&mut self, index: usize, sums: &[f64], squares: &[f64], count: usize) {
        let stage = &mut self.stages[index];
        let count = count.max(1) as f64;
        let means: Vec<f64> = sums[..stage.channels].iter().map(|sum| sum / count).collect();
        let variance =
            means.iter().zip(squares).map(|(mean, square)| (square / count - mean * mean).max(0.0));
        let variance = variance.collect();
        let means: Vec<f32> = means.iter().map(|&mean| mean as f32).collect();
        stage.set_affine(&self.parameters, &means, variance);
    }

    /// Points a stage without norm at its bias.
    pub fn use_bias(&mut self, index: usize) {
        self.stages[index].set_affine(&self.parameters, &[], Vec::new());
    }

    /// Moves the running statistics towards the batch's; the running variance is unbiased, as in other frameworks.
    pub fn update_running_statistics(&mut self, keep: f32, boards: usize) {
        for stage in &mut self.stages {
            if let Norm::Batch { running_mean, running_variance, .. } = &mut stage.norm {
                let count = (boards * stage.cells) as f64;
                let unbias = if count > 1.0 { count / (count - 1.0) } else { 1.0 };
                for (running, mean) in running_mean.iter_mut().zip(&stage.mean) {
                    *running = keep * *running + (1.0 - keep) * mean;
                }
                for (running, variance) in running_variance.iter_mut().zip(&stage.variance) {
                    *running = keep * *running + (1.0 - keep) * (variance * unbias) as f32;
                }
            }
        }
    }

    /// From the sums of `dz` and `dz * (y - mean)` over `count` cells: the gradients of norm or bias, and how `dz`
    /// becomes `dy`.
    pub fn norm_backward(&mut self, index: usize, sums: &[f64], products: &[f64], count: usize) {
        let stage = &mut self.stages[index];
        let count = count.max(1) as f64;
        match stage.norm {
            Norm::Batch { scale, shift, .. } => {
                for channel in 0..stage.channels {
                    let inverse = 1.0 / (stage.variance[channel] + f64::from(NORM_EPSILON)).sqrt();
                    let scale_gradient = products[channel] * inverse;
                    let gain = f64::from(self.parameters[scale].value[channel]) * inverse;
                    let slope = -gain * inverse * scale_gradient / count;
                    let offset = -gain * sums[channel] / count - slope * f64::from(stage.mean[channel]);
                    stage.back.gain[channel] = gain as f32;
                    stage.back.slope[channel] = slope as f32;
                    stage.back.offset[channel] = offset as f32;
                    self.parameters[scale].gradient[channel] = scale_gradient as f32;
                    self.parameters[shift].gradient[channel] = sums[channel] as f32;
                }
            }
            Norm::Bias(bias) => {
                stage.back.gain[..stage.channels].fill(1.0);
                for (gradient, &sum) in self.parameters[bias].gradient.iter_mut().zip(sums) {
                    *gradient = sum as f32;
                }
            }
        }
    }

    /// Takes a stage's weight gradient, laid out as its shards collect it.
    pub fn set_gradient(&mut self, index: usize, gradient: &[f32]) {
        match &self.stages[index].operation {
            Operation::Input { layer, branches, .. } => {
                for (branch, &slot) in branches.iter().enumerate() {
                    layer.collect(branch, gradient, &mut self.parameters[slot].gradient);
                }
            }
            Operation::Product(convolution) => {
                self.parameters[convolution.weight].gradient.copy_from_slice(gradient);
            }
        }
    }

    /// Writes weights and running statistics into a network.
    pub fn write(&self, network: &mut Network) {
        for parameter in &self.parameters {
            network.tensors.insert(parameter.name.clone(), parameter.tensor());
        }
        for stage in &self.stages {
            if let Norm::Batch { prefix, running_mean, running_variance, .. } = &stage.norm {
                for (part, data) in [("mean", running_mean), ("variance", running_variance)] {
                    let tensor = Tensor { shape: vec![data.len()], data: data.clone() };
                    network.tensors.insert(format!("{prefix}.norm.{part}"), tensor);
                }
            }
        }
    }

    /// Takes weights and running statistics from a network of the same description.
    pub fn take(&mut self, network: &Network) -> Result<(), TrainError> {
        for parameter in &mut self.parameters {
            parameter.take(network)?;
        }
        for stage in &mut self.stages {
            if let Norm::Batch { prefix, running_mean, running_variance, .. } = &mut stage.norm {
                for (part, data) in [("mean", running_mean), ("variance", running_variance)] {
                    let tensor = tensor(network, &format!("{prefix}.norm.{part}"), &[data.len()])?;
                    data.copy_from_slice(&tensor.data);
                }
            }
        }
        self.pack();
        Ok(())
    }
}

impl<E: Element> Stage<E> {
    fn set_affine(&mut self, parameters: &[Parameter], mean: &[f32], variance: Vec<f64>) {
        match self.norm {
            Norm::Batch { scale, shift, .. } => {
                for channel in 0..self.channels {
                    let inverse = 1.0 / (variance[channel] + f64::from(NORM_EPSILON)).sqrt();
                    let factor = f64::from(parameters[scale].value[channel]) * inverse;
                    let shift = f64::from(parameters[shift].value[channel]);
                    self.affine.scale[channel] = factor as f32;
                    self.affine.shift[channel] = (shift - f64::from(mean[channel]) * factor) as f32;
                }
                self.mean[..self.channels].copy_from_slice(mean);
                self.variance = variance;
            }
            Norm::Bias(bias) => {
                self.affine.scale[..self.channels].fill(1.0);
                self.affine.shift.copy_from_slice(&parameters[bias].value);
            }
        }
    }
}

impl<E: Element> Convolution<E> {
    /// From `[kernel, inner, kernel, width]`, flipped, to the packed matrices of both ways.
    fn pack(&mut self, weight: &[f32], width: usize, scratch: &mut Vec<f32>) {
        let (kernel, inner) = (self.kernel, self.inner);
        scratch.resize(weight.len(), 0.0);
        for row in 0..kernel {
            for column in 0..kernel {
                for input in 0..inner {
                    let source =
                        (((kernel - 1 - row) * inner + input) * kernel + kernel - 1 - column) * width;
                    let target = ((row * kernel + column) * inner + input) * width;
                    scratch[target..target + width].copy_from_slice(&weight[source..source + width]);
                }
            }
        }
        E::pack_weights(scratch, kernel * kernel * inner, width, &mut self.forward);
        let outer = kernel * width;
        for row in 0..kernel {
            let source = &weight[row * inner * outer..][..inner * outer];
            let target = &mut scratch[row * inner * outer..][..inner * outer];
            transpose(source, inner, outer, target);
        }
        E::pack_weights(scratch, kernel * outer, inner, &mut self.backward);
    }
}

/// `[rows, columns]` to `[columns, rows]`, in blocks that stay in the cache; both are multiples of 32.
fn transpose(source: &[f32], rows: usize, columns: usize, target: &mut [f32]) {
    for row in (0..rows).step_by(16) {
        for column in 0..columns {
            let target = &mut target[column * rows + row..][..16];
            for (i, target) in target.iter_mut().enumerate() {
                *target = source[(row + i) * columns + column];
            }
        }
    }
}

/// The output that a move index names: from-square and move plane.
pub(super) fn output_of(index: nets::PolicyIndex) -> (usize, usize) {
    (usize::from(index) / MOVE_PLANES, usize::from(index) % MOVE_PLANES)
}
