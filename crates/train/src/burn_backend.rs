//! The training backend in [Burn](https://burn.dev): it checks our own kernels and runs on GPUs.

mod devices;
mod forward;
mod loss;

use std::{collections::BTreeMap, thread};

use burn::tensor::{Device, Tensor as Array, TensorData};
pub use devices::BurnDevices;
use forward::{BatchStatistics, Graph};
use nets::{Description, HeadKind, Network, Tensor, TensorKind, TensorSpec};

use crate::{
    Backend, Examples, Objective, OptimizerSettings, OptimizerState, StepResult, TrainError,
    WeightAverage, backend::MomentFactors, backend::check_together, dropout::Dropout,
};

/// Loss, gradients and batch statistics of a part of a batch.
struct PartResult {
    step: StepResult,
    gradients: BTreeMap<String, Array<1>>,
    statistics: BatchStatistics,
}

/// A trained tensor with the optimizer's moments, all flat.
#[derive(Clone, Debug)]
struct DeviceParameter {
    spec: TensorSpec,
    value: Array<1>,
    first: Array<1>,
    second: Array<1>,
}

/// Trains heads of a network (with the trunk before them) on Burn's devices.
///
/// Several devices share each batch: each computes batch statistics and, for the ordinal loss,
/// pairs over its own part of the positions. Gradients and statistics are averaged, weighted by the
/// sizes of the parts; the first device keeps the weights.
#[derive(Debug)]
pub struct BurnBackend {
    /// Holds everything that is not trained here; its trained tensors may be outdated.
    network: Network,
    objectives: Vec<Objective>,
    settings: OptimizerSettings,
    devices: BurnDevices,
    parameters: BTreeMap<String, DeviceParameter>,
    /// Running means and variances, flat.
    statistics: BTreeMap<String, Array<1>>,
    /// The average of parameters and statistics on the device, since the first
    /// [`Backend::mix_into`].
    averaged: Option<BTreeMap<String, Array<1>>>,
    steps: u64,
}

fn failed(error: impl std::fmt::Display) -> TrainError {
    TrainError::Backend(format!("Burn: {error}"))
}

impl BurnBackend {
    /// Prepares the training of heads of `network`.
    ///
    /// # Errors
    /// An objective is impossible or the network has no such head.
    pub fn new(
        network: Network,
        objectives: &[Objective],
        settings: OptimizerSettings,
        devices: BurnDevices,
    ) -> Result<Self, TrainError> {
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
        let device = devices.first();
        let (mut parameters, mut statistics) = (BTreeMap::new(), BTreeMap::new());
        for spec in network.description.tensors().map_err(TrainError::Config)? {
            let part = spec.name.split('.').next().unwrap_or_default();
            let trained = objectives.iter().any(|objective| objective.head.name() == part);
            if part != "trunk" && !trained {
                continue;
            }
            if matches!(spec.kind, TensorKind::NormMean | TensorKind::NormVariance) {
                statistics.insert(spec.name.clone(), array(&network, &spec.name, device)?);
                continue;
            }
            let zeros = Array::zeros([spec.shape.iter().product::<usize>()], device);
            let value = array(&network, &spec.name, device)?;
            let parameter = DeviceParameter { value, first: zeros.clone(), second: zeros, spec };
            parameters.insert(parameter.spec.name.clone(), parameter);
        }
        let (objectives, averaged, steps) = (objectives.to_vec(), None, 0);
        Ok(Self { network, objectives, settings, devices, parameters, statistics, averaged, steps })
    }

    /// Updates the running statistics with a batch's.
    fn update_statistics(&mut self, statistics: BatchStatistics) -> Result<(), TrainError> {
        let keep = self.settings.norm_keep(self.steps);
        for (prefix, mean, variance) in statistics {
            for (part, values) in [("mean", mean), ("variance", variance)] {
                let name = format!("{prefix}.norm.{part}");
                let running = self
                    .statistics
                    .get_mut(&name)
                    .ok_or_else(|| failed(format!("no tensor `{name}`")))?;
                let channels = running.dims();
                *running = running.clone() * keep + values.reshape(channels) * (1.0 - keep);
            }
        }
        Ok(())
    }

