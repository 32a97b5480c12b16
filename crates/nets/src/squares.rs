//! The input of a Batch First network: 15 one-hot planes, stored as one class for each square.

use std::ops::RangeInclusive;

use board::{CastlingMode, Color, Position, Role, Square};

/// Number of input planes.
pub const PLANES: usize = 15;

/// A board from the mover's side: for each square (a1 = 0 … h8 = 63, ranks mirrored when Black
/// moves) the input plane that is set there plus one, or 0 for none.
///
/// Classes: 0 nothing; 1 en-passant target (only where a capture is legal); 2–7 own pawn, knight,
/// bishop, rook, queen, king; 8 own rook that may still castle; 9–14 and 15 the same for the
/// opponent. Every square is set in at most one plane, so these 64 numbers are the whole network
/// input.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Squares(pub [u8; 64]);

impl Default for Squares {
    fn default() -> Self {
        Self([0; 64])
    }
}

pub(crate) const OWN_PAWN: u8 = 2;
const OWN_KING: u8 = 7;
pub(crate) const OWN_CASTLING_ROOK: u8 = 8;
/// Class of an opponent's piece minus the class of the mover's same piece.
pub(crate) const OPPONENT_OFFSET: u8 = 7;
const ROLES: [Role; 6] =
    [Role::Pawn, Role::Knight, Role::Bishop, Role::Rook, Role::Queen, Role::King];

/// The piece of a class: 0 to 5 for pawn to king, and whether it is the mover's. `None`: no piece.
pub(crate) fn class_piece(class: u8) -> Option<(usize, bool)> {
    match class {
        2..=7 => Some((usize::from(class) - 2, true)),
        8 => Some((3, true)),
        9..=14 => Some((usize::from(class) - 9, false)),
        15 => Some((3, false)),
        _ => None,
    }
}

impl Squares {
    /// Encodes a position from its mover's side.
    #[must_use]
    pub fn of(position: &Position) -> Self {
        let turn = position.turn();
        let flip = if turn.is_white() { 0 } else { 56 };
        let board = position.board();
        let mut squares = [0_u8; 64];
        for color in Color::ALL {
            let offset = if color == turn { 0 } else { OPPONENT_OFFSET };
            let own = board.by_color(color);
            for (class, role) in (OWN_PAWN..).zip(ROLES) {
                for square in own & board.by_role(role) {
                    squares[usize::from(square) ^ flip] = class + offset;
                }
            }
            for square in position.castling_rights() & own {
                squares[usize::from(square) ^ flip] = OWN_CASTLING_ROOK + offset;
            }
        }
        if let Some(square) = position.en_passant() {
            squares[usize::from(square) ^ flip] = 1;
        }
        Self(squares)
    }

    /// Packs two squares to a byte, the lower-numbered square in the low four bits.
    #[must_use]
    pub fn pack(&self) -> [u8; 32] {
        std::array::from_fn(|index| self.0[2 * index] | self.0[2 * index + 1] << 4)
    }

    /// The inverse of [`Squares::pack`].
    #[must_use]
    pub fn unpack(packed: &[u8; 32]) -> Self {
        Self(std::array::from_fn(|index| packed[index / 2] >> (4 * (index % 2)) & 15))
    }

    /// Left-right mirror image. It is equivalent only without castling rights, see
    /// [`Squares::can_mirror`].
    #[must_use]
    pub fn mirror(&self) -> Self {
        Self(std::array::from_fn(|index| self.0[index ^ 7]))
    }

    /// True when no castling right would be lost, so that the mirror image has the same value.
    #[must_use]
    pub fn can_mirror(&self) -> bool {
        !self.0.iter().any(|&class| {
            class == OWN_CASTLING_ROOK || class == OWN_CASTLING_ROOK + OPPONENT_OFFSET
        })
    }

    /// Does the mover's king stand on the files a to d?
    pub(crate) fn is_king_left(&self) -> bool {
        let is_left = |rank: &[u8; 8]| rank[..4].contains(&OWN_KING);
        self.0.as_chunks().0.iter().any(is_left)
    }

    /// The set planes as `(square, plane)`, squares ascending, planes 0..15.
    pub fn active(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.0
            .iter()
            .enumerate()
            .filter(|&(_, &class)| class != 0)
            .map(|(square, &class)| (square, usize::from(class) - 1))
    }

    /// The pieces: square, role from 0 for pawn to 5 for king, and whether it is the mover's;
    /// squares ascending.
    pub fn pieces(&self) -> impl Iterator<Item = (usize, usize, bool)> + '_ {
        let piece = |(square, &class)| class_piece(class).map(|(role, own)| (square, role, own));
        self.0.iter().enumerate().filter_map(piece)
    }

    /// Number of men of the mover and of the opponent, kings included.
    #[must_use]
    pub fn men(&self) -> [usize; 2] {
        let count = |classes: RangeInclusive<u8>| {
            self.0.iter().filter(|class| classes.contains(class)).count()
        };
        [
            count(OWN_PAWN..=OWN_CASTLING_ROOK),
            count(OWN_PAWN + OPPONENT_OFFSET..=OWN_CASTLING_ROOK + OPPONENT_OFFSET),
        ]
    }

    /// Rebuilds the position with the given side to move, or `None` if these squares are not a
    /// legal position. Move counters start at zero and one; the position is Chess960 when its
    /// castling rights do not fit standard chess.
    #[must_use]
    pub fn position(&self, turn: Color) -> Option<Position> {
        let flip = if turn.is_white() { 0 } else { 56 };
        let mut setup = board::Setup::empty();
        setup.turn = turn;
        for (square, plane) in self.active() {
            let square = Square::new(u32::try_from(square ^ flip).ok()?);
            let class = u8::try_from(plane).ok()? + 1;
            if class == 1 {
                setup.ep_square = Some(square);
                continue;
            }
            let (color, class) = if class > OWN_CASTLING_ROOK {
                (!turn, class - OPPONENT_OFFSET)
            } else {
                (turn, class)
            };
            if class == OWN_CASTLING_ROOK {
                setup.castling_rights.add(square);
            }
            let role = *ROLES.get(usize::from(class.min(7) - OWN_PAWN)).unwrap_or(&Role::Rook);
            let role = if class == OWN_CASTLING_ROOK { Role::Rook } else { role };
            setup.board.set_piece_at(square, role.of(color));
        }
        Position::from_setup(setup.clone(), CastlingMode::Standard)
            .or_else(|_| Position::from_setup(setup, CastlingMode::Chess960))
            .ok()
    }
}
