//! The layers of one head or several (and the trunk before them) as training runs them: a list of
//! stages, each of which reads the outputs of earlier ones, and each head's last layer, of which
//! only the asked-for outputs are computed.
//!
//! A stage is a product (or something without weights), then a batch norm or bias, then an
//! activation.

use super::matmul::{Buffer, Element, padded};
use nets::{Activation, HeadKind, NORM_EPSILON, Network, Pooling, Shape, Tensor};

use super::{
    builder,
    convolution::Convolution,
    input::InputLayer,
    output_layer::OutputLayer,
    parameters::{Parameter, tensor},
    passes::{Affine, NormBackward},
};
use crate::{TrainError, dropout::Dropout};

/// What a stage computes from the activations of its inputs.
#[derive(Debug)]
pub(super) enum Operation<E> {
    Input {
        layer: InputLayer,
        branches: Vec<usize>,
        slabs: Buffer<f32>,
    },
    Product(Convolution<E>),
    /// The sum of two inputs.
    Sum,
    /// The input, and each channel's mean over the board.
    AppendMean,
    Pool(Pooling, usize),
    /// In training the input without some of its elements; in play the input. The number of the
    /// layer before it.
    Dropout(u64),
}

/// What follows a stage's operation.
#[derive(Debug)]
pub(super) enum Norm {
    Batch {
        scale: usize,
        shift: usize,
        prefix: String,
        running_mean: Vec<f32>,
        running_variance: Vec<f32>,
    },
    Bias(usize),
    Nothing,
}

/// A stage that another one reads, and how the gradient returns to it.
#[derive(Clone, Copy, Debug)]
pub(super) struct StageInput {
    pub stage: usize,
    /// An earlier reader has written a part of its gradient: this one adds to it.
    pub accumulates: bool,
    /// This reader writes the last part of its gradient.
    pub completes: bool,
}

impl StageInput {
    pub fn new(stage: usize) -> Self {
        Self { stage, accumulates: false, completes: false }
    }
}

/// One layer but a head's last.
#[derive(Debug)]
pub(super) struct Stage<E> {
    /// None for an input layer, two for a sum, else one.
    pub inputs: Vec<StageInput>,
    /// Which of a slice's buffers holds its gradient.
    pub slot: usize,
    pub operation: Operation<E>,
    pub norm: Norm,
    pub cells: usize,
    pub channels: usize,
    /// Channels with padding.
    pub width: usize,
    /// Elements of the weight gradient that a slice collects.
    pub gradient_size: usize,
    /// The map before the activation, with the statistics now in use.
    pub affine: Affine,
    /// Mean now in use (0 without norm).
    pub mean: Vec<f32>,
    pub variance: Vec<f64>,
    pub back: NormBackward,
}

/// Stages, last layers and all trained tensors.
#[derive(Debug)]
pub(super) struct TrainingGraph<E> {
    /// Every stage comes after those that it reads.
    pub stages: Vec<Stage<E>>,
    /// One a head, in the order of the heads.
    pub output_layers: Vec<OutputLayer>,
    pub parameters: Vec<Parameter>,
    /// Number of buffers for gradients.
    pub slots: usize,
    /// Outputs are from White's side, whichever side moves.
    pub whites_view: bool,
    /// Dropout of this step; none in play.
    pub dropout: Option<Dropout>,
}

impl<E> Stage<E> {
    /// Elements of a board's outputs.
    pub fn size(&self) -> usize {
        self.cells * self.width
    }

    pub fn side(&self) -> usize {
        self.cells.isqrt()
    }

    /// A stage whose map is the identity until statistics or a bias say otherwise.
    pub fn new(
        operation: Operation<E>,
        norm: Norm,
        activation: Activation,
        shape: Shape,
        gradient_size: usize,
    ) -> Self {
        let width = padded(shape.channels);
        let zeros = vec![0.0; width];
        let mut ones = zeros.clone();
        if matches!(norm, Norm::Nothing) {
            ones.fill(1.0);
        }
        Self {
            inputs: Vec::new(),
            slot: 0,
            operation,
            norm,
            cells: shape.cells,
            channels: shape.channels,
            width,
            gradient_size,
            affine: Affine { scale: ones.clone(), shift: zeros.clone(), activation },
            mean: zeros.clone(),
            variance: vec![0.0; shape.channels],
            back: NormBackward { gain: ones, slope: zeros.clone(), offset: zeros },
        }
    }
}

