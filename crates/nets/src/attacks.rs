//! Finds the cheapest attacker of each square, which the encoding `attacks-21` adds to the input. A
//! few 3x3 convolutions detect attacks along lines badly, and hanging pieces decide many moves.

use board::{Bitboard, Color, attacks};

use crate::{Squares, squares::class_piece};

/// The cheapest attacker of a square: 0 none, 1 a pawn, 2 a knight or bishop, 3 a rook, queen or
/// king. Pins and the side to move do not matter; occupied squares of both sides count.
pub(crate) type Attacker = u8;

/// The mover's cheapest attacker of every square, then the opponent's.
pub(crate) fn cheapest(squares: &Squares) -> [[Attacker; 64]; 2] {
    // [mover or opponent][attacker - 1]
    let mut reached = [[Bitboard::EMPTY; 3]; 2];
    let occupied =
        (0_u32..).zip(squares.0).fold(0, |bits, (at, class)| bits | u64::from(class > 1) << at);
    let occupied = Bitboard(occupied);
    for square in occupied {
        let Some((role, own)) = class_piece(squares.0[usize::from(square)]) else { continue };
        // The board is seen from the mover's side, so its pawns attack as White's do.
        let (attacker, targets) = match role {
            0 => (1, attacks::pawn_attacks(if own { Color::White } else { Color::Black }, square)),
            1 => (2, attacks::knight_attacks(square)),
            2 => (2, attacks::bishop_attacks(square, occupied)),
            3 => (3, attacks::rook_attacks(square, occupied)),
            4 => (3, attacks::queen_attacks(square, occupied)),
            _ => (3, attacks::king_attacks(square)),
        };
        reached[usize::from(!own)][attacker - 1] |= targets;
    }
    reached.map(|[pawns, minors, majors]| {
        // Combines the two bits of each attacker number, a rank of eight squares at a time.
        let minors = minors & !pawns;
        let majors = majors & !pawns & !minors;
        let (low, high) =
            (u64::from(pawns | majors).to_le_bytes(), u64::from(minors | majors).to_le_bytes());
        let mut cheapest = [0; 64];
        for ((rank, low), high) in cheapest.as_chunks_mut::<8>().0.iter_mut().zip(low).zip(high) {
            *rank = (spread(low) | spread(high) << 1).to_le_bytes();
        }
        cheapest
    })
}

/// Spreads eight bits to eight bytes of 0 or 1, the lowest bit first.
fn spread(bits: u8) -> u64 {
    let one_in_each = (u64::from(bits) * 0x0101_0101_0101_0101) & 0x8040_2010_0804_0201;
    (one_in_each + 0x7f7f_7f7f_7f7f_7f7f) >> 7 & 0x0101_0101_0101_0101
}

#[cfg(test)]
mod tests {
    use board::{CastlingMode, Position, Role, Square};

    use super::*;

    fn of(fen: &str, square: &str) -> [Attacker; 2] {
        let position = Position::from_fen(fen, CastlingMode::Standard).unwrap();
        let flip = if position.turn().is_white() { 0 } else { 56 };
        let square: Square = square.parse().unwrap();
        cheapest(&Squares::of(&position)).map(|of_side| of_side[usize::from(square) ^ flip])
    }

    #[test]
    fn the_cheapest_attacker_of_either_side() {
        let fen = "4k3/8/3p4/4n3/8/4RN2/8/4K3 w - - 0 1";
        assert_eq!(of(fen, "e5"), [2, 1]);
        assert_eq!(of(fen, "f3"), [3, 2]);
        assert_eq!(of(fen, "e8"), [0, 0], "behind the knight");
        assert_eq!(of(fen, "e2"), [3, 0]);
        assert_eq!(of(fen, "c5"), [0, 1]);
        assert_eq!(of(&fen.replace(" w ", " b "), "e5"), [1, 2]);
        assert_eq!(of(&fen.replace(" w ", " b "), "f3"), [2, 3]);
    }

    /// The games contain castling rooks, en-passant targets and every kind of piece.
    #[test]
    fn equals_the_rules_in_arbitrary_games() {
        let mut position = Position::default();
        for step in 0..600 {
            let (board, turn) = (position.board(), position.turn());
            let found = cheapest(&Squares::of(&position));
            for square in Square::ALL {
                let of = |color| {
                    let attackers = board.attacks_to(square, color, board.occupied());
                    let has = |role| !(attackers & board.by_role(role)).is_empty();
                    match attackers.is_empty() {
                        true => 0,
                        false if has(Role::Pawn) => 1,
                        false if has(Role::Knight) || has(Role::Bishop) => 2,
                        false => 3,
                    }
                };
                let flip = if turn.is_white() { 0 } else { 56 };
                assert_eq!(
                    found.map(|of_side| of_side[usize::from(square) ^ flip]),
                    [of(turn), of(!turn)],
                    "{square} {}",
                    position.fen()
                );
            }
            let moves = position.legal_moves();
            match moves.get(step * 7 % moves.len().max(1)) {
                Some(&mv) => position.play(mv),
                None => position = Position::default(),
            }
        }
    }
}
