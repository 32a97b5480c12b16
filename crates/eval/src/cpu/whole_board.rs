//! A dense layer behind an input layer that sees one square at a time, as a sum of 64 rows of a
//! table: one for the state of each square. Both layers are folded into the table, so that a board
//! costs at most 64 rows of additions, however many channels the input layer has; fewer if a board
//! like it came before ([`RecentBoards`]).

use nets::Activation;

use super::{
    layout::BLOCK,
    memory::{CacheLines, Element},
    recent_boards::{Offsets, RecentBoards, Start},
    row::Row,
};

/// Channels that are added up together: as many 16-bit sums as AVX2 keeps in half of its registers.
const LANES: usize = 128;

/// What the tables of a network may cost. A file may ask for many more numbers than it has weights.
#[derive(Debug)]
pub(crate) struct Budget {
    /// Numbers of all tables.
    numbers: usize,
    /// Multiplications to make them.
    work: usize,
    /// Tables of the network so far.
    tables: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self { numbers: 1 << 26, work: 1 << 31, tables: 0 }
    }
}

impl Budget {
    /// Takes the cost of a table from the budget. The index of the table among those of the
    /// network; `None` if it costs too much.
    pub fn spend(&mut self, states: usize, inner: usize, channels: usize) -> Option<usize> {
        let numbers = channels.next_multiple_of(LANES).saturating_mul(64 * states);
        let work = numbers.saturating_mul(inner);
        if numbers > self.numbers || work > self.work {
            return None;
        }
        self.numbers -= numbers;
        self.work -= work;
        self.tables += 1;
        Some(self.tables - 1)
    }
}

/// Rows of a table. A sum of 16-bit rows cannot overflow: the unit of a channel is chosen by the
/// largest sum that its rows allow.
#[derive(Debug)]
enum Rows {
    Exact(CacheLines<f32>),
    Small(CacheLines<i16>),
}

/// The step of both layers.
#[derive(Debug)]
pub(crate) struct BoardTable {
    /// Among the tables of the network.
    pub index: usize,
    /// Index of the output buffer.
    pub output: usize,
    /// `[squares][states][width]`. The row of state 0 is zero: it is part of the bias.
    rows: Rows,
    states: usize,
    /// Channels, padded to [`LANES`].
    width: usize,
    /// The value of a sum in units of the output, one for each channel.
    scale: CacheLines<f32>,
    /// In units of the output, one for each channel.
    bias: CacheLines<f32>,
    activation: Activation,
    /// Blocks of 32 output channels, and elements from one to the next.
    blocks: usize,
    block_stride: usize,
}

/// Both layers with their batch norms folded in.
pub(crate) struct Layers<'a> {
    /// `[states][inner channels]`: the output of the input layer for a square in a state.
    pub embedding: &'a [f32],
    /// `[channels][inner channels][squares]`
    pub weight: &'a [f32],
    /// One for each channel, in units of the output.
    pub factors: &'a [f32],
    /// One for each channel, in units of the output.
    pub bias: &'a [f32],
    pub activation: Activation,
    pub states: usize,
}

impl BoardTable {
    /// Builds the table, of 16-bit rows with `small`; `index`: among the tables of the network.
    pub fn new(
        layers: &Layers,
        small: bool,
        index: usize,
        output: usize,
        block_stride: usize,
    ) -> Self {
        let (channels, states) = (layers.bias.len(), layers.states);
        let width = channels.next_multiple_of(LANES);
        let mut bias = CacheLines::<f32>::zeroed(width);
        bias.as_mut_slice()[..channels].copy_from_slice(layers.bias);
        let mut scale = CacheLines::<f32>::zeroed(width);
        scale.as_mut_slice().fill(1.0);
        let mut square_rows = SquareRows::new(layers, width);
        let rows = if small {
            // All rows are computed once more below: kept until then they would be twice the table.
            let units = units(&mut square_rows);
            scale.as_mut_slice()[..width].copy_from_slice(&units);
            let inverses: Vec<f32> = units.iter().map(|unit| 1.0 / unit).collect();
            let mut table = CacheLines::<i16>::zeroed(64 * states * width);
            let squares = table.as_mut_slice().chunks_exact_mut(states * width);
            for (square, table) in squares.enumerate() {
                square_rows.compute(square);
                round(&square_rows.rows, &inverses, table);
                add(bias.as_mut_slice(), &square_rows.empty);
            }
            Rows::Small(table)
        } else {
            let mut table = CacheLines::<f32>::zeroed(64 * states * width);
            let squares = table.as_mut_slice().chunks_exact_mut(states * width);
            for (square, table) in squares.enumerate() {
                square_rows.compute(square);
                table.copy_from_slice(&square_rows.rows);
                add(bias.as_mut_slice(), &square_rows.empty);
            }
            Rows::Exact(table)
        };
        let (activation, blocks) = (layers.activation, channels.div_ceil(BLOCK));
        Self { index, output, rows, states, width, scale, bias, activation, blocks, block_stride }
    }

