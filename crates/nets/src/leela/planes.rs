//! The 112 input planes of a network of Leela's: eight boards with thirteen planes each, and eight
//! planes of whole boards.
//!
//! A board has the mover's pawns, knights, bishops, rooks, queens, king, the opponent's, and a plane
//! of ones if the position has occurred before; all from the side to move now. The first format then
//! has the mover's right to castle to the queen's and to the king's side, the opponent's, ones if
//! Black is to move, plies since the last capture or pawn move, zeros, and ones. Boards before the
//! standard starting position stay empty; before any other first position it is repeated.
//! [`LeelaInput`] says how the other formats differ.
//!
//! One difference from Leela's own encoder is left: it takes an en-passant capture that a pin forbids
//! for possible.

use std::sync::LazyLock;

use board::{Color, Position};

use super::{input::LeelaInput, symmetry::Symmetry};
use crate::{
    Squares,
    squares::{OPPONENT_OFFSET, OWN_CASTLING_ROOK, class_piece},
};

/// Number of planes.
pub const LEELA_PLANES: usize = 112;

/// The most boards before the current one that matter: as many as a network sees, and as many again
/// of older ones, for the formats that show only boards that had occurred.
pub const PAST_BOARDS: usize = 2 * (BOARDS - 1);

const BOARDS: usize = 8;
const PLANES_A_BOARD: usize = 13;
/// First of the planes of whole boards.
const WHOLE: usize = BOARDS * PLANES_A_BOARD;
/// Whose turn it is, or in canonical formats where an en-passant capture is possible.
const TURN: usize = WHOLE + 4;
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
    /// Plies from it to the current one.
    pub age: u8,
}

impl PastBoard {
    /// The boards before a position, as far as it [remembers](Position::remembering) them and some
    /// network sees them, the newest first: the last seven, and older ones that had occurred and can
    /// occur again.
    pub fn before(position: &Position) -> impl Iterator<Item = Self> + '_ {
        let reversible = position.halfmove_clock().min(u8::MAX.into()) as usize;
        std::iter::successors(position.previous(), |at| at.previous())
            .zip(1..)
            .take_while(move |&(_, age)| age < BOARDS || age <= reversible)
            .filter(|&(at, age)| age < BOARDS || at.has_occurred())
            .take(PAST_BOARDS)
            .map(|(at, age)| Self {
                squares: Squares::of(at),
                has_occurred: at.has_occurred(),
                age: age as u8,
            })
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
    is_in_hectoplies: bool,
}

/// The standard starting position.
static START: LazyLock<Squares> = LazyLock::new(|| Squares::of(&Position::default()));

impl LeelaPlanes {
    /// The planes of a position in one of the formats.
    #[must_use]
    pub fn of(seen: &BoardSeen<'_>, input: LeelaInput) -> Self {
        let mut planes = Self {
            masks: [0; LEELA_PLANES],
            halfmove_clock: seen.halfmove_clock,
            is_in_hectoplies: input.is_in_hectoplies(),
        };
        for (place, board) in boards(seen, input).iter().take(BOARDS).enumerate() {
            planes.set_board(place, board);
        }
        for right in castling_rights(seen.squares) {
            if input.has_castling_rooks() {
                planes.masks[WHOLE + usize::from(right.is_kings_side)] |= 1 << right.rook;
            } else {
                let side = if right.is_own { 0 } else { 2 };
                planes.masks[WHOLE + usize::from(right.is_kings_side) + side] = u64::MAX;
            }
        }
        let black = if seen.turn.is_black() { u64::MAX } else { 0 };
        if input.is_canonical() {
            // On the last rank of the side that pushed the pawn.
            planes.masks[TURN] =
                en_passant(seen.squares).map_or(0, |target| 1 << (56 + target % 8));
        } else {
            planes.masks[TURN] = black;
        }
        planes.masks[FIFTY_MOVES] = u64::MAX;
        planes.masks[WHOLE + 6] = if input.is_armageddon() { black } else { 0 };
        planes.masks[WHOLE + 7] = u64::MAX;
        if input.is_canonical() {
            let symmetry = Symmetry::of(seen.squares);
            planes.masks[..=TURN].iter_mut().for_each(|mask| *mask = symmetry.set(*mask));
        }
        planes
    }

    /// Sets the planes of a board, which is seen from the other side at an odd age.
    fn set_board(&mut self, place: usize, board: &PastBoard) {
        let (first, is_opponents) = (place * PLANES_A_BOARD, board.age % 2 == 1);
        let flip = if is_opponents { 56 } else { 0 };
        for (square, role, own) in board.squares.pieces() {
            let plane = role + if own == is_opponents { 6 } else { 0 };
            self.masks[first + plane] |= 1 << (square ^ flip);
        }
        self.masks[first + 12] = if board.has_occurred { u64::MAX } else { 0 };
    }

    /// Where a plane is set.
    #[must_use]
    pub fn mask(&self, plane: usize) -> u64 {
        self.masks[plane]
    }

