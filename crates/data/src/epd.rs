//! Reads lists of positions: FEN with four or six fields, or EPD.
//!
//! The EPD operations `ce` (centipawns for the side to move), `dm` (moves to mate) and `bm` (best
//! move; the first of several) are used. Blank lines and lines that begin with `#` are ignored.

use board::{parse_san, parse_uci};
use games::{is_epd_comment, parse_epd};
use nets::policy_index;

use crate::parsed::{ParsedChunk, after_best_move, centipawn_label, unlabelled};
use crate::record::{NO_LABEL, mate_label};
use crate::skip::SkipKind;

/// Reads the lines of `text`.
pub(crate) fn parse(text: &[u8]) -> ParsedChunk {
    let mut parsed = ParsedChunk { single_positions: true, ..ParsedChunk::default() };
    for line in text.split(|&byte| byte == b'\n').filter(|line| !is_epd_comment(line)) {
        parsed.games += 1;
        match read_line(line, &mut parsed) {
            Ok(()) => parsed.whole += 1,
            Err(kind) => parsed.leave_out(kind),
        }
    }
    parsed
}

fn read_line(line: &[u8], parsed: &mut ParsedChunk) -> Result<(), SkipKind> {
    // Letters in operations may be of any encoding.
    let line = parse_epd(&String::from_utf8_lossy(line)).map_err(|_| SkipKind::BadPosition)?;
    parsed.skipped.add_many(SkipKind::CastlingRights, u64::from(line.warning.is_some()));
    let position = line.position;
    parsed.positions += 1;
    if !position.has_legal_moves() {
        return Err(SkipKind::GameOver);
    }
    let mut record = unlabelled(&position, parsed.games - 1);
    for (code, operand) in &line.operations {
        match code.as_str() {
            "ce" => match operand.parse() {
                Ok(value) if record.value == NO_LABEL => record.value = centipawn_label(value),
                Ok(_) => {}
                Err(_) => parsed.skipped.add(SkipKind::BadEvaluation),
            },
            // Nobody is mated while there are moves.
            "dm" => match operand.parse() {
                Ok(moves) if moves != 0 => record.value = mate_label(moves),
                _ => parsed.skipped.add(SkipKind::BadEvaluation),
            },
            "bm" => {
                let first = operand.split_whitespace().next().unwrap_or("");
                match parse_san(&position, first).or_else(|_| parse_uci(&position, first)) {
                    Ok(mv) => record.played = policy_index(mv, position.turn()),
                    Err(_) => parsed.skipped.add(SkipKind::IllegalMove),
                }
            }
            _ => {}
        }
    }
    if record.value != NO_LABEL && record.played != nets::PolicyIndex::MAX {
        record.played_value = after_best_move(record.value);
    }
    parsed.records.push(record);
    Ok(())
}
