//! The inputs of a network of Stockfish: a piece on a square, seen by a player whose king stands on
//! a certain square. The board is turned so that the player's side is below and the king on the
//! right half.

use board::Color;

/// Inputs of one square of the king: ten kinds of pieces and both kings, on 64 squares.
const OF_A_KING: usize = 11 * 64;
/// All inputs: squares of the king on half of the board.
pub(super) const FEATURES: usize = 32 * OF_A_KING;

/// The input of a piece of `kind` (White's pawn to king, then Black's) on `square`, for a player
/// whose king stands on `king`.
pub(super) fn feature(player: Color, king: usize, kind: usize, square: usize) -> usize {
    let upright = if player.is_white() { 0 } else { 56 };
    let mirror = if king % 8 < 4 { 7 } else { 0 };
    let king = king ^ upright;
    let file = (king % 8).min(7 - king % 8);
    let role = kind % 6;
    let is_own = (kind < 6) == player.is_white();
    let plane = if role == 5 { 10 } else { 2 * role + usize::from(!is_own) };
    ((7 - king / 8) * 4 + file) * OF_A_KING + plane * 64 + (square ^ upright ^ mirror)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both players see the same of a position and its mirror image.
    #[test]
    fn a_turned_board_has_the_same_features() {
        for king in 0..64 {
            for (kind, square) in [(0, 8), (3, 35), (5, king), (7, 63), (11, 2)] {
                let white = feature(Color::White, king, kind, square);
                let black = feature(Color::Black, king ^ 56, (kind + 6) % 12, square ^ 56);
                let mirrored = feature(Color::White, king ^ 7, kind, square ^ 7);
                assert!(white == black && white == mirrored && white < FEATURES);
            }
        }
        assert_eq!(feature(Color::White, 63, 0, 63), 63, "own pawn, king on h8");
        assert_eq!(feature(Color::White, 4, 11, 60), 31 * OF_A_KING + 640 + 60);
    }
}
