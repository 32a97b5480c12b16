//! A ladder of fixed opponents, and the rating of a player on it. The opponents search fixed nodes,
//! so that their strength does not depend on the speed or load of the machine.
//!
//! The rungs are Stockfish at full strength with fixed nodes. Their ratings come from games between
//! them, see [`Ladder::calibrated`].

use serde::{Deserialize, Serialize};

use crate::{
    Rating, Results, ScheduledGame, elo_text, performance_rating, rating::relative_information,
};

mod calibration;

/// The ladder that was calibrated for this version.
const BUILT_IN: &str = include_str!("ladder.json");

/// One opponent of the ladder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rung {
    pub name: String,
    /// UCI options.
    pub options: Vec<(String, String)>,
    /// Nodes a move.
    pub nodes: u64,
    pub elo: f64,
    /// 95 % interval of `elo`.
    pub low: f64,
    pub high: f64,
    /// Elo above the rung before, and half of its 95 % interval; `None` for the first rung and where
    /// it is not finite. Neighbours are nearer to each other than the intervals of their ratings say,
    /// as those count the whole way to the anchor.
    #[serde(default)]
    pub step: Option<[f64; 2]>,
    /// Number of games that the rating comes from.
    pub games: u32,
}

/// The opponents, by nodes a move. The JSON of this type is the file of a scale.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ladder {
    /// The program of all rungs.
    pub engine: String,
    /// Name of the rung with the fixed rating.
    pub anchor: String,
    /// The command that made the ratings.
    pub command: String,
    /// Number of games that the ratings come from.
    pub games: usize,
    pub rungs: Vec<Rung>,
    /// These games. A scale without them is calibrated from the start.
    #[serde(default)]
    pub matches: Vec<RungMatch>,
}

/// The games of two rungs, from which a calibration goes on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RungMatch {
    /// Name of a rung.
    pub first: String,
    /// Name of a later rung.
    pub second: String,
    /// Half points of the first, 0 to 4, a digit for each pair of games, in the order of openings.
    pub pairs: String,
}

/// A ladder that cannot be used; each message is one sentence.
#[derive(Debug, thiserror::Error)]
pub enum LadderError {
    #[error("the scale is not readable: {0}")]
    Unreadable(#[from] serde_json::Error),
    #[error("the scale has no rung called `{0}`")]
    NoAnchor(String),
    #[error("the scale has no rungs")]
    Empty,
    #[error(
        "the scale has games of `{first}` and `{second}` with `{pairs}`; these must be two of its \
         rungs in their order, and each pair of games 0 to 4 half points"
    )]
    Games { first: String, second: String, pairs: String },
}

/// The rating of a player on the ladder.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LadderRating {
    /// Elo with the ends of its 95 % interval; `None` if every game was won or every game was lost,
    /// as the rating is then not finite.
    pub rating: Option<[f64; 3]>,
    /// The rating as text.
    pub text: String,
}

impl Ladder {
    /// The ladder in the program.
    ///
    /// # Errors
    /// Never with the file of this repository (a test reads it).
    pub fn built_in() -> Result<Self, LadderError> {
        Self::from_json(BUILT_IN)
    }

    /// Reads a ladder.
    ///
    /// # Errors
    /// The text is not a ladder, its anchor is missing, or the results of its games are not readable.
    pub fn from_json(text: &str) -> Result<Self, LadderError> {
        let ladder: Self = serde_json::from_str(text)?;
        if ladder.rungs.is_empty() {
            return Err(LadderError::Empty);
        }
        ladder.anchor_index()?;
        for RungMatch { first, second, pairs } in &ladder.matches {
            let place = |name: &str| ladder.rungs.iter().position(|rung| rung.name == name);
            let in_order = place(first).zip(place(second)).is_some_and(|(one, two)| one < two);
            if !in_order || pairs.chars().any(|digit| digit.to_digit(5).is_none()) {
                let (first, second, pairs) = (first.clone(), second.clone(), pairs.clone());
                return Err(LadderError::Games { first, second, pairs });
            }
        }
        Ok(ladder)
    }

    fn anchor_index(&self) -> Result<usize, LadderError> {
        let found = self.rungs.iter().position(|rung| rung.name == self.anchor);
        found.ok_or_else(|| LadderError::NoAnchor(self.anchor.clone()))
    }

    /// The performance rating of player 0 of `results`; rung `n` is player `n + 1`.
    #[must_use]
    pub fn rating(&self, results: &Results) -> Option<Rating> {
        let games: Vec<_> = self
            .rungs
            .iter()
            .enumerate()
            .map(|(rung, opponent)| (opponent.elo, results.head_to_head(0, rung + 1).observations))
            .collect();
        performance_rating(&games)
    }

    /// The rating with its interval, as numbers and as text.
    #[must_use]
    pub fn ladder_rating(&self, results: &Results) -> LadderRating {
        match self.rating(results) {
            Some(rating) => {
                let (low, high) = rating.interval();
                let text = format!("{:.0} ± {:.0}", rating.elo, (high - low) / 2.0);
                LadderRating { rating: Some([rating.elo, low, high]), text }
            }
            None => {
                let text = match self.extreme_opponent(results) {
                    Some((true, elo)) => format!("above {}: every game was won", elo_text(elo)),
                    Some((false, elo)) => format!("below {}: every game was lost", elo_text(elo)),
                    None => "no games".to_owned(),
                };
                LadderRating { rating: None, text }
            }
        }
    }

