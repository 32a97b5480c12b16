//! The sequential probability ratio test (SPRT). After every pair of games it accepts the
//! hypothesis that the first player is stronger by `elo1`, or that it is stronger by `elo0`, or
//! continues.
//!
//! It uses the generalised log-likelihood ratio over the pentanomial distribution of pairs, as
//! fishtest and fastchess do: Michel Van den Bergh, [*Comparing the approximations for the
//! generalized log likelihood ratio of a multinomial
//! distribution*](https://www.cantate.be/Fishtest/comparing_approximations.pdf) and [*Comments on
//! normalized Elo*](https://www.cantate.be/Fishtest/normalized_elo_practical.pdf).

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{
    Pentanomial, Results,
    estimate::{NORMALIZED_ELO, score_of_elo},
};

/// The unit of the two hypotheses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EloModel {
    /// Elo on the logistic curve.
    Logistic,
    /// Elo in units of the standard deviation of a game, so that the length of a test hardly
    /// depends on the share of draws.
    Normalized,
}

/// A test: `elo0` against `elo1 > elo0`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sprt {
    pub elo0: f64,
    pub elo1: f64,
    /// Chance to accept H1 if H0 is true.
    pub alpha: f64,
    /// Chance to accept H0 if H1 is true.
    pub beta: f64,
    #[serde(rename = "scale")]
    pub model: EloModel,
}

/// The state of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The test continues.
    Open,
    /// H0 is accepted: the difference is `elo0` or less.
    H0,
    /// H1 is accepted: the difference is `elo1` or more.
    H1,
}

/// A test with invalid parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SprtError {
    #[error("the test needs two finite Elo differences, the first one smaller")]
    Hypotheses,
    #[error(
        "a normalised test needs hypotheses between -{MOST_NORMALISED} and {MOST_NORMALISED} Elo"
    )]
    Normalised,
    #[error("the error rates of the test must be above 0 and together below 1")]
    Rates,
}

/// Largest normalised Elo for which the iteration for the likeliest distribution has a solution.
const MOST_NORMALISED: f64 = 200.0;

/// The score of a pair by its half points.
const SCORES: [f64; 5] = [0.0, 0.25, 0.5, 0.75, 1.0];

/// Counts of zero are replaced by this, so that the likelihood of every result is positive.
const ZERO_COUNT: f64 = 1e-3;

impl Sprt {
    /// Checks the parameters.
    ///
    /// # Errors
    /// The hypotheses are not in order, or the error rates are not probabilities.
    pub fn checked(self) -> Result<Self, SprtError> {
        if !(self.elo0 < self.elo1 && self.elo0.is_finite() && self.elo1.is_finite()) {
            return Err(SprtError::Hypotheses);
        }
        let most = self.elo0.abs().max(self.elo1.abs());
        if self.model == EloModel::Normalized && most > MOST_NORMALISED {
            return Err(SprtError::Normalised);
        }
        let is_rate = |rate: f64| rate > 0.0 && rate < 1.0;
        if !(is_rate(self.alpha) && is_rate(self.beta) && self.alpha + self.beta < 1.0) {
            return Err(SprtError::Rates);
        }
        Ok(self)
    }

    /// The log-likelihood ratios at which H0 and H1 are accepted (Wald's bounds).
    #[must_use]
    pub fn bounds(&self) -> (f64, f64) {
        ((self.beta / (1.0 - self.alpha)).ln(), ((1.0 - self.beta) / self.alpha).ln())
    }

    /// The log-likelihood ratio of H1 to H0; 0 without pairs.
    #[must_use]
    pub fn ratio(&self, pairs: Pentanomial) -> f64 {
        if pairs.pairs() == 0 {
            return 0.0;
        }
        let counts = pairs.0.map(|count| if count == 0 { ZERO_COUNT } else { f64::from(count) });
        let total: f64 = counts.iter().sum();
        let seen = counts.map(|count| count / total);
        let (under_h0, under_h1) = match self.model {
            EloModel::Logistic => {
                let likeliest = |elo| {
                    let mean = score_of_elo(elo);
                    likeliest_with_zero_mean(&seen, &SCORES.map(|score| score - mean))
                };
                (likeliest(self.elo0), likeliest(self.elo1))
            }
            EloModel::Normalized => {
                // In standard deviations, the distance of the mean of a pair is that of a game
                // times the square root of two.
                let likeliest =
                    |elo| likeliest_at_distance(&seen, elo / NORMALIZED_ELO * 2.0_f64.sqrt());
                (likeliest(self.elo0), likeliest(self.elo1))
            }
        };
        let terms = seen.iter().zip(under_h1.iter().zip(under_h0));
        total * terms.map(|(seen, (h1, h0))| seen * (h1 / h0).ln()).sum::<f64>()
    }

    /// The state of the test after these pairs.
    #[must_use]
    pub fn verdict(&self, pairs: Pentanomial) -> Verdict {
        let (lower, upper) = self.bounds();
        let ratio = self.ratio(pairs);
        if ratio >= upper {
            Verdict::H1
        } else if ratio <= lower {
            Verdict::H0
        } else {
            Verdict::Open
        }
    }
}

