//! Lines from a user interface: a command or a sentence.

#![no_main]

use board::{CastlingMode, Position, parse_uci};
use engine::NamedOptions;
use libfuzzer_sys::fuzz_target;
use uci::Command;

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let mut options = NamedOptions::default();
    let mut position = Position::default();
    for line in text.lines() {
        match Command::parse(line) {
            Ok(Some(Command::SetOption { name, value })) => {
                let before = options.clone();
                if options.set(&name, value.as_deref()).is_err() {
                    assert!(options == before, "a refused option changes nothing");
                }
                let _ = uci::option_lines(&options).count();
            }
            Ok(Some(Command::Position(command))) => {
                let mode = if options.chess960 { CastlingMode::Chess960 } else { CastlingMode::Standard };
                let start = match command.fen {
                    Some(fen) => Position::from_fen(&fen, mode),
                    None => Ok(Position::default()),
                };
                let Ok(start) = start else { continue };
                position = start;
                for mv in &command.moves {
                    let Ok(mv) = parse_uci(&position, mv) else { break };
                    position.play(mv);
                }
            }
            Ok(Some(Command::Go(go))) => {
                let (limits, _) = go.limits(&position);
                assert!(limits.search_moves.iter().all(|mv| position.legal_moves().contains(mv)));
            }
            Ok(_) => {}
            Err(error) => assert!(!error.to_string().contains('\n'), "one sentence on one line"),
        }
    }
});
