//! Steps without weights: adding, pooling, averaging, activating. One plain routine for all paths,
//! inlined into each and turned into its vectors by the compiler.

use nets::{Activation, Pooling};

use super::{
    activation::activate,
    layout::{BLOCK, Layout, Store},
    memory::Element,
};

/// What a step does to each element.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operation {
    /// The activation of the sum of the two inputs, each times its factor (what a unit of it is
    /// worth in units of the output).
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
    /// The input, and behind it each channel's average. `positions` of the averages begin at the
    /// input's blocks.
    AppendMean,
}

/// A step without weights.
#[derive(Debug)]
pub(crate) struct Elementwise {
    pub operation: Operation,
    /// Buffers. The second input counts only for a sum; the output may be one of them.
    pub inputs: [usize; 2],
    pub output: usize,
    pub from: [Layout; 2],
    pub to: Layout,
    pub store: Store,
}

impl Elementwise {
    /// Runs the step for one board.
    ///
    /// # Safety
    /// The pointers are to boards of the layouts `from[0]`, `from[1]` and `to`, the last for the
    /// caller alone.
    #[inline(always)]
    pub unsafe fn run<E: Element>(&self, inputs: [*const E; 2], out: *mut E) {
        // SAFETY: cells and blocks below are those of the layouts.
        unsafe {
            let row = |which: usize, cell: usize, block: usize| {
                load(inputs[which].add(self.from[which].element(cell, block * BLOCK)))
            };
            match self.operation {
                Operation::Add { factors, activation } => {
                    for (block, cell) in self.places(&self.to) {
                        let (mut sum, second) = (row(0, cell, block), row(1, cell, block));
                        for (sum, second) in sum.iter_mut().zip(second) {
                            *sum = *sum * factors[0] + second * factors[1];
                        }
                        activate(activation, &mut sum);
                        self.write(out, cell, block, &sum);
                    }
                }
                Operation::Activate(activation) => {
                    for (block, cell) in self.places(&self.to) {
                        let mut values = row(0, cell, block);
                        activate(activation, &mut values);
                        self.write(out, cell, block, &values);
                    }
                }
                Operation::Pool { pooling, size } => {
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

    #[inline(always)]
    unsafe fn write<E: Element>(
        &self,
        out: *mut E,
        cell: usize,
        block: usize,
        values: &[f32; BLOCK],
    ) {
        let values: [E; BLOCK] = std::array::from_fn(|index| E::stored(values[index]));
        for &target in &self.store.targets[cell * self.store.copies..(cell + 1) * self.store.copies]
        {
            // SAFETY: targets and blocks are those of the output's layout.
            unsafe {
                out.add(block * self.store.block_stride + target as usize)
                    .cast::<[E; BLOCK]>()
                    .write(values);
            }
        }
    }
}

/// A row as numbers.
///
/// # Safety
/// 32 elements are there.
#[inline(always)]
pub(crate) unsafe fn load<E: Element>(row: *const E) -> [f32; BLOCK] {
    // SAFETY: the caller's promise.
    let values = unsafe { row.cast::<[E; BLOCK]>().read() };
    std::array::from_fn(|index| values[index].to_f32())
}

/// Operations on the sums of a product before they are stored, beyond bias and ReLU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Adjust<E> {
    /// 32 each; quantised formats leave the bias to the store.
    pub scale: *const f32,
    pub bias: *const f32,
    /// A row of 32 to add for each row of sums, `stride` elements apart; null for none.
    pub residual: *const E,
    pub stride: usize,
    /// What a unit of the residual is worth in units of the output.
    pub ratio: f32,
    pub activation: Activation,
}

impl<E: Element> Adjust<E> {
    /// Adds the bias and the residual to `rows` rows of `c` and applies the activation, in place.
    /// Sums of a quantised format stay integers, and get the residual only.
    ///
    /// # Safety
    /// `c` is `rows` rows of 32 for the caller alone, and the residual has as many.
    #[inline(always)]
    pub unsafe fn run(&self, c: *mut f32, rows: usize) {
        // SAFETY: the caller's promise; scale and bias are 32.
        unsafe {
            let bias = self.bias.cast::<[f32; BLOCK]>().read();
            let factors = self.scale.cast::<[f32; BLOCK]>().read().map(|scale| {
                // Columns beyond the last channel have no scale.
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
