//! Kernels in terms of `f32` vectors of any width, so that AVX2 and AVX-512 share one source.
//!
//! All functions are inlined into functions that enable the instructions of a path
//! ([`compiled_for`](super::kernels::compiled_for)), where they become single instructions.

use std::arch::x86_64::*;

use super::{
    kernels::{Destination, Operands},
    layout::BLOCK,
    memory::Element,
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
    unsafe fn max(self, other: Self) -> Self;
    /// `self * factor + sum`, rounded once.
    unsafe fn mul_add(self, factor: Self, sum: Self) -> Self;
    /// Sum of the lanes.
    unsafe fn sum(self) -> f32;
}

/// Implements [`Vector`] by the intrinsics of a width.
macro_rules! vector {
    ($vector:ty, $lanes:literal, $splat:ident, $load:ident, $store:ident, $add:ident, $max:ident,
     $mul_add:ident, $sum:ident) => {
        impl Vector for $vector {
            const LANES: usize = $lanes;
            #[inline(always)]
            unsafe fn splat(value: f32) -> Self {
                // SAFETY: the caller's promise.
                unsafe { $splat(value) }
            }
            #[inline(always)]
            unsafe fn load(from: *const f32) -> Self {
                // SAFETY: the caller's promise.
                unsafe { $load(from) }
            }
            #[inline(always)]
            unsafe fn store(self, to: *mut f32) {
                // SAFETY: the caller's promise.
                unsafe { $store(to, self) }
            }
            #[inline(always)]
            unsafe fn add(self, other: Self) -> Self {
                // SAFETY: the caller's promise.
                unsafe { $add(self, other) }
            }
            #[inline(always)]
            unsafe fn max(self, other: Self) -> Self {
                // SAFETY: the caller's promise.
                unsafe { $max(self, other) }
            }
            #[inline(always)]
            unsafe fn mul_add(self, factor: Self, sum: Self) -> Self {
                // SAFETY: the caller's promise.
                unsafe { $mul_add(self, factor, sum) }
            }
            #[inline(always)]
            unsafe fn sum(self) -> f32 {
                // SAFETY: the caller's promise.
                unsafe { $sum(self) }
            }
        }
    };
}

vector!(
    __m256,
    8,
    _mm256_set1_ps,
    _mm256_loadu_ps,
    _mm256_storeu_ps,
    _mm256_add_ps,
    _mm256_max_ps,
    _mm256_fmadd_ps,
    sum_of_8
);

vector!(
    __m512,
    16,
    _mm512_set1_ps,
    _mm512_loadu_ps,
    _mm512_storeu_ps,
    _mm512_add_ps,
    _mm512_max_ps,
    _mm512_fmadd_ps,
    _mm512_reduce_add_ps
);

/// Sum of the lanes.
#[inline]
#[target_feature(enable = "avx2")]
fn sum_of_8(values: __m256) -> f32 {
    let half = _mm_add_ps(_mm256_castps256_ps128(values), _mm256_extractf128_ps::<1>(values));
    let quarter = _mm_add_ps(half, _mm_movehl_ps(half, half));
    _mm_cvtss_f32(_mm_add_ss(quarter, _mm_movehdup_ps(quarter)))
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

/// Formats of `f32` elements.
macro_rules! plain_format {
    ($vector:ty, $parts:literal) => {
        impl Format<$vector, $parts> for f32 {
            #[inline(always)]
            unsafe fn read(from: *const f32) -> $vector {
                // SAFETY: the caller's promise.
                unsafe { <$vector>::load(from) }
            }
            #[inline(always)]
            unsafe fn write(values: $vector, to: *mut f32) {
                // SAFETY: the caller's promise.
                unsafe { values.store(to) }
            }
            #[inline(always)]
            unsafe fn write_row(values: [$vector; $parts], to: *mut f32) {
                for (part, values) in values.into_iter().enumerate() {
                    // SAFETY: the caller's promise.
                    unsafe { values.store(to.add(part * <$vector>::LANES)) };
                }
            }
        }
    };
}

plain_format!(__m256, 4);
plain_format!(__m512, 2);

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

/// [`Kernels::finish`](super::kernels::Kernels::finish).
///
/// # Safety
/// As there.
#[inline(always)]
pub(super) unsafe fn finish<V, E, const PARTS: usize>(
    c: *const f32,
    rows: usize,
    to: &Destination<E>,
) where
    V: Vector,
    E: Format<V, PARTS>,
{
    // SAFETY: the caller's promise.
    unsafe {
        // The usual numbers of copies as constants make faster loops.
        match to.copies {
            1 => finish_copies::<V, E, PARTS>(c, rows, to, 1),
            3 => finish_copies::<V, E, PARTS>(c, rows, to, 3),
            copies => finish_copies::<V, E, PARTS>(c, rows, to, copies),
        }
    }
}

/// [`finish`] for so many copies of each row.
///
/// # Safety
/// As [`finish`].
#[inline(always)]
unsafe fn finish_copies<V, E, const PARTS: usize>(
    c: *const f32,
    rows: usize,
    to: &Destination<E>,
    copies: usize,
) where
    V: Vector,
    E: Format<V, PARTS>,
{
    // SAFETY: 32 scales and biases, `rows` rows of C, and target rows, as the caller promises.
    unsafe {
        let floor = V::splat(if to.relu { 0.0 } else { f32::NEG_INFINITY });
        let (mut scale, mut bias) = ([floor; PARTS], [floor; PARTS]);
        for part in 0..PARTS {
            scale[part] = V::load(to.scale.add(part * V::LANES));
            bias[part] = V::load(to.bias.add(part * V::LANES));
        }
        for (row, targets) in to.targets.chunks_exact(copies).take(rows).enumerate() {
            let mut values = [floor; PARTS];
            for part in 0..PARTS {
                let sums = c.add(row * BLOCK + part * V::LANES);
                let value = E::finished(sums, scale[part], bias[part]);
                // Quantised activations are unsigned, so that writing them clips at zero.
                values[part] = if E::QUANTISED { value } else { value.max(floor) };
            }
            for &target in targets {
                E::write_row(values, to.out.add(target as usize));
            }
        }
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