impl<E: Element> TrainingGraph<E> {
    /// The layers from the input to these heads of a network; with dropout behind dense layers.
    ///
    /// # Errors
    /// The network lacks one of the heads, or ends in a layer that cannot be trained here.
    pub fn new(
        network: &Network,
        kinds: &[HeadKind],
        has_dropout: bool,
    ) -> Result<Self, TrainError> {
        let mut graph = builder::build(network, kinds, has_dropout)?;
        graph.plan_backward();
        graph.pack();
        Ok(graph)
    }

    /// Finds which gradients add up in the backward pass (the output layers in reverse, then the
    /// stages in reverse), and reuses a buffer once its gradient has been read.
    fn plan_backward(&mut self) {
        let mut pending = vec![0_usize; self.stages.len()];
        for input in self
            .stages
            .iter()
            .flat_map(|stage| &stage.inputs)
            .chain(self.output_layers.iter().map(|last| &last.input))
        {
            pending[input.stage] += 1;
        }
        let mut slots = vec![None; self.stages.len()];
        let (mut free, mut used) = (Vec::new(), 0);
        let mut follow =
            |input: &mut StageInput, slots: &mut Vec<Option<usize>>, free: &mut Vec<usize>| {
                input.accumulates = slots[input.stage].is_some();
                pending[input.stage] -= 1;
                input.completes = pending[input.stage] == 0;
                slots[input.stage].get_or_insert_with(|| {
                    free.pop().unwrap_or_else(|| {
                        used += 1;
                        used - 1
                    })
                });
            };
        for last in self.output_layers.iter_mut().rev() {
            follow(&mut last.input, &mut slots, &mut free);
        }
        for index in (0..self.stages.len()).rev() {
            for input in &mut self.stages[index].inputs {
                follow(input, &mut slots, &mut free);
            }
            // Every stage leads to a head.
            let slot = slots[index].unwrap_or_default();
            self.stages[index].slot = slot;
            free.push(slot);
        }
        self.slots = used;
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
                    convolution.pack(
                        &self.parameters[convolution.weight].value,
                        stage.width,
                        &mut scratch,
                    );
                }
                Operation::Sum
                | Operation::AppendMean
                | Operation::Pool(..)
                | Operation::Dropout(_) => {}
            }
        }
    }

    /// Points a stage at the running statistics (as in play).
    pub fn use_running_statistics(&mut self) {
        for stage in &mut self.stages {
            let (mean, variance) = match &stage.norm {
                Norm::Batch { running_mean, running_variance, .. } => (
                    running_mean.clone(),
                    running_variance.iter().map(|&value| f64::from(value)).collect(),
                ),
                Norm::Bias(_) | Norm::Nothing => (Vec::new(), Vec::new()),
            };
            stage.set_affine(&self.parameters, &mean, variance);
        }
    }

    /// Points stage `index` at a batch's statistics, from its sums over `count` cells.
    pub fn use_batch_statistics(
        &mut self,
        index: usize,
        sums: &[f64],
        squares: &[f64],
        count: usize,
    ) {
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

    /// Moves the running statistics towards the batch's; the running variance is unbiased, as in
    /// other frameworks.
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

    /// From the sums of `dz` and `dz * (y - mean)` over `count` cells: the gradients of norm or
    /// bias, and how `dz` becomes `dy`.
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
                    let offset =
                        -gain * sums[channel] / count - slope * f64::from(stage.mean[channel]);
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
            Norm::Nothing => {}
        }
    }

    /// Takes a stage's weight gradient, laid out as its slices collect it.
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
            Operation::Sum
            | Operation::AppendMean
            | Operation::Pool(..)
            | Operation::Dropout(_) => {}
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
            Norm::Nothing => {}
        }
    }
}
