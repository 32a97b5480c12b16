//! The same training in [Burn](https://burn.dev): a second opinion on our own kernels, and the way to other devices.

use std::collections::BTreeMap;

use burn::tensor::{
    Device, Int, Tensor as Array, TensorData, activation,
    module::{avg_pool2d, conv2d, max_pool2d},
    ops::{AvgPoolOptions, ConvOptions, MaxPoolOptions},
};
use nets::{
    Activation, Description, Encoding, HeadKind, LEAKY_SLOPE, Layer, NORM_EPSILON, Network, Padding, Pooling,
    Tensor, TensorKind, TensorSpec,
};

use crate::{
    Backend, Examples, Loss, Objective, OptimizerKind, OptimizerSettings, OptimizerState, Step, TrainError,
    backend::check_together,
};

/// A trained tensor, flat, with the optimizer's moments.
#[derive(Clone, Debug)]
struct Parameter {
    spec: TensorSpec,
    value: Array<1>,
    first: Array<1>,
    second: Array<1>,
}

/// Mean and unbiased variance of a batch at one batch norm, by the tensor names' common prefix.
type Statistics = Vec<(String, Array<4>, Array<4>)>;

/// Trains heads of a network (with the trunk before them) on a Burn device.
#[derive(Debug)]
pub struct BurnBackend {
    /// Running statistics and all that is not trained here; the parameters' values may be old.
    network: Network,
    objectives: Vec<Objective>,
    settings: OptimizerSettings,
    device: Device,
    parameters: BTreeMap<String, Parameter>,
    steps: u64,
}

fn failed(error: impl std::fmt::Display) -> TrainError {
    TrainError::Backend(format!("Burn: {error}"))
}

impl BurnBackend {
    /// Ready to train heads of `network` on the CPU (Burn's Flex backend).
    ///
    /// # Errors
    /// An objective is impossible or the network has no such head.
    pub fn new(
        network: Network,
        objectives: &[Objective],
        settings: OptimizerSettings,
    ) -> Result<Self, TrainError> {
        if settings.dropout > 0.0 {
            return Err(TrainError::Config(
                "the backend `burn` knows no dropout; leave out optimizer.dropout".to_owned(),
            ));
        }
        check_together(objectives).map_err(TrainError::Config)?;
        for objective in objectives {
            if network.description.head(objective.head).is_none() {
                return Err(TrainError::Config(format!(
                    "the network `{}` has no {} head",
                    network.name,
                    objective.head.name()
                )));
            }
        }
        let device = Device::flex();
        let mut parameters = BTreeMap::new();
        for spec in network.description.tensors().map_err(TrainError::Config)? {
            let part = spec.name.split('.').next().unwrap_or_default();
            let statistic = matches!(spec.kind, TensorKind::NormMean | TensorKind::NormVariance);
            let trained = objectives.iter().any(|objective| objective.head.name() == part);
            if statistic || (part != "trunk" && !trained) {
                continue;
            }
            let zeros = Array::zeros([spec.shape.iter().product::<usize>()], &device);
            let value = array(&network, &spec.name, &device)?;
            let parameter = Parameter { value, first: zeros.clone(), second: zeros, spec };
            parameters.insert(parameter.spec.name.clone(), parameter);
        }
        Ok(Self { network, objectives: objectives.to_vec(), settings, device, parameters, steps: 0 })
    }

