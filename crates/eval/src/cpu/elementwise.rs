//! Steps without weights: sums, pooling, means and activations. All paths inline the same plain
//! code, which the compiler vectorises for the instructions of the path.

use nets::{Activation, Pooling};

use super::{
    activation::activate,
    layout::{BLOCK, Layout, Store},
    memory::Element,
    norm::{Gate, LayerNorm},
    squeeze::SqueezeExcite,
};

/// The operation of a step.
#[derive(Debug)]
pub(crate) enum Operation {
    /// The activation of the sum of both inputs, each times its factor: the ratio of its unit to
    /// the unit of the output.
    Add {
        factors: [f32; 2],
        activation: Activation,
    },
    /// The activation of the input.
    Activate(Activation),
    Pool {
        pooling: Pooling,
        size: usize,
    },
    /// The input followed by the mean of each channel, in blocks of their own.
    AppendMean,
    SqueezeExcite(SqueezeExcite),
    Gate(Gate),
    LayerNorm(LayerNorm),
}

/// A step without weights.
#[derive(Debug)]
pub(crate) struct Elementwise {
    pub operation: Operation,
    /// Indices of the input buffers. Only a sum uses the second one.
    pub inputs: [usize; 2],
    /// Index of the output buffer, which may be an input.
    pub output: usize,
    /// Layouts of the inputs.
    pub from: [Layout; 2],
    /// Layout of the output.
    pub to: Layout,
    pub store: Store,
}

impl Elementwise {
    /// Runs the step for one board.
    ///
    /// # Safety
    /// The pointers are to boards of the layouts `from[0]`, `from[1]` and `to`; no other thread uses
    /// the output.
    #[inline(always)]
    pub unsafe fn run<E: Element>(&self, inputs: [*const E; 2], out: *mut E) {
        // SAFETY: all cells and blocks are within the layouts.
        unsafe {
            let row = |which: usize, cell: usize, block: usize| {
                load(inputs[which].add(self.from[which].element(cell, block * BLOCK)))
            };
            match &self.operation {
                Operation::SqueezeExcite(own) => own.run(self, inputs, out),
                Operation::Gate(own) => own.run(self, inputs[0], out),
                Operation::LayerNorm(own) => own.run(self, inputs[0], out),
                Operation::Add { factors, activation } => {
                    for (block, cell) in self.places(&self.to) {
                        let (mut sum, second) = (row(0, cell, block), row(1, cell, block));
                        for (sum, second) in sum.iter_mut().zip(second) {
                            *sum = *sum * factors[0] + second * factors[1];
                        }
                        activate(*activation, &mut sum);
                        self.write(out, cell, block, &sum);
                    }
                }
                Operation::Activate(activation) => {
                    for (block, cell) in self.places(&self.to) {
                        let mut values = row(0, cell, block);
                        activate(*activation, &mut values);
                        self.write(out, cell, block, &values);
                    }
                }
                &Operation::Pool { pooling, size } => {
                    let (side, new_side) = (self.from[0].side, self.to.side);
                    for (block, cell) in self.places(&self.to) {
                        let first = cell / new_side * size * side + cell % new_side * size;
                        let mut values = row(0, first, block);
                        for index in 1..size * size {
                            let next = row(0, first + index / size * side + index % size, block);
                            for (value, next) in values.iter_mut().zip(next) {
                                *value = match pooling {
                                    Pooling::Max => value.max(next),
                                    Pooling::Average => *value + next,
                                };
                            }
                        }
                        if pooling == Pooling::Average {
                            let share = 1.0 / (size * size) as f32;
                            values.iter_mut().for_each(|value| *value *= share);
                        }
                        self.write(out, cell, block, &values);
                    }
                }
                Operation::AppendMean => {
                    let (from, cells) = (&self.from[0], self.to.cells());
                    let share = 1.0 / cells as f32;
                    for block in 0..from.blocks {
                        let mut mean = [0.0_f32; BLOCK];
                        for cell in 0..cells {
                            let values = row(0, cell, block);
                            mean.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
                            self.write(out, cell, block, &values);
                        }
                        mean.iter_mut().for_each(|sum| *sum *= share);
                        for cell in 0..cells {
                            self.write(out, cell, from.blocks + block, &mean);
                        }
                    }
                }
            }
        }
    }

