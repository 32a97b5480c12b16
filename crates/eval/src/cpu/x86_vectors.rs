//! The vectors of AVX2 and AVX-512.

use std::arch::x86_64::*;

use super::vectors::Vector;

/// Implements [`Vector`] by the intrinsics of a width.
macro_rules! vector {
    ($vector:ty, $lanes:literal, $splat:ident, $load:ident, $store:ident, $add:ident, $mul:ident,
     $max:ident, $min:ident, $mul_add:ident, $rounded:ident, $power:ident, $reciprocal:ident,
     $sum:ident) => {
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
            unsafe fn mul(self, other: Self) -> Self {
                // SAFETY: the caller's promise.
                unsafe { $mul(self, other) }
            }
            #[inline(always)]
            unsafe fn max(self, other: Self) -> Self {
                // SAFETY: the caller's promise.
                unsafe { $max(self, other) }
            }
            #[inline(always)]
            unsafe fn min(self, other: Self) -> Self {
                // SAFETY: the caller's promise.
                unsafe { $min(self, other) }
            }
            #[inline(always)]
            unsafe fn rounded(self) -> Self {
                // SAFETY: the caller's promise.
                unsafe { $rounded(self) }
            }
            #[inline(always)]
            unsafe fn power_of_two(self) -> Self {
                // SAFETY: the caller's promise.
                unsafe { $power(self) }
            }
            #[inline(always)]
            unsafe fn rough_reciprocal(self) -> Self {
                // SAFETY: the caller's promise.
                unsafe { $reciprocal(self) }
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
    _mm256_mul_ps,
    _mm256_max_ps,
    _mm256_min_ps,
    _mm256_fmadd_ps,
    rounded_8,
    powers_of_8,
    _mm256_rcp_ps,
    sum_of_8
);

vector!(
    __m512,
    16,
    _mm512_set1_ps,
    _mm512_loadu_ps,
    _mm512_storeu_ps,
    _mm512_add_ps,
    _mm512_mul_ps,
    _mm512_max_ps,
    _mm512_min_ps,
    _mm512_fmadd_ps,
    rounded_16,
    powers_of_16,
    _mm512_rcp14_ps,
    _mm512_reduce_add_ps
);

#[inline]
#[target_feature(enable = "avx2")]
fn rounded_8(values: __m256) -> __m256 {
    _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(values)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn rounded_16(values: __m512) -> __m512 {
    _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(values)
}

/// Puts the exponents into place.
#[inline]
#[target_feature(enable = "avx2")]
fn powers_of_8(exponents: __m256) -> __m256 {
    let biased = _mm256_add_epi32(_mm256_cvtps_epi32(exponents), _mm256_set1_epi32(127));
    _mm256_castsi256_ps(_mm256_slli_epi32::<23>(biased))
}

/// As [`powers_of_8`].
#[inline]
#[target_feature(enable = "avx512f")]
fn powers_of_16(exponents: __m512) -> __m512 {
    _mm512_scalef_ps(_mm512_set1_ps(1.0), exponents)
}

/// Sum of the lanes.
#[inline]
#[target_feature(enable = "avx2")]
fn sum_of_8(values: __m256) -> f32 {
    let half = _mm_add_ps(_mm256_castps256_ps128(values), _mm256_extractf128_ps::<1>(values));
    let quarter = _mm_add_ps(half, _mm_movehl_ps(half, half));
    _mm_cvtss_f32(_mm_add_ss(quarter, _mm_movehdup_ps(quarter)))
}