/// A running test. Games end in any order, but pairs are counted in the order of their numbers, so
/// that the decision depends neither on the length of games nor on the number of games at once.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SprtRun {
    pub sprt: Sprt,
    /// The counted pairs, up to the decision.
    pub pairs: Pentanomial,
    pub ratio: f64,
    pub verdict: Verdict,
}

impl SprtRun {
    /// A test before its first pair.
    #[must_use]
    pub fn new(sprt: Sprt) -> Self {
        Self { sprt, pairs: Pentanomial::default(), ratio: 0.0, verdict: Verdict::Open }
    }

    /// Counts the newly finished pairs of two players and returns the state of the test.
    pub fn advance(&mut self, results: &Results) -> Verdict {
        while self.verdict == Verdict::Open {
            let Some(half_points) = results.pair(self.pairs.pairs() as usize) else { break };
            self.pairs.add(half_points);
            self.ratio = self.sprt.ratio(self.pairs);
            self.verdict = self.sprt.verdict(self.pairs);
        }
        self.verdict
    }
}

impl fmt::Display for SprtRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Sprt { elo0, elo1, model, .. } = self.sprt;
        let elo = match model {
            EloModel::Logistic => "Elo",
            EloModel::Normalized => "normalised Elo",
        };
        let (lower, upper) = self.sprt.bounds();
        let verdict = match self.verdict {
            Verdict::Open => "not decided".to_owned(),
            Verdict::H0 => format!("H0 accepted: not {elo1} better"),
            Verdict::H1 => format!("H1 accepted: better by more than {elo0}"),
        };
        write!(
            f,
            "SPRT {elo0} against {elo1} {elo}: LLR {:.2} of ({lower:.2}, {upper:.2}) after {} pairs: {verdict}",
            self.ratio,
            self.pairs.pairs()
        )
    }
}

/// The distribution of largest likelihood for the observed shares `seen` under which the mean of
/// `values` is zero: `seen / (1 + theta * value)`. `theta` is the root of a function that falls
/// from +inf to -inf.
fn likeliest_with_zero_mean(seen: &[f64; 5], values: &[f64; 5]) -> [f64; 5] {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let (mut low, mut high) = (-1.0 / most, -1.0 / least);
    let mean = |theta: f64| -> f64 {
        seen.iter().zip(values).map(|(seen, value)| seen * value / (1.0 + theta * value)).sum()
    };
    // Bisection to the last bit.
    for _ in 0..200 {
        let middle = (low + high) / 2.0;
        if middle <= low || middle >= high {
            break;
        }
        if mean(middle) > 0.0 {
            low = middle;
        } else {
            high = middle;
        }
    }
    let theta = (low + high) / 2.0;
    let mut likeliest = [0.0; 5];
    for ((likeliest, seen), value) in likeliest.iter_mut().zip(seen).zip(values) {
        *likeliest = seen / (1.0 + theta * value);
    }
    likeliest
}

