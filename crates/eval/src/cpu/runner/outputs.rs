//! Reads the requested outputs of a head for one board, and computes those that no step stores.

use super::{BoardRange, PlanRunner};
use crate::cpu::{
    kernels::Kernels,
    layout::BLOCK,
    memory::Element,
    plan::{HeadPlan, OutputReader, Pairs, Sampled},
};

/// The outputs of a head for one board.
pub(super) struct BoardOutputs<'a, K: Kernels> {
    pub runner: &'a PlanRunner<K>,
    pub head: &'a HeadPlan<K::Element>,
    pub boards: BoardRange,
    pub board: usize,
}

impl<K: Kernels> BoardOutputs<'_, K> {
    pub fn output(&self, index: usize) -> f32 {
        self.runner.output(&self.head.last, self.boards, self.board, index)
    }

    /// The number that the calibration of values takes.
    pub fn value(&self) -> f32 {
        let count = self.head.outputs.min(3);
        let mut logits = [0.0; 3];
        for (index, logit) in logits[..count].iter_mut().enumerate() {
            *logit = self.output(index);
        }
        self.head.output.value_of(&logits[..count])
    }
}

impl<K: Kernels> PlanRunner<K> {
    /// One output of a head for a board.
    fn output(&self, last: &OutputReader, boards: BoardRange, board: usize, index: usize) -> f32 {
        let place = |buffer| self.board_offset(buffer, boards, board);
        match last {
            OutputReader::Sampled(sampled) => self.sample(sampled, place(sampled.input), index),
            OutputReader::Stored { input, places } => {
                self.buffers[*input].as_slice()[place(*input) + places[index] as usize].to_f32()
            }
            OutputReader::Pairs(pairs) => {
                self.pair(pairs, [place(pairs.query), place(pairs.key)], index)
            }
        }
    }

    /// A logit of a policy of attention; `places` are the board's in the buffers of queries and of
    /// keys.
    fn pair(&self, pairs: &Pairs, places: [usize; 2], index: usize) -> f32 {
        let (from, to, promotion) = match index.checked_sub(64 * 64) {
            None => (index / 64, index % 64, None),
            Some(at) => (48 + at / 24, 56 + at % 24 / 3, Some(at % 3)),
        };
        let layout = &pairs.layout;
        let queries = &self.buffers[pairs.query].as_slice()[places[0]..];
        let query: Vec<f32> = (0..layout.blocks)
            .flat_map(|block| &queries[layout.element(from, block * BLOCK)..][..BLOCK])
            .map(|number| number.to_f32())
            .collect();
        let key_with = |weights: *const f32| {
            // SAFETY: a key has so many blocks, as have queries and rows of promotions.
            unsafe {
                let key = self.buffers[pairs.key].as_ptr().add(places[1] + layout.element(to, 0));
                K::dot(key, layout.block_stride(), layout.blocks, weights)
            }
        };
        let plain = key_with(query.as_ptr()) * pairs.scale;
        plain + promotion.map_or(0.0, |piece| key_with(pairs.promotions[piece].as_ptr()))
    }

    fn sample(&self, last: &Sampled, place: usize, index: usize) -> f32 {
        let (cell, channel) = (index / last.channels, index % last.channels);
        let depth = last.blocks * BLOCK;
        let mut sum = last.bias[channel];
        for &(kernel_cell, row) in &last.taps[last.starts[cell]..last.starts[cell + 1]] {
            // SAFETY: the row and its blocks are within the board at `place`; each kernel cell has
            // `depth` weights.
            sum += unsafe {
                K::dot(
                    self.buffers[last.input].as_ptr().add(place + row),
                    last.block_stride,
                    last.blocks,
                    last.weights.as_ptr().add((channel * last.kernel_cells + kernel_cell) * depth),
                )
            };
        }
        last.activation.apply(sum)
    }
}
