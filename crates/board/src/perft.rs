//! Counting the leaves of the move tree: the usual proof of a move generator.

use crate::Position;

/// The number of move sequences of exactly `depth` plies from `position`.
#[must_use]
pub fn perft(position: &Position, depth: u32) -> u64 {
    if depth == 0 {
        return 1;
    }
    let moves = position.legal_moves();
    if depth == 1 {
        return moves.len() as u64;
    }
    moves.into_iter().map(|mv| perft(&position.after(mv), depth - 1)).sum()
}
