//! One worker's machinery: takes boards through a compiled network in small groups, so that activations stay in the
//! cache between layers, and reads the asked outputs.

use std::{marker::PhantomData, ops::Range, sync::Arc};

use nets::{Calibration, HeadKind, MonotoneMap, Squares};

use super::{
    kernels::Kernels,
    memory::{Element, Lines},
    plan::{BLOCK, GROUP, Last, Plan, Product, Sampled, Step},
};
use crate::{Batch, EvalError};

/// Scores of a consecutive part of a batch.
#[derive(Debug, Default)]
pub(crate) struct Part {
    /// One a query of the part.
    pub values: Vec<f32>,
    /// One a move of the part's queries, query after query.
    pub moves: Vec<f32>,
}

/// Runs parts of batches; each worker thread owns one.
pub(crate) trait Run: Send {
    /// Scores the queries `range` of `batch`, whose squares, heads and moves have been checked.
    fn run(&mut self, batch: &Batch, range: Range<usize>) -> Result<Part, EvalError>;
}

/// [`Run`] for one code path.
#[derive(Debug)]
pub(crate) struct Engine<K: Kernels> {
    plan: Arc<Plan<K::Element>>,
    calibration: Arc<Calibration>,
    buffers: Vec<Lines<K::Element>>,
    sums: Lines<f32>,
    /// Indices into the batch of the queries that ask a head something.
    asked: Vec<usize>,
    path: PhantomData<fn() -> K>,
}

impl<K: Kernels> Engine<K> {
    /// An engine with its own scratch memory. The machine must have the path's instructions.
    pub fn new(plan: Arc<Plan<K::Element>>, calibration: Arc<Calibration>) -> Self {
        let buffers = plan.buffers.iter().map(|&elements| Lines::zeroed(elements * GROUP)).collect();
        Self {
            plan,
            calibration,
            buffers,
            sums: Lines::zeroed(BLOCK * BLOCK),
            asked: Vec::new(),
            path: PhantomData,
        }
    }

    /// The largest output of each step over these positions.
    pub fn observe(&mut self, positions: &[Squares]) -> Result<Vec<f32>, EvalError> {
        let guard = K::guard().ok_or_else(|| EvalError::Device("the tile unit went away".to_owned()))?;
        let plan = Arc::clone(&self.plan);
        let mut largest = Vec::new();
        for group in positions.chunks(GROUP) {
            let boards: Vec<&[u8; 64]> = group.iter().map(|squares| &squares.0).collect();
            let steps = plan.trunk.iter().chain(plan.heads.iter().flat_map(|head| &head.steps));
            for (index, step) in steps.enumerate() {
                self.steps(&guard, std::slice::from_ref(step), &boards, (1 << boards.len()) - 1);
                let stored =
                    &self.buffers[step.output()].as_slice()[..plan.buffers[step.output()] * group.len()];
                let most = stored.iter().fold(0.0_f32, |most, value| most.max(value.to_f32()));
                largest.resize(largest.len().max(index + 1), 0.0);
                largest[index] = most.max(largest[index]);
            }
        }
        Ok(largest)
    }

    fn steps(&mut self, guard: &K::Guard, steps: &[Step<K::Element>], boards: &[&[u8; 64]], active: u32) {
        for step in steps {
            match step {
                Step::Input { table, output, store } => {
                    let stride = self.plan.buffers[*output];
                    let out = self.buffers[*output].as_mut_ptr();
                    for job in &table.jobs {
                        for (board, squares) in boards.iter().enumerate() {
                            // SAFETY: the buffer holds GROUP boards of this layout; the instructions were checked.
                            unsafe { K::input(job, table.relu, squares, out.add(board * stride), store) };
                        }
                    }
                }
                Step::Product(product) if product.by_board => self.by_board(guard, product, active),
                Step::Product(product) => self.by_group(guard, product, boards.len()),
            }
        }
    }

    /// A layer whose output is a board: two blocks of 32 squares a board, for each board in the set `active`.
    fn by_board(&mut self, guard: &K::Guard, product: &Product<K::Element>, active: u32) {
        let strides = [self.plan.buffers[product.input], self.plan.buffers[product.output]];
        let input = self.buffers[product.input].as_ptr();
        let output = self.buffers[product.output].as_mut_ptr();
        let (sums, store) = (self.sums.as_mut_ptr(), &product.store);
        let panel_size = product.offsets.len() * BLOCK * BLOCK;
        for panel in 0..product.panels {
            let mut boards = active;
            while boards != 0 {
                let board = boards.trailing_zeros() as usize;
                boards &= boards - 1;
                for half in 0..2 {
                    // SAFETY: both buffers hold GROUP boards of the layouts that the offsets and targets were made
                    // for and are different buffers; panels, biases and sums have their sizes.
                    unsafe {
                        K::product(
                            guard,
                            input.add(board * strides[0] + half * BLOCK * BLOCK),
                            &product.offsets,
                            product.weights.as_ptr().add(panel * panel_size),
                            sums,
                        );
                        K::finish(
                            sums,
                            BLOCK,
                            product.scale.as_ptr().add(panel * BLOCK),
                            product.bias.as_ptr().add(panel * BLOCK),
                            product.relu,
                            output.add(board * strides[1] + panel * store.block_stride),
                            &store.targets[half * BLOCK * store.copies..(half + 1) * BLOCK * store.copies],
                            store.copies,
                        );
                    }
                }
            }
        }
    }

