//! The finished games of a match, counted: by pairs of players, by player, by kind of fault.

use std::collections::BTreeMap;

use crate::{EloEstimate, GameRecord, Observation, PairingResults, Pentanomial, WinDrawLoss};

/// Finished games by number.
#[derive(Clone, Debug, Default)]
pub struct Results {
    games: BTreeMap<usize, GameRecord>,
}

/// All games between two players, seen from the first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlayerResults {
    pub tally: WinDrawLoss,
    /// Pairs of games of which both are finished.
    pub pairs: Pentanomial,
    /// What the estimate is made of: finished pairs, and games whose partner is not finished.
    pub observations: Vec<Observation>,
}

impl PlayerResults {
    /// The difference in strength, `None` without games.
    #[must_use]
    pub fn estimate(&self) -> Option<EloEstimate> {
        EloEstimate::of(&self.observations, self.tally)
    }
}

impl Results {
    /// Counts a game; one of the same number is replaced.
    pub fn add(&mut self, game: GameRecord) {
        self.games.insert(game.number, game);
    }

    /// In the order of their numbers.
    pub fn games(&self) -> impl DoubleEndedIterator<Item = &GameRecord> {
        self.games.values()
    }

    /// Finished games.
    #[must_use]
    pub fn len(&self) -> usize {
        self.games.len()
    }

    /// Nothing is finished.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.games.is_empty()
    }

    /// Is this game finished?
    #[must_use]
    pub fn contains(&self, number: usize) -> bool {
        self.games.contains_key(&number)
    }

    /// The games between two players, from the first one's side, in order.
    #[must_use]
    pub fn head_to_head(&self, first: usize, second: usize) -> PlayerResults {
        self.collect(first, |game| {
            (game.white, game.black) == (first, second)
                || (game.white, game.black) == (second, first)
        })
    }

    /// All games of a player.
    #[must_use]
    pub fn of(&self, player: usize) -> PlayerResults {
        self.collect(player, |_| true)
    }

    /// Half points of the first player in a pair of games between two players; `None` where it is
    /// not finished.
    #[must_use]
    pub fn pair(&self, pair: usize) -> Option<u8> {
        let half_points =
            |number| self.games.get(&number).and_then(|game: &GameRecord| game.half_points(0));
        Some(half_points(2 * pair)? + half_points(2 * pair + 1)?)
    }

    /// All games by pairs of players, for [`rate`](crate::rate).
    #[must_use]
    pub fn pairing_results(&self, players: usize) -> Vec<PairingResults> {
        (0..players)
            .flat_map(|first| (first + 1..players).map(move |second| (first, second)))
            .map(|(first, second)| PairingResults {
                first,
                second,
                observations: self.head_to_head(first, second).observations,
            })
            .filter(|games| !games.observations.is_empty())
            .collect()
    }

    fn collect(&self, player: usize, wanted: impl Fn(&GameRecord) -> bool) -> PlayerResults {
        let mut found = PlayerResults::default();
        let mut pairs: BTreeMap<usize, Observation> = BTreeMap::new();
        for game in self.games.values().filter(|game| wanted(game)) {
            let Some(half_points) = game.half_points(player) else { continue };
            found.tally.add(half_points);
            pairs.entry(game.pair()).or_default().add(half_points);
        }
        for observation in pairs.into_values() {
            if observation.games == 2 {
                found.pairs.add(observation.half_points);
            }
            found.observations.push(observation);
        }
        found
    }

    /// Games that a player lost by a fault, by kind.
    #[must_use]
    pub fn faults(&self, player: usize) -> BTreeMap<&str, usize> {
        let mut kinds = BTreeMap::new();
        for fault in self.games.values().filter_map(|game| game.fault.as_ref()) {
            if fault.player == player {
                *kinds.entry(fault.kind.as_str()).or_default() += 1;
            }
        }
        kinds
    }
}
