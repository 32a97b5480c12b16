//! A network compiled for a kernel family: batch norm folded, weights packed in panels, every
//! address precomputed.

use nets::{Activation, Encoding, HeadKind};

use super::{
    elementwise::Elementwise,
    input::InputTable,
    layout::{CHUNK, GROUP, Store},
    memory::Lines,
};

/// A layer as a product of activations and packed panels.
#[derive(Debug)]
pub(crate) struct Product<E> {
    pub input: usize,
    pub output: usize,
    pub rows: RowKind,
    /// Byte offset of the A rows of each step of 32 inner elements.
    pub offsets: Vec<u32>,
    /// Panel after panel, each `offsets.len() * 32 x 32`.
    pub weights: Lines<E>,
    /// 32 a panel: what a unit of a quantised sum is worth in units of the output; 1 in other
    /// formats.
    pub scale: Lines<f32>,
    /// 32 a panel, in units of the output.
    pub bias: Lines<f32>,
    pub activation: Activation,
    /// Added before the activation.
    pub residual: Option<Residual>,
    pub panels: usize,
    /// Only the first 16 columns of the last panel are in use.
    pub narrow: bool,
    pub store: Store,
}

/// What the rows of a product are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowKind {
    /// The cells of a board, this many; 32 at a time.
    Cells(usize),
    /// Boards, each a single cell.
    Boards,
}

/// Activations that a product adds to its sums.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Residual {
    pub buffer: usize,
    /// Element offset of the first cell's row in the first block, and from block to block.
    pub first: usize,
    pub block_stride: usize,
    /// What a unit of it is worth in units of the output.
    pub ratio: f32,
}

/// One step of a plan.
#[derive(Debug)]
pub(crate) enum Step<E> {
    Input { table: InputTable, output: usize, store: Store },
    Product(Product<E>),
    Elementwise(Elementwise),
}

impl<E> Step<E> {
    /// The buffer that this step fills.
    pub fn output(&self) -> usize {
        match self {
            Self::Input { output, .. } => *output,
            Self::Product(product) => product.output,
            Self::Elementwise(step) => step.output,
        }
    }

    /// Every buffer that this step reads or writes.
    pub fn buffers(&self) -> Vec<usize> {
        match self {
            Self::Input { output, .. } => vec![*output],
            Self::Product(product) => {
                let residual = product.residual.map(|residual| residual.buffer);
                [product.input, product.output].into_iter().chain(residual).collect()
            }
            Self::Elementwise(step) => vec![step.inputs[0], step.inputs[1], step.output],
        }
    }

    fn works_on_boards(&self) -> bool {
        matches!(self, Self::Product(Product { rows: RowKind::Boards, .. }))
    }
}

/// Steps that run one after the other.
#[derive(Debug)]
pub(crate) struct Steps<E> {
    /// Run for [`GROUP`] boards at a time.
    pub body: Vec<Step<E>>,
    /// Run for [`CHUNK`] boards at a time: from the first product over boards on.
    pub tail: Vec<Step<E>>,
}

impl<E> Steps<E> {
    /// Cuts a list of steps in two. After a tail there is nothing but tail.
    pub fn cut(mut steps: Vec<Step<E>>, after_tail: bool) -> Self {
        let first = if after_tail { Some(0) } else { steps.iter().position(Step::works_on_boards) };
        let tail = first.map_or(Vec::new(), |first| steps.split_off(first));
        Self { body: steps, tail }
    }
}

/// How the asked outputs of a head are read.
#[derive(Debug)]
pub(crate) enum OutputReader {
    /// The last convolution, done only for the outputs that were asked for, in `f32` weights.
    Sampled(Sampled),
    /// The outputs as the step before stored them: for each output, its element in the board.
    Stored { input: usize, places: Vec<u32> },
}

impl OutputReader {
    /// The buffer that is read.
    pub fn input(&self) -> usize {
        match self {
            Self::Sampled(sampled) => sampled.input,
            Self::Stored { input, .. } => *input,
        }
    }
}

/// A convolution whose outputs are computed one by one.
#[derive(Debug)]
pub(crate) struct Sampled {
    pub input: usize,
    /// Output channels.
    pub channels: usize,
    /// Blocks of 32 input channels, and elements between them.
    pub blocks: usize,
    pub block_stride: usize,
    /// For each output cell, where in `taps` its taps begin; one more at the end.
    pub starts: Vec<usize>,
    /// (kernel cell, element offset of the input row).
    pub taps: Vec<(usize, usize)>,
    /// `[channel][kernel cell][blocks * 32]`
    pub weights: Lines<f32>,
    pub kernel_cells: usize,
    pub bias: Vec<f32>,
    pub activation: Activation,
}

/// One head.
#[derive(Debug)]
pub(crate) struct HeadPlan<E> {
    pub kind: HeadKind,
    pub steps: Steps<E>,
    pub last: OutputReader,
}

/// Memory for one tensor of some boards.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BufferPlan {
    /// Elements a board.
    pub stride: usize,
    /// Boards: [`GROUP`], or [`CHUNK`] where a tail step uses it.
    pub boards: usize,
}

/// A network ready to run.
#[derive(Debug)]
pub(crate) struct Plan<E> {
    pub encoding: Encoding,
    pub trunk: Steps<E>,
    pub heads: Vec<HeadPlan<E>>,
    pub buffers: Vec<BufferPlan>,
}

impl<E> Plan<E> {
    /// All steps in the order in which they were compiled.
    pub fn steps(&self) -> impl Iterator<Item = &Step<E>> {
        let heads = self.heads.iter().map(|head| &head.steps);
        std::iter::once(&self.trunk)
            .chain(heads)
            .flat_map(|steps| steps.body.iter().chain(&steps.tail))
    }

    /// Finds out which buffers must hold a whole chunk, from their sizes a board.
    pub fn with_buffers(mut self, strides: impl Iterator<Item = usize>) -> Self {
        let mut buffers: Vec<BufferPlan> =
            strides.map(|stride| BufferPlan { stride, boards: GROUP }).collect();
        let tails = std::iter::once(&self.trunk).chain(self.heads.iter().map(|head| &head.steps));
        let in_tails = tails.flat_map(|steps| &steps.tail).flat_map(Step::buffers);
        // Buffers that are read after the tail of the trunk.
        let after_trunk =
            self.heads.iter().filter(|_| !self.trunk.tail.is_empty()).map(|head| head.last.input());
        in_tails.chain(after_trunk).for_each(|buffer| buffers[buffer].boards = CHUNK);
        self.buffers = buffers;
        self
    }
}
