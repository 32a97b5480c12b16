//! The portable path: what each kernel computes, in plain Rust. The other paths are compared with it.

use std::marker::PhantomData;

use nets::LeelaPlanes;

use super::{
    attention::Attend,
    elementwise::Elementwise,
    input::Job,
    kernels::{Destination, Kernels, Operands},
    layout::{BLOCK, Store},
    memory::Element,
    planes::PlaneWriter,
    recent_boards::RecentBoards,
    row::Numbers,
    whole_board::BoardTable,
};

/// Plain Rust for formats that are not quantised. Sums are `f32` and are rounded once, when a layer's
/// output is stored. It is slower in bf16 than in `f32`; bf16 is for tests of the other paths.
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

    unsafe fn tall_product(_: &(), operands: &Operands<E>, rows: usize, _narrow: bool) {
        let &Operands { a, stride, offsets, b, c } = operands;
        let mut panel = [[0.0_f32; BLOCK]; BLOCK];
        for (step, &offset) in offsets.iter().enumerate() {
            // SAFETY: the panel has `32 x 32` weights of this step.
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
                // SAFETY: as above; the first step has written the sums.
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

    unsafe fn finish(c: *const f32, rows: usize, to: &Destination<E>) {
        // SAFETY: the caller's promise.
        unsafe { to.finish::<Numbers>(c, rows) }
    }

    unsafe fn elementwise(step: &Elementwise, inputs: [*const E; 2], out: *mut E) {
        // SAFETY: the caller's promise.
        unsafe { step.run::<E, Numbers>(inputs, out) }
    }

    unsafe fn attend(_: &(), step: &Attend, inputs: [*const E; 3], board: *const E, out: *mut E) {
        // SAFETY: the caller's promise.
        unsafe { step.run::<E, Numbers, false, 16>(inputs, board, out) }
    }

    unsafe fn planes(step: &PlaneWriter, planes: &LeelaPlanes, out: *mut E) {
        // SAFETY: the caller's promise.
        unsafe { step.run::<E, Numbers>(planes, out) }
    }

    unsafe fn board_table(
        step: &BoardTable,
        states: &[u8; 64],
        recent: &mut RecentBoards,
        out: *mut E,
    ) {
        // SAFETY: the caller's promise.
        unsafe { step.run::<E, Numbers>(states, recent, out) }
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
