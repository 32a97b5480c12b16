//! The NEON path in `f32`, for ARM processors of 64 bits, which all have these instructions.
//!
//! Its vector is a pair of registers. NEON has 32 registers of four lanes and AVX2 16 of eight, so
//! the kernels that fill AVX2's registers fill these as well.

use std::arch::aarch64::*;

use nets::LeelaPlanes;

use super::{
    attention::Attend,
    elementwise::Elementwise,
    input::Job,
    kernels::{
        Destination, Kernels, Operands, attention_in_vectors, by_rows, compiled_for,
        eight_lanes_in_f32,
    },
    layout::Store,
    planes::PlaneWriter,
    recent_boards::RecentBoards,
    vector_input::input,
    vectors::{self, Vector, Wide},
    whole_board::BoardTable,
};

/// NEON in `f32`.
#[derive(Debug)]
pub(crate) struct Neon;

/// The vector: two registers of four lanes.
pub(super) type Pair = float32x4x2_t;

/// An operation on both registers.
macro_rules! both {
    ($operation:ident, $($pair:ident),+) => {
        // SAFETY: the caller's promise.
        unsafe { float32x4x2_t($operation($($pair.0),+), $operation($($pair.1),+)) }
    };
}

impl Vector for Pair {
    const LANES: usize = 8;

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        // SAFETY: the caller's promise.
        let four = unsafe { vdupq_n_f32(value) };
        float32x4x2_t(four, four)
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller's promise.
        unsafe { float32x4x2_t(vld1q_f32(from), vld1q_f32(from.add(4))) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe {
            vst1q_f32(to, self.0);
            vst1q_f32(to.add(4), self.1);
        }
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        both!(vaddq_f32, self, other)
    }

    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        both!(vmulq_f32, self, other)
    }

    #[inline(always)]
    unsafe fn max(self, other: Self) -> Self {
        both!(vmaxq_f32, self, other)
    }

    #[inline(always)]
    unsafe fn min(self, other: Self) -> Self {
        both!(vminq_f32, self, other)
    }

    #[inline(always)]
    unsafe fn rounded(self) -> Self {
        both!(vrndnq_f32, self)
    }

    #[inline(always)]
    unsafe fn power_of_two(self) -> Self {
        both!(powers, self)
    }

    #[inline(always)]
    unsafe fn rough_reciprocal(self) -> Self {
        both!(reciprocals, self)
    }

    #[inline(always)]
    unsafe fn mul_add(self, factor: Self, sum: Self) -> Self {
        both!(vfmaq_f32, sum, self, factor)
    }

    #[inline(always)]
    unsafe fn sum(self) -> f32 {
        // SAFETY: the caller's promise.
        unsafe { vaddvq_f32(vaddq_f32(self.0, self.1)) }
    }
}

/// Puts the exponents into place.
#[inline]
#[target_feature(enable = "neon")]
fn powers(exponents: float32x4_t) -> float32x4_t {
    let biased = vaddq_s32(vcvtnq_s32_f32(exponents), vdupq_n_s32(127));
    vreinterpretq_f32_s32(vshlq_n_s32::<23>(biased))
}

/// The estimate is right to 2^-8, and a step of Newton's squares the error.
#[inline]
#[target_feature(enable = "neon")]
fn reciprocals(numbers: float32x4_t) -> float32x4_t {
    let estimate = vrecpeq_f32(numbers);
    vmulq_f32(estimate, vrecpsq_f32(numbers, estimate))
}

eight_lanes_in_f32!(Neon, "neon", Pair);
