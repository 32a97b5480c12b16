//! What Leela's values mean in centipawns.
//!
//! One rule for all of its networks: a score is the number of centipawns at which the model of win,
//! draw and loss of [`WdlModel`] has the same expectation, wins minus losses, as the network. So the
//! scores, the chances that are shown beside them, and the margins of the searches are in the unit
//! of our own networks.

use crate::{Calibration, HeadOutput, MonotoneMap, MoveScores, WdlModel};

/// The temperature of a policy in a search, as in Leela Chess Zero; without a search it is 1.
const SEARCH_TEMPERATURE: f32 = 1.359;

impl HeadOutput {
    /// The number that the calibration of values takes, from a value head's outputs: the only output
    /// of a plain head, else wins minus losses, from -1 to 1.
    #[must_use]
    pub fn value_of(self, logits: &[f32]) -> f32 {
        match (self, logits) {
            (Self::Plain, &[logit]) => logit,
            (Self::Expectation, &[logit]) => logit.tanh(),
            (Self::WinDrawLoss, &[win, draw, loss]) => {
                let highest = win.max(draw).max(loss);
                let [win, draw, loss] = [win, draw, loss].map(|logit| (logit - highest).exp());
                (win - loss) / (win + draw + loss)
            }
            _ => 0.0,
        }
    }
}

/// Centipawns at the knots of the map, from 0 up.
fn knots() -> impl Iterator<Item = f32> {
    (0..20).map(|n| n * 10).chain((200..=1000).step_by(20)).map(|n: i32| n as f32)
}

/// The maps of a network of Leela's.
pub(crate) fn calibration() -> Calibration {
    let wdl = WdlModel::default();
    let mut pairs: Vec<(f32, f32)> = knots().map(|score| (wdl.expectation(score), score)).collect();
    let below: Vec<(f32, f32)> = pairs[1..].iter().map(|&(q, score)| (-q, -score)).collect();
    pairs.splice(0..0, below.into_iter().rev());
    let (inputs, outputs) = pairs.into_iter().unzip();
    Calibration {
        value: MonotoneMap { inputs, outputs, limit: 1100.0 },
        moves: MonotoneMap {
            inputs: vec![-SEARCH_TEMPERATURE, SEARCH_TEMPERATURE],
            ..MonotoneMap::default()
        },
        move_scores: MoveScores::Policy,
        wdl,
        bins: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_score_has_the_expectation_of_the_value() {
        let calibration = calibration();
        assert!(calibration.is_valid());
        for step in -99..=99 {
            let expectation = step as f32 / 100.0;
            let score = calibration.value.apply(expectation);
            assert!(
                (calibration.wdl.expectation(score) - expectation).abs() < 3e-3,
                "{expectation}"
            );
            let shown = calibration.wdl.at(score);
            let seen = (f32::from(shown.win) - f32::from(shown.loss)) / 1000.0;
            assert!((seen - expectation).abs() < 5e-3, "{expectation}: {seen}");
        }
        assert_eq!(calibration.value.apply(0.0), 0.0);
        assert!((1000.0..=1100.0).contains(&calibration.value.apply(1.0)));
    }

    #[test]
    fn values_have_three_forms() {
        let drawn = HeadOutput::WinDrawLoss.value_of(&[1.0, 90.0, 1.0]);
        assert_eq!(drawn, 0.0);
        assert_eq!(HeadOutput::Plain.value_of(&[7.5]), 7.5);
        let won = HeadOutput::WinDrawLoss.value_of(&[2.0_f32.ln(), 0.0, 0.0]);
        assert!((won - 0.25).abs() < 1e-6, "{won}");
        assert!((HeadOutput::Expectation.value_of(&[0.5]) - 0.5_f32.tanh()).abs() < 1e-7);
    }
}
