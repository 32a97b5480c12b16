//! The 960 starting arrays of Fischer random chess by their usual numbers.

use shakmaty::{CastlingMode, Color, File, Rank, Role, Setup, Square};

use crate::Position;

/// Knight placements among the five files that bishops and queen leave free, in the order of the
/// numbering.
const KNIGHTS: [(usize, usize); 10] =
    [(0, 1), (0, 2), (0, 3), (0, 4), (1, 2), (1, 3), (1, 4), (2, 3), (2, 4), (3, 4)];

impl Position {
    /// The Chess960 start position with this number (0..960, Scharnagl's numbering; 518 is the
    /// array of standard chess), White to move; `None` for a larger number.
    #[must_use]
    pub fn chess960(number: u16) -> Option<Self> {
        let number = usize::from(number);
        if number >= 960 {
            return None;
        }
        let mut files: [Option<Role>; 8] = [None; 8];
        files[2 * (number % 4) + 1] = Some(Role::Bishop);
        files[2 * (number / 4 % 4)] = Some(Role::Bishop);
        let mut place = |free: usize, role: Role| {
            if let Some(file) = files.iter_mut().filter(|file| file.is_none()).nth(free) {
                *file = Some(role);
            }
        };
        place(number / 16 % 6, Role::Queen);
        let (first, second) = KNIGHTS[number / 96];
        place(second, Role::Knight);
        place(first, Role::Knight);
        for role in [Role::Rook, Role::King, Role::Rook] {
            place(0, role);
        }

        let mut setup = Setup::empty();
        for (file, role) in File::ALL.into_iter().zip(files) {
            let role = role?;
            for (color, pieces, pawns) in [
                (Color::White, Rank::First, Rank::Second),
                (Color::Black, Rank::Eighth, Rank::Seventh),
            ] {
                let square = Square::from_coords(file, pieces);
                setup.board.set_piece_at(square, role.of(color));
                setup.board.set_piece_at(Square::from_coords(file, pawns), Role::Pawn.of(color));
                if role == Role::Rook {
                    setup.castling_rights.add(square);
                }
            }
        }
        Self::from_setup(setup, CastlingMode::Chess960).ok()
    }
}
