//! Counting the leaves of the move tree: the usual proof of a move generator.

use crate::Position;

/// The number of move sequences of exactly `depth` plies from `position`.
#[must_use]
pub fn perft(position: &Position, depth: u32) -> u64 {
    stoppable_perft(position, depth, &|| false).unwrap_or_default()
}

/// As [`perft`]; `None` if `is_stopped` is true before the end.
#[must_use]
pub fn stoppable_perft(
    position: &Position,
    depth: u32,
    is_stopped: &dyn Fn() -> bool,
) -> Option<u64> {
    if depth == 0 {
        return Some(1);
    }
    let moves = position.legal_moves();
    if depth == 1 {
        return Some(moves.len() as u64);
    }
    if is_stopped() {
        return None;
    }
    moves.iter().try_fold(0_u64, |sum, &mv| {
        Some(sum.saturating_add(stoppable_perft(&position.after(mv), depth - 1, is_stopped)?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_the_start_position_unless_stopped() {
        assert_eq!(perft(&Position::default(), 4), 197_281);
        assert_eq!(stoppable_perft(&Position::default(), 4, &|| true), None);
    }
}
