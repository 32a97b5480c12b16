//! Ratings of many players from all their games at once: the maximum likelihood of the logistic
//! (Bradley-Terry) model, in which a draw counts as half a win and the rating of one player, the
//! anchor, is fixed. This is the model of [Ordo](https://github.com/michiguel/Ordo).
//!
//! Intervals come from the sandwich estimator (H. White, *Maximum likelihood estimation of
//! misspecified models*, 1982). It uses the observed variance of pairs of games, which is smaller
//! than that of independent games without draws.

use std::f64::consts::LN_10;

use crate::{
    Observation,
    estimate::{Z_95, score_of_elo},
    linear::{Matrix, inverse, solve},
};

/// The games between two players.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PairingResults {
    pub first: usize,
    pub second: usize,
    /// Results from the side of `first`.
    pub observations: Vec<Observation>,
}

/// A player's rating.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rating {
    pub elo: f64,
    /// Standard error of the difference to the anchor.
    pub error: f64,
}

impl Rating {
    /// The 95 % interval.
    #[must_use]
    pub fn interval(&self) -> (f64, f64) {
        (self.elo - Z_95 * self.error, self.elo + Z_95 * self.error)
    }
}

/// Change of the log-odds per point of Elo.
const SLOPE: f64 = LN_10 / 400.0;

/// With fewer observations their variance is too uncertain, and the binomial variance of the model
/// is used.
const MIN_OBSERVATIONS: usize = 10;

/// Rates players `0..players`; player `anchor` has the rating `anchor_elo`. The rating is `None`
/// where it is not finite: the player has won or lost all its games against the players that are
/// connected to the anchor.
#[must_use]
pub fn rate(
    players: usize,
    pairings: &[PairingResults],
    anchor: usize,
    anchor_elo: f64,
) -> Vec<Option<Rating>> {
    let rated = connected(players, pairings, anchor);
    // The unknowns are the ratings of the connected players without the anchor.
    let unknown: Vec<usize> =
        (0..players).filter(|&player| rated[player] && player != anchor).collect();
    let column: Vec<Option<usize>> =
        (0..players).map(|player| unknown.iter().position(|&other| other == player)).collect();
    let pairings: Vec<&PairingResults> =
        pairings.iter().filter(|games| rated[games.first] && rated[games.second]).collect();
    let mut elo = vec![anchor_elo; players];
    for _ in 0..200 {
        let (gradient, information) =
            gradient_and_information(&pairings, &elo, &column, unknown.len());
        let Some(step) = solve(&information, &gradient) else { break };
        let longest = step.iter().fold(0.0_f64, |most, step| most.max(step.abs()));
        // Newton's method; steps are at most 200 Elo long, as the curve is nearly straight that
        // far.
        let scale = (200.0 / longest).min(1.0);
        for (player, step) in unknown.iter().zip(&step) {
            elo[*player] += scale * step;
        }
        if longest < 1e-9 {
            break;
        }
    }
    let errors = standard_errors(&pairings, &elo, &column, unknown.len());
    (0..players)
        .map(|player| {
            let error = column[player].map_or(0.0, |column| errors[column]);
            rated[player].then_some(Rating { elo: elo[player], error })
        })
        .collect()
}

/// Performance rating: the rating of a player from games against opponents of known ratings, given
/// as `(rating, observations from the player's side)`. `None` if every game was won or every game
/// was lost.
#[must_use]
pub fn performance_rating(games: &[(f64, Vec<Observation>)]) -> Option<Rating> {
    let observations = || {
        games.iter().flat_map(|(elo, observations)| {
            observations.iter().map(move |observation| (*elo, *observation))
        })
    };
    let half_points: u32 =
        observations().map(|(_, observation)| u32::from(observation.half_points)).sum();
    let most: u32 = observations().map(|(_, observation)| 2 * u32::from(observation.games)).sum();
    if half_points == 0 || half_points == most {
        return None;
    }
    let surplus = |elo: f64| -> f64 {
        observations().map(|(other, observation)| excess(observation, elo - other)).sum()
    };
    let (mut low, mut high) = (-10_000.0, 10_000.0);
    for _ in 0..100 {
        let middle = (low + high) / 2.0;
        if surplus(middle) > 0.0 { low = middle } else { high = middle }
    }
    let elo = (low + high) / 2.0;
    let information: f64 =
        observations().map(|(other, observation)| game_information(observation, elo - other)).sum();
    let squares: f64 = observations()
        .map(|(other, observation)| (SLOPE * excess(observation, elo - other)).powi(2))
        .sum();
    let count = observations().count();
    let error = if count < MIN_OBSERVATIONS {
        1.0 / information.sqrt()
    } else {
        (squares * count as f64 / (count as f64 - 1.0)).sqrt() / information
    };
    Some(Rating { elo, error })
}

