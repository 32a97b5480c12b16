//! An input layer that sees one square at a time, and the dense layer behind it, as one operation.
//!
//! What the input layer makes of a square depends on the square's state only, and the boards of a
//! slice share few states a square. So the dense layer multiplies each state of a square once, and a
//! board adds 64 of the products: an addition in place of as many multiply-adds as the input layer
//! has channels.

use nets::Encoding;

use super::{
    batch_slice::{BatchSlice, Scratch},
    graph::TrainingGraph,
    matmul::Element,
    parameters::Parameter,
    passes::{denormalise, vectorised, widen},
};
use crate::Examples;

/// Boards whose sums are added in single precision.
const SUMMED_BOARDS: usize = 8;

/// The parameters of both layers.
#[derive(Debug)]
pub(super) struct WholeBoard {
    encoding: Encoding,
    /// The planes set by each state of a square, with their values.
    planes: Vec<Vec<(usize, f32)>>,
    /// Index of each branch's weight `[planes, channels]` among the parameters, and its channels.
    branches: Vec<(usize, usize)>,
    /// Index of the input layer's bias among the parameters.
    bias: usize,
    /// Index of the dense layer's weight `[64, inner, width]` among the parameters.
    weight: usize,
    /// Channels of the input layer, with padding.
    inner: usize,
    /// Channels of the dense layer, with padding.
    width: usize,
    /// `[states, inner]`: the activations of the input layer, which ends in a ReLU.
    embedding: Vec<f32>,
}

/// The states of one square that occur in a slice.
#[derive(Debug, Default)]
struct SquareStates {
    /// The states, in the order in which they occur.
    list: Vec<u8>,
    /// Index in `list` of each board's state.
    of_board: Vec<u8>,
}

/// One thread's memory for a slice.
#[derive(Debug, Default)]
pub(super) struct BoardScratch {
    /// The states of all squares of each board.
    states: Vec<[u8; 64]>,
    square: SquareStates,
    rows: Vec<f32>,
}

impl SquareStates {
    /// Finds the states of `square`.
    fn find(&mut self, boards: &[[u8; 64]], square: usize) {
        let mut index = [None; 256];
        self.list.clear();
        self.of_board.clear();
        for board in boards {
            let state = board[square];
            let at = *index[usize::from(state)].get_or_insert_with(|| {
                self.list.push(state);
                (self.list.len() - 1) as u8
            });
            self.of_board.push(at);
        }
    }
}

impl WholeBoard {
    pub fn new(
        encoding: Encoding,
        branches: Vec<(usize, usize)>,
        (bias, weight): (usize, usize),
        (inner, width): (usize, usize),
    ) -> Self {
        let planes = (0..encoding.states()).map(|state| encoding.planes_of(state)).collect();
        let embedding = vec![0.0; encoding.states() * inner];
        Self { encoding, planes, branches, bias, weight, inner, width, embedding }
    }

    /// Elements of the weight gradient that a slice collects: that of the dense layer's weight, then
    /// that of the embedding.
    pub fn gradient_size(&self) -> usize {
        (64 * self.width + self.planes.len()) * self.inner
    }

    /// Computes the embedding again after the weights changed.
    pub fn pack(&mut self, parameters: &[Parameter]) {
        for (row, planes) in self.embedding.chunks_exact_mut(self.inner).zip(&self.planes) {
            row.copy_from_slice(&parameters[self.bias].value);
            let mut first = 0;
            for &(branch, channels) in &self.branches {
                for &(plane, value) in planes {
                    let weights = &parameters[branch].value[plane * channels..][..channels];
                    let sums = &mut row[first..first + channels];
                    sums.iter_mut().zip(weights).for_each(|(sum, weight)| *sum += value * weight);
                }
                first += channels;
            }
            row.iter_mut().for_each(|value| *value = value.max(0.0));
        }
    }

