//! Runs products and attention for the boards of a chunk, and stores their sums.

use std::ops::Range;

use super::{BoardRange, PlanRunner};
use crate::cpu::{
    attention::Attend,
    kernels::{Destination, Kernels, Operands},
    layout::BLOCK,
    plan::Product,
};

/// Bytes of weights that stay in the second cache of a core, beside activations.
const CACHED_WEIGHTS: usize = 256 << 10;

impl<K: Kernels> PlanRunner<K> {
    /// Runs a layer whose output is a board, in blocks of up to 32 cells, for each active board. As
    /// many panels run together as stay in the second cache, while their rows stay in the first.
    pub(super) fn product_by_board(
        &mut self,
        guard: &K::Guard,
        product: &Product<K::Element>,
        cells: usize,
        boards: BoardRange,
    ) {
        let size = product.offsets.len() * BLOCK * BLOCK * size_of::<K::Element>();
        let together = (CACHED_WEIGHTS / size.max(1)).max(1);
        for first in (0..product.panels).step_by(together) {
            let panels = first..(first + together).min(product.panels);
            for board in (0..boards.count).filter(|board| boards.active >> board & 1 == 1) {
                self.panels_of_board(guard, product, cells, panels.clone(), (boards, board));
            }
        }
    }

    fn panels_of_board(
        &mut self,
        guard: &K::Guard,
        product: &Product<K::Element>,
        cells: usize,
        panels: Range<usize>,
        (boards, board): (BoardRange, usize),
    ) {
        let [input, output] =
            [product.input, product.output].map(|buffer| self.board_offset(buffer, boards, board));
        let residual =
            product.residual.map_or(0, |from| self.board_offset(from.buffer, boards, board));
        let rows = cells.min(BLOCK);
        for first in (0..cells).step_by(rows) {
            for panel in panels.clone() {
                // SAFETY: offsets and targets were made for the layouts of these buffers; input and
                // output are different buffers; a panel has the weights of all offsets, and there
                // are 32 rows of sums.
                unsafe {
                    let a = self.buffers[product.input].as_ptr().add(input + first * BLOCK);
                    let operands = self.operands(product, panel, a, BLOCK);
                    if rows == BLOCK {
                        K::product(guard, &operands);
                    } else {
                        K::tall_product(guard, &operands, rows, false);
                    }
                    let residual = (residual + first * BLOCK, BLOCK);
                    self.finish(product, panel, rows, residual, (output, first));
                }
            }
        }
    }

    /// Runs a layer whose output is a single cell: each row is a board of the chunk.
    pub(super) fn product_by_chunk(
        &mut self,
        guard: &K::Guard,
        product: &Product<K::Element>,
        boards: usize,
    ) {
        let stride = self.plan.buffers[product.input].stride;
        let residual = product.residual.map_or(0, |from| self.plan.buffers[from.buffer].stride);
        for panel in 0..product.panels {
            let narrow = product.narrow && panel + 1 == product.panels;
            // SAFETY: as in `product_by_board`; these buffers hold all boards of a chunk.
            unsafe {
                let a = self.buffers[product.input].as_ptr();
                let operands = self.operands(product, panel, a, stride);
                K::tall_product(guard, &operands, boards, narrow);
                self.finish(product, panel, boards, (0, residual), (0, 0));
            }
        }
    }

    /// Runs a layer over the parts of the single cells of the boards of a chunk.
    pub(super) fn product_by_part(
        &mut self,
        guard: &K::Guard,
        product: &Product<K::Element>,
        (count, size): (usize, usize),
        boards: usize,
    ) {
        let all = boards * count;
        let stride = self.plan.buffers[product.output].stride / count;
        for panel in 0..product.panels {
            for first in (0..all).step_by(BLOCK) {
                let rows = (all - first).min(BLOCK);
                // SAFETY: as in `product_by_chunk`; a chunk has a multiple of 32 parts.
                unsafe {
                    let a = self.buffers[product.input].as_ptr().add(first * size);
                    let operands = self.operands(product, panel, a, size);
                    K::tall_product(guard, &operands, rows, false);
                    self.finish(product, panel, rows, (0, 0), (first * stride, 0));
                }
            }
        }
    }

    pub(super) fn attend(&mut self, guard: &K::Guard, step: &Attend, boards: BoardRange) {
        for board in (0..boards.count).filter(|board| boards.active >> board & 1 == 1) {
            let place = |buffer: usize| self.board_offset(buffer, boards, board);
            let inputs = step.inputs.map(place);
            let (of_board, output) = (step.board.map(place), place(step.output));
            // SAFETY: the buffers hold the board in the step's layouts; `choose` has checked the
            // instructions.
            unsafe {
                let inputs = std::array::from_fn(|index| {
                    self.buffers[step.inputs[index]].as_ptr().add(inputs[index])
                });
                let scores =
                    step.board.zip(of_board).map_or(std::ptr::null(), |(buffer, place)| {
                        self.buffers[buffer].as_ptr().add(place)
                    });
                K::attend(
                    guard,
                    step,
                    inputs,
                    scores,
                    self.buffers[step.output].as_mut_ptr().add(output),
                );
            }
        }
    }

    /// The operands of one panel of a product, whose rows begin at `a` and are `stride` elements
    /// apart.
    fn operands<'a>(
        &mut self,
        product: &'a Product<K::Element>,
        panel: usize,
        a: *const K::Element,
        stride: usize,
    ) -> Operands<'a, K::Element> {
        let size = product.offsets.len() * BLOCK * BLOCK;
        let b = product.weights.as_slice()[panel * size..(panel + 1) * size].as_ptr();
        Operands { a, stride, offsets: &product.offsets, b, c: self.sums.as_mut_ptr() }
    }

    /// Stores the sums of a panel as activations. `residual` is the element offset of its first row
    /// and the elements between rows; `output` is the element offset of the board and the first row
    /// to store.
    ///
    /// # Safety
    /// The offsets are within the product's buffers.
    unsafe fn finish(
        &mut self,
        product: &Product<K::Element>,
        panel: usize,
        rows: usize,
        residual: (usize, usize),
        output: (usize, usize),
    ) {
        let store = &product.store;
        let targets = &store.targets[output.1 * store.copies..(output.1 + rows) * store.copies];
        let c = self.sums.as_mut_ptr();
        // SAFETY: scale and bias have 32 numbers for each panel; the caller vouches for the rest.
        unsafe {
            let from = product.residual.map(|from| {
                let place = residual.0 + from.first + panel * from.block_stride;
                (self.buffers[from.buffer].as_ptr().add(place), from.ratio)
            });
            let (row, ratio) = from.unwrap_or((std::ptr::null(), 1.0));
            let out = self.buffers[product.output]
                .as_mut_ptr()
                .add(output.0 + panel * store.block_stride);
            let to = Destination {
                scale: product.scale.as_ptr().add(panel * BLOCK),
                bias: product.bias.as_ptr().add(panel * BLOCK),
                residual: row,
                residual_stride: residual.1,
                ratio,
                activation: product.activation,
                out,
                targets,
                copies: store.copies,
            };
            K::finish(c, rows, &to);
        }
    }
}
