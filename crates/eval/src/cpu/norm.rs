//! Steps with numbers for each channel, in `f32` on every path: gates and layer norms.

use nets::Activation;

use super::{
    activation::activate,
    elementwise::{Elementwise, load},
    layout::BLOCK,
    memory::Element,
};

/// A factor and a summand for each channel of each cell, then an activation.
#[derive(Debug)]
pub(crate) struct Gate {
    /// `[cells][padded channels]`, 0 for padding.
    scale: Vec<f32>,
    shift: Vec<f32>,
    activation: Activation,
}

/// Layer norm over the channels of each cell.
#[derive(Debug)]
pub(crate) struct LayerNorm {
    channels: usize,
    epsilon: f32,
    /// `[padded channels]`: 1 for a channel and 0 for padding.
    mask: Vec<f32>,
    /// 0 for padding.
    scale: Vec<f32>,
    shift: Vec<f32>,
}

/// Numbers for each channel, at the channels' positions among `width` padded ones.
fn padded(numbers: &[f32], positions: &[usize], width: usize) -> Vec<f32> {
    let cells = numbers.len() / positions.len().max(1);
    let mut padded = vec![0.0; cells * width];
    for cell in 0..cells {
        for (channel, &position) in positions.iter().enumerate() {
            padded[cell * width + position] = numbers[cell * positions.len() + channel];
        }
    }
    padded
}

impl Gate {
    /// `scale` and `shift` are `[cells, channels]`.
    pub fn new(
        [scale, shift]: [&[f32]; 2],
        positions: &[usize],
        width: usize,
        activation: Activation,
    ) -> Self {
        let [scale, shift] = [scale, shift].map(|numbers| padded(numbers, positions, width));
        Self { scale, shift, activation }
    }

    /// Runs the step for one board.
    ///
    /// # Safety
    /// As [`Elementwise::run`].
    #[inline(always)]
    pub unsafe fn run<E: Element>(&self, step: &Elementwise, input: *const E, out: *mut E) {
        let blocks = step.from[0].blocks;
        let rows = self.scale.as_chunks::<BLOCK>().0.iter().zip(self.shift.as_chunks::<BLOCK>().0);
        for (at, (scale, shift)) in rows.enumerate() {
            let (cell, block) = (at / blocks, at % blocks);
            // SAFETY: cells and blocks are within the layouts.
            unsafe {
                let mut values = load(input.add(step.from[0].element(cell, block * BLOCK)));
                for ((value, scale), shift) in values.iter_mut().zip(scale).zip(shift) {
                    *value = *value * scale + shift;
                }
                activate(self.activation, &mut values);
                step.write(out, cell, block, &values);
            }
        }
    }
}

impl LayerNorm {
    /// `scale` and `shift` are `[channels]`.
    pub fn new(
        [scale, shift]: [&[f32]; 2],
        positions: &[usize],
        width: usize,
        millionths: u32,
    ) -> Self {
        let mask = padded(&vec![1.0; positions.len()], positions, width);
        let [scale, shift] = [scale, shift].map(|numbers| padded(numbers, positions, width));
        let epsilon = (f64::from(millionths) * 1e-6) as f32;
        Self { channels: positions.len(), epsilon, mask, scale, shift }
    }

    /// Runs the step for one board.
    ///
    /// # Safety
    /// As [`Elementwise::run`].
    #[inline(always)]
    pub unsafe fn run<E: Element>(&self, step: &Elementwise, input: *const E, out: *mut E) {
        let share = 1.0 / self.channels as f32;
        let [mask, scale, shift] =
            [&self.mask, &self.scale, &self.shift].map(|list| list.as_chunks::<BLOCK>().0);
        let mut rows = vec![[0.0_f32; BLOCK]; step.from[0].blocks];
        for cell in 0..step.from[0].cells() {
            let mut sums = [0.0_f32; BLOCK];
            for (block, row) in rows.iter_mut().enumerate() {
                // SAFETY: cells and blocks are within the layout.
                *row = unsafe { load(input.add(step.from[0].element(cell, block * BLOCK))) };
                for ((sum, value), mask) in sums.iter_mut().zip(row).zip(&mask[block]) {
                    *sum += *value * mask;
                }
            }
            let mean = sums.iter().sum::<f32>() * share;
            let mut squares = [0.0_f32; BLOCK];
            for (row, mask) in rows.iter_mut().zip(mask) {
                for ((sum, value), mask) in squares.iter_mut().zip(row).zip(mask) {
                    *value = (*value - mean) * mask;
                    *sum += *value * *value;
                }
            }
            let variance = squares.iter().sum::<f32>() * share;
            let factor = 1.0 / (variance + self.epsilon).sqrt();
            for (block, row) in rows.iter_mut().enumerate() {
                for ((value, scale), shift) in row.iter_mut().zip(&scale[block]).zip(&shift[block])
                {
                    *value = *value * factor * scale + shift;
                }
                // SAFETY: the output has these cells and at least these blocks.
                unsafe { step.write(out, cell, block, row) };
            }
        }
    }
}