/// Fisher information of a game about a player's rating at this distance from the opponent,
/// relative to a game between equals: 0 to 1.
#[must_use]
pub fn relative_information(distance: f64) -> f64 {
    let chance = score_of_elo(distance);
    4.0 * chance * (1.0 - chance)
}

/// Points above the expected ones at an Elo difference.
fn excess(observation: Observation, difference: f64) -> f64 {
    f64::from(observation.half_points) / 2.0
        - f64::from(observation.games) * score_of_elo(difference)
}

/// Fisher information of an observation about an Elo difference.
fn game_information(observation: Observation, difference: f64) -> f64 {
    let chance = score_of_elo(difference);
    SLOPE * SLOPE * f64::from(observation.games) * chance * (1.0 - chance)
}

/// Gradient and information matrix of the log-likelihood at these ratings.
fn gradient_and_information(
    pairings: &[&PairingResults],
    elo: &[f64],
    column: &[Option<usize>],
    size: usize,
) -> (Vec<f64>, Matrix) {
    let mut gradient = vec![0.0; size];
    let mut information = vec![vec![0.0; size]; size];
    for games in pairings {
        let difference = elo[games.first] - elo[games.second];
        let surplus: f64 = games
            .observations
            .iter()
            .map(|&observation| SLOPE * excess(observation, difference))
            .sum();
        let weight: f64 = games
            .observations
            .iter()
            .map(|&observation| game_information(observation, difference))
            .sum();
        for (player, sign) in [(games.first, 1.0), (games.second, -1.0)] {
            if let Some(column) = column[player] {
                gradient[column] += sign * surplus;
            }
        }
        add_outer_product(&mut information, column[games.first], column[games.second], weight);
    }
    (gradient, information)
}

/// Adds `weight` times the outer product of the vector `first - second` with itself.
fn add_outer_product(
    matrix: &mut Matrix,
    first: Option<usize>,
    second: Option<usize>,
    weight: f64,
) {
    for (row, row_sign) in [(first, 1.0), (second, -1.0)] {
        for (column, column_sign) in [(first, 1.0), (second, -1.0)] {
            if let (Some(row), Some(column)) = (row, column) {
                matrix[row][column] += row_sign * column_sign * weight;
            }
        }
    }
}

/// Standard errors of the unknowns by the sandwich estimator, or from the information matrix where
/// observations are few.
fn standard_errors(
    pairings: &[&PairingResults],
    elo: &[f64],
    column: &[Option<usize>],
    size: usize,
) -> Vec<f64> {
    let (_, information) = gradient_and_information(pairings, elo, column, size);
    let mut variation = vec![vec![0.0; size]; size];
    let mut count = 0;
    for games in pairings {
        let difference = elo[games.first] - elo[games.second];
        let squares: f64 = games
            .observations
            .iter()
            .map(|&observation| (SLOPE * excess(observation, difference)).powi(2))
            .sum();
        add_outer_product(&mut variation, column[games.first], column[games.second], squares);
        count += games.observations.len();
    }
    let Some(inverse) = inverse(&information) else { return vec![f64::INFINITY; size] };
    let freedom = count as f64 / (count as f64 - size as f64).max(1.0);
    (0..size)
        .map(|player| {
            let row = &inverse[player];
            if count < MIN_OBSERVATIONS + size {
                return row[player].sqrt();
            }
            let sandwich: f64 = (0..size)
                .flat_map(|i| (0..size).map(move |j| (i, j)))
                .map(|(i, j)| row[i] * variation[i][j] * row[j])
                .sum();
            (sandwich * freedom).max(0.0).sqrt()
        })
        .collect()
}

