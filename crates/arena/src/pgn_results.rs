//! The results of games in PGN files, for ratings of players whose matches were played elsewhere.

use std::{
    collections::HashMap,
    io::{self, Read},
};

use board::Color;
use games::parse_result;

use crate::{Observation, PairingResults};

/// The results of PGN files: players in order of appearance, and their games.
#[derive(Clone, Debug, Default)]
pub struct PgnResults {
    pub names: Vec<String>,
    /// Number of games without a result or without the names of the players, or that are not read.
    pub unfinished: usize,
    pairs: HashMap<(String, usize, usize), Vec<Observation>>,
}

impl PgnResults {
    /// Adds the games of a file. Two games whose `Round` has the same text before a point, as in
    /// `12.1` and `12.2`, are a pair; other games are single.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(&mut self, file: &str, input: impl Read) -> io::Result<()> {
        for game in games::read_pgn(input) {
            let Some(game) = game?.into_game() else {
                self.unfinished += 1;
                continue;
            };
            let (Some(white), Some(black)) = (game.tag("White"), game.tag("Black")) else {
                self.unfinished += 1;
                continue;
            };
            let half_points = match game.tag("Result").and_then(parse_result) {
                Some(Some(Color::White)) => 2,
                Some(None) => 1,
                Some(Some(Color::Black)) => 0,
                None => {
                    self.unfinished += 1;
                    continue;
                }
            };
            let (white, black) = (self.index(white), self.index(black));
            let (first, second) = (white.min(black), white.max(black));
            let half_points = if first == white { half_points } else { 2 - half_points };
            let round = game.tag("Round").unwrap_or_default();
            let pair =
                round.split_once('.').map_or(String::new(), |(pair, _)| format!("{file}\n{pair}"));
            let alone = pair.is_empty();
            let observations = self.pairs.entry((pair, first, second)).or_default();
            match observations.last_mut() {
                Some(observation) if !alone && observation.games == 1 => {
                    observation.add(half_points)
                }
                _ => observations.push(Observation { half_points, games: 1 }),
            }
        }
        Ok(())
    }

    fn index(&mut self, name: &str) -> usize {
        self.names.iter().position(|known| known == name).unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        })
    }

    /// The results of each two players.
    #[must_use]
    pub fn pairing_results(&self) -> Vec<PairingResults> {
        let mut together: HashMap<(usize, usize), Vec<Observation>> = HashMap::new();
        for ((_, first, second), observations) in &self.pairs {
            together.entry((*first, *second)).or_default().extend(observations);
        }
        let mut pairings: Vec<PairingResults> = together
            .into_iter()
            .map(|((first, second), observations)| PairingResults { first, second, observations })
            .collect();
        pairings.sort_by_key(|games| (games.first, games.second));
        pairings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_found_by_their_round() {
        let game = |round: &str, white: &str, black: &str, result: &str| {
            format!(
                "[Round \"{round}\"]\n[White \"{white}\"]\n[Black \"{black}\"]\n[Result \"{result}\"]\n\n{result}\n\n"
            )
        };
        let text = [
            game("1.1", "a", "b", "1-0"),
            game("2.1", "a", "b", "1/2-1/2"),
            game("1.2", "b", "a", "1-0"),
            game("-", "b", "a", "0-1"),
            game("-", "a", "c", "*"),
        ]
        .concat();
        let mut results = PgnResults::default();
        results.read("x", text.as_bytes()).unwrap();
        assert_eq!((results.names.len(), results.unfinished), (2, 1));
        let pairings = results.pairing_results();
        assert_eq!(pairings.len(), 1);
        let mut observations: Vec<(u8, u8)> = pairings[0]
            .observations
            .iter()
            .map(|observation| (observation.half_points, observation.games))
            .collect();
        observations.sort_unstable();
        assert_eq!(observations, [(1, 1), (2, 1), (2, 2)]);
    }
}