    /// Copies a gradient from the layout of the slices to the parameters.
    pub fn set_gradient(&self, gradient: &[f32], parameters: &mut [Parameter]) {
        let (dense, embedding) = gradient.split_at(64 * self.width * self.inner);
        parameters[self.weight].gradient.copy_from_slice(dense);
        parameters[self.bias].gradient.fill(0.0);
        for &(branch, _) in &self.branches {
            parameters[branch].gradient.fill(0.0);
        }
        for (row, planes) in embedding.chunks_exact(self.inner).zip(&self.planes) {
            let bias = &mut parameters[self.bias].gradient;
            bias.iter_mut().zip(row).for_each(|(sum, slope)| *sum += slope);
            let mut first = 0;
            for &(branch, channels) in &self.branches {
                for &(plane, value) in planes {
                    let sums = &mut parameters[branch].gradient[plane * channels..][..channels];
                    let slopes = &row[first..first + channels];
                    sums.iter_mut().zip(slopes).for_each(|(sum, slope)| *sum += value * slope);
                }
                first += channels;
            }
        }
    }

    /// The sums of each board, `[boards, width]`. `weight` is the dense layer's.
    fn forward(&self, weight: &[f32], scratch: &mut BoardScratch, sums: &mut [f32]) {
        let BoardScratch { states, square, rows } = scratch;
        sums.fill(0.0);
        for (at, weight) in weight.chunks_exact(self.inner * self.width).enumerate() {
            square.find(states, at);
            rows.resize(rows.len().max(square.list.len() * self.width), 0.0);
            multiply(self, weight, &square.list, rows);
            add_rows(&square.of_board, self.width, rows, sums);
        }
    }

    /// Adds a slice's part to the gradient, from the gradient `dy` of the sums.
    fn backward(
        &self,
        weight: &[f32],
        dy: &[f32],
        scratch: &mut BoardScratch,
        gradient: &mut [f32],
    ) {
        let BoardScratch { states, square, rows } = scratch;
        let size = self.inner * self.width;
        let (dense, embedding) = gradient.split_at_mut(64 * size);
        let weights = weight.chunks_exact(size).zip(dense.chunks_exact_mut(size));
        for (at, (weight, dense)) in weights.enumerate() {
            square.find(states, at);
            let length = square.list.len() * self.width;
            rows.resize(rows.len().max(length), 0.0);
            rows[..length].fill(0.0);
            collect_rows(&square.of_board, self.width, dy, rows);
            multiply_backward(self, weight, &square.list, rows, dense, embedding);
        }
    }
}

impl<E: Element> BatchSlice<E> {
    /// Gives the layers the boards of this slice.
    fn set_boards(&self, layers: &WholeBoard, batch: &Examples, scratch: &mut BoardScratch) {
        let positions = self.first..self.first + self.boards;
        scratch.states.clear();
        scratch.states.extend(positions.map(|position| {
            layers.encoding.states_of(&batch.squares[position], batch.turn(position))
        }));
    }

    /// The forward pass of stage `index`, of these layers.
    pub fn forward_whole_board(
        &mut self,
        graph: &TrainingGraph<E>,
        index: usize,
        layers: &WholeBoard,
        batch: &Examples,
        scratch: &mut Scratch<E>,
    ) {
        let stage = &graph.stages[index];
        let length = self.boards * stage.size();
        self.set_boards(layers, batch, &mut scratch.whole_board);
        scratch.product.reserve(length);
        let weight = &graph.parameters[layers.weight].value;
        layers.forward(weight, &mut scratch.whole_board, &mut scratch.product[..length]);
        let group = SUMMED_BOARDS * stage.size();
        for first in (0..length).step_by(group) {
            let sums = &scratch.product[first..length.min(first + group)];
            self.store(sums, stage, index, first);
        }
    }

