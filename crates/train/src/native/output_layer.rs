//! A head's last layer: only the outputs that a batch asks for are computed, in single precision.

use super::matmul::Element;
use nets::{Activation, HeadKind, PolicyIndex};

use super::{
    activation,
    batch_slice::{BatchSlice, Scratch},
    graph::{StageInput, TrainingGraph},
    loss::LossSum,
};
use crate::Examples;

/// A layer whose outputs see a cell, or the whole board, of the stage before.
#[derive(Debug)]
pub(super) struct OutputLayer {
    pub input: StageInput,
    pub weight: usize,
    pub bias: usize,
    /// Outputs of a cell.
    pub channels: usize,
    /// Elements of the input that one output sees.
    pub inner: usize,
    pub activation: Activation,
}

impl OutputLayer {
    /// Cell and channel of an output.
    fn place(&self, output: usize) -> (usize, usize) {
        (output / self.channels, output % self.channels)
    }
}

/// The outputs of one head that a batch asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestedOutputs<'a> {
    /// Empty for a head all of whose outputs are asked for.
    moves: &'a [PolicyIndex],
    /// Outputs of each board, where `ends` is empty; else 0.
    pub each: usize,
    ends: &'a [usize],
}

impl<'a> RequestedOutputs<'a> {
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

    /// Do the moves belong to this many boards?
    pub fn covers(&self, boards: usize) -> bool {
        match self.ends {
            [] => self.moves.len() == boards * self.each && (self.each > 0 || boards == 0),
            [.., last] => {
                self.ends.len() == boards && self.ends.is_sorted() && *last == self.moves.len()
            }
        }
    }

    /// Outputs before those of a board.
    pub fn before(&self, board: usize) -> usize {
        match (self.ends, board) {
            ([], _) => board * self.each,
            (_, 0) => 0,
            (ends, _) => ends[board - 1],
        }
    }

    /// Which of the head's outputs number `index` is.
    fn output(&self, index: usize) -> usize {
        self.moves.get(index).map_or(index % self.each.max(1), |&index| usize::from(index))
    }
}

/// Outputs, slopes and gradients of one head for one slice.
#[derive(Debug, Default)]
pub(super) struct HeadOutputs {
    /// Number of the first output within the batch.
    pub first: usize,
    pub logits: Vec<f32>,
    /// Slopes of the outputs over the numbers before their activation.
    bends: Vec<f32>,
    /// Gradient of the loss with respect to the logits.
    pub slopes: Vec<f32>,
    pub part: LossSum,
    /// As `slopes` and `part`, over the pairs of moves of one position.
    pub sibling_slopes: Vec<f32>,
    pub sibling_sum: LossSum,
    /// Gradient of the last layer.
    pub weights: Vec<f32>,
    pub biases: Vec<f32>,
}

impl HeadOutputs {
    /// Makes room for the outputs of a slice's boards.
    pub fn assign(&mut self, first: usize, count: usize) {
        self.first = first;
        self.logits.resize(count, 0.0);
        self.bends.resize(count, 0.0);
        self.slopes.resize(count, 0.0);
    }
}

impl<E: Element> BatchSlice<E> {
    /// The last layer of head `head`, after all stages.
    pub fn logits(
        &mut self,
        graph: &TrainingGraph<E>,
        head: usize,
        requested: &RequestedOutputs<'_>,
        batch: &Examples,
        scratch: &mut Scratch<E>,
    ) {
        let last = &graph.output_layers[head];
        let (weights, biases) =
            (&graph.parameters[last.weight].value, &graph.parameters[last.bias].value);
        let first = self.heads[head].first;
        for board in 0..self.boards {
            // The mover's.
            let turned = graph.whites_view && batch.turn(self.first + board).is_black();
            let sign = if turned { -1.0 } else { 1.0 };
            let mut seen = None;
            for index in
                requested.before(self.first + board)..requested.before(self.first + board + 1)
            {
                let (cell, channel) = last.place(requested.output(index));
                if seen.replace(cell) != Some(cell) {
                    self.see(graph, last, board, cell, &mut scratch.seen);
                }
                let mut z = biases[channel];
                for (weight, a) in
                    weights[channel * last.inner..][..last.inner].iter().zip(&scratch.seen)
                {
                    z += weight * a;
                }
                let part = &mut self.heads[head];
                let at = index - first;
                let (value, slope) = activation::one(last.activation, z);
                (part.logits[at], part.bends[at]) = (sign * value, sign * slope);
            }
        }
    }

    /// Activations that a last layer sees at `cell`, in order.
    fn see(
        &self,
        graph: &TrainingGraph<E>,
        last: &OutputLayer,
        board: usize,
        cell: usize,
        seen: &mut Vec<f32>,
    ) {
        let stage = &graph.stages[last.input.stage];
        let from = board * stage.size() + cell * stage.width;
        let low = activation::low_slope(stage.affine.activation).unwrap_or(1.0);
        seen.clear();
        for y in self.outputs[last.input.stage][from..from + last.inner].chunks_exact(stage.width) {
            let maps = stage.affine.scale.iter().zip(&stage.affine.shift);
            seen.extend(y.iter().zip(maps).map(|(y, (scale, shift))| {
                let z = y.to_f32() * scale + shift;
                if z > 0.0 { z } else { low * z }
            }));
        }
        activation::curve(stage.affine.activation, seen);
    }

    /// The backward pass through the last layer of head `head`, from its slopes to the gradient of the
    /// stage before.
    pub fn backward_output_layer(
        &mut self,
        graph: &TrainingGraph<E>,
        head: usize,
        requested: &RequestedOutputs<'_>,
        scratch: &mut Scratch<E>,
    ) {
        let last = &graph.output_layers[head];
        let stage = &graph.stages[last.input.stage];
        let weights = &graph.parameters[last.weight].value;
        let size = stage.size();
        self.start_gradient(graph, last.input);
        scratch.product.reserve(size);
        let mut part = std::mem::take(&mut self.heads[head]);
        part.weights.clear();
        part.weights.resize(weights.len(), 0.0);
        part.biases.clear();
        part.biases.resize(graph.parameters[last.bias].value.len(), 0.0);
        for board in 0..self.boards {
            scratch.product[..size].fill(0.0);
            let mut seen = None;
            for index in
                requested.before(self.first + board)..requested.before(self.first + board + 1)
            {
                let (cell, channel) = last.place(requested.output(index));
                let slope = part.slopes[index - part.first] * part.bends[index - part.first];
                if seen.replace(cell) != Some(cell) {
                    self.see(graph, last, board, cell, &mut scratch.seen);
                }
                let gradient = &mut part.weights[channel * last.inner..][..last.inner];
                gradient
                    .iter_mut()
                    .zip(&scratch.seen)
                    .for_each(|(gradient, a)| *gradient += slope * a);
                part.biases[channel] += slope;
                let weights = &weights[channel * last.inner..][..last.inner];
                for (da, weight) in
                    scratch.product[cell * stage.width..size].iter_mut().zip(weights)
                {
                    *da += slope * weight;
                }
            }
            self.leave_gradient(graph, last.input, board, &mut scratch.product[..size]);
        }
        self.heads[head] = part;
    }
}
