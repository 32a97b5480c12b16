//! Adds random legal moves, labelled by a value network, to the training data of a move head. Games
//! contain mostly good moves, but a search scores all of them.

use std::path::Path;

use board::{Color, Position};
use data::mate_label;
use eval::{
    Batch, Evaluator,
    cpu::{CpuEvaluator, CpuOptions},
};
use nets::{HeadKind, Network, policy_index};
use rand::{SeedableRng, seq::IteratorRandom};
use rand_chacha::ChaCha8Rng;

use crate::{Examples, TrainError};

/// Adds random legal moves to the played moves of a batch.
pub struct Explorer {
    teacher: Box<dyn Evaluator>,
    extra: usize,
    seed: u64,
}

impl std::fmt::Debug for Explorer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Explorer({}, {})", self.extra, self.teacher.describe())
    }
}

impl Explorer {
    /// Labels `extra` random moves of each position with the value network in `file`.
    ///
    /// # Errors
    /// The file is not a network with a value head, or the network cannot be run.
    pub fn new(file: &Path, extra: usize, seed: u64, threads: usize) -> Result<Self, TrainError> {
        // Labels are not computed in int8.
        let network = Network { int8_ranges: None, ..Network::load(file)? };
        if network.description.head(HeadKind::Value).is_none() {
            return Err(TrainError::Config(format!(
                "the teacher `{}` has no value head",
                file.display()
            )));
        }
        let options = CpuOptions { threads: threads.max(1), ..CpuOptions::default() };
        let teacher = CpuEvaluator::new(network.into(), options)
            .map_err(|error| TrainError::Backend(error.to_string()))?;
        Ok(Self { teacher: Box::new(teacher), extra, seed })
    }

    /// Extends a batch from one move to `1 + extra` moves for each position: the played move, then
    /// different random ones. A position with too few moves repeats its played move, which makes no
    /// pair. The random choice depends only on the seed and on the batch's number.
    ///
    /// # Errors
    /// The teacher failed.
    pub fn explore(&mut self, number: u64, examples: Examples) -> Result<Examples, TrainError> {
        let mut random =
            ChaCha8Rng::seed_from_u64(self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ number);
        let each = 1 + self.extra;
        let mut extended = Examples {
            squares: examples.squares,
            turns: examples.turns,
            values: examples.values,
            ..Examples::default()
        };
        let mut batch = Batch::default();
        let mut evaluated = Vec::new();
        for ((squares, &played), &label) in
            extended.squares.iter().zip(&examples.moves).zip(&examples.move_values)
        {
            let start = extended.moves.len();
            extended.moves.extend(std::iter::repeat_n(played, each));
            extended.move_values.extend(std::iter::repeat_n(label, each));
            // Squares are seen from the mover's side, so the mover can be White.
            let Some(position) = squares.position(Color::White) else { continue };
            let moves = position.legal_moves();
            let others = moves.iter().filter(|mv| policy_index(**mv, Color::White) != played);
            for (place, &mv) in others.sample(&mut random, self.extra).into_iter().enumerate() {
                let index = start + 1 + place;
                extended.moves[index] = policy_index(mv, Color::White);
                let after = position.after(mv);
                match outcome(&after) {
                    Some(label) => extended.move_values[index] = label,
                    None => {
                        batch.push(&after, true, &[]);
                        evaluated.push(index);
                    }
                }
            }
        }
        if !batch.is_empty() {
            let answer = self.teacher.evaluate(batch);
            let scores =
                answer.map_err(|error| TrainError::Backend(error.to_string()))?.scores.values;
            for (index, score) in evaluated.into_iter().zip(scores) {
                // The score is from the opponent's side.
                extended.move_values[index] = -score.round() as i32;
            }
        }
        Ok(extended)
    }
}

/// The label of a move that ends the game, for the side that played it.
fn outcome(after: &Position) -> Option<i32> {
    if !after.has_legal_moves() {
        return Some(if after.is_check() { -mate_label(0) } else { 0 });
    }
    after.is_insufficient_material().then_some(0)
}

#[cfg(test)]
mod tests {
    use board::CastlingMode;
    use nets::{Description, Squares};

    use super::*;

    #[test]
    fn explored_moves_are_legal_and_labelled_for_the_mover() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("teacher.safetensors");
        let mut network = Network::random(Description::batch_first(&[HeadKind::Value]), 1).unwrap();
        network.calibration.value.outputs = vec![-300.0, 300.0];
        network.save(&file).unwrap();
        // Black to move: mate in one (Qh4) among 30 moves.
        let fen = "rnbqkbnr/pppp1ppp/8/4p3/6P1/5P2/PPPPP2P/RNBQKBNR b KQkq - 0 2";
        let position = Position::from_fen(fen, CastlingMode::Standard).unwrap();
        let count = 160;
        let played = policy_index(position.legal_moves()[0], Color::Black);
        let examples = Examples {
            squares: vec![Squares::of(&position); count],
            moves: vec![played; count],
            move_values: vec![7; count],
            ..Examples::default()
        };
        let mut explorer = Explorer::new(&file, 3, 3, 1).unwrap();
        let ours = explorer.explore(5, examples.clone()).unwrap();
        let again = Explorer::new(&file, 3, 3, 2).unwrap().explore(5, examples.clone()).unwrap();
        assert!(
            ours.moves == again.moves && ours.move_values == again.move_values,
            "the same batch gives the same moves"
        );
        assert!(explorer.explore(6, examples).unwrap().moves != ours.moves);
        assert!(ours.moves_each() == 4 && ours.move_values.len() == 4 * count);
        for (moves, labels) in ours.moves.chunks(4).zip(ours.move_values.chunks(4)) {
            assert!(moves[0] == played && labels[0] == 7);
            assert!((1..4).all(|place| !moves[..place].contains(&moves[place])), "none twice");
        }
        let mut mates = 0;
        for (mv, label) in ours.moves.iter().zip(&ours.move_values).filter(|(mv, _)| **mv != played)
        {
            let played = nets::move_of_index(&position, *mv).expect("legal");
            let after = position.after(played);
            if outcome(&after).is_some() {
                // The same label as the PGN reader's for a move that mates.
                assert_eq!(*label, -mate_label(0));
                mates += 1;
                continue;
            }
            let logits =
                eval::reference::run(&network, &Squares::of(&after), after.turn()).unwrap();
            let logit = logits[&HeadKind::Value][0];
            let expected = -network.calibration.value.apply(logit);
            assert!(
                (*label as f32 - expected).abs() < 0.05 * expected.abs() + 15.0,
                "{label} {expected}"
            );
        }
        assert!(mates > 0);
    }
}
