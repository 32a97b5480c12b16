//! Steps without weights: sums, pooling, means and activations. All paths share the code, for rows
//! of their own kind ([`Row`]). Loops and not closures: these would not be compiled for the
//! instructions of a path.

use nets::{Activation, Pooling};

use super::{
    layout::{BLOCK, Layout, Store},
    memory::Element,
    norm::{Gate, LayerNorm},
    row::{self, Row},
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
    /// As [`Row`]. The pointers are to boards of the layouts `from[0]`, `from[1]` and `to`; no
    /// other thread uses the output.
    #[inline(always)]
    pub unsafe fn run<E: Element, R: Row<E>>(&self, inputs: [*const E; 2], out: *mut E) {
        // SAFETY: the caller's promise.
        unsafe {
            match &self.operation {
                Operation::SqueezeExcite(own) => own.run::<E, R>(self, inputs, out),
                Operation::Gate(own) => own.run::<E, R>(self, inputs[0], out),
                Operation::LayerNorm(own) => own.run::<E, R>(self, inputs[0], out),
                Operation::Add { factors, activation } => {
                    self.add::<E, R>(*factors, *activation, inputs, out);
                }
                Operation::Activate(activation) => {
                    for block in 0..self.to.blocks {
                        for cell in 0..self.to.cells() {
                            let row: R = self.row(0, inputs, cell, block);
                            self.write(out, cell, block, row.activated(*activation));
                        }
                    }
                }
                &Operation::Pool { pooling, size } => {
                    self.pool::<E, R>(pooling, size, inputs, out);
                }
                Operation::AppendMean => self.append_mean::<E, R>(inputs, out),
            }
        }
    }

    #[inline(always)]
    unsafe fn add<E: Element, R: Row<E>>(
        &self,
        factors: [f32; 2],
        activation: Activation,
        inputs: [*const E; 2],
        out: *mut E,
    ) {
        // SAFETY: the promise of `run`.
        unsafe {
            let [first, second] = [R::splat(factors[0]), R::splat(factors[1])];
            for block in 0..self.to.blocks {
                for cell in 0..self.to.cells() {
                    let sum: R = self.row(0, inputs, cell, block);
                    let other: R = self.row(1, inputs, cell, block);
                    let sum = other.mul_add(second, sum.mul(first));
                    self.write(out, cell, block, sum.activated(activation));
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn pool<E: Element, R: Row<E>>(
        &self,
        pooling: Pooling,
        size: usize,
        inputs: [*const E; 2],
        out: *mut E,
    ) {
        let (side, new_side) = (self.from[0].side, self.to.side);
        // SAFETY: the promise of `run`.
        unsafe {
            let share = R::splat(1.0 / (size * size) as f32);
            for block in 0..self.to.blocks {
                for cell in 0..self.to.cells() {
                    let first = cell / new_side * size * side + cell % new_side * size;
                    let mut result: R = self.row(0, inputs, first, block);
                    for index in 1..size * size {
                        let next = first + index / size * side + index % size;
                        let next: R = self.row(0, inputs, next, block);
                        result = match pooling {
                            Pooling::Max => result.max(next),
                            Pooling::Average => result.add(next),
                        };
                    }
                    if pooling == Pooling::Average {
                        result = result.mul(share);
                    }
                    self.write(out, cell, block, result);
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn append_mean<E: Element, R: Row<E>>(&self, inputs: [*const E; 2], out: *mut E) {
        let (blocks, cells) = (self.from[0].blocks, self.to.cells());
        // SAFETY: the promise of `run`.
        unsafe {
            for block in 0..blocks {
                let mut sum = R::splat(0.0);
                for cell in 0..cells {
                    let row: R = self.row(0, inputs, cell, block);
                    sum = sum.add(row);
                    self.write(out, cell, block, row);
                }
                let mean = sum.mul(R::splat(1.0 / cells as f32));
                for cell in 0..cells {
                    self.write(out, cell, blocks + block, mean);
                }
            }
        }
    }

    /// A row of an input.
    ///
    /// # Safety
    /// The input has this cell and block.
    #[inline(always)]
    pub unsafe fn row<E: Element, R: Row<E>>(
        &self,
        which: usize,
        inputs: [*const E; 2],
        cell: usize,
        block: usize,
    ) -> R {
        // SAFETY: the caller's promise.
        unsafe { R::read(inputs[which].add(self.from[which].element(cell, block * BLOCK))) }
    }

    /// Writes a row of the output.
    ///
    /// # Safety
    /// The output has this cell and block.
    #[inline(always)]
    pub unsafe fn write<E: Element, R: Row<E>>(
        &self,
        out: *mut E,
        cell: usize,
        block: usize,
        row: R,
    ) {
        // SAFETY: the caller's promise.
        unsafe { row::write(&self.store, out, (cell, block), row) }
    }
}
