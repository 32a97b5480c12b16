//! The messages about an analysis to the page. Scores, bounds and chances are from White's side.

use std::sync::{Arc, Mutex, PoisonError};

use board::{Color, Move, Position, Score, to_san, to_uci};
use nets::Wdl;
use search::{Bound, SearchInfo, View};
use serde_json::{Value, json};

use super::request::AnalysisTask;
use crate::{ApiError, game_state::final_square};

/// The most plies of a principal variation that are shown.
const SHOWN_PLIES: usize = 24;
/// Largest number of shown moves of a system without a search.
const SHOWN_CHANCES: usize = 12;

/// The principal variations of an analysis so far.
pub struct Report {
    tag: u32,
    pub position: Position,
    /// The latest information about each line, the best line first.
    pub lines: Arc<Mutex<Vec<SearchInfo>>>,
}

impl Report {
    /// A report without lines.
    #[must_use]
    pub fn new(task: &AnalysisTask) -> Self {
        let position = task.game.position().clone();
        Self { tag: task.tag, position, lines: Arc::default() }
    }

    /// The lines and the inside of the search; `state`: `waiting`, `running` or `done`.
    #[must_use]
    pub fn to_json(&self, state: &str, view: Option<&View>) -> Value {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let mover = self.position.turn();
        let lines: Vec<Value> = lines.iter().map(|line| line_json(&self.position, line)).collect();
        json!({
            "type": "analysis",
            "tag": self.tag,
            "state": state,
            "lines": lines,
            "view": view.map(|view| view_json(mover, view)),
        })
    }
}

/// The report of an analysis that ended with an error.
#[must_use]
pub fn failure_json(tag: u32, error: &ApiError) -> Value {
    json!({ "type": "analysis", "tag": tag, "state": "failed", "error": error.to_string() })
}

fn line_json(position: &Position, info: &SearchInfo) -> Value {
    let mover = position.turn();
    let sign = if mover.is_white() { 1 } else { -1 };
    let Wdl { win, draw, loss } = info.wdl;
    let (white, black) = if mover.is_white() { (win, loss) } else { (loss, win) };
    let bound = match (info.bound, mover) {
        (Bound::Exact, _) => "exact",
        (Bound::Lower, Color::White) | (Bound::Upper, Color::Black) => "lower",
        (Bound::Upper, Color::White) | (Bound::Lower, Color::Black) => "upper",
    };
    json!({
        "depth": info.depth,
        "seldepth": info.seldepth,
        "score": match info.score {
            Score::Centipawns(value) => json!({ "cp": value * sign }),
            Score::Mate(moves) => json!({ "mate": moves * sign }),
        },
        "bound": bound,
        "wdl": [white, draw, black],
        "nodes": info.nodes,
        "milliseconds": info.elapsed.as_millis() as u64,
        "pv": pv_json(position, &info.pv),
    })
}

/// Moves in UCI notation and SAN; ends before a move that is not legal.
fn pv_json(position: &Position, pv: &[Move]) -> Vec<Value> {
    let mut position = position.clone();
    pv.iter()
        .take(SHOWN_PLIES)
        .map_while(|&mv| {
            if !position.legal_moves().contains(&mv) {
                return None;
            }
            let shown = json!([to_uci(&position, mv), to_san(&position, mv)]);
            position.play(mv);
            Some(shown)
        })
        .collect()
}

fn view_json(mover: Color, view: &View) -> Value {
    let (lower, upper, bound) = if mover.is_white() {
        (view.lower, view.upper, view.bound)
    } else {
        (-view.upper, -view.lower, -view.bound)
    };
    json!({
        "depth": view.depth,
        "multipv": view.line,
        "lower": lower,
        "upper": upper,
        "bound": bound,
        "open": view.open,
        "bins": view.bins,
        "batch": view.batch,
        "width": view.width,
        "batches": view.batches,
        "evaluations": view.evaluations,
        "milliseconds": view.elapsed.as_millis() as u64,
    })
}

/// Probabilities of moves, and for every square (a1, b1, … h8) the probability that a piece leaves
/// it and that one moves to it.
#[must_use]
pub fn move_chances_json(tag: u32, position: &Position, chances: &[(Move, f32)]) -> Value {
    let mut origins = [0.0_f32; 64];
    let mut targets = [0.0_f32; 64];
    for &(mv, chance) in chances {
        if let Some(from) = mv.from() {
            origins[usize::from(from)] += chance;
        }
        targets[usize::from(final_square(mv))] += chance;
    }
    let moves: Vec<Value> = chances
        .iter()
        .take(SHOWN_CHANCES)
        .map(|&(mv, chance)| json!([to_uci(position, mv), to_san(position, mv), chance]))
        .collect();
    json!({ "type": "analysis", "tag": tag, "state": "done", "lines": [], "view": null,
        "chances": { "moves": moves, "from": origins.as_slice(), "to": targets.as_slice() } })
}
