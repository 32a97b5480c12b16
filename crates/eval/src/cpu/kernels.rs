//! What a code path must be able to do, and the portable path, which says in plain Rust what the
//! others do faster.

use std::marker::PhantomData;

use super::{
    elementwise::{Adjust, Elementwise},
    input::Job,
    layout::{BLOCK, Store},
    memory::Element,
};

/// The inner loops of one code path.
///
/// # Safety
/// Implementations may assume the machine has the path's instructions: callers check that before.
pub(crate) unsafe trait Kernels {
    /// Format of activations and packed weights.
    type Element: Element;
    /// What a thread must hold while it runs kernels.
    type Guard;

    /// Prepares the thread; `None` if the machine refuses.
    fn guard() -> Option<Self::Guard>;

    /// `c = A x B`: 32 rows of A one after the other (32 elements apart), step `s` of them
    /// `offsets[s]` bytes behind `a`; B is a packed panel of `offsets.len()` steps; `c` is 32 rows
    /// of 32 `f32`.
    ///
    /// # Safety
    /// The path's instructions exist; all memory named is valid; `c` is for the caller alone.
    unsafe fn product(
        guard: &Self::Guard,
        a: *const Self::Element,
        offsets: &[u32],
        b: *const Self::Element,
        c: *mut f32,
    );

    /// The same for `rows` rows of A that are `stride` elements apart; from 17 rows on, 32 are
    /// readable. Only the first 16 columns are needed if `narrow`. A row's result does not depend
    /// on the number of rows. Weights are packed for the one or for the other
    /// ([`Element::largest_sum`](super::memory::Element::largest_sum)).
    ///
    /// # Safety
    /// As [`Kernels::product`].
    #[expect(clippy::too_many_arguments, reason = "the operands of one product")]
    unsafe fn tall_product(
        guard: &Self::Guard,
        a: *const Self::Element,
        rows: usize,
        stride: usize,
        offsets: &[u32],
        b: *const Self::Element,
        narrow: bool,
        c: *mut f32,
    );

    /// Adds a residual, the bias and an activation to sums, in place: [`Adjust::run`].
    ///
    /// # Safety
    /// As there, and the path's instructions exist.
    unsafe fn adjust(adjust: &Adjust<Self::Element>, c: *mut f32, rows: usize);

    /// A step without weights for one board: [`Elementwise::run`].
    ///
    /// # Safety
    /// As there, and the path's instructions exist.
    unsafe fn elementwise(
        step: &Elementwise,
        inputs: [*const Self::Element; 2],
        out: *mut Self::Element,
    );

    /// Adds 32 biases to `rows` rows of `c` (quantised formats first multiply by `scale`), applies
    /// ReLU if asked, and stores row `r` at `out` plus each of `targets[r * copies..(r + 1) *
    /// copies]` elements.
    ///
    /// # Safety
    /// As [`Kernels::product`]; every target row of 32 elements is the caller's alone.
    #[expect(clippy::too_many_arguments, reason = "the operands of one step")]
    unsafe fn finish(
        c: *const f32,
        rows: usize,
        scale: *const f32,
        bias: *const f32,
        relu: bool,
        out: *mut Self::Element,
        targets: &[u32],
        copies: usize,
    );

    /// One job of the input layer for one board: 64 squares, each the bias and a row of the table
    /// for every tap. Stores as [`Kernels::finish`] does, channel blocks `store.block_stride`
    /// apart.
    ///
    /// # Safety
    /// As [`Kernels::finish`]; every entry of `states` is a state of the table's encoding.
    unsafe fn input(
        job: &Job,
        relu: bool,
        states: &[u8; 64],
        out: *mut Self::Element,
        store: &Store,
    );

    /// Sum over `blocks` blocks of 32 elements (`stride` elements apart) times consecutive weights.
    ///
    /// # Safety
    /// As [`Kernels::product`].
    unsafe fn dot(
        a: *const Self::Element,
        stride: usize,
        blocks: usize,
        weights: *const f32,
    ) -> f32;
}