    /// The backward pass of stage `index`, of these layers.
    pub fn backward_whole_board(
        &mut self,
        graph: &TrainingGraph<E>,
        index: usize,
        layers: &WholeBoard,
        batch: &Examples,
        scratch: &mut Scratch<E>,
    ) {
        let stage = &graph.stages[index];
        let length = self.boards * stage.size();
        scratch.board.reserve(length);
        scratch.product.reserve(length);
        let (dz, y) = (&self.gradients[stage.slot][..length], &self.outputs[index][..length]);
        denormalise(dz, y, &stage.back, &mut scratch.board[..length]);
        widen(&scratch.board[..length], &mut scratch.product[..length]);
        self.set_boards(layers, batch, &mut scratch.whole_board);
        let weight = &graph.parameters[layers.weight].value;
        let dy = &scratch.product[..length];
        layers.backward(weight, dy, &mut scratch.whole_board, &mut self.weights);
    }
}

/// [`multiply`] for panels of `PANEL` channels.
#[inline(always)]
fn multiply_panels<const PANEL: usize>(
    layer: &WholeBoard,
    weight: &[f32],
    states: &[u8],
    rows: &mut [f32],
) {
    for (&state, row) in states.iter().zip(rows.chunks_exact_mut(layer.width)) {
        let embedding = &layer.embedding[usize::from(state) * layer.inner..][..layer.inner];
        for (panel, row) in row.as_chunks_mut::<PANEL>().0.iter_mut().enumerate() {
            let mut sums = [0.0_f32; PANEL];
            for (weights, &value) in weight.chunks_exact(layer.width).zip(embedding) {
                if value != 0.0 {
                    let weights = &weights.as_chunks::<PANEL>().0[panel];
                    for at in 0..PANEL {
                        sums[at] += value * weights[at];
                    }
                }
            }
            *row = sums;
        }
    }
}

vectorised! {
    /// The product of the embedding of each of these states with a square's weights.
    fn multiply(layer: &WholeBoard, weight: &[f32], states: &[u8], rows: &mut [f32]) {
        if layer.width.is_multiple_of(128) {
            multiply_panels::<128>(layer, weight, states, rows);
        } else {
            multiply_panels::<32>(layer, weight, states, rows);
        }
    }
}

vectorised! {
    /// Adds to each board's sums its row.
    fn add_rows(of_board: &[u8], width: usize, rows: &[f32], sums: &mut [f32]) {
        for (&at, sums) in of_board.iter().zip(sums.chunks_exact_mut(width)) {
            let row = &rows[usize::from(at) * width..][..width];
            for (sum, value) in sums.iter_mut().zip(row) {
                *sum += value;
            }
        }
    }
}

vectorised! {
    /// Adds the gradient of each board's sums to that of its row.
    fn collect_rows(of_board: &[u8], width: usize, dy: &[f32], rows: &mut [f32]) {
        for (&at, dy) in of_board.iter().zip(dy.chunks_exact(width)) {
            let row = &mut rows[usize::from(at) * width..][..width];
            for (sum, value) in row.iter_mut().zip(dy) {
                *sum += value;
            }
        }
    }
}

vectorised! {
    /// Adds to the gradients of a square's weights and of the embedding, from those of the rows.
    fn multiply_backward(
        layer: &WholeBoard,
        weight: &[f32],
        states: &[u8],
        rows: &[f32],
        dense: &mut [f32],
        embedding: &mut [f32],
    ) {
        for (&state, row) in states.iter().zip(rows.chunks_exact(layer.width)) {
            let first = usize::from(state) * layer.inner;
            let values = &layer.embedding[first..first + layer.inner];
            let slopes = &mut embedding[first..first + layer.inner];
            let lists = weight.chunks_exact(layer.width).zip(dense.chunks_exact_mut(layer.width));
            for ((weights, dense), (&value, slope)) in lists.zip(values.iter().zip(slopes)) {
                // The slope of a ReLU is 0 where its output is 0.
                if value == 0.0 {
                    continue;
                }
                let mut parts = [0.0_f32; 32];
                let chunks = row.chunks_exact(32).zip(weights.chunks_exact(32));
                for ((row, weights), dense) in chunks.zip(dense.chunks_exact_mut(32)) {
                    for at in 0..32 {
                        dense[at] += value * row[at];
                        parts[at] += row[at] * weights[at];
                    }
                }
                *slope += parts.iter().sum::<f32>();
            }
        }
    }
}
