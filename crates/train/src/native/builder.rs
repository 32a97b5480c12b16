//! Builds the stages that training runs from the description of a network, with its tensors in
//! their layout.

use super::matmul::{Buffer, Element, padded};
use nets::{Activation, Branch, HeadKind, Layer, Network, Padding, Shape, TensorSpec};

use super::{
    convolution::Convolution,
    graph::{Norm, Operation, Stage, StageInput, TrainingGraph},
    input::InputLayer,
    output_layer::OutputLayer,
    parameters::{Parameter, tensor},
    whole_board::WholeBoard,
};
use crate::{TrainError, dropout::layer_number};

/// Builds the stages from the input to these heads of a network. The caller packs the weights and
/// plans the backward pass.
///
/// # Errors
/// The network lacks one of the heads, or a head ends in a layer that this backend does not
/// support.
pub(super) fn build<E: Element>(
    network: &Network,
    kinds: &[HeadKind],
    has_dropout: bool,
) -> Result<TrainingGraph<E>, TrainError> {
    let description = &network.description;
    let specs = description.tensors().map_err(TrainError::Config)?;
    let mut builder =
        Builder { network, specs: &specs, has_dropout, parameters: Vec::new(), stages: Vec::new() };
    let input = LayerOutput { shape: description.input_shape(), stage: None };
    let trunk = builder.layers("trunk", &description.trunk, input)?;
    let mut ends = Vec::new();
    for &kind in kinds {
        let name = kind.name();
        let head = description
            .head(kind)
            .ok_or_else(|| TrainError::Config(format!("the network has no {name} head")))?;
        let (last, body) =
            head.layers.split_last().ok_or_else(|| unsupported_output_layer(kind))?;
        ends.push((kind, last, body.len(), builder.layers(name, body, trunk)?));
    }
    let mut output_layers = Vec::new();
    for (kind, layer, index, input) in ends {
        output_layers.push(builder.output_layer(
            &format!("{}.{index}", kind.name()),
            layer,
            input,
            kind,
        )?);
    }
    let whites_view = description.encoding.is_whites_view();
    Ok(TrainingGraph {
        stages: builder.stages,
        output_layers,
        parameters: builder.parameters,
        slots: 0,
        whites_view,
        dropout: None,
    })
}

/// The output of a layer: its last stage and its shape.
#[derive(Clone, Copy)]
struct LayerOutput {
    shape: Shape,
    /// `None` for the input planes.
    stage: Option<usize>,
}

/// Collects the stages and parameters of a graph.
struct Builder<'a, E> {
    network: &'a Network,
    specs: &'a [TensorSpec],
    /// Add dropout behind dense layers.
    has_dropout: bool,
    parameters: Vec<Parameter>,
    stages: Vec<Stage<E>>,
}

/// The index in a parameter of each element of a tensor `[outputs, inputs, kernel, kernel]`.
fn convolution_places(
    shape: &[usize],
    index: impl Fn(usize, usize, usize, usize) -> usize,
) -> Vec<u32> {
    let mut places = Vec::with_capacity(shape.iter().product());
    for output in 0..shape[0] {
        for input in 0..shape[1] {
            for row in 0..shape[2] {
                places.extend((0..shape[3]).map(|column| index(output, input, row, column) as u32));
            }
        }
    }
    places
}

/// The index in a parameter of each element of a tensor over the whole board, `[outputs, inputs,
/// side, side]` or `[outputs, inputs * cells]`. A board has `cells` rows of `width` channels;
/// `index` maps an output and an element of the board to the parameter.
fn board_places(
    shape: &[usize],
    cells: usize,
    width: usize,
    index: impl Fn(usize, usize) -> usize,
) -> Vec<u32> {
    let inputs = shape[1..].iter().product::<usize>() / cells;
    let mut places = Vec::with_capacity(shape.iter().product());
    for output in 0..shape[0] {
        for input in 0..inputs {
            places.extend((0..cells).map(|cell| index(output, cell * width + input) as u32));
        }
    }
    places
}

