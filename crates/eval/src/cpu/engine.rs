//! One worker's machinery: takes boards through a compiled network in small groups, so that
//! activations stay in the cache between layers, and reads the asked outputs.

use std::{marker::PhantomData, ops::Range, sync::Arc};

use board::Color;
use nets::{Activation, Calibration, HeadKind, Squares};

use super::{
    elementwise::Adjust,
    kernels::Kernels,
    layout::{BLOCK, CHUNK, GROUP},
    memory::{Element, Lines},
    plan::{HeadPlan, OutputReader, Plan, Product, RowKind, Sampled, Step},
};
use crate::{Batch, EvalError};

/// Scores of a consecutive part of a batch.
#[derive(Debug, Default)]
pub(crate) struct PartialScores {
    /// One a query of the part.
    pub values: Vec<f32>,
    /// One a move of the part's queries, query after query.
    pub moves: Vec<f32>,
}

/// Runs parts of batches; each thread that evaluates owns one.
pub(crate) trait Run: Send {
    /// Scores the queries `range` of `batch`, whose squares, heads and moves have been checked.
    fn run(&mut self, batch: &Batch, range: Range<usize>) -> Result<PartialScores, EvalError>;

    /// Every output of a head that the network has, board after board, before calibration.
    fn logits(
        &mut self,
        boards: &[(Squares, Color)],
        kind: HeadKind,
    ) -> Result<Vec<f32>, EvalError>;
}

/// [`Run`] for one code path.
#[derive(Debug)]
pub(crate) struct Engine<K: Kernels> {
    plan: Arc<Plan<K::Element>>,
    calibration: Arc<Calibration>,
    buffers: Vec<Lines<K::Element>>,
    sums: Lines<f32>,
    no_bias: Lines<f32>,
    /// Indices into the batch of the queries that ask a head something.
    asked: Vec<usize>,
    /// The squares' states of a chunk of boards.
    states: Vec<[u8; 64]>,
    path: PhantomData<fn() -> K>,
}

/// Consecutive boards in the buffers.
#[derive(Clone, Copy)]
struct Slots {
    /// The first one's place in its chunk.
    first: usize,
    count: usize,
    /// Bit `i`: is board `first + i` wanted?
    active: u32,
}

impl Slots {
    fn all(first: usize, count: usize) -> Self {
        Self { first, count, active: ((1_u64 << count) - 1) as u32 }
    }
}

impl<K: Kernels> Engine<K> {
    /// An engine with its own scratch memory. The machine must have the path's instructions.
    pub fn new(plan: Arc<Plan<K::Element>>, calibration: Arc<Calibration>) -> Self {
        let buffers = plan
            .buffers
            .iter()
            .map(|buffer| Lines::zeroed(buffer.stride * buffer.boards))
            .collect();
        Self {
            plan,
            calibration,
            buffers,
            sums: Lines::zeroed(BLOCK * BLOCK),
            no_bias: Lines::zeroed(BLOCK),
            asked: Vec::new(),
            states: Vec::new(),
            path: PhantomData,
        }
    }

    /// The largest output of each step over these positions, in the order of [`Plan::steps`].
    pub fn observe(&mut self, positions: &[(Squares, Color)]) -> Result<Vec<f32>, EvalError> {
        let guard = guard::<K>()?;
        let plan = Arc::clone(&self.plan);
        let mut largest = Vec::new();
        for group in positions.chunks(GROUP) {
            self.states.clear();
            self.states.extend(
                group.iter().map(|(squares, turn)| plan.encoding.states_of(squares, *turn)),
            );
            for (index, step) in plan.steps().enumerate() {
                self.steps(&guard, std::slice::from_ref(step), Slots::all(0, group.len()));
                let output = step.output();
                let stored =
                    &self.buffers[output].as_slice()[..plan.buffers[output].stride * group.len()];
                let most = stored.iter().fold(0.0_f32, |most, value| most.max(value.to_f32()));
                largest.resize(largest.len().max(index + 1), 0.0);
                largest[index] = most.max(largest[index]);
            }
        }
        Ok(largest)
    }

    /// Element offset of a board in a buffer: buffers of a group hold only the current one.
    fn place(&self, buffer: usize, slots: Slots, board: usize) -> usize {
        let plan = self.plan.buffers[buffer];
        if plan.boards == CHUNK { (slots.first + board) * plan.stride } else { board * plan.stride }
    }

