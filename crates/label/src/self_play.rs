//! Varied games of a player against itself: random openings, some random moves, an early end of
//! decided games.

use board::{Game, Move, Score};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

/// How games of self-play are varied. The JSON of this type is part of the progress file.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SelfPlaySettings {
    pub seed: u64,
    /// Smallest and largest number of random legal moves at the beginning of a game, after the
    /// start position or a main line of the built-in openings.
    pub random_plies: (usize, usize),
    /// Share of the games that begin with a main line, from 0 to 1.
    pub book_share: f64,
    /// Chance of a random legal move in place of the engine's best one later in the game, 0 to 1.
    pub random_moves: f64,
    /// Length at which a game is ended, in plies.
    pub max_plies: usize,
    /// A game ends when one side has been ahead by this many centipawns for eight plies.
    pub decided: i32,
}

impl Default for SelfPlaySettings {
    fn default() -> Self {
        Self {
            seed: 1,
            random_plies: (2, 10),
            book_share: 0.3,
            random_moves: 0.05,
            max_plies: 240,
            decided: 1500,
        }
    }
}

/// A game must be decided for this many plies to be ended.
const DECIDED_PLIES: usize = 8;

/// One score a position for the side to move, the start position first; `None` where the game is
/// over and at the random moves of the beginning.
pub(crate) type Labels = Vec<Option<Score>>;

/// The score for the side to move and the best move, `None` without legal moves.
pub(crate) type Judged = (Option<Score>, Option<Move>);

/// Plays game `number`. `think` judges each position.
///
/// # Errors
/// Those of `think`.
pub(crate) fn play<E>(
    settings: &SelfPlaySettings,
    number: u64,
    think: &mut dyn FnMut(&Game) -> Result<Judged, E>,
) -> Result<(Game, Labels), E> {
    // Each game has its own stream of the one seed.
    let mut random = ChaCha8Rng::seed_from_u64(settings.seed);
    random.set_stream(number);
    let mut game = opening(settings, &mut random);
    let mut labels: Labels = vec![None; game.moves().len()];
    loop {
        let (score, best) = think(&game)?;
        labels.push(score);
        let over = game.end().is_some() || game.moves().len() >= settings.max_plies;
        let Some(best) = best.filter(|_| !over && !is_decided(&labels, settings.decided)) else {
            return Ok((game, labels));
        };
        let mv = if random.random_bool(settings.random_moves) {
            random_move(&game, &mut random).unwrap_or(best)
        } else {
            best
        };
        game.play(mv);
    }
}

/// A random start whose game is not over.
fn opening(settings: &SelfPlaySettings, random: &mut ChaCha8Rng) -> Game {
    let book = arena::main_lines();
    loop {
        let mut game = Game::default();
        if random.random_bool(settings.book_share) {
            game = book[random.random_range(0..book.len())].clone();
        }
        let (least, most) = settings.random_plies;
        for _ in 0..random.random_range(least..=most.max(least)) {
            if let Some(mv) = random_move(&game, random) {
                game.play(mv);
            }
        }
        if game.end().is_none() {
            return game;
        }
    }
}

fn random_move(game: &Game, random: &mut ChaCha8Rng) -> Option<Move> {
    let moves = game.position().legal_moves();
    (!moves.is_empty()).then(|| moves[random.random_range(0..moves.len())])
}

/// True if one side has been ahead by `limit` centipawns in each of the last [`DECIDED_PLIES`].
fn is_decided(labels: &Labels, limit: i32) -> bool {
    let recent = labels.len().checked_sub(DECIDED_PLIES).map(|from| &labels[from..]);
    let is_ahead = |side: i32| {
        recent.is_some_and(|recent| {
            recent.iter().all(|label| match label {
                Some(Score::Centipawns(value)) => side.saturating_mul(*value) >= limit,
                // Mate scores are rare and valuable training data: the game is played to its end.
                _ => false,
            })
        })
    };
    is_ahead(1) || is_ahead(-1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_game_is_decided_when_one_side_stays_far_ahead() {
        let labels =
            |values: [i32; 10]| values.map(|value| Some(Score::Centipawns(value))).to_vec();
        assert!(is_decided(&labels([0, 0, 600, 600, 600, 600, 600, 600, 600, 900]), 600));
        assert!(is_decided(&labels([0, 0, -600, -600, -600, -600, -600, -600, -600, -900]), 600));
        assert!(!is_decided(&labels([600, 600, 600, 600, 600, 599, 600, 600, 600, 600]), 600));
        assert!(
            !is_decided(&labels([0, 0, 600, 600, 600, -600, 600, 600, 600, 600]), 600),
            "the lead changed sides"
        );
        assert!(!is_decided(&vec![Some(Score::Mate(3)); 10], 600));
    }
}
