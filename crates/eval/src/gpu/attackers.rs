//! Attackers of a square, computed on the device to save upload bandwidth. `nets` computes the same
//! with bitboards and tables.

use cubecl::prelude::*;

/// The rank of a missing attacker, which is larger than that of any attacker.
const NONE: u32 = 4;

/// The part of a square's state that encodes its cheapest attackers (`nets::Encoding::Attacks21`):
/// 16 times that of the side to move plus 64 times that of the opponent. `held` are the classes of
/// `nets::Squares`.
#[cube]
pub(super) fn attackers(held: &Shared<[u32]>, square: i32) -> u32 {
    let mut own = comptime!(NONE).runtime();
    let mut other = comptime!(NONE).runtime();
    for place in 0..9_i32 {
        if place != 4 {
            let up = place / 3 - 1;
            let right = place % 3 - 1;
            let mut rank = square / 8 + up;
            let mut file = square % 8 + right;
            let mut steps = 0_u32;
            let mut class = 0_u32;
            // Go to the first man or the edge. An en-passant target (class 1) is not a man. A
            // negative coordinate becomes a very large number.
            while class < 2 && (rank as u32) < 8 && (file as u32) < 8 {
                class = held[(rank * 8 + file) as usize];
                rank += up;
                file += right;
                steps += 1;
            }
            if class > 1 {
                let is_own = class < 9;
                let mut role = class - 2;
                if !is_own {
                    role = class - 9;
                }
                let is_diagonal = up != 0 && right != 0;
                let mut attacker = comptime!(NONE).runtime();
                // Roles 0 to 6: pawn, knight, bishop, rook, queen, king, rook that may castle.
                if role == 0 && steps == 1 && is_diagonal && (up < 0) == is_own {
                    // Pawns of the side to move go up the board, so they attack from below.
                    attacker = 1;
                } else if role == 2 && is_diagonal {
                    attacker = 2;
                } else if role == 4
                    || (role == 5 && steps == 1)
                    || ((role == 3 || role == 6) && !is_diagonal)
                {
                    attacker = 3;
                }
                if is_own {
                    own = min(own, attacker);
                } else {
                    other = min(other, attacker);
                }
            }
        }
    }
    // Knights: one rank and two files, or two ranks and one file, in four directions each.
    for jump in 0..8_i32 {
        let far = jump / 4 + 1;
        let near = 3 - far;
        let mut up = far;
        if jump % 2 == 1 {
            up = -far;
        }
        let mut right = near;
        if jump / 2 % 2 == 1 {
            right = -near;
        }
        let rank = square / 8 + up;
        let file = square % 8 + right;
        if (rank as u32) < 8 && (file as u32) < 8 {
            let class = held[(rank * 8 + file) as usize];
            if class == 3 {
                own = min(own, 2_u32);
            }
            if class == 10 {
                other = min(other, 2_u32);
            }
        }
    }
    16 * (own % comptime!(NONE)) + 64 * (other % comptime!(NONE))
}
