//! Positions that a search meets: a search of this program plays against itself, and of all
//! positions that it evaluates a random share is kept.
//!
//! Trees are full of hanging pieces and refutations that no game shows, and a network that never
//! saw them misjudges them.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use board::{Color, Game, Position};
use engine::EngineBuilder;
use eval::{Answered, Batch, EvalError, Evaluator, Stream};
use nets::Squares;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use search::{Control, Limits, Search};

use crate::{LabelError, SelfPlaySettings, self_play};

/// How the search that is watched plays.
#[derive(Clone, Debug)]
pub struct TreeSettings {
    /// Builds the search; with one thread the same seed gives the same positions.
    pub player: EngineBuilder,
    /// Everything that decides the player's moves, on one line. A run is resumed only if it is
    /// equal.
    pub identity: String,
    /// Evaluations a move.
    pub nodes: u64,
    /// Share of the evaluated positions that are kept, from 0 to 1.
    pub share: f64,
    /// Openings, random moves and ends of the games.
    pub games: SelfPlaySettings,
}

/// A search whose evaluated positions are sampled.
pub(crate) struct TreeSampler {
    search: Box<dyn Search>,
    sample: Arc<Mutex<Sample>>,
}

impl TreeSampler {
    pub(crate) fn new(settings: &TreeSettings) -> Result<Self, LabelError> {
        let sample = Arc::new(Mutex::new(Sample::new(0, 0, settings.share)));
        let watched = Arc::clone(&sample);
        let engine =
            settings.player.build_over(|inner| Box::new(Sampled { inner, sample: watched }))?;
        Ok(Self { search: engine.search, sample })
    }

    /// Plays game `number` and returns the sampled positions, each once, in the order in which the
    /// search met them.
    pub(crate) fn game(
        &mut self,
        settings: &TreeSettings,
        number: u64,
    ) -> Result<Vec<Position>, LabelError> {
        *lock(&self.sample) = Sample::new(settings.games.seed, number, settings.share);
        self.search.clear();
        let limits = Limits { nodes: Some(settings.nodes), ..Limits::default() };
        let search = &mut self.search;
        self_play::play(&settings.games, number, &mut |game: &Game| {
            let outcome = search.search(game, &limits, &Control::default(), &mut |_| {})?;
            Ok::<_, LabelError>((outcome.lines.first().map(|line| line.score), outcome.best))
        })?;
        let sample = lock(&self.sample);
        let positions = sample.found.iter();
        // Positions without a legal move have no value to learn.
        Ok(positions
            .filter_map(|&(squares, turn)| squares.position(turn))
            .filter(|position| position.has_legal_moves())
            .collect())
    }
}

/// The positions kept of one game.
struct Sample {
    random: ChaCha8Rng,
    share: f64,
    found: Vec<(Squares, Color)>,
    /// All positions that were seen: a search may ask about one again, for its moves.
    seen: HashSet<(Squares, bool)>,
}

impl Sample {
    fn new(seed: u64, game: u64, share: f64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        // The game itself draws from the stream of its number.
        random.set_stream(!game);
        Self { random, share, found: Vec::new(), seen: HashSet::new() }
    }

    fn watch(&mut self, batch: &Batch) {
        for query in batch.queries.iter().filter(|query| query.value) {
            if self.seen.insert((query.squares, query.turn.is_white()))
                && self.random.random_bool(self.share)
            {
                self.found.push((query.squares, query.turn));
            }
        }
    }
}

/// An evaluator that shows its batches to a sample.
struct Sampled {
    inner: Box<dyn Evaluator>,
    sample: Arc<Mutex<Sample>>,
}

fn lock(sample: &Mutex<Sample>) -> MutexGuard<'_, Sample> {
    // A panic never leaves the sample inconsistent, so a poisoned lock is usable.
    sample.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Evaluator for Sampled {
    fn submit(&mut self, batch: Batch) -> Result<(), EvalError> {
        lock(&self.sample).watch(&batch);
        self.inner.submit(batch)
    }

    fn wait(&mut self) -> Result<Answered, EvalError> {
        self.inner.wait()
    }

    fn in_flight(&self) -> usize {
        self.inner.in_flight()
    }

    fn preferred_batch(&self) -> usize {
        self.inner.preferred_batch()
    }

    fn largest_batch(&self) -> usize {
        self.inner.largest_batch()
    }

    fn preferred_stream(&self) -> Stream {
        self.inner.preferred_stream()
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}

#[cfg(test)]
mod tests {
    use engine::EngineOptions;

    use super::*;

    fn settings(share: f64) -> TreeSettings {
        let options =
            EngineOptions { network: Some("fast".into()), threads: 1, ..EngineOptions::default() };
        TreeSettings {
            player: EngineBuilder::new(options).unwrap(),
            identity: String::new(),
            nodes: 40,
            share,
            games: SelfPlaySettings { max_plies: 24, ..SelfPlaySettings::default() },
        }
    }

    /// A search asks about some positions twice: for the value, and later for the moves.
    #[test]
    fn a_position_has_one_chance_however_often_it_is_asked_about() {
        let mut batch = Batch::default();
        let mut position = Position::default();
        for step in 0..400 {
            batch.push(&position, true, &[]);
            let moves = position.legal_moves();
            if moves.is_empty() {
                position = Position::default();
            } else {
                position.play(moves[step * 7 % moves.len()]);
            }
        }
        let mut sample = Sample::new(1, 1, 0.5);
        (0..4).for_each(|_| sample.watch(&batch));
        let (found, all) = (sample.found.len(), sample.seen.len());
        assert!(all > 200 && (2 * all / 5..=3 * all / 5).contains(&found), "{found} of {all}");
    }

    #[test]
    fn a_share_of_the_evaluated_positions_is_kept_and_a_game_repeats() {
        let (all, tenth) = (settings(1.0), settings(0.1));
        let mut sampler = TreeSampler::new(&all).unwrap();
        let everything = sampler.game(&all, 3).unwrap();
        let keys: HashSet<u64> = everything.iter().map(Position::key).collect();
        assert_eq!(keys.len(), everything.len(), "every position once");
        assert!((200..=40 * 24).contains(&everything.len()), "{}", everything.len());

        let mut sampler = TreeSampler::new(&tenth).unwrap();
        let first = sampler.game(&tenth, 3).unwrap();
        let _ = sampler.game(&tenth, 4).unwrap();
        assert_eq!(sampler.game(&tenth, 3).unwrap(), first, "whatever was played between");
        assert!(first.iter().all(|position| keys.contains(&position.key())));
        let share = first.len() as f64 / everything.len() as f64;
        assert!((0.05..0.2).contains(&share), "{share}");
    }
}
