//! The core of attention for one board, in `f32` on every path but tiles
//! ([`tiled_attention`](super::tiled_attention)): scores of pairs of squares, softmax, and the
//! weighted sum of values. The projections before and after it are products.
//!
//! All paths inline the same plain code, which the compiler vectorises for the instructions of the
//! path.

use super::{
    activation::exp,
    layout::{BLOCK, Layout, Store},
    memory::Element,
    row::{self, Row},
};

/// Squares of a board.
pub(super) const SQUARES: usize = 64;

/// Rows that share the loads of a step.
const ROWS: usize = 4;

/// The step of an attention layer behind its projections.
#[derive(Debug)]
pub(crate) struct Attend {
    /// Indices of the buffers of query, key and value, all of one layout.
    pub inputs: [usize; 3],
    /// Index of the buffer with a board's scores: for each head those of each query square with each
    /// key square.
    pub board: Option<usize>,
    /// Index of the output buffer.
    pub output: usize,
    pub from: Layout,
    pub heads: usize,
    /// Channels of a head.
    pub depth: usize,
    pub store: Store,
}

/// `a * b + c`, rounded once where the path has an instruction for it.
#[inline(always)]
fn multiply_add<const FUSED: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FUSED { a.mul_add(b, c) } else { a * b + c }
}

impl Attend {
    /// Runs the step for one board. With `FUSED` the machine must have fused multiply-adds, or it
    /// takes long. `LANES` numbers of a row, a divisor of 64, are added up side by side: two
    /// registers full.
    ///
    /// # Safety
    /// The pointers are to boards of the layout `from`, to the board's scores if the step has some,
    /// and to a board of the store's layout that no other thread uses.
    #[inline(always)]
    pub unsafe fn run<E: Element, R: Row<E>, const FUSED: bool, const LANES: usize>(
        &self,
        inputs: [*const E; 3],
        board: *const E,
        out: *mut E,
    ) {
        let (blocks, depth) = (self.from.blocks, self.depth);
        // SAFETY: the caller's promise.
        let [query, key, value] = inputs.map(|input| unsafe { self.unpacked::<E, R>(input) });
        let width = blocks * BLOCK;
        let mut context = vec![0.0_f32; SQUARES * width];
        let padded = depth.next_multiple_of(LANES);
        let mut keys = vec![0.0_f32; depth * SQUARES];
        let mut values = vec![0.0_f32; SQUARES * padded];
        let mut scores = vec![0.0_f32; SQUARES * SQUARES];
        let mut sums = vec![0.0_f32; SQUARES * padded];
        let scale = 1.0 / (depth as f32).sqrt();
        for head in 0..self.heads {
            let first = head * depth;
            for square in 0..SQUARES {
                let own = square * width + first..square * width + first + depth;
                for (channel, &number) in key[own.clone()].iter().enumerate() {
                    keys[channel * SQUARES + square] = number * scale;
                }
                values[square * padded..][..depth].copy_from_slice(&value[own]);
            }
            scores.fill(0.0);
            if self.board.is_some() {
                let rows = scores.as_chunks_mut::<BLOCK>().0;
                for (row, scores) in rows.iter_mut().enumerate() {
                    let at = head * SQUARES * SQUARES + row * BLOCK;
                    // SAFETY: each head has so many scores.
                    unsafe { R::read(board.add(at)).store(scores.as_mut_ptr()) };
                }
            }
            products::<FUSED, LANES>(&query[first..], width, depth, &keys, SQUARES, &mut scores);
            let mut shares = [0.0_f32; SQUARES];
            for (row, share) in scores.chunks_exact_mut(SQUARES).zip(&mut shares) {
                *share = 1.0 / exponentials::<E>(row);
            }
            sums.fill(0.0);
            products::<FUSED, LANES>(&scores, SQUARES, SQUARES, &values, padded, &mut sums);
            for (square, share) in shares.iter().enumerate() {
                let to = &mut context[square * width + first..][..depth];
                let from = &sums[square * padded..][..depth];
                to.iter_mut().zip(from).for_each(|(to, sum)| *to = sum * share);
            }
        }
        for (at, row) in context.as_chunks::<BLOCK>().0.iter().enumerate() {
            // SAFETY: all squares and blocks of the output.
            unsafe {
                let place = (at / blocks, at % blocks);
                row::write(&self.store, out, place, R::load(row.as_ptr()));
            }
        }
    }

    /// The channels of each square in sequence.
    #[inline(always)]
    unsafe fn unpacked<E: Element, R: Row<E>>(&self, input: *const E) -> Vec<f32> {
        let blocks = self.from.blocks;
        let mut numbers = vec![0.0_f32; SQUARES * blocks * BLOCK];
        for (at, row) in numbers.as_chunks_mut::<BLOCK>().0.iter_mut().enumerate() {
            // SAFETY: squares and blocks are within the layout.
            unsafe {
                let place = self.from.element(at / blocks, at % blocks * BLOCK);
                R::read(input.add(place)).store(row.as_mut_ptr());
            }
        }
        numbers
    }
}

/// Adds to `sums` (64 rows of `columns`) the product of 64 rows of `a`, `stride` numbers apart, with
/// `depth` rows of `b`. `columns` is a multiple of `LANES`.
#[inline(always)]
fn products<const FUSED: bool, const LANES: usize>(
    a: &[f32],
    stride: usize,
    depth: usize,
    b: &[f32],
    columns: usize,
    sums: &mut [f32],
) {
    for (group, sums) in sums.chunks_exact_mut(ROWS * columns).enumerate() {
        let rows: [&[f32]; ROWS] =
            std::array::from_fn(|row| &a[(group * ROWS + row) * stride..][..depth]);
        for first in (0..columns).step_by(LANES) {
            let mut lanes = [[0.0_f32; LANES]; ROWS];
            for (row, lanes) in lanes.iter_mut().enumerate() {
                lanes.copy_from_slice(&sums[row * columns + first..][..LANES]);
            }
            for (k, other) in b.chunks_exact(columns).enumerate().take(depth) {
                let mut columns = [0.0_f32; LANES];
                columns.copy_from_slice(&other[first..first + LANES]);
                for (row, lanes) in rows.iter().zip(&mut lanes) {
                    let own = row[k];
                    for (lane, other) in lanes.iter_mut().zip(columns) {
                        *lane = multiply_add::<FUSED>(own, other, *lane);
                    }
                }
            }
            for (row, lanes) in lanes.iter().enumerate() {
                sums[row * columns + first..][..LANES].copy_from_slice(lanes);
            }
        }
    }
}

/// Replaces scores by the exponentials of their differences from the largest, rounded to the format
/// as tiles need them, and returns the sum.
#[inline(always)]
fn exponentials<E: Element>(row: &mut [f32]) -> f32 {
    /// As many as the widest registers hold.
    const LANES: usize = 16;
    let (lanes, _) = row.as_chunks_mut::<LANES>();
    let mut most = [f32::NEG_INFINITY; LANES];
    for lanes in &*lanes {
        most.iter_mut().zip(lanes).for_each(|(most, lane)| *most = most.max(*lane));
    }
    let most = most.into_iter().fold(f32::NEG_INFINITY, f32::max);
    let mut sums = [0.0_f32; LANES];
    for lanes in lanes {
        for (lane, sum) in lanes.iter_mut().zip(&mut sums) {
            *lane = E::from_f32(exp(*lane - most)).to_f32();
            *sum += *lane;
        }
    }
    sums.iter().sum()
}
