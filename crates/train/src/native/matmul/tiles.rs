//! The assembly of the tile unit: one 32x32 block of a product over several segments, and the packing
//! of its operands.

use std::arch::x86_64::{
    __m256i, __m512i, _mm256_loadu_si256, _mm512_cvtepu16_epi32, _mm512_or_si512,
    _mm512_setzero_si512, _mm512_shuffle_i32x4, _mm512_slli_epi32, _mm512_storeu_si512,
    _mm512_unpackhi_epi32, _mm512_unpackhi_epi64, _mm512_unpacklo_epi32, _mm512_unpacklo_epi64,
};

use super::{BLOCK, Bf16, TileBlock};

/// # Safety
/// This thread's tiles are configured as [`eval::cpu::amx::Tiles`] does; every address that
/// `operands` reaches is valid; `steps` and `segments` are not zero.
#[inline]
pub unsafe fn block(operands: &TileBlock) {
    if operands.steps == 0 || operands.segments == 0 {
        return;
    }
    // SAFETY: the caller vouches for the memory and the configuration; tiles are clobbered.
    unsafe {
        std::arch::asm!(
            "mov {t0}, [{w}]",
            "mov {t1}, [{w} + 8]",
            "mov {t2}, {t1}",
            "shl {t2}, 4",
            "add {t2}, {t0}",
            "cmp qword ptr [{w} + 16], 0",
            "je 2f",
            "tileloadd tmm0, [{t0} + {t1}*1]",
            "tileloadd tmm1, [{t0} + {t1}*1 + 64]",
            "tileloadd tmm2, [{t2} + {t1}*1]",
            "tileloadd tmm3, [{t2} + {t1}*1 + 64]",
            "jmp 3f",
            "2:",
            "tilezero tmm0",
            "tilezero tmm1",
            "tilezero tmm2",
            "tilezero tmm3",
            "3:",
            "mov {t0}, [{w} + 24]",
            "mov {t1}, {t0}",
            "add {t1}, [{w} + 32]",
            "mov {a_stride}, [{w} + 40]",
            "mov {a_step}, [{w} + 48]",
            "mov {t2}, [{w} + 64]",
            "mov {t3}, {t2}",
            "add {t3}, [{w} + 72]",
            "mov {b_step}, [{w} + 80]",
            "mov {segments}, [{w} + 104]",
            "4:",
            "mov {count}, [{w} + 96]",
            "5:",
            "tileloadd tmm6, [{t2} + {line}*1]",
            "tileloadd tmm4, [{t0} + {a_stride}*1]",
            "tileloadd tmm7, [{t3} + {line}*1]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tileloadd tmm5, [{t1} + {a_stride}*1]",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "tdpbf16ps tmm3, tmm5, tmm7",
            "add {t0}, {a_step}",
            "add {t1}, {a_step}",
            "add {t2}, {b_step}",
            "add {t3}, {b_step}",
            "dec {count}",
            "jnz 5b",
            "add {t0}, [{w} + 56]",
            "add {t1}, [{w} + 56]",
            "add {t2}, [{w} + 88]",
            "add {t3}, [{w} + 88]",
            "dec {segments}",
            "jnz 4b",
            "mov {t0}, [{w}]",
            "mov {t1}, [{w} + 8]",
            "mov {t2}, {t1}",
            "shl {t2}, 4",
            "add {t2}, {t0}",
            "tilestored [{t0} + {t1}*1], tmm0",
            "tilestored [{t0} + {t1}*1 + 64], tmm1",
            "tilestored [{t2} + {t1}*1], tmm2",
            "tilestored [{t2} + {t1}*1 + 64], tmm3",
            w = in(reg) operands,
            line = in(reg) 64_usize,
            t0 = out(reg) _,
            t1 = out(reg) _,
            t2 = out(reg) _,
            t3 = out(reg) _,
            a_stride = out(reg) _,
            a_step = out(reg) _,
            b_step = out(reg) _,
            count = out(reg) _,
            segments = out(reg) _,
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack),
        );
    }
}

