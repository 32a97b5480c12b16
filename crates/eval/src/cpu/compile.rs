//! Compiles a description and its tensors to a [`Plan`]: chooses buffers and layouts and lists the
//! steps.

mod attention;
mod input;
mod product;
mod residual;

use std::{any::Any, sync::Arc};

use nets::{Activation, Head, Layer, Network, Padding, Pooling};

use super::{
    elementwise::{Elementwise, Operation},
    layout::{BLOCK, Layout},
    memory::Element,
    moments::Moments,
    norm::{Gate, LayerNorm},
    plan::{HeadPlan, OutputReader, Plan, Step, Steps},
    whole_board::Budget,
};
use product::{Convolution, ResidualUse};

use crate::{
    EvalError,
    folded::{scale_and_shift, tensor},
};

/// A tensor of activations during compilation.
#[derive(Clone, Debug)]
struct Activations {
    /// Index of its buffer.
    buffer: usize,
    layout: Layout,
    /// Position of each channel among the padded ones.
    positions: Vec<usize>,
    /// The value of one stored unit; 1 unless quantised.
    unit: f32,
    /// The stored number that means 0; 0 but for numbers that only squeeze and excitation reads.
    zero: f32,
    /// One for each channel, where batch norms determine them.
    moments: Option<Vec<Moments>>,
}

struct Compiler<'a> {
    network: &'a Network,
    /// The layout of each buffer.
    buffers: Vec<Layout>,
    /// Buffers that a later step reads, so that no step may overwrite them.
    pinned: Vec<usize>,
    /// The largest output of each step; for quantised formats only.
    ranges: &'a [f32],
    /// Steps compiled so far.
    compiled: usize,
    /// The packed matrix that layers of attention share, of the format's own type.
    shared_scores: Option<Arc<dyn Any + Send + Sync>>,
    /// What tables of the whole board may still cost.
    tables: Budget,
}

impl<E: Element> Plan<E> {
    /// Compiles `network`. `ranges` is empty, or for quantised formats the largest output of each
    /// step in the order of [`Plan::steps`].
    ///
    /// # Errors
    /// A tensor is missing, the number of ranges is wrong, or the format cannot hold a layer's
    /// outputs.
    pub fn compile(network: &Network, ranges: &[f32]) -> Result<Self, EvalError> {
        let unsupported =
            |reason: String| EvalError::Unsupported { network: network.name.clone(), reason };
        let description = &network.description;
        description.check().map_err(unsupported)?;
        let mut compiler = Compiler {
            network,
            buffers: Vec::new(),
            pinned: Vec::new(),
            ranges,
            compiled: 0,
            shared_scores: None,
            tables: Budget::default(),
        };
        let heads_reach =
            description.heads.iter().map(|head| reach(&head.layers)).max().unwrap_or(0);
        let mut planes = Vec::new();
        let input = if description.encoding.has_history() {
            let first = match description.trunk.first() {
                None => heads_reach,
                Some(Layer::BoardEmbedding { .. }) if description.trunk.len() == 1 => heads_reach,
                Some(Layer::BoardEmbedding { .. }) => reach(&description.trunk[1..]),
                Some(_) => reach(&description.trunk),
            };
            Some(compiler.planes(&description.trunk, first, &mut planes)?)
        } else {
            None
        };
        compiler.pinned.extend(
            input.iter().filter(|_| description.trunk.is_empty()).map(|place| place.buffer),
        );
        let (mut trunk, trunk_place) =
            compiler.steps("trunk", &description.trunk, input, heads_reach)?;
        trunk.splice(0..0, planes);
        let trunk = Steps::cut(trunk, false);
        compiler.pinned.extend(trunk_place.as_ref().map(|place| place.buffer));
        let mut heads = Vec::new();
        let has_tail = !trunk.tail.is_empty();
        for head in &description.heads {
            let head = compiler.head(head, trunk_place.clone(), has_tail)?;
            // With a common trunk the bodies of all heads run before the tails. So the buffers of a
            // tail must differ from those of the bodies of later heads.
            if !trunk.body.is_empty() || has_tail {
                compiler.pinned.extend(head.steps.tail.iter().flat_map(Step::buffers));
            }
            heads.push(head);
        }
        if E::QUANTISED && compiler.compiled != ranges.len() {
            return Err(compiler.wrong_ranges(&format!("{} are needed", compiler.compiled)));
        }
        let plan = Self { encoding: description.encoding, trunk, heads, buffers: Vec::new() };
        Ok(plan.with_buffers(compiler.buffers.iter().map(Layout::board_stride)))
    }
}

