//! The int8 path of AVX2: products of unsigned and signed bytes, added in eights as 16 bits and in
//! sixteens as 32.
//!
//! AVX2 multiplies bytes to 16-bit products and needs a second multiplication to widen their sums to
//! 32 bits. Two products of 255 and 127 would overflow 16 bits. The weights of [`SmallByte`] are so
//! small that eight products do not, so one second multiplication serves four first ones.

use std::arch::x86_64::*;

use nets::LeelaPlanes;

use super::{
    attention::Attend,
    elementwise::Elementwise,
    input::Job,
    kernels::{Destination, Kernels, Operands, attention_in_vectors, by_rows, compiled_for},
    layout::{BLOCK, Store},
    memory::SmallByte,
    planes::PlaneWriter,
    recent_boards::RecentBoards,
    vector_input::input,
    vectors::{self, Format, Wide},
    whole_board::BoardTable,
};

/// AVX2 in int8.
#[derive(Debug)]
pub(crate) struct Avx2Int8;

/// `ROWS` rows of A times 16 columns of a panel in groups of four. The products of `GROUPS` groups
/// are added in 16 bits.
///
/// # Safety
/// As [`Kernels::tall_product`] for these rows and columns.
#[target_feature(enable = "avx2")]
unsafe fn rows<const ROWS: usize, const GROUPS: usize>(operands: &Operands<SmallByte>) {
    let &Operands { a, stride, offsets, b, c } = operands;
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

/// All columns of `rows` rows, with sums of `GROUPS` groups in 16 bits, for which the weights must be
/// small enough.
///
/// # Safety
/// As [`Kernels::tall_product`].
unsafe fn all_rows<const GROUPS: usize>(operands: &Operands<SmallByte>, rows: usize) {
    for half in [0, 1] {
        // SAFETY: the caller's promise, for the rows and columns of each call.
        unsafe {
            let (b, c) = (operands.b.add(half * 512), operands.c.add(half * 16));
            let columns = Operands { b, c, ..*operands };
            by_rows!([4, 2, 1], columns, rows, |part, COUNT| self::rows::<COUNT, GROUPS>(part));
        }
    }
}

impl Format<__m256, 4> for SmallByte {
    #[inline(always)]
    unsafe fn read(from: *const SmallByte) -> __m256 {
        // SAFETY: the caller's promise.
        unsafe { _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(from.cast()))) }
    }

    #[inline(always)]
    unsafe fn write(values: __m256, to: *mut SmallByte) {
        // SAFETY: the caller's promise. Packing clips to 0..=255.
        unsafe {
            let whole = _mm256_cvtps_epi32(values);
            let (low, high) = (_mm256_castsi256_si128(whole), _mm256_extracti128_si256::<1>(whole));
            let words = _mm_packs_epi32(low, high);
            _mm_storel_epi64(to.cast(), _mm_packus_epi16(words, words));
        }
    }

    #[inline(always)]
    unsafe fn write_row(values: [__m256; 4], to: *mut SmallByte) {
        // SAFETY: the caller's promise.
        unsafe {
            let low =
                _mm256_packs_epi32(_mm256_cvtps_epi32(values[0]), _mm256_cvtps_epi32(values[1]));
            let high =
                _mm256_packs_epi32(_mm256_cvtps_epi32(values[2]), _mm256_cvtps_epi32(values[3]));
            // Packing treats the two halves of a vector separately; this restores the order.
            let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
            let bytes = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(low, high), order);
            _mm256_storeu_si256(to.cast(), bytes);
        }
    }

    #[inline(always)]
    unsafe fn finished(sums: *const f32, scale: __m256, bias: __m256) -> __m256 {
        // SAFETY: the caller's promise.
        unsafe {
            let sums = _mm256_cvtepi32_ps(_mm256_load_si256(sums.cast()));
            _mm256_fmadd_ps(sums, scale, bias)
        }
    }
}

// SAFETY: `choose` lets only machines with AVX2 and FMA get here.
unsafe impl Kernels for Avx2Int8 {
    type Element = SmallByte;
    type Guard = ();

    fn guard() -> Option<()> {
        Some(())
    }

    unsafe fn product(_: &(), operands: &Operands<SmallByte>) {
        // SAFETY: the caller's promise.
        unsafe { all_rows::<{ SmallByte::GROUPS }>(operands, BLOCK) }
    }

    unsafe fn tall_product(_: &(), operands: &Operands<SmallByte>, rows: usize, _narrow: bool) {
        // SAFETY: the caller's promise.
        unsafe { all_rows::<1>(operands, rows) }
    }

    compiled_for!("avx2,fma", SmallByte, __m256, 4, input::<__m256, SmallByte>);
    attention_in_vectors!("avx2,fma", SmallByte, __m256, 4);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::plain_integers::{check_stored, check_sums};

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
        if is_available("sums_are_stored_as_the_nearest_bytes") {
            check_stored::<Avx2Int8>();
        }
    }
}