    /// Every (block, cell) of a layout.
    fn places(&self, layout: &Layout) -> impl Iterator<Item = (usize, usize)> + use<> {
        let cells = layout.cells();
        (0..layout.blocks).flat_map(move |block| (0..cells).map(move |cell| (block, cell)))
    }

    /// Writes a row of 32 activations of a cell.
    ///
    /// # Safety
    /// The output has this cell and block.
    #[inline(always)]
    pub unsafe fn write<E: Element>(
        &self,
        out: *mut E,
        cell: usize,
        block: usize,
        values: &[f32; BLOCK],
    ) {
        // SAFETY: the caller's promise.
        unsafe { write_row(&self.store, out, cell, block, values) }
    }
}

/// Writes a row of 32 activations of a cell.
///
/// # Safety
/// `out` is a board of the store's layout, which has this cell and block.
#[inline(always)]
pub(crate) unsafe fn write_row<E: Element>(
    store: &Store,
    out: *mut E,
    cell: usize,
    block: usize,
    values: &[f32; BLOCK],
) {
    let mut row = [E::default(); BLOCK];
    row.iter_mut().zip(values).for_each(|(stored, &value)| *stored = E::stored(value));
    for &target in &store.targets[cell * store.copies..(cell + 1) * store.copies] {
        // SAFETY: targets and blocks are within the layout.
        unsafe {
            out.add(block * store.block_stride + target as usize).cast::<[E; BLOCK]>().write(row);
        }
    }
}

/// Reads a row of 32 activations.
///
/// # Safety
/// The row is valid for reads.
#[inline(always)]
pub(crate) unsafe fn load<E: Element>(row: *const E) -> [f32; BLOCK] {
    // SAFETY: the caller's promise.
    let stored = unsafe { row.cast::<[E; BLOCK]>().read() };
    let mut values = [0.0; BLOCK];
    values.iter_mut().zip(stored).for_each(|(value, stored)| *value = stored.to_f32());
    values
}

/// Adds a residual to the sums of a product and applies activations other than ReLU, before the sums
/// are stored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Adjust<E> {
    /// 32 scales, which only quantised formats use.
    pub scale: *const f32,
    /// 32 biases. Quantised formats add them when the sums are stored.
    pub bias: *const f32,
    /// Rows of 32 elements to add, one for each row of sums; null for none.
    pub residual: *const E,
    /// Elements from one row of the residual to the next.
    pub stride: usize,
    /// Ratio of the residual's unit to the output's unit.
    pub ratio: f32,
    pub activation: Activation,
}

impl<E: Element> Adjust<E> {
    /// Adds the bias and the residual to `rows` rows of `c` and applies the activation, in place.
    /// In a quantised format only the residual is added, and the sums stay integers.
    ///
    /// # Safety
    /// `c` has `rows` rows of 32 that no other thread uses, and the residual has as many.
    #[inline(always)]
    pub unsafe fn run(&self, c: *mut f32, rows: usize) {
        // SAFETY: the caller's promise; there are 32 scales and biases.
        unsafe {
            let bias = self.bias.cast::<[f32; BLOCK]>().read();
            let factors = self.scale.cast::<[f32; BLOCK]>().read().map(|scale| {
                // The scale of columns beyond the last channel is 0.
                if scale > 0.0 { self.ratio / scale } else { 0.0 }
            });
            for row in 0..rows {
                let residual = if self.residual.is_null() {
                    [0.0; BLOCK]
                } else {
                    load(self.residual.add(row * self.stride))
                };
                let place = c.add(row * BLOCK);
                if E::QUANTISED {
                    let mut sums = place.cast::<[i32; BLOCK]>().read();
                    for ((sum, residual), factor) in sums.iter_mut().zip(residual).zip(factors) {
                        *sum = sum.saturating_add((residual * factor).round() as i32);
                    }
                    place.cast::<[i32; BLOCK]>().write(sums);
                } else {
                    let mut sums = place.cast::<[f32; BLOCK]>().read();
                    for ((sum, residual), bias) in sums.iter_mut().zip(residual).zip(bias) {
                        *sum += bias + residual;
                    }
                    activate(self.activation, &mut sums);
                    place.cast::<[f32; BLOCK]>().write(sums);
                }
            }
        }
    }
}
