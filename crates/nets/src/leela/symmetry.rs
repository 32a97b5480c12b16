//! The orientation in which newer networks of Leela's see a position. Without castling rights a
//! position and its mirror image have the same value, without pawns all eight images have; one of
//! them is chosen by the mover's king, so that the network learns only that one.

use crate::Squares;

/// A reflection of the board, in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Symmetry {
    /// Files are reversed.
    flip: bool,
    /// Ranks are reversed.
    mirror: bool,
    /// The board is reflected in the diagonal from h1 to a8.
    transpose: bool,
}

impl Symmetry {
    /// The reflection that brings a position, seen from the mover, into its canonical orientation:
    /// the mover's king on the files e to h; without pawns also on the ranks 1 to 4, and on or below
    /// the diagonal from h1 to a8.
    pub fn of(squares: &Squares) -> Self {
        let mut found = Self::default();
        if !squares.can_mirror() {
            return found;
        }
        let Some((king, ..)) = squares.pieces().find(|&(_, role, own)| role == 5 && own) else {
            return found;
        };
        found.flip = king % 8 < 4;
        if squares.pieces().any(|(_, role, _)| role == 0) {
            return found;
        }
        found.mirror = king / 8 >= 4;
        let king = found.square(king);
        let (file, rank) = (king % 8, king / 8);
        found.transpose = file + rank > 7 || file + rank == 7 && found.is_transposed_first(squares);
        found
    }

    /// With the king on the diagonal: has the transposed board the smaller numbers? What is compared
    /// are the sets of all pieces, the mover's, and the kings, queens, rooks, knights and bishops of
    /// both sides, until two differ.
    fn is_transposed_first(self, squares: &Squares) -> bool {
        let transposed = Self { transpose: true, ..self };
        let set = |image: Self, is_in: &dyn Fn(usize, bool) -> bool| {
            squares
                .pieces()
                .filter(|&(_, role, own)| is_in(role, own))
                .fold(0_u64, |set, (square, ..)| set | 1 << image.square(square))
        };
        let tests: [&dyn Fn(usize, bool) -> bool; 7] = [
            &|_, _| true,
            &|_, own| own,
            &|role, _| role == 5,
            &|role, _| role == 4,
            &|role, _| role == 3,
            &|role, _| role == 1,
            &|role, _| role == 2,
        ];
        let differs = tests.iter().map(|test| (set(transposed, test), set(self, test)));
        differs
            .into_iter()
            .find(|(one, other)| one != other)
            .is_some_and(|(one, other)| one < other)
    }

    /// Where a square comes to lie.
    pub fn square(self, square: usize) -> usize {
        let square = square ^ if self.flip { 7 } else { 0 } ^ if self.mirror { 56 } else { 0 };
        if self.transpose { (7 - square % 8) * 8 + 7 - square / 8 } else { square }
    }

    /// What a step of (files, ranks) becomes.
    pub fn step(self, (mut file, mut rank): (i32, i32)) -> (i32, i32) {
        if self.flip {
            file = -file;
        }
        if self.mirror {
            rank = -rank;
        }
        if self.transpose { (-rank, -file) } else { (file, rank) }
    }

    /// Where a set of squares comes to lie.
    pub fn set(self, mut set: u64) -> u64 {
        if self == Self::default() || set == u64::MAX {
            return set;
        }
        let mut image = 0;
        while set != 0 {
            image |= 1 << self.square(set.trailing_zeros() as usize);
            set &= set - 1;
        }
        image
    }

    /// The image of a board.
    #[cfg(test)]
    fn board(self, squares: &Squares) -> Squares {
        let mut image = Squares::default();
        (0..64).for_each(|square| image.0[self.square(square)] = squares.0[square]);
        image
    }
}

#[cfg(test)]
mod tests {
    use board::{CastlingMode, Position};

    use super::*;

    const ALL: [Symmetry; 8] = {
        let mut all = [Symmetry { flip: false, mirror: false, transpose: false }; 8];
        let mut index = 0;
        while index < 8 {
            all[index] =
                Symmetry { flip: index & 1 > 0, mirror: index & 2 > 0, transpose: index & 4 > 0 };
            index += 1;
        }
        all
    };

    fn squares(fen: &str) -> Squares {
        Squares::of(&Position::from_fen(fen, CastlingMode::Standard).unwrap())
    }

    #[test]
    fn all_images_of_a_position_become_one() {
        for fen in [
            "8/8/1k6/8/8/2Q5/8/K7 w - - 0 1",
            "8/2r5/1k6/8/8/2Q5/5N2/3K4 w - - 0 1",
            "8/8/k7/8/4K3/8/1Q6/6R1 w - - 0 1",
            "k7/8/8/8/8/8/2Q5/3R3K w - - 0 1",
            "k7/8/8/2n5/8/8/8/B6K w - - 0 1",
        ] {
            let board = squares(fen);
            let canonical = Symmetry::of(&board).board(&board);
            for image in ALL {
                let image = image.board(&board);
                assert_eq!(Symmetry::of(&image).board(&image), canonical, "{fen}");
            }
        }
        let with_pawns = squares("8/8/1k6/8/8/2P5/8/K7 w - - 0 1");
        assert_eq!(Symmetry::of(&with_pawns), Symmetry { flip: true, ..Symmetry::default() });
        let castling = squares("4k3/8/8/8/8/8/8/R3K3 w Q - 0 1");
        assert_eq!(Symmetry::of(&castling), Symmetry::default());
    }

    #[test]
    fn steps_follow_their_squares() {
        for image in ALL {
            for (from, to) in (0..64).flat_map(|from| (0..64).map(move |to| (from, to))) {
                let step = |from: usize, to: usize| {
                    (to as i32 % 8 - from as i32 % 8, to as i32 / 8 - from as i32 / 8)
                };
                assert_eq!(image.step(step(from, to)), step(image.square(from), image.square(to)));
            }
            assert_eq!(image.set(1 << 10 | 1 << 33), 1 << image.square(10) | 1 << image.square(33));
        }
    }
}
