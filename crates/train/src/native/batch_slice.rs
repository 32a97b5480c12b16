//! A slice of the batch: saved outputs, gradients, and the forward and backward passes over them.
//!
//! Only the outputs of the stages before their norms are saved (in the element type); the backward
//! pass computes activations again. Each pass processes the boards in groups that fit into the L2
//! cache.

use super::matmul::{Buffer, Element, WeightGradient, padded};

use super::{
    convolution::Convolution,
    graph::{Operation, Stage, StageInput, TrainingGraph},
    input::{input_backward, input_forward},
    output_layer::{HeadOutputs, RequestedOutputs},
    passes::{
        ActivationGradient, SavedOutputs, activate, activation_backward, add, denormalise, narrow,
        store_with_sums, sum_activated, widen,
    },
    pooling::{RowWidths, append_mean, append_mean_backward, pool, pool_backward},
    totals::StageTotals,
    whole_board::BoardScratch,
};
use crate::Examples;

/// A slice of the batch with the memory of its forward and backward passes.
#[derive(Debug)]
pub(super) struct BatchSlice<E> {
    /// Index of the first board within the batch.
    pub first: usize,
    pub boards: usize,
    /// Saved outputs of each stage.
    pub outputs: Vec<Buffer<E>>,
    /// Gradients with respect to the inputs of the activations, by [`Stage::slot`]; with respect to
    /// their outputs until all readers of a stage have added their parts.
    pub gradients: Vec<Buffer<E>>,
    sums: Vec<StageTotals>,
    /// Weight gradient of the stage whose backward pass is running.
    pub weights: Buffer<f32>,
    pub heads: Vec<HeadOutputs>,
}

/// One thread's memory for a group of boards.
#[derive(Debug)]
pub(super) struct Scratch<E> {
    spread: Buffer<E>,
    rows: Buffer<E>,
    pub board: Buffer<E>,
    left: Buffer<E>,
    right: Buffer<E>,
    pub product: Buffer<f32>,
    pub whole_board: BoardScratch,
    /// Inputs of one output of an output layer, or means over a board.
    pub values: Vec<f32>,
}

impl<E: Element> Default for Scratch<E> {
    fn default() -> Self {
        Self {
            spread: Buffer::default(),
            rows: Buffer::default(),
            board: Buffer::default(),
            left: Buffer::default(),
            right: Buffer::default(),
            product: Buffer::default(),
            whole_board: BoardScratch::default(),
            values: Vec::new(),
        }
    }
}

impl<E: Element> Default for BatchSlice<E> {
    fn default() -> Self {
        Self {
            first: 0,
            boards: 0,
            outputs: Vec::new(),
            gradients: Vec::new(),
            sums: Vec::new(),
            weights: Buffer::default(),
            heads: Vec::new(),
        }
    }
}

