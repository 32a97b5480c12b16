//! Estimates of a difference in strength from the results of games.
//!
//! The formulas are those of [fastchess](https://github.com/Disservin/fastchess)
//! (`elo_pentanomial.cpp`). The mean score of pairs of games (one opening, colours changed) is
//! mapped to Elo by the logistic curve, and so are the ends of its interval, which comes from the
//! variance of the pairs. Pairs vary less than single games, as the luck of the opening cancels.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Numbers of won, drawn and lost games of a player.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WinDrawLoss {
    pub wins: u32,
    pub draws: u32,
    pub losses: u32,
}

impl WinDrawLoss {
    /// Number of games.
    #[must_use]
    pub fn games(&self) -> u32 {
        self.wins + self.draws + self.losses
    }

    /// Points: 1 for a win, 1/2 for a draw.
    #[must_use]
    pub fn points(&self) -> f64 {
        f64::from(self.wins) + f64::from(self.draws) / 2.0
    }

    /// Counts a game by its half points: 2 for a win, 1 for a draw, 0 for a loss.
    pub fn add(&mut self, half_points: u8) {
        match half_points {
            0 => self.losses += 1,
            1 => self.draws += 1,
            _ => self.wins += 1,
        }
    }
}

impl fmt::Display for WinDrawLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "+{} ={} -{}", self.wins, self.draws, self.losses)
    }
}

/// Numbers of pairs of games by their half points, 0 to 4: two losses; a loss and a draw; two draws
/// or a win and a loss; a win and a draw; two wins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pentanomial(pub [u32; 5]);

impl Pentanomial {
    /// Counts a pair by its half points.
    pub fn add(&mut self, half_points: u8) {
        self.0[usize::from(half_points.min(4))] += 1;
    }

    /// Number of pairs.
    #[must_use]
    pub fn pairs(&self) -> u32 {
        self.0.iter().sum()
    }
}

impl fmt::Display for Pentanomial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [ll, ld, even, wd, ww] = self.0;
        write!(f, "[{ll}, {ld}, {even}, {wd}, {ww}]")
    }
}

/// One statistically independent observation: a pair of games from one opening, or a single game.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Observation {
    pub half_points: u8,
    pub games: u8,
}

impl Observation {
    /// Adds a game.
    pub fn add(&mut self, half_points: u8) {
        self.half_points += half_points;
        self.games += 1;
    }
}

/// An estimated difference in strength. Elo is logistic; the ends of intervals may be infinite.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct EloEstimate {
    /// Mean score of a game, 0 to 1.
    pub score: f64,
    /// Standard error of `score`.
    pub error: f64,
    /// Elo difference.
    pub elo: f64,
    /// 95 % interval of `elo`, from `low` to `high`.
    pub low: f64,
    pub high: f64,
    /// Likelihood of superiority (LOS), 0 to 1.
    pub superiority: f64,
    /// Normalised Elo (the difference in units of the standard deviation of a game) and half the
    /// width of its 95 % interval; `None` if all results are equal.
    pub normalized: Option<(f64, f64)>,
}

/// Half the width of a 95 % interval, in standard errors.
pub(crate) const Z_95: f64 = 1.959_963_984_540_054;

/// With fewer pairs their variance is too uncertain, and games are taken as independent.
const MIN_PAIRS: usize = 10;

impl EloEstimate {
    /// The estimate from observations, or from single games where the observations are few; `None`
    /// without games.
    #[must_use]
    pub fn of(observations: &[Observation], tally: WinDrawLoss) -> Option<Self> {
        if observations.len() >= MIN_PAIRS {
            Self::from_observations(observations)
        } else {
            Self::of_games(tally)
        }
    }

