//! The 112 input planes of a network of Leela's, in its first format: the last eight boards with
//! thirteen planes each, and eight planes of whole boards.
//!
//! A board has the mover's pawns, knights, bishops, rooks, queens, king, the opponent's, and a plane
//! of ones if the position has occurred before; all from the side to move now. Then come the mover's
//! right to castle to the queen's and to the king's side, the opponent's, ones if Black is to move,
//! plies since the last capture or pawn move, zeros, and ones. Boards before the standard starting
//! position stay empty; before any other first position it is repeated.

use std::sync::LazyLock;

use board::{Color, Position};

use crate::{
    Squares,
    squares::{OPPONENT_OFFSET, OWN_CASTLING_ROOK, class_piece},
};

/// Number of planes.
pub const LEELA_PLANES: usize = 112;

/// Boards before the current one that a network sees.
pub const PAST_BOARDS: usize = BOARDS - 1;

const BOARDS: usize = 8;
const PLANES_A_BOARD: usize = 13;
/// First of the planes of whole boards.
const WHOLE: usize = BOARDS * PLANES_A_BOARD;
const FIFTY_MOVES: usize = WHOLE + 5;

/// Class in [`Squares`] of an en-passant target.
const EN_PASSANT: u8 = 1;

/// A board before the current one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PastBoard {
    /// From the side that was to move then.
    pub squares: Squares,
    /// Had it occurred before?
    pub has_occurred: bool,
}

impl PastBoard {
    /// The boards before a position, as far as it [remembers](Position::remembering) them and a
    /// network sees them, the newest first.
    pub fn before(position: &Position) -> impl Iterator<Item = Self> + '_ {
        std::iter::successors(position.previous(), |at| at.previous())
            .take(PAST_BOARDS)
            .map(|at| Self { squares: Squares::of(at), has_occurred: at.has_occurred() })
    }
}

/// All that a network may be told of a position.
#[derive(Clone, Copy, Debug)]
pub struct BoardSeen<'a> {
    /// From the side to move.
    pub squares: &'a Squares,
    pub turn: Color,
    /// Plies since the last capture or pawn move.
    pub halfmove_clock: u8,
    /// Has the position occurred before?
    pub has_occurred: bool,
    /// The boards before, the newest first; at most [`PAST_BOARDS`] count.
    pub past: &'a [PastBoard],
}

impl<'a> BoardSeen<'a> {
    /// A board of which nothing else is known.
    #[must_use]
    pub fn alone(squares: &'a Squares, turn: Color) -> Self {
        Self { squares, turn, halfmove_clock: 0, has_occurred: false, past: &[] }
    }
}

/// Sets of squares from the side to move, a1 = bit 0, one a plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeelaPlanes {
    masks: [u64; LEELA_PLANES],
    halfmove_clock: u8,
}

/// The standard starting position.
static START: LazyLock<Squares> = LazyLock::new(|| Squares::of(&Position::default()));

impl LeelaPlanes {
    /// The planes of a position.
    #[must_use]
    pub fn of(seen: &BoardSeen<'_>) -> Self {
        let current = PastBoard { squares: *seen.squares, has_occurred: seen.has_occurred };
        let known = std::iter::once(&current).chain(&seen.past[..seen.past.len().min(PAST_BOARDS)]);
        let mut planes = Self { masks: [0; LEELA_PLANES], halfmove_clock: seen.halfmove_clock };
        let mut oldest = (0, current);
        for (age, board) in known.enumerate() {
            planes.set_board(age, board, age % 2 == 1);
            oldest = (age, *board);
        }
        let (age, board) = oldest;
        // Black to move is never the starting position.
        let is_start = board.squares == *START && seen.turn.is_white() == (age % 2 == 0);
        if !is_start {
            let board = before_double_push(board);
            for missing in age + 1..BOARDS {
                planes.set_board(missing, &board, age % 2 == 1);
            }
        }
        planes.set_castling(seen.squares);
        if seen.turn.is_black() {
            planes.masks[WHOLE + 4] = u64::MAX;
        }
        planes.masks[FIFTY_MOVES] = u64::MAX;
        planes.masks[WHOLE + 7] = u64::MAX;
        planes
    }

    /// Sets the planes of the board of this age; `is_opponents`: is it seen from the other side?
    fn set_board(&mut self, age: usize, board: &PastBoard, is_opponents: bool) {
        let first = age * PLANES_A_BOARD;
        let flip = if is_opponents { 56 } else { 0 };
        for (square, role, own) in board.squares.pieces() {
            let plane = role + if own == is_opponents { 6 } else { 0 };
            self.masks[first + plane] |= 1 << (square ^ flip);
        }
        self.masks[first + 12] = if board.has_occurred { u64::MAX } else { 0 };
    }

