//! The contract of a training backend: gradient steps on the networks that `nets` describes.

use std::{borrow::Cow, collections::BTreeMap, ops::Range};

use board::Color;
use nets::{Encoding, HeadKind, Network, POLICY_SIZE, PolicyIndex, Squares, Tensor, mirror_index};
use serde::{Deserialize, Serialize};

use crate::WeightAverage;

/// One batch for one or several heads. Fields that no trained head needs stay empty.
#[derive(Clone, Debug, Default)]
pub struct Examples {
    /// The boards from the mover's side, for every encoding; labels and outputs are from the
    /// mover's side too.
    pub squares: Vec<Squares>,
    /// The mover of each position, for an encoding that depends on it. Empty: White.
    pub turns: Vec<Color>,
    /// For a value head: values for the side to move, ordered as `data::Record::value`.
    pub values: Vec<i32>,
    /// For a move head: the moves of all positions in sequence, the same number for each unless
    /// `ends` is given.
    pub moves: Vec<PolicyIndex>,
    /// For the ordinal loss of a move head: the value for the mover after each of `moves`.
    pub move_values: Vec<i32>,
    /// For a selector head, which is trained alone: the target square of each position.
    pub targets: Vec<u8>,
    /// For cross entropy: the end of each position's moves in `moves`. They are its legal moves,
    /// the played one first.
    pub ends: Vec<usize>,
    /// For cross entropy: the weight of each position.
    pub weights: Vec<f32>,
}

impl Examples {
    /// The labels of a head's outputs: values of positions or of moves.
    #[must_use]
    pub fn labels(&self, head: HeadKind) -> &[i32] {
        match head {
            HeadKind::Value => &self.values,
            _ => &self.move_values,
        }
    }

    /// The mover of a position.
    #[must_use]
    pub fn turn(&self, position: usize) -> Color {
        self.turns.get(position).copied().unwrap_or(Color::White)
    }

    /// The examples of a range of positions.
    #[must_use]
    pub fn part(&self, range: Range<usize>) -> Self {
        fn of<T: Clone>(list: &[T], range: &Range<usize>) -> Vec<T> {
            list.get(range.clone()).unwrap_or_default().to_vec()
        }
        let moves = self.moves_before(range.start)..self.moves_before(range.end);
        Self {
            squares: of(&self.squares, &range),
            turns: of(&self.turns, &range),
            values: of(&self.values, &range),
            targets: of(&self.targets, &range),
            weights: of(&self.weights, &range),
            ends: of(&self.ends, &range).into_iter().map(|end| end - moves.start).collect(),
            move_values: of(&self.move_values, &moves),
            moves: of(&self.moves, &moves),
        }
    }

    /// The same boards with their moves as a network with this encoding sees them: mirrored where it
    /// sees the mirror image of the board.
    pub(crate) fn seen_by(&self, encoding: Encoding) -> Cow<'_, Self> {
        if self.moves.is_empty() || !self.squares.iter().any(|squares| encoding.mirrors(squares)) {
            return Cow::Borrowed(self);
        }
        let mut seen = self.clone();
        for (position, squares) in self.squares.iter().enumerate() {
            if encoding.mirrors(squares) {
                // A backend refuses an index that is none.
                let moves = self.moves_of(position);
                for index in seen.moves.get_mut(moves).into_iter().flatten() {
                    if usize::from(*index) < POLICY_SIZE {
                        *index = mirror_index(*index);
                    }
                }
            }
        }
        Cow::Owned(seen)
    }

    /// The places in `moves` of a position's moves.
    fn moves_of(&self, position: usize) -> Range<usize> {
        self.moves_before(position)..self.moves_before(position + 1)
    }

    /// Number of moves of the positions before this one.
    fn moves_before(&self, position: usize) -> usize {
        match self.ends.as_slice() {
            [] => position * self.moves_each(),
            // A backend refuses lists that do not fit.
            ends => position
                .checked_sub(1)
                .map_or(0, |before| ends.get(before).copied().unwrap_or(self.moves.len())),
        }
    }

    /// Number of moves of each position when `ends` is empty.
    #[must_use]
    pub fn moves_each(&self) -> usize {
        self.moves.len() / self.squares.len().max(1)
    }
}

/// The loss of a head.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Loss {
    /// Pairwise ranking: the order of all pairs of labels in the batch, plus the order of the moves
    /// of each position.
    Ordinal,
    /// Squared distance of `tanh(output)` and `tanh(label / scale)`; for a value head.
    Tanh {
        /// Scale of the labels, in centipawns.
        scale: f32,
    },
    /// For a move head: the played move among the legal moves. For a selector head: the target
    /// square among all 64.
    CrossEntropy,
}

/// A head to train, its loss, and the weight of that loss in the sum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Objective {
    pub head: HeadKind,
    pub loss: Loss,
    pub weight: f32,
}

impl From<HeadKind> for Objective {
    /// The ordinal loss.
    fn from(head: HeadKind) -> Self {
        Self { head, loss: Loss::Ordinal, weight: 1.0 }
    }
}

