//! The finished games of a match, and their counts by pairing, by player and by kind of fault.

use std::collections::BTreeMap;

use crate::{EloEstimate, GameRecord, Observation, PairingResults, Pentanomial, WinDrawLoss};

/// The finished games of a match, by number.
#[derive(Clone, Debug, Default)]
pub struct Results {
    games: BTreeMap<usize, GameRecord>,
}

/// The results of a player against one opponent or against all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlayerResults {
    pub tally: WinDrawLoss,
    /// Pairs with both games finished.
    pub pairs: Pentanomial,
    /// The observations of the estimate: finished pairs, and single games of unfinished pairs.
    pub observations: Vec<Observation>,
}

impl PlayerResults {
    /// The estimated difference in strength; `None` without games.
    #[must_use]
    pub fn estimate(&self) -> Option<EloEstimate> {
        EloEstimate::of(&self.observations, self.tally)
    }
}

impl Results {
    /// Adds a game, which replaces one of the same number.
    pub fn add(&mut self, game: GameRecord) {
        self.games.insert(game.number, game);
    }

    /// The games in the order of their numbers.
    pub fn games(&self) -> impl DoubleEndedIterator<Item = &GameRecord> {
        self.games.values()
    }

    /// Number of finished games.
    #[must_use]
    pub fn len(&self) -> usize {
        self.games.len()
    }

    /// True if no game is finished.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.games.is_empty()
    }

    /// True if the game of this number is finished.
    #[must_use]
    pub fn contains(&self, number: usize) -> bool {
        self.games.contains_key(&number)
    }

    /// The results of `first` against `second`.
    #[must_use]
    pub fn head_to_head(&self, first: usize, second: usize) -> PlayerResults {
        self.collect(first, |game| {
            (game.white, game.black) == (first, second)
                || (game.white, game.black) == (second, first)
        })
    }

    /// The results of a player against all opponents.
    #[must_use]
    pub fn of(&self, player: usize) -> PlayerResults {
        self.collect(player, |_| true)
    }

    /// Half points of player 0 in a pair of games; `None` if the pair is not finished.
    #[must_use]
    pub fn pair(&self, pair: usize) -> Option<u8> {
        self.pair_of(0, pair)
    }

    /// Half points of a player in a pair of games; `None` if the pair is not finished or not the
    /// player's.
    #[must_use]
    pub fn pair_of(&self, player: usize, pair: usize) -> Option<u8> {
        let half_points =
            |number| self.games.get(&number).and_then(|game: &GameRecord| game.half_points(player));
        Some(half_points(2 * pair)? + half_points(2 * pair + 1)?)
    }

    /// The results of each two players, for [`rate`](crate::rate).
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

    /// Numbers of games that a player lost by a fault, by kind.
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
