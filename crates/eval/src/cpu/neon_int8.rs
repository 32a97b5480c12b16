//! The int8 path of NEON: four-element products of signed bytes (`sdot`, the feature `dotprod` of
//! ARMv8.2).
//!
//! Activations are unsigned, so 128 is taken off them, and 128 times the sum of a column's weights is
//! added to its sums: `a w = (a - 128) w + 128 w`. All of it is exact, and the sums are those of
//! AVX-512's int8.

use std::arch::{aarch64::*, asm};

use nets::LeelaPlanes;

use super::{
    attention::Attend,
    elementwise::Elementwise,
    input::Job,
    kernels::{Destination, Kernels, Operands, attention_in_vectors, by_rows, compiled_for},
    layout::{BLOCK, Store},
    memory::Byte,
    neon::Pair,
    planes::PlaneWriter,
    recent_boards::RecentBoards,
    vector_input::input,
    vectors::{self, Format, Wide},
    whole_board::BoardTable,
};

/// NEON with `dotprod` in int8.
#[derive(Debug)]
pub(crate) struct NeonInt8;

/// Columns whose sums are in registers together.
const COLUMNS: usize = 8;

/// Adds to each of four sums the products of four of `weights` with the four of `a` at `LANE`. Stable
/// Rust has no intrinsic for it.
#[inline]
#[target_feature(enable = "neon,dotprod")]
pub(super) fn dot<const LANE: usize>(
    mut sums: int32x4_t,
    weights: int8x16_t,
    a: int8x16_t,
) -> int32x4_t {
    // SAFETY: the instruction reads and writes these registers only.
    unsafe {
        asm!("sdot {sums:v}.4s, {weights:v}.16b, {a:v}.4b[{lane}]",
            sums = inout(vreg) sums, weights = in(vreg) weights, a = in(vreg) a, lane = const LANE,
            options(pure, nomem, nostack, preserves_flags));
    }
    sums
}

/// The weights of a group of four inner elements and eight columns.
///
/// # Safety
/// 32 bytes are readable.
#[inline]
#[target_feature(enable = "neon,dotprod")]
unsafe fn weights_at(group: *const Byte) -> [int8x16_t; 2] {
    // SAFETY: the caller's promise.
    unsafe { [vld1q_s8(group.cast()), vld1q_s8(group.add(16).cast())] }
}

/// Adds the products of the group at `LANE` of the activations.
///
/// # Safety
/// As [`weights_at`].
#[inline]
#[target_feature(enable = "neon,dotprod")]
unsafe fn add_group<const LANE: usize, const ROWS: usize>(
    sums: &mut [[int32x4_t; 2]; ROWS],
    activations: &[int8x16_t; ROWS],
    group: *const Byte,
) {
    // SAFETY: the caller's promise.
    let weights = unsafe { weights_at(group) };
    for (sums, a) in sums.iter_mut().zip(activations) {
        for (sum, weights) in sums.iter_mut().zip(weights) {
            *sum = dot::<LANE>(*sum, weights, *a);
        }
    }
}

/// 128 times the sum of each column's weights.
///
/// # Safety
/// The operands' panel is valid for eight columns.
#[target_feature(enable = "neon,dotprod")]
unsafe fn offsets_of(operands: &Operands<Byte>) -> [int32x4_t; 2] {
    let ones = vdupq_n_s8(1);
    let mut sums = [vdupq_n_s32(0); 2];
    for group in 0..operands.offsets.len() * BLOCK / 4 {
        let (step, group) = (group / 8, group % 8);
        // SAFETY: the caller's promise.
        let weights = unsafe { weights_at(operands.b.add(step * BLOCK * BLOCK + 64 * group)) };
        for (sum, weights) in sums.iter_mut().zip(weights) {
            *sum = dot::<0>(*sum, weights, ones);
        }
    }
    [vshlq_n_s32::<7>(sums[0]), vshlq_n_s32::<7>(sums[1])]
}

