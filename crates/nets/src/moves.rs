//! The output index of each move in a move head: 73 move planes on 64 from-squares, from the
//! mover's side.

use board::{Color, Move, Role, Square};

/// Move planes: 56 queen moves (8 directions x 7 distances), 8 knight moves, 9 under-promotions (3
/// pieces x 3 files).
pub const MOVE_PLANES: usize = 73;

/// Number of outputs of a move head. The index of a move is `from_square * 73 + plane`, the order
/// of a channels-last board in memory.
pub const POLICY_SIZE: usize = 64 * MOVE_PLANES;

/// Index of a move among the [`POLICY_SIZE`] outputs.
pub type PolicyIndex = u16;

/// Directions in plane order: north, north-east, … clockwise, as (file step, rank step).
const DIRECTIONS: [(i32, i32); 8] =
    [(0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1), (-1, 0), (-1, 1)];
const KNIGHT_STEPS: [(i32, i32); 8] =
    [(1, 2), (2, 1), (2, -1), (1, -2), (-1, -2), (-2, -1), (-2, 1), (-1, 2)];
const FIRST_KNIGHT: usize = 56;
pub(crate) const FIRST_UNDERPROMOTION: usize = 64;

/// The output index of `mv` for the mover `turn`.
///
/// Promotion to a queen is the plain queen move; castling is the king moving onto its own rook, so
/// that its index differs from other king moves in Chess960 too. Different legal moves of a
/// position have different indices.
#[must_use]
#[inline]
pub fn policy_index(mv: Move, turn: Color) -> PolicyIndex {
    // Most moves of a search are plain, and millions a second need their index.
    if let Move::Normal { from, to, promotion: None, .. } = mv {
        let flip = if turn.is_white() { 0 } else { 56 << 6 | 56 };
        return INDEX_OF_MOVE[(usize::from(from) << 6 | usize::from(to)) ^ flip];
    }
    special_index(mv, turn)
}

/// The index of castling, en passant and promotions.
#[cold]
fn special_index(mv: Move, turn: Color) -> PolicyIndex {
    let flip = if turn.is_white() { 0 } else { 56 };
    let from = usize::from(mv.from().unwrap_or(Square::A1)) ^ flip;
    let to = usize::from(mv.to()) ^ flip;
    let piece = match mv.promotion() {
        Some(Role::Knight) => 0,
        Some(Role::Bishop) => 1,
        Some(Role::Rook) => 2,
        _ => return INDEX_OF_MOVE[from << 6 | to],
    };
    let files = (to % 8) as i32 - (from % 8) as i32;
    let plane = FIRST_UNDERPROMOTION + 3 * piece + (files.clamp(-1, 1) + 1) as usize;
    (from * MOVE_PLANES + plane) as PolicyIndex
}

/// The (file, rank) step of a move plane.
pub(crate) fn step_of_plane(plane: usize) -> (i32, i32) {
    match plane {
        0..FIRST_KNIGHT => {
            let ((file, rank), distance) = (DIRECTIONS[plane / 7], (plane % 7) as i32 + 1);
            (file * distance, rank * distance)
        }
        FIRST_KNIGHT..FIRST_UNDERPROMOTION => KNIGHT_STEPS[plane - FIRST_KNIGHT],
        _ => ((plane - FIRST_UNDERPROMOTION) as i32 % 3 - 1, 1),
    }
}

/// The move plane of two squares that a move connects, promotions apart.
pub(crate) fn plane_of_squares(from: usize, to: usize) -> usize {
    usize::from(PLANE_OF_MOVE[from << 6 | to])
}

/// Move plane by `64 * from + to`; 0 for pairs of squares that no move connects.
static PLANE_OF_MOVE: [u8; 64 * 64] = plane_of_move();

/// Index of a move without under-promotion by `64 * from + to`.
static INDEX_OF_MOVE: [PolicyIndex; 64 * 64] = index_of_move();

const fn index_of_move() -> [PolicyIndex; 64 * 64] {
    let planes = plane_of_move();
    let mut indices = [0; 64 * 64];
    let mut at = 0;
    while at < planes.len() {
        indices[at] = (at / 64 * MOVE_PLANES) as PolicyIndex + planes[at] as PolicyIndex;
        at += 1;
    }
    indices
}

const fn plane_of_move() -> [u8; 64 * 64] {
    let steps = plane_of_step();
    let mut planes = [0; 64 * 64];
    let mut at = 0;
    while at < planes.len() {
        let (from, to) = (at / 64, at % 64);
        planes[at] = steps[(to / 8 + 7 - from / 8) * 15 + to % 8 + 7 - from % 8];
        at += 1;
    }
    planes
}

/// Move plane by step, at `15 * (ranks + 7) + files + 7`.
const fn plane_of_step() -> [u8; 225] {
    let mut planes = [0; 225];
    let mut direction = 0;
    while direction < 8 {
        let (file, rank) = DIRECTIONS[direction];
        let mut distance = 1;
        while distance <= 7 {
            planes[((rank * distance + 7) * 15 + file * distance + 7) as usize] =
                (direction * 7) as u8 + distance as u8 - 1;
            distance += 1;
        }
        let (file, rank) = KNIGHT_STEPS[direction];
        planes[((rank + 7) * 15 + file + 7) as usize] = (FIRST_KNIGHT + direction) as u8;
        direction += 1;
    }
    planes
}

/// The index of the left-right mirrored move.
#[must_use]
pub fn mirror_index(index: PolicyIndex) -> PolicyIndex {
    let (from, plane) = (usize::from(index) / MOVE_PLANES, usize::from(index) % MOVE_PLANES);
    let plane = match plane {
        0..FIRST_KNIGHT => (8 - plane / 7) % 8 * 7 + plane % 7,
        FIRST_KNIGHT..FIRST_UNDERPROMOTION => FIRST_KNIGHT + 7 - (plane - FIRST_KNIGHT),
        _ => {
            let (piece, file) =
                ((plane - FIRST_UNDERPROMOTION) / 3, (plane - FIRST_UNDERPROMOTION) % 3);
            FIRST_UNDERPROMOTION + 3 * piece + 2 - file
        }
    };
    ((from ^ 7) * MOVE_PLANES + plane) as PolicyIndex
}

/// The legal move of a position that has this index, if any.
#[must_use]
pub fn move_of_index(position: &board::Position, index: PolicyIndex) -> Option<Move> {
    let turn = position.turn();
    position.legal_moves().into_iter().find(|&mv| policy_index(mv, turn) == index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mirror_is_an_involution_and_moves_files() {
        for index in 0..POLICY_SIZE as PolicyIndex {
            assert_eq!(mirror_index(mirror_index(index)), index);
        }
        let e2e4 = policy_index(
            Move::Normal {
                role: Role::Pawn,
                from: Square::E2,
                capture: None,
                to: Square::E4,
                promotion: None,
            },
            Color::White,
        );
        let d2d4 = policy_index(
            Move::Normal {
                role: Role::Pawn,
                from: Square::D2,
                capture: None,
                to: Square::D4,
                promotion: None,
            },
            Color::White,
        );
        assert_eq!(mirror_index(e2e4), d2d4);
    }
}