/// The players with a finite difference to the anchor: a chain of gained points leads from the
/// anchor to the player, and another one back.
fn connected(players: usize, pairings: &[PairingResults], anchor: usize) -> Vec<bool> {
    let reach = |forward: bool| {
        let mut reached = vec![false; players];
        reached[anchor] = true;
        let mut open = vec![anchor];
        while let Some(player) = open.pop() {
            for games in pairings {
                let gained: u32 = games
                    .observations
                    .iter()
                    .map(|observation| u32::from(observation.half_points))
                    .sum();
                let most: u32 = games
                    .observations
                    .iter()
                    .map(|observation| 2 * u32::from(observation.games))
                    .sum();
                for (winner, loser, points) in [
                    (games.first, games.second, gained),
                    (games.second, games.first, most - gained),
                ] {
                    let (from, to) = if forward { (winner, loser) } else { (loser, winner) };
                    if points > 0 && from == player && !reached[to] {
                        reached[to] = true;
                        open.push(to);
                    }
                }
            }
        }
        reached
    };
    reach(true).into_iter().zip(reach(false)).map(|(from, to)| from && to).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EloEstimate, WinDrawLoss};
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    fn games(
        first: usize,
        second: usize,
        wins: usize,
        draws: usize,
        losses: usize,
    ) -> PairingResults {
        let single =
            |half_points, count| std::iter::repeat_n(Observation { half_points, games: 1 }, count);
        let observations =
            single(2, wins).chain(single(1, draws)).chain(single(0, losses)).collect();
        PairingResults { first, second, observations }
    }

    #[test]
    fn the_rating_of_two_players_equals_the_estimate_of_their_match() {
        let ratings = rate(2, &[games(0, 1, 136, 111, 96)], 1, 2000.0);
        let found = ratings[0].unwrap();
        let expected =
            EloEstimate::of_games(WinDrawLoss { wins: 136, draws: 111, losses: 96 }).unwrap();
        assert!((found.elo - 2000.0 - expected.elo).abs() < 1e-6, "{found:?}");
        let (low, high) = found.interval();
        assert!(
            (high - low - (expected.high - expected.low)).abs() < 1.0,
            "{found:?} {expected:?}"
        );
        assert_eq!(ratings[1], Some(Rating { elo: 2000.0, error: 0.0 }));
    }

    /// From results that fit the model exactly, the true ratings are found.
    #[test]
    fn exact_results_give_back_the_ratings() {
        let truth = [0.0, 100.0, 250.0, 480.0];
        let mut pairings = Vec::new();
        for first in 0..truth.len() {
            for second in 0..first {
                let points = 10_000.0 * score_of_elo(truth[first] - truth[second]);
                let wins = points.round() as usize;
                pairings.push(games(first, second, wins, 0, 10_000 - wins));
            }
        }
        for (found, truth) in rate(4, &pairings, 0, 0.0).into_iter().zip(truth) {
            assert!((found.unwrap().elo - truth).abs() < 0.1, "{found:?} {truth}");
        }
    }

    #[test]
    fn a_player_that_only_won_or_lost_has_no_rating() {
        let pairings = [
            games(0, 1, 5, 0, 5),
            games(2, 0, 4, 0, 0),
            games(3, 1, 0, 0, 4),
            games(4, 5, 1, 0, 1),
        ];
        let ratings = rate(6, &pairings, 0, 1000.0);
        let rated: Vec<bool> = ratings.iter().map(Option::is_some).collect();
        assert_eq!(rated, [true, true, false, false, false, false]);
        assert!(performance_rating(&[(1500.0, games(0, 1, 4, 0, 0).observations)]).is_none());
    }

    #[test]
    fn a_performance_rating_equals_the_joint_rating_of_one_player() {
        let observations = games(0, 1, 20, 30, 10).observations;
        let performance = performance_rating(&[(1500.0, observations.clone())]).unwrap();
        let joint =
            rate(2, &[PairingResults { first: 0, second: 1, observations }], 1, 1500.0)[0].unwrap();
        assert!((performance.elo - joint.elo).abs() < 1e-6);
        assert!((performance.error - joint.error).abs() < 1e-6);
    }

    /// A simulated pair of games with draws, from an opening that favours one colour.
    fn pair(difference: f64, random: &mut ChaCha8Rng) -> Observation {
        let mut observation = Observation::default();
        let luck = 120.0 * (random.random::<f64>() - 0.5);
        for luck in [luck, -luck] {
            let score = score_of_elo(difference + luck);
            let draw = 0.6 * score.min(1.0 - score);
            let win = score - draw / 2.0;
            let roll: f64 = random.random();
            observation.add(if roll < win { 2 } else { u8::from(roll < win + draw) });
        }
        observation
    }

    #[test]
    fn intervals_cover_the_true_ratings_as_often_as_they_claim() {
        let truth = [0.0, 80.0, 200.0, 350.0, 500.0];
        let mut random = ChaCha8Rng::seed_from_u64(5);
        let (mut inside, mut all) = (0, 0);
        for _ in 0..400 {
            let mut pairings = Vec::new();
            for first in 0..truth.len() {
                for second in 0..first {
                    let observations =
                        (0..20).map(|_| pair(truth[first] - truth[second], &mut random)).collect();
                    pairings.push(PairingResults { first, second, observations });
                }
            }
            for (rating, truth) in
                rate(truth.len(), &pairings, 0, 0.0).into_iter().zip(truth).skip(1)
            {
                let (low, high) = rating.unwrap().interval();
                inside += u32::from(low <= truth && truth <= high);
                all += 1;
            }
        }
        // 95 %, with the tolerance of 1,600 intervals and of the variance of openings.
        let share = f64::from(inside) / f64::from(all);
        println!("{inside} of {all} intervals hold the truth");
        assert!((0.93..=0.97).contains(&share), "{share}");
    }
}
