//! What a code path must be able to do, and the portable path, which says in plain Rust what the others do faster.

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

    /// `c = A x B`: 32 rows of A one after the other (32 elements apart), step `s` of them `offsets[s]` bytes behind
    /// `a`; B is a packed panel of `offsets.len()` steps; `c` is 32 rows of 32 `f32`.
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

    /// The same for `rows` rows of A that are `stride` elements apart; from 17 rows on, 32 are readable. Only the first 16
    /// columns are needed if `narrow`. A row's result does not depend on the number of rows.
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
    unsafe fn elementwise(step: &Elementwise, inputs: [*const Self::Element; 2], out: *mut Self::Element);

    /// Adds 32 biases to `rows` rows of `c` (quantised formats first multiply by `scale`), applies ReLU if asked, and
    /// stores row `r` at `out` plus each of `targets[r * copies..(r + 1) * copies]` elements.
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

    /// One job of the input layer for one board: 64 squares, each the bias and a row of the table for every tap.
    /// Stores as [`Kernels::finish`] does, channel blocks `store.block_stride` apart.
    ///
    /// # Safety
    /// As [`Kernels::finish`]; every entry of `states` is a state of the table's encoding.
    unsafe fn input(job: &Job, relu: bool, states: &[u8; 64], out: *mut Self::Element, store: &Store);

    /// Sum over `blocks` blocks of 32 elements (`stride` elements apart) times consecutive weights.
    ///
    /// # Safety
    /// As [`Kernels::product`].
    unsafe fn dot(a: *const Self::Element, stride: usize, blocks: usize, weights: *const f32) -> f32;
}

/// [`Kernels::adjust`] and [`Kernels::elementwise`]: the plain code made into vectors of some instructions.
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

        unsafe fn elementwise(step: &Elementwise, inputs: [*const $element; 2], out: *mut $element) {
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

/// Runs `$call` over all rows, as many at a time as the list allows (a block of 32 is 11, 11 and 10 for a list from 11
/// on); a row's arithmetic is the same in each.
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

/// Plain Rust in `f32`.
#[derive(Debug)]
pub(crate) struct Portable;

// SAFETY: uses no special instructions.
unsafe impl Kernels for Portable {
    type Element = f32;
    type Guard = ();

    fn guard() -> Option<()> {
        Some(())
    }

    unsafe fn product(guard: &(), a: *const f32, offsets: &[u32], b: *const f32, c: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe { Self::tall_product(guard, a, BLOCK, BLOCK, offsets, b, false, c) }
    }

    unsafe fn tall_product(
        _: &(),
        a: *const f32,
        rows: usize,
        stride: usize,
        offsets: &[u32],
        b: *const f32,
        _narrow: bool,
        c: *mut f32,
    ) {
        for row in 0..rows {
            let mut sums = [0.0_f32; BLOCK];
            for (step, &offset) in offsets.iter().enumerate() {
                // SAFETY: the caller vouches for A's rows and the panel's `32 x 32` numbers of this step.
                let (values, panel) = unsafe {
                    let values = a.add(row * stride).byte_add(offset as usize);
                    let panel = b.add(step * BLOCK * BLOCK);
                    (
                        std::slice::from_raw_parts(values, BLOCK),
                        std::slice::from_raw_parts(panel, BLOCK * BLOCK),
                    )
                };
                for (value, weights) in values.iter().zip(panel.chunks_exact(BLOCK)) {
                    for (sum, weight) in sums.iter_mut().zip(weights) {
                        *sum += value * weight;
                    }
                }
            }
            // SAFETY: `c` has 32 rows of 32.
            unsafe { c.add(row * BLOCK).cast::<[f32; BLOCK]>().write(sums) };
        }
    }

    unsafe fn finish(
        c: *const f32,
        rows: usize,
        _scale: *const f32,
        bias: *const f32,
        relu: bool,
        out: *mut f32,
        targets: &[u32],
        copies: usize,
    ) {
        // SAFETY: 32 biases, as the caller promises.
        let bias = unsafe { bias.cast::<[f32; BLOCK]>().read() };
        for (row, targets) in targets.chunks_exact(copies).take(rows).enumerate() {
            // SAFETY: `c` has `rows` rows of 32.
            let mut values = unsafe { c.add(row * BLOCK).cast::<[f32; BLOCK]>().read() };
            for (value, bias) in values.iter_mut().zip(bias) {
                let sum = *value + bias;
                *value = if relu { sum.max(0.0) } else { sum };
            }
            for &target in targets {
                // SAFETY: the caller owns the target rows.
                unsafe { out.add(target as usize).cast::<[f32; BLOCK]>().write(values) };
            }
        }
    }

    unsafe fn adjust(adjust: &Adjust<f32>, c: *mut f32, rows: usize) {
        // SAFETY: the caller's promise.
        unsafe { adjust.run(c, rows) }
    }

    unsafe fn elementwise(step: &Elementwise, inputs: [*const f32; 2], out: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe { step.run(inputs, out) }
    }

    unsafe fn input(job: &Job, relu: bool, states: &[u8; 64], out: *mut f32, store: &Store) {
        let lanes = job.lanes();
        let (bias, table) = (&job.bias.as_slice()[..lanes], job.table.as_slice());
        let mut sums = [0.0_f32; 64];
        for square in 0..64 {
            let sums = &mut sums[..lanes];
            sums.copy_from_slice(bias);
            for &(neighbour, cell) in
                &job.taps[usize::from(job.starts[square])..usize::from(job.starts[square + 1])]
            {
                let state = usize::from(states[neighbour as usize]);
                let row = &table[cell as usize + state * lanes..][..lanes];
                sums.iter_mut().zip(row).for_each(|(sum, weight)| *sum += weight);
            }
            if relu {
                sums.iter_mut().for_each(|sum| *sum = sum.max(0.0));
            }
            let parts = (0..job.full)
                .map(|vector| (job.full_at + 16 * vector, &sums[16 * vector..16 * vector + 16]))
                .chain(job.half.then(|| (job.half_at, &sums[16 * job.full..])));
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

    unsafe fn dot(a: *const f32, stride: usize, blocks: usize, weights: *const f32) -> f32 {
        let mut sums = [0.0_f32; 8];
        for block in 0..blocks {
            for index in 0..BLOCK {
                // SAFETY: the caller vouches for `blocks` blocks of 32.
                unsafe {
                    sums[index % 8] += *a.add(block * stride + index) * *weights.add(block * BLOCK + index);
                }
            }
        }
        sums.iter().sum()
    }
}
