//! A network compiled for a kernel family: batch norm folded, weights packed in panels, every address precomputed.
//!
//! Activations lie in blocks of 32 channels, board after board: `[board][channel block][copy][rank][file][32]`. A layer
//! that a 3x3 convolution follows is stored in three copies, shifted one file left, not at all, and one file right, with
//! an empty rank below and above: then each of the nine taps reads 16 consecutive squares at one constant step, and no
//! tile row is wasted on padding. (5x5 and 7x7: five and seven copies.) Cells outside the board are zeroed once, at
//! allocation, and never written; a store that would leave the board repeats the middle copy instead.

use nets::{Activation, HeadKind, Layer, NORM_EPSILON, Network, PLANES, Padding, Shape};

use super::{
    input::InputTable,
    memory::{Element, Lines},
};
use crate::{EvalError, reference::kernel_start};

/// Channels in a block: the width of a panel and the depth of a step.
pub(crate) const BLOCK: usize = 32;

/// Boards that a worker takes through the network together.
pub(crate) const GROUP: usize = 8;

/// Where the activations of one tensor lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// 64 or 1.
    pub cells: usize,
    /// Blocks of 32 channels.
    pub blocks: usize,
    /// How many squares a following convolution looks to each side.
    reach: usize,
}

impl Layout {
    /// Stored copies of a row.
    pub fn copies(&self) -> usize {
        2 * self.reach + 1
    }

    /// Elements from a block of channels to the next.
    pub fn block_stride(&self) -> usize {
        if self.cells == 1 {
            return BLOCK;
        }
        self.copies() * (8 + 2 * self.reach) * 8 * BLOCK
    }

    /// Elements from a board to the next.
    pub fn board_stride(&self) -> usize {
        self.blocks * self.block_stride()
    }

    /// Element offset, in the first block, of the row that a tap reads for output cell `cell`; the rows for the
    /// following 15 cells follow it.
    pub fn tap(&self, cell: usize, rank_step: isize, file_step: isize) -> usize {
        if self.cells == 1 {
            return 0;
        }
        let copy = (file_step + self.reach as isize) as usize;
        let rank = ((cell / 8 + self.reach) as isize + rank_step) as usize;
        ((copy * (8 + 2 * self.reach) + rank) * 8 + cell % 8) * BLOCK
    }

    /// Element offsets at which the row of each cell is stored, `copies` a cell, in each block.
    fn targets(&self) -> Vec<u32> {
        if self.cells == 1 {
            return (0..GROUP).map(|board| (board * self.board_stride()) as u32).collect();
        }
        let reach = self.reach as isize;
        let mut targets = Vec::with_capacity(64 * self.copies());
        for cell in 0..64_usize {
            for file_step in -reach..=reach {
                // The copy for step `s` holds at file `f` what the board holds at `f + s`.
                let file = (cell % 8) as isize - file_step;
                let target = if (0..8).contains(&file) {
                    self.tap(cell / 8 * 8 + file as usize, 0, file_step)
                } else {
                    self.tap(cell, 0, 0)
                };
                targets.push(target as u32);
            }
        }
        targets
    }
}

/// A layer as a product of activations and packed panels.
#[derive(Debug)]
pub(crate) struct Product<E> {
    pub input: usize,
    pub output: usize,
    /// True: the 32 rows of a block are half of a board's squares. False: a row a board.
    pub by_board: bool,
    /// Byte offset of the A rows of each step of 32 inner elements.
    pub offsets: Vec<u32>,
    /// Panel after panel, each `offsets.len() * 32 x 32`.
    pub weights: Lines<E>,
    /// 32 a panel: what a unit of a quantised sum is worth in units of the output; 1 in other formats.
    pub scale: Lines<f32>,
    /// 32 a panel, in units of the output.
    pub bias: Lines<f32>,
    pub relu: bool,
    pub panels: usize,
    /// Only the first 16 columns of the last panel are in use.
    pub narrow: bool,
    pub store: Store,
}

