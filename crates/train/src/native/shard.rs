//! A part of the batch: saved outputs, gradients, and the phases of a step over them.
//!
//! Only the outputs of the products are saved (in the element type); activations are computed again on the way back. Each
//! phase walks the boards in pieces that stay in the second-level cache.

use eval::cpu::matmul::{BLOCK, Buffer, Element, Gathering, Taps, padded};
use nets::{HeadKind, PolicyIndex, Squares};

use super::{
    input::{input_backward, input_forward},
    loss::PartOfLoss,
    passes::{ColumnSums, Masking, activate, denormalise, mask_with_sums, spread_board, store_with_sums},
    plan::{Convolution, Operation, Plan, Stage, output_of},
};

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
    /// Outputs asked for at each board.
    pub outputs_each: usize,
    /// Saved outputs of each stage.
    outputs: Vec<Buffer<E>>,
    /// Gradients before the activations of two neighbouring stages.
    gradients: [Buffer<E>; 2],
    first_sums: Sums,
    second_sums: Sums,
    /// Weight gradient of the stage at hand.
    pub weights: Buffer<f32>,
    pub last_weights: Vec<f32>,
    pub last_biases: Vec<f32>,
    pub logits: Vec<f32>,
    /// Gradient of the loss with respect to the logits.
    pub slopes: Vec<f32>,
    pub part: PartOfLoss,
    /// As `slopes` and `part`, over the pairs of moves of one position.
    pub sibling_slopes: Vec<f32>,
    pub sibling_part: PartOfLoss,
}

/// One thread's memory for a piece of boards.
#[derive(Debug)]
pub(super) struct Scratch<E> {
    spread: Buffer<E>,
    rows: Buffer<E>,
    left: Buffer<E>,
    right: Buffer<E>,
    product: Buffer<f32>,
}

impl<E: Element> Default for Scratch<E> {
    fn default() -> Self {
        Self {
            spread: Buffer::default(),
            rows: Buffer::default(),
            left: Buffer::default(),
            right: Buffer::default(),
            product: Buffer::default(),
        }
    }
}

