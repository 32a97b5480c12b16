//! An opponent who may not find the best reply.
//!
//! Minimax takes every reply to be found, so between two moves of like worth it does not care which of them is hard to answer; an
//! average over replies, as in PUCT, does. Here, where a move is to be played, a reply that the policy thinks unlikely counts less for the opponent, in proportion to
//! the logarithm of how much less likely it is than the likeliest: the largest term of a soft minimum with the policy as its
//! prior, and so still a question that a zero window can ask. (Models of the opponent in minimax: Carmel and Markovitch 1993, Iida et
//! al. 1993.) Mates, wins by tables and leaves count in full.

use crate::score::Value;

/// The most that a reply may count less, in centipawns.
const MOST: Value = 80;

/// What a reply counts less for the opponent, in centipawns: `errors` for each unit by which the natural logarithm of its chance is
/// below that of the likeliest, both in hundredths.
pub(crate) fn reply_cost(errors: Value, likeliest: i16, score: i16) -> Value {
    ((Value::from(likeliest) - Value::from(score)).max(0) * errors / 100).min(MOST)
}

/// Is it the opponent's turn, so many plies from the root?
pub(super) fn is_to_move(ply: usize) -> bool {
    ply % 2 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unlikely_replies_count_less() {
        assert_eq!([-20, -120, -320].map(|score| reply_cost(10, -20, score)), [0, 10, 30]);
        assert_eq!(reply_cost(10, -20, -2000), MOST);
        assert_eq!(reply_cost(0, -20, -2000), 0, "a perfect opponent");
    }
}
