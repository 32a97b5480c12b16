//! The int8 path of AVX-512: four-element products of unsigned activations and signed weights
//! (VNNI).

use std::arch::x86_64::*;

use super::{
    avx512::input_kernel,
    elementwise::{Adjust, Elementwise},
    input::Job,
    kernels::{Kernels, by_rows, vectorised},
    layout::{BLOCK, Store},
    memory::Byte,
};

/// AVX-512 with VNNI in int8.
#[derive(Debug)]
pub(crate) struct Avx512Int8;

/// `ROWS` rows of A times a panel in groups of four; sums are `i32`, stored as their bits.
///
/// # Safety
/// As [`Kernels::tall_product`] for these rows.
#[target_feature(enable = "avx512f,avx512vnni")]
unsafe fn rows<const ROWS: usize>(
    a: *const Byte,
    stride: usize,
    offsets: &[u32],
    b: *const Byte,
    c: *mut f32,
) {
    let mut sums = [[_mm512_setzero_si512(); 2]; ROWS];
    for (step, &offset) in offsets.iter().enumerate() {
        // SAFETY: the caller vouches for A's rows, the panel and C.
        unsafe {
            let a = a.byte_add(offset as usize);
            let b = b.add(step * BLOCK * BLOCK);
            for group in 0..BLOCK / 4 {
                let low = _mm512_load_si512(b.add(group * 64).cast());
                let high = _mm512_load_si512(b.add(512 + group * 64).cast());
                for (row, sums) in sums.iter_mut().enumerate() {
                    let four = a.add(row * stride + 4 * group).cast::<i32>().read_unaligned();
                    let four = _mm512_set1_epi32(four);
                    sums[0] = _mm512_dpbusd_epi32(sums[0], four, low);
                    sums[1] = _mm512_dpbusd_epi32(sums[1], four, high);
                }
            }
        }
    }
    for (row, sums) in sums.iter().enumerate() {
        // SAFETY: C has these rows of 32.
        unsafe {
            _mm512_store_si512(c.add(row * BLOCK).cast(), sums[0]);
            _mm512_store_si512(c.add(row * BLOCK + 16).cast(), sums[1]);
        }
    }
}

/// Rounds to the nearest, at least 0 and at most 255.
#[target_feature(enable = "avx512f")]
fn bytes(value: __m512) -> __m128i {
    let whole = _mm512_cvtps_epi32(value);
    _mm512_cvtusepi32_epi8(_mm512_max_epi32(whole, _mm512_setzero_si512()))
}

/// # Safety
/// As [`Kernels::finish`].
#[target_feature(enable = "avx512f")]
unsafe fn finish(
    c: *const f32,
    rows: usize,
    scale: *const f32,
    bias: *const f32,
    out: *mut Byte,
    targets: &[u32],
    copies: usize,
) {
    // SAFETY: 32 scales and biases, `rows` rows of C, and target rows, as the caller promises.
    unsafe {
        let scale = [_mm512_load_ps(scale), _mm512_load_ps(scale.add(16))];
        let bias = [_mm512_load_ps(bias), _mm512_load_ps(bias.add(16))];
        for (row, targets) in targets.chunks_exact(copies).take(rows).enumerate() {
            let value = |half: usize| {
                let sum =
                    _mm512_cvtepi32_ps(_mm512_load_si512(c.add(row * BLOCK + half * 16).cast()));
                bytes(_mm512_fmadd_ps(sum, scale[half], bias[half]))
            };
            let both = _mm256_set_m128i(value(1), value(0));
            for &target in targets {
                _mm256_storeu_si256(out.add(target as usize).cast(), both);
            }
        }
    }
}

/// # Safety
/// As [`Kernels::dot`].
#[target_feature(enable = "avx512f")]
unsafe fn dot(a: *const Byte, stride: usize, blocks: usize, weights: *const f32) -> f32 {
    let mut sum = _mm512_setzero_ps();
    for block in 0..blocks {
        for half in [0, 16] {
            // SAFETY: blocks of 32 elements and weights, as the caller promises.
            unsafe {
                let bits = _mm_loadu_si128(a.add(block * stride + half).cast());
                let values = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bits));
                sum = _mm512_fmadd_ps(
                    values,
                    _mm512_loadu_ps(weights.add(block * BLOCK + half)),
                    sum,
                );
            }
        }
    }
    _mm512_reduce_add_ps(sum)
}

input_kernel!(
    input_job,
    input,
    Byte,
    "avx512f,avx512vl",
    |place: *mut Byte, value: __m512| _mm_storeu_si128(place.cast(), bytes(value)),
    |place: *mut Byte, value: __m256| _mm_storel_epi64(
        place.cast(),
        bytes(_mm512_castps256_ps512(value))
    )
);

// SAFETY: `choose` lets only machines with AVX-512 F, BW, VL and VNNI get here.
unsafe impl Kernels for Avx512Int8 {
    type Element = Byte;
    type Guard = ();

    fn guard() -> Option<()> {
        Some(())
    }

    unsafe fn product(guard: &(), a: *const Byte, offsets: &[u32], b: *const Byte, c: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe { Self::tall_product(guard, a, BLOCK, BLOCK, offsets, b, false, c) }
    }

    unsafe fn tall_product(
        _: &(),
        a: *const Byte,
        rows: usize,
        stride: usize,
        offsets: &[u32],
        b: *const Byte,
        _narrow: bool,
        c: *mut f32,
    ) {
        // SAFETY: the caller's promise, for the rows of each call.
        unsafe {
            by_rows!([11, 10, 8, 4, 2, 1], rows, |first, COUNT| {
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

    unsafe fn finish(
        c: *const f32,
        rows: usize,
        scale: *const f32,
        bias: *const f32,
        _relu: bool,
        out: *mut Byte,
        targets: &[u32],
        copies: usize,
    ) {
        // SAFETY: the caller's promise. Unsigned bytes are clipped at zero in any case.
        unsafe { finish(c, rows, scale, bias, out, targets, copies) }
    }

    vectorised!(Byte, "avx512f,avx512bw,avx512vl");

    unsafe fn input(job: &Job, relu: bool, states: &[u8; 64], out: *mut Byte, store: &Store) {
        // SAFETY: the caller's promise.
        unsafe { input(job, relu, states, out, store) }
    }

    unsafe fn dot(a: *const Byte, stride: usize, blocks: usize, weights: *const f32) -> f32 {
        // SAFETY: the caller's promise.
        unsafe { dot(a, stride, blocks, weights) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Precision,
        cpu::{CpuPath, plain_integers::check_sums},
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
}
