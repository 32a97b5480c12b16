//! The input planes of a position as a table: every square is in one of a few states, and each
//! state sets a few planes. An executor can therefore look weights up by state instead of
//! multiplying by planes.

use board::Color;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

use crate::{LEELA_PLANES, LeelaInput, PLANES, Squares, attacks, squares::class_piece};

/// The rule by which a position becomes input planes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// [`Squares`]: 15 one-hot planes from the mover's side.
    BatchFirst15,
    /// Cockfish's planes: White's pawn, knight, bishop, rook, queen, king, then Black's, each
    /// one-hot and seen from White's side, and a plane of ones when White moves. Outputs are from
    /// White's side.
    Cockfish13,
    /// ConvChess's planes: one for each piece type from the mover's side, 1 for the mover's and -1
    /// for the opponent's pieces.
    ConvChess6,
    /// [`Squares`], then three planes for the mover and three for the opponent: the square's
    /// cheapest attacker is a pawn; a knight or bishop; a rook, queen or king.
    Attacks21,
    /// [`Encoding::Attacks21`] of the board or of its mirror image: the mover's king stands on the
    /// files e to h, wherever no castling right forbids the mirror image. A network learns half as
    /// many boards. Moves are those of the image ([`MovePlaces`](crate::MovePlaces)).
    KingRight21,
    /// [`LeelaPlanes`](crate::LeelaPlanes): planes of eight boards, which are no states of squares.
    Leela(LeelaInput),
}

impl Serialize for Encoding {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Encoding {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Self::all().find(|encoding| encoding.name() == name).ok_or_else(|| {
            let known: Vec<&str> = Self::all().map(Self::name).collect();
            D::Error::custom(format!("unknown input `{name}`; known are {}", known.join(", ")))
        })
    }
}

/// Number of classes of a square in [`Squares`].
const CLASSES: u8 = PLANES as u8 + 1;

impl Encoding {
    /// Every encoding.
    fn all() -> impl Iterator<Item = Self> {
        let ours = [
            Self::BatchFirst15,
            Self::Cockfish13,
            Self::ConvChess6,
            Self::Attacks21,
            Self::KingRight21,
        ];
        ours.into_iter().chain(LeelaInput::ALL.map(Self::Leela))
    }

    /// The name in network files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::BatchFirst15 => "batch-first-15",
            Self::Cockfish13 => "cockfish-13",
            Self::ConvChess6 => "convchess-6",
            Self::Attacks21 => "attacks-21",
            Self::KingRight21 => "attacks-21-king-right",
            Self::Leela(input) => input.name(),
        }
    }

    /// Number of input planes.
    #[must_use]
    pub fn planes(self) -> usize {
        match self {
            Self::BatchFirst15 => PLANES,
            Self::Cockfish13 => 13,
            Self::ConvChess6 => 6,
            Self::Attacks21 | Self::KingRight21 => PLANES + 6,
            Self::Leela(_) => LEELA_PLANES,
        }
    }

    /// Do the planes depend on more than the board? Then a network's first layer reads planes, not
    /// states of squares.
    #[must_use]
    pub fn has_history(self) -> bool {
        matches!(self, Self::Leela(_))
    }

    /// Number of states of a square, at most 256; [`Encoding::states_of`] returns numbers below it.
    /// 0 with [history](Encoding::has_history).
    #[must_use]
    pub fn states(self) -> usize {
        match self {
            Self::Cockfish13 => 2 * usize::from(CLASSES),
            Self::BatchFirst15 | Self::ConvChess6 => usize::from(CLASSES),
            Self::Attacks21 | Self::KingRight21 => 16 * usize::from(CLASSES),
            Self::Leela(_) => 0,
        }
    }

    /// The state of every square of a board. `squares` is seen from the mover's side; `turn` is the
    /// mover.
    #[must_use]
    pub fn states_of(self, squares: &Squares, turn: Color) -> [u8; 64] {
        match self {
            Self::BatchFirst15 | Self::ConvChess6 | Self::Leela(_) => squares.0,
            // States 16 to 31 mean that White moves; Black's view is mirrored back to White's.
            Self::Cockfish13 if turn.is_white() => squares.0.map(|class| class + CLASSES),
            Self::Cockfish13 => std::array::from_fn(|square| squares.0[square ^ 56]),
            // State = class + 16 x the mover's attacker + 64 x the opponent's attacker.
            Self::Attacks21 | Self::KingRight21 => {
                let squares = self.board_of(squares);
                let [own, other] = attacks::cheapest(&squares);
                std::array::from_fn(|square| {
                    squares.0[square] | own[square] << 4 | other[square] << 6
                })
            }
        }
    }

    /// The planes that a square in this state sets, with their values.
    #[must_use]
    pub fn planes_of(self, state: usize) -> Vec<(usize, f32)> {
        let class = (state % usize::from(CLASSES)) as u8;
        match self {
            Self::BatchFirst15 | Self::Attacks21 | Self::KingRight21 => {
                let plane = usize::from(class).checked_sub(1);
                let own = (state >> 4 & 3).checked_sub(1).map(|attacker| PLANES + attacker);
                let other = (state >> 6).checked_sub(1).map(|attacker| PLANES + 3 + attacker);
                [plane, own, other].into_iter().flatten().map(|plane| (plane, 1.0)).collect()
            }
            Self::Leela(_) => Vec::new(),
            Self::ConvChess6 => class_piece(class)
                .map(|(role, own)| (role, if own { 1.0 } else { -1.0 }))
                .into_iter()
                .collect(),
            Self::Cockfish13 => {
                let white_moves = state >= usize::from(CLASSES);
                let piece = class_piece(class)
                    .map(|(role, own)| (if own == white_moves { role } else { role + 6 }, 1.0));
                piece.into_iter().chain(white_moves.then_some((12, 1.0))).collect()
            }
        }
    }

    /// Do the planes say who attacks a square?
    #[must_use]
    pub fn has_attackers(self) -> bool {
        matches!(self, Self::Attacks21 | Self::KingRight21)
    }

    /// Is the mirror image of this board encoded in its place?
    #[must_use]
    pub fn mirrors(self, squares: &Squares) -> bool {
        self == Self::KingRight21 && squares.is_king_left() && squares.can_mirror()
    }

    /// The board that is encoded: this one or its mirror image.
    #[must_use]
    pub fn board_of(self, squares: &Squares) -> Squares {
        if self.mirrors(squares) { squares.mirror() } else { *squares }
    }

    /// True when outputs are from White's side; otherwise they are from the mover's side.
    #[must_use]
    pub fn is_whites_view(self) -> bool {
        self == Self::Cockfish13
    }
}