/// How many cells the first of these layers reads to each side.
fn reach(layers: &[Layer]) -> usize {
    match layers.first() {
        Some(Layer::Conv { kernel, padding: Padding::Same, .. }) => kernel / 2,
        Some(Layer::Residual { layers, .. }) => reach(layers),
        _ => 0,
    }
}

impl Compiler<'_> {
    fn unsupported(&self, reason: String) -> EvalError {
        EvalError::Unsupported { network: self.network.name.clone(), reason }
    }

    /// Compiles a head; `after_tail` says that the trunk has a tail.
    fn head<E: Element>(
        &mut self,
        head: &Head,
        trunk: Option<Activations>,
        after_tail: bool,
    ) -> Result<HeadPlan<E>, EvalError> {
        let sampled = match head.layers.last() {
            Some(Layer::Conv { .. } | Layer::Dense { .. } | Layer::MoveAttention { .. }) => 1,
            _ => 0,
        };
        let (body, end) = head.layers.split_at(head.layers.len() - sampled);
        let name = head.kind.name();
        let (mut steps, place) = self.steps(name, body, trunk, reach(end))?;
        let place =
            place.ok_or_else(|| self.unsupported(format!("the {name} head has no input layer")))?;
        let last_name = format!("{name}.{}", body.len());
        let last = match end.first() {
            Some(&Layer::MoveAttention { width }) => {
                self.move_attention(&last_name, width, &place, &mut steps)?
            }
            Some(layer) => self.sampled(&last_name, layer, &place)?,
            None if E::QUANTISED => {
                return Err(self.unsupported(format!("int8 would round the {name} head's outputs")));
            }
            None => {
                let cells = 0..place.layout.cells();
                let places =
                    cells.flat_map(|cell| place.positions.iter().map(move |&at| (cell, at)));
                let places =
                    places.map(|(cell, at)| place.layout.element(cell, at) as u32).collect();
                OutputReader::Stored { input: place.buffer, places }
            }
        };
        let steps = Steps::cut(steps, after_tail);
        let outputs = head.outputs().unwrap_or(0);
        Ok(HeadPlan { kind: head.kind, output: head.output, outputs, steps, last })
    }

    fn wrong_ranges(&self, why: &str) -> EvalError {
        let count = self.ranges.len();
        self.unsupported(format!(
            "its file has {count} ranges for int8, but {why}; `batch-first net quantise` finds them anew"
        ))
    }

    /// The value of one stored unit of the next step's output.
    fn unit<E: Element>(&mut self, name: &str, activation: Activation) -> Result<f32, EvalError> {
        self.compiled += 1;
        if !E::QUANTISED {
            return Ok(1.0);
        }
        if activation != Activation::Relu {
            return Err(self.unsupported(format!(
                "int8 holds what a ReLU leaves (squared, behind a table of the whole board), not the outputs of layer {name}"
            )));
        }
        let largest = self.largest(name)?;
        Ok(if largest > 0.0 { largest / E::LARGEST } else { 1.0 })
    }

    /// As [`Compiler::unit`], and the stored number that means 0, for an output of either sign.
    fn signed_unit<E: Element>(&mut self, name: &str) -> Result<(f32, f32), EvalError> {
        self.compiled += 1;
        if !E::QUANTISED {
            return Ok((1.0, 0.0));
        }
        let (largest, zero) = (self.largest(name)?, (E::LARGEST / 2.0).ceil());
        Ok((if largest > 0.0 { largest / (E::LARGEST - zero) } else { 1.0 }, zero))
    }

    /// The largest magnitude of the outputs of the step that is being compiled.
    fn largest(&self, name: &str) -> Result<f32, EvalError> {
        let range = self.ranges.get(self.compiled - 1).copied();
        range.ok_or_else(|| self.wrong_ranges(&format!("there is none for layer {name}")))
    }

    /// Moments of the output of a layer's batch norm, if it has one.
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

    /// Compiles consecutive layers. `last_reach` is the reach of the layer that follows them.
    fn steps<E: Element>(
        &mut self,
        prefix: &str,
        layers: &[Layer],
        input: Option<Activations>,
        last_reach: usize,
    ) -> Result<(Vec<Step<E>>, Option<Activations>), EvalError> {
        let mut place = input;
        let mut steps = Vec::new();
        let together = self.whole_board(prefix, layers, &mut steps)?;
        let done = if together.is_some() { 2 } else { 0 };
        place = together.or(place);
        for (index, layer) in layers.iter().enumerate().skip(done) {
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
        input: Option<Activations>,
        reach: usize,
        steps: &mut Vec<Step<E>>,
    ) -> Result<Activations, EvalError> {
        if let Layer::Branches { .. } = layer {
            return self.input(name, layer, reach, steps);
        }
        let input = input.ok_or_else(|| self.unsupported(format!("layer {name} has no input")))?;
        if let Some(convolution) = Convolution::of(layer, &input.layout) {
            let (step, place) =
                self.product(name, &convolution, &input, ResidualUse::Nothing, reach)?;
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
                // The moments of a maximum differ from those of its inputs.
                let moments = input.moments.clone().filter(|_| pooling == Pooling::Average);
                let place = self.same_unit(Operation::Pool { pooling, size }, input, layout, steps);
                Ok(Activations { moments, ..place })
            }
            &Layer::SqueezeExcite { activation, .. } => {
                self.squeeze_excite(name, activation, input, None, reach, steps)
            }
            &Layer::Gate { activation } => {
                let width = input.layout.blocks * BLOCK;
                let own = Gate::new(
                    scale_and_shift(self.network, name)?,
                    &input.positions,
                    width,
                    activation,
                );
                self.in_f32::<E>(name)?;
                let layout = Layout::new(input.layout.side, width, reach);
                Ok(self.same_unit(Operation::Gate(own), input, layout, steps))
            }
            &Layer::LayerNorm { millionths } => {
                let width = input.layout.blocks * BLOCK;
                let layout = Layout::new(input.layout.side, width, reach);
                self.layer_norm(name, millionths, input, layout, steps)
            }
            Layer::Attention(own) => self.attention(name, own, &input, reach, steps),
            // The step that writes the planes computes it.
            Layer::BoardEmbedding { .. } if name == "trunk.0" => Ok(input),
            Layer::BoardEmbedding { .. } => {
                Err(self.unsupported(format!("layer {name} must be the first")))
            }
            Layer::MoveAttention { .. } | Layer::Branches { .. } => {
                Err(self.unsupported(format!("layer {name} must be the last")))
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

    /// Adds a step without weights whose output has the unit of its input.
    fn same_unit<E>(
        &mut self,
        operation: Operation,
        input: Activations,
        layout: Layout,
        steps: &mut Vec<Step<E>>,
    ) -> Activations {
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
        Activations { buffer: output, layout, ..input }
    }

    /// Layers that no quantised format holds.
    fn in_f32<E: Element>(&self, name: &str) -> Result<(), EvalError> {
        if E::QUANTISED {
            return Err(self.unsupported(format!("layer {name} is none that int8 holds")));
        }
        Ok(())
    }

    /// Compiles a layer norm whose output has this layout.
    fn layer_norm<E: Element>(
        &mut self,
        name: &str,
        millionths: u32,
        input: Activations,
        layout: Layout,
        steps: &mut Vec<Step<E>>,
    ) -> Result<Activations, EvalError> {
        self.in_f32::<E>(name)?;
        let width = input.layout.blocks * BLOCK;
        let own = LayerNorm::new(
            scale_and_shift(self.network, name)?,
            &input.positions,
            width,
            millionths,
        );
        let place = self.same_unit(Operation::LayerNorm(own), input, layout, steps);
        Ok(Activations { moments: None, ..place })
    }

    /// A buffer of this layout that is neither the step's input nor read by a later step.
    fn buffer(&mut self, layout: &Layout, input: Option<usize>) -> usize {
        let free = |&index: &usize| Some(index) != input && !self.pinned.contains(&index);
        let known =
            (0..self.buffers.len()).filter(free).find(|&index| self.buffers[index] == *layout);
        known.unwrap_or_else(|| {
            self.buffers.push(layout.clone());
            self.buffers.len() - 1
        })
    }
}