impl<E: Element> BatchSlice<E> {
    /// Assigns `boards` boards from `first` on to this slice and makes room for their outputs and
    /// gradients.
    pub fn assign(
        &mut self,
        graph: &TrainingGraph<E>,
        first: usize,
        boards: usize,
        requested: &[RequestedOutputs<'_>],
    ) {
        (self.first, self.boards) = (first, boards);
        self.outputs.resize_with(graph.stages.len(), Buffer::default);
        self.sums.resize_with(graph.stages.len(), StageTotals::default);
        self.gradients.resize_with(graph.slots, Buffer::default);
        for (stage, output) in graph.stages.iter().zip(&mut self.outputs) {
            output.reserve(boards * stage.size());
            self.gradients[stage.slot].reserve(boards * stage.size());
        }
        self.heads.resize_with(requested.len(), HeadOutputs::default);
        for (head, requested) in self.heads.iter_mut().zip(requested) {
            let before = requested.before(first);
            head.assign(before, requested.before(first + boards) - before);
        }
    }

    /// Sums of a stage over this slice: in the forward pass `y` and `y * y`, in the backward pass
    /// `dz` and `dz * (y - mean)`.
    pub fn sums(&self, stage: usize) -> (&[f64], &[f64]) {
        (&self.sums[stage].first.total, &self.sums[stage].second.total)
    }

    /// Computes stage `index` for all boards from the outputs of its inputs.
    pub fn forward(
        &mut self,
        graph: &TrainingGraph<E>,
        index: usize,
        batch: &Examples,
        scratch: &mut Scratch<E>,
    ) {
        let stage = &graph.stages[index];
        self.sums[index].start(stage.width);
        match (&stage.operation, stage.inputs.as_slice()) {
            (Operation::Input { layer, slabs, .. }, _) => {
                let size = stage.size();
                scratch.product.reserve(size);
                for board in 0..self.boards {
                    let position = self.first + board;
                    let states = layer.states_of(&batch.squares[position], batch.turn(position));
                    input_forward(layer, slabs, &states, &mut scratch.product[..size]);
                    self.store(&scratch.product[..size], stage, index, board * size);
                }
            }
            (Operation::WholeBoard(layers), _) => {
                self.forward_whole_board(graph, index, layers, batch, scratch);
            }
            (Operation::Product(convolution), &[input]) => {
                self.forward_product(graph, index, input, convolution, scratch);
            }
            (Operation::Sum, &[first, second]) => {
                let size = self.boards * stage.size();
                let (before, own) = self.outputs.split_at_mut(index);
                let saved = |input: StageInput| SavedOutputs {
                    y: &before[input.stage][..size],
                    affine: &graph.stages[input.stage].affine,
                };
                sum_activated(&saved(first), &saved(second), &mut own[0][..size]);
            }
            (_, &[input]) => self.forward_pooling(graph, index, input, scratch),
            // Cannot happen: the builder gives every operation its inputs.
            _ => {}
        }
    }

    /// Stores a product as saved outputs of a stage and adds its sums.
    pub fn store(&mut self, product: &[f32], stage: &Stage<E>, index: usize, from: usize) {
        let size = product.len();
        let mut sums = self.sums[index].columns();
        debug_assert_eq!(sums.first.len(), stage.width);
        store_with_sums(product, &mut self.outputs[index][from..from + size], &mut sums);
        self.sums[index].flush();
    }

    /// The forward pass of a stage without weights, board by board.
    fn forward_pooling(
        &mut self,
        graph: &TrainingGraph<E>,
        index: usize,
        input: StageInput,
        scratch: &mut Scratch<E>,
    ) {
        let (stage, before) = (&graph.stages[index], &graph.stages[input.stage]);
        scratch.board.reserve(before.size());
        let (earlier, own) = self.outputs.split_at_mut(index);
        let boards = earlier[input.stage]
            .chunks_exact(before.size())
            .zip(own[0].chunks_exact_mut(stage.size()));
        for (board, (y, output)) in boards.take(self.boards).enumerate() {
            let a = &mut scratch.board[..before.size()];
            activate(y, &before.affine, a);
            match stage.operation {
                Operation::AppendMean => {
                    append_mean(a, rows_of(stage, before), &mut scratch.values, output)
                }
                Operation::Pool(pooling, size) => {
                    pool(a, (before.side(), before.width), (pooling, size), output);
                }
                Operation::Dropout(layer) => {
                    output.copy_from_slice(a);
                    if let Some(dropout) = graph.dropout {
                        let factors = dropout.factors(layer, self.first + board);
                        for (output, factor) in output.iter_mut().zip(factors) {
                            *output = E::from_f32(output.to_f32() * factor);
                        }
                    }
                }
                _ => {}
            }
        }
    }

    /// The forward pass of a convolution or dense layer.
    fn forward_product(
        &mut self,
        graph: &TrainingGraph<E>,
        index: usize,
        input: StageInput,
        convolution: &Convolution<E>,
        scratch: &mut Scratch<E>,
    ) {
        let guard = E::guard();
        let (stage, before) = (&graph.stages[index], &graph.stages[input.stage]);
        let (before_size, size) = (before.size(), stage.size());
        let group = convolution.forward_group();
        let row = convolution.kernel * convolution.inner;
        scratch.product.reserve(padded(group * convolution.cells) * stage.width);
        let rows = padded(group * convolution.cells).max(group * convolution.spread_rows());
        scratch.spread.reserve(rows * row);
        if convolution.kernel > 1 {
            scratch.spread[..group * convolution.spread_rows() * row].fill(E::default());
        }
        scratch.board.reserve(before_size);
        for first in (0..self.boards).step_by(group) {
            let boards = group.min(self.boards - first);
            let y = &self.outputs[input.stage][first * before_size..][..boards * before_size];
            convolution.spread_boards(
                boards,
                (before_size, convolution.inner),
                &mut scratch.board,
                &mut scratch.spread,
                |elements, a| activate(&y[elements], &before.affine, a),
            );
            let weights = (convolution.inner, &*convolution.forward, stage.width);
            convolution.multiply(&guard, &scratch.spread, weights, boards, &mut scratch.product);
            self.store(&scratch.product[..boards * size], stage, index, first * size);
        }
    }

    /// Resets the sums of a stage before the last part of its gradient is stored through `input`.
    pub fn start_gradient(&mut self, graph: &TrainingGraph<E>, input: StageInput) {
        if input.completes {
            self.sums[input.stage].start(graph.stages[input.stage].width);
        }
    }

    /// Adds `da`, a part of the gradient with respect to the activations of a stage, for the boards
    /// from `board` on. The last part completes it: then the gradient with respect to the inputs of
    /// the activations is stored, and its sums are added.
    pub fn store_gradient(
        &mut self,
        graph: &TrainingGraph<E>,
        input: StageInput,
        board: usize,
        da: &mut [f32],
    ) {
        let stage = &graph.stages[input.stage];
        let at = board * stage.size()..board * stage.size() + da.len();
        let dz = &mut self.gradients[stage.slot][at.clone()];
        if input.accumulates {
            add(dz, da);
        }
        if !input.completes {
            narrow(da, dz);
            return;
        }
        let gradient_in = ActivationGradient {
            da,
            y: &self.outputs[input.stage][at],
            affine: &stage.affine,
            mean: &stage.mean,
        };
        activation_backward(&gradient_in, dz, &mut self.sums[input.stage].columns());
        self.sums[input.stage].flush();
    }

    /// The backward pass of stage `index`: computes its weight gradient and the gradients of its
    /// inputs.
    pub fn backward(
        &mut self,
        graph: &TrainingGraph<E>,
        index: usize,
        batch: &Examples,
        scratch: &mut Scratch<E>,
    ) {
        let stage = &graph.stages[index];
        self.weights.reserve(stage.gradient_size);
        self.weights[..stage.gradient_size].fill(0.0);
        for &input in &stage.inputs {
            self.start_gradient(graph, input);
        }
        let size = stage.size();
        match (&stage.operation, stage.inputs.as_slice()) {
            (Operation::Input { layer, .. }, _) => {
                scratch.board.reserve(size);
                for board in 0..self.boards {
                    let position = self.first + board;
                    let states = layer.states_of(&batch.squares[position], batch.turn(position));
                    let at = board * size..(board + 1) * size;
                    let dz = &self.gradients[stage.slot][at.clone()];
                    let y = &self.outputs[index][at];
                    denormalise(dz, y, &stage.back, &mut scratch.board[..size]);
                    input_backward(layer, &scratch.board[..size], &states, &mut self.weights);
                }
            }
            (Operation::WholeBoard(layers), _) => {
                self.backward_whole_board(graph, index, layers, batch, scratch);
            }
            (Operation::Product(convolution), &[input]) => {
                self.backward_product(graph, index, input, convolution, scratch);
            }
            (Operation::Sum, inputs) => {
                scratch.product.reserve(size);
                for board in 0..self.boards {
                    for &input in inputs {
                        let dz = &self.gradients[stage.slot][board * size..(board + 1) * size];
                        widen(dz, &mut scratch.product[..size]);
                        self.store_gradient(graph, input, board, &mut scratch.product[..size]);
                    }
                }
            }
            (_, &[input]) => self.backward_pooling(graph, index, input, scratch),
            _ => {}
        }
    }

    /// The backward pass of a stage without weights, board by board.
    fn backward_pooling(
        &mut self,
        graph: &TrainingGraph<E>,
        index: usize,
        input: StageInput,
        scratch: &mut Scratch<E>,
    ) {
        let (stage, before) = (&graph.stages[index], &graph.stages[input.stage]);
        let (size, before_size) = (stage.size(), before.size());
        scratch.board.reserve(before_size);
        scratch.product.reserve(before_size);
        for board in 0..self.boards {
            let dz = &self.gradients[stage.slot][board * size..(board + 1) * size];
            let da = &mut scratch.product[..before_size];
            match stage.operation {
                Operation::AppendMean => {
                    append_mean_backward(dz, rows_of(stage, before), &mut scratch.values, da);
                }
                Operation::Pool(pooling, size) => {
                    let y =
                        &self.outputs[input.stage][board * before_size..(board + 1) * before_size];
                    let a = &mut scratch.board[..before_size];
                    activate(y, &before.affine, a);
                    pool_backward(a, dz, (before.side(), before.width), (pooling, size), da);
                }
                Operation::Dropout(layer) => {
                    widen(dz, da);
                    if let Some(dropout) = graph.dropout {
                        let factors = dropout.factors(layer, self.first + board);
                        da.iter_mut().zip(factors).for_each(|(da, factor)| *da *= factor);
                    }
                }
                _ => {}
            }
            self.store_gradient(graph, input, board, da);
        }
    }

    /// The backward pass of a convolution or dense layer.
    fn backward_product(
        &mut self,
        graph: &TrainingGraph<E>,
        index: usize,
        input: StageInput,
        convolution: &Convolution<E>,
        scratch: &mut Scratch<E>,
    ) {
        let guard = E::guard();
        let (stage, before) = (&graph.stages[index], &graph.stages[input.stage]);
        let (before_size, size) = (before.size(), stage.size());
        let (kernel, outer) = (convolution.kernel, convolution.kernel * stage.width);
        let group = convolution.backward_group(stage.width);
        let spread_rows = convolution.spread_rows();
        let all_rows = padded(group * convolution.cells);
        let all_spread = all_rows.max(group * spread_rows);
        scratch.spread.reserve(all_spread * outer);
        if kernel > 1 {
            scratch.spread[..all_spread * outer].fill(E::default());
        }
        scratch.right.reserve(all_spread * outer);
        scratch.board.reserve(size.max(before_size));
        scratch.rows.reserve(all_rows * convolution.inner);
        scratch.left.reserve(all_rows * convolution.inner);
        scratch.product.reserve(all_rows * convolution.inner);
        for first in (0..self.boards).step_by(group) {
            let boards = group.min(self.boards - first);
            let dz = &self.gradients[stage.slot][first * size..][..boards * size];
            let y = &self.outputs[index][first * size..][..boards * size];
            convolution.spread_boards(
                boards,
                (size, stage.width),
                &mut scratch.board,
                &mut scratch.spread,
                |elements, dy| denormalise(&dz[elements.clone()], &y[elements], &stage.back, dy),
            );
            let mut rows = boards * convolution.cells;
            let mut right_rows = boards * spread_rows;
            if kernel == 1 {
                rows = padded(rows);
                right_rows = rows;
                scratch.spread[boards * size..rows * outer].fill(E::default());
            }
            let before_y =
                &self.outputs[input.stage][first * before_size..][..boards * before_size];
            fill_left_operand(convolution, before, before_y, rows, scratch);
            E::pack_left(&scratch.rows, rows, convolution.inner, &mut scratch.left);
            E::pack_right(&scratch.spread, right_rows, outer, &mut scratch.right);
            let shape = if kernel == 1 {
                WeightGradient { groups: 1, rows, taps: 1, tap_rows: 0 }
            } else {
                WeightGradient { groups: boards, rows: 64, taps: kernel, tap_rows: 8 }
            };
            E::add_weight_gradient(
                &guard,
                &scratch.left,
                &scratch.right,
                shape,
                convolution.inner,
                outer,
                &mut self.weights,
            );
            let weights = (stage.width, &*convolution.backward, convolution.inner);
            convolution.multiply(&guard, &scratch.spread, weights, boards, &mut scratch.product);
            self.store_gradient(graph, input, first, &mut scratch.product[..boards * before_size]);
        }
    }
}

/// Activates the saved outputs `y` of some boards and writes them to the `rows` rows of the left
/// operand of the weight gradient; rows beyond the boards are zero.
fn fill_left_operand<E: Element>(
    convolution: &Convolution<E>,
    before: &Stage<E>,
    y: &[E],
    rows: usize,
    scratch: &mut Scratch<E>,
) {
    if convolution.is_in_corner() {
        scratch.rows[..rows * convolution.inner].fill(E::default());
        let full = scratch.rows.chunks_exact_mut(64 * convolution.inner);
        for (y, full) in y.chunks_exact(before.size()).zip(full) {
            activate(y, &before.affine, &mut scratch.board[..before.size()]);
            convolution.put_in_corner(&scratch.board[..before.size()], before.width, full);
        }
    } else {
        activate(y, &before.affine, &mut scratch.rows[..y.len()]);
        scratch.rows[y.len()..rows * convolution.inner].fill(E::default());
    }
}

fn rows_of<E>(stage: &Stage<E>, before: &Stage<E>) -> RowWidths {
    RowWidths { channels: before.channels, input: before.width, output: stage.width }
}