    /// Parameters and running statistics by the tensors' names.
    fn values(&self) -> impl Iterator<Item = (&String, &Array<1>)> {
        let parameters = self.parameters.iter().map(|(name, parameter)| (name, &parameter.value));
        parameters.chain(&self.statistics)
    }

    /// One step of Adam with bias correction, or of RMSprop; both with decoupled weight decay.
    fn update(&mut self, mut gradients: BTreeMap<String, Array<1>>, learning_rate: f32) {
        let OptimizerSettings { beta2, epsilon, weight_decay, l2, clip, .. } = self.settings;
        if clip > 0.0 {
            let squares = |gradient: &Array<1>| (gradient.clone() * gradient.clone()).sum();
            if let Some(norm) = gradients.values().map(squares).reduce(|sum, squares| sum + squares)
            {
                // Computed on the device, because reading the norm would make the host wait. The
                // factor is exactly 1 within the bound.
                let factor = (norm.sqrt() / clip).clamp_min(1.0).recip();
                gradients
                    .values_mut()
                    .for_each(|gradient| *gradient = gradient.clone() * factor.clone());
            }
        }
        self.steps += 1;
        let MomentFactors { beta1, correct1, correct2 } = self.settings.moments(self.steps);
        for (name, parameter) in &mut self.parameters {
            // A weight that does not affect the loss has no gradient.
            let Some(mut gradient) = gradients.remove(name) else { continue };
            if l2 > 0.0 && parameter.spec.kind == TensorKind::Weight {
                gradient = gradient + parameter.value.clone() * l2;
            }
            parameter.first = parameter.first.clone() * beta1 + gradient.clone() * (1.0 - beta1);
            parameter.second =
                parameter.second.clone() * beta2 + gradient.clone() * gradient * (1.0 - beta2);
            let root = (parameter.second.clone() / correct2).sqrt() + epsilon;
            let mut step = parameter.first.clone() / correct1 / root;
            if weight_decay > 0.0 && parameter.spec.kind == TensorKind::Weight {
                step = step + parameter.value.clone() * weight_decay;
            }
            parameter.value = parameter.value.clone() - step * learning_rate;
        }
    }

    fn graph<'a>(&'a self, device: &'a Device) -> Graph<'a> {
        Graph {
            network: &self.network,
            device,
            products: self.devices.products,
            dropout: None,
            first: 0,
        }
    }

