//! A row of 32 activations as one value, so that the steps between products are written once for
//! all paths: in plain numbers on the portable path, in vectors on the others.

use nets::Activation;

use super::{
    activation,
    layout::{BLOCK, Store},
    memory::Element,
};

/// 32 numbers that are read and written as activations in the format `E`.
///
/// # Safety
/// All methods need the instructions of the path. Pointers must be valid for 32 elements. Rows of
/// activations are written on a cache line, or on their size if that is smaller. In vectors an
/// activation may turn NaN into a number.
pub(crate) trait Row<E: Element>: Copy {
    unsafe fn splat(value: f32) -> Self;
    /// Activations.
    unsafe fn read(from: *const E) -> Self;
    /// Writes the nearest activations to a row, which is aligned to its size.
    unsafe fn write(self, to: *mut E);
    unsafe fn load(from: *const f32) -> Self;
    unsafe fn store(self, to: *mut f32);
    /// Sums of a product in units of the output: quantised formats multiply them by `scale`, all
    /// formats add `bias`.
    unsafe fn finished(sums: *const f32, scale: Self, bias: Self) -> Self;
    unsafe fn add(self, other: Self) -> Self;
    unsafe fn mul(self, other: Self) -> Self;
    unsafe fn max(self, other: Self) -> Self;
    /// `self * factor + summand`.
    unsafe fn mul_add(self, factor: Self, summand: Self) -> Self;
    /// The sum of all numbers.
    unsafe fn sum(self) -> f32;
    unsafe fn activated(self, activation: Activation) -> Self;
    /// `1 / (1 + e^-x)`.
    unsafe fn sigmoid(self) -> Self;
}

/// A row in plain Rust.
#[derive(Clone, Copy)]
pub(crate) struct Numbers([f32; BLOCK]);

impl Numbers {
    fn zip(self, other: Self, operation: impl Fn(f32, f32) -> f32) -> Self {
        Self(std::array::from_fn(|at| operation(self.0[at], other.0[at])))
    }
}

impl<E: Element> Row<E> for Numbers {
    unsafe fn splat(value: f32) -> Self {
        Self([value; BLOCK])
    }

    unsafe fn read(from: *const E) -> Self {
        // SAFETY: the caller's promise.
        Self(unsafe { from.cast::<[E; BLOCK]>().read() }.map(E::to_f32))
    }

    unsafe fn write(self, to: *mut E) {
        // SAFETY: the caller's promise.
        unsafe { to.cast::<[E; BLOCK]>().write(self.0.map(E::stored)) }
    }

    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller's promise.
        Self(unsafe { from.cast::<[f32; BLOCK]>().read() })
    }

    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe { to.cast::<[f32; BLOCK]>().write(self.0) }
    }

    unsafe fn finished(sums: *const f32, _: Self, bias: Self) -> Self {
        const { assert!(!E::QUANTISED, "sums of a quantised format are integers") };
        // SAFETY: the caller's promise.
        unsafe { <Self as Row<E>>::load(sums) }.zip(bias, |sum, bias| sum + bias)
    }

    unsafe fn add(self, other: Self) -> Self {
        self.zip(other, |one, other| one + other)
    }

    unsafe fn mul(self, other: Self) -> Self {
        self.zip(other, |one, other| one * other)
    }

    unsafe fn max(self, other: Self) -> Self {
        self.zip(other, f32::max)
    }

    unsafe fn mul_add(self, factor: Self, summand: Self) -> Self {
        self.zip(factor, |one, factor| one * factor).zip(summand, |one, other| one + other)
    }

    unsafe fn sum(self) -> f32 {
        self.0.iter().sum()
    }

    unsafe fn activated(mut self, activation: Activation) -> Self {
        activation::activate(activation, &mut self.0);
        self
    }

    unsafe fn sigmoid(self) -> Self {
        Self(self.0.map(|x| 1.0 / (1.0 + activation::exp(-x))))
    }
}

/// Writes a row to all its places in a board.
///
/// # Safety
/// As [`Row`]; `out` is a board of the store's layout, which has this cell and block.
#[inline(always)]
pub(crate) unsafe fn write<E: Element, R: Row<E>>(
    store: &Store,
    out: *mut E,
    (cell, block): (usize, usize),
    row: R,
) {
    for &target in &store.targets[cell * store.copies..(cell + 1) * store.copies] {
        // SAFETY: targets and blocks are within the layout.
        unsafe { row.write(out.add(block * store.block_stride + target as usize)) };
    }
}
