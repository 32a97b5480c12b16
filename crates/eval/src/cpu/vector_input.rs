//! The input layer in vectors of eight lanes: AVX2's, and NEON's pairs.

use super::{
    input::{Job, PADDED_RANK, padded_square, squares_at_once},
    layout::{BLOCK, Store},
    vectors::{Format, Vector},
};

/// [`Kernels::input`](super::kernels::Kernels::input), by the number of vectors of the job.
///
/// # Safety
/// As there.
#[inline(always)]
pub(super) unsafe fn input<V: Vector, E: Format<V, 4>>(
    job: &Job,
    relu: bool,
    states: &[u8; 64],
    out: *mut E,
    store: &Store,
) {
    const { assert!(V::LANES == 8) };
    // SAFETY: the caller's promise.
    unsafe {
        match job.lanes() / 8 {
            1 => groups::<V, E, 1, { squares_at_once(1) }>(job, relu, states, out, store),
            2 => groups::<V, E, 2, { squares_at_once(2) }>(job, relu, states, out, store),
            3 => groups::<V, E, 3, { squares_at_once(3) }>(job, relu, states, out, store),
            4 => groups::<V, E, 4, { squares_at_once(4) }>(job, relu, states, out, store),
            5 => groups::<V, E, 5, { squares_at_once(5) }>(job, relu, states, out, store),
            6 => groups::<V, E, 6, { squares_at_once(6) }>(job, relu, states, out, store),
            7 => groups::<V, E, 7, { squares_at_once(7) }>(job, relu, states, out, store),
            _ => groups::<V, E, 8, { squares_at_once(8) }>(job, relu, states, out, store),
        }
    }
}

/// The input kernel for a job of `UNITS` vectors, `SQUARES` squares of a rank at a time. Vectors are
/// in loops and not in closures: these would not be compiled for the instructions of the caller.
///
/// # Safety
/// As [`input`]; `SQUARES` is `squares_at_once(UNITS)`.
#[inline(always)]
unsafe fn groups<V: Vector, E: Format<V, 4>, const UNITS: usize, const SQUARES: usize>(
    job: &Job,
    relu: bool,
    states: &[u8; 64],
    out: *mut E,
    store: &Store,
) {
    let table = job.table.as_ptr();
    let at: [usize; UNITS] = std::array::from_fn(|unit| {
        let position = if unit < 2 * job.full { job.full_at + 8 * unit } else { job.half_at };
        position / BLOCK * store.block_stride + position % BLOCK
    });
    // Offset in the table of each square's state. The last state is that of padding.
    let padding = job.table.as_slice().len() - job.state_stride;
    let mut offsets = [padding; 8 * PADDED_RANK];
    for (square, &state) in states.iter().enumerate() {
        offsets[padded_square(square)] = usize::from(state) * job.state_stride;
    }
    // SAFETY: there are `8 * UNITS` biases; the table has rows of `8 * UNITS` weights for each kernel
    // cell and state, padding included; `SQUARES` squares from each neighbour on are on the padded
    // board; the caller owns the target rows, and no vector straddles a block.
    unsafe {
        let floor = V::splat(if relu { 0.0 } else { f32::NEG_INFINITY });
        let mut bias = [floor; UNITS];
        for (unit, bias) in bias.iter_mut().enumerate() {
            *bias = V::load(job.bias.as_ptr().add(8 * unit));
        }
        for group in 0..64 / SQUARES {
            let mut sums = [bias; SQUARES];
            for &(neighbour, cell) in job.groups.of(group) {
                let cell = table.add(cell as usize);
                for (n, sums) in sums.iter_mut().enumerate() {
                    let row = cell.add(*offsets.get_unchecked(neighbour as usize + n));
                    for (unit, sum) in sums.iter_mut().enumerate() {
                        *sum = sum.add(V::load(row.add(8 * unit)));
                    }
                }
            }
            for (n, sums) in sums.iter().enumerate() {
                let square = group * SQUARES + n;
                for &target in &store.targets[square * store.copies..(square + 1) * store.copies] {
                    for (sum, at) in sums.iter().zip(at) {
                        E::write(sum.max(floor), out.add(target as usize + at));
                    }
                }
            }
        }
    }
}