/// [`Kernels::adjust`] and [`Kernels::elementwise`]: the plain code made into vectors of some
/// instructions.
#[cfg(target_arch = "x86_64")]
macro_rules! vectorised {
    ($element:ty, $features:literal) => {
        unsafe fn adjust(adjust: &Adjust<$element>, c: *mut f32, rows: usize) {
            #[target_feature(enable = $features)]
            unsafe fn run(adjust: &Adjust<$element>, c: *mut f32, rows: usize) {
                // SAFETY: the caller's promise.
                unsafe { adjust.run(c, rows) }
            }
            // SAFETY: the caller's promise.
            unsafe { run(adjust, c, rows) }
        }

        unsafe fn elementwise(
            step: &Elementwise,
            inputs: [*const $element; 2],
            out: *mut $element,
        ) {
            #[target_feature(enable = $features)]
            unsafe fn run(step: &Elementwise, inputs: [*const $element; 2], out: *mut $element) {
                // SAFETY: the caller's promise.
                unsafe { step.run(inputs, out) }
            }
            // SAFETY: the caller's promise.
            unsafe { run(step, inputs, out) }
        }
    };
}

/// Runs `$call` over all rows, as many at a time as the list allows (a block of 32 is 11, 11 and 10
/// for a list from 11 on); a row's arithmetic is the same in each.
#[cfg(target_arch = "x86_64")]
macro_rules! by_rows {
    ([$($n:literal),+], $rows:expr, |$first:ident, $count:ident| $call:expr) => {
        let mut $first = 0;
        while $first < $rows {
            let left = $rows - $first;
            $(if left >= $n {
                const $count: usize = $n;
                $call;
                $first += $n;
                continue;
            })+
        }
    };
}

#[cfg(target_arch = "x86_64")]
pub(crate) use {by_rows, vectorised};

/// Plain Rust over activations and weights of a format that is not quantised. In bf16 it is slower
/// than in `f32`, and there to say what the others must: sums in `f32`, rounded once, when a
/// layer's output is stored.
#[derive(Debug)]
pub(crate) struct Portable<E = f32>(PhantomData<E>);

// SAFETY: uses no special instructions.
unsafe impl<E: Element> Kernels for Portable<E> {
    type Element = E;
    type Guard = ();

    fn guard() -> Option<()> {
        const { assert!(!E::QUANTISED, "sums of a quantised format are integers") };
        Some(())
    }

    unsafe fn product(guard: &(), a: *const E, offsets: &[u32], b: *const E, c: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe { Self::tall_product(guard, a, BLOCK, BLOCK, offsets, b, false, c) }
    }

    unsafe fn tall_product(
        _: &(),
        a: *const E,
        rows: usize,
        stride: usize,
        offsets: &[u32],
        b: *const E,
        _narrow: bool,
        c: *mut f32,
    ) {
        let mut panel = [[0.0_f32; BLOCK]; BLOCK];
        for (step, &offset) in offsets.iter().enumerate() {
            // SAFETY: the caller vouches for the panel's `32 x 32` numbers of this step.
            let packed =
                unsafe { std::slice::from_raw_parts(b.add(step * BLOCK * BLOCK), BLOCK * BLOCK) };
            for (k, weights) in panel.iter_mut().enumerate() {
                *weights = std::array::from_fn(|column| packed[E::panel_index(k, column)].to_f32());
            }
            for row in 0..rows {
                // SAFETY: the caller vouches for A's rows; `c` has 32 rows of 32.
                let (values, place) = unsafe {
                    let values = a.add(row * stride).byte_add(offset as usize);
                    (
                        std::slice::from_raw_parts(values, BLOCK),
                        c.add(row * BLOCK).cast::<[f32; BLOCK]>(),
                    )
                };
                // SAFETY: as above; from the second step on there are sums.
                let mut sums = if step == 0 { [0.0; BLOCK] } else { unsafe { place.read() } };
                for (value, weights) in values.iter().zip(&panel) {
                    let value = value.to_f32();
                    sums.iter_mut().zip(weights).for_each(|(sum, weight)| *sum += value * weight);
                }
                // SAFETY: as above.
                unsafe { place.write(sums) };
            }
        }
    }

