//! From the description of a network to the stages that training runs, with its tensors laid out
//! for them.

use super::matmul::{Buffer, Element, padded};
use nets::{Activation, HeadKind, Layer, Network, Padding, Shape, TensorSpec};

use super::{
    convolution::Convolution,
    graph::{Norm, Operation, Stage, StageInput, TrainingGraph},
    input::InputLayer,
    output_layer::OutputLayer,
    parameters::{Parameter, tensor},
};
use crate::{TrainError, dropout::layer_number};

/// The ways from the input to these heads of a network; weights are not packed and the way back is
/// not planned yet.
///
/// # Errors
/// The network lacks one of the heads, or ends in a layer that cannot be trained here.
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
    for (kind, layer, index, place) in ends {
        output_layers.push(builder.last(
            &format!("{}.{index}", kind.name()),
            layer,
            place,
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

/// Between two layers: the stage that ends there, and its shape.
#[derive(Clone, Copy)]
struct LayerOutput {
    shape: Shape,
    /// None at the input.
    stage: Option<usize>,
}

/// Collects stages and parameters.
struct Builder<'a, E> {
    network: &'a Network,
    specs: &'a [TensorSpec],
    /// Behind dense layers.
    has_dropout: bool,
    parameters: Vec<Parameter>,
    stages: Vec<Stage<E>>,
}

/// Where the elements of a tensor `[outputs, inputs, kernel, kernel]` lie.
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

/// Where the elements of a tensor lie that sees the whole board: `[outputs, inputs, side, side]` or
/// `[outputs, inputs * cells]`, `cells` rows of `width` channels each; `index` places an element of
/// a board for an output.
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

    fn vector(&mut self, name: &str, width: usize) -> Result<usize, TrainError> {
        self.add(name, width, |shape| (0..shape[0] as u32).collect())
    }

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

    fn layers(
        &mut self,
        prefix: &str,
        layers: &[Layer],
        mut place: LayerOutput,
    ) -> Result<LayerOutput, TrainError> {
        for (index, layer) in layers.iter().enumerate() {
            place = self.layer(&format!("{prefix}.{index}"), layer, place)?;
        }
        Ok(place)
    }

    fn layer(
        &mut self,
        prefix: &str,
        layer: &Layer,
        place: LayerOutput,
    ) -> Result<LayerOutput, TrainError> {
        let shape = layer.output_shape(place.shape).map_err(TrainError::Backend)?;
        let mut inputs: Vec<StageInput> = place.stage.into_iter().map(StageInput::new).collect();
        let (operation, norm, activation, gradient_size) = match layer {
            Layer::Branches { branches, norm, activation } => {
                let layer = InputLayer::new(
                    self.network.description.encoding,
                    branches,
                    padded(shape.channels),
                );
                let slots = (0..branches.len())
                    .map(|index| {
                        let name = format!("{prefix}.branches.{index}.weight");
                        self.add(&name, layer.branch_size(index), |_| layer.branch_places(index))
                    })
                    .collect::<Result<Vec<_>, _>>()?;
                let size = layer.size();
                let operation =
                    Operation::Input { layer, branches: slots, slabs: Buffer::zeros(size) };
                (operation, self.norm(prefix, *norm, shape.channels)?, *activation, size)
            }
            &Layer::Conv { kernel, padding: Padding::Same, norm, activation, .. } => {
                let (inner, width) = (padded(place.shape.channels), padded(shape.channels));
                let size = kernel * kernel * inner * width;
                let weight = self.add(&format!("{prefix}.weight"), size, |shape| {
                    // Stored flipped, as the way back reads it.
                    convolution_places(shape, |output, input, row, column| {
                        let (row, column) = (kernel - 1 - row, kernel - 1 - column);
                        ((row * inner + input) * kernel + column) * width + output
                    })
                })?;
                let cells = if kernel == 1 { shape.cells } else { 64 };
                let operation = product(weight, (kernel, shape.side()), cells, inner, size);
                (operation, self.norm(prefix, norm, shape.channels)?, activation, size)
            }
            &Layer::Conv { norm, activation, .. } | &Layer::Dense { norm, activation, .. } => {
                let (cells, input_width) = (place.shape.cells, padded(place.shape.channels));
                let (inner, width) = (cells * input_width, padded(shape.channels));
                let size = inner * width;
                let weight = self.add(&format!("{prefix}.weight"), size, |shape| {
                    board_places(shape, cells, input_width, |output, place| place * width + output)
                })?;
                let operation = product(weight, (1, 1), 1, inner, size);
                (operation, self.norm(prefix, norm, shape.channels)?, activation, size)
            }
            Layer::Residual { layers, activation } => {
                let body = self.layers(&format!("{prefix}.layers"), layers, place)?;
                inputs.extend(body.stage.map(StageInput::new));
                (Operation::Sum, Norm::Nothing, *activation, 0)
            }
            &Layer::Pool { pooling, size } => {
                (Operation::Pool(pooling, size), Norm::Nothing, Activation::Identity, 0)
            }
            Layer::AppendMean => (Operation::AppendMean, Norm::Nothing, Activation::Identity, 0),
        };
        let place = self.push(Stage {
            inputs,
            ..Stage::new(operation, norm, activation, shape, gradient_size)
        });
        if self.has_dropout && matches!(layer, Layer::Dense { .. }) {
            let inputs = place.stage.into_iter().map(StageInput::new).collect();
            let dropout = Stage::new(
                Operation::Dropout(layer_number(prefix)),
                Norm::Nothing,
                Activation::Identity,
                shape,
                0,
            );
            return Ok(self.push(Stage { inputs, ..dropout }));
        }
        Ok(place)
    }

    fn push(&mut self, stage: Stage<E>) -> LayerOutput {
        let shape = Shape { cells: stage.cells, channels: stage.channels };
        self.stages.push(stage);
        LayerOutput { shape, stage: Some(self.stages.len() - 1) }
    }

    fn last(
        &mut self,
        prefix: &str,
        layer: &Layer,
        place: LayerOutput,
        kind: HeadKind,
    ) -> Result<OutputLayer, TrainError> {
        let stage = place.stage.ok_or_else(|| unsupported_output_layer(kind))?;
        let (cells, width) = (place.shape.cells, padded(place.shape.channels));
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
            board_places(shape, cells, width, |output, place| output * inner + place)
        })?;
        let bias = self.vector(&format!("{prefix}.bias"), channels)?;
        Ok(OutputLayer { input: StageInput::new(stage), weight, bias, channels, inner, activation })
    }
}

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