/// How a layer writes its rows.
#[derive(Debug)]
pub(crate) struct Store {
    pub copies: usize,
    pub block_stride: usize,
    /// `copies` element offsets a row.
    pub targets: Vec<u32>,
}

impl Store {
    fn of(layout: &Layout) -> Self {
        Self { copies: layout.copies(), block_stride: layout.block_stride(), targets: layout.targets() }
    }
}

/// One step of a plan.
#[derive(Debug)]
pub(crate) enum Step<E> {
    Input { table: InputTable, output: usize, store: Store },
    Product(Product<E>),
}

/// How the asked outputs of a head are read.
#[derive(Debug)]
pub(crate) enum Last {
    /// The last convolution, done only for the outputs that were asked for, in `f32` weights.
    Sampled(Sampled),
    /// The outputs as the step before stored them, `channels` a cell.
    Stored { input: usize, channels: usize, positions: Vec<u32>, rows: Vec<u32>, block_stride: usize },
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
    pub relu: bool,
}

/// One head.
#[derive(Debug)]
pub(crate) struct HeadPlan<E> {
    pub kind: HeadKind,
    pub steps: Vec<Step<E>>,
    pub last: Last,
}

impl<E> Step<E> {
    /// The buffer that this step fills.
    pub fn output(&self) -> usize {
        match self {
            Self::Input { output, .. } | Self::Product(Product { output, .. }) => *output,
        }
    }
}

/// A network ready to run.
#[derive(Debug)]
pub(crate) struct Plan<E> {
    pub trunk: Vec<Step<E>>,
    pub heads: Vec<HeadPlan<E>>,
    /// Elements a board in each buffer.
    pub buffers: Vec<usize>,
    /// Multiply-adds of a dense evaluation of each head with the trunk, by head.
    pub macs: Vec<(HeadKind, u64)>,
}

/// A tensor between two steps.
#[derive(Clone)]
struct Place {
    buffer: usize,
    layout: Layout,
    /// Position of each channel; a layer may leave gaps, which hold zeros.
    positions: Vec<usize>,
    /// What a stored unit is worth; 1 unless quantised.
    unit: f32,
}

struct Compiler<'a> {
    network: &'a Network,
    buffers: Vec<Layout>,
    /// The trunk's output, which heads must not overwrite.
    pinned: Option<usize>,
    /// The largest output of each step, trunk first, then the heads; for quantised formats only.
    ranges: std::slice::Iter<'a, f32>,
}

impl<E: Element> Plan<E> {
    /// Compiles `network`. Quantised formats need the largest output of each step, in the order of the plan.
    pub fn compile(network: &Network, ranges: &[f32]) -> Result<Self, EvalError> {
        let unsupported = |reason: String| EvalError::Unsupported { network: network.name.clone(), reason };
        let description = &network.description;
        description.check().map_err(unsupported)?;
        let mut compiler = Compiler { network, buffers: Vec::new(), pinned: None, ranges: ranges.iter() };
        let reach_of = |layers: &[Layer]| match layers.first() {
            Some(Layer::Conv { kernel, padding: Padding::Same, .. }) => kernel / 2,
            _ => 0,
        };
        let heads_reach = description.heads.iter().map(|head| reach_of(&head.layers)).max().unwrap_or(0);
        let (trunk, trunk_place) = compiler.steps("trunk", &description.trunk, None, heads_reach)?;
        compiler.pinned = trunk_place.as_ref().map(|place| place.buffer);
        let mut heads = Vec::new();
        for head in &description.heads {
            let sampled = match head.layers.last() {
                Some(Layer::Conv { .. }) => 1,
                _ => 0,
            };
            let (body, end) = head.layers.split_at(head.layers.len() - sampled);
            let name = head.kind.name();
            let (steps, place) = compiler.steps(name, body, trunk_place.clone(), reach_of(end))?;
            let place = place.ok_or_else(|| unsupported(format!("the {name} head has no input layer")))?;
            let last = match end.first() {
                Some(layer) => compiler.sampled(&format!("{name}.{}", body.len()), layer, &place)?,
                None if E::QUANTISED => {
                    return Err(unsupported(format!("int8 would round the {name} head's outputs")));
                }
                None => Last::Stored {
                    input: place.buffer,
                    channels: place.positions.len(),
                    positions: place.positions.iter().map(|&position| position as u32).collect(),
                    rows: (0..place.layout.cells).map(|cell| place.layout.tap(cell, 0, 0) as u32).collect(),
                    block_stride: place.layout.block_stride(),
                },
            };
            heads.push(HeadPlan { kind: head.kind, steps, last });
        }
        let macs = description.heads.iter().map(|head| (head.kind, macs(&description.trunk, &head.layers)));
        let macs = macs.collect();
        let buffers = compiler.buffers.iter().map(Layout::board_stride).collect();
        Ok(Self { trunk, heads, buffers, macs })
    }
}

