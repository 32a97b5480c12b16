//! The AVX2 and FMA path, in `f32`.

use std::arch::x86_64::*;

use super::{
    elementwise::{Adjust, Elementwise},
    input::{Job, PADDED_RANK, padded_square, squares_at_once},
    kernels::{Kernels, by_rows, vectorised},
    layout::{BLOCK, Store},
};

/// AVX2 and FMA in `f32`.
#[derive(Debug)]
pub(crate) struct Avx2;

/// `ROWS` rows of A times 16 columns of a panel.
///
/// # Safety
/// As [`Kernels::tall_product`] for these rows and columns.
#[target_feature(enable = "avx2,fma")]
unsafe fn rows<const ROWS: usize>(
    a: *const f32,
    stride: usize,
    offsets: &[u32],
    b: *const f32,
    c: *mut f32,
) {
    let mut sums = [[_mm256_setzero_ps(); 2]; ROWS];
    for (step, &offset) in offsets.iter().enumerate() {
        // SAFETY: the caller vouches for A's rows, the panel and C.
        unsafe {
            let a = a.byte_add(offset as usize);
            let b = b.add(step * BLOCK * BLOCK);
            for k in 0..BLOCK {
                let low = _mm256_load_ps(b.add(k * BLOCK));
                let high = _mm256_load_ps(b.add(k * BLOCK + 8));
                for (row, sums) in sums.iter_mut().enumerate() {
                    let value = _mm256_set1_ps(*a.add(row * stride + k));
                    sums[0] = _mm256_fmadd_ps(value, low, sums[0]);
                    sums[1] = _mm256_fmadd_ps(value, high, sums[1]);
                }
            }
        }
    }
    for (row, sums) in sums.iter().enumerate() {
        // SAFETY: C has these rows of 32.
        unsafe {
            _mm256_store_ps(c.add(row * BLOCK), sums[0]);
            _mm256_store_ps(c.add(row * BLOCK + 8), sums[1]);
        }
    }
}

/// # Safety
/// As [`Kernels::finish`].
#[target_feature(enable = "avx2")]
unsafe fn finish(
    c: *const f32,
    rows: usize,
    bias: *const f32,
    relu: bool,
    out: *mut f32,
    targets: &[u32],
    copies: usize,
) {
    let floor = _mm256_set1_ps(if relu { 0.0 } else { f32::NEG_INFINITY });
    for (row, targets) in targets.chunks_exact(copies).take(rows).enumerate() {
        for part in (0..BLOCK).step_by(8) {
            // SAFETY: 32 biases, `rows` rows of C, and target rows, as the caller promises.
            unsafe {
                let sum = _mm256_add_ps(
                    _mm256_load_ps(c.add(row * BLOCK + part)),
                    _mm256_load_ps(bias.add(part)),
                );
                let value = _mm256_max_ps(sum, floor);
                for &target in targets {
                    _mm256_store_ps(out.add(target as usize + part), value);
                }
            }
        }
    }
}

/// Makes the input kernel of one element format.
macro_rules! input_kernel {
    ($name:ident, $dispatch:ident, $element:ty, $put:expr) => {
        /// # Safety
        /// As [`Kernels::input`], for jobs of `UNITS` vectors of 8 lanes; `TOGETHER` is
        /// [`together`] of them.
        #[target_feature(enable = "avx2")]
        unsafe fn $name<const UNITS: usize, const TOGETHER: usize>(
            job: &Job,
            relu: bool,
            states: &[u8; 64],
            out: *mut $element,
            store: &Store,
        ) {
            let floor = _mm256_set1_ps(if relu { 0.0 } else { f32::NEG_INFINITY });
            let (table, bias) = (job.table.as_ptr(), job.bias.as_ptr());
            let at: [usize; UNITS] = std::array::from_fn(|unit| {
                let position =
                    if unit < 2 * job.full { job.full_at + 8 * unit } else { job.half_at };
                position / BLOCK * store.block_stride + position % BLOCK
            });
            // Where each square's state is in the table, whose last one is none.
            let none = job.table.as_slice().len() - job.state_stride;
            let mut places = [none; 8 * PADDED_RANK];
            for (square, &state) in states.iter().enumerate() {
                places[padded_square(square)] = usize::from(state) * job.state_stride;
            }
            let bias: [__m256; UNITS] = std::array::from_fn(|unit| {
                // SAFETY: `8 * UNITS` biases.
                unsafe { _mm256_loadu_ps(bias.add(8 * unit)) }
            });
            for group in 0..64 / TOGETHER {
                let mut sums = [bias; TOGETHER];
                // SAFETY: rows of `8 * UNITS` weights for each tap and state (a state of the
                // table), and for none; `TOGETHER` squares from each tap's place on lie on the wide
                // board; the caller owns the target rows and no vector straddles a block.
                unsafe {
                    for &(place, cell) in job.groups.of(group) {
                        let cell = table.add(cell as usize);
                        for (n, sums) in sums.iter_mut().enumerate() {
                            let row = cell.add(*places.get_unchecked(place as usize + n));
                            for (unit, sum) in sums.iter_mut().enumerate() {
                                *sum = _mm256_add_ps(*sum, _mm256_loadu_ps(row.add(8 * unit)));
                            }
                        }
                    }
                    for (n, sums) in sums.iter().enumerate() {
                        let square = group * TOGETHER + n;
                        for &target in
                            &store.targets[square * store.copies..(square + 1) * store.copies]
                        {
                            for (sum, at) in sums.iter().zip(at) {
                                $put(out.add(target as usize + at), _mm256_max_ps(*sum, floor));
                            }
                        }
                    }
                }
            }
        }

        /// # Safety
        /// As [`Kernels::input`].
        #[target_feature(enable = "avx2")]
        unsafe fn $dispatch(
            job: &Job,
            relu: bool,
            states: &[u8; 64],
            out: *mut $element,
            store: &Store,
        ) {
            // SAFETY: the caller's promise.
            unsafe {
                match job.lanes() / 8 {
                    1 => $name::<1, { squares_at_once(1) }>(job, relu, states, out, store),
                    2 => $name::<2, { squares_at_once(2) }>(job, relu, states, out, store),
                    3 => $name::<3, { squares_at_once(3) }>(job, relu, states, out, store),
                    4 => $name::<4, { squares_at_once(4) }>(job, relu, states, out, store),
                    5 => $name::<5, { squares_at_once(5) }>(job, relu, states, out, store),
                    6 => $name::<6, { squares_at_once(6) }>(job, relu, states, out, store),
                    7 => $name::<7, { squares_at_once(7) }>(job, relu, states, out, store),
                    _ => $name::<8, { squares_at_once(8) }>(job, relu, states, out, store),
                }
            }
        }
    };
}

