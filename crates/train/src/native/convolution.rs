//! A convolution as a product over taps: how its weights are packed, and how boards are laid out
//! for it.

use super::matmul::{Buffer, Element, Taps};

/// A convolution of odd size over a board, or any layer whose outputs see all of a row.
#[derive(Debug)]
pub(super) struct Convolution<E> {
    pub weight: usize,
    /// Odd. A dense layer, or a convolution as large as the board, is size 1 over one cell that
    /// holds the whole board.
    pub kernel: usize,
    /// Side of the boards, where `kernel` is above 1. Smaller ones than 8 lie in the corner of an
    /// empty board.
    pub side: usize,
    /// Rows a board has in the product: 64 where `kernel` is above 1.
    pub cells: usize,
    /// Padded input channels of a row.
    pub inner: usize,
    /// Packed weights, and packed weights of the way back.
    pub forward: Buffer<E>,
    pub backward: Buffer<E>,
}

/// Rough size in bytes of what one piece of the way back should touch.
const PIECE_BYTES: usize = 900 << 10;

impl<E> Convolution<E> {
    /// Rows of one board spread for the taps.
    pub fn spread_rows(&self) -> usize {
        if self.kernel == 1 { self.cells } else { 64 + 16 * (self.kernel / 2) }
    }

    /// Boards of a piece on the way forward.
    pub fn forward_piece(&self) -> usize {
        if self.cells == 1 { 64 } else { 2 }
    }

    /// Boards of a piece of the way back.
    pub fn backward_piece(&self, width: usize) -> usize {
        if self.cells == 1 {
            return 64;
        }
        let outer = self.kernel * width;
        let board = 2 * self.spread_rows() * outer * size_of::<E>()
            + 64 * self.inner * (2 * size_of::<E>() + 4);
        (PIECE_BYTES / board).clamp(2, 16)
    }

    /// Are the boards smaller than those of the product?
    pub fn is_in_corner(&self) -> bool {
        self.kernel > 1 && self.side < 8
    }
}

impl<E: Element> Convolution<E> {
    /// From `[kernel, inner, kernel, width]`, flipped, to the packed matrices of both ways.
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

    /// Multiplies spread boards of `channels` by packed weights, to `boards` of `width` channels
    /// each: one product for all rows where boards follow each other without halo, else one a
    /// board.
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

    /// Moves the corners of full boards together.
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

    /// Lays a board into the corner of a full one, whose other cells must be zero already.
    pub fn put_in_corner(&self, board: &[E], channels: usize, full: &mut [E]) {
        let row = self.side * channels;
        for (source, target) in board.chunks_exact(row).zip(full.chunks_mut(8 * channels)) {
            target[..row].copy_from_slice(source);
        }
    }

    /// Spreads a board for the taps: `[8 + 2h ranks, 8 files, kernel, channels]`, h halo ranks of
    /// zeros on both sides; part `j` of a cell holds the cell `j - h` files to the right, zeros
    /// beyond the edge. The halo and the edges of `spread` must be zero already.
    pub fn spread(&self, board: &[E], channels: usize, spread: &mut [E]) {
        let (kernel, side) = (self.kernel, self.side);
        let halo = kernel / 2;
        for rank in 0..side {
            for file in 0..side {
                let cell = &board[(rank * side + file) * channels..][..channels];
                for part in 0..kernel {
                    // The cell that sees this one `part - halo` files to the right.
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

/// `[rows, columns]` to `[columns, rows]`, in blocks that stay in the cache; both are multiples of
/// 32.
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