/// Multiply-adds of the layers one after the other, counted densely.
fn macs(trunk: &[Layer], head: &[Layer]) -> u64 {
    let mut shape = Shape { cells: 64, channels: PLANES };
    let mut sum = 0;
    for layer in trunk.iter().chain(head) {
        let Ok(next) = layer.output_shape(shape) else { return 0 };
        sum += match layer {
            Layer::Branches { branches, .. } => branches
                .iter()
                .map(|branch| 64 * branch.kernel[0] * branch.kernel[1] * branch.channels * PLANES)
                .sum::<usize>(),
            Layer::Conv { kernel, .. } => next.cells * kernel * kernel * shape.channels * next.channels,
        };
        shape = next;
    }
    sum as u64
}

/// Scale and bias that a layer's norm (or bias) amounts to, one a channel.
fn fold(
    network: &Network,
    name: &str,
    norm: bool,
    channels: usize,
) -> Result<(Vec<f32>, Vec<f32>), EvalError> {
    if !norm {
        return Ok((vec![1.0; channels], tensor(network, &format!("{name}.bias"))?.to_vec()));
    }
    let part = |part: &str| tensor(network, &format!("{name}.norm.{part}"));
    let (scale, shift, mean, variance) = (part("scale")?, part("shift")?, part("mean")?, part("variance")?);
    let factors: Vec<f32> = scale
        .iter()
        .zip(variance)
        .map(|(&scale, &variance)| scale / (variance + NORM_EPSILON).sqrt())
        .collect();
    let bias = (0..channels).map(|channel| shift[channel] - mean[channel] * factors[channel]).collect();
    Ok((factors, bias))
}

fn tensor<'a>(network: &'a Network, name: &str) -> Result<&'a [f32], EvalError> {
    network.tensor(name).map(|tensor| tensor.data.as_slice()).ok_or_else(|| EvalError::Unsupported {
        network: network.name.clone(),
        reason: format!("tensor `{name}` is missing"),
    })
}