impl<E: Element> Default for Shard<E> {
    fn default() -> Self {
        Self {
            first: 0,
            boards: 0,
            outputs_each: 1,
            outputs: Vec::new(),
            gradients: [Buffer::default(), Buffer::default()],
            first_sums: Sums::default(),
            second_sums: Sums::default(),
            weights: Buffer::default(),
            last_weights: Vec::new(),
            last_biases: Vec::new(),
            logits: Vec::new(),
            slopes: Vec::new(),
            part: PartOfLoss::default(),
            sibling_slopes: Vec::new(),
            sibling_part: PartOfLoss::default(),
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
    pub fn assign(&mut self, plan: &Plan<E>, first: usize, boards: usize, outputs_each: usize) {
        (self.first, self.boards, self.outputs_each) = (first, boards, outputs_each);
        self.outputs.resize_with(plan.stages.len(), Buffer::default);
        let mut largest = 0;
        for (stage, output) in plan.stages.iter().zip(&mut self.outputs) {
            let size = boards * stage.cells * stage.width;
            output.reserve(size);
            largest = largest.max(size);
        }
        for gradient in &mut self.gradients {
            gradient.reserve(largest);
        }
        self.logits.resize(boards * outputs_each, 0.0);
        self.slopes.resize(boards * outputs_each, 0.0);
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
        let (before, stage) = (&plan.stages[index - 1], &plan.stages[index]);
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
            let y = &self.outputs[index - 1][board * before_size..(board + boards) * before_size];
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

    /// The last layer, after the last stage.
    pub fn logits(&mut self, plan: &Plan<E>, moves: &[PolicyIndex]) {
        let (last, weights) = (&plan.last, &plan.parameters[plan.last.weight].value);
        let biases = &plan.parameters[last.bias].value;
        for asked in 0..self.boards * self.outputs_each {
            let (cell, output) = self.asked(plan, moves, asked);
            let mut logit = biases[output];
            let weights = &weights[output * last.inner..][..last.inner];
            self.last_input(plan, asked / self.outputs_each, cell, |i, a| logit += weights[i] * a);
            self.logits[asked] = logit;
        }
    }

    /// Which cell and which output of the last layer the shard's logit number `asked` is.
    fn asked(&self, plan: &Plan<E>, moves: &[PolicyIndex], asked: usize) -> (usize, usize) {
        match plan.last.kind {
            HeadKind::Value => (0, 0),
            _ => output_of(moves[self.first * self.outputs_each + asked]),
        }
    }

    /// Activations that the last layer sees at `cell`, in order.
    fn last_input(&self, plan: &Plan<E>, board: usize, cell: usize, mut see: impl FnMut(usize, f32)) {
        let index = plan.stages.len() - 1;
        let stage = &plan.stages[index];
        let from = (board * stage.cells + cell) * stage.width;
        let y = &self.outputs[index][from..from + plan.last.inner];
        for (i, y) in y.iter().enumerate() {
            let c = i % stage.width;
            let z = y.to_f32() * stage.affine.scale[c] + stage.affine.shift[c];
            see(i, if stage.affine.relu { z.max(0.0) } else { z });
        }
    }

    /// The way back through the last layer, from `slopes` to the last stage's gradient.
    pub fn backward_last(&mut self, plan: &Plan<E>, moves: &[PolicyIndex], scratch: &mut Scratch<E>) {
        let index = plan.stages.len() - 1;
        let (last, stage) = (&plan.last, &plan.stages[index]);
        let weights = &plan.parameters[last.weight].value;
        let size = stage.cells * stage.width;
        self.first_sums.start(stage.width);
        self.second_sums.start(stage.width);
        scratch.product.reserve(size);
        let mut last_weights = std::mem::take(&mut self.last_weights);
        last_weights.clear();
        last_weights.resize(weights.len(), 0.0);
        self.last_biases.clear();
        self.last_biases.resize(plan.parameters[last.bias].value.len(), 0.0);
        for board in 0..self.boards {
            scratch.product[..size].fill(0.0);
            for asked in board * self.outputs_each..(board + 1) * self.outputs_each {
                let (cell, output) = self.asked(plan, moves, asked);
                let slope = self.slopes[asked];
                let gradient = &mut last_weights[output * last.inner..][..last.inner];
                self.last_input(plan, board, cell, |i, a| gradient[i] += slope * a);
                self.last_biases[output] += slope;
                let weights = &weights[output * last.inner..][..last.inner];
                for (da, weight) in scratch.product[cell * stage.width..size].iter_mut().zip(weights) {
                    *da += slope * weight;
                }
            }
            self.mask(&scratch.product[..size], stage, index, board * size);
        }
        self.last_weights = last_weights;
    }

    fn mask(&mut self, da: &[f32], stage: &Stage<E>, index: usize, from: usize) {
        let size = da.len();
        let masking = Masking {
            da,
            y: &self.outputs[index][from..from + size],
            affine: &stage.affine,
            mean: &stage.mean,
        };
        let mut sums = ColumnSums { first: &mut self.first_sums.piece, second: &mut self.second_sums.piece };
        mask_with_sums(&masking, &mut self.gradients[index % 2][from..from + size], &mut sums);
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
                    let (dz, y) = (&self.gradients[index % 2][at.clone()], &self.outputs[index][at]);
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
        let (before, stage) = (&plan.stages[index - 1], &plan.stages[index]);
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
            let dz = &self.gradients[index % 2][board * size..(board + boards) * size];
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
            let before_y = &self.outputs[index - 1][board * before_size..(board + boards) * before_size];
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
            let da = &scratch.product[..boards * before_size];
            self.mask(da, before, index - 1, board * before_size);
            board += boards;
        }
    }
}
