//! Opponent model: the opponent may miss a reply that the policy finds unlikely.
//!
//! Minimax assumes that every reply is found, so of two moves of equal value it does not prefer the
//! one that is hard to answer. Where a move is to be played, a reply gets a penalty in proportion
//! to the difference between its log-chance and that of the likeliest reply. This is the largest
//! term of a soft minimum with the policy as prior, so a zero window can still ask for it.
//! (Opponent models in minimax: Carmel and Markovitch 1993, Iida et al. 1993.) Mates, wins by
//! tables and leaves have no penalty.

use crate::score::Value;

/// Largest penalty, in centipawns.
const MOST: u8 = 80;

/// The penalties of the moves of one position.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReplyPenalty {
    /// Centipawns for each unit of the natural logarithm; 0: no penalty.
    errors: Value,
    /// Log-chance of the likeliest move, in hundredths.
    likeliest: i16,
}

impl ReplyPenalty {
    /// `scores`: hundredths of the natural logarithms of the chances of all moves.
    pub(crate) fn new(errors: Value, scores: &[i16]) -> Self {
        let likeliest = if errors > 0 { scores.iter().copied().max() } else { None };
        Self { errors, likeliest: likeliest.unwrap_or_default() }
    }

    /// The penalties at a distance from the root: only the opponent's replies have one, and none at
    /// leaves, because bounds of leaves hold for every root.
    pub(super) fn at(ply: usize, is_leaf: bool, errors: Value, scores: &[i16]) -> Self {
        let may_err = ply % 2 == 1 && !is_leaf;
        Self::new(if may_err { errors } else { 0 }, scores)
    }

    /// The penalty of a move with this score, in centipawns.
    pub(crate) fn of(self, score: i16) -> u8 {
        if self.errors == 0 {
            return 0;
        }
        let below = (Value::from(self.likeliest) - Value::from(score)).max(0);
        u8::try_from(below * self.errors / 100).map_or(MOST, |penalty| penalty.min(MOST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unlikely_replies_count_less() {
        let scores = [-120, -20, -320, -2000];
        assert_eq!(scores.map(|score| ReplyPenalty::new(10, &scores).of(score)), [10, 0, 30, MOST]);
        assert_eq!(
            scores.map(|score| ReplyPenalty::new(0, &scores).of(score)),
            [0; 4],
            "a perfect opponent"
        );
    }

    #[test]
    fn only_the_opponent_errs_and_not_at_leaves() {
        let penalties = |ply, is_leaf| ReplyPenalty::at(ply, is_leaf, 10, &[0, -100]).of(-100);
        assert_eq!(
            [penalties(0, false), penalties(1, false), penalties(2, false), penalties(1, true)],
            [0, 10, 0, 0]
        );
    }
}
