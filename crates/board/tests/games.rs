//! Properties of every position of every game: keys, text forms, history.

use board::{CastlingMode, Game, Move, Position, parse_san, parse_uci, to_san, to_uci};
use proptest::prelude::*;

/// A game from a standard or Chess960 start; each number picks one of the legal moves.
fn game() -> impl Strategy<Value = Game> {
    let start = prop_oneof![
        Just(Position::default()),
        (0..960_u16).prop_map(|number| Position::chess960(number).expect("below 960")),
    ];
    (start, prop::collection::vec(any::<prop::sample::Index>(), 0..160)).prop_map(
        |(start, choices)| {
            let mut game = Game::new(start);
            for choice in choices {
                let moves = game.position().legal_moves();
                if moves.is_empty() {
                    break;
                }
                game.play(moves[choice.index(moves.len())]);
            }
            game
        },
    )
}

/// Calls `check` for each position of the game, in order, with the move that led there.
fn replay(game: &Game, mut check: impl FnMut(&Game, Option<Move>)) {
    let mut now = Game::new(game.start().clone());
    check(&now, None);
    for &mv in game.moves() {
        now.play(mv);
        check(&now, Some(mv));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn the_key_kept_up_to_date_is_the_key_from_scratch(game in game()) {
        replay(&game, |now, _| {
            let position = now.position();
            assert_eq!(position.key(), Position::from(position.chess().clone()).key(), "{}", position.fen());
        });
    }

    #[test]
    fn fen_keeps_everything(game in game()) {
        replay(&game, |now, _| {
            let position = now.position();
            let fen = position.fen();
            let back = Position::from_fen(&fen, position.castling_mode()).expect(&fen);
            assert!(&back == position, "{fen}");
            assert_eq!(back.key(), position.key(), "{fen}");
            assert_eq!(back.halfmove_clock(), position.halfmove_clock(), "{fen}");
            assert_eq!(back.ply(), position.ply(), "{fen}");
            assert_eq!(back.fen(), fen);
        });
    }

    #[test]
    fn moves_survive_their_text(game in game()) {
        replay(&game, |now, _| {
            let position = now.position();
            let mut seen = std::collections::HashSet::new();
            for mv in position.legal_moves() {
                let (uci, san) = (to_uci(position, mv), to_san(position, mv));
                assert_eq!(parse_uci(position, &uci), Ok(mv), "{} {uci}", position.fen());
                assert_eq!(parse_san(position, &san), Ok(mv), "{} {san}", position.fen());
                assert!(seen.insert(uci.clone()) && seen.insert(format!("san {san}")), "{uci} {san} is ambiguous");
            }
        });
    }

    /// Repetition counted from keys within the halfmove clock equals counting equal positions in
    /// the whole game.
    #[test]
    fn occurrences_are_equal_positions(game in game()) {
        let mut before: Vec<Position> = Vec::new();
        replay(&game, |now, _| {
            before.push(now.position().clone());
            let equal = before.iter().filter(|&old| old == now.position()).count();
            assert_eq!(now.occurrences(), equal, "{}", now.position().fen());
        });
    }

    #[test]
    fn any_text_is_answered(text in "\\PC*", fenlike in "[1-8pnbrqkPNBRQK/]{15,71} [wb] [KQkqA-Ha-h-]{1,4} [a-h1-8-]{1,2} [0-9]{1,12} [0-9]{1,12}") {
        for mode in [CastlingMode::Standard, CastlingMode::Chess960] {
            for text in [&text, &fenlike] {
                if let Ok(position) = Position::from_fen(text, mode) {
                    prop_assert!(Position::from_fen(&position.fen(), mode).is_ok());
                }
            }
        }
        let position = Position::default();
        prop_assert!(parse_uci(&position, &text).is_err() || text.len() == 4);
        if let Ok(mv) = parse_san(&position, &text) {
            prop_assert!(position.legal_moves().contains(&mv));
        }
    }
}
