//! A FEN and moves from outside: a position that plays on, or an error.

#![no_main]

use board::{CastlingMode, Game, Position, parse_san, parse_uci, to_san, to_uci};
use libfuzzer_sys::fuzz_target;
use nets::Squares;

// The first line is the FEN, every further line a move; the first byte chooses the castling mode.
fuzz_target!(|data: &[u8]| {
    let Some((&mode, text)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let mode = if mode % 2 == 0 { CastlingMode::Standard } else { CastlingMode::Chess960 };
    let mut lines = text.lines();
    let Ok(position) = Position::from_fen(lines.next().unwrap_or_default(), mode) else { return };
    let back = Position::from_fen(&position.fen(), mode).expect("our own FEN");
    assert!(back == position && back.fen() == position.fen());

    let mut game = Game::new(position);
    loop {
        let position = game.position();
        assert_eq!(position.key(), Position::from(position.chess().clone()).key());
        let squares = Squares::of(position);
        assert_eq!(Squares::unpack(&squares.pack()), squares);
        let rebuilt = squares.position(position.turn()).expect("the squares of a position are one");
        assert_eq!(rebuilt.key(), position.key());
        for mv in position.legal_moves() {
            assert_eq!(parse_uci(position, &to_uci(position, mv)), Ok(mv));
            assert_eq!(parse_san(position, &to_san(position, mv)), Ok(mv));
            assert_eq!(nets::move_of_index(position, nets::policy_index(mv, position.turn())), Some(mv));
        }
        let _ = (game.end(), game.occurrences());
        let Some(line) = lines.next() else { return };
        let Ok(mv) = parse_uci(position, line).or_else(|_| parse_san(position, line)) else { return };
        game.play(mv);
    }
});