    /// The estimate from single games, taken as independent.
    #[must_use]
    pub fn of_games(tally: WinDrawLoss) -> Option<Self> {
        let counted = [(0, tally.losses), (1, tally.draws), (2, tally.wins)];
        let observations: Vec<Observation> = counted
            .into_iter()
            .flat_map(|(half_points, count)| {
                std::iter::repeat_n(Observation { half_points, games: 1 }, count as usize)
            })
            .collect();
        Self::from_observations(&observations)
    }

    /// The estimate from complete pairs.
    #[must_use]
    pub fn of_pairs(pairs: Pentanomial) -> Option<Self> {
        let observations: Vec<Observation> = (0..)
            .zip(pairs.0)
            .flat_map(|(half_points, count)| {
                std::iter::repeat_n(Observation { half_points, games: 2 }, count as usize)
            })
            .collect();
        Self::from_observations(&observations)
    }

    fn from_observations(observations: &[Observation]) -> Option<Self> {
        let games: f64 = observations.iter().map(|observation| f64::from(observation.games)).sum();
        if games == 0.0 {
            return None;
        }
        let points = |observation: &Observation| f64::from(observation.half_points) / 2.0;
        let score = observations.iter().map(points).sum::<f64>() / games;
        // Deviations of whole observations, as the games of a pair depend on each other.
        let squares: f64 = observations
            .iter()
            .map(|observation| (points(observation) - f64::from(observation.games) * score).powi(2))
            .sum();
        let error = squares.sqrt() / games;
        // If all scores are equal the variance is 0; the rule of three gives the 95 % bound.
        let half_width = if error == 0.0 { 3.0 / observations.len() as f64 } else { Z_95 * error };
        let spread = error * games.sqrt();
        let superiority = if error == 0.0 {
            // All observations are equal: the posterior chance that the true score is on the other
            // side of 1/2, with a uniform prior.
            let tail =
                0.5_f64.powi(observations.len().try_into().unwrap_or(i32::MAX).saturating_add(1));
            if score == 0.5 {
                0.5
            } else if score > 0.5 {
                1.0 - tail
            } else {
                tail
            }
        } else {
            normal_cdf((score - 0.5) / error)
        };
        Some(Self {
            score,
            error,
            elo: elo_of_score(score),
            low: elo_of_score((score - half_width).max(0.0)),
            high: elo_of_score((score + half_width).min(1.0)),
            superiority,
            normalized: (spread > 0.0).then(|| {
                ((score - 0.5) / spread * NORMALIZED_ELO, half_width / spread * NORMALIZED_ELO)
            }),
        })
    }
}

/// Normalised Elo of one standard deviation of a game: 800 / ln 10, so that it equals logistic Elo
/// for small differences without draws.
pub(crate) const NORMALIZED_ELO: f64 = 800.0 / std::f64::consts::LN_10;

/// The logistic curve: the Elo difference at an expected score.
#[must_use]
pub fn elo_of_score(score: f64) -> f64 {
    -400.0 * (1.0 / score - 1.0).log10()
}

/// The expected score at an Elo difference.
#[must_use]
pub fn score_of_elo(elo: f64) -> f64 {
    1.0 / (1.0 + 10.0_f64.powf(-elo / 400.0))
}

fn normal_cdf(z: f64) -> f64 {
    libm::erfc(-z / std::f64::consts::SQRT_2) / 2.0
}

/// An Elo difference as text: signed and rounded.
#[must_use]
pub fn elo_text(value: f64) -> String {
    match value {
        f64::INFINITY => "+inf".to_owned(),
        f64::NEG_INFINITY => "-inf".to_owned(),
        // Adding zero turns -0 into 0.
        value => format!("{:+.0}", value.round() + 0.0),
    }
}

