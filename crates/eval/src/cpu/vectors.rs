//! Kernels in terms of `f32` vectors of any width, so that AVX2, AVX-512 and NEON share one source.
//!
//! All functions are inlined into functions that enable the instructions of a path
//! ([`compiled_for`](super::kernels::compiled_for)), where they become single instructions.

use nets::Activation;

use super::{
    kernels::Operands,
    layout::BLOCK,
    memory::Element,
    row::Row,
    vector_activation::{activate, sigmoid},
};

/// A vector of `f32`.
///
/// # Safety
/// All methods need the vector's instructions. Pointers must be valid for [`Vector::LANES`] numbers.
pub(super) trait Vector: Copy {
    /// Numbers of the vector.
    const LANES: usize;
    /// `value` in every lane.
    unsafe fn splat(value: f32) -> Self;
    unsafe fn load(from: *const f32) -> Self;
    unsafe fn store(self, to: *mut f32);
    unsafe fn add(self, other: Self) -> Self;
    unsafe fn mul(self, other: Self) -> Self;
    unsafe fn max(self, other: Self) -> Self;
    unsafe fn min(self, other: Self) -> Self;
    /// The nearest whole numbers.
    unsafe fn rounded(self) -> Self;
    /// Two to the power of whole numbers from -126 to 127.
    unsafe fn power_of_two(self) -> Self;
    /// About `1 / self` for numbers from 1 to 1e37, with a relative error of at most 2^-11.
    unsafe fn rough_reciprocal(self) -> Self;
    /// `self * factor + sum`, rounded once.
    unsafe fn mul_add(self, factor: Self, sum: Self) -> Self;
    /// Sum of the lanes.
    unsafe fn sum(self) -> f32;
}

/// An element format that vectors `V` read and write; `PARTS` vectors are a row of 32.
///
/// # Safety
/// As [`Vector`].
pub(super) trait Format<V: Vector, const PARTS: usize>: Element {
    /// Reads activations.
    unsafe fn read(from: *const Self) -> V;
    /// Writes the nearest activations.
    unsafe fn write(values: V, to: *mut Self);
    /// Writes the nearest activations of a row, which is aligned to its size.
    unsafe fn write_row(values: [V; PARTS], to: *mut Self);
    /// Sums of a product in units of the output: quantised formats multiply them by `scale`, all
    /// formats add `bias`.
    #[inline(always)]
    unsafe fn finished(sums: *const f32, _scale: V, bias: V) -> V {
        // SAFETY: the caller's promise.
        unsafe { V::load(sums).add(bias) }
    }
}

impl<V: Vector, const PARTS: usize> Format<V, PARTS> for f32 {
    #[inline(always)]
    unsafe fn read(from: *const f32) -> V {
        // SAFETY: the caller's promise.
        unsafe { V::load(from) }
    }

    #[inline(always)]
    unsafe fn write(values: V, to: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe { values.store(to) }
    }

    #[inline(always)]
    unsafe fn write_row(values: [V; PARTS], to: *mut f32) {
        for (part, values) in values.into_iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe { values.store(to.add(part * V::LANES)) };
        }
    }
}

/// `ROWS` rows of A times two vectors of columns of a panel, in `f32`.
///
/// # Safety
/// As [`Kernels::tall_product`](super::kernels::Kernels::tall_product) for these rows and columns.
#[inline(always)]
pub(super) unsafe fn product<V: Vector, const ROWS: usize>(operands: &Operands<f32>) {
    // SAFETY: the caller vouches for A's rows, the panel and C.
    unsafe {
        let mut sums = [[V::splat(0.0); 2]; ROWS];
        for (step, &offset) in operands.offsets.iter().enumerate() {
            let a = operands.a.byte_add(offset as usize);
            let b = operands.b.add(step * BLOCK * BLOCK);
            for k in 0..BLOCK {
                let low = V::load(b.add(k * BLOCK));
                let high = V::load(b.add(k * BLOCK + V::LANES));
                for (row, sums) in sums.iter_mut().enumerate() {
                    let value = V::splat(*a.add(row * operands.stride + k));
                    sums[0] = value.mul_add(low, sums[0]);
                    sums[1] = value.mul_add(high, sums[1]);
                }
            }
        }
        for (row, sums) in sums.iter().enumerate() {
            sums[0].store(operands.c.add(row * BLOCK));
            sums[1].store(operands.c.add(row * BLOCK + V::LANES));
        }
    }
}