pub(crate) use input_kernel;

input_kernel!(input_job, input, f32, |place: *mut f32, value: __m256| _mm256_storeu_ps(
    place, value
));

/// # Safety
/// As [`Kernels::dot`].
#[target_feature(enable = "avx2,fma")]
unsafe fn dot(a: *const f32, stride: usize, blocks: usize, weights: *const f32) -> f32 {
    let mut sum = _mm256_setzero_ps();
    for block in 0..blocks {
        for part in (0..BLOCK).step_by(8) {
            // SAFETY: blocks of 32 elements and weights, as the caller promises.
            unsafe {
                let values = _mm256_loadu_ps(a.add(block * stride + part));
                sum = _mm256_fmadd_ps(
                    values,
                    _mm256_loadu_ps(weights.add(block * BLOCK + part)),
                    sum,
                );
            }
        }
    }
    let half = _mm_add_ps(_mm256_castps256_ps128(sum), _mm256_extractf128_ps::<1>(sum));
    let quarter = _mm_add_ps(half, _mm_movehl_ps(half, half));
    _mm_cvtss_f32(_mm_add_ss(quarter, _mm_movehdup_ps(quarter)))
}

// SAFETY: `choose` lets only machines with AVX2 and FMA get here.
unsafe impl Kernels for Avx2 {
    type Element = f32;
    type Guard = ();

    fn guard() -> Option<()> {
        Some(())
    }

    unsafe fn product(guard: &(), a: *const f32, offsets: &[u32], b: *const f32, c: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe { Self::tall_product(guard, a, BLOCK, BLOCK, offsets, b, false, c) }
    }

    unsafe fn tall_product(
        _: &(),
        a: *const f32,
        rows: usize,
        stride: usize,
        offsets: &[u32],
        b: *const f32,
        narrow: bool,
        c: *mut f32,
    ) {
        if narrow {
            for row in 0..rows {
                // SAFETY: C has these rows of 32.
                unsafe { c.add(row * BLOCK + 16).write_bytes(0, 16) };
            }
        }
        for column in (0..if narrow { 16 } else { BLOCK }).step_by(16) {
            // SAFETY: the caller's promise, for the rows and columns of each call.
            unsafe {
                let (b, c) = (b.add(column), c.add(column));
                by_rows!([6, 2, 1], rows, |first, COUNT| {
                    self::rows::<COUNT>(
                        a.add(first * stride),
                        stride,
                        offsets,
                        b,
                        c.add(first * BLOCK),
                    );
                });
            }
        }
    }

    unsafe fn finish(
        c: *const f32,
        rows: usize,
        _scale: *const f32,
        bias: *const f32,
        relu: bool,
        out: *mut f32,
        targets: &[u32],
        copies: usize,
    ) {
        // SAFETY: the caller's promise.
        unsafe { finish(c, rows, bias, relu, out, targets, copies) }
    }

    vectorised!(f32, "avx2,fma");

    unsafe fn input(job: &Job, relu: bool, states: &[u8; 64], out: *mut f32, store: &Store) {
        // SAFETY: the caller's promise.
        unsafe { input(job, relu, states, out, store) }
    }

    unsafe fn dot(a: *const f32, stride: usize, blocks: usize, weights: *const f32) -> f32 {
        // SAFETY: the caller's promise.
        unsafe { dot(a, stride, blocks, weights) }
    }
}