/// `ROWS` rows of A times eight columns of a panel. The sums begin at `start`.
///
/// # Safety
/// As [`Kernels::tall_product`] for these rows and columns.
#[target_feature(enable = "neon,dotprod")]
unsafe fn rows<const ROWS: usize>(operands: &Operands<Byte>, start: [int32x4_t; 2]) {
    let &Operands { a, stride, offsets, b, c } = operands;
    let mut sums = [start; ROWS];
    for (step, &offset) in offsets.iter().enumerate() {
        for half in 0..2 {
            // SAFETY: the caller vouches for A's rows and the panel.
            unsafe {
                let a = a.byte_add(offset as usize + 16 * half);
                let mut activations = [vdupq_n_s8(0); ROWS];
                for (row, four_groups) in activations.iter_mut().enumerate() {
                    // Flipping the highest bit takes 128 off.
                    let unsigned = vld1q_u8(a.add(row * stride).cast());
                    *four_groups = vreinterpretq_s8_u8(veorq_u8(unsigned, vdupq_n_u8(128)));
                }
                let b = b.add(step * BLOCK * BLOCK + 256 * half);
                add_group::<0, ROWS>(&mut sums, &activations, b);
                add_group::<1, ROWS>(&mut sums, &activations, b.add(64));
                add_group::<2, ROWS>(&mut sums, &activations, b.add(128));
                add_group::<3, ROWS>(&mut sums, &activations, b.add(192));
            }
        }
    }
    for (row, sums) in sums.iter().enumerate() {
        // SAFETY: C has these rows of 32.
        unsafe {
            vst1q_s32(c.add(row * BLOCK).cast(), sums[0]);
            vst1q_s32(c.add(row * BLOCK + 4).cast(), sums[1]);
        }
    }
}

/// The nearest bytes; numbers outside 0..=255 become the nearest of these.
#[inline]
#[target_feature(enable = "neon")]
fn bytes(values: Pair) -> uint8x8_t {
    let [low, high] = [vcvtnq_u32_f32(values.0), vcvtnq_u32_f32(values.1)];
    vqmovn_u16(vcombine_u16(vqmovn_u32(low), vqmovn_u32(high)))
}

impl Format<Pair, 4> for Byte {
    #[inline(always)]
    unsafe fn read(from: *const Byte) -> Pair {
        // SAFETY: the caller's promise.
        unsafe {
            let words = vmovl_u8(vld1_u8(from.cast()));
            let [low, high] = [vmovl_u16(vget_low_u16(words)), vmovl_high_u16(words)];
            float32x4x2_t(vcvtq_f32_u32(low), vcvtq_f32_u32(high))
        }
    }

    #[inline(always)]
    unsafe fn write(values: Pair, to: *mut Byte) {
        // SAFETY: the caller's promise.
        unsafe { vst1_u8(to.cast(), bytes(values)) }
    }

    #[inline(always)]
    unsafe fn write_row(values: [Pair; 4], to: *mut Byte) {
        for (half, pairs) in values.as_chunks::<2>().0.iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe {
                let both = vcombine_u8(bytes(pairs[0]), bytes(pairs[1]));
                vst1q_u8(to.add(16 * half).cast(), both);
            }
        }
    }

    #[inline(always)]
    unsafe fn finished(sums: *const f32, scale: Pair, bias: Pair) -> Pair {
        // SAFETY: the caller's promise.
        unsafe {
            let [low, high] = [0, 4].map(|at| vcvtq_f32_s32(vld1q_s32(sums.add(at).cast())));
            float32x4x2_t(vfmaq_f32(bias.0, low, scale.0), vfmaq_f32(bias.1, high, scale.1))
        }
    }
}

// SAFETY: `choose` lets only machines with NEON and `dotprod` get here.
unsafe impl Kernels for NeonInt8 {
    type Element = Byte;
    type Guard = ();

    fn guard() -> Option<()> {
        Some(())
    }

    unsafe fn tall_product(_: &(), operands: &Operands<Byte>, rows: usize, _narrow: bool) {
        for column in (0..BLOCK).step_by(COLUMNS) {
            // SAFETY: the caller's promise, for the rows and columns of each call.
            unsafe {
                let b = operands.b.add(column / 16 * 512 + column % 16 * 4);
                let columns = Operands { b, c: operands.c.add(column), ..*operands };
                let start = offsets_of(&columns);
                by_rows!([8, 4, 2, 1], columns, rows, |part, COUNT| {
                    self::rows::<COUNT>(part, start);
                });
            }
        }
    }

    compiled_for!("neon", Byte, Pair, 4, input::<Pair, Byte>);
    attention_in_vectors!("neon", Byte, Pair, 4);
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

    /// Runs the check if the processor has the instructions.
    fn check(test: &str, run: fn()) {
        match CpuPath::Neon.obstacle(Precision::Int8) {
            None => run(),
            Some(obstacle) => board::testing::skip(test, &obstacle),
        }
    }

    #[test]
    fn sums_are_those_of_plain_integers() {
        check("neon_int8::sums_are_those_of_plain_integers", check_sums::<NeonInt8>);
    }

    #[test]
    fn sums_are_stored_as_the_nearest_bytes() {
        check("neon_int8::sums_are_stored_as_the_nearest_bytes", check_stored::<NeonInt8>);
    }
}