    /// The asked-for outputs of these heads; in training with batch statistics, which are then handed out.
    fn forward(
        &self,
        heads: &[HeadKind],
        weights: &BTreeMap<String, Array<1>>,
        batch: &Examples,
        mut statistics: Option<&mut Statistics>,
    ) -> Result<Vec<Array<1>>, TrainError> {
        let description = &self.network.description;
        let count = batch.squares.len();
        let mut boards = planes(description.encoding, batch, &self.device);
        if statistics.is_some() {
            boards = boards.autodiff();
        }
        for (index, layer) in description.trunk.iter().enumerate() {
            let prefix = format!("trunk.{index}");
            boards = self.layer(&prefix, layer, boards, weights, statistics.as_deref_mut())?;
        }
        let mut outputs = Vec::with_capacity(heads.len());
        for &kind in heads {
            let head = description.head(kind).ok_or_else(|| failed("the head is gone"))?;
            let mut boards = boards.clone();
            for (index, layer) in head.layers.iter().enumerate() {
                let prefix = format!("{}.{index}", kind.name());
                boards = self.layer(&prefix, layer, boards, weights, statistics.as_deref_mut())?;
            }
            outputs.push(match kind {
                HeadKind::Value => {
                    let signs = (0..count).map(|position| {
                        let turned = description.encoding.is_whites_view() && batch.turn(position).is_black();
                        if turned { -1.0_f32 } else { 1.0 }
                    });
                    let signs = TensorData::new(signs.collect::<Vec<_>>(), [count]);
                    let mut signs = Array::<1>::from_data(signs, &self.device);
                    if statistics.is_some() {
                        signs = signs.autodiff();
                    }
                    boards.reshape([count]) * signs
                }
                _ if kind.is_selector() => {
                    // Outputs count channels of a cell first.
                    let [_, channels, rows, columns] = boards.dims();
                    let cells = boards.reshape([count, channels, rows * columns]).swap_dims(1, 2);
                    cells.reshape([count * kind.outputs()])
                }
                _ => {
                    let [_, channels, rows, columns] = boards.dims();
                    let cells = rows * columns;
                    let place = |(index, &mv): (usize, &u16)| {
                        let (cell, channel) = (usize::from(mv) / channels, usize::from(mv) % channels);
                        let board = match batch.ends.as_slice() {
                            [] => index / batch.moves_each().max(1),
                            ends => ends.partition_point(|&end| end <= index),
                        };
                        ((board * channels + channel) * cells + cell) as i64
                    };
                    let places: Vec<i64> = batch.moves.iter().enumerate().map(place).collect();
                    let asked = places.len();
                    let mut places =
                        Array::<1, Int>::from_data(TensorData::new(places, [asked]), &self.device);
                    if statistics.is_some() {
                        places = places.autodiff();
                    }
                    boards.reshape([count * channels * cells]).gather(0, places)
                }
            });
        }
        Ok(outputs)
    }

    fn layer(
        &self,
        prefix: &str,
        layer: &Layer,
        boards: Array<4>,
        weights: &BTreeMap<String, Array<1>>,
        mut statistics: Option<&mut Statistics>,
    ) -> Result<Array<4>, TrainError> {
        let [count, inputs, side, _] = boards.dims();
        let weight = |name: String, shape: [usize; 4]| {
            let weight = weights.get(&name).ok_or_else(|| failed(format!("no tensor `{name}`")))?;
            Ok::<_, TrainError>(weight.clone().reshape(shape))
        };
        let (outputs, has_norm, activation) = match layer {
            Layer::Branches { branches, norm, activation } => {
                let mut outputs = Vec::with_capacity(branches.len());
                for (index, branch) in branches.iter().enumerate() {
                    let kernel = weight(
                        format!("{prefix}.branches.{index}.weight"),
                        [branch.channels, inputs, branch.kernel[0], branch.kernel[1]],
                    )?;
                    let padding = [0, 1].map(|axis| same(branch.kernel[axis], branch.dilation[axis]));
                    let options = ConvOptions::new_with_padding([1, 1], padding, branch.dilation, 1);
                    outputs.push(conv2d(boards.clone(), kernel, None, options));
                }
                (Array::cat(outputs, 1), *norm, activation)
            }
            Layer::Conv { kernel, channels, padding, norm, activation } => {
                let weight = weight(format!("{prefix}.weight"), [*channels, inputs, *kernel, *kernel])?;
                let padding = match padding {
                    Padding::Same => [same(*kernel, 1); 2],
                    Padding::Valid => [(0, 0); 2],
                };
                let options = ConvOptions::new_with_padding([1, 1], padding, [1, 1], 1);
                (conv2d(boards, weight, None, options), *norm, activation)
            }
            Layer::Dense { channels, norm, activation } => {
                let weight = weight(format!("{prefix}.weight"), [*channels, inputs, side, side])?;
                let options = ConvOptions::new([1, 1], [0, 0], [1, 1], 1);
                (conv2d(boards, weight, None, options), *norm, activation)
            }
            Layer::Residual { layers, activation } => {
                let mut sum = boards.clone();
                for (index, layer) in layers.iter().enumerate() {
                    let prefix = format!("{prefix}.layers.{index}");
                    sum = self.layer(&prefix, layer, sum, weights, statistics.as_deref_mut())?;
                }
                return Ok(activated(sum + boards, *activation));
            }
            Layer::Pool { pooling, size } => {
                let size = [*size; 2];
                return Ok(match pooling {
                    Pooling::Max => max_pool2d(boards, MaxPoolOptions::new(size)),
                    Pooling::Average => avg_pool2d(boards, AvgPoolOptions::new(size)),
                });
            }
            Layer::AppendMean => {
                let mean = boards.clone().mean_dim(2).mean_dim(3).expand([count, inputs, side, side]);
                return Ok(Array::cat(vec![boards, mean], 1));
            }
        };
        let [_, channels, ..] = outputs.dims();
        let outputs = if has_norm {
            self.norm(prefix, outputs, weights, statistics)?
        } else {
            outputs + weight(format!("{prefix}.bias"), [1, channels, 1, 1])?
        };
        Ok(activated(outputs, *activation))
    }

