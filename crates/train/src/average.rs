//! The exponential moving average of a network's weights over the steps of a run, which ranks
//! positions better than the last weights.

use nets::Network;

/// The moving average of the weights. The decay is smaller in the first steps, so that the random
/// initial weights fade quickly.
#[derive(Clone, Debug, PartialEq)]
pub struct WeightAverage {
    /// Decay for each step after the first steps.
    pub decay: f32,
    /// Steps averaged so far.
    pub steps: u64,
    /// The averaged weights and running statistics.
    pub network: Network,
}

impl WeightAverage {
    /// Starts from `network`.
    #[must_use]
    pub fn new(network: Network, decay: f32) -> Self {
        Self { decay, steps: 0, network }
    }

    /// Counts one more step and returns the share of its weights in the new average.
    pub fn next_share(&mut self) -> f32 {
        let age = self.steps as f32;
        self.steps += 1;
        1.0 - self.decay.min((1.0 + age) / (10.0 + age))
    }

    /// Adds the weights after one more step. Tensors that are not in the average are ignored.
    pub fn update(&mut self, network: &Network) {
        let share = self.next_share();
        for (name, average) in &mut self.network.tensors {
            let Some(tensor) = network.tensors.get(name) else { continue };
            for (average, &value) in average.data.iter_mut().zip(&tensor.data) {
                *average += share * (value - *average);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use nets::{Description, HeadKind};

    use super::*;

    #[test]
    fn converges_to_constant_weights() {
        let description = Description::batch_first(&[HeadKind::Value]);
        let mut average = WeightAverage::new(Network::random(description.clone(), 1).unwrap(), 0.9);
        let target = Network::random(description, 2).unwrap();
        for _ in 0..300 {
            average.update(&target);
        }
        for (name, tensor) in &target.tensors {
            let other = &average.network.tensors[name];
            assert!(
                tensor.data.iter().zip(&other.data).all(|(a, b)| (a - b).abs() < 1e-4),
                "{name}"
            );
        }
    }
}
