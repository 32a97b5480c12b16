//! Input planes as activations, for networks whose input layer reads planes.

use nets::{LEELA_PLANES, LeelaPlanes};

use super::{
    elementwise::write_row,
    layout::{BLOCK, Layout, Store},
    memory::Element,
};

/// Blocks of 32 planes.
const BLOCKS: usize = LEELA_PLANES.div_ceil(BLOCK);

/// The step that writes the planes of a board.
#[derive(Debug)]
pub(crate) struct PlaneWriter {
    /// Index of the output buffer.
    pub output: usize,
    store: Store,
}

impl PlaneWriter {
    pub fn new(output: usize, layout: &Layout) -> Self {
        debug_assert_eq!((layout.blocks, layout.cells()), (BLOCKS, 64));
        Self { output, store: layout.store() }
    }

    /// Writes the planes of a board.
    ///
    /// # Safety
    /// `out` is a board of the layout, which no other thread uses.
    #[inline(always)]
    pub unsafe fn run<E: Element>(&self, planes: &LeelaPlanes, out: *mut E) {
        let sets = sets_of_planes(planes);
        for (block, cells) in sets.iter().enumerate() {
            let mut numbers = [0.0_f32; BLOCK];
            for (lane, number) in numbers.iter_mut().enumerate() {
                let plane = block * BLOCK + lane;
                *number = if plane < LEELA_PLANES { planes.value(plane) } else { 0.0 };
            }
            for (cell, &set) in cells.iter().enumerate() {
                let mut row = [0.0_f32; BLOCK];
                for (lane, (value, number)) in row.iter_mut().zip(&numbers).enumerate() {
                    *value = if set & 1 << lane == 0 { 0.0 } else { *number };
                }
                // SAFETY: the caller's promise.
                unsafe { write_row(&self.store, out, cell, block, &row) };
            }
        }
    }
}

/// For each block of planes and each cell the planes that are set, as bits.
fn sets_of_planes(planes: &LeelaPlanes) -> [[u32; 64]; BLOCKS] {
    let mut sets = [[0_u32; 64]; BLOCKS];
    for plane in 0..LEELA_PLANES {
        let (cells, bit) = (&mut sets[plane / BLOCK], 1 << (plane % BLOCK));
        let mut left = planes.mask(plane);
        if left == u64::MAX {
            cells.iter_mut().for_each(|set| *set |= bit);
            continue;
        }
        while left != 0 {
            cells[left.trailing_zeros() as usize] |= bit;
            left &= left - 1;
        }
    }
    sets
}
