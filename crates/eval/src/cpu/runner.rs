//! Runs a compiled network for one thread. Boards pass through the layers in small groups, so that
//! activations stay in the CPU cache between layers; only the requested outputs are computed.

mod outputs;
mod products;

use std::{marker::PhantomData, ops::Range, sync::Arc};

use nets::{BoardSeen, Calibration, Encoding, HeadKind, LeelaPlanes, MovePlaces};

use super::{
    kernels::Kernels,
    layout::{BLOCK, CHUNK, GROUP},
    memory::CacheLines,
    plan::{HeadPlan, Plan, RowKind, Step},
    recent_boards::RecentBoards,
    whole_board::BoardTable,
};
use crate::{Batch, EvalError};
use outputs::BoardOutputs;

/// The scores of a consecutive part of a batch.
#[derive(Debug, Default)]
pub(crate) struct PartialScores {
    /// One for each query of the part.
    pub values: Vec<f32>,
    /// One for each move of the part, in the order of the queries.
    pub moves: Vec<f32>,
}

/// Runs parts of batches; each thread that evaluates owns one.
pub(crate) trait Run: Send {
    /// Scores the queries `range` of `batch`. The caller has checked squares, heads and moves.
    fn run(&mut self, batch: &Batch, range: Range<usize>) -> Result<PartialScores, EvalError>;

    /// All outputs of a head for each query in turn, before calibration. The network must have the
    /// head; the caller has checked the squares.
    fn logits(&mut self, batch: &Batch, kind: HeadKind) -> Result<Vec<f32>, EvalError>;
}

/// [`Run`] for one code path.
#[derive(Debug)]
pub(crate) struct PlanRunner<K: Kernels> {
    plan: Arc<Plan<K::Element>>,
    calibration: Arc<Calibration>,
    /// Activations, one for each of [`Plan::buffers`].
    buffers: Vec<CacheLines<K::Element>>,
    /// 32 rows of 32 sums of the current product.
    sums: CacheLines<f32>,
    /// Indices of the queries that need one of the current heads.
    asked: Vec<usize>,
    /// The states of the squares of each board of the current chunk.
    states: Vec<[u8; 64]>,
    /// For each table of the whole board ([`BoardTable::index`]).
    recent: Vec<RecentBoards>,
    /// Instead of states, for encodings with history.
    planes: Vec<LeelaPlanes>,
    path: PhantomData<fn() -> K>,
}

/// Consecutive boards of a chunk.
#[derive(Clone, Copy)]
struct BoardRange {
    /// Index of the first board in the chunk.
    first: usize,
    count: usize,
    /// Bit `i` is set if the outputs of board `first + i` are needed.
    active: u32,
}

impl BoardRange {
    fn all(first: usize, count: usize) -> Self {
        Self { first, count, active: ((1_u64 << count) - 1) as u32 }
    }

    /// The same boards in groups.
    fn groups(self) -> impl Iterator<Item = Self> {
        (0..self.count).step_by(GROUP).map(move |first| {
            let count = GROUP.min(self.count - first);
            let all = Self::all(self.first + first, count);
            Self { active: self.active >> first & all.active, ..all }
        })
    }
}

impl<K: Kernels> PlanRunner<K> {
    /// Makes a runner with its own scratch memory. The machine must have the path's instructions.
    pub fn new(plan: Arc<Plan<K::Element>>, calibration: Arc<Calibration>) -> Self {
        let buffers = plan
            .buffers
            .iter()
            .map(|buffer| CacheLines::zeroed(buffer.stride * buffer.boards))
            .collect();
        let tables = plan.steps().filter_map(Step::board_table);
        debug_assert!(tables.clone().enumerate().all(|(index, table)| table.index == index));
        let recent = tables.map(BoardTable::recent_boards).collect();
        Self {
            plan,
            calibration,
            buffers,
            sums: CacheLines::zeroed(BLOCK * BLOCK),
            asked: Vec::new(),
            states: Vec::new(),
            recent,
            planes: Vec::new(),
            path: PhantomData,
        }
    }

    /// Runs all steps for these positions, and passes the index of a step among [`Plan::steps`] and
    /// its outputs for a group of boards to `see`.
    ///
    /// # Errors
    /// The tile unit is no longer available.
    pub fn observe(
        &mut self,
        positions: &Batch,
        mut see: impl FnMut(usize, &[K::Element]),
    ) -> Result<(), EvalError> {
        let guard = guard::<K>()?;
        let plan = Arc::clone(&self.plan);
        for first in (0..positions.len()).step_by(GROUP) {
            let group = first..(first + GROUP).min(positions.len());
            self.set_boards(group.clone().map(|query| positions.seen(query)));
            for (index, step) in plan.steps().enumerate() {
                self.steps(&guard, std::slice::from_ref(step), BoardRange::all(0, group.len()));
                let output = step.output();
                let stored =
                    &self.buffers[output].as_slice()[..plan.buffers[output].stride * group.len()];
                see(index, stored);
            }
        }
        Ok(())
    }