/// The distribution of largest likelihood whose mean is `distance` of its own standard deviations
/// above one half, found by iteration.
fn likeliest_at_distance(seen: &[f64; 5], distance: f64) -> [f64; 5] {
    let mut current = [0.2; 5];
    for _ in 0..10 {
        let mean: f64 = SCORES.iter().zip(current).map(|(score, share)| score * share).sum();
        let variance: f64 =
            SCORES.iter().zip(current).map(|(score, share)| share * (score - mean).powi(2)).sum();
        let deviation = variance.sqrt();
        let values = SCORES.map(|score| {
            let away = (mean - score) / deviation;
            score - 0.5 - distance * deviation * (1.0 + away * away) / 2.0
        });
        let next = likeliest_with_zero_mean(seen, &values);
        let moved =
            current.iter().zip(next).map(|(old, new)| (old - new).abs()).fold(0.0, f64::max);
        current = next;
        if moved < 1e-9 {
            break;
        }
    }
    current
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    fn test(elo0: f64, elo1: f64, model: EloModel) -> Sprt {
        Sprt { elo0, elo1, alpha: 0.05, beta: 0.05, model }.checked().unwrap()
    }

    /// The expected values of fastchess's own tests (`app/tests/sprt_test.cpp`), to their relative
    /// precision of 1 %.
    #[test]
    fn ratios_equal_those_of_fastchess() {
        for (pairs, elo0, elo1, model, expected) in [
            ([365, 16618, 36029 + 200, 16974, 390], 0.0, 2.0, EloModel::Normalized, 2.25),
            ([127, 4883, 10311 + 401, 5150, 104], -1.75, 0.25, EloModel::Normalized, 3.01),
            ([0, 0, 0, 0, 5550], 0.0, 5.0, EloModel::Normalized, 111.82),
            ([223, 9863, 20279 + 1000, 10037, 246], 0.5, 2.5, EloModel::Logistic, -3.07),
            ([871, 26175, 55003 + 980, 26678, 821], 0.0, 2.0, EloModel::Logistic, -4.98),
        ] {
            let found = test(elo0, elo1, model).ratio(Pentanomial(pairs));
            let tolerance = 0.01 * (1.0 + f64::abs(expected));
            assert!(
                (found - expected).abs() < tolerance,
                "{pairs:?}: {found} instead of {expected}"
            );
        }
    }

    /// Draws the half points of a pair from a distribution.
    fn draw(shares: &[f64; 5], random: &mut ChaCha8Rng) -> u8 {
        let mut left: f64 = random.random();
        for (half_points, share) in (0..5).zip(shares) {
            if left < *share {
                return half_points;
            }
            left -= share;
        }
        4
    }

    /// A distribution of pairs with many draws and a mean of exactly `score`.
    fn shares(score: f64) -> [f64; 5] {
        let even = [0.03, 0.2, 0.54, 0.2, 0.03];
        let spread: f64 =
            even.iter().zip(SCORES).map(|(share, at)| share * (at - 0.5).powi(2)).sum();
        let tilt = (score - 0.5) / spread;
        let mut tilted = even;
        for (share, at) in tilted.iter_mut().zip(SCORES) {
            *share *= 1.0 + tilt * (at - 0.5);
        }
        tilted
    }

    /// How many of 2,000 simulated tests accept H1.
    fn accepted(sprt: Sprt, shares: &[f64; 5], seed: u64) -> u32 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        (0..2_000)
            .map(|_| {
                let mut pairs = Pentanomial::default();
                loop {
                    pairs.add(draw(shares, &mut random));
                    match sprt.verdict(pairs) {
                        Verdict::Open => {}
                        verdict => return u32::from(verdict == Verdict::H1),
                    }
                }
            })
            .sum()
    }

    #[test]
    fn error_rates_are_at_most_alpha_and_beta() {
        // 5 % of 2,000 is 100.
        let logistic = test(0.0, 30.0, EloModel::Logistic);
        let wrongly = accepted(logistic, &shares(score_of_elo(0.0)), 1);
        assert!(wrongly <= 100, "H1 accepted {wrongly} times under H0");
        let rightly = accepted(logistic, &shares(score_of_elo(30.0)), 2);
        assert!(rightly >= 1900, "H1 accepted {rightly} times only under H1");
        println!(
            "logistic: of 2000 tests {wrongly} wrongly see an improvement, {} miss one",
            2000 - rightly
        );

        let normalized = test(0.0, 60.0, EloModel::Normalized);
        let distance = 60.0 / NORMALIZED_ELO * 2.0_f64.sqrt();
        // The tilt changes the variance, so the score at this distance is found by iteration.
        let mut score = 0.5;
        for _ in 0..20 {
            let now = shares(score);
            let mean: f64 = now.iter().zip(SCORES).map(|(share, at)| share * at).sum();
            let variance: f64 =
                now.iter().zip(SCORES).map(|(share, at)| share * (at - mean).powi(2)).sum();
            score = 0.5 + distance * variance.sqrt();
        }
        let wrongly = accepted(normalized, &shares(0.5), 3);
        assert!(wrongly <= 100, "H1 accepted {wrongly} times under H0");
        let rightly = accepted(normalized, &shares(score), 4);
        assert!(rightly >= 1900, "H1 accepted {rightly} times only under H1");
        println!(
            "normalised: of 2000 tests {wrongly} wrongly see an improvement, {} miss one",
            2000 - rightly
        );
    }

    #[test]
    fn invalid_parameters_are_refused() {
        let sprt =
            Sprt { elo0: 0.0, elo1: 5.0, alpha: 0.05, beta: 0.05, model: EloModel::Logistic };
        assert!(sprt.checked().is_ok());
        assert_eq!(Sprt { elo0: 5.0, ..sprt }.checked(), Err(SprtError::Hypotheses));
        assert_eq!(Sprt { elo1: f64::NAN, ..sprt }.checked(), Err(SprtError::Hypotheses));
        let normalised = |elo1| Sprt { elo1, model: EloModel::Normalized, ..sprt }.checked();
        assert_eq!(normalised(250.0), Err(SprtError::Normalised));
        for pairs in [[0, 0, 1, 0, 0], [0, 0, 0, 0, 1], [1, 0, 0, 0, 0], [3, 5, 40, 9, 5]] {
            assert!(normalised(200.0).unwrap().ratio(Pentanomial(pairs)).is_finite(), "{pairs:?}");
        }
        assert_eq!(Sprt { alpha: 0.0, ..sprt }.checked(), Err(SprtError::Rates));
        assert_eq!(Sprt { alpha: 0.6, beta: 0.5, ..sprt }.checked(), Err(SprtError::Rates));
        assert_eq!(sprt.ratio(Pentanomial::default()), 0.0);
        assert_eq!(sprt.verdict(Pentanomial([0, 0, 0, 0, 400])), Verdict::H1);
        assert_eq!(sprt.verdict(Pentanomial([400, 0, 0, 0, 0])), Verdict::H0);
    }
}
