//! The two bf16 paths: AVX-512 pair products, and tiles with AVX-512 for everything but products.

use std::{arch::x86_64::*, mem::transmute};

use nets::LeelaPlanes;

use super::{
    amx::Tiles,
    attention::Attend,
    avx512::{GroupedFormat, HalfFormat, grouped_product, input},
    elementwise::Elementwise,
    input::Job,
    kernels::{Destination, Kernels, Operands, attention_in_vectors, by_rows, compiled_for},
    layout::Store,
    memory::Bf16,
    planes::PlaneWriter,
    recent_boards::RecentBoards,
    tiled_attention,
    vectors::{self, Format, Wide},
    whole_board::BoardTable,
};

/// AVX-512 in bf16.
#[derive(Debug)]
pub(crate) struct Avx512Bf16;

/// Tiles in bf16; AVX-512 for all kernels but the products.
#[derive(Debug)]
pub(crate) struct Tiled;

impl Format<__m512, 2> for Bf16 {
    #[inline(always)]
    unsafe fn read(from: *const Bf16) -> __m512 {
        // SAFETY: the caller's promise.
        unsafe {
            let bits = _mm256_loadu_si256(from.cast());
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(bits)))
        }
    }

    #[inline(always)]
    unsafe fn write(values: __m512, to: *mut Bf16) {
        // SAFETY: the caller's promise; 16 bf16 are 256 bits.
        unsafe {
            let bits: __m256i = transmute(_mm512_cvtneps_pbh(values));
            _mm256_storeu_si256(to.cast(), bits);
        }
    }

    #[inline(always)]
    unsafe fn write_row(values: [__m512; 2], to: *mut Bf16) {
        // SAFETY: the caller's promise; 32 bf16 are 512 bits.
        unsafe {
            let bits: __m512i = transmute(_mm512_cvtne2ps_pbh(values[1], values[0]));
            _mm512_store_si512(to.cast(), bits);
        }
    }
}

impl HalfFormat for Bf16 {
    #[inline(always)]
    unsafe fn write_half(values: __m256, to: *mut Bf16) {
        // SAFETY: the caller's promise; 8 bf16 are 128 bits.
        unsafe {
            let bits: __m128i = transmute(_mm256_cvtneps_pbh(values));
            _mm_storeu_si128(to.cast(), bits);
        }
    }
}

impl GroupedFormat for Bf16 {
    #[inline(always)]
    unsafe fn multiply_add(sums: __m512i, a: __m512i, weights: __m512i) -> __m512i {
        // SAFETY: the caller's promise; any 32 bits are two bf16.
        unsafe {
            let a = transmute::<__m512i, __m512bh>(a);
            let weights = transmute::<__m512i, __m512bh>(weights);
            _mm512_castps_si512(_mm512_dpbf16_ps(_mm512_castsi512_ps(sums), a, weights))
        }
    }
}

/// `ROWS` rows of A times a panel.
///
/// # Safety
/// As [`Kernels::tall_product`] for these rows.
#[target_feature(enable = "avx512f,avx512bf16")]
unsafe fn rows<const ROWS: usize, const NARROW: bool>(operands: &Operands<Bf16>) {
    // SAFETY: the caller's promise.
    unsafe { grouped_product::<Bf16, ROWS, NARROW, 1>(operands) }
}

// SAFETY: `choose` lets only machines with AVX-512 F, BW, VL and BF16 get here.
unsafe impl Kernels for Avx512Bf16 {
    type Element = Bf16;
    type Guard = ();

    fn guard() -> Option<()> {
        Some(())
    }

    unsafe fn tall_product(_: &(), operands: &Operands<Bf16>, rows: usize, narrow: bool) {
        by_rows!([11, 10, 8, 4, 2, 1], operands, rows, |part, COUNT| {
            // SAFETY: the caller's promise, for these rows.
            unsafe {
                if narrow {
                    self::rows::<COUNT, true>(part);
                } else {
                    self::rows::<COUNT, false>(part);
                }
            }
        });
    }

    compiled_for!("avx512f,avx512bw,avx512vl,avx512bf16", Bf16, __m512, 2, input);
    attention_in_vectors!("avx512f,avx512bw,avx512vl,avx512bf16", Bf16, __m512, 2);
}

// SAFETY: `choose` lets only machines with bf16 tiles and AVX-512 F, BW, VL and BF16 get here.
unsafe impl Kernels for Tiled {
    type Element = Bf16;
    type Guard = Tiles;

    fn guard() -> Option<Tiles> {
        Tiles::configure()
    }

    unsafe fn product(tiles: &Tiles, operands: &Operands<Bf16>) {
        let &Operands { a, offsets, b, c, .. } = operands;
        // SAFETY: the caller's promise.
        unsafe { tiles.product_at(a.cast(), offsets, b.cast(), c) }
    }

    unsafe fn tall_product(tiles: &Tiles, operands: &Operands<Bf16>, rows: usize, narrow: bool) {
        let &Operands { a, stride, offsets, b, c } = operands;
        // SAFETY: the caller's promise; 32 rows are readable if there are more than 16.
        unsafe { tiles.tall_product(a.cast(), rows, 2 * stride, offsets, b.cast(), narrow, c) }
    }

    unsafe fn attend(
        tiles: &Tiles,
        step: &Attend,
        inputs: [*const Bf16; 3],
        board: *const Bf16,
        out: *mut Bf16,
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            if tiled_attention::fits(step) {
                tiled_attention::attend(step, tiles, inputs, board, out);
            } else {
                Avx512Bf16::attend(&(), step, inputs, board, out);
            }
        }
    }

    compiled_for!("avx512f,avx512bw,avx512vl,avx512bf16", Bf16, __m512, 2, input);
}