    fn set_castling(&mut self, squares: &Squares) {
        let king = |mine: bool| squares.pieces().find(|&(_, role, own)| role == 5 && own == mine);
        for (side, class) in
            [(true, OWN_CASTLING_ROOK), (false, OWN_CASTLING_ROOK + OPPONENT_OFFSET)]
        {
            let Some((king, ..)) = king(side) else { continue };
            let rooks = (0..64).filter(|&square| squares.0[square] == class);
            for rook in rooks {
                let plane = WHOLE + usize::from(rook > king) + if side { 0 } else { 2 };
                self.masks[plane] = u64::MAX;
            }
        }
    }

    /// Where a plane is set.
    #[must_use]
    pub fn mask(&self, plane: usize) -> u64 {
        self.masks[plane]
    }

    /// The number on the squares where a plane is set.
    #[must_use]
    pub fn value(&self, plane: usize) -> f32 {
        if plane == FIFTY_MOVES { f32::from(self.halfmove_clock) } else { 1.0 }
    }
}

/// A first position whose last move was a double push has that taken back where it is repeated.
fn before_double_push(mut board: PastBoard) -> PastBoard {
    let squares = &mut board.squares.0;
    if let Some(target) = squares.iter().position(|&class| class == EN_PASSANT)
        && (16..56).contains(&target)
    {
        let (from, to) = (target + 8, target - 8);
        debug_assert_eq!(class_piece(squares[to]), Some((0, false)));
        squares.swap(from, to);
    }
    board
}

#[cfg(test)]
mod tests {
    use board::{CastlingMode, Game, parse_uci};

    use super::*;

    fn planes(fen: Option<&str>, moves: &[&str]) -> LeelaPlanes {
        let start = fen.map_or_else(Position::default, |fen| {
            Position::from_fen(fen, CastlingMode::Standard).unwrap()
        });
        let mut game = Game::new(start.remembering());
        for text in moves {
            game.play(parse_uci(game.position(), text).unwrap());
        }
        let position = game.position();
        let past: Vec<PastBoard> = PastBoard::before(position).collect();
        LeelaPlanes::of(&BoardSeen {
            squares: &Squares::of(position),
            turn: position.turn(),
            halfmove_clock: position.halfmove_clock() as u8,
            has_occurred: position.has_occurred(),
            past: &past,
        })
    }

    const OWN_PAWNS: usize = 0;
    const OPPONENTS_PAWNS: usize = 6;
    const OCCURRED: usize = 12;

    #[test]
    fn boards_are_seen_from_the_side_to_move_now() {
        let planes = planes(None, &["e2e4", "e7e5", "g1f3"]);
        let second_rank = 0xff00;
        let black_pawns = second_rank & !(1 << 12) | 1 << 28;
        assert_eq!(planes.mask(OWN_PAWNS), black_pawns, "Black is to move");
        assert_eq!(planes.mask(PLANES_A_BOARD + OWN_PAWNS), black_pawns);
        assert_eq!(planes.mask(2 * PLANES_A_BOARD + OWN_PAWNS), second_rank);
        let white_pawns = second_rank << 40 & !(1 << 52) | 1 << 36;
        assert_eq!(planes.mask(2 * PLANES_A_BOARD + OPPONENTS_PAWNS), white_pawns);
        assert_eq!(planes.mask(4 * PLANES_A_BOARD), 0, "nothing before the start");
        assert_eq!((planes.mask(WHOLE + 4), planes.mask(WHOLE + 7)), (u64::MAX, u64::MAX));
        assert_eq!((planes.mask(FIFTY_MOVES), planes.value(FIFTY_MOVES)), (u64::MAX, 1.0));
    }

    #[test]
    fn another_first_position_is_repeated_without_its_double_push() {
        let fen = "rnbqkbnr/ppp1pppp/8/8/3pP3/8/PPPP1PPP/RNBQKBNR b KQkq e3 0 3";
        let planes = planes(Some(fen), &[]);
        let pawns = |age: usize| planes.mask(age * PLANES_A_BOARD + OPPONENTS_PAWNS);
        let home = 0xff << 48;
        assert_eq!(pawns(0), home & !(1 << 52) | 1 << 36);
        assert!((1..8).all(|age| pawns(age) == home));
    }

    #[test]
    fn castling_and_repetitions_are_whole_planes() {
        let fen = "r3k2r/8/8/8/8/8/8/R3K2R w Kq - 0 1";
        let planes = planes(Some(fen), &["a1b1", "a8b8", "b1a1", "b8a8"]);
        assert_eq!(
            (0..4).map(|plane| planes.mask(WHOLE + plane) != 0).collect::<Vec<_>>(),
            [false, true, false, false]
        );
        assert_eq!(planes.mask(OCCURRED), 0, "Black lost a right meanwhile");
        let again = self::planes(None, &["g1f3", "g8f6", "f3g1", "f6g8", "e2e4"]);
        assert_eq!(again.mask(OCCURRED), 0);
        assert_eq!(again.mask(PLANES_A_BOARD + OCCURRED), u64::MAX);
        assert_eq!(again.mask(5 * PLANES_A_BOARD + OCCURRED), 0);
    }
}