    fn steps(&mut self, guard: &K::Guard, steps: &[Step<K::Element>], slots: Slots) {
        for step in steps {
            match step {
                Step::Input { table, output, store } => {
                    for job in &table.jobs {
                        for board in 0..slots.count {
                            let place = self.place(*output, slots, board);
                            let states = &self.states[slots.first + board];
                            // SAFETY: the buffer holds the board in this layout; states are those
                            // of the table's encoding; the instructions were checked.
                            unsafe {
                                let out = self.buffers[*output].as_mut_ptr().add(place);
                                K::input(job, table.relu, states, out, store);
                            }
                        }
                    }
                }
                Step::Product(product) => match product.rows {
                    RowKind::Cells(cells) => self.by_board(guard, product, cells, slots),
                    RowKind::Boards => self.by_chunk(guard, product, slots.count),
                },
                Step::Elementwise(step) => {
                    for board in (0..slots.count).filter(|board| slots.active >> board & 1 == 1) {
                        let [first, second, output] = [step.inputs[0], step.inputs[1], step.output]
                            .map(|buffer| self.place(buffer, slots, board));
                        // SAFETY: the buffers hold the board in the step's layouts.
                        unsafe {
                            let inputs = [
                                self.buffers[step.inputs[0]].as_ptr().add(first),
                                self.buffers[step.inputs[1]].as_ptr().add(second),
                            ];
                            K::elementwise(
                                step,
                                inputs,
                                self.buffers[step.output].as_mut_ptr().add(output),
                            );
                        }
                    }
                }
            }
        }
    }

    /// A layer whose output is a board: blocks of up to 32 cells, for each active board.
    fn by_board(
        &mut self,
        guard: &K::Guard,
        product: &Product<K::Element>,
        cells: usize,
        slots: Slots,
    ) {
        let rows = cells.min(BLOCK);
        for panel in 0..product.panels {
            let mut boards = slots.active;
            while boards != 0 {
                let board = boards.trailing_zeros() as usize;
                boards &= boards - 1;
                let [input, output] =
                    [product.input, product.output].map(|buffer| self.place(buffer, slots, board));
                let residual =
                    product.residual.map_or(0, |from| self.place(from.buffer, slots, board));
                for part in 0..cells / rows {
                    let first = part * rows;
                    // SAFETY: the buffers hold the boards in the layouts that the offsets and
                    // targets were made for, and input and output are different buffers; panels and
                    // sums have their sizes.
                    unsafe {
                        let a = self.buffers[product.input].as_ptr().add(input + first * BLOCK);
                        let b = weights(product, panel);
                        let c = self.sums.as_mut_ptr();
                        if rows == BLOCK {
                            K::product(guard, a, &product.offsets, b, c);
                        } else {
                            K::tall_product(guard, a, rows, BLOCK, &product.offsets, b, false, c);
                        }
                        self.finish(
                            product,
                            panel,
                            rows,
                            (residual + first * BLOCK, BLOCK),
                            (output, first),
                        );
                    }
                }
            }
        }
    }

    /// A layer whose output is one cell a board: a row a board, from the first of the chunk on.
    fn by_chunk(&mut self, guard: &K::Guard, product: &Product<K::Element>, boards: usize) {
        let stride = self.plan.buffers[product.input].stride;
        let residual = product.residual.map_or(0, |from| self.plan.buffers[from.buffer].stride);
        for panel in 0..product.panels {
            let narrow = product.narrow && panel + 1 == product.panels;
            // SAFETY: as in `by_board`; these buffers hold a chunk.
            unsafe {
                let a = self.buffers[product.input].as_ptr();
                let (b, c) = (weights(product, panel), self.sums.as_mut_ptr());
                K::tall_product(guard, a, boards, stride, &product.offsets, b, narrow, c);
                self.finish(product, panel, boards, (0, residual), (0, 0));
            }
        }
    }