    /// The number on the squares where a plane is set.
    #[must_use]
    pub fn value(&self, plane: usize) -> f32 {
        match (plane == FIFTY_MOVES, self.is_in_hectoplies) {
            (true, true) => f32::from(self.halfmove_clock) / 100.0,
            (true, false) => f32::from(self.halfmove_clock),
            _ => 1.0,
        }
    }
}

/// The boards that a network is shown, the current one first.
fn boards(seen: &BoardSeen<'_>, input: LeelaInput) -> Vec<PastBoard> {
    let current = PastBoard { squares: *seen.squares, has_occurred: seen.has_occurred, age: 0 };
    let mut shown = vec![current];
    let past = seen.past.iter();
    if !input.is_canonical() {
        shown.extend(past.take_while(|board| usize::from(board.age) < BOARDS));
        let oldest = shown[shown.len() - 1];
        // Black to move is never the starting position.
        let is_start = oldest.squares == *START && seen.turn.is_white() == (oldest.age % 2 == 0);
        if !is_start {
            repeat(&mut shown, before_double_push(oldest));
        }
        return shown;
    }
    let rights = castling_rooks(seen.squares, false);
    let can_return = |board: &&PastBoard| {
        board.age <= seen.halfmove_clock
            && castling_rooks(&board.squares, board.age % 2 == 1) == rights
            && en_passant(&board.squares).is_none()
    };
    let past = past.take_while(can_return);
    if input.has_repeats_only() {
        shown.extend(past.filter(|board| board.has_occurred));
        return shown;
    }
    shown.extend(past.take_while(|board| usize::from(board.age) < BOARDS));
    let oldest = shown[shown.len() - 1];
    // The first position is repeated if moves were made before it that can be taken back.
    let is_first = shown.len() > seen.past.len();
    if is_first && oldest.age < seen.halfmove_clock && en_passant(&oldest.squares).is_none() {
        repeat(&mut shown, oldest);
    }
    shown
}

/// Fills the places of boards that are not known.
fn repeat(shown: &mut Vec<PastBoard>, oldest: PastBoard) {
    shown.resize(BOARDS.max(shown.len()), oldest);
}

/// The square behind a pawn that may be captured there.
fn en_passant(squares: &Squares) -> Option<usize> {
    squares.0.iter().position(|&class| class == EN_PASSANT)
}

/// A right to castle.
struct CastlingRight {
    is_own: bool,
    is_kings_side: bool,
    /// The rook's square.
    rook: usize,
}

fn castling_rights(squares: &Squares) -> impl Iterator<Item = CastlingRight> + '_ {
    let sides = [(true, OWN_CASTLING_ROOK), (false, OWN_CASTLING_ROOK + OPPONENT_OFFSET)];
    sides.into_iter().flat_map(move |(is_own, class)| {
        let rooks = (0..64).filter(move |&square| squares.0[square] == class);
        let king = squares.pieces().find(|&(_, role, own)| role == 5 && own == is_own);
        let king = king.map(|(square, ..)| square);
        rooks.filter_map(move |rook| {
            Some(CastlingRight { is_own, is_kings_side: rook > king?, rook })
        })
    })
}

/// The squares of rooks that may castle, of the mover and of the opponent, seen from the other side
/// if `is_opponents`.
fn castling_rooks(squares: &Squares, is_opponents: bool) -> [u64; 2] {
    let flip = if is_opponents { 56 } else { 0 };
    let set = |class: u8| {
        let rooks = (0..64).filter(|&square| squares.0[square] == class);
        rooks.fold(0_u64, |set, square| set | 1 << (square ^ flip))
    };
    let [own, other] = [set(OWN_CASTLING_ROOK), set(OWN_CASTLING_ROOK + OPPONENT_OFFSET)];
    if is_opponents { [other, own] } else { [own, other] }
}

/// A first position whose last move was a double push has that taken back where it is repeated.
fn before_double_push(mut board: PastBoard) -> PastBoard {
    if let Some(target) = en_passant(&board.squares)
        && (16..56).contains(&target)
    {
        let squares = &mut board.squares.0;
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
        planes_in(LeelaInput::Classical, fen, moves)
    }

    fn planes_in(input: LeelaInput, fen: Option<&str>, moves: &[&str]) -> LeelaPlanes {
        let start = fen.map_or_else(Position::default, |fen| {
            Position::from_fen(fen, CastlingMode::Standard).unwrap()
        });
        let mut game = Game::new(start.remembering());
        for text in moves {
            game.play(parse_uci(game.position(), text).unwrap());
        }
        let position = game.position();
        let past: Vec<PastBoard> = PastBoard::before(position).collect();
        let seen = BoardSeen {
            squares: &Squares::of(position),
            turn: position.turn(),
            halfmove_clock: position.halfmove_clock() as u8,
            has_occurred: position.has_occurred(),
            past: &past,
        };
        LeelaPlanes::of(&seen, input)
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
