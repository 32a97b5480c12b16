//! The schedule of a match: pairings, order, colours and openings are fixed before the first game,
//! so that a match can be interrupted, resumed and repeated.

use board::Game;
use rand::{SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

/// The pairings of a match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TournamentFormat {
    /// Every player plays every other one.
    RoundRobin,
    /// The first player plays all others.
    Gauntlet,
    /// Every player plays this many of the players after it in the list.
    Neighbours(usize),
}

/// A game of the schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScheduledGame {
    /// Number of the game, from 0. `number / 2` is the number of its pair: two games of the same
    /// players from the same opening with colours changed.
    pub number: usize,
    /// Index of the player with White.
    pub white: usize,
    /// Index of the player with Black.
    pub black: usize,
    /// Index of the opening, which counts on beyond the end of the list.
    pub opening: usize,
}

/// The pairings of a format, as indices of players.
#[must_use]
pub fn pairings(players: usize, format: TournamentFormat) -> Vec<(usize, usize)> {
    let (rows, reach) = match format {
        TournamentFormat::RoundRobin => (players, players),
        TournamentFormat::Gauntlet => (players.min(1), players),
        TournamentFormat::Neighbours(reach) => (players, reach),
    };
    let row = |first: usize| {
        (first + 1..players.min(first.saturating_add(reach).saturating_add(1)))
            .map(move |second| (first, second))
    };
    (0..rows).flat_map(row).collect()
}

/// All games of a match in the order in which they begin. In each round every pairing plays two
/// games from one opening. A larger number of games a pairing keeps the numbers of the earlier
/// games.
#[must_use]
pub fn schedule(pairings: &[(usize, usize)], games: usize) -> Vec<ScheduledGame> {
    let mut scheduled_games = Vec::with_capacity(pairings.len() * games);
    for round in 0..games.div_ceil(2) {
        for (index, &(first, second)) in pairings.iter().enumerate() {
            let pair = round * pairings.len() + index;
            for (swapped, (white, black)) in
                [(first, second), (second, first)].into_iter().enumerate()
            {
                if 2 * round + swapped < games {
                    scheduled_games.push(ScheduledGame {
                        number: 2 * pair + swapped,
                        white,
                        black,
                        opening: round,
                    });
                }
            }
        }
    }
    scheduled_games
}

/// Shuffles openings by a seed; seed 0 keeps their order.
#[must_use]
pub fn shuffled(mut openings: Vec<Game>, seed: u64) -> Vec<Game> {
    if seed != 0 {
        openings.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
    }
    openings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pairing_has_both_colours_of_each_opening() {
        let pairings = pairings(4, TournamentFormat::RoundRobin);
        assert_eq!(pairings.len(), 6);
        let scheduled_games = schedule(&pairings, 4);
        assert_eq!(scheduled_games.len(), 24);
        for (index, scheduled) in scheduled_games.iter().enumerate() {
            assert_eq!(scheduled.number, index);
            let partner = scheduled_games[index ^ 1];
            assert_eq!((scheduled.white, scheduled.black), (partner.black, partner.white));
            assert_eq!(scheduled.opening, partner.opening);
            assert_eq!(scheduled.opening, index / 12);
        }
    }

    #[test]
    fn more_games_keep_the_numbers_of_the_first() {
        let pairings = pairings(3, TournamentFormat::RoundRobin);
        let (short, long) = (schedule(&pairings, 3), schedule(&pairings, 8));
        assert_eq!(short.len(), 9);
        assert!(short.iter().all(|scheduled| long.contains(scheduled)));
    }

    #[test]
    fn formats_give_their_pairings() {
        assert_eq!(pairings(4, TournamentFormat::Gauntlet), [(0, 1), (0, 2), (0, 3)]);
        assert_eq!(pairings(0, TournamentFormat::Gauntlet), []);
        assert_eq!(
            pairings(4, TournamentFormat::Neighbours(2)),
            [(0, 1), (0, 2), (1, 2), (1, 3), (2, 3)]
        );
    }

    #[test]
    fn the_seed_decides_the_order_of_openings() {
        let order = |seed| -> Vec<u64> {
            let openings = shuffled(crate::main_lines(), seed);
            openings.iter().map(|game| game.position().key()).collect()
        };
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
        let in_order: Vec<u64> =
            crate::main_lines().iter().map(|game| game.position().key()).collect();
        assert_eq!(order(0), in_order);
    }
}