impl<E: Element> Builder<'_, E> {
    /// Reads a tensor into a parameter of `size` elements, with its elements at `places` of its shape.
    /// Returns the parameter's index.
    fn add(
        &mut self,
        name: &str,
        size: usize,
        places: impl FnOnce(&[usize]) -> Vec<u32>,
    ) -> Result<usize, TrainError> {
        let spec = self.specs.iter().find(|spec| spec.name == name);
        let spec =
            spec.ok_or_else(|| TrainError::Backend(format!("the network has no tensor `{name}`")))?;
        let places = places(&spec.shape);
        self.parameters.push(Parameter::read(self.network, spec, places, size)?);
        Ok(self.parameters.len() - 1)
    }

    /// Reads a tensor of one dimension into a parameter of `width` elements.
    fn vector(&mut self, name: &str, width: usize) -> Result<usize, TrainError> {
        self.add(name, width, |shape| (0..shape[0] as u32).collect())
    }

    /// Reads the tensors of a batch norm or bias.
    fn norm(&mut self, prefix: &str, has_norm: bool, channels: usize) -> Result<Norm, TrainError> {
        let width = padded(channels);
        if !has_norm {
            return Ok(Norm::Bias(self.vector(&format!("{prefix}.bias"), width)?));
        }
        let statistic = |part: &str| -> Result<Vec<f32>, TrainError> {
            Ok(tensor(self.network, &format!("{prefix}.norm.{part}"), &[channels])?.data.clone())
        };
        let (running_mean, running_variance) = (statistic("mean")?, statistic("variance")?);
        Ok(Norm::Batch {
            scale: self.vector(&format!("{prefix}.norm.scale"), width)?,
            shift: self.vector(&format!("{prefix}.norm.shift"), width)?,
            prefix: prefix.to_owned(),
            running_mean,
            running_variance,
        })
    }

    /// Adds the stages of a list of layers.
    fn layers(
        &mut self,
        prefix: &str,
        layers: &[Layer],
        input: LayerOutput,
    ) -> Result<LayerOutput, TrainError> {
        let mut output = input;
        let mut done = 0;
        if let Some(
            [Layer::Branches { branches, norm: false, activation: Activation::Relu }, dense],
        ) = Layer::whole_board(layers)
        {
            output = self.whole_board(prefix, branches, dense, input)?;
            done = 2;
        }
        for (index, layer) in layers.iter().enumerate().skip(done) {
            output = self.layer(&format!("{prefix}.{index}"), layer, output)?;
        }
        Ok(output)
    }

    /// Adds one stage for an input layer of single squares and the dense layer behind it.
    fn whole_board(
        &mut self,
        prefix: &str,
        branches: &[Branch],
        dense: &Layer,
        input: LayerOutput,
    ) -> Result<LayerOutput, TrainError> {
        let (name, dense_name) = (format!("{prefix}.0"), format!("{prefix}.1"));
        let channels = branches.iter().map(|branch| branch.channels).sum();
        let inner = Shape { cells: input.shape.cells, channels };
        let shape = dense.output_shape(inner).map_err(TrainError::Backend)?;
        let encoding = self.network.description.encoding;
        let layout = InputLayer::new(encoding, branches, padded(channels));
        let mut weights = Vec::new();
        for (index, branch) in branches.iter().enumerate() {
            let name = format!("{name}.branches.{index}.weight");
            let places = |_: &[usize]| layout.branch_places(index);
            weights.push((self.add(&name, layout.branch_size(index), places)?, branch.channels));
        }
        let bias = self.vector(&format!("{name}.bias"), padded(channels))?;
        let weight = self.dense_weight(&dense_name, inner, shape)?;
        let sizes = (padded(channels), padded(shape.channels));
        let layers = WholeBoard::new(encoding, weights, (bias, weight), sizes);
        let gradient_size = layers.gradient_size();
        let (norm, activation) = self.norm_of(&dense_name, dense, shape)?;
        let operation = Operation::WholeBoard(layers);
        let output = self.push(Stage::new(operation, norm, activation, shape, gradient_size));
        if self.has_dropout && matches!(dense, Layer::Dense { .. }) {
            return Ok(self.dropout(&dense_name, output));
        }
        Ok(output)
    }

    /// Norm or bias, and the activation, of a layer that leads to this shape.
    fn norm_of(
        &mut self,
        prefix: &str,
        layer: &Layer,
        shape: Shape,
    ) -> Result<(Norm, Activation), TrainError> {
        Ok(match layer {
            &Layer::Branches { norm, activation, .. }
            | &Layer::Conv { norm, activation, .. }
            | &Layer::Dense { norm, activation, .. } => {
                (self.norm(prefix, norm, shape.channels)?, activation)
            }
            &Layer::Residual { activation, .. } => (Norm::Nothing, activation),
            _ => (Norm::Nothing, Activation::Identity),
        })
    }

    /// Adds the stages of one layer.
    fn layer(
        &mut self,
        prefix: &str,
        layer: &Layer,
        input: LayerOutput,
    ) -> Result<LayerOutput, TrainError> {
        let shape = layer.output_shape(input.shape).map_err(TrainError::Backend)?;
        let mut inputs: Vec<StageInput> = input.stage.into_iter().map(StageInput::new).collect();
        let (operation, gradient_size) = match layer {
            Layer::Branches { branches, .. } => self.branches(prefix, branches, shape)?,
            &Layer::Conv { kernel, padding: Padding::Same, .. } => {
                self.convolution(prefix, kernel, input.shape, shape)?
            }
            Layer::Conv { .. } | Layer::Dense { .. } => self.dense(prefix, input.shape, shape)?,
            Layer::Residual { layers, .. } => {
                let body = self.layers(&format!("{prefix}.layers"), layers, input)?;
                inputs.extend(body.stage.map(StageInput::new));
                (Operation::Sum, 0)
            }
            &Layer::Pool { pooling, size } => (Operation::Pool(pooling, size), 0),
            Layer::AppendMean => (Operation::AppendMean, 0),
            Layer::SqueezeExcite { .. } => {
                return Err(TrainError::Config(format!(
                    "layer {prefix} is squeeze and excitation, which only the backend `burn` trains"
                )));
            }
            Layer::Gate { .. }
            | Layer::LayerNorm { .. }
            | Layer::Attention(_)
            | Layer::BoardEmbedding { .. }
            | Layer::MoveAttention { .. } => return Err(TrainError::untrained(prefix)),
        };
        let (norm, activation) = self.norm_of(prefix, layer, shape)?;
        let stage = Stage::new(operation, norm, activation, shape, gradient_size);
        let output = self.push(Stage { inputs, ..stage });
        if self.has_dropout && matches!(layer, Layer::Dense { .. }) {
            return Ok(self.dropout(prefix, output));
        }
        Ok(output)
    }

    /// The operation of an input layer, and the number of elements of its weight gradient.
    fn branches(
        &mut self,
        prefix: &str,
        branches: &[Branch],
        shape: Shape,
    ) -> Result<(Operation<E>, usize), TrainError> {
        let encoding = self.network.description.encoding;
        let layer = InputLayer::new(encoding, branches, padded(shape.channels));
        let add = |index| {
            let name = format!("{prefix}.branches.{index}.weight");
            self.add(&name, layer.branch_size(index), |_| layer.branch_places(index))
        };
        let branches = (0..branches.len()).map(add).collect::<Result<Vec<_>, _>>()?;
        let size = layer.size();
        Ok((Operation::Input { layer, branches, slabs: Buffer::zeros(size) }, size))
    }

    /// The operation of a convolution that keeps the board's size, and the number of elements of its
    /// weight gradient.
    fn convolution(
        &mut self,
        prefix: &str,
        kernel: usize,
        input: Shape,
        shape: Shape,
    ) -> Result<(Operation<E>, usize), TrainError> {
        let (inner, width) = (padded(input.channels), padded(shape.channels));
        let size = kernel * kernel * inner * width;
        let weight = self.add(&format!("{prefix}.weight"), size, |shape| {
            // Stored flipped, as the backward pass reads it.
            convolution_places(shape, |output, input, row, column| {
                let (row, column) = (kernel - 1 - row, kernel - 1 - column);
                ((row * inner + input) * kernel + column) * width + output
            })
        })?;
        let cells = if kernel == 1 { shape.cells } else { 64 };
        Ok((product(weight, (kernel, shape.side()), cells, inner, size), size))
    }

    /// The operation of a dense layer or of a convolution as large as the board, and the number of
    /// elements of its weight gradient.
    fn dense(
        &mut self,
        prefix: &str,
        input: Shape,
        shape: Shape,
    ) -> Result<(Operation<E>, usize), TrainError> {
        let inner = input.cells * padded(input.channels);
        let size = inner * padded(shape.channels);
        let weight = self.dense_weight(prefix, input, shape)?;
        Ok((product(weight, (1, 1), 1, inner, size), size))
    }

    /// Reads the weight of a dense layer into `[cells, padded inputs, padded outputs]`.
    fn dense_weight(
        &mut self,
        prefix: &str,
        input: Shape,
        shape: Shape,
    ) -> Result<usize, TrainError> {
        let (cells, input_width) = (input.cells, padded(input.channels));
        let width = padded(shape.channels);
        self.add(&format!("{prefix}.weight"), cells * input_width * width, |shape| {
            board_places(shape, cells, input_width, |output, element| element * width + output)
        })
    }

    /// Adds a dropout stage behind the layer with this prefix.
    fn dropout(&mut self, prefix: &str, input: LayerOutput) -> LayerOutput {
        let operation = Operation::Dropout(layer_number(prefix));
        let stage = Stage::new(operation, Norm::Nothing, Activation::Identity, input.shape, 0);
        let inputs = input.stage.into_iter().map(StageInput::new).collect();
        self.push(Stage { inputs, ..stage })
    }

    /// Adds a stage after those it reads.
    fn push(&mut self, stage: Stage<E>) -> LayerOutput {
        let shape = Shape { cells: stage.cells, channels: stage.channels };
        self.stages.push(stage);
        LayerOutput { shape, stage: Some(self.stages.len() - 1) }
    }

    /// Adds the parameters of a head's output layer.
    fn output_layer(
        &mut self,
        prefix: &str,
        layer: &Layer,
        input: LayerOutput,
        kind: HeadKind,
    ) -> Result<OutputLayer, TrainError> {
        let stage = input.stage.ok_or_else(|| unsupported_output_layer(kind))?;
        let (cells, width) = (input.shape.cells, padded(input.shape.channels));
        let (channels, cells, activation) = match *layer {
            Layer::Conv {
                kernel: 1,
                channels,
                padding: Padding::Same,
                norm: false,
                activation,
            } => (channels, 1, activation),
            Layer::Conv { channels, padding: Padding::Valid, norm: false, activation, .. }
            | Layer::Dense { channels, norm: false, activation } => (channels, cells, activation),
            _ => return Err(unsupported_output_layer(kind)),
        };
        let inner = cells * width;
        let weight = self.add(&format!("{prefix}.weight"), channels * inner, |shape| {
            board_places(shape, cells, width, |output, element| output * inner + element)
        })?;
        let bias = self.vector(&format!("{prefix}.bias"), channels)?;
        Ok(OutputLayer { input: StageInput::new(stage), weight, bias, channels, inner, activation })
    }
}

/// A product with zeroed buffers for its packed weights.
fn product<E: Element>(
    weight: usize,
    (kernel, side): (usize, usize),
    cells: usize,
    inner: usize,
    size: usize,
) -> Operation<E> {
    let (forward, backward) = (Buffer::zeros(size), Buffer::zeros(size));
    Operation::Product(Convolution { weight, kernel, side, cells, inner, forward, backward })
}

fn unsupported_output_layer(kind: HeadKind) -> TrainError {
    TrainError::Config(format!(
        "the native backend trains {} heads that end in a 1x1 convolution, one as large as the board or a dense layer, \
         each with bias",
        kind.name()
    ))
}