impl Compiler<'_> {
    /// What a unit of the next step's output is worth.
    fn unit<E: Element>(&mut self, name: &str, activation: Activation) -> Result<f32, EvalError> {
        if !E::QUANTISED {
            return Ok(1.0);
        }
        let unsupported =
            |reason: String| EvalError::Unsupported { network: self.network.name.clone(), reason };
        if activation != Activation::Relu {
            return Err(unsupported(format!("layer {name} may be negative, which int8 does not hold")));
        }
        let largest = self.ranges.next().ok_or_else(|| unsupported(format!("layer {name} has no range")))?;
        Ok(if *largest > 0.0 { largest / 255.0 } else { 1.0 })
    }

    /// Compiles layers that run one after the other. `last_reach`: what the layer after them looks at.
    fn steps<E: Element>(
        &mut self,
        prefix: &str,
        layers: &[Layer],
        input: Option<Place>,
        last_reach: usize,
    ) -> Result<(Vec<Step<E>>, Option<Place>), EvalError> {
        let mut place = input;
        let mut steps = Vec::new();
        for (index, layer) in layers.iter().enumerate() {
            let reach = match layers.get(index + 1) {
                Some(Layer::Conv { kernel, padding: Padding::Same, .. }) => kernel / 2,
                Some(_) => 0,
                None => last_reach,
            };
            let (step, next) = self.step(&format!("{prefix}.{index}"), layer, place.as_ref(), reach)?;
            steps.push(step);
            place = Some(next);
        }
        Ok((steps, place))
    }

    fn step<E: Element>(
        &mut self,
        name: &str,
        layer: &Layer,
        input: Option<&Place>,
        reach: usize,
    ) -> Result<(Step<E>, Place), EvalError> {
        match (layer, input) {
            (Layer::Branches { branches, activation }, _) => {
                let channels = branches.iter().map(|branch| branch.channels).sum();
                let (factors, bias) = fold(self.network, name, true, channels)?;
                let weights: Vec<&[f32]> = (0..branches.len())
                    .map(|index| tensor(self.network, &format!("{name}.branches.{index}.weight")))
                    .collect::<Result<_, _>>()?;
                let relu = *activation == Activation::Relu;
                let unit = self.unit::<E>(name, *activation)?;
                let [factors, bias] = [factors, bias]
                    .map(|list: Vec<f32>| list.iter().map(|value| value / unit).collect::<Vec<f32>>());
                let (table, positions) = InputTable::new(branches, &weights, &factors, &bias, relu);
                let layout = Layout { cells: 64, blocks: table.width().div_ceil(BLOCK), reach };
                let output = self.buffer(&layout, None);
                let store = Store::of(&layout);
                Ok((Step::Input { table, output, store }, Place { buffer: output, layout, positions, unit }))
            }
            (&Layer::Conv { kernel, channels, padding, norm, activation }, Some(input)) => {
                let cells = if padding == Padding::Valid { 1 } else { input.layout.cells };
                // A single cell has no neighbours to look at.
                let reach = if cells == 1 { 0 } else { reach };
                let layout = Layout { cells, blocks: channels.div_ceil(BLOCK), reach };
                let output = self.buffer(&layout, Some(input.buffer));
                let (factors, bias) = fold(self.network, name, norm, channels)?;
                let weight = tensor(self.network, &format!("{name}.weight"))?;
                let unit = self.unit::<E>(name, activation)?;
                let taps = taps(kernel, padding);
                let steps = taps.len() * input.layout.blocks;
                let mut offsets = Vec::with_capacity(steps);
                for tap in &taps {
                    let row = input.layout.tap(tap.cell, tap.rank, tap.file);
                    for block in 0..input.layout.blocks {
                        offsets.push(((row + block * input.layout.block_stride()) * size_of::<E>()) as u32);
                    }
                }
                let panel = steps * BLOCK * BLOCK;
                let mut weights = Lines::<E>::zeroed(layout.blocks * panel);
                let packed = weights.as_mut_slice();
                let inputs = input.positions.len();
                let mut scale = Lines::<f32>::zeroed(layout.blocks * BLOCK);
                for channel in 0..channels {
                    let own = &weight[channel * inputs * kernel * kernel..][..inputs * kernel * kernel];
                    let largest = own.iter().fold(0.0_f32, |most, weight| most.max(weight.abs()));
                    let largest = largest * factors[channel].abs();
                    let step = if E::QUANTISED && largest > 0.0 { largest / 127.0 } else { 1.0 };
                    scale.as_mut_slice()[channel] = step * input.unit / unit;
                    for (at, &position) in input.positions.iter().enumerate() {
                        for (index, tap) in taps.iter().enumerate() {
                            let from = (channel * inputs + at) * kernel * kernel + tap.kernel_cell;
                            let k = index * input.layout.blocks * BLOCK + position;
                            packed[channel / BLOCK * panel + E::panel_index(k, channel % BLOCK)] =
                                E::from_f32(weight[from] * factors[channel] / step);
                        }
                    }
                }
                let mut padded = Lines::<f32>::zeroed(layout.blocks * BLOCK);
                padded.as_mut_slice().iter_mut().zip(&bias).for_each(|(to, bias)| *to = bias / unit);
                let product = Product {
                    input: input.buffer,
                    output,
                    by_board: cells == 64,
                    offsets,
                    weights,
                    scale,
                    bias: padded,
                    relu: activation == Activation::Relu,
                    panels: layout.blocks,
                    narrow: (channels - 1) % BLOCK < 16,
                    store: Store::of(&layout),
                };
                let positions = (0..channels).collect();
                Ok((Step::Product(product), Place { buffer: output, layout, positions, unit }))
            }
            (Layer::Conv { .. }, None) => Err(EvalError::Unsupported {
                network: self.network.name.clone(),
                reason: format!("layer {name} has no input"),
            }),
        }
    }

    /// A buffer of this layout that holds neither the step's input nor the trunk's output.
    fn buffer(&mut self, layout: &Layout, input: Option<usize>) -> usize {
        let free = |&index: &usize| Some(index) != input && Some(index) != self.pinned;
        let known = (0..self.buffers.len()).filter(free).find(|&index| self.buffers[index] == *layout);
        known.unwrap_or_else(|| {
            self.buffers.push(layout.clone());
            self.buffers.len() - 1
        })
    }

    /// Compiles a head's last convolution.
    fn sampled(&self, name: &str, layer: &Layer, input: &Place) -> Result<Last, EvalError> {
        let &Layer::Conv { kernel, channels, padding, norm, activation } = layer else {
            return Err(EvalError::Unsupported {
                network: self.network.name.clone(),
                reason: format!("layer {name} cannot be the last"),
            });
        };
        let (factors, bias) = fold(self.network, name, norm, channels)?;
        let weight = tensor(self.network, &format!("{name}.weight"))?;
        let layout = &input.layout;
        let all = taps(kernel, padding);
        let cells = if padding == Padding::Valid { 1 } else { layout.cells };
        let (mut starts, mut list) = (vec![0], Vec::new());
        for cell in 0..cells {
            for tap in &all {
                // Cells of a 1x1 board and whole-board kernels address the input directly.
                let inside = cells == 1
                    || ((0..8).contains(&((cell / 8) as isize + tap.rank))
                        && (0..8).contains(&((cell % 8) as isize + tap.file)));
                if inside {
                    list.push((tap.kernel_cell, layout.tap(cell + tap.cell, tap.rank, tap.file)));
                }
            }
            starts.push(list.len());
        }
        let (kernel_cells, depth) = (kernel * kernel, layout.blocks * BLOCK);
        let mut weights = Lines::<f32>::zeroed(channels * kernel_cells * depth);
        let packed = weights.as_mut_slice();
        let inputs = input.positions.len();
        for channel in 0..channels {
            for (at, &position) in input.positions.iter().enumerate() {
                for cell in 0..kernel_cells {
                    packed[(channel * kernel_cells + cell) * depth + position] =
                        weight[(channel * inputs + at) * kernel_cells + cell] * factors[channel] * input.unit;
                }
            }
        }
        Ok(Last::Sampled(Sampled {
            input: input.buffer,
            channels,
            blocks: layout.blocks,
            block_stride: layout.block_stride(),
            starts,
            taps: list,
            weights,
            kernel_cells,
            bias,
            relu: activation == Activation::Relu,
        }))
    }
}

/// One cell of a square kernel.
struct Tap {
    kernel_cell: usize,
    /// The input cell itself, where the kernel covers the whole board; otherwise 0.
    cell: usize,
    /// Steps from the output cell.
    rank: isize,
    file: isize,
}

fn taps(kernel: usize, padding: Padding) -> Vec<Tap> {
    let start = kernel_start(kernel, 1);
    (0..kernel * kernel)
        .map(|kernel_cell| match padding {
            Padding::Valid => Tap { kernel_cell, cell: kernel_cell, rank: 0, file: 0 },
            Padding::Same => Tap {
                kernel_cell,
                cell: 0,
                rank: start + (kernel_cell / kernel) as isize,
                file: start + (kernel_cell % kernel) as isize,
            },
        })
        .collect()
}