    fn norm(
        &self,
        prefix: &str,
        boards: Array<4>,
        weights: &BTreeMap<String, Array<1>>,
        statistics: Option<&mut Statistics>,
    ) -> Result<Array<4>, TrainError> {
        let [count, channels, rows, columns] = boards.dims();
        let shape = [1, channels, 1, 1];
        let mean_of = |values: Array<4>| values.mean_dim(0).mean_dim(2).mean_dim(3);
        let (mean, variance) = match statistics {
            Some(statistics) => {
                let mean = mean_of(boards.clone());
                let centred = boards.clone() - mean.clone();
                let variance = mean_of(centred.clone() * centred);
                let cells = (count * rows * columns) as f64;
                let unbiased = variance.clone().inner() * (cells / (cells - 1.0).max(1.0));
                statistics.push((prefix.to_owned(), mean.clone().inner(), unbiased));
                (mean, variance)
            }
            None => {
                let running =
                    |part: &str| array(&self.network, &format!("{prefix}.norm.{part}"), &self.device);
                (running("mean")?.reshape(shape), running("variance")?.reshape(shape))
            }
        };
        let vector = |part: &str| {
            let name = format!("{prefix}.norm.{part}");
            let weight = weights.get(&name).ok_or_else(|| failed(format!("no tensor `{name}`")))?;
            Ok::<_, TrainError>(weight.clone().reshape(shape))
        };
        let normal = (boards - mean) / (variance + f64::from(NORM_EPSILON)).sqrt();
        Ok(normal * vector("scale")? + vector("shift")?)
    }

    /// Moves the running statistics towards a batch's.
    fn take_statistics(&mut self, statistics: Statistics) -> Result<(), TrainError> {
        let keep = self.settings.norm_momentum;
        for (prefix, mean, variance) in statistics {
            for (part, values) in [("mean", mean), ("variance", variance)] {
                let values = values.try_into_vec_as::<f32>().map_err(failed)?;
                let name = format!("{prefix}.norm.{part}");
                let running = self
                    .network
                    .tensors
                    .get_mut(&name)
                    .ok_or_else(|| failed(format!("no tensor `{name}`")))?;
                for (running, value) in running.data.iter_mut().zip(values) {
                    *running = keep * *running + (1.0 - keep) * value;
                }
            }
        }
        Ok(())
    }

