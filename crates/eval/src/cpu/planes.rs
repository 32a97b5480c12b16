//! Input planes as activations, for networks whose input layer reads planes.

use nets::{LEELA_PLANES, LeelaPlanes};

use super::{
    layout::{BLOCK, Layout, Store},
    memory::{CacheLines, Element},
    row::{self, Row},
};

/// Blocks of 32 planes.
const BLOCKS: usize = LEELA_PLANES.div_ceil(BLOCK);

/// The step that writes the planes of a board.
#[derive(Debug)]
pub(crate) struct PlaneWriter {
    /// Index of the output buffer.
    pub output: usize,
    store: Store,
    embedding: Option<Embedding>,
}

/// Channels that a dense layer computes from the first planes, in blocks behind the planes. Few of
/// these planes are set, so that it adds up rows of weights.
#[derive(Debug)]
pub(crate) struct Embedding {
    planes: usize,
    blocks: usize,
    /// `[planes][64][64][blocks * 32]`: the weights of a plane and square for all outputs.
    table: CacheLines<f32>,
    /// `[64][blocks * 32]`
    bias: CacheLines<f32>,
}

impl Embedding {
    /// `weight` is `[64 * channels, 64 * planes]`, channels and planes of a square in sequence.
    pub fn new(weight: &[f32], bias: &[f32], planes: usize) -> Self {
        let channels = bias.len() / 64;
        let blocks = channels.div_ceil(BLOCK);
        let (width, inputs) = (blocks * BLOCK, 64 * planes);
        let mut table = CacheLines::zeroed(inputs * 64 * width);
        let mut padded = CacheLines::zeroed(64 * width);
        for (output, (row, &bias)) in weight.chunks_exact(inputs).zip(bias).enumerate() {
            let place = output / channels * width + output % channels;
            padded.as_mut_slice()[place] = bias;
            for (input, &weight) in row.iter().enumerate() {
                let (square, plane) = (input / planes, input % planes);
                table.as_mut_slice()[(plane * 64 + square) * 64 * width + place] = weight;
            }
        }
        Self { planes, blocks, table, bias: padded }
    }

    /// Positions of the channels behind those of the planes.
    pub fn positions(&self, channels: usize) -> impl Iterator<Item = usize> {
        (0..channels).map(|channel| BLOCKS * BLOCK + channel)
    }

    /// Channels of planes and embedding with their padding.
    pub fn width(&self) -> usize {
        (BLOCKS + self.blocks) * BLOCK
    }

    #[inline(always)]
    fn sums(&self, planes: &LeelaPlanes) -> Vec<f32> {
        let size = 64 * self.blocks * BLOCK;
        let mut sums = self.bias.as_slice()[..size].to_vec();
        for plane in 0..self.planes {
            let mut left = planes.mask(plane);
            while left != 0 {
                let square = left.trailing_zeros() as usize;
                let row = &self.table.as_slice()[(plane * 64 + square) * size..][..size];
                let value = planes.value(plane);
                sums.iter_mut().zip(row).for_each(|(sum, weight)| *sum += value * weight);
                left &= left - 1;
            }
        }
        sums
    }
}

impl PlaneWriter {
    pub fn new(output: usize, layout: &Layout, embedding: Option<Embedding>) -> Self {
        let blocks = BLOCKS + embedding.as_ref().map_or(0, |embedding| embedding.blocks);
        debug_assert_eq!((layout.blocks, layout.cells()), (blocks, 64));
        Self { output, store: layout.store(), embedding }
    }

    /// Writes the planes of a board.
    ///
    /// # Safety
    /// `out` is a board of the layout, which no other thread uses.
    #[inline(always)]
    pub unsafe fn run<E: Element, R: Row<E>>(&self, planes: &LeelaPlanes, out: *mut E) {
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
                unsafe { row::write(&self.store, out, (cell, block), R::load(row.as_ptr())) };
            }
        }
        let Some(embedding) = &self.embedding else { return };
        let sums = embedding.sums(planes);
        for (at, row) in sums.as_chunks::<BLOCK>().0.iter().enumerate() {
            let (cell, block) = (at / embedding.blocks, BLOCKS + at % embedding.blocks);
            // SAFETY: the caller's promise.
            unsafe { row::write(&self.store, out, (cell, block), R::load(row.as_ptr())) };
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