    /// Loss, logits and gradients of a batch, with the batch statistics of the forward pass.
    fn gradients(&self, batch: &Examples) -> Result<PartResult, TrainError> {
        let devices = &self.devices.all;
        let each = batch.squares.len().div_ceil(devices.len()).max(1);
        if devices.len() == 1 || batch.squares.len() <= each {
            return self.gradients_on(self.devices.first(), batch, 0);
        }
        let parts: Vec<Examples> = (0..batch.squares.len())
            .step_by(each)
            .map(|start| batch.part(start..(start + each).min(batch.squares.len())))
            .collect();
        let results = thread::scope(|scope| {
            let threads: Vec<_> = devices
                .iter()
                .zip(parts.iter().zip((0..).step_by(each)))
                .map(|(device, (part, first))| {
                    scope.spawn(move || self.gradients_on(device, part, first))
                })
                .collect();
            let join = |thread: thread::ScopedJoinHandle<'_, _>| {
                thread.join().unwrap_or_else(|_| Err(failed("a device's thread ended")))
            };
            threads.into_iter().map(join).collect::<Result<Vec<_>, _>>()
        })?;
        let shares =
            parts.iter().map(|part| part.squares.len() as f32 / batch.squares.len() as f32);
        Ok(self.average(results.into_iter().zip(shares)))
    }

    /// Averages the results of the parts, weighted by their shares.
    fn average(&self, parts: impl Iterator<Item = (PartResult, f32)>) -> PartResult {
        let first_device = self.devices.first();
        let heads = self.objectives.len();
        let step =
            StepResult { loss: 0.0, losses: vec![0.0; heads], logits: vec![Vec::new(); heads] };
        let mut sum = PartResult { step, gradients: BTreeMap::new(), statistics: Vec::new() };
        for (part, share) in parts {
            sum.step.loss += share * part.step.loss;
            for (sum, loss) in sum.step.losses.iter_mut().zip(part.step.losses) {
                *sum += share * loss;
            }
            for (all, logits) in sum.step.logits.iter_mut().zip(part.step.logits) {
                all.extend(logits);
            }
            for (name, gradient) in part.gradients {
                let gradient = gradient.to_device(first_device) * share;
                let gradient = match sum.gradients.remove(&name) {
                    Some(sum) => sum + gradient,
                    None => gradient,
                };
                sum.gradients.insert(name, gradient);
            }
            let is_first = sum.statistics.is_empty();
            for (at, (prefix, mean, variance)) in part.statistics.into_iter().enumerate() {
                let [mean, variance] =
                    [mean, variance].map(|values| values.to_device(first_device) * share);
                if is_first {
                    sum.statistics.push((prefix, mean, variance));
                } else {
                    let (_, sum_mean, sum_variance) = &mut sum.statistics[at];
                    *sum_mean = sum_mean.clone() + mean;
                    *sum_variance = sum_variance.clone() + variance;
                }
            }
        }
        sum
    }

    /// Loss, logits and gradients of a part of a batch on one device; `first` is the index of the
    /// part's first position in the whole batch.
    fn gradients_on(
        &self,
        device: &Device,
        batch: &Examples,
        first: usize,
    ) -> Result<PartResult, TrainError> {
        let OptimizerSettings { dropout: rate, dropout_seed: seed, .. } = self.settings;
        let dropout = (rate > 0.0).then_some(Dropout { rate, seed, step: self.steps });
        let graph = Graph { dropout, first, ..self.graph(device) };
        let leaf = |value: &Array<1>| value.clone().to_device(device).autodiff().require_grad();
        let leaves: BTreeMap<String, Array<1>> = self
            .parameters
            .iter()
            .map(|(name, parameter)| (name.clone(), leaf(&parameter.value)))
            .collect();
        let mut statistics = BatchStatistics::new();
        let heads: Vec<HeadKind> = self.objectives.iter().map(|objective| objective.head).collect();
        let outputs = graph.forward(&heads, &leaves, batch, Some(&mut statistics))?;
        let mut step = StepResult::default();
        let mut total: Option<Array<1>> = None;
        let mut losses = Vec::with_capacity(heads.len());
        for (objective, output) in self.objectives.iter().zip(&outputs) {
            let loss = graph.loss(objective, output.clone(), batch);
            if let Some(loss) = loss.clone() {
                let weighted = loss * objective.weight;
                total = Some(match total {
                    Some(total) => total + weighted,
                    None => weighted,
                });
            }
            losses.push(loss);
        }
        let mut gradients = BTreeMap::new();
        if let Some(total) = &total {
            let mut found = total.backward();
            let own =
                |(name, leaf): (String, Array<1>)| Some((name, leaf.grad_remove(&mut found)?));
            gradients = leaves.into_iter().filter_map(own).collect();
        }
        // Reading outputs waits for the device, so it comes last.
        for output in outputs {
            step.logits.push(output.inner().try_into_vec_as::<f32>().map_err(failed)?);
        }
        let scalar = |value: Option<Array<1>>| match value {
            Some(value) => value.inner().try_into_scalar::<f32>().map_err(failed),
            None => Ok(0.0),
        };
        step.losses = losses.into_iter().map(scalar).collect::<Result<_, _>>()?;
        step.loss = scalar(total)?;
        Ok(PartResult { step, gradients, statistics })
    }
}

