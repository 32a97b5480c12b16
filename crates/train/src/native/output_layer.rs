//! The output layer of a head: computes only the outputs that a batch requests, in single
//! precision.

use super::matmul::Element;
use nets::{Activation, HeadKind, PolicyIndex};

use super::{
    activation,
    batch_slice::{BatchSlice, Scratch},
    graph::{StageInput, TrainingGraph},
    loss::LossSum,
};
use crate::Examples;

/// An output layer: each output depends on one cell, or on the whole board, of its input stage.
#[derive(Debug)]
pub(super) struct OutputLayer {
    pub input: StageInput,
    /// Index of the weight among the parameters.
    pub weight: usize,
    /// Index of the bias among the parameters.
    pub bias: usize,
    /// Outputs of a cell.
    pub channels: usize,
    /// Number of input elements of one output.
    pub inner: usize,
    pub activation: Activation,
}

impl OutputLayer {
    /// Cell and channel of an output.
    fn place(&self, output: usize) -> (usize, usize) {
        (output / self.channels, output % self.channels)
    }
}

/// The outputs of one head that a batch requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestedOutputs<'a> {
    /// The requested outputs of a move head; empty for a head with all outputs requested.
    moves: &'a [PolicyIndex],
    /// Outputs of each board when `ends` is empty; otherwise 0.
    pub each: usize,
    /// End of each board's moves in `moves`; empty when all boards have the same number.
    ends: &'a [usize],
}

impl<'a> RequestedOutputs<'a> {
    /// The outputs of a head of this kind that `batch` requests.
    pub fn of(batch: &'a Examples, kind: HeadKind) -> Self {
        match kind {
            HeadKind::Value => Self { moves: &[], each: 1, ends: &[] },
            _ if kind.is_selector() => Self { moves: &[], each: kind.outputs(), ends: &[] },
            _ if batch.ends.is_empty() => {
                Self { moves: &batch.moves, each: batch.moves_each(), ends: &[] }
            }
            _ => Self { moves: &batch.moves, each: 0, ends: &batch.ends },
        }
    }

    /// No outputs.
    pub fn nothing() -> Self {
        Self { moves: &[], each: 0, ends: &[] }
    }

    /// True when the moves belong to this many boards.
    pub fn covers(&self, boards: usize) -> bool {
        match self.ends {
            [] => self.moves.len() == boards * self.each && (self.each > 0 || boards == 0),
            [.., last] => {
                self.ends.len() == boards && self.ends.is_sorted() && *last == self.moves.len()
            }
        }
    }

    /// Number of requested outputs before those of a board.
    pub fn before(&self, board: usize) -> usize {
        match (self.ends, board) {
            ([], _) => board * self.each,
            (_, 0) => 0,
            (ends, _) => ends[board - 1],
        }
    }

    /// The output of the head that is requested at `index`.
    fn output(&self, index: usize) -> usize {
        self.moves.get(index).map_or(index % self.each.max(1), |&index| usize::from(index))
    }
}

/// Outputs, slopes and gradients of one head for one slice.
#[derive(Debug, Default)]
pub(super) struct HeadOutputs {
    /// Index of the first output among those of the batch.
    pub first: usize,
    pub logits: Vec<f32>,
    /// Slopes of the activation at each output.
    activation_slopes: Vec<f32>,
    /// Gradient of the loss with respect to the logits.
    pub slopes: Vec<f32>,
    pub loss_sum: LossSum,
    /// As `slopes` and `loss_sum`, over the pairs of moves of the same position.
    pub sibling_slopes: Vec<f32>,
    pub sibling_sum: LossSum,
    /// Gradient of the output layer.
    pub weights: Vec<f32>,
    pub biases: Vec<f32>,
}

impl HeadOutputs {
    /// Makes room for the outputs of a slice's boards.
    pub fn assign(&mut self, first: usize, count: usize) {
        self.first = first;
        self.logits.resize(count, 0.0);
        self.activation_slopes.resize(count, 0.0);
        self.slopes.resize(count, 0.0);
    }
}

