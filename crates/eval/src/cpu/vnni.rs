//! The int8 path of AVX-512: four-element products of unsigned activations and signed weights
//! (VNNI).

use std::arch::x86_64::*;

use nets::LeelaPlanes;

use super::{
    attention::Attend,
    avx512::{GroupedFormat, HalfFormat, grouped_product, input},
    elementwise::Elementwise,
    input::Job,
    kernels::{Destination, Kernels, Operands, attention_in_vectors, by_rows, compiled_for},
    layout::Store,
    memory::Byte,
    planes::PlaneWriter,
    recent_boards::RecentBoards,
    vectors::{self, Format, Wide},
    whole_board::BoardTable,
};

/// AVX-512 with VNNI in int8.
#[derive(Debug)]
pub(crate) struct Avx512Int8;

/// Rounds to the nearest integer and clips to 0..=255.
#[inline]
#[target_feature(enable = "avx512f")]
fn bytes(values: __m512) -> __m128i {
    let whole = _mm512_cvtps_epi32(values);
    _mm512_cvtusepi32_epi8(_mm512_max_epi32(whole, _mm512_setzero_si512()))
}

impl Format<__m512, 2> for Byte {
    #[inline(always)]
    unsafe fn read(from: *const Byte) -> __m512 {
        // SAFETY: the caller's promise.
        unsafe { _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(from.cast()))) }
    }

    #[inline(always)]
    unsafe fn write(values: __m512, to: *mut Byte) {
        // SAFETY: the caller's promise.
        unsafe { _mm_storeu_si128(to.cast(), bytes(values)) }
    }

    #[inline(always)]
    unsafe fn write_row(values: [__m512; 2], to: *mut Byte) {
        // SAFETY: the caller's promise.
        unsafe {
            let both = _mm256_set_m128i(bytes(values[1]), bytes(values[0]));
            _mm256_storeu_si256(to.cast(), both);
        }
    }

    #[inline(always)]
    unsafe fn finished(sums: *const f32, scale: __m512, bias: __m512) -> __m512 {
        // SAFETY: the caller's promise.
        unsafe {
            let sums = _mm512_cvtepi32_ps(_mm512_load_si512(sums.cast()));
            _mm512_fmadd_ps(sums, scale, bias)
        }
    }
}

impl HalfFormat for Byte {
    #[inline(always)]
    unsafe fn write_half(values: __m256, to: *mut Byte) {
        // SAFETY: the caller's promise.
        unsafe { _mm_storel_epi64(to.cast(), bytes(_mm512_castps256_ps512(values))) }
    }
}

impl GroupedFormat for Byte {
    #[inline(always)]
    unsafe fn multiply_add(sums: __m512i, a: __m512i, weights: __m512i) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe { _mm512_dpbusd_epi32(sums, a, weights) }
    }
}

/// `ROWS` rows of A times a panel.
///
/// # Safety
/// As [`Kernels::tall_product`] for these rows.
#[target_feature(enable = "avx512f,avx512vnni")]
unsafe fn rows<const ROWS: usize>(operands: &Operands<Byte>) {
    // SAFETY: the caller's promise.
    unsafe {
        match ROWS {
            1 => grouped_product::<Byte, ROWS, false, 4>(operands),
            2 => grouped_product::<Byte, ROWS, false, 2>(operands),
            _ => grouped_product::<Byte, ROWS, false, 1>(operands),
        }
    }
}

// SAFETY: `choose` lets only machines with AVX-512 F, BW, VL and VNNI get here.
unsafe impl Kernels for Avx512Int8 {
    type Element = Byte;
    type Guard = ();

    fn guard() -> Option<()> {
        Some(())
    }

    unsafe fn tall_product(_: &(), operands: &Operands<Byte>, rows: usize, _narrow: bool) {
        by_rows!([11, 10, 8, 4, 2, 1], operands, rows, |part, COUNT| {
            // SAFETY: the caller's promise, for these rows.
            unsafe { self::rows::<COUNT>(part) }
        });
    }

    compiled_for!("avx512f,avx512bw,avx512vl", Byte, __m512, 2, input);
    attention_in_vectors!("avx512f,avx512bw,avx512vl", Byte, __m512, 2);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Precision,
        cpu::{
            CpuPath,
            plain_integers::{check_stored, check_sums},
        },
    };

    #[test]
    fn sums_are_those_of_plain_integers() {
        match CpuPath::Avx512.obstacle(Precision::Int8) {
            None => check_sums::<Avx512Int8>(),
            Some(obstacle) => {
                board::testing::skip("vnni::sums_are_those_of_plain_integers", &obstacle)
            }
        }
    }

    #[test]
    fn sums_are_stored_as_the_nearest_bytes() {
        match CpuPath::Avx512.obstacle(Precision::Int8) {
            None => check_stored::<Avx512Int8>(),
            Some(obstacle) => {
                board::testing::skip("vnni::sums_are_stored_as_the_nearest_bytes", &obstacle)
            }
        }
    }
}
