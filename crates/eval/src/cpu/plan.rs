//! A network compiled for one path: batch norm is folded, weights are packed in panels, and all
//! addresses are computed in advance.

use nets::{Activation, Encoding, HeadKind, HeadOutput};

use std::sync::Arc;

use super::{
    attention::Attend,
    elementwise::Elementwise,
    input::InputTable,
    layout::{CHUNK, GROUP, Layout, Store},
    memory::CacheLines,
    planes::PlaneWriter,
    whole_board::BoardTable,
};

/// A convolution or dense layer as a matrix product of activations (A) and packed weights (B).
#[derive(Debug)]
pub(crate) struct Product<E> {
    /// Index of the input buffer.
    pub input: usize,
    /// Index of the output buffer.
    pub output: usize,
    pub rows: RowKind,
    /// Byte offset of the rows of A for each step of 32 inner elements.
    pub offsets: Vec<u32>,
    /// `[panels][offsets.len()][32 x 32]`, each step in the order of the element format.
    pub weights: Arc<CacheLines<E>>,
    /// 32 for each panel: the ratio of a quantised sum's unit to the output's unit. Other formats do
    /// not use it.
    pub scale: CacheLines<f32>,
    /// 32 for each panel, in units of the output.
    pub bias: CacheLines<f32>,
    pub activation: Activation,
    /// Added before the activation.
    pub residual: Option<Residual>,
    /// Panels of 32 output channels.
    pub panels: usize,
    /// Are only the first 16 columns of the last panel in use?
    pub narrow: bool,
    pub store: Store,
}

/// The meaning of a product's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowKind {
    /// The cells of a board, of which there are so many; a product takes up to 32.
    Cells(usize),
    /// Boards whose output is a single cell.
    Boards,
    /// So many parts of the single cell of each board, each so many elements behind the one before;
    /// those of all boards in sequence.
    Parts(usize, usize),
}

/// Activations that a product adds to its sums.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Residual {
    /// Index of its buffer.
    pub buffer: usize,
    /// Element offset of the first cell's row in the first block.
    pub first: usize,
    /// Elements from one block of channels to the next.
    pub block_stride: usize,
    /// Ratio of its unit to the output's unit.
    pub ratio: f32,
}

/// One step of a plan.
#[derive(Debug)]
pub(crate) enum Step<E> {
    Input {
        table: InputTable,
        output: usize,
        store: Store,
    },
    /// Writes input planes as activations, for encodings with history.
    Planes(PlaneWriter),
    /// An input layer and the dense layer behind it.
    Board(BoardTable),
    Product(Product<E>),
    Elementwise(Elementwise),
    Attend(Attend),
}

impl<E> Step<E> {
    /// Index of the buffer that this step writes.
    pub fn output(&self) -> usize {
        match self {
            Self::Input { output, .. } => *output,
            Self::Planes(step) => step.output,
            Self::Board(step) => step.output,
            Self::Product(product) => product.output,
            Self::Elementwise(step) => step.output,
            Self::Attend(step) => step.output,
        }
    }

    /// The table that the step sums up, if it does that.
    pub fn board_table(&self) -> Option<&BoardTable> {
        match self {
            Self::Board(table) => Some(table),
            _ => None,
        }
    }

    /// Does the step work on one board after the other? Others need all boards of a chunk.
    pub fn is_by_board(&self) -> bool {
        !matches!(self, Self::Product(Product { rows: RowKind::Boards | RowKind::Parts(..), .. }))
    }

    /// Indices of all buffers that this step reads or writes.
    pub fn buffers(&self) -> Vec<usize> {
        match self {
            Self::Input { output, .. } => vec![*output],
            Self::Planes(step) => vec![step.output],
            Self::Board(step) => vec![step.output],
            Self::Product(product) => {
                let residual = product.residual.map(|residual| residual.buffer);
                [product.input, product.output].into_iter().chain(residual).collect()
            }
            Self::Elementwise(step) => vec![step.inputs[0], step.inputs[1], step.output],
            Self::Attend(step) => {
                step.inputs.into_iter().chain(step.board).chain([step.output]).collect()
            }
        }
    }
}

/// Steps that run one after the other.
#[derive(Debug)]
pub(crate) struct Steps<E> {
    /// Run for [`GROUP`] boards at a time.
    pub body: Vec<Step<E>>,
    /// Run for [`CHUNK`] boards at a time: all steps from the first product over boards.
    pub tail: Vec<Step<E>>,
}

