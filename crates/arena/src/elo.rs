//! What a number of games says about a difference in strength.

use std::fmt;

/// Results from the first engine's side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub wins: u32,
    pub draws: u32,
    pub losses: u32,
}

/// A difference in Elo with its 95 % interval; the ends may be infinite.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EloEstimate {
    pub difference: f64,
    pub low: f64,
    pub high: f64,
}

impl Tally {
    /// Games played.
    #[must_use]
    pub fn games(&self) -> u32 {
        self.wins + self.draws + self.losses
    }

    /// Points of the first engine: 1 a win, a half a draw.
    #[must_use]
    pub fn points(&self) -> f64 {
        f64::from(self.wins) + f64::from(self.draws) / 2.0
    }

    /// Counts a game by the first engine's points: 2 a win, 1 a draw, 0 a loss (half points).
    pub fn add(&mut self, half_points: u8) {
        match half_points {
            0 => self.losses += 1,
            1 => self.draws += 1,
            _ => self.wins += 1,
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "+{} ={} -{}", self.wins, self.draws, self.losses)
    }
}

/// The estimate from the mean score of units that each score between 0 and 1: single games, or pairs of games of one
/// opening with colours changed (whose scores vary less, as the opening's luck cancels). `None` without any.
#[must_use]
pub fn estimate(scores: &[f64]) -> Option<EloEstimate> {
    if scores.is_empty() {
        return None;
    }
    let count = scores.len() as f64;
    let mean = scores.iter().sum::<f64>() / count;
    let variance = scores.iter().map(|score| (score - mean).powi(2)).sum::<f64>() / count;
    // Where all scores are equal the variance says nothing; the rule of three bounds the unseen (95 %).
    let reach = (1.96 * (variance / count).sqrt()).max(if variance == 0.0 { 3.0 / count } else { 0.0 });
    Some(EloEstimate {
        difference: elo(mean),
        low: elo((mean - reach).max(0.0)),
        high: elo((mean + reach).min(1.0)),
    })
}

/// The logistic model: Elo difference at an expected score.
fn elo(score: f64) -> f64 {
    -400.0 * (1.0 / score - 1.0).log10()
}

impl fmt::Display for EloEstimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |value: f64| match value {
            f64::INFINITY => "+inf".to_owned(),
            f64::NEG_INFINITY => "-inf".to_owned(),
            // Adding zero turns -0 into 0.
            value => format!("{:+.0}", value.round() + 0.0),
        };
        write!(f, "{} [{}, {}]", text(self.difference), text(self.low), text(self.high))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_scores() {
        let scores = |wins: usize, losses: usize| -> Vec<f64> {
            std::iter::repeat_n(1.0, wins).chain(std::iter::repeat_n(0.0, losses)).collect()
        };
        let even = estimate(&scores(50, 50)).unwrap();
        assert!(even.difference.abs() < 1e-9);
        assert!((even.high - 68.9).abs() < 1.0 && (even.low + 68.9).abs() < 1.0, "{even:?}");
        let three_quarters = estimate(&scores(75, 25)).unwrap();
        assert!((three_quarters.difference - 190.8).abs() < 0.1);
        assert_eq!(estimate(&scores(10, 0)).unwrap().to_string(), "+inf [+147, +inf]");
        assert_eq!(estimate(&scores(0, 2)).unwrap().to_string(), "-inf [-inf, +inf]");
        assert_eq!(estimate(&[0.5; 4]).unwrap().difference, 0.0);
        assert_eq!(estimate(&[]), None);
    }

    #[test]
    fn pairs_vary_less_than_their_games() {
        let games = [1.0, 0.0].repeat(20);
        let pairs = [0.5; 20];
        let width = |estimate: EloEstimate| estimate.high - estimate.low;
        assert!(width(estimate(&pairs).unwrap()) <= width(estimate(&games).unwrap()));
    }
}
