//! Trained tensors in the layout of the products, with the optimizer's moments.

use nets::{NetError, Network, Tensor, TensorKind, TensorSpec};

use crate::{OptimizerSettings, OptimizerState, TrainError, backend::MomentFactors};

/// One trained tensor. Padding elements hold zeros and get zero gradients, so they stay zero.
#[derive(Clone, Debug)]
pub(super) struct Parameter {
    pub name: String,
    shape: Vec<usize>,
    decays: bool,
    pub value: Vec<f32>,
    pub gradient: Vec<f32>,
    first: Vec<f32>,
    second: Vec<f32>,
    /// Index in `value` of each element of the network's tensor.
    places: Vec<u32>,
}

/// A tensor of the network with this shape, or an error that names it.
pub(super) fn tensor<'a>(
    network: &'a Network,
    name: &str,
    shape: &[usize],
) -> Result<&'a Tensor, TrainError> {
    network.tensor(name).filter(|tensor| tensor.shape == shape).ok_or_else(|| {
        TrainError::Net(NetError::Tensor {
            name: network.name.clone(),
            tensor: name.to_owned(),
            reason: format!("is missing or not of shape {shape:?}"),
        })
    })
}

impl Parameter {
    /// Reads a tensor; its element `i` is stored at index `places[i]` of `size` elements.
    pub fn read(
        network: &Network,
        spec: &TensorSpec,
        places: Vec<u32>,
        size: usize,
    ) -> Result<Self, TrainError> {
        let mut parameter = Self {
            name: spec.name.clone(),
            shape: spec.shape.clone(),
            decays: spec.kind == TensorKind::Weight,
            value: vec![0.0; size],
            gradient: vec![0.0; size],
            first: vec![0.0; size],
            second: vec![0.0; size],
            places,
        };
        parameter.take(network)?;
        Ok(parameter)
    }

    /// Reads the values of a network.
    pub fn take(&mut self, network: &Network) -> Result<(), TrainError> {
        let tensor = tensor(network, &self.name, &self.shape)?;
        scatter(&self.places, &tensor.data, &mut self.value);
        Ok(())
    }

    /// The values as a network's tensor.
    pub fn tensor(&self) -> Tensor {
        self.to_tensor(&self.value)
    }

    #[cfg(test)]
    pub fn gradient_tensor(&self) -> Tensor {
        self.to_tensor(&self.gradient)
    }

    /// Converts from the layout of the products to a network's tensor.
    fn to_tensor(&self, data: &[f32]) -> Tensor {
        Tensor {
            shape: self.shape.clone(),
            data: self.places.iter().map(|&place| data[place as usize]).collect(),
        }
    }
}

fn scatter(places: &[u32], source: &[f32], target: &mut [f32]) {
    for (&place, &value) in places.iter().zip(source) {
        target[place as usize] = value;
    }
}

/// Adam with bias correction, or RMSprop; both with decoupled weight decay and L2 regularisation.
#[derive(Clone, Debug)]
pub(super) struct Optimizer {
    pub settings: OptimizerSettings,
    pub steps: u64,
}

impl Optimizer {
    /// Updates every parameter with its gradient.
    pub fn update(&mut self, parameters: &mut [Parameter], learning_rate: f32) {
        let OptimizerSettings { beta2, epsilon, weight_decay, l2, clip, .. } = self.settings;
        self.steps += 1;
        let MomentFactors { beta1, correct1, correct2 } = self.settings.moments(self.steps);
        let mut factor = 1.0;
        if clip > 0.0 {
            let squares: f64 = parameters
                .iter()
                .flat_map(|parameter| &parameter.gradient)
                .map(|&gradient| f64::from(gradient) * f64::from(gradient))
                .sum();
            let norm = squares.sqrt() as f32;
            if norm > clip {
                factor = clip / norm;
            }
        }
        for parameter in parameters {
            let (decay, l2) = if parameter.decays { (weight_decay, l2) } else { (0.0, 0.0) };
            let moments = parameter.first.iter_mut().zip(&mut parameter.second);
            for ((value, gradient), (first, second)) in
                parameter.value.iter_mut().zip(&parameter.gradient).zip(moments)
            {
                let gradient = gradient * factor + l2 * *value;
                *first = beta1 * *first + (1.0 - beta1) * gradient;
                *second = beta2 * *second + (1.0 - beta2) * gradient * gradient;
                let step = *first / correct1 / ((*second / correct2).sqrt() + epsilon);
                *value -= learning_rate * (step + decay * *value);
            }
        }
    }

    /// The moments by name.
    pub fn state(&self, parameters: &[Parameter]) -> OptimizerState {
        let mut state = OptimizerState { steps: self.steps, ..Default::default() };
        for parameter in parameters {
            state
                .tensors
                .insert(format!("first.{}", parameter.name), parameter.to_tensor(&parameter.first));
            state.tensors.insert(
                format!("second.{}", parameter.name),
                parameter.to_tensor(&parameter.second),
            );
        }
        state
    }

    /// Restores saved moments; a state without steps has zero moments.
    pub fn restore(
        &mut self,
        parameters: &mut [Parameter],
        state: &OptimizerState,
    ) -> Result<(), TrainError> {
        self.steps = state.steps;
        for parameter in parameters {
            let moments = [("first", &mut parameter.first), ("second", &mut parameter.second)];
            for (part, target) in moments {
                let name = format!("{part}.{}", parameter.name);
                match state.tensors.get(&name) {
                    Some(tensor) if tensor.shape == parameter.shape => {
                        scatter(&parameter.places, &tensor.data, target);
                    }
                    None if state.steps == 0 => target.fill(0.0),
                    _ => {
                        return Err(TrainError::Backend(format!(
                            "the saved optimizer state does not fit: `{name}` is missing or has another shape"
                        )));
                    }
                }
            }
        }
        Ok(())
    }
}
