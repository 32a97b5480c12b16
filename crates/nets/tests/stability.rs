//! The encoding stability promise: these lines may only change together with the encoding's name.

use board::{CastlingMode, Position, parse_uci};
use nets::{Encoding, Squares, policy_index};

#[test]
fn the_encoding_is_what_it_was() {
    let mut positions = 0;
    for line in include_str!("fixtures/encoding.txt").lines().filter(|line| !line.starts_with('#'))
    {
        let [name, mode, fen, packed, moves] = line.split(" | ").collect::<Vec<_>>()[..] else {
            panic!("five fields: {line}")
        };
        let mode = if mode == "chess960" { CastlingMode::Chess960 } else { CastlingMode::Standard };
        let position = Position::from_fen(fen, mode).expect(fen);
        let hex: String =
            Squares::of(&position).pack().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, packed, "{name}");
        assert_eq!(moves.split(',').count(), position.legal_moves().len(), "{name}");
        for pair in moves.split(',') {
            let (text, index) = pair.split_once('=').expect("move=index");
            let mv = parse_uci(&position, text).expect(text);
            assert_eq!(policy_index(mv, position.turn()).to_string(), index, "{name}: {text}");
        }
        positions += 1;
    }
    assert_eq!(positions, 11);
}

#[test]
fn the_encodings_keep_their_names() {
    for (encoding, name) in [
        (Encoding::BatchFirst15, "batch-first-15"),
        (Encoding::Cockfish13, "cockfish-13"),
        (Encoding::ConvChess6, "convchess-6"),
        (Encoding::Attacks21, "attacks-21"),
        (Encoding::KingRight21, "attacks-21-king-right"),
    ] {
        assert_eq!(serde_json::to_value(encoding).expect("a name"), name);
        assert_eq!(encoding.name(), name);
    }
}