    /// A layer whose output is one cell a board: a row a board.
    fn by_group(&mut self, guard: &K::Guard, product: &Product<K::Element>, boards: usize) {
        let stride = self.plan.buffers[product.input];
        let input = self.buffers[product.input].as_ptr();
        let output = self.buffers[product.output].as_mut_ptr();
        let (sums, store) = (self.sums.as_mut_ptr(), &product.store);
        let panel_size = product.offsets.len() * BLOCK * BLOCK;
        for panel in 0..product.panels {
            let narrow = product.narrow && panel + 1 == product.panels;
            // SAFETY: as in `by_board`; `boards` is at most GROUP, which is at most 32.
            unsafe {
                let weights = product.weights.as_ptr().add(panel * panel_size);
                K::tall_product(guard, input, boards, stride, &product.offsets, weights, narrow, sums);
                K::finish(
                    sums,
                    boards,
                    product.scale.as_ptr().add(panel * BLOCK),
                    product.bias.as_ptr().add(panel * BLOCK),
                    product.relu,
                    output.add(panel * store.block_stride),
                    &store.targets,
                    1,
                );
            }
        }
    }

    /// One output of a head for the board in `slot`.
    fn output(&self, last: &Last, slot: usize, index: usize) -> f32 {
        match last {
            Last::Sampled(sampled) => self.sample(sampled, slot, index),
            Last::Stored { input, channels, positions, rows, block_stride } => {
                let position = positions[index % channels] as usize;
                let place = slot * self.plan.buffers[*input]
                    + rows[index / channels] as usize
                    + position / BLOCK * block_stride
                    + position % BLOCK;
                self.buffers[*input].as_slice()[place].to_f32()
            }
        }
    }

    fn sample(&self, last: &Sampled, slot: usize, index: usize) -> f32 {
        let (cell, channel) = (index / last.channels, index % last.channels);
        let depth = last.blocks * BLOCK;
        let mut sum = last.bias[channel];
        for &(kernel_cell, row) in &last.taps[last.starts[cell]..last.starts[cell + 1]] {
            let place = slot * self.plan.buffers[last.input] + row;
            // SAFETY: slot, row and blocks lie in the buffer of this layout; the weights are `depth` a kernel cell.
            sum += unsafe {
                K::dot(
                    self.buffers[last.input].as_ptr().add(place),
                    last.block_stride,
                    last.blocks,
                    last.weights.as_ptr().add((channel * last.kernel_cells + kernel_cell) * depth),
                )
            };
        }
        if last.relu { sum.max(0.0) } else { sum }
    }

    /// Reads what the query asks of this head. `part_moves` is where the part's moves begin in the batch.
    fn read(&self, batch: &Batch, kind: HeadKind, last: &Last, slot: usize, at: Place, part: &mut Part) {
        let query = &batch.queries[at.query];
        match kind {
            HeadKind::Value if query.value => {
                let logit = self.output(last, slot, 0);
                part.values[at.query - at.first_query] = calibrate(&self.calibration.value, logit);
            }
            HeadKind::Moves => {
                for place in query.move_range() {
                    let logit = self.output(last, slot, usize::from(batch.moves[place]));
                    part.moves[place - at.first_move] = calibrate(&self.calibration.moves, logit);
                }
            }
            HeadKind::Value => {}
        }
    }
}

/// Where a query and its part's first query and move lie in the batch.
#[derive(Clone, Copy)]
struct Place {
    query: usize,
    first_query: usize,
    first_move: usize,
}

/// Centipawns; an output that overflowed to no number counts as 0.
fn calibrate(map: &MonotoneMap, logit: f32) -> f32 {
    if logit.is_nan() { 0.0 } else { map.apply(logit) }
}

impl<K: Kernels> Run for Engine<K> {
    fn run(&mut self, batch: &Batch, range: Range<usize>) -> Result<Part, EvalError> {
        let guard = K::guard().ok_or_else(|| EvalError::Device("the tile unit went away".to_owned()))?;
        let moves = move_range(batch, &range);
        let mut part = Part { values: vec![0.0; range.len()], moves: vec![0.0; moves.len()] };
        let place = |query| Place { query, first_query: range.start, first_move: moves.start };
        let plan = Arc::clone(&self.plan);
        let asks = |kind: HeadKind, query: usize| match kind {
            HeadKind::Value => batch.queries[query].value,
            HeadKind::Moves => batch.queries[query].move_count > 0,
        };
        let mut asked = std::mem::take(&mut self.asked);
        // Heads that share a trunk see the same groups; without a trunk each head has groups of its own.
        let passes: Vec<&[_]> =
            if plan.trunk.is_empty() { plan.heads.chunks(1).collect() } else { vec![plan.heads.as_slice()] };
        for heads in passes {
            asked.clear();
            asked.extend(range.clone().filter(|&query| heads.iter().any(|head| asks(head.kind, query))));
            for group in asked.chunks(GROUP) {
                let mut boards = [&[0_u8; 64]; GROUP];
                for (board, &query) in boards.iter_mut().zip(group) {
                    *board = &batch.queries[query].squares.0;
                }
                let boards = &boards[..group.len()];
                let all = (1_u32 << group.len()) - 1;
                self.steps(&guard, &plan.trunk, boards, all);
                for head in heads {
                    let active = (0..group.len())
                        .filter(|&slot| asks(head.kind, group[slot]))
                        .fold(0_u32, |set, slot| set | 1 << slot);
                    if active == 0 {
                        continue;
                    }
                    self.steps(&guard, &head.steps, boards, active);
                    for (slot, &query) in group.iter().enumerate() {
                        self.read(batch, head.kind, &head.last, slot, place(query), &mut part);
                    }
                }
            }
        }
        self.asked = asked;
        Ok(part)
    }
}

/// The moves of consecutive queries.
pub(crate) fn move_range(batch: &Batch, range: &Range<usize>) -> Range<usize> {
    let queries = &batch.queries[range.clone()];
    let first = queries.first().map_or(0, |query| query.move_range().start);
    let last = queries.last().map_or(first, |query| query.move_range().end);
    first..last.max(first)
}
