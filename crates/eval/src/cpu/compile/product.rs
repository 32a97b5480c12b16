//! Compiles convolutions and dense layers to matrix products: input offsets, packed weights, scales
//! and biases.

use std::sync::Arc;

use nets::{Activation, Layer, Padding, kernel_start};

use super::{Activations, Compiler};
use crate::{
    EvalError,
    cpu::{
        layout::{BLOCK, Layout},
        memory::{CacheLines, Element},
        moments::{self, Moments},
        plan::{OutputReader, Product, Residual, RowKind, Sampled, Step},
        rounding::in_units,
    },
    folded::{fold, tensor},
};

/// A convolution, or a dense layer as a convolution with a kernel as large as the board.
#[derive(Clone, Copy)]
pub(super) struct Convolution {
    pub kernel: usize,
    pub channels: usize,
    pub padding: Padding,
    pub norm: bool,
    pub activation: Activation,
}

/// The residual input of a product's output.
#[derive(Clone, Copy)]
pub(super) enum ResidualUse<'a> {
    /// There is none.
    Nothing,
    /// A later step adds it, so the product stores its channels in the same order.
    Order(&'a Activations),
    /// As before, and the next step is squeeze and excitation, so that outputs may have either sign.
    Excited(&'a Activations),
    /// The product adds it before its activation.
    Sum(&'a Activations),
    /// There is none, and the channels have these positions.
    At(&'a [usize]),
}

impl Convolution {
    pub fn of(layer: &Layer, input: &Layout) -> Option<Self> {
        match *layer {
            Layer::Conv { kernel, channels, padding, norm, activation } => {
                Some(Self { kernel, channels, padding, norm, activation })
            }
            Layer::Dense { channels, norm, activation } => Some(Self {
                kernel: input.side,
                channels,
                padding: Padding::Valid,
                norm,
                activation,
            }),
            _ => None,
        }
    }

    /// Side of the output board.
    fn side(&self, input: &Layout) -> usize {
        if self.padding == Padding::Valid { 1 } else { input.side }
    }
}

/// The packed weights of a product.
struct Packed<E> {
    weights: CacheLines<E>,
    /// One for each padded channel.
    scale: CacheLines<f32>,
    /// One for each padded channel, in units of the output.
    bias: CacheLines<f32>,
    /// Moments of each channel's sums, if those of the inputs are known.
    moments: Option<Vec<Moments>>,
}

/// The weights of a layer before packing.
struct Weights<'a> {
    /// `[channels][inputs][kernel cells]`
    weight: &'a [f32],
    kernel_cells: usize,
    /// The folded batch norm, one for each channel.
    factors: &'a [f32],
    /// One for each channel.
    bias: &'a [f32],
    /// The value of one stored unit of the output.
    unit: f32,
    /// The stored number that means 0.
    zero: f32,
    /// The smallest unit of quantised weights.
    smallest: f32,
    /// Does the layer run as a tall product?
    tall: bool,
}

impl ResidualUse<'_> {
    /// Position of each output channel among the padded ones.
    fn positions(&self, channels: usize) -> Vec<usize> {
        match self {
            Self::Nothing => (0..channels).collect(),
            Self::At(positions) => positions.to_vec(),
            Self::Order(other) | Self::Excited(other) | Self::Sum(other) => other.positions.clone(),
        }
    }

    fn added(&self) -> Option<&Activations> {
        match self {
            Self::Sum(other) => Some(other),
            Self::Nothing | Self::Order(_) | Self::Excited(_) | Self::At(_) => None,
        }
    }
}

impl Compiler<'_> {
    /// Compiles a convolution or dense layer.
    pub(super) fn product<E: Element>(
        &mut self,
        name: &str,
        convolution: &Convolution,
        input: &Activations,
        residual_use: ResidualUse,
        reach: usize,
    ) -> Result<(Step<E>, Activations), EvalError> {
        let &Convolution { kernel, channels, padding, norm, activation } = convolution;
        let side = convolution.side(&input.layout);
        let positions = residual_use.positions(channels);
        let width = positions.iter().max().map_or(1, |last| last + 1);
        let layout = Layout::new(side, width, reach);
        let output = self.buffer(&layout, Some(input.buffer));
        let (factors, bias) = fold(self.network, name, norm, channels)?;
        let weight = tensor(self.network, &format!("{name}.weight"))?;
        let is_excited = matches!(residual_use, ResidualUse::Excited(_));
        let (unit, zero) = if is_excited && activation == Activation::Identity {
            self.signed_unit::<E>(name)?
        } else {
            (self.unit::<E>(name, activation)?, 0.0)
        };
        let taps = taps(kernel, padding);
        let added = residual_use.added();
        // The residual is added to 32-bit sums in their unit. Where all weights are close to zero
        // the unit must not be so small that the residual overflows.
        let smallest = added.map_or(0.0, |added| added.unit / input.unit / (1 << 22) as f32);
        let weights = Weights {
            weight,
            kernel_cells: kernel * kernel,
            factors: &factors,
            bias: &bias,
            unit,
            zero,
            smallest,
            tall: layout.cells() < BLOCK,
        };
        let packed = weights.pack::<E>(&taps, input, &positions, layout.blocks);
        let own = self.moments_of_norm(name, norm, channels)?.or(packed.moments);
        let before = match added {
            Some(added) => moments::sum(own, added.moments.as_deref()),
            None => own,
        };
        let relu = activation == Activation::Relu;
        let moments = if relu { before.map(moments::after_relu) } else { before };
        let product = Product {
            input: input.buffer,
            output,
            rows: if side == 1 { RowKind::Boards } else { RowKind::Cells(layout.cells()) },
            offsets: offsets::<E>(&taps, &input.layout),
            weights: Arc::new(packed.weights),
            scale: packed.scale,
            bias: packed.bias,
            activation,
            residual: added.map(|added| Residual {
                buffer: added.buffer,
                first: added.layout.tap(0, 0, 0),
                block_stride: added.layout.block_stride(),
                ratio: added.unit / unit,
            }),
            panels: layout.blocks,
            narrow: (width - 1) % BLOCK < 16,
            store: if side == 1 { layout.store_boards() } else { layout.store() },
        };
        Ok((
            Step::Product(product),
            Activations { buffer: output, layout, positions, unit, zero, moments },
        ))
    }

    /// Compiles the last layer of a head, of which only the requested outputs are computed.
    pub(super) fn sampled(
        &self,
        name: &str,
        layer: &Layer,
        input: &Activations,
    ) -> Result<OutputReader, EvalError> {
        let layout = &input.layout;
        let Some(convolution) = Convolution::of(layer, layout) else {
            return Err(self.unsupported(format!("layer {name} cannot be the last")));
        };
        let &Convolution { kernel, channels, padding, norm, activation } = &convolution;
        let (factors, bias) = fold(self.network, name, norm, channels)?;
        let weight = tensor(self.network, &format!("{name}.weight"))?;
        let all = taps(kernel, padding);
        let side = convolution.side(layout);
        let (mut starts, mut list) = (vec![0], Vec::new());
        for cell in 0..side * side {
            for tap in &all {
                // A kernel as large as the board names input cells directly.
                let on_board = |place: usize, step: isize| {
                    (0..side as isize).contains(&(place as isize + step))
                };
                if side == 1 || (on_board(cell / side, tap.rank) && on_board(cell % side, tap.file))
                {
                    list.push((tap.kernel_cell, layout.tap(cell + tap.cell, tap.rank, tap.file)));
                }
            }
            starts.push(list.len());
        }
        let (kernel_cells, depth) = (kernel * kernel, layout.blocks * BLOCK);
        let mut weights = CacheLines::<f32>::zeroed(channels * kernel_cells * depth);
        let packed = weights.as_mut_slice();
        let inputs = input.positions.len();
        for channel in 0..channels {
            for (at, &position) in input.positions.iter().enumerate() {
                for cell in 0..kernel_cells {
                    packed[(channel * kernel_cells + cell) * depth + position] = weight
                        [(channel * inputs + at) * kernel_cells + cell]
                        * factors[channel]
                        * input.unit;
                }
            }
        }
        Ok(OutputReader::Sampled(Sampled {
            input: input.buffer,
            channels,
            blocks: layout.blocks,
            block_stride: layout.block_stride(),
            starts,
            taps: list,
            weights,
            kernel_cells,
            bias,
            activation,
        }))
    }
}

