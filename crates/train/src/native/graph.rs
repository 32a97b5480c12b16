//! The computation graph of training: the layers of one or several heads, and of the trunk before
//! them, as a list of stages that read the outputs of earlier stages. Of each head's output layer
//! only the requested outputs are computed.
//!
//! A stage is a product (or an operation without weights), then a batch norm or bias, then an
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
    whole_board::WholeBoard,
};
use crate::{TrainError, dropout::Dropout};

/// The operation of a stage on the activations of its inputs.
#[derive(Debug)]
pub(super) enum Operation<E> {
    Input {
        layer: InputLayer,
        /// Index of each branch's weight among the parameters.
        branches: Vec<usize>,
        /// The weights of all branches in the layout of the input layer.
        slabs: Buffer<f32>,
    },
    /// An input layer of single squares and the dense layer behind it.
    WholeBoard(WholeBoard),
    Product(Convolution<E>),
    /// The sum of two inputs.
    Sum,
    /// The input with each channel's mean over the board appended.
    AppendMean,
    /// Pooling over windows of this side.
    Pool(Pooling, usize),
    /// In training drops some elements of the input; in play copies it. Holds the number of the
    /// layer before it.
    Dropout(u64),
}

/// The batch norm or bias after a stage's operation; numbers are indices of parameters.
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

/// An input of a stage: the stage that it reads, and how the backward pass stores that stage's
/// gradient.
#[derive(Clone, Copy, Debug)]
pub(super) struct StageInput {
    pub stage: usize,
    /// True when another reader has stored a part of the gradient already, to which this one adds.
    pub accumulates: bool,
    /// True when this reader stores the last part of the gradient.
    pub completes: bool,
}

impl StageInput {
    pub fn new(stage: usize) -> Self {
        Self { stage, accumulates: false, completes: false }
    }
}

/// A layer other than a head's output layer.
#[derive(Debug)]
pub(super) struct Stage<E> {
    /// Empty for an input layer, two for a sum, otherwise one.
    pub inputs: Vec<StageInput>,
    /// Index of the gradient buffer in a slice.
    pub slot: usize,
    pub operation: Operation<E>,
    pub norm: Norm,
    pub cells: usize,
    pub channels: usize,
    /// Channels with padding.
    pub width: usize,
    /// Elements of the weight gradient that a slice collects.
    pub gradient_size: usize,
    /// The affine map before the activation, from the statistics in use.
    pub affine: Affine,
    /// Mean in use; 0 without norm.
    pub mean: Vec<f32>,
    /// Variance in use, of the channels without padding.
    pub variance: Vec<f64>,
    pub back: NormBackward,
}

/// Stages, output layers and all trained tensors.
#[derive(Debug)]
pub(super) struct TrainingGraph<E> {
    /// Every stage comes after those that it reads.
    pub stages: Vec<Stage<E>>,
    /// One for each head, in the order of the heads.
    pub output_layers: Vec<OutputLayer>,
    pub parameters: Vec<Parameter>,
    /// Number of buffers for gradients.
    pub slots: usize,
    /// True when the network's outputs are from White's side.
    pub whites_view: bool,
    /// Dropout of this step; `None` in play.
    pub dropout: Option<Dropout>,
}

impl<E> Stage<E> {
    /// Elements of a board's outputs.
    pub fn size(&self) -> usize {
        self.cells * self.width
    }

    /// Ranks and files of the board.
    pub fn side(&self) -> usize {
        self.cells.isqrt()
    }

    /// A stage whose statistics or bias are not set yet; without either its affine map is the
    /// identity.
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
    /// The graph from the input to these heads of a network, with dropout behind dense layers if
    /// asked for.
    ///
    /// # Errors
    /// The network lacks one of the heads, or a head ends in a layer that this backend does not
    /// support.
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

    /// Plans the backward pass, which visits the output layers in reverse, then the stages in
    /// reverse: marks the first and the last part of each gradient, and assigns gradient buffers,
    /// which are reused after their last use.
    fn plan_backward(&mut self) {
        let mut pending = vec![0_usize; self.stages.len()];
        for input in self
            .stages
            .iter()
            .flat_map(|stage| &stage.inputs)
            .chain(self.output_layers.iter().map(|layer| &layer.input))
        {
            pending[input.stage] += 1;
        }
        let mut slots = vec![None; self.stages.len()];
        let (mut free, mut used) = (Vec::new(), 0);
        let mut visit =
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
        for layer in self.output_layers.iter_mut().rev() {
            visit(&mut layer.input, &mut slots, &mut free);
        }
        for index in (0..self.stages.len()).rev() {
            for input in &mut self.stages[index].inputs {
                visit(input, &mut slots, &mut free);
            }
            // Every stage leads to a head.
            let slot = slots[index].unwrap_or_default();
            self.stages[index].slot = slot;
            free.push(slot);
        }
        self.slots = used;
    }

    /// Packs the weights again after they changed.
    pub fn pack(&mut self) {
        let mut scratch = Vec::new();
        for stage in &mut self.stages {
            match &mut stage.operation {
                Operation::Input { layer, branches, slabs } => {
                    for (index, &branch) in branches.iter().enumerate() {
                        layer.fill(index, &self.parameters[branch].value, slabs);
                    }
                }
                Operation::WholeBoard(layers) => layers.pack(&self.parameters),
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

    /// Makes all stages use the running statistics, as in play.
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

    /// Makes stage `index` use a batch's statistics, from its sums and sums of squares over `count`
    /// cells.
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

    /// Makes a stage without norm use its current bias.
    pub fn use_bias(&mut self, index: usize) {
        self.stages[index].set_affine(&self.parameters, &[], Vec::new());
    }

    /// Updates the running statistics with the batch's, with decay `keep`; the running variance is
    /// unbiased, as in other frameworks.
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

    /// Computes the gradients of norm or bias and the map from `dz` to `dy`, from the sums of `dz`
    /// and `dz * (y - mean)` over `count` cells.
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

    /// Copies a stage's weight gradient from the layout of the slices to its parameters.
    pub fn set_gradient(&mut self, index: usize, gradient: &[f32]) {
        match &self.stages[index].operation {
            Operation::Input { layer, branches, .. } => {
                for (branch, &slot) in branches.iter().enumerate() {
                    layer.collect(branch, gradient, &mut self.parameters[slot].gradient);
                }
            }
            Operation::WholeBoard(layers) => layers.set_gradient(gradient, &mut self.parameters),
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

    /// Reads weights and running statistics from a network of the same description.
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
    /// Sets mean, variance and the affine map before the activation.
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
