//! A part of the batch: saved outputs, gradients, and the phases of a step over them.
//!
//! Only the outputs of the products are saved (in the element type); activations are computed again on the way back. Each
//! phase walks the boards in pieces that stay in the second-level cache.

use eval::cpu::matmul::{BLOCK, Buffer, Element, Gathering, Taps, padded};
use nets::{HeadKind, PolicyIndex, Squares};

use super::{
    input::{input_backward, input_forward},
    loss::PartOfLoss,
    passes::{
        ColumnSums, Masking, activate, add, denormalise, mask_with_sums, spread_board, store_with_sums,
    },
    plan::{Convolution, Last, Operation, Plan, Stage, output_of},
};
use crate::Examples;

/// The outputs of one head that a batch asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<'a> {
    /// Empty for a value head.
    moves: &'a [PolicyIndex],
    /// Outputs of each board, where `ends` is empty; else 0.
    pub each: usize,
    ends: &'a [usize],
}

impl<'a> Asked<'a> {
    pub fn of(batch: &'a Examples, kind: HeadKind) -> Self {
        match kind {
            HeadKind::Value => Self { moves: &[], each: 1, ends: &[] },
            _ if batch.ends.is_empty() => Self { moves: &batch.moves, each: batch.moves_each(), ends: &[] },
            _ => Self { moves: &batch.moves, each: 0, ends: &batch.ends },
        }
    }

    /// For a head that is not asked.
    pub fn nothing() -> Self {
        Self { moves: &[], each: 0, ends: &[] }
    }