impl Objective {
    /// Checks that the head can be trained with this loss and weight.
    ///
    /// # Errors
    /// A sentence that names head and loss.
    pub fn check(&self) -> Result<(), String> {
        match (self.head, self.loss) {
            (head, Loss::Ordinal | Loss::Tanh { .. }) if head.is_selector() => {
                Err(format!("the {} head is trained with cross entropy", head.name()))
            }
            (HeadKind::Value, Loss::CrossEntropy) => {
                Err("cross entropy is a loss for a move head or a selector; a value head takes `ordinal` or `tanh`"
                    .to_owned())
            }
            (HeadKind::Moves, Loss::Tanh { .. }) => {
                Err("tanh is a loss for a value head; a move head takes `ordinal` or `cross-entropy`"
                    .to_owned())
            }
            (_, Loss::Tanh { scale }) if !(scale > 0.0 && scale.is_finite()) => {
                Err(format!("the scale of the tanh loss is {scale}; it must be above 0"))
            }
            _ if !(self.weight > 0.0 && self.weight.is_finite()) => Err(format!(
                "the weight of the {} loss is {}; it must be above 0",
                self.head.name(),
                self.weight
            )),
            _ => Ok(()),
        }
    }
}

/// The update rule of the optimizer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OptimizerKind {
    /// Kingma and Ba, 2014, with bias correction.
    #[default]
    Adam,
    /// Hinton, 2012: the gradient divided by the root of its mean square. `beta1` is not used.
    Rmsprop,
}

/// The settings of the optimizer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OptimizerSettings {
    pub kind: OptimizerKind,
    /// Decay of the running mean of the gradient.
    pub beta1: f32,
    /// Decay of the running mean of the squared gradient.
    pub beta2: f32,
    /// Added to the root of the mean square.
    pub epsilon: f32,
    /// Decoupled weight decay; applies to weights, not to biases and batch norm.
    pub weight_decay: f32,
    /// Half the sum of squared weights, times this, is added to the loss. Unlike `weight_decay` it
    /// passes through the update rule.
    pub l2: f32,
    /// Bound on the norm of the whole gradient; 0: none.
    pub clip: f32,
    /// Decay of the running mean and variance of batch norms; smaller in the first steps
    /// ([`Self::norm_keep`]).
    pub norm_momentum: f32,
    /// Dropout rate of the outputs of dense layers, except a head's last layer (Srivastava et al.,
    /// 2014, inverted: the kept outputs are scaled up).
    pub dropout: f32,
    /// Seed of dropout; a run sets its own seed.
    #[serde(skip)]
    pub dropout_seed: u64,
}

/// The decay and bias correction of the moments at one step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MomentFactors {
    /// Decay of the mean gradient.
    pub beta1: f32,
    /// Bias corrections: divisors of the mean gradient and of the mean square, which both start at
    /// 0.
    pub correct1: f32,
    pub correct2: f32,
}

impl OptimizerSettings {
    /// The part of the running statistics that step number `step`, from 1, keeps: they are the mean
    /// over all steps until `norm_momentum` forgets the first ones, so they hold after a few steps
    /// too.
    pub(crate) fn norm_keep(&self, step: u64) -> f32 {
        self.norm_momentum.min((step - 1) as f32 / step as f32)
    }

    /// The factors of step number `step`, from 1.
    pub(crate) fn moments(&self, step: u64) -> MomentFactors {
        if self.kind == OptimizerKind::Rmsprop {
            // The gradient without a running mean, and no bias correction.
            return MomentFactors { beta1: 0.0, correct1: 1.0, correct2: 1.0 };
        }
        let exponent = i32::try_from(step).unwrap_or(i32::MAX);
        let correct = |beta: f32| (1.0 - f64::from(beta).powi(exponent)) as f32;
        MomentFactors {
            beta1: self.beta1,
            correct1: correct(self.beta1),
            correct2: correct(self.beta2),
        }
    }
}

impl Default for OptimizerSettings {
    fn default() -> Self {
        Self {
            kind: OptimizerKind::Adam,
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-8,
            weight_decay: 0.0,
            l2: 0.0,
            clip: 0.0,
            norm_momentum: 0.99,
            dropout: 0.0,
            dropout_seed: 0,
        }
    }
}

/// Checks that these heads can be trained on the same batch.
///
/// # Errors
/// An objective is impossible, or a selector is not alone: each selector needs its own positions.
pub(crate) fn check_together(objectives: &[Objective]) -> Result<(), String> {
    for objective in objectives {
        objective.check()?;
    }
    match objectives.iter().find(|objective| objective.head.is_selector()) {
        Some(selector) if objectives.len() > 1 => Err(format!(
            "the {} head learns by itself, from the moves of its piece",
            selector.head.name()
        )),
        _ => Ok(()),
    }
}

/// The result of one step.
#[derive(Clone, Debug, Default)]
pub struct StepResult {
    /// The weighted sum of the heads' losses, before the step.
    pub loss: f32,
    /// Each head's loss, before its weight.
    pub losses: Vec<f32>,
    /// Each head's requested outputs (with batch statistics), before the step.
    pub logits: Vec<Vec<f32>>,
}