/// A tensor of the network, flat.
fn array(network: &Network, name: &str, device: &Device) -> Result<Array<1>, TrainError> {
    let tensor = network.tensor(name).ok_or_else(|| failed(format!("no tensor `{name}`")))?;
    Ok(Array::from_data(TensorData::new(tensor.data.clone(), [tensor.data.len()]), device))
}

/// Copies values from the device into the network's tensors.
fn fetch<'a>(
    network: &mut Network,
    values: impl Iterator<Item = (&'a String, &'a Array<1>)>,
) -> Result<(), TrainError> {
    for (name, value) in values {
        let tensor =
            network.tensors.get_mut(name).ok_or_else(|| failed(format!("no tensor `{name}`")))?;
        tensor.data = value.clone().try_into_vec_as::<f32>().map_err(failed)?;
    }
    Ok(())
}

impl Backend for BurnBackend {
    fn step(&mut self, batch: &Examples, learning_rate: f32) -> Result<StepResult, TrainError> {
        let batch = batch.seen_by(self.network.description.encoding);
        let result = self.gradients(&batch)?;
        self.update(result.gradients, learning_rate);
        self.update_statistics(result.statistics)?; // After the update, which counts the step.
        Ok(result.step)
    }

    fn logits(&mut self, head: HeadKind, batch: &Examples) -> Result<Vec<f32>, TrainError> {
        if !self.objectives.iter().any(|objective| objective.head == head) {
            return Err(failed(format!("the {} head is not trained here", head.name())));
        }
        let batch = batch.seen_by(self.network.description.encoding);
        let weights = self.values().map(|(name, value)| (name.clone(), value.clone())).collect();
        let mut outputs =
            self.graph(self.devices.first()).forward(&[head], &weights, &batch, None)?;
        let output = outputs.pop().ok_or_else(|| failed("no output"))?;
        output.try_into_vec_as::<f32>().map_err(failed)
    }

    fn network(&self) -> Result<Network, TrainError> {
        let mut network = self.network.clone();
        fetch(&mut network, self.values())?;
        Ok(network)
    }

    fn mix_into(&mut self, average: &mut WeightAverage) -> Result<(), TrainError> {
        let share = average.next_share();
        let mut averaged = match self.averaged.take() {
            Some(averaged) => averaged,
            None => {
                let on_device = |(name, _): (&String, _)| {
                    let known = average.network.tensor(name).is_some();
                    known.then(|| {
                        Ok((name.clone(), array(&average.network, name, self.devices.first())?))
                    })
                };
                self.values().filter_map(on_device).collect::<Result<_, TrainError>>()?
            }
        };
        for (name, value) in self.values() {
            if let Some(average) = averaged.get_mut(name) {
                *average = average.clone() + (value.clone() - average.clone()) * share;
            }
        }
        self.averaged = Some(averaged);
        Ok(())
    }

    fn fetch_average(&self, average: &mut WeightAverage) -> Result<(), TrainError> {
        fetch(&mut average.network, self.averaged.iter().flatten())
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
            return Err(TrainError::Backend(
                "the saved network has another description".to_owned(),
            ));
        }
        let (settings, devices) = (self.settings.clone(), self.devices.clone());
        let mut fresh = Self::new(network.clone(), &self.objectives, settings, devices)?;
        fresh.steps = optimizer.steps;
        for (name, parameter) in &mut fresh.parameters {
            for (part, moment) in
                [("first", &mut parameter.first), ("second", &mut parameter.second)]
            {
                let name = format!("{part}.{name}");
                match optimizer.tensors.get(&name) {
                    Some(tensor) if tensor.shape == parameter.spec.shape => {
                        let data = TensorData::new(tensor.data.clone(), [tensor.data.len()]);
                        *moment = Array::from_data(data, fresh.devices.first());
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
        format!("Burn, {}, {} of {} heads", self.devices, self.objectives.len(), heads.len())
    }
}
