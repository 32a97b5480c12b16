//! Reads Lichess's evaluation database: one JSON object on each line, with `fen` and `evals`.
//!
//! Of several evaluations the deepest that has moves is used (of equal depths the one with more
//! nodes), or the first on request, and of that evaluation the first line: its value is from White's side, its
//! first move is the record's move. The value after this best move is the position's own, except
//! that a mate by the mover is one move nearer.

use std::borrow::Cow;

use board::{Position, parse_uci};
use nets::policy_index;
use serde::Deserialize;

use crate::parsed::{ParsedChunk, WhiteValue, after_best_move, unlabelled};
use crate::skip::SkipKind;

#[derive(Deserialize)]
struct DatabaseLine<'a> {
    #[serde(borrow)]
    fen: Cow<'a, str>,
    #[serde(borrow)]
    evals: Vec<Evaluation<'a>>,
}

#[derive(Deserialize)]
struct Evaluation<'a> {
    #[serde(borrow)]
    pvs: Vec<Variation<'a>>,
    #[serde(default)]
    knodes: u64,
    #[serde(default)]
    depth: u32,
}

#[derive(Deserialize)]
struct Variation<'a> {
    /// Some programs write `50.0`.
    cp: Option<f64>,
    mate: Option<i32>,
    #[serde(borrow)]
    line: Option<Cow<'a, str>>,
}

impl Evaluation<'_> {
    /// An evaluation with moves says more than one with a value only, and that more than none.
    fn richness(&self) -> u8 {
        match self.pvs.first() {
            Some(best) if best.line.as_ref().is_some_and(|line| !line.trim().is_empty()) => 2,
            Some(_) => 1,
            None => 0,
        }
    }
}

/// The evaluation of a line that is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EvaluationChoice {
    Deepest,
    /// As in Cockfish.
    First,
}

/// Reads the lines of `text`; blank ones do not count.
pub(crate) fn parse(text: &[u8], choice: EvaluationChoice) -> ParsedChunk {
    let mut parsed = ParsedChunk { single_positions: true, ..ParsedChunk::default() };
    for line in
        text.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty())
    {
        parsed.games += 1;
        match read_line(line, choice, &mut parsed) {
            Ok(()) => parsed.whole += 1,
            Err(kind) => parsed.leave_out(kind),
        }
    }
    parsed
}

fn read_line(
    line: &[u8],
    choice: EvaluationChoice,
    parsed: &mut ParsedChunk,
) -> Result<(), SkipKind> {
    let line = String::from_utf8_lossy(line);
    let line: DatabaseLine<'_> = serde_json::from_str(&line).map_err(|_| SkipKind::BadJson)?;
    // Castling rights say whether it is a position of Chess960.
    let read = Position::read_fen(&line.fen, None).map_err(|_| SkipKind::BadPosition)?;
    parsed.skipped.add_many(SkipKind::CastlingRights, u64::from(read.warning.is_some()));
    let position = read.position;
    parsed.positions += 1;
    let picked =
        match choice {
            // `max_by_key` returns the last of equal maxima; reversed, that is the first in the file.
            EvaluationChoice::Deepest => line.evals.iter().rev().max_by_key(|evaluation| {
                (evaluation.richness(), evaluation.depth, evaluation.knodes)
            }),
            EvaluationChoice::First => line.evals.first(),
        };
    let best = picked.and_then(|evaluation| evaluation.pvs.first()).ok_or(SkipKind::Unlabelled)?;
    let value = match (best.cp, best.mate) {
        // Nobody is mated while there are moves.
        (_, Some(0)) if position.has_legal_moves() => return Err(SkipKind::BadEvaluation),
        (_, Some(moves)) => WhiteValue::Mate(moves),
        (Some(value), None) => WhiteValue::Centipawns(value.round() as i32),
        (None, None) => return Err(SkipKind::Unlabelled),
    };
    let mut record = unlabelled(&position, parsed.games - 1);
    record.value = value.label(record.white_to_move);
    match best.line.as_deref().and_then(|line| line.split_ascii_whitespace().next()) {
        Some(first) => {
            let mv = parse_uci(&position, first).map_err(|_| SkipKind::IllegalMove)?;
            record.played = policy_index(mv, position.turn());
            record.played_value = after_best_move(record.value);
        }
        None if !position.has_legal_moves() => return Err(SkipKind::GameOver),
        None => {}
    }
    parsed.records.push(record);
    Ok(())
}
