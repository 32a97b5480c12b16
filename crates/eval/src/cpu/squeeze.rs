//! Squeeze and excitation: a board's mean of each channel goes through two small dense layers, in
//! `f32` on every path, and scales and shifts the channel.

use nets::Activation;

use super::{
    activation::{activate, exp},
    elementwise::{Elementwise, load},
    layout::BLOCK,
    memory::Element,
};

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
    pub unsafe fn run<E: Element>(&self, step: &Elementwise, inputs: [*const E; 2], out: *mut E) {
        let blocks = self.width / BLOCK;
        // SAFETY: cells and blocks are within the layouts.
        let row = |which: usize, cell: usize, block: usize| unsafe {
            load(inputs[which].add(step.from[which].element(cell, block * BLOCK)))
        };
        let cells = step.to.cells();
        let mut sums = vec![[0.0_f32; BLOCK]; blocks];
        for (block, sums) in sums.iter_mut().enumerate() {
            for cell in 0..cells {
                let values = row(0, cell, block);
                sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
            }
        }
        let scales = self.excited(sums.as_flattened());
        let (factors, summands) = scales.split_at(self.width);
        let other_factor = self.quantities.other_unit / self.quantities.output_unit;
        for block in 0..blocks {
            let range = block * BLOCK..(block + 1) * BLOCK;
            let (factors, summands) = (&factors[range.clone()], &summands[range]);
            for cell in 0..cells {
                let mut values = row(0, cell, block);
                for ((value, factor), summand) in values.iter_mut().zip(factors).zip(summands) {
                    *value = *value * factor + summand;
                }
                if let Some(activation) = self.sum {
                    let others = row(1, cell, block);
                    for (value, other) in values.iter_mut().zip(others) {
                        *value += other * other_factor;
                    }
                    activate(activation, &mut values);
                }
                // SAFETY: as above.
                unsafe { step.write(out, cell, block, &values) };
            }
        }
    }

    /// Factors and summands of all channels in the units of inputs and output, from the sums over
    /// the cells.
    #[inline(always)]
    fn excited(&self, sums: &[f32]) -> Vec<f32> {
        let mut scales = self.excite_bias.clone();
        let rows = self.squeeze.chunks_exact(self.width).zip(&self.squeeze_bias);
        for ((row, bias), excite) in rows.zip(self.excite.chunks_exact(2 * self.width)) {
            // Sums of 32 lanes, which the compiler keeps in vectors.
            let mut lanes = [0.0_f32; BLOCK];
            for (weights, sums) in
                row.as_chunks::<BLOCK>().0.iter().zip(sums.as_chunks::<BLOCK>().0)
            {
                for ((lane, weight), sum) in lanes.iter_mut().zip(weights).zip(sums) {
                    *lane += weight * sum;
                }
            }
            let mut hidden = [0.0; BLOCK];
            hidden[0] = bias + lanes.iter().sum::<f32>();
            activate(self.activation, &mut hidden);
            let hidden = hidden[0];
            scales.iter_mut().zip(excite).for_each(|(scale, weight)| *scale += weight * hidden);
        }
        let Quantities { unit, zero, output_unit, .. } = self.quantities;
        let (factors, summands) = scales.split_at_mut(self.width);
        for (factor, summand) in factors.iter_mut().zip(summands) {
            *factor = unit / output_unit / (1.0 + exp(-*factor));
            *summand = *summand / output_unit - zero * *factor;
        }
        scales
    }
}
