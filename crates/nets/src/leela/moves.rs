//! The places of moves among the outputs of a policy, from their index in ours. A policy of ours has
//! a move at its index, or at that of its mirror image where the network sees that.
//!
//! Leela's policies differ from ours in promotions: the plain move is the one to a knight, and
//! queen, bishop and rook have outputs of their own. A castling move is the king taking its own rook
//! in both.

use std::sync::LazyLock;

use super::symmetry::Symmetry;
use crate::{
    Encoding, HeadOutput, PolicyIndex, Squares, mirror_index,
    moves::{FIRST_UNDERPROMOTION, MOVE_PLANES, plane_of_squares, step_of_plane},
    squares::OWN_PAWN,
};

/// Outputs of a policy that is a list of moves.
pub const LEELA_MOVES: usize = 1858;

/// Outputs a square of a policy of move planes; the last seven are not used.
pub const LEELA_MOVE_PLANES: usize = 80;

/// The places of a position's moves among the outputs of a head of moves.
#[derive(Clone, Copy, Debug)]
pub struct MovePlaces<'a> {
    output: HeadOutput,
    squares: &'a Squares,
    symmetry: Symmetry,
    /// Does the network see the mirror image?
    is_mirrored: bool,
}

impl<'a> MovePlaces<'a> {
    /// For a head with these outputs of a network with this encoding, and a board from its mover's
    /// side.
    #[must_use]
    pub fn new(output: HeadOutput, encoding: Encoding, squares: &'a Squares) -> Self {
        let symmetry = match encoding {
            Encoding::Leela(input) if input.is_canonical() => Symmetry::of(squares),
            _ => Symmetry::default(),
        };
        Self { output, squares, symmetry, is_mirrored: encoding.mirrors(squares) }
    }

    /// The place of the move with this index.
    #[must_use]
    pub fn of(&self, index: PolicyIndex) -> usize {
        let parts = || Parts::of(index, self.squares, self.symmetry);
        match self.output {
            HeadOutput::LeelaPlanes => place_among_planes(&parts()),
            HeadOutput::LeelaMoves => place_among_moves(&parts()),
            HeadOutput::LeelaPairs => place_among_pairs(&parts()),
            HeadOutput::Plain | HeadOutput::WinDrawLoss | HeadOutput::Expectation => {
                usize::from(if self.is_mirrored { mirror_index(index) } else { index })
            }
        }
    }
}

/// The piece that a move promotes a pawn to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Promotion {
    /// No promotion, or one to a knight.
    Plain,
    Queen,
    Rook,
    Bishop,
}

impl Promotion {
    /// The order of promotions in lists of moves, where a plain move has a place of its own.
    fn column(self) -> Option<usize> {
        match self {
            Self::Plain => None,
            Self::Queen => Some(0),
            Self::Rook => Some(1),
            Self::Bishop => Some(2),
        }
    }
}

/// From-square, to-square and promotion of an index of ours, in the network's orientation.
struct Parts {
    from: usize,
    to: usize,
    promotion: Promotion,
}

impl Parts {
    fn of(index: PolicyIndex, squares: &Squares, symmetry: Symmetry) -> Self {
        let (from, plane) = (usize::from(index) / MOVE_PLANES, usize::from(index) % MOVE_PLANES);
        let step = step_of_plane(plane);
        let promotion = match plane.checked_sub(FIRST_UNDERPROMOTION) {
            Some(0..3) => Promotion::Plain,
            Some(3..6) => Promotion::Bishop,
            Some(_) => Promotion::Rook,
            None if from / 8 == 6 && step.1 == 1 && squares.0[from] == OWN_PAWN => Promotion::Queen,
            None => Promotion::Plain,
        };
        let from = symmetry.square(from);
        Self { from, to: target(from, symmetry.step(step)), promotion }
    }
}

/// The square a step away, for steps of legal moves.
fn target(from: usize, (file, rank): (i32, i32)) -> usize {
    (from as i32 + 8 * rank + file).clamp(0, 63) as usize
}

/// The place of a move among [`LEELA_MOVES`].
fn place_among_moves(&Parts { from, to, promotion }: &Parts) -> usize {
    let Some(column) = promotion.column() else { return usize::from(PLACES[from * 64 + to]) };
    // Behind the plain moves: files from a to h, each to the left, straight and to the right (file a
    // has no left, file h no right), and three pieces.
    let file = from % 8;
    let ways = (3 * file).saturating_sub(1);
    // A step off the board is not a legal move; it gets some place.
    let way = (to % 8 + usize::from(file > 0)).saturating_sub(file).min(2);
    (PLAIN_MOVES + 3 * (ways + way) + column).min(LEELA_MOVES - 1)
}

/// Moves to a square that some piece could reach on an empty board.
const PLAIN_MOVES: usize = 1792;

