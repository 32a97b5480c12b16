//! `go perft`: counts the move tree, to check move generation against other programs.

use board::Position;
use search::Control;

/// Leaves at `depth` plies; `None` when stopped.
pub(super) fn perft(position: &Position, depth: u32, control: &Control) -> Option<u64> {
    let moves = position.legal_moves();
    match depth {
        0 => Some(1),
        1 => Some(moves.len() as u64),
        _ if control.is_stopped() => None,
        _ => moves.iter().try_fold(0_u64, |sum, &mv| {
            Some(sum.saturating_add(perft(&position.after(mv), depth - 1, control)?))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_the_start_position() {
        assert_eq!(perft(&Position::default(), 4, &Control::default()), Some(197_281));
        let stopped = Control::default();
        stopped.stop();
        assert_eq!(perft(&Position::default(), 4, &stopped), None);
    }
}