    /// One step of Adam with bias correction, or of RMSprop; both with decoupled weight decay.
    fn update(
        &mut self,
        mut gradients: BTreeMap<String, Array<1>>,
        learning_rate: f32,
    ) -> Result<(), TrainError> {
        let OptimizerSettings { kind, mut beta1, beta2, epsilon, weight_decay, l2, clip, .. } = self.settings;
        if clip > 0.0 {
            let mut squares = 0.0_f64;
            for gradient in gradients.values() {
                let sum = (gradient.clone() * gradient.clone()).sum();
                squares += f64::from(sum.try_into_scalar::<f32>().map_err(failed)?);
            }
            let norm = squares.sqrt() as f32;
            if norm > clip {
                gradients =
                    gradients.into_iter().map(|(name, value)| (name, value * (clip / norm))).collect();
            }
        }
        self.steps += 1;
        let exponent = i32::try_from(self.steps).unwrap_or(i32::MAX);
        let mut correct1 = (1.0 - f64::from(beta1).powi(exponent)) as f32;
        let mut correct2 = (1.0 - f64::from(beta2).powi(exponent)) as f32;
        if kind == OptimizerKind::Rmsprop {
            (beta1, correct1, correct2) = (0.0, 1.0, 1.0);
        }
        for (name, parameter) in &mut self.parameters {
            // A weight that the loss does not reach has no gradient.
            let Some(mut gradient) = gradients.remove(name) else { continue };
            if l2 > 0.0 && parameter.spec.kind == TensorKind::Weight {
                gradient = gradient + parameter.value.clone() * l2;
            }
            parameter.first = parameter.first.clone() * beta1 + gradient.clone() * (1.0 - beta1);
            parameter.second = parameter.second.clone() * beta2 + gradient.clone() * gradient * (1.0 - beta2);
            let root = (parameter.second.clone() / correct2).sqrt() + epsilon;
            let mut step = parameter.first.clone() / correct1 / root;
            if weight_decay > 0.0 && parameter.spec.kind == TensorKind::Weight {
                step = step + parameter.value.clone() * weight_decay;
            }
            parameter.value = parameter.value.clone() - step * learning_rate;
        }
        Ok(())
    }

    /// The loss of one head, before its weight; `None` where the batch teaches it nothing.
    fn loss(&self, objective: &Objective, output: Array<1>, batch: &Examples) -> Option<Array<1>> {
        let device = &self.device;
        let labels = batch.labels(objective.head);
        match objective.loss {
            Loss::Ordinal => {
                let each = if objective.head == HeadKind::Value { 1 } else { batch.moves_each() };
                ordinal_loss(output, labels, each, device)
            }
            Loss::Tanh { scale } => {
                let targets: Vec<f32> = labels.iter().map(|&label| (label as f32 / scale).tanh()).collect();
                let count = targets.len();
                let targets = Array::<1>::from_data(TensorData::new(targets, [count]), device).autodiff();
                let head = self.network.description.head(objective.head);
                let is_tanh = matches!(
                    head.and_then(|head| head.layers.last()),
                    Some(
                        Layer::Conv { activation: Activation::Tanh, .. }
                            | Layer::Dense { activation: Activation::Tanh, .. }
                    )
                );
                let distance = if is_tanh { output } else { output.tanh() } - targets;
                Some((distance.clone() * distance).mean())
            }
            Loss::CrossEntropy if objective.head.is_selector() => {
                Some(selector_loss(output, &batch.targets, device))
            }
            Loss::CrossEntropy => cross_entropy(output, &batch.ends, &batch.weights, device),
        }
    }

    /// Loss, logits and gradients of a batch, with the batch statistics of the forward pass.
    fn gradients(
        &self,
        batch: &Examples,
    ) -> Result<(Step, BTreeMap<String, Array<1>>, Statistics), TrainError> {
        let leaves: BTreeMap<String, Array<1>> = self
            .parameters
            .iter()
            .map(|(name, parameter)| (name.clone(), parameter.value.clone().autodiff().require_grad()))
            .collect();
        let mut statistics = Statistics::new();
        let heads: Vec<HeadKind> = self.objectives.iter().map(|objective| objective.head).collect();
        let outputs = self.forward(&heads, &leaves, batch, Some(&mut statistics))?;
        let mut step = Step::default();
        let mut total: Option<Array<1>> = None;
        for (objective, output) in self.objectives.iter().zip(outputs) {
            step.logits.push(output.clone().inner().try_into_vec_as::<f32>().map_err(failed)?);
            let Some(loss) = self.loss(objective, output, batch) else {
                step.losses.push(0.0);
                continue;
            };
            step.losses.push(loss.clone().inner().try_into_scalar::<f32>().map_err(failed)?);
            let weighted = loss * objective.weight;
            total = Some(match total {
                Some(total) => total + weighted,
                None => weighted,
            });
        }
        let Some(loss) = total else { return Ok((step, BTreeMap::new(), statistics)) };
        let mut gradients = loss.backward();
        step.loss = loss.inner().try_into_scalar::<f32>().map_err(failed)?;
        let gradients = leaves
            .into_iter()
            .filter_map(|(name, leaf)| Some((name, leaf.grad_remove(&mut gradients)?)))
            .collect();
        Ok((step, gradients, statistics))
    }
}

