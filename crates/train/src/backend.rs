//! What a training backend does: one gradient step at a time on the networks that `nets` describes.

use std::collections::BTreeMap;

use nets::{Network, PolicyIndex, Squares, Tensor};
use serde::{Deserialize, Serialize};

/// One batch for one head.
#[derive(Clone, Debug, Default)]
pub struct Examples {
    pub squares: Vec<Squares>,
    /// Values for the side to move, ordered as `data::Record::value`; for a move head the value after `moves[i]`.
    pub labels: Vec<i32>,
    /// For a move head: equally many moves of each position, position after position. Empty for a value head.
    pub moves: Vec<PolicyIndex>,
}

impl Examples {
    /// Outputs asked for at each position: 1 for a value head.
    #[must_use]
    pub fn outputs_each(&self) -> usize {
        (self.moves.len() / self.squares.len().max(1)).max(1)
    }
}

/// How weights move.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OptimizerSettings {
    pub beta1: f32,
    pub beta2: f32,
    pub epsilon: f32,
    /// Decoupled; convolution weights only.
    pub weight_decay: f32,
    /// Bound on the norm of the whole gradient; 0: none.
    pub clip: f32,
    /// How much of the old running mean and variance a step keeps.
    pub norm_momentum: f32,
}

impl Default for OptimizerSettings {
    fn default() -> Self {
        Self { beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weight_decay: 0.0, clip: 0.0, norm_momentum: 0.99 }
    }
}

/// What one step says of itself.
#[derive(Clone, Debug, Default)]
pub struct Step {
    /// Mean loss over the batch's pairs, before the step.
    pub loss: f32,
    /// The head's output for each label (with batch statistics), before the step.
    pub logits: Vec<f32>,
}

/// Adam's moments by tensor name (`first.{name}`, `second.{name}`) and the number of steps taken.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OptimizerState {
    pub steps: u64,
    pub tensors: BTreeMap<String, Tensor>,
}

/// Training that cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    #[error("{0}")]
    Config(String),
    #[error("cannot use `{path}`: {source}")]
    Io { path: std::path::PathBuf, source: std::io::Error },
    #[error(transparent)]
    Net(#[from] nets::NetError),
    #[error("training diverged at step {step}: the loss is {loss}")]
    Diverged { step: u64, loss: f32 },
    #[error("{0}")]
    Backend(String),
}

/// Forward, backward and update of one head of one network, with the pairwise ordinal loss.
pub trait Backend {
    /// One Adam step at this learning rate.
    ///
    /// # Errors
    /// The device failed.
    fn step(&mut self, batch: &Examples, learning_rate: f32) -> Result<Step, TrainError>;

    /// The head's output for each example, with running statistics (as in play).
    ///
    /// # Errors
    /// The device failed.
    fn logits(&mut self, batch: &Examples) -> Result<Vec<f32>, TrainError>;

    /// The weights and running statistics now.
    ///
    /// # Errors
    /// The device failed.
    fn network(&self) -> Result<Network, TrainError>;

    /// What the optimizer remembers, for exact resumption.
    ///
    /// # Errors
    /// The device failed.
    fn optimizer(&self) -> Result<OptimizerState, TrainError>;

    /// Takes up a saved state.
    ///
    /// # Errors
    /// Names or shapes do not fit.
    fn restore(&mut self, network: &Network, optimizer: &OptimizerState) -> Result<(), TrainError>;

    /// One line for people.
    fn describe(&self) -> String;
}
