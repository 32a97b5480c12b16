//! The compact format in which boards are uploaded: 200 bits each.
//!
//! 64 bits say which squares are occupied. Then follow four bits for each occupied square, at most
//! 33 (32 men and an en-passant target), and four bits that are 1 if every state is 16 higher
//! (Cockfish's plane of ones). The device computes the attackers of each square.

use board::Color;
use nets::{Encoding, Squares};

use crate::EvalError;

/// Bytes of a packed board.
pub(crate) const BYTES: usize = 25;

/// The most occupied squares, including an en-passant target.
const MOST: usize = 33;

/// The number that is added to every state if the last four bits are 1.
const RAISE: u8 = 16;

/// Appends a board, given from the side to move, as states of `encoding` without attackers.
///
/// # Errors
/// More than 33 squares are occupied.
pub(crate) fn pack(
    encoding: Encoding,
    squares: &Squares,
    turn: Color,
    bytes: &mut Vec<u8>,
) -> Result<(), EvalError> {
    let states = match encoding {
        _ if encoding.has_attackers() => encoding.board_of(squares).0,
        _ => encoding.states_of(squares, turn),
    };
    let first = bytes.len();
    bytes.resize(first + BYTES, 0);
    let board = &mut bytes[first..];
    let mut held = 0;
    for (square, state) in states.into_iter().enumerate() {
        if state >= RAISE {
            board[BYTES - 1] |= 1 << 4;
        }
        let state = state % RAISE;
        if state == 0 {
            continue;
        }
        if held == MOST {
            return Err(EvalError::Device(format!("a board with more than {MOST} squares in use")));
        }
        board[square / 8] |= 1 << (square % 8);
        board[8 + held / 2] |= state << (4 * (held % 2));
        held += 1;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use board::{CastlingMode, Position};

    use super::*;

    /// The states of the squares, as the device unpacks them.
    fn unpack(board: &[u8]) -> [u8; 64] {
        let mut held = 0;
        std::array::from_fn(|square| {
            let raise = board[BYTES - 1] >> 4 << 4;
            if board[square / 8] >> (square % 8) & 1 == 0 {
                return raise;
            }
            held += 1;
            (board[8 + (held - 1) / 2] >> (4 * ((held - 1) % 2)) & 15) + raise
        })
    }

    #[test]
    fn every_encoding_is_unpacked_as_it_was_packed() {
        let fens = [
            "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1",
            // 32 men and an en-passant target: 33 squares.
            "rnbqkbnr/ppp1pppp/8/8/3pP3/7N/PPPP1PPP/RNBQKB1R b KQkq e3 0 3",
            "8/8/8/4k3/8/8/4K3/8 b - - 0 1",
            "8/8/8/4k3/8/P7/2K5/8 w - - 0 1",
        ];
        let mut bytes = Vec::new();
        let mut expected = Vec::new();
        for fen in fens {
            let position = Position::from_fen(fen, CastlingMode::Standard).unwrap();
            for encoding in [Encoding::BatchFirst15, Encoding::Cockfish13, Encoding::ConvChess6] {
                let squares = Squares::of(&position);
                pack(encoding, &squares, position.turn(), &mut bytes).unwrap();
                expected.push(encoding.states_of(&squares, position.turn()));
            }
            for encoding in [Encoding::Attacks21, Encoding::KingRight21] {
                let squares = Squares::of(&position);
                pack(encoding, &squares, position.turn(), &mut bytes).unwrap();
                expected.push(encoding.board_of(&squares).0);
            }
        }
        let found: Vec<[u8; 64]> = bytes.chunks(BYTES).map(unpack).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_board_with_too_many_men_is_refused() {
        let squares = Squares([2; 64]);
        assert!(pack(Encoding::BatchFirst15, &squares, Color::White, &mut Vec::new()).is_err());
    }
}