    unsafe fn finish(
        c: *const f32,
        rows: usize,
        _scale: *const f32,
        bias: *const f32,
        relu: bool,
        out: *mut E,
        targets: &[u32],
        copies: usize,
    ) {
        // SAFETY: 32 biases, as the caller promises.
        let bias = unsafe { bias.cast::<[f32; BLOCK]>().read() };
        for (row, targets) in targets.chunks_exact(copies).take(rows).enumerate() {
            // SAFETY: `c` has `rows` rows of 32.
            let sums = unsafe { c.add(row * BLOCK).cast::<[f32; BLOCK]>().read() };
            let values: [E; BLOCK] = std::array::from_fn(|column| {
                let sum = sums[column] + bias[column];
                E::stored(if relu { sum.max(0.0) } else { sum })
            });
            for &target in targets {
                // SAFETY: the caller owns the target rows.
                unsafe { out.add(target as usize).cast::<[E; BLOCK]>().write(values) };
            }
        }
    }

    unsafe fn adjust(adjust: &Adjust<E>, c: *mut f32, rows: usize) {
        // SAFETY: the caller's promise.
        unsafe { adjust.run(c, rows) }
    }

    unsafe fn elementwise(step: &Elementwise, inputs: [*const E; 2], out: *mut E) {
        // SAFETY: the caller's promise.
        unsafe { step.run(inputs, out) }
    }

    unsafe fn input(job: &Job, relu: bool, states: &[u8; 64], out: *mut E, store: &Store) {
        let lanes = job.lanes();
        let (bias, table) = (&job.bias.as_slice()[..lanes], job.table.as_slice());
        let (mut sums, mut stored) = ([0.0_f32; 64], [E::default(); 64]);
        for square in 0..64 {
            let sums = &mut sums[..lanes];
            sums.copy_from_slice(bias);
            for &(neighbour, cell) in job.squares.of(square) {
                let state = usize::from(states[neighbour as usize]);
                let row = &table[cell as usize + state * job.state_stride..][..lanes];
                sums.iter_mut().zip(row).for_each(|(sum, weight)| *sum += weight);
            }
            for (stored, &sum) in stored.iter_mut().zip(&*sums) {
                *stored = E::stored(if relu { sum.max(0.0) } else { sum });
            }
            let parts = (0..job.full)
                .map(|vector| (job.full_at + 16 * vector, &stored[16 * vector..16 * vector + 16]))
                .chain(job.half.then(|| (job.half_at, &stored[16 * job.full..lanes])));
            for (position, values) in parts {
                let block = position / BLOCK * store.block_stride + position % BLOCK;
                for &target in &store.targets[square * store.copies..(square + 1) * store.copies] {
                    // SAFETY: the caller owns the target rows; a vector does not straddle a block.
                    unsafe {
                        let place = out.add(block + target as usize);
                        place.copy_from_nonoverlapping(values.as_ptr(), values.len());
                    }
                }
            }
        }
    }

    unsafe fn dot(a: *const E, stride: usize, blocks: usize, weights: *const f32) -> f32 {
        let mut sums = [0.0_f32; 8];
        for block in 0..blocks {
            for index in 0..BLOCK {
                // SAFETY: the caller vouches for `blocks` blocks of 32.
                unsafe {
                    let value = (*a.add(block * stride + index)).to_f32();
                    sums[index % 8] += value * *weights.add(block * BLOCK + index);
                }
            }
        }
        sums.iter().sum()
    }
}