/// The place of each plain move, at `64 * from + to`.
static PLACES: LazyLock<Vec<u16>> = LazyLock::new(|| {
    let mut places = vec![0; 64 * 64];
    let mut next = 0;
    for (at, place) in places.iter_mut().enumerate() {
        let (from, to) = (at as i32 / 64, at as i32 % 64);
        let (file, rank) = ((to % 8 - from % 8).abs(), (to / 8 - from / 8).abs());
        let is_queens = from != to && (file == 0 || rank == 0 || file == rank);
        if is_queens || file.min(rank) == 1 && file.max(rank) == 2 {
            *place = next;
            next += 1;
        }
    }
    debug_assert_eq!(usize::from(next), PLAIN_MOVES);
    places
});

/// The place of a move among the outputs of [`LEELA_MOVE_PLANES`] planes, all planes of a square
/// together.
fn place_among_planes(&Parts { from, to, promotion }: &Parts) -> usize {
    let way = (to % 8 + 1).saturating_sub(from % 8).min(2);
    let plane = match promotion {
        Promotion::Plain => plane_of_squares(from, to),
        Promotion::Rook => 64 + 3 * way,
        Promotion::Bishop => 65 + 3 * way,
        Promotion::Queen => 66 + 3 * way,
    };
    from * LEELA_MOVE_PLANES + plane
}

/// Outputs of a policy of attention: each from-square with each to-square, then the promotions of
/// each file to each, to queen, rook and bishop.
pub const LEELA_MOVE_PAIRS: usize = 64 * 64 + 8 * 8 * 3;

/// The place of a move among [`LEELA_MOVE_PAIRS`].
fn place_among_pairs(&Parts { from, to, promotion }: &Parts) -> usize {
    let Some(column) = promotion.column() else { return from * 64 + to };
    64 * 64 + from % 8 * 24 + to % 8 * 3 + column
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use board::{CastlingMode, Position, parse_uci};

    use super::*;
    use crate::{LeelaInput, policy_index};

    const CLASSICAL: Encoding = Encoding::Leela(LeelaInput::Classical);

    fn places(fen: &str, moves: &[&str]) -> Vec<usize> {
        let position = Position::from_fen(fen, CastlingMode::Standard).unwrap();
        let squares = Squares::of(&position);
        let place = |text: &&str| {
            let mv = parse_uci(&position, text).unwrap();
            let index = policy_index(mv, position.turn());
            MovePlaces::new(HeadOutput::LeelaMoves, CLASSICAL, &squares).of(index)
        };
        moves.iter().map(place).collect()
    }

    #[test]
    fn places_are_those_of_the_format() {
        let castling = "r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 0 1";
        assert_eq!(places(castling, &["e1g1", "e1c1"]), [103, 97]);
        let start = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1";
        assert_eq!(places(start, &["b1a3", "b1c3"]), [34, 36]);
        // The first and the last promotion.
        assert_eq!(places("8/P3k3/8/8/8/8/8/4K3 w - - 0 1", &["a7a8q", "a7a8b"]), [1792, 1794]);
        assert_eq!(places("8/4k2P/8/8/8/8/8/4K3 w - - 0 1", &["h7h8q", "h7h8b"]), [1855, 1857]);
        // Black's promotions are seen from its side.
        assert_eq!(places("4k3/8/8/8/8/8/p3K3/8 b - - 0 1", &["a2a1q"]), [1792]);
    }

    #[test]
    fn different_moves_have_different_places() {
        for fen in [
            "r3k2r/P1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/1PPBBPPP/R3K2R w KQkq - 0 1",
            "1r1r4/P1P1k3/8/8/8/8/6p1/R3K2R w KQ - 0 1",
            "1r1r4/P1P1k3/8/8/8/8/p5p1/1R2K2R b K - 0 1",
            "1r1r4/P1P1k3/8/8/8/8/p5p1/1RK4R w - - 0 1",
            "8/1Q6/3K4/8/6n1/8/7k/2B5 w - - 0 1",
        ] {
            let position = Position::from_fen(fen, CastlingMode::Standard).unwrap();
            let squares = Squares::of(&position);
            let indices: Vec<PolicyIndex> = position
                .legal_moves()
                .iter()
                .map(|&mv| policy_index(mv, position.turn()))
                .collect();
            let all = |output: HeadOutput, most: usize| {
                for encoding in [CLASSICAL, Encoding::Leela(LeelaInput::Canonical)] {
                    let places = MovePlaces::new(output, encoding, &squares);
                    let set: BTreeSet<usize> =
                        indices.iter().map(|&index| places.of(index)).collect();
                    assert!(set.len() == indices.len() && set.iter().all(|&at| at < most), "{fen}");
                }
            };
            all(HeadOutput::LeelaMoves, LEELA_MOVES);
            all(HeadOutput::LeelaPlanes, 64 * LEELA_MOVE_PLANES);
            all(HeadOutput::LeelaPairs, LEELA_MOVE_PAIRS);
        }
    }
}
