//! The AVX2 and FMA path in `f32`, and the input kernel of both AVX2 paths.

use std::arch::x86_64::*;

use nets::LeelaPlanes;

use super::{
    attention::Attend,
    elementwise::Elementwise,
    input::{Job, PADDED_RANK, padded_square, squares_at_once},
    kernels::{Destination, Kernels, Operands, attention_in_vectors, by_rows, compiled_for},
    layout::{BLOCK, Store},
    planes::PlaneWriter,
    vectors::{self, Format, Wide},
};

/// AVX2 and FMA in `f32`.
#[derive(Debug)]
pub(crate) struct Avx2;

/// `ROWS` rows of A times 16 columns of a panel.
///
/// # Safety
/// As [`Kernels::tall_product`] for these rows and columns.
#[target_feature(enable = "avx2,fma")]
unsafe fn rows<const ROWS: usize>(operands: &Operands<f32>) {
    // SAFETY: the caller's promise.
    unsafe { vectors::product::<__m256, ROWS>(operands) }
}

/// [`Kernels::input`], by the number of vectors of the job.
///
/// # Safety
/// As there.
#[inline(always)]
pub(super) unsafe fn input<E: Format<__m256, 4>>(
    job: &Job,
    relu: bool,
    states: &[u8; 64],
    out: *mut E,
    store: &Store,
) {
    // SAFETY: the caller's promise.
    unsafe {
        match job.lanes() / 8 {
            1 => groups::<E, 1, { squares_at_once(1) }>(job, relu, states, out, store),
            2 => groups::<E, 2, { squares_at_once(2) }>(job, relu, states, out, store),
            3 => groups::<E, 3, { squares_at_once(3) }>(job, relu, states, out, store),
            4 => groups::<E, 4, { squares_at_once(4) }>(job, relu, states, out, store),
            5 => groups::<E, 5, { squares_at_once(5) }>(job, relu, states, out, store),
            6 => groups::<E, 6, { squares_at_once(6) }>(job, relu, states, out, store),
            7 => groups::<E, 7, { squares_at_once(7) }>(job, relu, states, out, store),
            _ => groups::<E, 8, { squares_at_once(8) }>(job, relu, states, out, store),
        }
    }
}

/// The input kernel for a job of `UNITS` vectors of 8 lanes, `SQUARES` squares of a rank at a time.
///
/// # Safety
/// As [`Kernels::input`]; `SQUARES` is `squares_at_once(UNITS)`.
#[target_feature(enable = "avx2,fma")]
unsafe fn groups<E: Format<__m256, 4>, const UNITS: usize, const SQUARES: usize>(
    job: &Job,
    relu: bool,
    states: &[u8; 64],
    out: *mut E,
    store: &Store,
) {
    let floor = _mm256_set1_ps(if relu { 0.0 } else { f32::NEG_INFINITY });
    let (table, bias) = (job.table.as_ptr(), job.bias.as_ptr());
    let at: [usize; UNITS] = std::array::from_fn(|unit| {
        let position = if unit < 2 * job.full { job.full_at + 8 * unit } else { job.half_at };
        position / BLOCK * store.block_stride + position % BLOCK
    });
    // Offset in the table of each square's state. The last state is that of padding.
    let padding = job.table.as_slice().len() - job.state_stride;
    let mut offsets = [padding; 8 * PADDED_RANK];
    for (square, &state) in states.iter().enumerate() {
        offsets[padded_square(square)] = usize::from(state) * job.state_stride;
    }
    let bias: [__m256; UNITS] = std::array::from_fn(|unit| {
        // SAFETY: `8 * UNITS` biases.
        unsafe { _mm256_loadu_ps(bias.add(8 * unit)) }
    });
    for group in 0..64 / SQUARES {
        let mut sums = [bias; SQUARES];
        // SAFETY: the table has rows of `8 * UNITS` weights for each kernel cell and state, padding
        // included; `SQUARES` squares from each neighbour on are on the padded board; the caller
        // owns the target rows, and no vector straddles a block.
        unsafe {
            for &(neighbour, cell) in job.groups.of(group) {
                let cell = table.add(cell as usize);
                for (n, sums) in sums.iter_mut().enumerate() {
                    let row = cell.add(*offsets.get_unchecked(neighbour as usize + n));
                    for (unit, sum) in sums.iter_mut().enumerate() {
                        *sum = _mm256_add_ps(*sum, _mm256_loadu_ps(row.add(8 * unit)));
                    }
                }
            }
            for (n, sums) in sums.iter().enumerate() {
                let square = group * SQUARES + n;
                for &target in &store.targets[square * store.copies..(square + 1) * store.copies] {
                    for (sum, at) in sums.iter().zip(at) {
                        E::write(_mm256_max_ps(*sum, floor), out.add(target as usize + at));
                    }
                }
            }
        }
    }
}

// SAFETY: `choose` lets only machines with AVX2 and FMA get here.
unsafe impl Kernels for Avx2 {
    type Element = f32;
    type Guard = ();

    fn guard() -> Option<()> {
        Some(())
    }

    unsafe fn tall_product(_: &(), operands: &Operands<f32>, rows: usize, narrow: bool) {
        if narrow {
            for row in 0..rows {
                // SAFETY: C has these rows of 32.
                unsafe { operands.c.add(row * BLOCK + 16).write_bytes(0, 16) };
            }
        }
        for column in (0..if narrow { 16 } else { BLOCK }).step_by(16) {
            // SAFETY: the caller's promise, for the rows and columns of each call.
            unsafe {
                let (b, c) = (operands.b.add(column), operands.c.add(column));
                let columns = Operands { b, c, ..*operands };
                by_rows!([6, 2, 1], columns, rows, |part, COUNT| self::rows::<COUNT>(part));
            }
        }
    }

    compiled_for!("avx2,fma", f32, __m256, 4, input);
    attention_in_vectors!("avx2,fma", f32, __m256, 4);
}