    /// Stores the sums of a panel as activations. `residual`: where its board begins, and elements
    /// between rows; `output`: where the board begins, and the first row that is stored.
    ///
    /// # Safety
    /// The buffers hold what the product's layouts say at these places.
    unsafe fn finish(
        &mut self,
        product: &Product<K::Element>,
        panel: usize,
        rows: usize,
        residual: (usize, usize),
        output: (usize, usize),
    ) {
        let store = &product.store;
        let targets = &store.targets[output.1 * store.copies..(output.1 + rows) * store.copies];
        let c = self.sums.as_mut_ptr();
        // SAFETY: scale and bias are 32 a panel; the rest is the caller's promise.
        unsafe {
            let scale = product.scale.as_ptr().add(panel * BLOCK);
            let mut bias = product.bias.as_ptr().add(panel * BLOCK);
            let simple = matches!(product.activation, Activation::Identity | Activation::Relu);
            if product.residual.is_some() || !simple {
                let from = product.residual.map(|from| {
                    let place = residual.0 + from.first + panel * from.block_stride;
                    (self.buffers[from.buffer].as_ptr().add(place), from.ratio)
                });
                let (row, ratio) = from.unwrap_or((std::ptr::null(), 1.0));
                let adjust = Adjust {
                    scale,
                    bias,
                    residual: row,
                    stride: residual.1,
                    ratio,
                    activation: if simple { Activation::Identity } else { product.activation },
                };
                K::adjust(&adjust, c, rows);
                if !K::Element::QUANTISED {
                    bias = self.no_bias.as_ptr();
                }
            }
            let relu = product.activation == Activation::Relu;
            let out = self.buffers[product.output]
                .as_mut_ptr()
                .add(output.0 + panel * store.block_stride);
            K::finish(c, rows, scale, bias, relu, out, targets, store.copies);
        }
    }

    /// One output of a head for a board.
    fn output(&self, last: &OutputReader, slots: Slots, board: usize, index: usize) -> f32 {
        let place = self.place(last.input(), slots, board);
        match last {
            OutputReader::Sampled(sampled) => self.sample(sampled, place, index),
            OutputReader::Stored { input, places } => {
                self.buffers[*input].as_slice()[place + places[index] as usize].to_f32()
            }
        }
    }

