//! Memory that is aligned to cache lines, and the number formats of weights and activations.

use super::amx::{from_bf16, to_bf16};
use crate::use_large_pages;

/// One cache line. It gives a [`CacheLines`] its alignment.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// An array of numbers in whole cache lines.
pub(crate) struct CacheLines<T> {
    lines: Vec<Line>,
    element: std::marker::PhantomData<T>,
}

/// Types for which all bit patterns are values.
///
/// # Safety
/// Every bit pattern is valid and the size divides 64.
pub(crate) unsafe trait Plain: Copy + Default + Send + Sync + 'static {}
// SAFETY: all bit patterns of these numbers are values, of 1, 1, 2, 4 and 4 bytes.
unsafe impl Plain for Byte {}
// SAFETY: as above.
#[cfg(any(test, target_arch = "x86_64"))]
unsafe impl Plain for SmallByte {}
// SAFETY: as above.
unsafe impl Plain for Bf16 {}
// SAFETY: as above.
unsafe impl Plain for f32 {}
// SAFETY: as above.
unsafe impl Plain for u32 {}
// SAFETY: as above, of 2 bytes.
unsafe impl Plain for i16 {}

impl<T: Plain> CacheLines<T> {
    /// At least `count` zeros; the last line is filled up with zeros.
    pub fn zeroed(count: usize) -> Self {
        let count = (count * size_of::<T>()).div_ceil(64);
        let mut lines = Vec::with_capacity(count);
        use_large_pages(lines.spare_capacity_mut());
        lines.resize(count, Line([0; 64]));
        Self { lines, element: std::marker::PhantomData }
    }

    pub fn as_ptr(&self) -> *const T {
        self.lines.as_ptr().cast()
    }

    pub fn as_mut_ptr(&mut self) -> *mut T {
        self.lines.as_mut_ptr().cast()
    }

    pub fn as_mut_slice(&mut self) -> &mut [T] {
        // SAFETY: the lines are so many initialised `T`, of which all bit patterns are valid
        // (`Plain`), and they are borrowed exclusively.
        unsafe {
            std::slice::from_raw_parts_mut(
                self.lines.as_mut_ptr().cast(),
                self.lines.len() * 64 / size_of::<T>(),
            )
        }
    }

    pub fn as_slice(&self) -> &[T] {
        // SAFETY: as in `as_mut_slice`, but borrowed shared.
        unsafe {
            std::slice::from_raw_parts(
                self.lines.as_ptr().cast(),
                self.lines.len() * 64 / size_of::<T>(),
            )
        }
    }
}

impl<T> std::fmt::Debug for CacheLines<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} cache lines", self.lines.len())
    }
}

/// The upper half of an `f32`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(transparent)]
pub(crate) struct Bf16(pub u16);

/// An eight-bit integer, unsigned for activations and signed for weights, in units of a scale.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(transparent)]
pub(crate) struct Byte(pub u8);

/// As [`Byte`], but the weights are small enough for sums of products in 16 bits
/// ([`rounding`](super::rounding)).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(transparent)]
#[cfg(any(test, target_arch = "x86_64"))]
pub(crate) struct SmallByte(pub u8);

/// A number format of activations and weights.
pub(crate) trait Element: Plain + std::fmt::Debug {
    /// Are numbers integers in units of a scale?
    const QUANTISED: bool = false;
    /// The largest activation of a quantised format.
    const LARGEST: f32 = f32::INFINITY;
    /// The largest magnitude of a sum of weights of one sign whose products are added in 16 bits; 0
    /// for formats without such sums. `weights` are those of an output channel, in whole blocks of
    /// 32. `tall` says that they are for
    /// [`Kernels::tall_product`](super::kernels::Kernels::tall_product).
    fn largest_sum(_weights: &[f32], _tall: bool) -> f32 {
        0.0
    }
    /// The nearest weight, for quantised formats in units of the channel's scale.
    fn from_f32(value: f32) -> Self;
    /// The value of an activation.
    fn to_f32(self) -> f32;
    /// The nearest activation.
    #[inline(always)]
    fn stored(value: f32) -> Self {
        Self::from_f32(value)
    }
    /// Index of the weight (`k`, `column`) in a packed panel of 32 columns.
    fn panel_index(k: usize, column: usize) -> usize;
}

impl Element for Bf16 {
    #[inline(always)]
    fn from_f32(value: f32) -> Self {
        Self(to_bf16(value))
    }
    #[inline(always)]
    fn to_f32(self) -> f32 {
        from_bf16(self.0)
    }
    fn panel_index(k: usize, column: usize) -> usize {
        super::amx::b_index(k, column)
    }
}

impl Element for Byte {
    const QUANTISED: bool = true;
    const LARGEST: f32 = 255.0;
    #[inline(always)]
    fn from_f32(value: f32) -> Self {
        Self((value.round().clamp(-127.0, 127.0) as i8).cast_unsigned())
    }
    #[inline(always)]
    fn to_f32(self) -> f32 {
        f32::from(self.0)
    }
    #[inline(always)]
    fn stored(value: f32) -> Self {
        Self(value.round() as u8)
    }
    /// Four consecutive inner elements of a column are adjacent, as the four-element products need.
    fn panel_index(k: usize, column: usize) -> usize {
        k / 32 * 1024 + column / 16 * 512 + k % 32 / 4 * 64 + column % 16 * 4 + k % 4
    }
}

#[cfg(any(test, target_arch = "x86_64"))]
impl SmallByte {
    /// Groups of four weights whose products are added in 16 bits by
    /// [`Kernels::product`](super::kernels::Kernels::product); a tall product adds one group.
    pub const GROUPS: usize = 4;
}

#[cfg(any(test, target_arch = "x86_64"))]
impl Element for SmallByte {
    const QUANTISED: bool = true;
    const LARGEST: f32 = 255.0;
    /// Each 16-bit sum takes two weights of each group of four.
    fn largest_sum(weights: &[f32], tall: bool) -> f32 {
        let groups = if tall { 1 } else { Self::GROUPS };
        let mut largest = 0.0_f32;
        for part in weights.chunks_exact(4 * groups) {
            for pair in [0, 2] {
                let added = part.chunks_exact(4).flat_map(|four| &four[pair..pair + 2]);
                let [above, below] = added.fold([0.0_f32; 2], |[above, below], &weight| {
                    [above + weight.max(0.0), below - weight.min(0.0)]
                });
                largest = largest.max(above).max(below);
            }
        }
        largest
    }
    #[inline(always)]
    fn from_f32(value: f32) -> Self {
        Self(Byte::from_f32(value).0)
    }
    #[inline(always)]
    fn to_f32(self) -> f32 {
        f32::from(self.0)
    }
    #[inline(always)]
    fn stored(value: f32) -> Self {
        Self(value.round() as u8)
    }
    fn panel_index(k: usize, column: usize) -> usize {
        Byte::panel_index(k, column)
    }
}

impl Element for f32 {
    #[inline(always)]
    fn from_f32(value: f32) -> Self {
        value
    }
    #[inline(always)]
    fn to_f32(self) -> f32 {
        self
    }
    fn panel_index(k: usize, column: usize) -> usize {
        k * 32 + column
    }
}
