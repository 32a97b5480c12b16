//! Computes a convolution as a matrix product over taps: packs its weights and spreads boards for
//! it.

use std::ops::Range;

use super::matmul::{Buffer, Element, Taps};

/// A convolution of odd size over a board, or a dense layer over a row that holds the whole board.
#[derive(Debug)]
pub(super) struct Convolution<E> {
    /// Index of the weight among the parameters.
    pub weight: usize,
    /// Odd. A dense layer, or a convolution as large as the board, is size 1 over one cell that
    /// holds the whole board.
    pub kernel: usize,
    /// Side of the boards, for `kernel` above 1. Boards smaller than 8x8 are placed in the corner
    /// of an empty 8x8 board.
    pub side: usize,
    /// Rows of a board in the product: 64 for `kernel` above 1.
    pub cells: usize,
    /// Padded input channels of a row.
    pub inner: usize,
    /// Packed weights of the forward pass.
    pub forward: Buffer<E>,
    /// Packed weights of the backward pass.
    pub backward: Buffer<E>,
}

/// Approximate working set of one group of boards in the backward pass, in bytes.
const GROUP_BYTES: usize = 900 << 10;

impl<E> Convolution<E> {
    /// Rows of one board spread for the taps.
    pub fn spread_rows(&self) -> usize {
        if self.kernel == 1 { self.cells } else { 64 + 16 * (self.kernel / 2) }
    }

    /// Boards of a group in the forward pass.
    pub fn forward_group(&self) -> usize {
        if self.cells == 1 { 64 } else { 2 }
    }

    /// Boards of a group in the backward pass.
    pub fn backward_group(&self, width: usize) -> usize {
        if self.cells == 1 {
            return 64;
        }
        let outer = self.kernel * width;
        let board = 2 * self.spread_rows() * outer * size_of::<E>()
            + 64 * self.inner * (2 * size_of::<E>() + 4);
        (GROUP_BYTES / board).clamp(2, 16)
    }

    /// True when the boards are smaller than the 8x8 boards of the product.
    pub fn is_in_corner(&self) -> bool {
        self.kernel > 1 && self.side < 8
    }
}

impl<E: Element> Convolution<E> {
    /// Packs the weights `[kernel, inner, kernel, width]`, stored flipped, for both passes.
    pub fn pack(&mut self, weight: &[f32], width: usize, scratch: &mut Vec<f32>) {
        let (kernel, inner) = (self.kernel, self.inner);
        scratch.resize(weight.len(), 0.0);
        for row in 0..kernel {
            for column in 0..kernel {
                for input in 0..inner {
                    let source =
                        (((kernel - 1 - row) * inner + input) * kernel + kernel - 1 - column)
                            * width;
                    let target = ((row * kernel + column) * inner + input) * width;
                    scratch[target..target + width]
                        .copy_from_slice(&weight[source..source + width]);
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

    /// Multiplies `boards` spread boards of `channels` channels by packed weights, to boards of
    /// `width` channels: with one product for all boards if they have no halo, otherwise with one
    /// product for each board.
    pub fn multiply(
        &self,
        guard: &E::Guard,
        spread: &[E],
        (channels, weights, width): (usize, &[E], usize),
        boards: usize,
        product: &mut [f32],
    ) {
        let inner = self.kernel * channels;
        let taps = Taps { stride: inner, count: self.kernel, rows: 8, inner };
        if self.kernel == 1 {
            E::product(guard, (spread, taps, weights), boards * self.cells, width, product);
            return;
        }
        let rows = self.spread_rows();
        for board in 0..boards {
            let spread = &spread[board * rows * inner..][..rows * inner];
            let product = &mut product[board * 64 * width..];
            E::product(guard, (spread, taps, weights), 64, width, product);
        }
        if self.is_in_corner() {
            self.take_corners(boards, width, product);
        }
    }

    /// Compacts the corners of 8x8 boards to smaller boards.
    fn take_corners(&self, boards: usize, width: usize, product: &mut [f32]) {
        let side = self.side;
        for board in 0..boards {
            for rank in 0..side {
                let from = (board * 64 + rank * 8) * width;
                let to = (board * side + rank) * side * width;
                product.copy_within(from..from + side * width, to);
            }
        }
    }

    /// Copies a board into the corner of an 8x8 board, whose other cells must be zero.
    pub fn put_in_corner(&self, board: &[E], channels: usize, full: &mut [E]) {
        let row = self.side * channels;
        for (source, target) in board.chunks_exact(row).zip(full.chunks_mut(8 * channels)) {
            target[..row].copy_from_slice(source);
        }
    }

    /// Spreads `boards` boards of `size` elements for the taps. `fill` writes the elements in a range
    /// of these boards; without halo it writes to `spread` directly, otherwise board by board
    /// through `board`.
    #[inline(always)]
    pub fn spread_boards(
        &self,
        boards: usize,
        (size, channels): (usize, usize),
        board: &mut [E],
        spread: &mut [E],
        fill: impl Fn(Range<usize>, &mut [E]),
    ) {
        if self.kernel == 1 {
            fill(0..boards * size, &mut spread[..boards * size]);
            return;
        }
        let spread_size = self.spread_rows() * self.kernel * channels;
        for (index, spread) in spread.chunks_exact_mut(spread_size).take(boards).enumerate() {
            fill(index * size..(index + 1) * size, &mut board[..size]);
            self.spread(board, channels, spread);
        }
    }

    /// Spreads a board for the taps: `[8 + 2h ranks, 8 files, kernel, channels]`, with h halo ranks
    /// of zeros on both sides. Part `j` of a cell holds the cell `j - h` files to the right, or
    /// zeros beyond the edge. The halo and the edges of `spread` must be zero before the call.
    pub fn spread(&self, board: &[E], channels: usize, spread: &mut [E]) {
        let (kernel, side) = (self.kernel, self.side);
        let halo = kernel / 2;
        for rank in 0..side {
            for file in 0..side {
                let cell = &board[(rank * side + file) * channels..][..channels];
                for part in 0..kernel {
                    // The cell that has this one `part - halo` files to its right.
                    let to = file + halo;
                    if to < part || to - part >= 8 {
                        continue;
                    }
                    let row = (rank + halo) * 8 + to - part;
                    spread[(row * kernel + part) * channels..][..channels].copy_from_slice(cell);
                }
            }
        }
    }
}

/// `[rows, columns]` to `[columns, rows]`, in blocks that stay in the cache; both sizes are
/// multiples of 32.
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
