//! Reads lists of positions: FEN with four or six fields, or EPD.
//!
//! The EPD operations `ce` (centipawns for the side to move), `dm` (moves to mate) and `bm` (best
//! move; the first of several) are used. Blank lines and lines that begin with `#` are ignored.

use board::{parse_san, parse_uci};
use nets::policy_index;

use crate::parsed::{ParsedChunk, after_best_move, centipawn_label, read_position, unlabelled};
use crate::record::{NO_LABEL, mate_label};
use crate::skip::SkipKind;

/// Reads the lines of `text`.
pub(crate) fn parse(text: &[u8]) -> ParsedChunk {
    let mut parsed = ParsedChunk { single_positions: true, ..ParsedChunk::default() };
    for line in text.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii) {
        if line.is_empty() || line[0] == b'#' {
            continue;
        }
        parsed.games += 1;
        if let Err(kind) = read_line(line, &mut parsed) {
            parsed.skipped.add(kind);
        }
    }
    parsed
}

fn read_line(line: &[u8], parsed: &mut ParsedChunk) -> Result<(), SkipKind> {
    // Letters in operations may be of any encoding.
    let line = String::from_utf8_lossy(line);
    let (fen, operations) = split_fields(&line);
    let position = read_position(&fen, parsed)?;
    parsed.positions += 1;
    if position.legal_moves().is_empty() {
        return Err(SkipKind::GameOver);
    }
    let mut record = unlabelled(&position, parsed.games - 1);
    for operation in split_operations(operations) {
        let (code, operand) = operation.split_once(char::is_whitespace).unwrap_or((operation, ""));
        let operand = operand.trim();
        match code {
            "ce" => match operand.parse() {
                Ok(value) if record.value == NO_LABEL => record.value = centipawn_label(value),
                Ok(_) => {}
                Err(_) => parsed.skipped.add(SkipKind::BadEvaluation),
            },
            "dm" => match operand.parse() {
                Ok(moves) => record.value = mate_label(moves),
                Err(_) => parsed.skipped.add(SkipKind::BadEvaluation),
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

/// Splits a line into its FEN (with the counters when both are present) and the rest.
fn split_fields(line: &str) -> (String, &str) {
    let mut rest = line;
    let mut fields = Vec::with_capacity(6);
    while fields.len() < 6 {
        let trimmed = rest.trim_start();
        let end = trimmed.find(char::is_whitespace).unwrap_or(trimmed.len());
        let field = trimmed[..end].trim_end_matches(';');
        let counter = !field.is_empty() && field.bytes().all(|byte| byte.is_ascii_digit());
        if end == 0 || (fields.len() >= 4 && !counter) {
            break;
        }
        fields.push(field);
        rest = &trimmed[end..];
    }
    (fields.join(" "), rest)
}

/// Splits at semicolons outside double quotes.
fn split_operations(text: &str) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    text.split(move |character| {
        quoted ^= character == '"';
        character == ';' && !quoted
    })
    .map(str::trim)
    .filter(|operation| !operation.is_empty())
}
