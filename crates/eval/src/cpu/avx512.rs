//! The AVX-512 path in `f32`, and what all AVX-512 paths share: the input kernel, and products of
//! formats with several elements in 32 bits.

use std::arch::x86_64::*;

use nets::LeelaPlanes;

use super::{
    attention::Attend,
    elementwise::Elementwise,
    input::Job,
    kernels::{Destination, Kernels, Operands, attention_in_vectors, by_rows, compiled_for},
    layout::{BLOCK, Store},
    planes::PlaneWriter,
    recent_boards::RecentBoards,
    vectors::{self, Format, Wide},
    whole_board::BoardTable,
};

/// AVX-512 in `f32`.
#[derive(Debug)]
pub(crate) struct Avx512;

/// A format that also writes vectors of half the width.
pub(super) trait HalfFormat: Format<__m512, 2> {
    /// Writes the nearest activations.
    ///
    /// # Safety
    /// As [`Format::write`].
    unsafe fn write_half(values: __m256, to: *mut Self);
}

impl HalfFormat for f32 {
    #[inline(always)]
    unsafe fn write_half(values: __m256, to: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe { _mm256_storeu_ps(to, values) }
    }
}

/// [`Kernels::input`], by the vectors of the job.
///
/// # Safety
/// As there.
#[inline(always)]
pub(super) unsafe fn input<E: HalfFormat>(
    job: &Job,
    relu: bool,
    states: &[u8; 64],
    out: *mut E,
    store: &Store,
) {
    // SAFETY: the caller's promise.
    unsafe {
        match (job.full, job.half) {
            (0, true) => squares::<E, 0, true>(job, relu, states, out, store),
            (1, false) => squares::<E, 1, false>(job, relu, states, out, store),
            (1, true) => squares::<E, 1, true>(job, relu, states, out, store),
            (2, false) => squares::<E, 2, false>(job, relu, states, out, store),
            (2, true) => squares::<E, 2, true>(job, relu, states, out, store),
            (3, false) => squares::<E, 3, false>(job, relu, states, out, store),
            (3, true) => squares::<E, 3, true>(job, relu, states, out, store),
            (4, false) => squares::<E, 4, false>(job, relu, states, out, store),
            _ => debug_assert!(false, "a job has 8 to 64 lanes"),
        }
    }
}

/// The input kernel for a job of `FULL` full vectors and, if `HALF`, a half one.
///
/// # Safety
/// As [`Kernels::input`].
#[inline(always)]
unsafe fn squares<E: HalfFormat, const FULL: usize, const HALF: bool>(
    job: &Job,
    relu: bool,
    states: &[u8; 64],
    out: *mut E,
    store: &Store,
) {
    let (table, bias) = (job.table.as_ptr(), job.bias.as_ptr());
    let place = |position: usize| position / BLOCK * store.block_stride + position % BLOCK;
    let full_at: [usize; FULL] = std::array::from_fn(|vector| place(job.full_at + 16 * vector));
    let half_at = place(job.half_at);
    // SAFETY: the table has rows of `16 * FULL` weights, and 8 more if `HALF`, for each kernel cell
    // and state, and as many biases; the caller owns the target rows, and no vector straddles a
    // block.
    unsafe {
        let floor = _mm512_set1_ps(if relu { 0.0 } else { f32::NEG_INFINITY });
        for square in 0..64 {
            let mut sums = [_mm512_setzero_ps(); FULL];
            for (vector, sum) in sums.iter_mut().enumerate() {
                *sum = _mm512_loadu_ps(bias.add(16 * vector));
            }
            let mut half =
                if HALF { _mm256_loadu_ps(bias.add(16 * FULL)) } else { _mm256_setzero_ps() };
            for &(neighbour, cell) in job.squares.of(square) {
                let state = usize::from(*states.get_unchecked(neighbour as usize));
                let row = table.add(cell as usize + state * job.state_stride);
                for (vector, sum) in sums.iter_mut().enumerate() {
                    *sum = _mm512_add_ps(*sum, _mm512_loadu_ps(row.add(16 * vector)));
                }
                if HALF {
                    half = _mm256_add_ps(half, _mm256_loadu_ps(row.add(16 * FULL)));
                }
            }
            for &target in &store.targets[square * store.copies..(square + 1) * store.copies] {
                let out = out.add(target as usize);
                for (sum, at) in sums.iter().zip(full_at) {
                    E::write(_mm512_max_ps(*sum, floor), out.add(at));
                }
                if HALF {
                    let values = _mm256_max_ps(half, _mm512_castps512_ps256(floor));
                    E::write_half(values, out.add(half_at));
                }
            }
        }
    }
}