    /// Do the moves belong to this many boards?
    pub fn covers(&self, boards: usize) -> bool {
        match self.ends {
            [] => self.moves.len() == boards * self.each && (self.each > 0 || boards == 0),
            [.., last] => self.ends.len() == boards && self.ends.is_sorted() && *last == self.moves.len(),
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

    /// Cell and output of the last layer that number `index` is.
    fn place(&self, index: usize) -> (usize, usize) {
        self.moves.get(index).map_or((0, 0), |&index| output_of(index))
    }
}

/// What a shard knows of one head.
#[derive(Debug, Default)]
pub(super) struct HeadPart {
    /// Number of the first output within the batch.
    pub first: usize,
    pub logits: Vec<f32>,
    /// Gradient of the loss with respect to the logits.
    pub slopes: Vec<f32>,
    pub part: PartOfLoss,
    /// As `slopes` and `part`, over the pairs of moves of one position.
    pub sibling_slopes: Vec<f32>,
    pub sibling_part: PartOfLoss,
    /// Gradient of the last layer.
    pub weights: Vec<f32>,
    pub biases: Vec<f32>,
}

/// Rough size in bytes of what one piece of the way back should touch.
const PIECE_BYTES: usize = 900 << 10;

/// Column sums, in single precision inside a piece and in double across them.
#[derive(Debug, Default)]
struct Sums {
    piece: Vec<f32>,
    total: Vec<f64>,
}

impl Sums {
    fn start(&mut self, width: usize) {
        self.piece.clear();
        self.piece.resize(width, 0.0);
        self.total.clear();
        self.total.resize(width, 0.0);
    }

    fn flush(&mut self) {
        for (total, piece) in self.total.iter_mut().zip(&mut self.piece) {
            *total += f64::from(*piece);
            *piece = 0.0;
        }
    }
}

/// A part of the batch and what its phases leave for each other.
#[derive(Debug)]
pub(super) struct Shard<E> {
    /// First board within the batch.
    pub first: usize,
    pub boards: usize,
    /// Saved outputs of each stage.
    outputs: Vec<Buffer<E>>,
    /// Gradients before the activations: see [`Plan::slot`].
    gradients: [Buffer<E>; 3],
    first_sums: Sums,
    second_sums: Sums,
    /// Weight gradient of the stage at hand.
    pub weights: Buffer<f32>,
    pub heads: Vec<HeadPart>,
}

/// One thread's memory for a piece of boards.
#[derive(Debug)]
pub(super) struct Scratch<E> {
    spread: Buffer<E>,
    rows: Buffer<E>,
    left: Buffer<E>,
    right: Buffer<E>,
    product: Buffer<f32>,
    /// What one output of a last layer sees.
    seen: Vec<f32>,
}

impl<E: Element> Default for Scratch<E> {
    fn default() -> Self {
        Self {
            spread: Buffer::default(),
            rows: Buffer::default(),
            left: Buffer::default(),
            right: Buffer::default(),
            product: Buffer::default(),
            seen: Vec::new(),
        }
    }
}

impl<E: Element> Default for Shard<E> {
    fn default() -> Self {
        Self {
            first: 0,
            boards: 0,
            outputs: Vec::new(),
            gradients: [Buffer::default(), Buffer::default(), Buffer::default()],
            first_sums: Sums::default(),
            second_sums: Sums::default(),
            weights: Buffer::default(),
            heads: Vec::new(),
        }
    }
}

impl<E> Convolution<E> {
    fn halo(&self) -> usize {
        self.kernel / 2
    }

    /// Rows of one board spread for the taps.
    fn spread_rows(&self) -> usize {
        if self.kernel == 1 { self.cells } else { 64 + 16 * self.halo() }
    }

    /// How many boards a piece of the way back holds.
    fn piece(&self, width: usize) -> usize {
        if self.cells == 1 {
            return 64;
        }
        let outer = self.kernel * width;
        let board =
            2 * self.spread_rows() * outer * size_of::<E>() + 64 * self.inner * (2 * size_of::<E>() + 4);
        (PIECE_BYTES / board).clamp(2, 16)
    }
}

/// Boards of a piece on the way forward.
fn forward_piece(cells: usize) -> usize {
    if cells == 1 { 64 } else { 2 }
}

/// Multiplies spread boards: one product for all rows where boards follow each other without
/// halo, else one a board.
fn multiply<E: Element>(
    unit: &E::Unit,
    convolution: &Convolution<E>,
    spread: &[E],
    (channels, weights, width): (usize, &[E], usize),
    boards: usize,
    product: &mut [f32],
) {
    let inner = convolution.kernel * channels;
    let taps = Taps { stride: inner, count: convolution.kernel, rows: 8, inner };
    let rows = boards * convolution.cells;
    if convolution.kernel == 1 {
        E::product(unit, (spread, taps, weights), rows, width, product);
        return;
    }
    let rows = convolution.spread_rows();
    for board in 0..boards {
        let spread = &spread[board * rows * inner..][..rows * inner];
        let product = &mut product[board * 64 * width..];
        E::product(unit, (spread, taps, weights), 64, width, product);
    }
}

impl<E: Element> Shard<E> {
    /// Takes charge of `boards` boards from `first` on.
    pub fn assign(&mut self, plan: &Plan<E>, first: usize, boards: usize, asked: &[Asked<'_>]) {
        (self.first, self.boards) = (first, boards);
        self.outputs.resize_with(plan.stages.len(), Buffer::default);
        for (index, (stage, output)) in plan.stages.iter().zip(&mut self.outputs).enumerate() {
            let size = boards * stage.cells * stage.width;
            output.reserve(size);
            self.gradients[plan.slot(index)].reserve(size);
        }
        self.heads.resize_with(asked.len(), HeadPart::default);
        for (head, asked) in self.heads.iter_mut().zip(asked) {
            head.first = asked.before(first);
            let count = asked.before(first + boards) - head.first;
            head.logits.resize(count, 0.0);
            head.slopes.resize(count, 0.0);
        }
    }

    /// Sums of the last phase: forward `y` and `y * y`, backward `dz` and `dz * (y - mean)`.
    pub fn sums(&self) -> (&[f64], &[f64]) {
        (&self.first_sums.total, &self.second_sums.total)
    }

    /// Computes stage `index` for all boards from the one before.
    pub fn forward(&mut self, plan: &Plan<E>, index: usize, squares: &[Squares], scratch: &mut Scratch<E>) {
        let stage = &plan.stages[index];
        self.first_sums.start(stage.width);
        self.second_sums.start(stage.width);
        match &stage.operation {
            Operation::Input { layer, slabs, .. } => {
                let size = 64 * stage.width;
                scratch.product.reserve(size);
                for (board, squares) in squares[self.first..][..self.boards].iter().enumerate() {
                    input_forward(layer, slabs, squares, &mut scratch.product[..size]);
                    self.store(&scratch.product[..size], stage, index, board * size);
                }
            }
            Operation::Product(convolution) => self.forward_product(plan, index, convolution, scratch),
        }
    }

    fn store(&mut self, product: &[f32], stage: &Stage<E>, index: usize, from: usize) {
        let size = product.len();
        let mut sums = ColumnSums { first: &mut self.first_sums.piece, second: &mut self.second_sums.piece };
        debug_assert_eq!(sums.first.len(), stage.width);
        store_with_sums(product, &mut self.outputs[index][from..from + size], &mut sums);
        self.first_sums.flush();
        self.second_sums.flush();
    }

    fn forward_product(
        &mut self,
        plan: &Plan<E>,
        index: usize,
        convolution: &Convolution<E>,
        scratch: &mut Scratch<E>,
    ) {
        let unit = E::unit();
        let stage = &plan.stages[index];
        // Only input layers have none before.
        let Some(before_index) = stage.before else { return };
        let before = &plan.stages[before_index];
        let (before_size, size) = (before.cells * before.width, convolution.cells * stage.width);
        let piece = forward_piece(convolution.cells);
        let spread_size = convolution.spread_rows() * convolution.kernel * convolution.inner;
        scratch.product.reserve(padded(piece * convolution.cells) * stage.width);
        scratch.spread.reserve(
            padded(piece * convolution.cells).max(piece * convolution.spread_rows())
                * convolution.kernel
                * convolution.inner,
        );
        if convolution.kernel > 1 {
            scratch.spread[..piece * spread_size].fill(E::default());
        }
        scratch.rows.reserve(before_size);
        let mut board = 0;
        while board < self.boards {
            let boards = piece.min(self.boards - board);
            let y = &self.outputs[before_index][board * before_size..(board + boards) * before_size];
            if convolution.kernel == 1 {
                activate(y, &before.affine, &mut scratch.spread[..boards * before_size]);
            } else {
                for (y, spread) in
                    y.chunks_exact(before_size).zip(scratch.spread.chunks_exact_mut(spread_size))
                {
                    activate(y, &before.affine, &mut scratch.rows[..before_size]);
                    spread_board(&scratch.rows, convolution.inner, convolution.kernel, spread);
                }
            }
            let weights = (convolution.inner, &*convolution.forward, stage.width);
            multiply(&unit, convolution, &scratch.spread, weights, boards, &mut scratch.product);
            self.store(&scratch.product[..boards * size], stage, index, board * size);
            board += boards;
        }
    }

    /// The last layer of head `head`, after all stages.
    pub fn logits(&mut self, plan: &Plan<E>, head: usize, asked: &Asked<'_>, scratch: &mut Scratch<E>) {
        let last = &plan.lasts[head];
        let (weights, biases) = (&plan.parameters[last.weight].value, &plan.parameters[last.bias].value);
        let first = self.heads[head].first;
        for board in 0..self.boards {
            for index in asked.before(self.first + board)..asked.before(self.first + board + 1) {
                let (cell, output) = asked.place(index);
                self.see(plan, last, board, cell, &mut scratch.seen);
                let mut logit = biases[output];
                for (weight, a) in weights[output * last.inner..][..last.inner].iter().zip(&scratch.seen) {
                    logit += weight * a;
                }
                self.heads[head].logits[index - first] = logit;
            }
        }
    }

    /// Activations that a last layer sees at `cell`, in order.
    fn see(&self, plan: &Plan<E>, last: &Last, board: usize, cell: usize, seen: &mut Vec<f32>) {
        let stage = &plan.stages[last.stage];
        let from = (board * stage.cells + cell) * stage.width;
        let floor = if stage.affine.relu { 0.0 } else { f32::NEG_INFINITY };
        seen.clear();
        for y in self.outputs[last.stage][from..from + last.inner].chunks_exact(stage.width) {
            let maps = stage.affine.scale.iter().zip(&stage.affine.shift);
            seen.extend(
                y.iter().zip(maps).map(|(y, (scale, shift))| (y.to_f32() * scale + shift).max(floor)),
            );
        }
    }

    /// The way back through the last layer of head `head`, from its slopes to the gradient of the stage before.
    pub fn backward_last(
        &mut self,
        plan: &Plan<E>,
        head: usize,
        asked: &Asked<'_>,
        scratch: &mut Scratch<E>,
    ) {
        let last = &plan.lasts[head];
        let stage = &plan.stages[last.stage];
        let weights = &plan.parameters[last.weight].value;
        let size = stage.cells * stage.width;
        self.first_sums.start(stage.width);
        self.second_sums.start(stage.width);
        scratch.product.reserve(size);
        let mut part = std::mem::take(&mut self.heads[head]);
        part.weights.clear();
        part.weights.resize(weights.len(), 0.0);
        part.biases.clear();
        part.biases.resize(plan.parameters[last.bias].value.len(), 0.0);
        for board in 0..self.boards {
            scratch.product[..size].fill(0.0);
            for index in asked.before(self.first + board)..asked.before(self.first + board + 1) {
                let (cell, output) = asked.place(index);
                let slope = part.slopes[index - part.first];
                self.see(plan, last, board, cell, &mut scratch.seen);
                let gradient = &mut part.weights[output * last.inner..][..last.inner];
                gradient.iter_mut().zip(&scratch.seen).for_each(|(gradient, a)| *gradient += slope * a);
                part.biases[output] += slope;
                let weights = &weights[output * last.inner..][..last.inner];
                for (da, weight) in scratch.product[cell * stage.width..size].iter_mut().zip(weights) {
                    *da += slope * weight;
                }
            }
            self.mask(&mut scratch.product[..size], plan, last.stage, board * size, last.adds);
        }
        self.heads[head] = part;
    }

    /// Leaves the gradient before the activations of stage `index`; `adds` to what lies there.
    fn mask(&mut self, da: &mut [f32], plan: &Plan<E>, index: usize, from: usize, adds: bool) {
        let (stage, size) = (&plan.stages[index], da.len());
        let dz = &mut self.gradients[plan.slot(index)][from..from + size];
        if adds {
            add(dz, da);
        }
        let masking = Masking {
            da,
            y: &self.outputs[index][from..from + size],
            affine: &stage.affine,
            mean: &stage.mean,
        };
        let mut sums = ColumnSums { first: &mut self.first_sums.piece, second: &mut self.second_sums.piece };
        mask_with_sums(&masking, dz, &mut sums);
        self.first_sums.flush();
        self.second_sums.flush();
    }

    /// The way back through stage `index`: its weight gradient, and the gradient of the stage before.
    pub fn backward(&mut self, plan: &Plan<E>, index: usize, squares: &[Squares], scratch: &mut Scratch<E>) {
        let stage = &plan.stages[index];
        self.weights.reserve(stage.gradient_size);
        self.weights[..stage.gradient_size].fill(0.0);
        match &stage.operation {
            Operation::Input { layer, .. } => {
                let size = 64 * stage.width;
                scratch.rows.reserve(size);
                for (board, squares) in squares[self.first..][..self.boards].iter().enumerate() {
                    let at = board * size..(board + 1) * size;
                    let dz = &self.gradients[plan.slot(index)][at.clone()];
                    let y = &self.outputs[index][at];
                    denormalise(dz, y, &stage.back, &mut scratch.rows[..size]);
                    input_backward(layer, &scratch.rows[..size], squares, &mut self.weights);
                }
            }
            Operation::Product(convolution) => self.backward_product(plan, index, convolution, scratch),
        }
    }

    fn backward_product(
        &mut self,
        plan: &Plan<E>,
        index: usize,
        convolution: &Convolution<E>,
        scratch: &mut Scratch<E>,
    ) {
        let unit = E::unit();
        let stage = &plan.stages[index];
        // Only input layers have none before.
        let Some(before_index) = stage.before else { return };
        let before = &plan.stages[before_index];
        let (before_size, size) = (before.cells * before.width, convolution.cells * stage.width);
        let (kernel, outer) = (convolution.kernel, convolution.kernel * stage.width);
        let piece = convolution.piece(stage.width);
        let spread_rows = convolution.spread_rows();
        let all_rows = padded(piece * convolution.cells);
        let all_spread = all_rows.max(piece * spread_rows);
        self.first_sums.start(before.width);
        self.second_sums.start(before.width);
        scratch.spread.reserve(all_spread * outer);
        if kernel > 1 {
            scratch.spread[..all_spread * outer].fill(E::default());
        }
        scratch.right.reserve(all_spread * outer);
        scratch.rows.reserve((all_rows * convolution.inner).max(size));
        scratch.left.reserve(all_rows * convolution.inner);
        scratch.product.reserve(all_rows * convolution.inner);
        let mut board = 0;
        while board < self.boards {
            let boards = piece.min(self.boards - board);
            let dz = &self.gradients[plan.slot(index)][board * size..(board + boards) * size];
            let y = &self.outputs[index][board * size..(board + boards) * size];
            let mut rows = boards * convolution.cells;
            let mut right_rows = boards * spread_rows;
            if kernel == 1 {
                denormalise(dz, y, &stage.back, &mut scratch.spread[..boards * size]);
                rows = rows.next_multiple_of(BLOCK);
                right_rows = rows;
                scratch.spread[boards * size..rows * outer].fill(E::default());
            } else {
                let boards = dz.chunks_exact(size).zip(y.chunks_exact(size));
                for ((dz, y), spread) in boards.zip(scratch.spread.chunks_exact_mut(spread_rows * outer)) {
                    denormalise(dz, y, &stage.back, &mut scratch.rows[..size]);
                    spread_board(&scratch.rows, stage.width, kernel, spread);
                }
            }
            let before_y = &self.outputs[before_index][board * before_size..(board + boards) * before_size];
            activate(before_y, &before.affine, &mut scratch.rows[..boards * before_size]);
            scratch.rows[boards * before_size..rows * convolution.inner].fill(E::default());
            E::pack_left(&scratch.rows, rows, convolution.inner, &mut scratch.left);
            E::pack_right(&scratch.spread, right_rows, outer, &mut scratch.right);
            let shape = if kernel == 1 {
                Gathering { groups: 1, rows, taps: 1, tap_rows: 0 }
            } else {
                Gathering { groups: boards, rows: 64, taps: kernel, tap_rows: 8 }
            };
            E::gather(
                &unit,
                &scratch.left,
                &scratch.right,
                shape,
                convolution.inner,
                outer,
                &mut self.weights,
            );
            let weights = (stage.width, &*convolution.backward, convolution.inner);
            multiply(&unit, convolution, &scratch.spread, weights, boards, &mut scratch.product);
            let da = &mut scratch.product[..boards * before_size];
            self.mask(da, plan, before_index, board * before_size, stage.adds);
            board += boards;
        }
    }
}