fn activated(boards: Array<4>, activation: Activation) -> Array<4> {
    match activation {
        Activation::Identity => boards,
        Activation::Relu => activation::relu(boards),
        Activation::LeakyRelu => activation::leaky_relu(boards, f64::from(LEAKY_SLOPE)),
        Activation::Gelu => activation::gelu(boards),
        Activation::Silu => activation::silu(boards),
        Activation::Tanh => boards.tanh(),
    }
}

/// Padding before and after that keeps the size, as `nets::Branch` says.
fn same(kernel: usize, dilation: usize) -> (usize, usize) {
    let reach = dilation * (kernel - 1);
    (reach / 2, reach - reach / 2)
}

/// The input planes `[positions, planes, rows, columns]`.
fn planes(encoding: Encoding, batch: &Examples, device: &Device) -> Array<4> {
    let planes = encoding.planes();
    let count = batch.squares.len();
    let mut data = vec![0.0_f32; count * planes * 64];
    for ((position, squares), board) in
        batch.squares.iter().enumerate().zip(data.chunks_exact_mut(planes * 64))
    {
        for (square, state) in encoding.states_of(squares, batch.turn(position)).into_iter().enumerate() {
            for (plane, value) in encoding.planes_of(usize::from(state)) {
                board[plane * 64 + square] = value;
            }
        }
    }
    Array::from_data(TensorData::new(data, [count, planes, 8, 8]), device)
}

/// A tensor of the network, flat.
fn array(network: &Network, name: &str, device: &Device) -> Result<Array<1>, TrainError> {
    let tensor = network.tensor(name).ok_or_else(|| failed(format!("no tensor `{name}`")))?;
    Ok(Array::from_data(TensorData::new(tensor.data.clone(), [tensor.data.len()]), device))
}

/// Mean binary cross entropy over all pairs with different labels, each pair once, plus the mean over those among the
/// `each` outputs of one position; `None` where all labels are equal.
fn ordinal_loss(logits: Array<1>, labels: &[i32], each: usize, device: &Device) -> Option<Array<1>> {
    let count = labels.len();
    // For each pair: +1 where the row should be above the column, -1 below; 0 for ties and pairs already counted.
    let mut signs = vec![0.0_f32; count * count];
    let (mut pairs, mut siblings) = (0_u64, 0_u64);
    for (row, label) in labels.iter().enumerate() {
        for (column, other) in labels[..row].iter().enumerate() {
            let sign = (label > other) as i8 - (label < other) as i8;
            signs[row * count + column] = f32::from(sign);
            pairs += u64::from(sign != 0);
            siblings += u64::from(sign != 0 && row / each == column / each);
        }
    }
    if pairs == 0 {
        return None;
    }
    let mut weights: Vec<f32> = signs.iter().map(|sign| sign.abs() / pairs as f32).collect();
    for row in 0..count {
        for column in row / each * each..row {
            weights[row * count + column] += signs[row * count + column].abs() / siblings.max(1) as f32;
        }
    }
    let matrix = |data| Array::<2>::from_data(TensorData::new(data, [count, count]), device).autodiff();
    let (signs, weights) = (matrix(signs), matrix(weights));
    let margins = logits.clone().reshape([count, 1]) - logits.reshape([1, count]);
    let losses = activation::log_sigmoid(margins * signs) * weights;
    Some(losses.sum() * -1.0)
}

/// Weighted mean cross entropy of the softmax over each position's outputs against its first; `None` without weight.
fn cross_entropy(logits: Array<1>, ends: &[usize], weights: &[f32], device: &Device) -> Option<Array<1>> {
    let counted: f32 = weights.iter().sum();
    let longest = ends.iter().scan(0, |from, &end| Some(end - std::mem::replace(from, end))).max()?;
    if counted <= 0.0 || longest == 0 {
        return None;
    }
    // Every position as a row; rows are filled up with a copy of an output that a mask takes out again.
    let boards = ends.len();
    let mut places = vec![0_i64; boards * longest];
    let mut mask = vec![-1e9_f32; boards * longest];
    let mut first = 0;
    for (row, &end) in ends.iter().enumerate() {
        for (column, index) in (first..end).enumerate() {
            places[row * longest + column] = index as i64;
            mask[row * longest + column] = 0.0;
        }
        first = end;
    }
    let size = boards * longest;
    let places = Array::<1, Int>::from_data(TensorData::new(places, [size]), device).autodiff();
    let mask = Array::<2>::from_data(TensorData::new(mask, [boards, longest]), device).autodiff();
    let weights: Vec<f32> = weights.iter().map(|weight| weight / counted).collect();
    let weights = Array::<2>::from_data(TensorData::new(weights, [boards, 1]), device).autodiff();
    let rows = logits.gather(0, places).reshape([boards, longest]) + mask;
    let chances = activation::log_softmax(rows, 1);
    Some((chances.slice([0..boards, 0..1]) * weights).sum() * -1.0)
}