impl<E> Steps<E> {
    /// Splits a list of steps into body and tail. If another tail runs before them (`after_tail`),
    /// all steps are tail.
    pub fn cut(mut steps: Vec<Step<E>>, after_tail: bool) -> Self {
        let first =
            if after_tail { Some(0) } else { steps.iter().position(|step| !step.is_by_board()) };
        let tail = first.map_or(Vec::new(), |first| steps.split_off(first));
        Self { body: steps, tail }
    }
}

/// How the requested outputs of a head are read.
#[derive(Debug)]
pub(crate) enum OutputReader {
    /// The last layer is computed for the requested outputs only.
    Sampled(Sampled),
    /// The last step has stored all outputs; `places` are their element offsets in the board.
    Stored { input: usize, places: Vec<u32> },
    /// Pairs of squares of a policy of attention.
    Pairs(Pairs),
}

impl OutputReader {
    /// Indices of the buffers that are read.
    pub fn inputs(&self) -> Vec<usize> {
        match self {
            Self::Sampled(sampled) => vec![sampled.input],
            Self::Stored { input, .. } => vec![*input],
            Self::Pairs(pairs) => vec![pairs.query, pairs.key],
        }
    }
}

/// The logits of a policy of attention, computed one by one.
#[derive(Debug)]
pub(crate) struct Pairs {
    /// Indices of the buffers of queries and keys.
    pub query: usize,
    pub key: usize,
    /// Of both.
    pub layout: Layout,
    /// Factor of a query times a key.
    pub scale: f32,
    /// For a promotion to a queen, a rook, a bishop the `[padded channels]` that a key is multiplied
    /// by.
    pub promotions: [CacheLines<f32>; 3],
}

/// A convolution whose outputs are computed one by one, with `f32` weights.
#[derive(Debug)]
pub(crate) struct Sampled {
    /// Index of the input buffer.
    pub input: usize,
    /// Output channels.
    pub channels: usize,
    /// Blocks of 32 input channels.
    pub blocks: usize,
    /// Elements from one block of input channels to the next.
    pub block_stride: usize,
    /// Index in `taps` of each output cell's first tap; one more at the end.
    pub starts: Vec<usize>,
    /// Kernel cell and element offset of the input row.
    pub taps: Vec<(usize, usize)>,
    /// `[channels][kernel cells][blocks * 32]`
    pub weights: CacheLines<f32>,
    pub kernel_cells: usize,
    pub bias: Vec<f32>,
    pub activation: Activation,
}

/// A compiled head.
#[derive(Debug)]
pub(crate) struct HeadPlan<E> {
    pub kind: HeadKind,
    pub output: HeadOutput,
    /// Outputs per position.
    pub outputs: usize,
    pub steps: Steps<E>,
    pub last: OutputReader,
}

/// The size of a buffer of activations.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BufferPlan {
    /// Elements of a board.
    pub stride: usize,
    /// Number of boards: [`CHUNK`] if a tail step uses the buffer, else [`GROUP`].
    pub boards: usize,
}

/// A compiled network.
#[derive(Debug)]
pub(crate) struct Plan<E> {
    pub encoding: Encoding,
    pub trunk: Steps<E>,
    pub heads: Vec<HeadPlan<E>>,
    pub buffers: Vec<BufferPlan>,
}

impl<E> Plan<E> {
    /// All steps: those of the trunk, then those of each head.
    pub fn steps(&self) -> impl Iterator<Item = &Step<E>> + Clone {
        let heads = self.heads.iter().map(|head| &head.steps);
        std::iter::once(&self.trunk)
            .chain(heads)
            .flat_map(|steps| steps.body.iter().chain(&steps.tail))
    }

    /// Sets the buffers from their elements a board, and finds those that must hold a whole chunk.
    pub fn with_buffers(mut self, strides: impl Iterator<Item = usize>) -> Self {
        let mut buffers: Vec<BufferPlan> =
            strides.map(|stride| BufferPlan { stride, boards: GROUP }).collect();
        let tails = std::iter::once(&self.trunk).chain(self.heads.iter().map(|head| &head.steps));
        let in_tails = tails.flat_map(|steps| &steps.tail).flat_map(Step::buffers);
        // These buffers are read after the tail of the trunk.
        let after_trunk = self
            .heads
            .iter()
            .filter(|_| !self.trunk.tail.is_empty())
            .flat_map(|head| head.last.inputs());
        in_tails.chain(after_trunk).for_each(|buffer| buffers[buffer].boards = CHUNK);
        self.buffers = buffers;
        self
    }
}