    /// For a player that has won (`true`) or lost all games: the Elo of the strongest or weakest
    /// rung that it met.
    fn extreme_opponent(&self, results: &Results) -> Option<(bool, f64)> {
        let met = || {
            self.rungs
                .iter()
                .enumerate()
                .filter(|(rung, _)| results.head_to_head(0, rung + 1).tally.games() > 0)
        };
        let won = results.of(0).tally.wins > 0;
        let elos = met().map(|(_, rung)| rung.elo);
        if won { elos.reduce(f64::max) } else { elos.reduce(f64::min) }.map(|elo| (won, elo))
    }

    /// The next pairs of games, each against the most informative rung: near the rating of the
    /// player (`guess` before the first game), and rarely met so far.
    #[must_use]
    pub fn next_pairs(&self, results: &Results, guess: f64, pairs: usize) -> Vec<ScheduledGame> {
        /// Distance of the next opponent in Elo after a player has won or lost all games.
        const JUMP: f64 = 200.0;
        let elo = match (self.rating(results), self.extreme_opponent(results)) {
            (Some(rating), _) => rating.elo,
            (None, Some((true, elo))) => elo + JUMP,
            (None, Some((false, elo))) => elo - JUMP,
            (None, None) => guess,
        };
        let mut met: Vec<u32> = (0..self.rungs.len())
            .map(|rung| results.head_to_head(0, rung + 1).tally.games())
            .collect();
        let first = results.games().last().map_or(0, |game| game.pair() + 1);
        let mut scheduled_games = Vec::new();
        for pair in first..first + pairs {
            let value = |rung: usize| {
                relative_information(elo - self.rungs[rung].elo)
                    / (1.0 + f64::from(met[rung]) / 16.0)
            };
            let best = (0..self.rungs.len()).max_by(|&a, &b| value(a).total_cmp(&value(b)));
            let Some(rung) = best else { break };
            met[rung] += 2;
            let opponent = rung + 1;
            scheduled_games.push(ScheduledGame {
                number: 2 * pair,
                white: 0,
                black: opponent,
                opening: pair,
            });
            scheduled_games.push(ScheduledGame {
                number: 2 * pair + 1,
                white: opponent,
                black: 0,
                opening: pair,
            });
        }
        scheduled_games
    }

    /// The missing second games of pairs after an interruption.
    #[must_use]
    pub fn missing_partners(results: &Results) -> Vec<ScheduledGame> {
        let partner = |game: &crate::GameRecord| ScheduledGame {
            number: game.number ^ 1,
            white: game.black,
            black: game.white,
            opening: game.pair(),
        };
        results
            .games()
            .map(partner)
            .filter(|scheduled| !results.contains(scheduled.number))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{GameRecord, score_of_elo};
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    fn record(scheduled: ScheduledGame, white_half_points: u8) -> GameRecord {
        GameRecord {
            number: scheduled.number,
            white: scheduled.white,
            black: scheduled.black,
            opening: scheduled.opening,
            white_half_points,
            ending: String::new(),
            fault: None,
            plies: 0,
            seconds: 0.0,
            pgn: String::new(),
        }
    }

    #[test]
    fn the_built_in_ladder_can_go_on() {
        let ladder = Ladder::built_in().unwrap();
        assert!(ladder.rungs.is_sorted_by_key(|rung| rung.nodes));
        assert!(ladder.played_openings() > 0);
        assert!(
            ladder
                .rungs
                .iter()
                .all(|rung| rung.low <= rung.elo && rung.elo <= rung.high && rung.nodes > 0)
        );
    }

    /// A simulated player of known strength gets its true rating, whatever the first guess.
    #[test]
    fn the_ladder_finds_the_true_rating() {
        let ladder = Ladder::built_in().unwrap();
        for (truth, guess) in [(1450.0, 2500.0), (2100.0, 1000.0)] {
            let mut random = ChaCha8Rng::seed_from_u64(3);
            let mut results = Results::default();
            while results.len() < 600 {
                for scheduled in ladder.next_pairs(&results, guess, 2) {
                    let rung = &ladder.rungs[scheduled.white.max(scheduled.black) - 1];
                    let won = u8::from(random.random::<f64>() < score_of_elo(truth - rung.elo));
                    results.add(record(
                        scheduled,
                        2 * if scheduled.white == 0 { won } else { 1 - won },
                    ));
                }
            }
            let rating = ladder.ladder_rating(&results);
            let [elo, low, high] = rating.rating.unwrap();
            assert!(low < truth && truth < high && high - low < 120.0, "{rating:?} {truth}");
            let near = |rung: usize| (ladder.rungs[rung].elo - elo).abs() < 400.0;
            let useful: u32 = (0..ladder.rungs.len())
                .filter(|&rung| near(rung))
                .map(|rung| results.head_to_head(0, rung + 1).tally.games())
                .sum();
            assert!(useful > 400, "{useful} of 600 games were against near opponents");
        }
    }

    #[test]
    fn winning_every_game_gives_no_finite_rating() {
        let ladder = Ladder::built_in().unwrap();
        let mut results = Results::default();
        assert_eq!(ladder.ladder_rating(&results).text, "no games");
        for scheduled in ladder.next_pairs(&results, 1000.0, 1) {
            results.add(record(scheduled, if scheduled.white == 0 { 2 } else { 0 }));
        }
        assert!(ladder.ladder_rating(&results).text.starts_with("above "));
        let next = ladder.next_pairs(&results, 1000.0, 1);
        assert_eq!((next.len(), next[0].number), (2, 2));
    }

    #[test]
    fn an_interrupted_pair_is_completed() {
        let ladder = Ladder::built_in().unwrap();
        let mut results = Results::default();
        let scheduled_games = ladder.next_pairs(&results, 1000.0, 2);
        for &number in &[0, 1, 3] {
            results.add(record(scheduled_games[number], 1));
        }
        assert_eq!(Ladder::missing_partners(&results), [scheduled_games[2]]);
    }
}
