//! From a description and its tensors to a [`Plan`].

use nets::{Activation, Layer, Network, Padding, Pooling, kernel_start};

use super::{
    elementwise::{Elementwise, Operation},
    input::InputTable,
    layout::{BLOCK, Layout},
    memory::{Element, Lines},
    moments::{self, Moments},
    plan::{HeadPlan, Last, Plan, Product, Residual, Rows, Sampled, Step, Steps},
    rounding::in_units,
};
use crate::{
    EvalError,
    folded::{fold, tensor},
};

/// Where a tensor lies and what its numbers mean.
#[derive(Clone, Debug)]
struct Place {
    buffer: usize,
    layout: Layout,
    /// Position of each channel among the padded ones.
    positions: Vec<usize>,
    /// What a stored unit is worth; 1 unless quantised.
    unit: f32,
    /// One a channel, where the file tells.
    moments: Option<Vec<Moments>>,
}

struct Compiler<'a> {
    network: &'a Network,
    buffers: Vec<Layout>,
    /// Buffers that are still to be read.
    pinned: Vec<usize>,
    /// The largest output of each step; for quantised formats only.
    ranges: &'a [f32],
    /// Steps compiled so far.
    compiled: usize,
}

impl<E: Element> Plan<E> {
    /// Compiles `network`. Quantised formats need the largest output of each step, in the order of
    /// [`Plan::steps`].
    pub fn compile(network: &Network, ranges: &[f32]) -> Result<Self, EvalError> {
        let unsupported =
            |reason: String| EvalError::Unsupported { network: network.name.clone(), reason };
        let description = &network.description;
        description.check().map_err(unsupported)?;
        let mut compiler =
            Compiler { network, buffers: Vec::new(), pinned: Vec::new(), ranges, compiled: 0 };
        let heads_reach =
            description.heads.iter().map(|head| reach(&head.layers)).max().unwrap_or(0);
        let (trunk, trunk_place) =
            compiler.steps("trunk", &description.trunk, None, heads_reach)?;
        let trunk = Steps::cut(trunk, false);
        compiler.pinned.extend(trunk_place.as_ref().map(|place| place.buffer));
        let mut heads = Vec::new();
        for head in &description.heads {
            let sampled = match head.layers.last() {
                Some(Layer::Conv { .. } | Layer::Dense { .. }) => 1,
                _ => 0,
            };
            let (body, end) = head.layers.split_at(head.layers.len() - sampled);
            let name = head.kind.name();
            let (steps, place) = compiler.steps(name, body, trunk_place.clone(), reach(end))?;
            let steps = Steps::cut(steps, !trunk.tail.is_empty());
            let place =
                place.ok_or_else(|| unsupported(format!("the {name} head has no input layer")))?;
            let last = match end.first() {
                Some(layer) => {
                    compiler.sampled(&format!("{name}.{}", body.len()), layer, &place)?
                }
                None if E::QUANTISED => {
                    return Err(unsupported(format!("int8 would round the {name} head's outputs")));
                }
                None => {
                    let cells = 0..place.layout.cells();
                    let places =
                        cells.flat_map(|cell| place.positions.iter().map(move |&at| (cell, at)));
                    let places =
                        places.map(|(cell, at)| place.layout.element(cell, at) as u32).collect();
                    Last::Stored { input: place.buffer, places }
                }
            };
            // With a common trunk, the bodies of all heads run before the tails: what any step of a
            // tail reads or writes must not be what the body of a later head has left.
            if !description.trunk.is_empty() {
                compiler.pinned.extend(steps.tail.iter().flat_map(Step::buffers));
            }
            heads.push(HeadPlan { kind: head.kind, steps, last });
        }
        if E::QUANTISED && compiler.compiled != ranges.len() {
            return Err(compiler.wrong_ranges(&format!("{} are needed", compiler.compiled)));
        }
        let plan = Self { encoding: description.encoding, trunk, heads, buffers: Vec::new() };
        Ok(plan.with_buffers(compiler.buffers.iter().map(Layout::board_stride)))
    }
}

