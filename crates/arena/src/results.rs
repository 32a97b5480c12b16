//! The finished games of a match, counted: by pairs of players, by player, by kind of fault.

use std::collections::BTreeMap;

use crate::{Encounter, Estimate, GameRecord, Pentanomial, Tally, Unit};

/// Finished games by number.
#[derive(Clone, Debug, Default)]
pub struct Results {
    games: BTreeMap<usize, GameRecord>,
}

/// All games between two players, seen from the first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Duel {
    pub tally: Tally,
    /// Pairs of games of which both are finished.
    pub pairs: Pentanomial,
    /// What the estimate is made of: finished pairs, and games whose partner is not finished.
    pub units: Vec<Unit>,
}

impl Duel {
    /// The difference in strength, `None` without games.
    #[must_use]
    pub fn estimate(&self) -> Option<Estimate> {
        Estimate::of(&self.units, self.tally)
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
    pub fn duel(&self, first: usize, second: usize) -> Duel {
        self.collect(first, |game| {
            (game.white, game.black) == (first, second)
                || (game.white, game.black) == (second, first)
        })
    }

    /// All games of a player.
    #[must_use]
    pub fn of(&self, player: usize) -> Duel {
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
    pub fn encounters(&self, players: usize) -> Vec<Encounter> {
        (0..players)
            .flat_map(|first| (first + 1..players).map(move |second| (first, second)))
            .map(|(first, second)| Encounter {
                first,
                second,
                units: self.duel(first, second).units,
            })
            .filter(|games| !games.units.is_empty())
            .collect()
    }

    fn collect(&self, player: usize, wanted: impl Fn(&GameRecord) -> bool) -> Duel {
        let mut duel = Duel::default();
        let mut pairs: BTreeMap<usize, Unit> = BTreeMap::new();
        for game in self.games.values().filter(|game| wanted(game)) {
            let Some(half_points) = game.half_points(player) else { continue };
            duel.tally.add(half_points);
            pairs.entry(game.pair()).or_default().add(half_points);
        }
        for unit in pairs.into_values() {
            if unit.games == 2 {
                duel.pairs.add(unit.half_points);
            }
            duel.units.push(unit);
        }
        duel
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