    /// Are the outputs squares of sums?
    pub fn squares(&self) -> bool {
        self.activation == Activation::SquaredRelu
    }

    /// The memory of one thread that [`BoardTable::run`] uses; exact sums use none.
    pub fn recent_boards(&self) -> RecentBoards {
        match &self.rows {
            Rows::Exact(_) => RecentBoards::new(0),
            Rows::Small(_) => RecentBoards::new(self.width),
        }
    }

    /// The element offset of the row for a square in a state.
    fn offset(&self, square: usize, state: u8) -> u32 {
        ((square * self.states + usize::from(state)) * self.width) as u32
    }

    /// Computes the layers for a board whose squares have these states.
    ///
    /// # Safety
    /// As [`Row`]; all states are states of the encoding, `recent` is this table's
    /// ([`BoardTable::recent_boards`]), and `out` is a board of one cell, which no other thread
    /// uses.
    #[inline(always)]
    pub unsafe fn run<E: Element, R: Row<E>>(
        &self,
        states: &[u8; 64],
        recent: &mut RecentBoards,
        out: *mut E,
    ) {
        // Sums of floating-point rows depend on their order.
        let start = match &self.rows {
            Rows::Exact(_) => Start::from_nothing(states),
            Rows::Small(_) => recent.start(states),
        };
        let (mut more, mut less) = (Offsets::default(), Offsets::default());
        let mut differing = start.differing;
        while differing != 0 {
            let square = differing.trailing_zeros() as usize;
            differing &= differing - 1;
            let (before, state) = (start.before[square], states[square]);
            more.push(self.offset(square, state), state != 0);
            less.push(self.offset(square, before), before != 0);
        }
        let (more, less) = (more.list(), less.list());
        for first in (0..self.width).step_by(LANES) {
            // SAFETY: the rows of the table are `width` long, and `first + LANES` is at most that;
            // scale and bias have `width` numbers; the board at `out` has all blocks.
            unsafe {
                let sums = match &self.rows {
                    Rows::Exact(rows) => sum_exact(rows.as_ptr().add(first), more),
                    Rows::Small(rows) => {
                        let mut sums = recent.part(start.from, first);
                        sum_small(&mut sums, rows.as_ptr().add(first), more, less);
                        recent.keep(start.to, first, &sums);
                        to_f32(&sums)
                    }
                };
                for part in 0..LANES / BLOCK {
                    let block = first / BLOCK + part;
                    if block == self.blocks {
                        return;
                    }
                    let scale = R::load(self.scale.as_ptr().add(block * BLOCK));
                    let bias = R::load(self.bias.as_ptr().add(block * BLOCK));
                    let mut row = R::load(sums.as_ptr().add(part * BLOCK)).mul_add(scale, bias);
                    // Quantised activations are unsigned, so that writing them clips at zero.
                    if !E::QUANTISED || self.activation != Activation::Relu {
                        row = row.activated(self.activation);
                    }
                    row.write(out.add(block * self.block_stride));
                }
            }
        }
    }
}

/// The sum of [`LANES`] channels of the rows at these offsets.
///
/// # Safety
/// So many numbers follow `rows` plus each offset.
#[inline(always)]
unsafe fn sum_exact(rows: *const f32, list: &[u32]) -> [f32; LANES] {
    let mut sums = [0.0_f32; LANES];
    for &offset in list {
        // SAFETY: the caller's promise.
        let row = unsafe { &*rows.add(offset as usize).cast::<[f32; LANES]>() };
        for at in 0..LANES {
            sums[at] += row[at];
        }
    }
    sums
}