/// How many cells the first of these layers looks to each side.
fn reach(layers: &[Layer]) -> usize {
    match layers.first() {
        Some(Layer::Conv { kernel, padding: Padding::Same, .. }) => kernel / 2,
        Some(Layer::Residual { layers, .. }) => reach(layers),
        _ => 0,
    }
}

/// A convolution or a dense layer, which is a convolution as large as the board.
#[derive(Clone, Copy)]
struct Convolution {
    kernel: usize,
    channels: usize,
    padding: Padding,
    norm: bool,
    activation: Activation,
}

/// What a product has to do with another tensor of its output's shape.
#[derive(Clone, Copy)]
enum Beside<'a> {
    Nothing,
    /// Its channels lie in the same order.
    Order(&'a Place),
    /// And it is added before the activation.
    Sum(&'a Place),
}

impl Convolution {
    fn of(layer: &Layer, input: &Layout) -> Option<Self> {
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

    /// Side of the output's board.
    fn side(&self, input: &Layout) -> usize {
        if self.padding == Padding::Valid { 1 } else { input.side }
    }
}

impl Compiler<'_> {
    fn unsupported(&self, reason: String) -> EvalError {
        EvalError::Unsupported { network: self.network.name.clone(), reason }
    }

    fn wrong_ranges(&self, why: &str) -> EvalError {
        let count = self.ranges.len();
        self.unsupported(format!(
            "its file has {count} ranges for int8, but {why}; `batch-first net quantise` finds them anew"
        ))
    }

    /// What a unit of the next step's output is worth.
    fn unit<E: Element>(&mut self, name: &str, activation: Activation) -> Result<f32, EvalError> {
        self.compiled += 1;
        if !E::QUANTISED {
            return Ok(1.0);
        }
        if activation != Activation::Relu {
            return Err(
                self.unsupported(format!("layer {name} may be negative, which int8 does not hold"))
            );
        }
        let largest = *self
            .ranges
            .get(self.compiled - 1)
            .ok_or_else(|| self.wrong_ranges(&format!("there is none for layer {name}")))?;
        Ok(if largest > 0.0 { largest / E::LARGEST } else { 1.0 })
    }

    /// What a layer's norm leaves before the activation, if it has one.
    fn moments_of_norm(
        &self,
        name: &str,
        norm: bool,
        channels: usize,
    ) -> Result<Option<Vec<Moments>>, EvalError> {
        if !norm {
            return Ok(None);
        }
        let part = |part: &str| tensor(self.network, &format!("{name}.norm.{part}"));
        let (scale, shift, variance) = (part("scale")?, part("shift")?, part("variance")?);
        let of_channel =
            |channel: usize| Moments::of_norm(scale[channel], shift[channel], variance[channel]);
        Ok(Some((0..channels).map(of_channel).collect()))
    }

    /// Compiles layers that run one after the other. `last_reach`: what the layer after them looks
    /// at.
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
            let rest = &layers[index + 1..];
            let reach = if rest.is_empty() { last_reach } else { reach(rest) };
            let name = format!("{prefix}.{index}");
            place = Some(self.layer(&name, layer, place, reach, &mut steps)?);
        }
        Ok((steps, place))
    }

    fn layer<E: Element>(
        &mut self,
        name: &str,
        layer: &Layer,
        input: Option<Place>,
        reach: usize,
        steps: &mut Vec<Step<E>>,
    ) -> Result<Place, EvalError> {
        if let Layer::Branches { .. } = layer {
            return self.input(name, layer, reach, steps);
        }
        let input = input.ok_or_else(|| self.unsupported(format!("layer {name} has no input")))?;
        if let Some(convolution) = Convolution::of(layer, &input.layout) {
            let (step, place) = self.product(name, &convolution, &input, Beside::Nothing, reach)?;
            steps.push(step);
            return Ok(place);
        }
        match layer {
            Layer::Residual { layers, activation } => {
                self.residual(name, layers, *activation, &input, reach, steps)
            }
            &Layer::Pool { pooling, size } => {
                let side = input.layout.side / size;
                let layout = Layout::new(side, input.layout.blocks * BLOCK, reach);
                // The largest of four is more than each of them is on average.
                let moments = input.moments.clone().filter(|_| pooling == Pooling::Average);
                let place = self.same_unit(Operation::Pool { pooling, size }, input, layout, steps);
                Ok(Place { moments, ..place })
            }
            _ => {
                let blocks = input.layout.blocks;
                let layout = Layout::new(input.layout.side, 2 * blocks * BLOCK, reach);
                let mut place = self.same_unit(Operation::AppendMean, input, layout, steps);
                let averages: Vec<usize> =
                    place.positions.iter().map(|at| at + blocks * BLOCK).collect();
                place.positions.extend(averages);
                place.moments.iter_mut().for_each(|list| list.extend_from_within(..));
                Ok(place)
            }
        }
    }

    /// A step without weights whose output's units are its input's.
    fn same_unit<E>(
        &mut self,
        operation: Operation,
        input: Place,
        layout: Layout,
        steps: &mut Vec<Step<E>>,
    ) -> Place {
        self.compiled += 1;
        let output = self.buffer(&layout, Some(input.buffer));
        steps.push(Step::Elementwise(Elementwise {
            operation,
            inputs: [input.buffer; 2],
            output,
            from: [input.layout.clone(), input.layout],
            store: layout.store(),
            to: layout.clone(),
        }));
        Place { buffer: output, layout, ..input }
    }

    fn input<E: Element>(
        &mut self,
        name: &str,
        layer: &Layer,
        reach: usize,
        steps: &mut Vec<Step<E>>,
    ) -> Result<Place, EvalError> {
        let Layer::Branches { branches, norm, activation } = layer else {
            return Err(self.unsupported(format!("layer {name} is no input layer")));
        };
        let channels = branches.iter().map(|branch| branch.channels).sum();
        let (factors, bias) = fold(self.network, name, *norm, channels)?;
        let weights: Vec<&[f32]> = (0..branches.len())
            .map(|index| tensor(self.network, &format!("{name}.branches.{index}.weight")))
            .collect::<Result<_, _>>()?;
        let unit = self.unit::<E>(name, *activation)?;
        let [factors, bias] = [factors, bias]
            .map(|list: Vec<f32>| list.iter().map(|value| value / unit).collect::<Vec<f32>>());
        let encoding = self.network.description.encoding;
        let relu = *activation == Activation::Relu;
        let (table, positions) =
            InputTable::new(encoding, branches, &weights, &factors, &bias, relu);
        let layout = Layout::new(8, table.width(), reach);
        let output = self.buffer(&layout, None);
        steps.push(Step::Input { table, output, store: layout.store() });
        let moments = self.moments_of_norm(name, *norm, channels)?.map(moments::above_zero);
        let place = Place { buffer: output, layout, positions, unit, moments };
        if matches!(activation, Activation::Identity | Activation::Relu) {
            return Ok(place);
        }
        self.compiled += 1;
        steps.push(Step::Elementwise(Elementwise {
            operation: Operation::Activate(*activation),
            inputs: [output; 2],
            output,
            from: [place.layout.clone(), place.layout.clone()],
            store: place.layout.store(),
            to: place.layout.clone(),
        }));
        Ok(place)
    }

    /// A residual layer. Where the last inner layer is a convolution without activation, the sum is
    /// part of it.
    fn residual<E: Element>(
        &mut self,
        name: &str,
        layers: &[Layer],
        activation: Activation,
        input: &Place,
        reach_after: usize,
        steps: &mut Vec<Step<E>>,
    ) -> Result<Place, EvalError> {
        let prefix = format!("{name}.layers");
        let Some((last, body)) = layers.split_last() else {
            return Err(self.unsupported(format!("layer {name} is empty")));
        };
        let last_reach = reach(std::slice::from_ref(last));
        let last_name = format!("{prefix}.{}", body.len());
        self.pinned.push(input.buffer);
        let (inner, place) = self.steps(&prefix, body, Some(input.clone()), last_reach)?;
        steps.extend(inner);
        let place = place.unwrap_or_else(|| input.clone());
        let convolution = Convolution::of(last, &place.layout);
        if let Some(last) = convolution.filter(|last| last.activation == Activation::Identity) {
            // The sum may overwrite the input, which it reads row by row before it writes.
            self.pinned.pop();
            let last = Convolution { activation, ..last };
            let (step, place) =
                self.product(&last_name, &last, &place, Beside::Sum(input), reach_after)?;
            steps.push(step);
            return Ok(place);
        }
        let place = match convolution {
            Some(convolution) => {
                let (step, place) =
                    self.product(&last_name, &convolution, &place, Beside::Order(input), 0)?;
                steps.push(step);
                place
            }
            None => self.layer(&last_name, last, Some(place), 0, steps)?,
        };
        self.pinned.pop();
        if input.positions != place.positions {
            return Err(self.unsupported(format!("layer {name} adds channels in different orders")));
        }
        let unit = self.unit::<E>(name, activation)?;
        let layout = Layout::new(place.layout.side, place.layout.blocks * BLOCK, reach_after);
        let output = self.buffer(&layout, None);
        let factors = [input.unit / unit, place.unit / unit];
        steps.push(Step::Elementwise(Elementwise {
            operation: Operation::Add { factors, activation },
            inputs: [input.buffer, place.buffer],
            output,
            from: [input.layout.clone(), place.layout],
            store: layout.store(),
            to: layout.clone(),
        }));
        let moments =
            moments::sum(place.moments, input.moments.as_deref()).map(moments::above_zero);
        Ok(Place { buffer: output, layout, positions: place.positions, unit, moments })
    }

    fn product<E: Element>(
        &mut self,
        name: &str,
        convolution: &Convolution,
        input: &Place,
        beside: Beside,
        reach: usize,
    ) -> Result<(Step<E>, Place), EvalError> {
        let &Convolution { kernel, channels, padding, norm, activation } = convolution;
        let side = convolution.side(&input.layout);
        let positions: Vec<usize> = match beside {
            Beside::Nothing => (0..channels).collect(),
            Beside::Order(other) | Beside::Sum(other) => other.positions.clone(),
        };
        let width = positions.iter().max().map_or(1, |last| last + 1);
        let layout = Layout::new(side, width, reach);
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
        let depth = input.layout.blocks * BLOCK;
        let mut column = vec![0.0; steps * BLOCK];
        // What is known of the inputs, in the column's order.
        let known = input.moments.as_ref().filter(|_| E::QUANTISED).map(|list| {
            let mut known = vec![Moments::default(); steps * BLOCK];
            for (index, tap) in taps.iter().enumerate() {
                for (&position, own) in input.positions.iter().zip(list) {
                    known[index * depth + position] = own.for_share(tap.share(input.layout.side));
                }
            }
            known
        });
        let mut of_sums = known.is_some().then(Vec::new);
        // What is added beside the products is counted in their units, in 32 bits: where all
        // weights are next to nothing these must not be so small that it is cut off.
        let smallest = match beside {
            Beside::Sum(other) => other.unit / input.unit / (1 << 22) as f32,
            Beside::Nothing | Beside::Order(_) => 0.0,
        };
        let mut scale = Lines::<f32>::zeroed(layout.blocks * BLOCK);
        let mut padded = Lines::<f32>::zeroed(layout.blocks * BLOCK);
        for (channel, &place) in positions.iter().enumerate() {
            let own = &weight[channel * inputs * kernel * kernel..][..inputs * kernel * kernel];
            column.fill(0.0);
            for (at, &position) in input.positions.iter().enumerate() {
                for (index, tap) in taps.iter().enumerate() {
                    let weight = own[at * kernel * kernel + tap.kernel_cell];
                    column[index * depth + position] = weight * factors[channel];
                }
            }
            let (step, packable) = if E::QUANTISED {
                // Such layers go through `tall_product`.
                in_units::<E>(&column, smallest, layout.cells() < BLOCK)
            } else {
                (1.0, column.clone())
            };
            // What rounding adds or takes away on average, the bias gives back.
            let mut lost = 0.0;
            if let (Some(known), Some(of_sums)) = (&known, &mut of_sums) {
                let mut sum = Moments { mean: bias[channel], variance: 0.0 };
                for ((weight, whole), input) in column.iter().zip(&packable).zip(known) {
                    lost += (weight - whole * step) * input.mean;
                    sum = sum.plus(input.times(*weight));
                }
                of_sums.push(sum);
            }
            if !lost.is_finite() {
                lost = 0.0;
            }
            scale.as_mut_slice()[place] = step * input.unit / unit;
            padded.as_mut_slice()[place] = (bias[channel] + lost) / unit;
            for (k, &weight) in packable.iter().enumerate() {
                packed[place / BLOCK * panel + E::panel_index(k, place % BLOCK)] =
                    E::from_f32(weight);
            }
        }
        let own = self.moments_of_norm(name, norm, channels)?.or(of_sums);
        let before = match beside {
            Beside::Sum(other) => moments::sum(own, other.moments.as_deref()),
            Beside::Nothing | Beside::Order(_) => own,
        };
        let moments =
            if activation == Activation::Relu { before.map(moments::above_zero) } else { before };
        let residual = match beside {
            Beside::Sum(other) => Some(Residual {
                buffer: other.buffer,
                first: other.layout.tap(0, 0, 0),
                block_stride: other.layout.block_stride(),
                ratio: other.unit / unit,
            }),
            Beside::Nothing | Beside::Order(_) => None,
        };
        let rows = if side == 1 { Rows::Boards } else { Rows::Cells(layout.cells()) };
        let product = Product {
            input: input.buffer,
            output,
            rows,
            offsets,
            weights,
            scale,
            bias: padded,
            activation,
            residual,
            panels: layout.blocks,
            narrow: (width - 1) % BLOCK < 16,
            store: if side == 1 { layout.store_boards() } else { layout.store() },
        };
        Ok((Step::Product(product), Place { buffer: output, layout, positions, unit, moments }))
    }

    /// A buffer of this layout that holds neither the step's input nor anything that is still to be
    /// read.
    fn buffer(&mut self, layout: &Layout, input: Option<usize>) -> usize {
        let free = |&index: &usize| Some(index) != input && !self.pinned.contains(&index);
        let known =
            (0..self.buffers.len()).filter(free).find(|&index| self.buffers[index] == *layout);
        known.unwrap_or_else(|| {
            self.buffers.push(layout.clone());
            self.buffers.len() - 1
        })
    }

    /// Compiles a head's last layer.
    fn sampled(&self, name: &str, layer: &Layer, input: &Place) -> Result<Last, EvalError> {
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
                // Whole-board kernels address the input directly.
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
        let mut weights = Lines::<f32>::zeroed(channels * kernel_cells * depth);
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
            activation,
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

impl Tap {
    /// Share of the output cells for which it lies on the board.
    fn share(&self, side: usize) -> f32 {
        let on_board = |step: isize| side.saturating_sub(step.unsigned_abs()) as f32 / side as f32;
        on_board(self.rank) * on_board(self.file)
    }
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
