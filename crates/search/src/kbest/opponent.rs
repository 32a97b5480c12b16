//! An opponent who may not find the best reply.
//!
//! Minimax takes every reply to be found, so between two moves of like worth it does not care which
//! of them is hard to answer; an average over replies, as in PUCT, does. Here, where a move is to
//! be played, a reply that the policy thinks unlikely counts less for the opponent, in proportion
//! to the logarithm of how much less likely it is than the likeliest: the largest term of a soft
//! minimum with the policy as its prior, and so still a question that a zero window can ask.
//! (Models of the opponent in minimax: Carmel and Markovitch 1993, Iida et al. 1993.) Mates, wins
//! by tables and leaves count in full.

use crate::score::Value;

/// The most that a reply may count less, in centipawns.
const MOST: u8 = 80;

/// What the moves of one position count less than they are worth.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReplyPenalty {
    /// Centipawns for each unit of the natural logarithm; 0: every move counts in full.
    errors: Value,
    /// Of the likeliest move, in hundredths.
    likeliest: i16,
}

impl ReplyPenalty {
    /// `scores`: hundredths of the natural logarithms of the chances of all moves.
    pub(crate) fn new(errors: Value, scores: &[i16]) -> Self {
        let likeliest = if errors > 0 { scores.iter().copied().max() } else { None };
        Self { errors, likeliest: likeliest.unwrap_or_default() }
    }

    /// Those of a position so many plies from the root: only the opponent errs, and not at leaves,
    /// because what these learn holds for every root.
    pub(super) fn at(ply: usize, is_leaf: bool, errors: Value, scores: &[i16]) -> Self {
        let may_err = ply % 2 == 1 && !is_leaf;
        Self::new(if may_err { errors } else { 0 }, scores)
    }

    /// Centipawns that a move with this score counts less.
    pub(crate) fn of(self, score: i16) -> u8 {
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