/// The optimizer's moments by tensor name (`first.{name}`, `second.{name}`) and the number of steps
/// taken.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OptimizerState {
    pub steps: u64,
    pub tensors: BTreeMap<String, Tensor>,
}

/// An error that ends training; its text is one sentence.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    #[error("{0}")]
    Config(String),
    #[error("cannot use `{path}`: {source}")]
    Io { path: std::path::PathBuf, source: std::io::Error },
    #[error(transparent)]
    Net(#[from] nets::NetError),
    #[error("interrupted after {runs} of {of} runs; add --resume to go on")]
    Interrupted { runs: usize, of: usize },
    #[error("training diverged at step {step}: {what}")]
    Diverged { step: u64, what: String },
    #[error("{0}")]
    Backend(String),
}

impl TrainError {
    /// The refusal of a layer that neither backend trains.
    pub(crate) fn untrained(layer: &str) -> Self {
        Self::Config(format!("layer {layer} belongs to attention, which is not trained yet"))
    }
}

/// Forward pass, backward pass and update of one or several heads of a network.
pub trait Backend {
    /// One step of the optimizer at this learning rate.
    ///
    /// # Errors
    /// The device failed.
    fn step(&mut self, batch: &Examples, learning_rate: f32) -> Result<StepResult, TrainError>;

    /// The outputs of `head` that the batch requests, with running statistics as in play.
    ///
    /// # Errors
    /// The device failed, or this backend does not train the head.
    fn logits(&mut self, head: HeadKind, batch: &Examples) -> Result<Vec<f32>, TrainError>;

    /// The current weights and running statistics.
    ///
    /// # Errors
    /// The device failed.
    fn network(&self) -> Result<Network, TrainError>;

    /// Updates `average` with the current weights. A device may keep the updated average until
    /// [`Backend::fetch_average`].
    ///
    /// # Errors
    /// The device failed.
    fn mix_into(&mut self, average: &mut WeightAverage) -> Result<(), TrainError> {
        average.update(&self.network()?);
        Ok(())
    }

    /// Copies the average that [`Backend::mix_into`] keeps on the device into `average`.
    ///
    /// # Errors
    /// The device failed.
    fn fetch_average(&self, _average: &mut WeightAverage) -> Result<(), TrainError> {
        Ok(())
    }

    /// The state of the optimizer, for exact resumption.
    ///
    /// # Errors
    /// The device failed.
    fn optimizer(&self) -> Result<OptimizerState, TrainError>;

    /// Restores a saved state.
    ///
    /// # Errors
    /// Names or shapes do not match.
    fn restore(&mut self, network: &Network, optimizer: &OptimizerState) -> Result<(), TrainError>;

    /// A description in one line.
    fn describe(&self) -> String;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_moves_of_mirror_images_are_mirrored() {
        let mut squares = vec![Squares::default(); 3];
        squares[1].0[2] = 7; // The mover's king.
        let none = PolicyIndex::MAX;
        let examples = Examples {
            squares: squares.clone(),
            moves: vec![10, 20, none, 30],
            ends: vec![1, 3, 4],
            ..Examples::default()
        };
        assert!(matches!(examples.seen_by(Encoding::Attacks21), Cow::Borrowed(_)));
        let seen = examples.seen_by(Encoding::KingRight21);
        assert_eq!(seen.moves, [10, mirror_index(20), none, 30]);
        assert_eq!(seen.squares, squares);
        // Too few ends are left to the backends.
        let short = Examples { ends: vec![1], ..examples.clone() };
        assert_eq!(short.seen_by(Encoding::KingRight21).ends, [1]);
        let even = Examples { moves: vec![10, 20, 30], ends: Vec::new(), ..examples };
        assert_eq!(even.seen_by(Encoding::KingRight21).moves, [10, mirror_index(20), 30]);
    }

    #[test]
    fn parts_hold_the_moves_of_their_positions() {
        let squares = vec![Squares::default(); 3];
        let ragged = Examples {
            squares: squares.clone(),
            moves: vec![10, 11, 20, 30, 31, 32],
            ends: vec![2, 3, 6],
            weights: vec![0.5, 1.0, 2.0],
            ..Examples::default()
        };
        let (first, rest) = (ragged.part(0..1), ragged.part(1..3));
        assert_eq!((first.moves, first.ends, first.weights), (vec![10, 11], vec![2], vec![0.5]));
        assert_eq!(
            (rest.moves, rest.ends, rest.weights),
            (vec![20, 30, 31, 32], vec![1, 4], vec![1.0, 2.0])
        );
        let even = Examples {
            squares,
            values: vec![1, 2, 3],
            moves: vec![10, 11, 20, 21, 30, 31],
            move_values: vec![1, 2, 3, 4, 5, 6],
            ..Examples::default()
        };
        let middle = even.part(1..2);
        assert_eq!(
            (middle.values, middle.moves, middle.move_values),
            (vec![2], vec![20, 21], vec![3, 4])
        );
        assert!(middle.turns.is_empty() && middle.ends.is_empty());
    }
}
