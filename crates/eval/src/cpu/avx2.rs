//! The AVX2 and FMA path in `f32`.

use std::arch::x86_64::__m256;

use nets::LeelaPlanes;

use super::{
    attention::Attend,
    elementwise::Elementwise,
    input::Job,
    kernels::{Destination, Kernels, Operands, attention_in_vectors, by_rows, compiled_for},
    layout::Store,
    planes::PlaneWriter,
    vector_input::input,
    vectors::{self, Wide},
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

// SAFETY: `choose` lets only machines with AVX2 and FMA get here.
unsafe impl Kernels for Avx2 {
    type Element = f32;
    type Guard = ();

    fn guard() -> Option<()> {
        Some(())
    }

    unsafe fn tall_product(_: &(), operands: &Operands<f32>, rows: usize, narrow: bool) {
        // SAFETY: the caller's promise, for the rows and columns of each call.
        unsafe {
            for columns in operands.sixteens(rows, narrow) {
                by_rows!([6, 2, 1], columns, rows, |part, COUNT| self::rows::<COUNT>(part));
            }
        }
    }

    compiled_for!("avx2,fma", f32, __m256, 4, input::<__m256, f32>);
    attention_in_vectors!("avx2,fma", f32, __m256, 4);
}