/// Interleaves 16 columns of two rows.
///
/// # Safety
/// Both rows are readable for 16 elements.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn pair(even: *const Bf16, odd: *const Bf16) -> __m512i {
    // SAFETY: as the caller says.
    let (even, odd) = unsafe {
        (_mm256_loadu_si256(even.cast::<__m256i>()), _mm256_loadu_si256(odd.cast::<__m256i>()))
    };
    _mm512_or_si512(
        _mm512_cvtepu16_epi32(even),
        _mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(odd)),
    )
}

/// # Safety
/// AVX-512 is there, sizes are multiples of 32, both slices hold `rows * columns`.
#[target_feature(enable = "avx512f")]
pub unsafe fn pack_right(source: &[Bf16], rows: usize, columns: usize, packed: &mut [Bf16]) {
    let (source, packed) = (source.as_ptr(), packed.as_mut_ptr());
    for strip in 0..columns / 16 {
        for p in 0..rows / 2 {
            // SAFETY: within both slices.
            unsafe {
                let even = source.add(2 * p * columns + strip * 16);
                let value = pair(even, even.add(columns));
                _mm512_storeu_si512(packed.add((strip * (rows / 2) + p) * 32).cast(), value);
            }
        }
    }
}

/// # Safety
/// AVX-512 is there, sizes are multiples of 32, both slices hold `rows * columns`.
#[target_feature(enable = "avx512f")]
pub unsafe fn pack_left(source: &[Bf16], rows: usize, columns: usize, packed: &mut [Bf16]) {
    let steps = rows / BLOCK;
    let (source, packed) = (source.as_ptr(), packed.as_mut_ptr());
    for step in 0..steps {
        for strip in 0..columns / 16 {
            let mut lines = [_mm512_setzero_si512(); 16];
            for (p, line) in lines.iter_mut().enumerate() {
                // SAFETY: within the source.
                unsafe {
                    let even = source.add((step * BLOCK + 2 * p) * columns + strip * 16);
                    *line = pair(even, even.add(columns));
                }
            }
            let lines = transpose(lines);
            let tile = (strip / 2 * steps + step) * 2 + strip % 2;
            for (i, line) in lines.into_iter().enumerate() {
                // SAFETY: within the packed slice.
                unsafe { _mm512_storeu_si512(packed.add(tile * 512 + i * 32).cast(), line) };
            }
        }
    }
}

/// Transposes 16x16 numbers of 32 bits.
#[inline]
#[target_feature(enable = "avx512f")]
fn transpose(r: [__m512i; 16]) -> [__m512i; 16] {
    let mut t = r;
    // Pairs of rows, then pairs of pairs, inside each 128-bit lane.
    for i in 0..8 {
        t[2 * i] = _mm512_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm512_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
    }
    let mut u = t;
    for i in 0..4 {
        u[4 * i] = _mm512_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
        u[4 * i + 1] = _mm512_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
        u[4 * i + 2] = _mm512_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
        u[4 * i + 3] = _mm512_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
    }
    // Lane l of u[4q + c] holds rows 4q..4q+4 of column 4l + c. Gathers the four q of each lane.
    let mut out = r;
    for c in 0..4 {
        let low_01 = _mm512_shuffle_i32x4::<0x44>(u[c], u[4 + c]);
        let high_01 = _mm512_shuffle_i32x4::<0xee>(u[c], u[4 + c]);
        let low_23 = _mm512_shuffle_i32x4::<0x44>(u[8 + c], u[12 + c]);
        let high_23 = _mm512_shuffle_i32x4::<0xee>(u[8 + c], u[12 + c]);
        out[c] = _mm512_shuffle_i32x4::<0x88>(low_01, low_23);
        out[4 + c] = _mm512_shuffle_i32x4::<0xdd>(low_01, low_23);
        out[8 + c] = _mm512_shuffle_i32x4::<0x88>(high_01, high_23);
        out[12 + c] = _mm512_shuffle_i32x4::<0xdd>(high_01, high_23);
    }
    out
}