/// Byte offset of the input rows for each step of 32 inner elements.
fn offsets<E>(taps: &[KernelCell], input: &Layout) -> Vec<u32> {
    let mut offsets = Vec::with_capacity(taps.len() * input.blocks);
    for tap in taps {
        let row = input.tap(tap.cell, tap.rank, tap.file);
        for block in 0..input.blocks {
            offsets.push(((row + block * input.block_stride()) * size_of::<E>()) as u32);
        }
    }
    offsets
}

/// Moments of the inputs in the order of a column of weights, if they are known.
fn column_moments(taps: &[KernelCell], input: &Activations) -> Option<Vec<Moments>> {
    let depth = input.layout.blocks * BLOCK;
    let list = input.moments.as_ref()?;
    let mut known = vec![Moments::default(); taps.len() * depth];
    for (index, tap) in taps.iter().enumerate() {
        for (&position, own) in input.positions.iter().zip(list) {
            known[index * depth + position] = own.for_share(tap.share(input.layout.side));
        }
    }
    Some(known)
}

impl Weights<'_> {
    /// Packs the weights into `blocks` panels, each channel at its position.
    fn pack<E: Element>(
        &self,
        taps: &[KernelCell],
        input: &Activations,
        positions: &[usize],
        blocks: usize,
    ) -> Packed<E> {
        let panel = taps.len() * input.layout.blocks * BLOCK * BLOCK;
        let known = if E::QUANTISED { column_moments(taps, input) } else { None };
        let mut packed = Packed {
            weights: CacheLines::<E>::zeroed(blocks * panel),
            scale: CacheLines::<f32>::zeroed(blocks * BLOCK),
            bias: CacheLines::<f32>::zeroed(blocks * BLOCK),
            moments: known.is_some().then(Vec::new),
        };
        let mut column = vec![0.0; taps.len() * input.layout.blocks * BLOCK];
        for (channel, &place) in positions.iter().enumerate() {
            self.fill_column(taps, input, channel, &mut column);
            let (step, packable) = if E::QUANTISED {
                in_units::<E>(&column, self.smallest, self.tall)
            } else {
                (1.0, column.clone())
            };
            // The mean rounding error of the weights is folded into the bias.
            let mut lost = 0.0;
            if let (Some(known), Some(moments)) = (&known, &mut packed.moments) {
                let mut sum = Moments { mean: self.bias[channel], variance: 0.0 };
                for ((weight, whole), input) in column.iter().zip(&packable).zip(known) {
                    lost += (weight - whole * step) * input.mean;
                    sum = sum.plus(input.times(*weight));
                }
                moments.push(sum);
            }
            if !lost.is_finite() {
                lost = 0.0;
            }
            packed.scale.as_mut_slice()[place] = step * input.unit / self.unit;
            packed.bias.as_mut_slice()[place] = (self.bias[channel] + lost) / self.unit + self.zero;
            let weights = packed.weights.as_mut_slice();
            for (k, &weight) in packable.iter().enumerate() {
                weights[place / BLOCK * panel + E::panel_index(k, place % BLOCK)] =
                    E::from_f32(weight);
            }
        }
        packed
    }

    /// Writes the folded weights of one output channel to `column`, which is `[kernel cells][padded
    /// input channels]`.
    fn fill_column(
        &self,
        taps: &[KernelCell],
        input: &Activations,
        channel: usize,
        column: &mut [f32],
    ) {
        let depth = input.layout.blocks * BLOCK;
        let size = input.positions.len() * self.kernel_cells;
        let own = &self.weight[channel * size..][..size];
        column.fill(0.0);
        for (at, &position) in input.positions.iter().enumerate() {
            for (index, tap) in taps.iter().enumerate() {
                let weight = own[at * self.kernel_cells + tap.kernel_cell];
                column[index * depth + position] = weight * self.factors[channel];
            }
        }
    }
}

/// One cell of a square kernel.
struct KernelCell {
    /// Index in the kernel.
    kernel_cell: usize,
    /// The input cell, if the kernel is as large as the board; otherwise 0.
    cell: usize,
    /// Ranks from the output cell to the input cell.
    rank: isize,
    /// Files from the output cell to the input cell.
    file: isize,
}

impl KernelCell {
    /// Share of the output cells for which the input cell is on the board.
    fn share(&self, side: usize) -> f32 {
        let on_board = |step: isize| side.saturating_sub(step.unsigned_abs()) as f32 / side as f32;
        on_board(self.rank) * on_board(self.file)
    }
}

fn taps(kernel: usize, padding: Padding) -> Vec<KernelCell> {
    let start = kernel_start(kernel, 1);
    (0..kernel * kernel)
        .map(|kernel_cell| match padding {
            Padding::Valid => KernelCell { kernel_cell, cell: kernel_cell, rank: 0, file: 0 },
            Padding::Same => KernelCell {
                kernel_cell,
                cell: 0,
                rank: start + (kernel_cell / kernel) as isize,
                file: start + (kernel_cell % kernel) as isize,
            },
        })
        .collect()
}