/// Mean cross entropy of the softmax over each position's squares.
fn selector_loss(logits: Array<1>, targets: &[u8], device: &Device) -> Array<1> {
    let boards = targets.len();
    let chances = activation::log_softmax(logits.reshape([boards, 64]), 1);
    let targets: Vec<i64> = targets.iter().map(|&target| i64::from(target)).collect();
    let targets = Array::<2, Int>::from_data(TensorData::new(targets, [boards, 1]), device).autodiff();
    chances.gather(1, targets).mean() * -1.0
}

impl Backend for BurnBackend {
    fn step(&mut self, batch: &Examples, learning_rate: f32) -> Result<Step, TrainError> {
        let (step, gradients, statistics) = self.gradients(batch)?;
        self.update(gradients, learning_rate)?;
        self.take_statistics(statistics)?;
        Ok(step)
    }

    fn logits(&mut self, head: HeadKind, batch: &Examples) -> Result<Vec<f32>, TrainError> {
        if !self.objectives.iter().any(|objective| objective.head == head) {
            return Err(failed(format!("the {} head is not trained here", head.name())));
        }
        let weights: BTreeMap<String, Array<1>> =
            self.parameters.iter().map(|(name, parameter)| (name.clone(), parameter.value.clone())).collect();
        let mut outputs = self.forward(&[head], &weights, batch, None)?;
        let output = outputs.pop().ok_or_else(|| failed("no output"))?;
        output.try_into_vec_as::<f32>().map_err(failed)
    }

    fn network(&self) -> Result<Network, TrainError> {
        let mut network = self.network.clone();
        for (name, parameter) in &self.parameters {
            let data = parameter.value.clone().try_into_vec_as::<f32>().map_err(failed)?;
            network.tensors.insert(name.clone(), Tensor { shape: parameter.spec.shape.clone(), data });
        }
        Ok(network)
    }

    fn optimizer(&self) -> Result<OptimizerState, TrainError> {
        let mut state = OptimizerState { steps: self.steps, ..OptimizerState::default() };
        for (name, parameter) in &self.parameters {
            for (part, moment) in [("first", &parameter.first), ("second", &parameter.second)] {
                let data = moment.clone().try_into_vec_as::<f32>().map_err(failed)?;
                let tensor = Tensor { shape: parameter.spec.shape.clone(), data };
                state.tensors.insert(format!("{part}.{name}"), tensor);
            }
        }
        Ok(state)
    }

    fn restore(&mut self, network: &Network, optimizer: &OptimizerState) -> Result<(), TrainError> {
        if network.description != self.network.description {
            return Err(TrainError::Backend("the saved network has another description".to_owned()));
        }
        let mut fresh = Self::new(network.clone(), &self.objectives, self.settings.clone())?;
        fresh.steps = optimizer.steps;
        for (name, parameter) in &mut fresh.parameters {
            for (part, moment) in [("first", &mut parameter.first), ("second", &mut parameter.second)] {
                let name = format!("{part}.{name}");
                match optimizer.tensors.get(&name) {
                    Some(tensor) if tensor.shape == parameter.spec.shape => {
                        let data = TensorData::new(tensor.data.clone(), [tensor.data.len()]);
                        *moment = Array::from_data(data, &fresh.device);
                    }
                    None if optimizer.steps == 0 => {}
                    _ => {
                        return Err(TrainError::Backend(format!(
                            "the saved optimizer state does not fit: `{name}` is missing or has another shape"
                        )));
                    }
                }
            }
        }
        *self = fresh;
        Ok(())
    }

    fn describe(&self) -> String {
        let Description { heads, .. } = &self.network.description;
        format!("Burn Flex, single precision, {} of {} heads", self.objectives.len(), heads.len())
    }
}