/// A row as vectors.
#[derive(Clone, Copy)]
pub(super) struct Wide<V, const PARTS: usize>([V; PARTS]);

/// Applies an operation to the parts of rows.
macro_rules! each_part {
    ($row:ident, |$part:ident| $value:expr) => {{
        let mut result = $row;
        for $part in 0..PARTS {
            // SAFETY: the caller's promise.
            result.0[$part] = unsafe { $value };
        }
        result
    }};
}

impl<V: Vector, E: Format<V, PARTS>, const PARTS: usize> Row<E> for Wide<V, PARTS> {
    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        // All other methods rely on it, and no row is made without this one.
        const { assert!(V::LANES * PARTS == BLOCK) };
        // SAFETY: the caller's promise.
        Self([unsafe { V::splat(value) }; PARTS])
    }

    #[inline(always)]
    unsafe fn read(from: *const E) -> Self {
        // SAFETY: the caller's promise.
        let row = unsafe { <Self as Row<E>>::splat(0.0) };
        each_part!(row, |part| E::read(from.add(part * V::LANES)))
    }

    #[inline(always)]
    unsafe fn write(self, to: *mut E) {
        // SAFETY: the caller's promise.
        unsafe { E::write_row(self.0, to) }
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller's promise.
        let row = unsafe { <Self as Row<E>>::splat(0.0) };
        each_part!(row, |part| V::load(from.add(part * V::LANES)))
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        for (part, values) in self.0.into_iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe { values.store(to.add(part * V::LANES)) };
        }
    }

    #[inline(always)]
    unsafe fn finished(sums: *const f32, scale: Self, bias: Self) -> Self {
        each_part!(bias, |part| {
            E::finished(sums.add(part * V::LANES), scale.0[part], bias.0[part])
        })
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        each_part!(self, |part| self.0[part].add(other.0[part]))
    }

    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        each_part!(self, |part| self.0[part].mul(other.0[part]))
    }

    #[inline(always)]
    unsafe fn max(self, other: Self) -> Self {
        each_part!(self, |part| self.0[part].max(other.0[part]))
    }

    #[inline(always)]
    unsafe fn mul_add(self, factor: Self, summand: Self) -> Self {
        each_part!(self, |part| self.0[part].mul_add(factor.0[part], summand.0[part]))
    }

    #[inline(always)]
    unsafe fn sum(self) -> f32 {
        // SAFETY: the caller's promise.
        unsafe {
            let mut sum = self.0[0];
            for other in &self.0[1..] {
                sum = sum.add(*other);
            }
            sum.sum()
        }
    }

    #[inline(always)]
    unsafe fn activated(mut self, activation: Activation) -> Self {
        // SAFETY: the caller's promise.
        unsafe { activate(activation, &mut self.0) };
        self
    }

    #[inline(always)]
    unsafe fn sigmoid(self) -> Self {
        each_part!(self, |part| sigmoid(self.0[part]))
    }
}

/// [`Kernels::dot`](super::kernels::Kernels::dot).
///
/// # Safety
/// As there.
#[inline(always)]
pub(super) unsafe fn dot<V, E, const PARTS: usize>(
    a: *const E,
    stride: usize,
    blocks: usize,
    weights: *const f32,
) -> f32
where
    V: Vector,
    E: Format<V, PARTS>,
{
    // SAFETY: blocks of 32 elements and weights, as the caller promises.
    unsafe {
        let mut sum = V::splat(0.0);
        for block in 0..blocks {
            for part in 0..PARTS {
                let values = E::read(a.add(block * stride + part * V::LANES));
                let weights = V::load(weights.add(block * BLOCK + part * V::LANES));
                sum = values.mul_add(weights, sum);
            }
        }
        sum.sum()
    }
}
