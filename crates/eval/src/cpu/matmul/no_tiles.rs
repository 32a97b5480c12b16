//! No tile unit: `Tiles::configure` never answers, so nothing here is reached.

use super::Bf16;

pub struct Walk {
    pub c: *mut f32,
    pub c_stride: usize,
    pub accumulate: usize,
    pub a: *const Bf16,
    pub a_low: usize,
    pub a_stride: usize,
    pub a_step: usize,
    pub a_jump: usize,
    pub b: *const Bf16,
    pub b_right: usize,
    pub b_step: usize,
    pub b_jump: usize,
    pub steps: usize,
    pub segments: usize,
}

/// # Safety
/// None needed.
pub unsafe fn block(_walk: &Walk) {}
