//! Steps with numbers for each channel, computed in `f32` on every path: gates and layer norms.

use nets::Activation;

use super::{elementwise::Elementwise, layout::BLOCK, memory::Element, row::Row};

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
    pub unsafe fn run<E: Element, R: Row<E>>(
        &self,
        step: &Elementwise,
        input: *const E,
        out: *mut E,
    ) {
        let blocks = step.from[0].blocks;
        let rows = self.scale.as_chunks::<BLOCK>().0.iter().zip(self.shift.as_chunks::<BLOCK>().0);
        for (at, (scale, shift)) in rows.enumerate() {
            let (cell, block) = (at / blocks, at % blocks);
            // SAFETY: cells and blocks are within the layouts.
            unsafe {
                let [scale, shift] = [R::load(scale.as_ptr()), R::load(shift.as_ptr())];
                let row: R = step.row(0, [input; 2], cell, block);
                let row = row.mul_add(scale, shift).activated(self.activation);
                step.write(out, cell, block, row);
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
    pub unsafe fn run<E: Element, R: Row<E>>(
        &self,
        step: &Elementwise,
        input: *const E,
        out: *mut E,
    ) {
        let share = 1.0 / self.channels as f32;
        let blocks = step.from[0].blocks;
        let number = |list: &[f32], block: usize| list[block * BLOCK..][..BLOCK].as_ptr();
        let mut centred = vec![0.0_f32; self.mask.len()];
        for cell in 0..step.from[0].cells() {
            // SAFETY: cells and blocks are within the layouts, lists have 32 numbers a block.
            unsafe {
                let mut sums = R::splat(0.0);
                for block in 0..blocks {
                    let row: R = step.row(0, [input; 2], cell, block);
                    sums = row.mul_add(R::load(number(&self.mask, block)), sums);
                }
                let mean = R::splat(-sums.sum() * share);
                let mut squares = R::splat(0.0);
                for (block, own) in centred.chunks_exact_mut(BLOCK).enumerate() {
                    let row: R = step.row(0, [input; 2], cell, block);
                    let row = row.add(mean).mul(R::load(number(&self.mask, block)));
                    squares = row.mul_add(row, squares);
                    row.store(own.as_mut_ptr());
                }
                let variance = squares.sum() * share;
                let factor = R::splat(1.0 / (variance + self.epsilon).sqrt());
                for block in 0..blocks {
                    let row = R::load(number(&centred, block)).mul(factor);
                    let [scale, shift] = [number(&self.scale, block), number(&self.shift, block)];
                    step.write(out, cell, block, row.mul_add(R::load(scale), R::load(shift)));
                }
            }
        }
    }
}
