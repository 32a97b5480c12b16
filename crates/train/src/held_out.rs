//! Held-out positions, on which networks are validated and calibrated.

use data::{ExampleInfo, GameResult, Record};
use nets::HeadKind;

use crate::{Examples, dataset::turn, played::is_within_margin};

/// Held-out examples of one source; parallel vectors.
#[derive(Clone, Debug, Default)]
pub struct HeldOut {
    pub source: String,
    /// For a move head with one move for each position, of weight 0 if it was a mistake. For a
    /// selector with the target square.
    pub examples: Examples,
    /// For a selector: true when the position occurs in the training data.
    pub seen: Vec<bool>,
    /// Number of men on the board.
    pub men: Vec<u8>,
    pub results: Vec<GameResult>,
    /// True when White is to move; needed by encodings from White's side.
    pub white_to_move: Vec<bool>,
}

impl HeldOut {
    /// Number of positions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.examples.squares.len()
    }

    /// True when there are no positions.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.examples.squares.is_empty()
    }

    /// At most `count` positions, evenly spread; 0: all.
    #[must_use]
    pub fn sample(&self, count: usize) -> Self {
        if count == 0 || count >= self.len() {
            return self.clone();
        }
        let picks: Vec<usize> = (0..count).map(|index| index * self.len() / count).collect();
        fn pick<T: Copy>(from: &[T], picks: &[usize]) -> Vec<T> {
            if from.is_empty() {
                Vec::new()
            } else {
                picks.iter().map(|&index| from[index]).collect()
            }
        }
        Self {
            source: self.source.clone(),
            examples: Examples {
                squares: pick(&self.examples.squares, &picks),
                turns: pick(&self.examples.turns, &picks),
                values: pick(&self.examples.values, &picks),
                moves: pick(&self.examples.moves, &picks),
                move_values: pick(&self.examples.move_values, &picks),
                weights: pick(&self.examples.weights, &picks),
                targets: pick(&self.examples.targets, &picks),
                ends: Vec::new(),
            },
            seen: pick(&self.seen, &picks),
            men: pick(&self.men, &picks),
            results: pick(&self.results, &picks),
            white_to_move: pick(&self.white_to_move, &picks),
        }
    }
}

impl HeldOut {
    /// Adds a record with its label for `head`; `margin` (centipawns): see
    /// [`crate::DataSection::blunder_margin`].
    pub(crate) fn push(&mut self, record: &Record, label: i32, head: HeadKind, margin: i32) {
        self.examples.squares.push(record.squares);
        self.examples.turns.push(turn(record.white_to_move));
        match head {
            HeadKind::Value => self.examples.values.push(label),
            _ if head.is_selector() => self.examples.targets.push(label as u8),
            _ => {
                let kept = is_within_margin(record.value, label, margin);
                self.examples.moves.push(record.played);
                self.examples.move_values.push(label);
                self.examples.weights.push(f32::from(u8::from(kept)));
            }
        }
        self.men.push(ExampleInfo::of(record).pieces);
        self.results.push(record.result);
        self.white_to_move.push(record.white_to_move);
    }
}