/// A format with several elements in 32 bits, whose products one instruction adds.
pub(super) trait GroupedFormat: HalfFormat {
    /// Adds to each 32-bit sum the products of the elements in 32 bits of `a` and of `weights`.
    ///
    /// # Safety
    /// The machine has the instruction.
    unsafe fn multiply_add(sums: __m512i, a: __m512i, weights: __m512i) -> __m512i;
}

/// `ROWS` rows of A times a panel whose columns are in groups of 32 bits. With `NARROW` only the
/// first 16 columns are computed; the sums of the others are zero. Each sum is added up in `CHAINS`
/// parts, since few rows would wait for one addition after the other; it has to be exact then, as
/// those of integers.
///
/// # Safety
/// As [`Kernels::tall_product`] for these rows.
#[inline(always)]
pub(super) unsafe fn grouped_product<
    E: GroupedFormat,
    const ROWS: usize,
    const NARROW: bool,
    const CHAINS: usize,
>(
    operands: &Operands<E>,
) {
    let groups = BLOCK * size_of::<E>() / 4;
    const {
        assert!((BLOCK * size_of::<E>() / 4).is_multiple_of(CHAINS));
        assert!(CHAINS == 1 || E::QUANTISED, "only sums of integers are exact in any order");
    }
    // SAFETY: the caller vouches for A's rows, the panel and C. A step of the panel is `groups`
    // vectors of columns 0-15, then as many of columns 16-31; `CHAINS` divides `groups`.
    unsafe {
        let mut chains = [[[_mm512_setzero_si512(); 2]; ROWS]; CHAINS];
        for (step, &offset) in operands.offsets.iter().enumerate() {
            let a = operands.a.byte_add(offset as usize);
            let b = operands.b.add(step * BLOCK * BLOCK).cast::<__m512i>();
            for first in (0..groups).step_by(CHAINS) {
                for (chain, sums) in chains.iter_mut().enumerate() {
                    let group = first + chain;
                    let low = _mm512_load_si512(b.add(group));
                    let high = if NARROW { low } else { _mm512_load_si512(b.add(groups + group)) };
                    for (row, sums) in sums.iter_mut().enumerate() {
                        let elements = a.add(row * operands.stride).cast::<i32>().add(group);
                        let elements = _mm512_set1_epi32(elements.read_unaligned());
                        sums[0] = E::multiply_add(sums[0], elements, low);
                        if !NARROW {
                            sums[1] = E::multiply_add(sums[1], elements, high);
                        }
                    }
                }
            }
        }
        let mut total = chains[0];
        for chain in &chains[1..] {
            for (total, sums) in total.iter_mut().zip(chain) {
                for (total, sum) in total.iter_mut().zip(sums) {
                    *total = _mm512_add_epi32(*total, *sum);
                }
            }
        }
        for (row, sums) in total.iter().enumerate() {
            _mm512_store_si512(operands.c.add(row * BLOCK).cast(), sums[0]);
            _mm512_store_si512(operands.c.add(row * BLOCK + 16).cast(), sums[1]);
        }
    }
}

/// `ROWS` rows of A times a panel.
///
/// # Safety
/// As [`Kernels::tall_product`] for these rows.
#[target_feature(enable = "avx512f")]
unsafe fn rows<const ROWS: usize>(operands: &Operands<f32>) {
    // SAFETY: the caller's promise.
    unsafe { vectors::product::<__m512, ROWS>(operands) }
}

// SAFETY: `choose` lets only machines with AVX-512 F, BW and VL get here.
unsafe impl Kernels for Avx512 {
    type Element = f32;
    type Guard = ();

    fn guard() -> Option<()> {
        Some(())
    }

    unsafe fn tall_product(_: &(), operands: &Operands<f32>, rows: usize, _narrow: bool) {
        by_rows!([11, 10, 8, 4, 2, 1], operands, rows, |part, COUNT| {
            // SAFETY: the caller's promise, for these rows.
            unsafe { self::rows::<COUNT>(part) }
        });
    }

    compiled_for!("avx512f,avx512bw,avx512vl", f32, __m512, 2, input);
    attention_in_vectors!("avx512f,avx512bw,avx512vl", f32, __m512, 2);
}
