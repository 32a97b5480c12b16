//! Converts a network's raw outputs to centipawns, move scores and win/draw/loss chances.
//!
//! The outputs of a network trained by ranking have no zero and no scale. Its file therefore holds
//! a monotone map from logit to centipawns for each head, fitted on held-out positions, and a
//! two-parameter model from centipawns to win, draw and loss.

use serde::{Deserialize, Serialize};

/// A strictly increasing piecewise linear function; beyond its knots the end segments continue, up
/// to `±limit`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MonotoneMap {
    /// Knot positions, strictly increasing, at least two.
    pub inputs: Vec<f32>,
    /// Values at the knots, strictly increasing.
    pub outputs: Vec<f32>,
    /// Bound on the absolute value of the result.
    pub limit: f32,
}

impl Default for MonotoneMap {
    /// The identity, limited to ±10 000.
    fn default() -> Self {
        Self { inputs: vec![-1.0, 1.0], outputs: vec![-1.0, 1.0], limit: 10_000.0 }
    }
}

impl MonotoneMap {
    /// True when the map is usable: at least two knots, as many outputs as inputs, both finite and
    /// strictly increasing, and a positive limit.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        let rising = |values: &[f32]| values.windows(2).all(|pair| pair[0] < pair[1]);
        self.inputs.len() >= 2
            && self.inputs.len() == self.outputs.len()
            && self.inputs.iter().chain(&self.outputs).all(|value| value.is_finite())
            && rising(&self.inputs)
            && rising(&self.outputs)
            && [&self.inputs, &self.outputs]
                .into_iter()
                .all(|values| (values[values.len() - 1] - values[0]).is_finite())
            && self.limit > 0.0
            && self.limit.is_finite()
    }

    /// The value at `input`; NaN maps to 0.
    #[must_use]
    pub fn apply(&self, input: f32) -> f32 {
        if input.is_nan() {
            return 0.0;
        }
        let last = self.inputs.len() - 1;
        let right = self.inputs.partition_point(|&knot| knot <= input).clamp(1, last);
        let (x0, x1) = (self.inputs[right - 1], self.inputs[right]);
        let (y0, y1) = (self.outputs[right - 1], self.outputs[right]);
        let value = y0 + (input - x0) * (y1 - y0) / (x1 - x0);
        // Rounding must not exceed the next knot's value, or the map would fall there.
        let value = if right < last { value.min(y1) } else { value };
        value.clamp(-self.limit, self.limit)
    }

    /// Applies the map to all inputs in place; a map of one segment, such as a policy's, has a fast
    /// path.
    pub fn apply_all(&self, inputs: &mut [f32]) {
        let (&[x0, x1], &[y0, y1]) = (self.inputs.as_slice(), self.outputs.as_slice()) else {
            inputs.iter_mut().for_each(|input| *input = self.apply(*input));
            return;
        };
        for input in inputs {
            let value = (y0 + (*input - x0) * (y1 - y0) / (x1 - x0)).clamp(-self.limit, self.limit);
            *input = if input.is_nan() { 0.0 } else { value };
        }
    }
}

/// Chances for the side to move, in per mille, summing to 1000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wdl {
    pub win: u16,
    pub draw: u16,
    pub loss: u16,
}

/// The win chance is `1 / (1 + exp((offset - centipawns) / scale))`; the loss chance is the win
/// chance at the negated score.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct WdlModel {
    /// Centipawns at which the mover wins half of the games.
    pub offset: f32,
    /// Centipawns per unit of log odds.
    pub scale: f32,
}

impl Default for WdlModel {
    fn default() -> Self {
        Self { offset: 150.0, scale: 80.0 }
    }
}

impl WdlModel {
    /// Wins minus losses, from -1 to 1, at a score in centipawns.
    #[must_use]
    pub fn expectation(&self, centipawns: f32) -> f32 {
        self.win(centipawns) - self.win(-centipawns)
    }

    fn win(&self, centipawns: f32) -> f32 {
        1.0 / (1.0 + ((self.offset - centipawns) / self.scale).exp())
    }

    /// Chances at a score in centipawns; both are for the side to move.
    #[must_use]
    pub fn at(&self, centipawns: f32) -> Wdl {
        let chance = |score: f32| 1000.0 * self.win(score);
        let win = chance(centipawns).round().clamp(0.0, 1000.0) as u16;
        let loss = (chance(-centipawns).round() as u16).min(1000 - win);
        Wdl { win, draw: 1000 - win - loss, loss }
    }
}

/// The meaning of the calibrated scores of a move head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MoveScores {
    /// Centipawns for the mover after the move; comparable between positions and with the value
    /// head.
    #[default]
    Centipawns,
    /// Natural logarithms of move probabilities, up to a constant for each position: a softmax over
    /// the legal moves gives the probability that a strong player plays each move.
    Policy,
}

impl MoveScores {
    fn are_centipawns(&self) -> bool {
        *self == Self::Centipawns
    }
}

/// The maps from raw outputs to scores. The mean logit of positions labelled 0.00 maps to 0.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// Value logit to centipawns for the side to move.
    pub value: MonotoneMap,
    /// Move logit to a score in the unit of `move_scores`.
    pub moves: MonotoneMap,
    #[serde(default, skip_serializing_if = "MoveScores::are_centipawns")]
    pub move_scores: MoveScores,
    /// Centipawns to win, draw and loss.
    pub wdl: WdlModel,
    /// Upper boundaries of the priority bins: percentiles of |move score − mean of the position's
    /// move scores|, in the unit of the move scores, ascending.
    pub bins: Vec<f32>,
}

impl Calibration {
    /// True when both maps and the bin boundaries are usable.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.value.is_valid()
            && self.moves.is_valid()
            && self.wdl.scale > 0.0
            && self.wdl.scale.is_finite()
            && self.wdl.offset.is_finite()
            && self.bins.iter().all(|bin| bin.is_finite())
            && self.bins.windows(2).all(|pair| pair[0] <= pair[1])
    }
}