/// Adds [`LANES`] channels of the 16-bit rows at the offsets `more` to sums, and takes those at
/// `less` away. In between the sums may overflow; the result cannot.
///
/// # Safety
/// As [`sum_exact`].
#[inline(always)]
unsafe fn sum_small(sums: &mut [i16; LANES], rows: *const i16, more: &[u32], less: &[u32]) {
    let mut kept = *sums;
    for &offset in more {
        // SAFETY: the caller's promise.
        let row = unsafe { &*rows.add(offset as usize).cast::<[i16; LANES]>() };
        for at in 0..LANES {
            kept[at] = kept[at].wrapping_add(row[at]);
        }
    }
    for &offset in less {
        // SAFETY: the caller's promise.
        let row = unsafe { &*rows.add(offset as usize).cast::<[i16; LANES]>() };
        for at in 0..LANES {
            kept[at] = kept[at].wrapping_sub(row[at]);
        }
    }
    *sums = kept;
}

#[inline(always)]
fn to_f32(sums: &[i16; LANES]) -> [f32; LANES] {
    let mut numbers = [0.0; LANES];
    for at in 0..LANES {
        numbers[at] = f32::from(sums[at]);
    }
    numbers
}

/// Computes the rows of one square.
struct SquareRows<'a> {
    embedding: &'a [f32],
    width: usize,
    /// `[squares][inner channels][width]`
    weights: Vec<f32>,
    /// `[states][width]`
    rows: Vec<f32>,
    /// The row of state 0 before it was subtracted from all rows.
    empty: Vec<f32>,
}

impl<'a> SquareRows<'a> {
    fn new(layers: &Layers<'a>, width: usize) -> Self {
        let inner = layers.embedding.len() / layers.states;
        let mut weights = vec![0.0; 64 * inner * width];
        // Whole cache lines of channels.
        for at in 0..inner {
            for first in (0..layers.factors.len()).step_by(16) {
                let end = (first + 16).min(layers.factors.len());
                for square in 0..64 {
                    let to = (square * inner + at) * width;
                    for channel in first..end {
                        let weight = layers.weight[(channel * inner + at) * 64 + square];
                        weights[to + channel] = weight * layers.factors[channel];
                    }
                }
            }
        }
        let (rows, empty) = (vec![0.0; layers.states * width], vec![0.0; width]);
        Self { embedding: layers.embedding, width, weights, rows, empty }
    }

    /// Computes the rows of `square`.
    fn compute(&mut self, square: usize) {
        let size = self.weights.len() / 64;
        let weights = &self.weights[square * size..][..size];
        multiply(self.embedding, weights, self.width, &mut self.rows);
        self.empty.copy_from_slice(&self.rows[..self.width]);
        for row in self.rows.chunks_exact_mut(self.width) {
            row.iter_mut().zip(&self.empty).for_each(|(value, empty)| *value -= empty);
        }
    }
}

/// Defines a function that is also compiled for wider vectors than every processor has. Its result
/// is the same to the last bit.
macro_rules! in_vectors {
    ($(#[$meta:meta])* fn $name:ident($($argument:ident: $type:ty),*) $body:block) => {
        $(#[$meta])*
        fn $name($($argument: $type),*) {
            #[inline(always)]
            fn body($($argument: $type),*) $body
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2")]
                fn wide($($argument: $type),*) {
                    body($($argument),*);
                }
                if is_x86_feature_detected!("avx2") {
                    // SAFETY: the processor has the feature.
                    return unsafe { wide($($argument),*) };
                }
            }
            body($($argument),*);
        }
    };
}

in_vectors! {
/// The products of embeddings with a square's weights.
fn multiply(embedding: &[f32], weights: &[f32], width: usize, rows: &mut [f32]) {
    let embeddings = embedding.chunks_exact(weights.len() / width);
    for (row, embedding) in rows.chunks_exact_mut(width).zip(embeddings) {
        for (panel, row) in row.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
            let mut sums = [0.0_f32; LANES];
            for (weights, &value) in weights.chunks_exact(width).zip(embedding) {
                if value != 0.0 {
                    let weights = &weights.as_chunks::<LANES>().0[panel];
                    for at in 0..LANES {
                        sums[at] += value * weights[at];
                    }
                }
            }
            *row = sums;
        }
    }
}
}

in_vectors! {
/// The nearest 16-bit rows.
fn round(rows: &[f32], inverses: &[f32], table: &mut [i16]) {
    let rows = rows.chunks_exact(inverses.len());
    for (to, from) in table.chunks_exact_mut(inverses.len()).zip(rows) {
        for ((to, value), inverse) in to.iter_mut().zip(from).zip(inverses) {
            *to = (value * inverse).round_ties_even() as i16;
        }
    }
}
}

fn add(sums: &mut [f32], values: &[f32]) {
    sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
}

