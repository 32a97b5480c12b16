//! Squeeze and excitation: a board's mean of each channel goes through two small dense layers,
//! computed in `f32` on every path, and scales and shifts the channel.

use nets::Activation;

use super::{elementwise::Elementwise, layout::BLOCK, memory::Element, row::Row};

/// The two dense layers, and what follows them.
#[derive(Debug)]
pub(crate) struct SqueezeExcite {
    /// Padded channels.
    width: usize,
    /// `[hidden][width]`; they take sums over the cells in units of the input.
    squeeze: Vec<f32>,
    squeeze_bias: Vec<f32>,
    activation: Activation,
    /// `[hidden][2 * width]`, factors before summands.
    excite: Vec<f32>,
    excite_bias: Vec<f32>,
    quantities: Quantities,
    /// The step's second input is added, and this activation follows.
    sum: Option<Activation>,
}

/// The tensors of a layer, as in its network.
pub(crate) struct Tensors<'a> {
    /// `[hidden, channels]` and `[hidden]`
    pub squeeze: [&'a [f32]; 2],
    /// `[2 * channels, hidden]` and `[2 * channels]`
    pub excite: [&'a [f32]; 2],
}

/// What stored numbers mean: value = unit x (stored - zero).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quantities {
    /// Of the first input.
    pub unit: f32,
    pub zero: f32,
    /// Of the second input, whose zero is 0.
    pub other_unit: f32,
    /// Of the output, whose zero is 0.
    pub output_unit: f32,
}

impl SqueezeExcite {
    /// Packs the tensors for channels at these positions of `width` padded ones and boards of `cells`.
    pub fn new(
        tensors: &Tensors<'_>,
        positions: &[usize],
        (width, cells): (usize, usize),
        activation: Activation,
        quantities: Quantities,
        sum: Option<Activation>,
    ) -> Self {
        let (channels, hidden) = (positions.len(), tensors.squeeze[1].len());
        let mut squeeze = vec![0.0; hidden * width];
        let mut squeeze_bias = tensors.squeeze[1].to_vec();
        let mut excite = vec![0.0; hidden * 2 * width];
        let mut excite_bias = vec![0.0; 2 * width];
        let Quantities { unit, zero, .. } = quantities;
        for (channel, &position) in positions.iter().enumerate() {
            for part in 0..2 {
                excite_bias[part * width + position] = tensors.excite[1][part * channels + channel];
            }
            for row in 0..hidden {
                let weight = tensors.squeeze[0][row * channels + channel] * unit;
                squeeze[row * width + position] = weight / cells as f32;
                squeeze_bias[row] -= weight * zero;
                for part in 0..2 {
                    excite[(2 * row + part) * width + position] =
                        tensors.excite[0][(part * channels + channel) * hidden + row];
                }
            }
        }
        Self { width, squeeze, squeeze_bias, activation, excite, excite_bias, quantities, sum }
    }

    /// Runs the step for one board.
    ///
    /// # Safety
    /// As [`Elementwise::run`].
    #[inline(always)]
    pub unsafe fn run<E: Element, R: Row<E>>(
        &self,
        step: &Elementwise,
        inputs: [*const E; 2],
        out: *mut E,
    ) {
        let (blocks, cells) = (self.width / BLOCK, step.to.cells());
        let mut sums = vec![0.0_f32; self.width];
        // SAFETY: cells and blocks are within the layouts, and lists have 32 numbers a block.
        unsafe {
            for (block, sums) in sums.chunks_exact_mut(BLOCK).enumerate() {
                let mut sum = R::splat(0.0);
                for cell in 0..cells {
                    sum = sum.add(step.row(0, inputs, cell, block));
                }
                sum.store(sums.as_mut_ptr());
            }
            let scales = self.excited::<E, R>(&sums);
            let ratio = R::splat(self.quantities.other_unit / self.quantities.output_unit);
            for block in 0..blocks {
                let factor = R::load(scales[block * BLOCK..].as_ptr());
                let summand = R::load(scales[self.width + block * BLOCK..].as_ptr());
                for cell in 0..cells {
                    let row: R = step.row(0, inputs, cell, block);
                    let mut row = row.mul_add(factor, summand);
                    if let Some(activation) = self.sum {
                        let other: R = step.row(1, inputs, cell, block);
                        row = other.mul_add(ratio, row).activated(activation);
                    }
                    step.write(out, cell, block, row);
                }
            }
        }
    }

    /// Factors and summands of all channels in the units of inputs and output, from the sums over
    /// the cells.
    ///
    /// # Safety
    /// As [`Row`]; there are `width` sums.
    #[inline(always)]
    unsafe fn excited<E: Element, R: Row<E>>(&self, sums: &[f32]) -> Vec<f32> {
        let mut scales = self.excite_bias.clone();
        let rows = self.squeeze.chunks_exact(self.width).zip(&self.squeeze_bias);
        // SAFETY: lists have 32 numbers a block.
        unsafe {
            for ((row, bias), excite) in rows.zip(self.excite.chunks_exact(2 * self.width)) {
                let mut lanes = R::splat(0.0);
                for (weights, sums) in row.chunks_exact(BLOCK).zip(sums.chunks_exact(BLOCK)) {
                    lanes = R::load(weights.as_ptr()).mul_add(R::load(sums.as_ptr()), lanes);
                }
                let hidden = R::splat(bias + lanes.sum()).activated(self.activation);
                for (scales, weights) in
                    scales.chunks_exact_mut(BLOCK).zip(excite.chunks_exact(BLOCK))
                {
                    let sum = R::load(weights.as_ptr()).mul_add(hidden, R::load(scales.as_ptr()));
                    sum.store(scales.as_mut_ptr());
                }
            }
            let Quantities { unit, zero, output_unit, .. } = self.quantities;
            let (factors, summands) = scales.split_at_mut(self.width);
            for (factors, summands) in
                factors.chunks_exact_mut(BLOCK).zip(summands.chunks_exact_mut(BLOCK))
            {
                let factor = R::load(factors.as_ptr()).sigmoid().mul(R::splat(unit / output_unit));
                let summand = R::load(summands.as_ptr()).mul(R::splat(1.0 / output_unit));
                factor.store(factors.as_mut_ptr());
                factor.mul_add(R::splat(-zero), summand).store(summands.as_mut_ptr());
            }
        }
        scales
    }
}
