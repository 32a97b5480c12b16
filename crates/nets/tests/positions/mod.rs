//! Positions for property tests: from random games rich in castling, en passant and promotion.

use board::{CastlingMode, Position};
use proptest::prelude::*;

/// Starts near promotions, castling and en passant, so that random games meet them.
const ENDGAMES: [&str; 4] = [
    "r3k2r/8/8/8/2p1p2p/8/1P1P2P1/R3K2R w KQkq - 0 1",
    "4k3/PP4pp/8/8/8/8/pp4PP/4K3 w - - 0 1",
    "r3k2r/1P4P1/8/2pP4/4pP2/8/1p4p1/R3K2R w KQkq - 0 1",
    "1n1nk3/P1P1P1P1/8/8/8/8/p1p1p1p1/1N1NK3 b - - 0 1",
];

/// The position after a random game from the standard array, a Chess960 array or an endgame.
pub fn position() -> impl Strategy<Value = Position> {
    let start = prop_oneof![
        Just(Position::default()),
        (0..960_u16).prop_map(|number| Position::chess960(number).expect("below 960")),
        prop::sample::select(&ENDGAMES[..]).prop_map(|fen| Position::from_fen(
            fen,
            CastlingMode::Standard
        )
        .expect("legal")),
    ];
    let choice = (any::<prop::sample::Index>(), prop::bool::weighted(0.2));
    let choices = prop_oneof![
        prop::collection::vec(choice.clone(), 0..12),
        prop::collection::vec(choice, 0..120),
    ];
    (start, choices, any::<bool>()).prop_map(|(mut position, choices, en_passant)| {
        for (choice, special) in choices {
            let mut moves: Vec<_> = position.legal_moves().into_iter().collect();
            if special
                && moves.iter().any(|mv| mv.is_castle() || mv.is_en_passant() || mv.is_promotion())
            {
                moves.retain(|mv| mv.is_castle() || mv.is_en_passant() || mv.is_promotion());
            }
            if moves.is_empty() {
                break;
            }
            let next = position.after(moves[choice.index(moves.len())]);
            if !next.has_legal_moves() {
                break;
            }
            position = next;
        }
        if en_passant {
            // A double step that can be captured, where there is one.
            let mut next = position.legal_moves().into_iter().map(|mv| position.after(mv));
            if let Some(next) = next.find(|next| next.en_passant().is_some()) {
                return next;
            }
        }
        position
    })
}