/// The unit of each channel: the largest sum of its rows, one a square, is at most 32,767 units
/// after rounding.
fn units(rows: &mut SquareRows) -> Vec<f32> {
    let mut largest = vec![0.0_f32; rows.width];
    let mut most = largest.clone();
    for square in 0..64 {
        rows.compute(square);
        most.fill(0.0);
        for row in rows.rows.chunks_exact(rows.width) {
            most.iter_mut().zip(row).for_each(|(most, value)| *most = most.max(value.abs()));
        }
        add(&mut largest, &most);
    }
    // Rounding adds half a unit a square, and these sums are rounded too.
    let most = f32::from(i16::MAX) - 33.0;
    largest.iter().map(|&largest| if largest > 0.0 { largest / most } else { 1.0 }).collect()
}

#[cfg(test)]
mod tests {
    use board::SplitMix64;

    use super::*;
    use crate::cpu::row::Numbers;

    /// Rows of one sign, the largest of every square: the sums reach the ends of 16 bits.
    #[test]
    fn the_largest_sums_do_not_overflow() {
        let (states, inner, channels) = (3, 2, 40);
        let embedding = [0.0, 0.0, 1.0, 0.0, 0.0, 0.5];
        let weight: Vec<f32> = (0..channels * inner * 64)
            .map(|at| (1.0 + (at * 37 % 101) as f32) * if at / 128 % 2 == 0 { 1.0 } else { -1.0 })
            .collect();
        let layers = Layers {
            embedding: &embedding,
            weight: &weight,
            factors: &vec![0.3; channels],
            bias: &vec![0.0; channels],
            activation: Activation::Identity,
            states,
        };
        let sums_of = |small, state| {
            let mut sums = CacheLines::<f32>::zeroed(2 * BLOCK);
            let table = BoardTable::new(&layers, small, 0, 0, BLOCK);
            let mut recent = table.recent_boards();
            // SAFETY: there are two blocks, and plain numbers need no instructions.
            unsafe { table.run::<f32, Numbers>(&[state; 64], &mut recent, sums.as_mut_ptr()) };
            sums.as_slice()[..channels].to_vec()
        };
        for state in 0..3 {
            let (exact, small) = (sums_of(false, state), sums_of(true, state));
            let largest = sums_of(false, 1).iter().fold(0.0_f32, |most, sum| most.max(sum.abs()));
            for (exact, small) in exact.iter().zip(small) {
                assert!((exact - small).abs() <= largest * 2e-3, "{state}: {exact} {small}");
            }
        }
    }

    /// Whatever boards came before, and in whatever order, the sums are those of the board alone.
    #[test]
    fn earlier_boards_make_no_difference() {
        let (states, inner, channels) = (5, 3, LANES + 40);
        let mut random = SplitMix64::new(3);
        let mut numbers =
            |count: usize| -> Vec<f32> { (0..count).map(|_| random.unit() - 0.5).collect() };
        let (embedding, weight) = (numbers(states * inner), numbers(channels * inner * 64));
        let layers = Layers {
            embedding: &embedding,
            weight: &weight,
            factors: &numbers(channels),
            bias: &numbers(channels),
            activation: Activation::Identity,
            states,
        };
        for small in [false, true] {
            let table = BoardTable::new(&layers, small, 0, 0, BLOCK);
            let blocks = table.blocks;
            let sums = |board: &[u8; 64], recent: &mut RecentBoards| {
                let mut sums = CacheLines::<f32>::zeroed(blocks * BLOCK);
                // SAFETY: there are so many blocks, and plain numbers need no instructions.
                unsafe { table.run::<f32, Numbers>(board, recent, sums.as_mut_ptr()) };
                sums.as_slice().to_vec()
            };
            let mut random = SplitMix64::new(4);
            let mut recent = table.recent_boards();
            let mut board = [0; 64];
            for _ in 0..500 {
                // A few squares change, sometimes all, and some become empty.
                let changes = if random.below(20) == 0 { 200 } else { random.below(12) };
                for _ in 0..changes {
                    board[random.below(64)] = random.below(states) as u8;
                }
                let alone = sums(&board, &mut table.recent_boards());
                assert_eq!(sums(&board, &mut recent), alone);
            }
        }
    }

    #[test]
    fn a_budget_is_spent_once() {
        let mut budget = Budget::default();
        assert_eq!(budget.spend(256, 1, 4_100), None, "too many numbers");
        assert_eq!(budget.spend(256, 8_192, 1), None, "too much work");
        assert_eq!([2_048, 1_024].map(|width| budget.spend(256, 32, width)), [Some(0), Some(1)]);
        assert_eq!(budget.spend(256, 1, 2_048), None, "together too many");
    }
}