    /// Makes these boards the current chunk.
    fn set_boards<'a>(&mut self, boards: impl Iterator<Item = BoardSeen<'a>>) {
        let encoding = self.plan.encoding;
        self.states.clear();
        self.planes.clear();
        if let Encoding::Leela(input) = encoding {
            self.planes.extend(boards.map(|board| LeelaPlanes::of(&board, input)));
        } else {
            self.states.extend(boards.map(|board| encoding.states_of(board.squares, board.turn)));
        }
    }

    /// Element offset of a board in a buffer. A buffer for a group holds the current group only.
    fn board_offset(&self, buffer: usize, boards: BoardRange, board: usize) -> usize {
        let plan = self.plan.buffers[buffer];
        if plan.boards == CHUNK {
            (boards.first + board) * plan.stride
        } else {
            board * plan.stride
        }
    }

    /// Runs steps in order. Those that work board by board run for a group of boards, one after the
    /// other, before the next group: so what one stores is in the cache when the next reads it.
    fn steps(&mut self, guard: &K::Guard, steps: &[Step<K::Element>], boards: BoardRange) {
        for run in steps.chunk_by(|one, next| one.is_by_board() && next.is_by_board()) {
            if run[0].is_by_board() {
                boards.groups().for_each(|group| self.run_of_steps(guard, run, group));
            } else {
                self.run_of_steps(guard, run, boards);
            }
        }
    }

    fn run_of_steps(&mut self, guard: &K::Guard, steps: &[Step<K::Element>], boards: BoardRange) {
        for step in steps {
            match step {
                Step::Input { table, output, store } => {
                    for job in &table.jobs {
                        for board in 0..boards.count {
                            let place = self.board_offset(*output, boards, board);
                            let states = &self.states[boards.first + board];
                            // SAFETY: the buffer holds the board in this layout; the states belong
                            // to the table's encoding; `choose` has checked the instructions.
                            unsafe {
                                let out = self.buffers[*output].as_mut_ptr().add(place);
                                K::input(job, table.relu, states, out, store);
                            }
                        }
                    }
                }
                Step::Planes(step) => {
                    for board in 0..boards.count {
                        let place = self.board_offset(step.output, boards, board);
                        let planes = &self.planes[boards.first + board];
                        // SAFETY: the buffer holds the board in the step's layout; `choose` has
                        // checked the instructions.
                        unsafe {
                            let out = self.buffers[step.output].as_mut_ptr().add(place);
                            K::planes(step, planes, out);
                        }
                    }
                }
                Step::Board(step) => {
                    for board in 0..boards.count {
                        let place = self.board_offset(step.output, boards, board);
                        let states = &self.states[boards.first + board];
                        // SAFETY: the buffer holds the board in the step's layout; the states
                        // belong to the table's encoding; the recent boards are the table's;
                        // `choose` has checked the instructions.
                        unsafe {
                            let out = self.buffers[step.output].as_mut_ptr().add(place);
                            K::board_table(step, states, &mut self.recent[step.index], out);
                        }
                    }
                }
                Step::Product(product) => match product.rows {
                    RowKind::Cells(cells) => self.product_by_board(guard, product, cells, boards),
                    RowKind::Boards => self.product_by_chunk(guard, product, boards.count),
                    RowKind::Parts(count, size) => {
                        self.product_by_part(guard, product, (count, size), boards.count);
                    }
                },
                Step::Attend(step) => self.attend(guard, step, boards),
                Step::Elementwise(step) => {
                    for board in (0..boards.count).filter(|board| boards.active >> board & 1 == 1) {
                        let [first, second, output] = [step.inputs[0], step.inputs[1], step.output]
                            .map(|buffer| self.board_offset(buffer, boards, board));
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
}

fn guard<K: Kernels>() -> Result<K::Guard, EvalError> {
    K::guard().ok_or_else(|| EvalError::Device("the tile unit went away".to_owned()))
}

impl<K: Kernels> PlanRunner<K> {
    /// Runs the trunk and `heads` on `count` boards. `seen` returns what is known of a board, `asks`
    /// says whether the board needs a head, and `read` is called for each board and head that does.
    fn run_heads<'a>(
        &mut self,
        guard: &K::Guard,
        heads: &[HeadPlan<K::Element>],
        count: usize,
        seen: impl Fn(usize) -> BoardSeen<'a>,
        asks: impl Fn(HeadKind, usize) -> bool,
        mut read: impl FnMut(usize, &BoardOutputs<K>),
    ) {
        let plan = Arc::clone(&self.plan);
        for start in (0..count).step_by(CHUNK) {
            let chunk = BoardRange::all(0, CHUNK.min(count - start));
            self.set_boards((start..start + chunk.count).map(&seen));
            let wanted = |head: &HeadPlan<K::Element>| {
                (0..chunk.count)
                    .filter(|&board| asks(head.kind, start + board))
                    .fold(0_u32, |set, board| set | 1 << board)
            };
            let mut read = |runner: &Self, head: &HeadPlan<K::Element>, boards: BoardRange| {
                for board in (0..boards.count).filter(|board| boards.active >> board & 1 == 1) {
                    read(
                        start + boards.first + board,
                        &BoardOutputs { runner, head, boards, board },
                    );
                }
            };
            let late = |head: &HeadPlan<K::Element>| {
                !plan.trunk.tail.is_empty() || !head.steps.tail.is_empty()
            };
            for first in (0..chunk.count).step_by(GROUP) {
                let group = BoardRange::all(first, GROUP.min(chunk.count - first));
                self.steps(guard, &plan.trunk.body, group);
                for head in heads {
                    let active = wanted(head) >> first & group.active;
                    if active != 0 {
                        let boards = BoardRange { active, ..group };
                        self.steps(guard, &head.steps.body, boards);
                        if !late(head) {
                            read(self, head, boards);
                        }
                    }
                }
            }
            self.steps(guard, &plan.trunk.tail, chunk);
            for head in heads.iter().filter(|head| late(head)) {
                let active = wanted(head);
                if active != 0 {
                    self.steps(guard, &head.steps.tail, chunk);
                    read(self, head, BoardRange { active, ..chunk });
                }
            }
        }
    }
}

impl<K: Kernels> Run for PlanRunner<K> {
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
        // Heads over a common trunk run on the same groups of boards. Without a trunk each head
        // runs on the boards that need it.
        let whole = plan.trunk.body.is_empty() && plan.trunk.tail.is_empty();
        let passes: Vec<&[_]> =
            if whole { plan.heads.chunks(1).collect() } else { vec![&plan.heads] };
        for heads in passes {
            asked.clear();
            asked.extend(
                range.clone().filter(|&query| heads.iter().any(|head| asks(head.kind, query))),
            );
            let seen = |index: usize| batch.seen(asked[index]);
            let wants = |kind, index: usize| asks(kind, asked[index]);
            self.run_heads(&guard, heads, asked.len(), seen, wants, |index, outputs| {
                let query = &batch.queries[asked[index]];
                if outputs.head.kind == HeadKind::Value {
                    let value = calibration.value.apply(outputs.value());
                    let turned = plan.encoding.is_whites_view() && query.turn.is_black();
                    part.values[asked[index] - range.start] = if turned { -value } else { value };
                } else {
                    let indices = &batch.moves[query.move_range()];
                    let scores =
                        &mut part.moves[query.move_range().start - moves.start..][..indices.len()];
                    let output = outputs.head.output;
                    let places = MovePlaces::new(output, plan.encoding, &query.squares);
                    for (score, &index) in scores.iter_mut().zip(indices) {
                        *score = outputs.output(places.of(index));
                    }
                    calibration.moves.apply_all(scores);
                }
            });
        }
        self.asked = asked;
        Ok(part)
    }

    fn logits(&mut self, batch: &Batch, kind: HeadKind) -> Result<Vec<f32>, EvalError> {
        let guard = guard::<K>()?;
        let plan = Arc::clone(&self.plan);
        let head = plan.heads.iter().position(|head| head.kind == kind);
        let heads = head.map_or(&plan.heads[..0], |index| &plan.heads[index..=index]);
        let mut logits = Vec::new();
        self.run_heads(
            &guard,
            heads,
            batch.len(),
            |query| batch.seen(query),
            |_, _| true,
            |_, outputs| {
                logits.extend((0..outputs.head.outputs).map(|index| outputs.output(index)));
            },
        );
        Ok(logits)
    }
}

/// The range in [`Batch::moves`] of consecutive queries.
pub(crate) fn move_range(batch: &Batch, range: &Range<usize>) -> Range<usize> {
    let queries = &batch.queries[range.clone()];
    let first = queries.first().map_or(0, |query| query.move_range().start);
    let last = queries.last().map_or(first, |query| query.move_range().end);
    first..last.max(first)
}