impl fmt::Display for EloEstimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} [{}, {}]", elo_text(self.elo), elo_text(self.low), elo_text(self.high))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(value: f64, expected: f64, tolerance: f64) {
        assert!((value - expected).abs() <= tolerance, "{value} is not {expected}");
    }

    fn tally(wins: u32, draws: u32, losses: u32) -> WinDrawLoss {
        WinDrawLoss { wins, draws, losses }
    }

    /// The expected values of fastchess's own tests (`app/tests/elo_test.cpp`), which gives results
    /// as wins, losses and draws.
    #[test]
    fn estimates_from_games_equal_those_of_fastchess() {
        for (tally, normalized, superiority, score) in [
            (tally(76, 123, 89), (-20.76, 40.13), 0.1553, 0.477),
            (tally(136, 111, 96), (49.77, 36.77), 0.9960, 0.558),
            (tally(34, 0, 356), (-508.44, 34.48), 0.0, 0.087),
        ] {
            let estimate = EloEstimate::of_games(tally).unwrap();
            let (value, reach) = estimate.normalized.unwrap();
            close(value, normalized.0, 0.01);
            close(reach, normalized.1, 0.01);
            close(estimate.superiority, superiority, 0.00005);
            close(estimate.score, score, 0.0006);
        }
        let estimate = EloEstimate::of_games(tally(136, 111, 96)).unwrap();
        close(estimate.elo, 40.70, 0.01);
        close((estimate.high - estimate.low) / 2.0, 30.43, 0.01);
    }

    /// The same for pairs.
    #[test]
    fn estimates_from_pairs_equal_those_of_fastchess() {
        for (pairs, normalized, elo, superiority) in [
            ([34, 54, 31 + 32, 64, 75], (57.94, 28.28), (55.58, 27.65), 1.0),
            ([332, 433, 457 + 41, 333, 334], (-9.17, 10.96), (-8.64, 10.33), 0.0505),
            ([7895, 8757, 5485 + 200, 568, 9999], (-19.01, 2.65), (-21.04, 2.95), 0.0),
        ] {
            let estimate = EloEstimate::of_pairs(Pentanomial(pairs)).unwrap();
            let (value, reach) = estimate.normalized.unwrap();
            close(value, normalized.0, 0.01);
            close(reach, normalized.1, 0.01);
            close(estimate.elo, elo.0, 0.01);
            close((estimate.high - estimate.low) / 2.0, elo.1, 0.01);
            close(estimate.superiority, superiority, 0.00005);
        }
    }

    #[test]
    fn estimates_from_few_and_equal_results() {
        assert_eq!(
            EloEstimate::of_games(tally(10, 0, 0)).unwrap().to_string(),
            "+inf [+147, +inf]"
        );
        assert_eq!(EloEstimate::of_games(tally(0, 0, 2)).unwrap().to_string(), "-inf [-inf, +inf]");
        close(EloEstimate::of_games(tally(1, 0, 0)).unwrap().superiority, 0.75, 1e-12);
        close(EloEstimate::of_games(tally(0, 0, 2)).unwrap().superiority, 0.125, 1e-12);
        let draws = EloEstimate::of_games(tally(0, 4, 0)).unwrap();
        assert_eq!((draws.elo, draws.superiority, draws.normalized), (0.0, 0.5, None));
        assert_eq!(EloEstimate::of(&[], WinDrawLoss::default()), None);
    }

    #[test]
    fn pairs_vary_less_than_their_games() {
        let pairs =
            [Observation { half_points: 2, games: 2 }, Observation { half_points: 3, games: 2 }]
                .repeat(10);
        let estimate = |observations: &[Observation]| {
            EloEstimate::of(observations, tally(20, 10, 10)).unwrap()
        };
        let (paired, single) = (estimate(&pairs), estimate(&[]));
        close(paired.score, single.score, 1e-12);
        assert!(paired.error < single.error);
    }

    #[test]
    fn elo_and_score_are_inverse() {
        for elo in [-700.0, -3.0, 0.0, 55.5, 400.0] {
            close(elo_of_score(score_of_elo(elo)), elo, 1e-9);
        }
        close(score_of_elo(400.0), 10.0 / 11.0, 1e-12);
    }
}
