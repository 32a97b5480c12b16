//! The int8 path of AVX2: products of unsigned and signed bytes, added in pairs as 16 bits and in fours as 32.
//!
//! A pair of products of 255 and 127 would not fit 16 bits, so weights here have seven bits ([`Septet`]).

use std::arch::x86_64::*;

use super::{
    avx2::input_kernel,
    elementwise::{Adjust, Elementwise},
    input::Job,
    kernels::{Kernels, by_rows, vectorised},
    layout::{BLOCK, Store},
    memory::Septet,
};

/// AVX2 in int8.
#[derive(Debug)]
pub(crate) struct Avx2Int8;

/// `ROWS` rows of A times 16 columns of a panel in groups of four; sums are `i32`, stored as their bits.
///
/// # Safety
/// As [`Kernels::tall_product`] for these rows and columns.
#[target_feature(enable = "avx2")]
unsafe fn rows<const ROWS: usize>(
    a: *const Septet,
    stride: usize,
    offsets: &[u32],
    b: *const Septet,
    c: *mut f32,
) {
    let ones = _mm256_set1_epi16(1);
    let mut sums = [[_mm256_setzero_si256(); 2]; ROWS];
    for (step, &offset) in offsets.iter().enumerate() {
        // SAFETY: the caller vouches for A's rows, the panel and C.
        unsafe {
            let a = a.byte_add(offset as usize);
            let b = b.add(step * BLOCK * BLOCK);
            for group in 0..BLOCK / 4 {
                let weights = [0, 32].map(|half| _mm256_load_si256(b.add(group * 64 + half).cast()));
                for (row, sums) in sums.iter_mut().enumerate() {
                    let four = a.add(row * stride + 4 * group).cast::<i32>().read_unaligned();
                    let four = _mm256_set1_epi32(four);
                    for (sum, weights) in sums.iter_mut().zip(weights) {
                        let pairs = _mm256_maddubs_epi16(four, weights);
                        *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(pairs, ones));
                    }
                }
            }
        }
    }
    for (row, sums) in sums.iter().enumerate() {
        // SAFETY: C has these rows of 32.
        unsafe {
            _mm256_store_si256(c.add(row * BLOCK).cast(), sums[0]);
            _mm256_store_si256(c.add(row * BLOCK + 8).cast(), sums[1]);
        }
    }
}

/// Eight numbers as bytes: rounded to the nearest, at least 0 and at most 255.
#[target_feature(enable = "avx2")]
fn bytes(value: __m256) -> __m128i {
    let whole = _mm256_cvtps_epi32(value);
    let words = _mm_packs_epi32(_mm256_castsi256_si128(whole), _mm256_extracti128_si256::<1>(whole));
    _mm_packus_epi16(words, words)
}

/// # Safety
/// As [`Kernels::finish`].
#[target_feature(enable = "avx2,fma")]
unsafe fn finish(
    c: *const f32,
    rows: usize,
    scale: *const f32,
    bias: *const f32,
    out: *mut Septet,
    targets: &[u32],
    copies: usize,
) {
    for (row, targets) in targets.chunks_exact(copies).take(rows).enumerate() {
        for part in (0..BLOCK).step_by(8) {
            // SAFETY: 32 scales and biases, `rows` rows of C, and target rows, as the caller promises.
            unsafe {
                let sum = _mm256_cvtepi32_ps(_mm256_load_si256(c.add(row * BLOCK + part).cast()));
                let (scale, bias) = (_mm256_load_ps(scale.add(part)), _mm256_load_ps(bias.add(part)));
                let eight = bytes(_mm256_fmadd_ps(sum, scale, bias));
                for &target in targets {
                    _mm_storel_epi64(out.add(target as usize + part).cast(), eight);
                }
            }
        }
    }
}

/// # Safety
/// As [`Kernels::dot`].
#[target_feature(enable = "avx2,fma")]
unsafe fn dot(a: *const Septet, stride: usize, blocks: usize, weights: *const f32) -> f32 {
    let mut sum = _mm256_setzero_ps();
    for block in 0..blocks {
        for part in (0..BLOCK).step_by(8) {
            // SAFETY: blocks of 32 elements and weights, as the caller promises.
            unsafe {
                let bytes = _mm_loadl_epi64(a.add(block * stride + part).cast());
                let values = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes));
                sum = _mm256_fmadd_ps(values, _mm256_loadu_ps(weights.add(block * BLOCK + part)), sum);
            }
        }
    }
    let half = _mm_add_ps(_mm256_castps256_ps128(sum), _mm256_extractf128_ps::<1>(sum));
    let quarter = _mm_add_ps(half, _mm_movehl_ps(half, half));
    _mm_cvtss_f32(_mm_add_ss(quarter, _mm_movehdup_ps(quarter)))
}

input_kernel!(input_job, input, Septet, |place: *mut Septet, value: __m256| _mm_storel_epi64(
    place.cast(),
    bytes(value)
));

// SAFETY: `choose` lets only machines with AVX2 and FMA get here.
unsafe impl Kernels for Avx2Int8 {
    type Element = Septet;
    type Guard = ();

    fn guard() -> Option<()> {
        Some(())
    }

    unsafe fn product(guard: &(), a: *const Septet, offsets: &[u32], b: *const Septet, c: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe { Self::tall_product(guard, a, BLOCK, BLOCK, offsets, b, false, c) }
    }

    unsafe fn tall_product(
        _: &(),
        a: *const Septet,
        rows: usize,
        stride: usize,
        offsets: &[u32],
        b: *const Septet,
        _narrow: bool,
        c: *mut f32,
    ) {
        for half in [0, 1] {
            // SAFETY: the caller's promise, for the rows and columns of each call.
            unsafe {
                let (b, c) = (b.add(half * 512), c.add(half * 16));
                by_rows!([4, 2, 1], rows, |first, COUNT| {
                    self::rows::<COUNT>(a.add(first * stride), stride, offsets, b, c.add(first * BLOCK));
                });
            }
        }
    }

    unsafe fn finish(
        c: *const f32,
        rows: usize,
        scale: *const f32,
        bias: *const f32,
        _relu: bool,
        out: *mut Septet,
        targets: &[u32],
        copies: usize,
    ) {
        // SAFETY: the caller's promise. Unsigned bytes are clipped at zero in any case.
        unsafe { finish(c, rows, scale, bias, out, targets, copies) }
    }

    vectorised!(Septet, "avx2,fma");

    unsafe fn input(job: &Job, relu: bool, states: &[u8; 64], out: *mut Septet, store: &Store) {
        // SAFETY: the caller's promise.
        unsafe { input(job, relu, states, out, store) }
    }

    unsafe fn dot(a: *const Septet, stride: usize, blocks: usize, weights: *const f32) -> f32 {
        // SAFETY: the caller's promise.
        unsafe { dot(a, stride, blocks, weights) }
    }
}