impl<E: Element> BatchSlice<E> {
    /// Computes the requested outputs of head `head`, after all stages.
    pub fn logits(
        &mut self,
        graph: &TrainingGraph<E>,
        head: usize,
        requested: &RequestedOutputs<'_>,
        batch: &Examples,
        scratch: &mut Scratch<E>,
    ) {
        let layer = &graph.output_layers[head];
        let (weights, biases) =
            (&graph.parameters[layer.weight].value, &graph.parameters[layer.bias].value);
        let first = self.heads[head].first;
        for board in 0..self.boards {
            // Outputs are converted to the mover's side.
            let turned = graph.whites_view && batch.turn(self.first + board).is_black();
            let sign = if turned { -1.0 } else { 1.0 };
            let mut loaded_cell = None;
            for index in
                requested.before(self.first + board)..requested.before(self.first + board + 1)
            {
                let (cell, channel) = layer.place(requested.output(index));
                if loaded_cell.replace(cell) != Some(cell) {
                    self.read_activations(graph, layer, board, cell, &mut scratch.values);
                }
                let mut z = biases[channel];
                for (weight, a) in
                    weights[channel * layer.inner..][..layer.inner].iter().zip(&scratch.values)
                {
                    z += weight * a;
                }
                let outputs = &mut self.heads[head];
                let at = index - first;
                let (value, slope) = activation::one(layer.activation, z);
                (outputs.logits[at], outputs.activation_slopes[at]) = (sign * value, sign * slope);
            }
        }
    }

    /// Reads the input activations of the output layer at `cell`, in order.
    fn read_activations(
        &self,
        graph: &TrainingGraph<E>,
        layer: &OutputLayer,
        board: usize,
        cell: usize,
        values: &mut Vec<f32>,
    ) {
        let stage = &graph.stages[layer.input.stage];
        let from = board * stage.size() + cell * stage.width;
        let low = activation::low_slope(stage.affine.activation).unwrap_or(1.0);
        values.clear();
        for y in self.outputs[layer.input.stage][from..from + layer.inner].chunks_exact(stage.width)
        {
            let maps = stage.affine.scale.iter().zip(&stage.affine.shift);
            values.extend(y.iter().zip(maps).map(|(y, (scale, shift))| {
                let z = y.to_f32() * scale + shift;
                if z > 0.0 { z } else { low * z }
            }));
        }
        activation::curve(stage.affine.activation, values);
    }

    /// The backward pass of head `head`'s output layer, from its slopes to the gradient of its
    /// input stage.
    pub fn backward_output_layer(
        &mut self,
        graph: &TrainingGraph<E>,
        head: usize,
        requested: &RequestedOutputs<'_>,
        scratch: &mut Scratch<E>,
    ) {
        let layer = &graph.output_layers[head];
        let stage = &graph.stages[layer.input.stage];
        let weights = &graph.parameters[layer.weight].value;
        let size = stage.size();
        self.start_gradient(graph, layer.input);
        scratch.product.reserve(size);
        let mut outputs = std::mem::take(&mut self.heads[head]);
        outputs.weights.clear();
        outputs.weights.resize(weights.len(), 0.0);
        outputs.biases.clear();
        outputs.biases.resize(graph.parameters[layer.bias].value.len(), 0.0);
        for board in 0..self.boards {
            scratch.product[..size].fill(0.0);
            let mut loaded_cell = None;
            for index in
                requested.before(self.first + board)..requested.before(self.first + board + 1)
            {
                let (cell, channel) = layer.place(requested.output(index));
                let slope = outputs.slopes[index - outputs.first]
                    * outputs.activation_slopes[index - outputs.first];
                if loaded_cell.replace(cell) != Some(cell) {
                    self.read_activations(graph, layer, board, cell, &mut scratch.values);
                }
                let gradient = &mut outputs.weights[channel * layer.inner..][..layer.inner];
                gradient
                    .iter_mut()
                    .zip(&scratch.values)
                    .for_each(|(gradient, a)| *gradient += slope * a);
                outputs.biases[channel] += slope;
                let weights = &weights[channel * layer.inner..][..layer.inner];
                for (da, weight) in
                    scratch.product[cell * stage.width..size].iter_mut().zip(weights)
                {
                    *da += slope * weight;
                }
            }
            self.store_gradient(graph, layer.input, board, &mut scratch.product[..size]);
        }
        self.heads[head] = outputs;
    }
}
