//! The int8 path of AVX2: products of unsigned and signed bytes, added in eights as 16 bits and in
//! sixteens as 32.
//!
//! AVX2 multiplies bytes to 16 bits, and once more to get to 32. Two products of 255 and 127 would
//! not fit 16 bits; where weights are as small as [`SmallByte`] has them eight do, and the second
//! multiplication comes once for four of the first.

use std::arch::x86_64::*;

use super::{
    avx2::input_kernel,
    elementwise::{Adjust, Elementwise},
    input::{Job, PADDED_RANK, padded_square, squares_at_once},
    kernels::{Kernels, by_rows, vectorised},
    layout::{BLOCK, Store},
    memory::SmallByte,
};

/// AVX2 in int8.
#[derive(Debug)]
pub(crate) struct Avx2Int8;

/// `ROWS` rows of A times 16 columns of a panel in groups of four; sums are `i32`, stored as their
/// bits.
///
/// # Safety
/// As [`Kernels::tall_product`] for these rows and columns.
#[target_feature(enable = "avx2")]
unsafe fn rows<const ROWS: usize, const GROUPS: usize>(
    a: *const SmallByte,
    stride: usize,
    offsets: &[u32],
    b: *const SmallByte,
    c: *mut f32,
) {
    let ones = _mm256_set1_epi16(1);
    let mut sums = [[_mm256_setzero_si256(); 2]; ROWS];
    for (step, &offset) in offsets.iter().enumerate() {
        // SAFETY: the caller vouches for A's rows, the panel and C.
        unsafe {
            let a = a.byte_add(offset as usize);
            let b = b.add(step * BLOCK * BLOCK);
            for part in 0..BLOCK / 4 / GROUPS {
                let mut words = [[_mm256_setzero_si256(); 2]; ROWS];
                for group in part * GROUPS..(part + 1) * GROUPS {
                    let weights =
                        [0, 32].map(|half| _mm256_load_si256(b.add(group * 64 + half).cast()));
                    for (row, words) in words.iter_mut().enumerate() {
                        let four = a.add(row * stride + 4 * group).cast::<i32>().read_unaligned();
                        let four = _mm256_set1_epi32(four);
                        for (word, weights) in words.iter_mut().zip(weights) {
                            *word = _mm256_add_epi16(*word, _mm256_maddubs_epi16(four, weights));
                        }
                    }
                }
                for (sums, words) in sums.iter_mut().zip(words) {
                    for (sum, word) in sums.iter_mut().zip(words) {
                        *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(word, ones));
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

/// Both products: sums are right if two weights in each of `GROUPS` groups fit 16 bits.
///
/// # Safety
/// As [`Kernels::tall_product`].
unsafe fn all_rows<const GROUPS: usize>(
    a: *const SmallByte,
    rows: usize,
    stride: usize,
    offsets: &[u32],
    b: *const SmallByte,
    c: *mut f32,
) {
    for half in [0, 1] {
        // SAFETY: the caller's promise, for the rows and columns of each call.
        unsafe {
            let (b, c) = (b.add(half * 512), c.add(half * 16));
            by_rows!([4, 2, 1], rows, |first, COUNT| {
                self::rows::<COUNT, GROUPS>(
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

/// Where the vectors of a block begin.
const PARTS: [usize; 4] = [0, 8, 16, 24];

/// Eight numbers as bytes: rounded to the nearest, at least 0 and at most 255.
#[target_feature(enable = "avx2")]
fn bytes(value: __m256) -> __m128i {
    let whole = _mm256_cvtps_epi32(value);
    let words =
        _mm_packs_epi32(_mm256_castsi256_si128(whole), _mm256_extracti128_si256::<1>(whole));
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
    out: *mut SmallByte,
    targets: &[u32],
    copies: usize,
) {
    // SAFETY: 32 scales and biases, as the caller promises.
    let [scale, bias] =
        [scale, bias].map(|list| PARTS.map(|part| unsafe { _mm256_load_ps(list.add(part)) }));
    // Packing works on each half of a vector by itself.
    let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    for (row, targets) in targets.chunks_exact(copies).take(rows).enumerate() {
        let whole: [__m256i; 4] = std::array::from_fn(|quarter| {
            // SAFETY: `rows` rows of C, as the caller promises.
            let sum = unsafe { _mm256_load_si256(c.add(row * BLOCK + PARTS[quarter]).cast()) };
            _mm256_cvtps_epi32(_mm256_fmadd_ps(
                _mm256_cvtepi32_ps(sum),
                scale[quarter],
                bias[quarter],
            ))
        });
        let words =
            [_mm256_packs_epi32(whole[0], whole[1]), _mm256_packs_epi32(whole[2], whole[3])];
        let bytes = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(words[0], words[1]), order);
        for &target in targets {
            // SAFETY: target rows of 32, as the caller promises.
            unsafe { _mm256_storeu_si256(out.add(target as usize).cast(), bytes) };
        }
    }
}

/// # Safety
/// As [`Kernels::dot`].
#[target_feature(enable = "avx2,fma")]
unsafe fn dot(a: *const SmallByte, stride: usize, blocks: usize, weights: *const f32) -> f32 {
    let mut sum = _mm256_setzero_ps();
    for block in 0..blocks {
        for part in (0..BLOCK).step_by(8) {
            // SAFETY: blocks of 32 elements and weights, as the caller promises.
            unsafe {
                let bytes = _mm_loadl_epi64(a.add(block * stride + part).cast());
                let values = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes));
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

input_kernel!(
    input_job,
    input,
    SmallByte,
    |place: *mut SmallByte, value: __m256| _mm_storel_epi64(place.cast(), bytes(value))
);

// SAFETY: `choose` lets only machines with AVX2 and FMA get here.
unsafe impl Kernels for Avx2Int8 {
    type Element = SmallByte;
    type Guard = ();

    fn guard() -> Option<()> {
        Some(())
    }

    unsafe fn product(
        _: &(),
        a: *const SmallByte,
        offsets: &[u32],
        b: *const SmallByte,
        c: *mut f32,
    ) {
        // SAFETY: the caller's promise.
        unsafe { all_rows::<{ SmallByte::GROUPS }>(a, BLOCK, BLOCK, offsets, b, c) }
    }

    unsafe fn tall_product(
        _: &(),
        a: *const SmallByte,
        rows: usize,
        stride: usize,
        offsets: &[u32],
        b: *const SmallByte,
        _narrow: bool,
        c: *mut f32,
    ) {
        // SAFETY: the caller's promise.
        unsafe { all_rows::<1>(a, rows, stride, offsets, b, c) }
    }

    unsafe fn finish(
        c: *const f32,
        rows: usize,
        scale: *const f32,
        bias: *const f32,
        _relu: bool,
        out: *mut SmallByte,
        targets: &[u32],
        copies: usize,
    ) {
        // SAFETY: the caller's promise. Unsigned bytes are clipped at zero in any case.
        unsafe { finish(c, rows, scale, bias, out, targets, copies) }
    }

    vectorised!(SmallByte, "avx2,fma");

    unsafe fn input(job: &Job, relu: bool, states: &[u8; 64], out: *mut SmallByte, store: &Store) {
        // SAFETY: the caller's promise.
        unsafe { input(job, relu, states, out, store) }
    }

    unsafe fn dot(a: *const SmallByte, stride: usize, blocks: usize, weights: *const f32) -> f32 {
        // SAFETY: the caller's promise.
        unsafe { dot(a, stride, blocks, weights) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::{
        memory::CacheLines,
        plain_integers::{check_sums, dice},
    };

    /// Whether the processor has the instructions; otherwise `test` is reported as skipped.
    fn is_available(test: &str) -> bool {
        let has = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
        if !has {
            board::testing::skip(test, "the processor has no AVX2 with FMA");
        }
        has
    }

    #[test]
    fn sums_are_those_of_plain_integers() {
        if is_available("sums_are_those_of_plain_integers") {
            check_sums::<Avx2Int8>();
        }
    }

    #[test]
    fn sums_are_stored_as_the_nearest_bytes() {
        if !is_available("sums_are_stored_as_the_nearest_bytes") {
            return;
        }
        let mut dice = dice();
        let mut c = CacheLines::<f32>::zeroed(BLOCK * BLOCK);
        for sum in c.as_mut_slice() {
            *sum = f32::from_bits(((i32::from(dice()) - 100) * 997).cast_unsigned());
        }
        let (mut scale, mut bias) =
            (CacheLines::<f32>::zeroed(BLOCK), CacheLines::<f32>::zeroed(BLOCK));
        for column in 0..BLOCK {
            scale.as_mut_slice()[column] = 0.001 + 0.0001 * column as f32;
            bias.as_mut_slice()[column] = f32::from(dice()) - 128.0;
        }
        // Two copies of each row, the second one in the order of the rows turned round.
        let targets: Vec<u32> = (0..32_u32).flat_map(|row| [row * 32, (63 - row) * 32]).collect();
        let mut out = CacheLines::<SmallByte>::zeroed(64 * BLOCK);
        // SAFETY: the machine has the instructions; 32 rows, scales and biases, and targets within
        // `out`.
        unsafe {
            let (c, scale, bias) = (c.as_ptr(), scale.as_ptr(), bias.as_ptr());
            Avx2Int8::finish(c, BLOCK, scale, bias, true, out.as_mut_ptr(), &targets, 2);
        }
        for row in 0..BLOCK {
            for column in 0..BLOCK {
                let sum = c.as_slice()[row * BLOCK + column].to_bits().cast_signed() as f32;
                let value = sum.mul_add(scale.as_slice()[column], bias.as_slice()[column]);
                let expected = value.round_ties_even().clamp(0.0, 255.0) as u8;
                for place in [row, 63 - row] {
                    assert_eq!(
                        out.as_slice()[place * BLOCK + column].0,
                        expected,
                        "row {row}, column {column}"
                    );
                }
            }
        }
    }
}