    fn sample(&self, last: &Sampled, place: usize, index: usize) -> f32 {
        let (cell, channel) = (index / last.channels, index % last.channels);
        let depth = last.blocks * BLOCK;
        let mut sum = last.bias[channel];
        for &(kernel_cell, row) in &last.taps[last.starts[cell]..last.starts[cell + 1]] {
            // SAFETY: place, row and blocks lie in the buffer of this layout; the weights are
            // `depth` a kernel cell.
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

/// The packed weights of a panel.
fn weights<E: Element>(product: &Product<E>, panel: usize) -> *const E {
    let size = product.offsets.len() * BLOCK * BLOCK;
    product.weights.as_slice()[panel * size..(panel + 1) * size].as_ptr()
}

fn guard<K: Kernels>() -> Result<K::Guard, EvalError> {
    K::guard().ok_or_else(|| EvalError::Device("the tile unit went away".to_owned()))
}

/// A board whose outputs can be read.
struct Ready<'a, K: Kernels> {
    engine: &'a Engine<K>,
    head: &'a HeadPlan<K::Element>,
    slots: Slots,
    board: usize,
}

impl<K: Kernels> Ready<'_, K> {
    fn output(&self, index: usize) -> f32 {
        self.engine.output(&self.head.last, self.slots, self.board, index)
    }
}

impl<K: Kernels> Engine<K> {
    /// Takes `count` boards through the trunk and `heads`. `states` gives the squares' states of
    /// the n-th, `asks` whether it wants a head, and `read` is called for each that does.
    fn through(
        &mut self,
        guard: &K::Guard,
        heads: &[HeadPlan<K::Element>],
        count: usize,
        states: impl Fn(usize) -> [u8; 64],
        asks: impl Fn(HeadKind, usize) -> bool,
        mut read: impl FnMut(usize, &Ready<K>),
    ) {
        let plan = Arc::clone(&self.plan);
        for start in (0..count).step_by(CHUNK) {
            let chunk = Slots::all(0, CHUNK.min(count - start));
            self.states.clear();
            self.states.extend((start..start + chunk.count).map(&states));
            let wanted = |head: &HeadPlan<K::Element>| {
                (0..chunk.count)
                    .filter(|&board| asks(head.kind, start + board))
                    .fold(0_u32, |set, board| set | 1 << board)
            };
            let mut read = |engine: &Self, head: &HeadPlan<K::Element>, slots: Slots| {
                for board in (0..slots.count).filter(|board| slots.active >> board & 1 == 1) {
                    read(start + slots.first + board, &Ready { engine, head, slots, board });
                }
            };
            let late = |head: &HeadPlan<K::Element>| {
                !plan.trunk.tail.is_empty() || !head.steps.tail.is_empty()
            };
            for first in (0..chunk.count).step_by(GROUP) {
                let group = Slots::all(first, GROUP.min(chunk.count - first));
                self.steps(guard, &plan.trunk.body, group);
                for head in heads {
                    let active = wanted(head) >> first & group.active;
                    if active != 0 {
                        let slots = Slots { active, ..group };
                        self.steps(guard, &head.steps.body, slots);
                        if !late(head) {
                            read(self, head, slots);
                        }
                    }
                }
            }
            self.steps(guard, &plan.trunk.tail, chunk);
            for head in heads.iter().filter(|head| late(head)) {
                let active = wanted(head);
                if active != 0 {
                    self.steps(guard, &head.steps.tail, chunk);
                    read(self, head, Slots { active, ..chunk });
                }
            }
        }
    }
}

impl<K: Kernels> Run for Engine<K> {
    fn run(&mut self, batch: &Batch, range: Range<usize>) -> Result<PartialScores, EvalError> {
        let guard = guard::<K>()?;
        let moves = move_range(batch, &range);
        let mut part =
            PartialScores { values: vec![0.0; range.len()], moves: vec![0.0; moves.len()] };
        let (plan, calibration) = (Arc::clone(&self.plan), Arc::clone(&self.calibration));
        let asks = |kind: HeadKind, query: usize| match kind {
            HeadKind::Value => batch.queries[query].value,
            HeadKind::Moves => batch.queries[query].move_count > 0,
            _ => false,
        };
        let mut asked = std::mem::take(&mut self.asked);
        // Heads that share a trunk see the same groups; without a trunk each head has groups of its
        // own.
        let whole = plan.trunk.body.is_empty() && plan.trunk.tail.is_empty();
        let passes: Vec<&[_]> =
            if whole { plan.heads.chunks(1).collect() } else { vec![&plan.heads] };
        for heads in passes {
            asked.clear();
            asked.extend(
                range.clone().filter(|&query| heads.iter().any(|head| asks(head.kind, query))),
            );
            let states = |index: usize| {
                let query = &batch.queries[asked[index]];
                plan.encoding.states_of(&query.squares, query.turn)
            };
            let wants = |kind, index: usize| asks(kind, asked[index]);
            self.through(&guard, heads, asked.len(), states, wants, |index, ready| {
                let query = &batch.queries[asked[index]];
                if ready.head.kind == HeadKind::Value {
                    let value = calibration.value.apply(ready.output(0));
                    let turned = plan.encoding.is_whites_view() && query.turn.is_black();
                    part.values[asked[index] - range.start] = if turned { -value } else { value };
                } else {
                    let indices = &batch.moves[query.move_range()];
                    let scores =
                        &mut part.moves[query.move_range().start - moves.start..][..indices.len()];
                    for (score, &index) in scores.iter_mut().zip(indices) {
                        *score = ready.output(usize::from(index));
                    }
                    calibration.moves.apply_all(scores);
                }
            });
        }
        self.asked = asked;
        Ok(part)
    }

    fn logits(
        &mut self,
        boards: &[(Squares, Color)],
        kind: HeadKind,
    ) -> Result<Vec<f32>, EvalError> {
        let guard = guard::<K>()?;
        let plan = Arc::clone(&self.plan);
        let mut logits = Vec::with_capacity(boards.len() * kind.outputs());
        let heads = plan.heads.iter().position(|head| head.kind == kind);
        let heads = heads.map_or(&plan.heads[..0], |index| &plan.heads[index..=index]);
        let states = |index: usize| plan.encoding.states_of(&boards[index].0, boards[index].1);
        self.through(
            &guard,
            heads,
            boards.len(),
            states,
            |_, _| true,
            |_, ready| {
                logits.extend((0..kind.outputs()).map(|index| ready.output(index)));
            },
        );
        Ok(logits)
    }
}

/// The moves of consecutive queries.
pub(crate) fn move_range(batch: &Batch, range: &Range<usize>) -> Range<usize> {
    let queries = &batch.queries[range.clone()];
    let first = queries.first().map_or(0, |query| query.move_range().start);
    let last = queries.last().map_or(first, |query| query.move_range().end);
    first..last.max(first)
}
