//! The analysis for programs: one JSON object a line, scores and chances from the side to move.

use std::io::{self, Write};

use board::{Game, Move, Position, Score};
use search::{Bound, Outcome, SearchInfo};
use serde_json::{Value, json};

use super::AnalysisView;

#[derive(Debug)]
pub(super) struct JsonView;

impl AnalysisView for JsonView {
    fn begin(&mut self, out: &mut dyn Write, game: &Game, engine: &str) -> io::Result<()> {
        let position = game.position();
        let object = json!({
            "type": "position",
            "fen": position.fen(),
            "turn": if position.turn().is_white() { "white" } else { "black" },
            "legal_moves": position.legal_moves().len(),
            "over": game.end().map(|end| super::screen::describe_end(&end)),
            "engine": engine,
        });
        writeln!(out, "{object}")
    }

    fn info(&mut self, out: &mut dyn Write, game: &Game, info: &SearchInfo) -> io::Result<()> {
        let mut object = line(game.position(), info);
        object["type"] = "info".into();
        writeln!(out, "{object}")
    }

    fn end(&mut self, out: &mut dyn Write, game: &Game, outcome: &Outcome) -> io::Result<()> {
        let position = game.position();
        let uci = |position: &Position, mv: Move| board::to_uci(position, mv);
        let reply =
            outcome.best.zip(outcome.ponder).map(|(best, reply)| uci(&position.after(best), reply));
        let object = json!({
            "type": "result",
            "best": outcome.best.map(|best| uci(position, best)),
            "best_san": outcome.best.map(|best| board::to_san(position, best)),
            "ponder": reply,
            "nodes": outcome.nodes,
            "lines": outcome.lines.iter().map(|info| line(position, info)).collect::<Vec<_>>(),
        });
        writeln!(out, "{object}")
    }
}

fn line(position: &Position, info: &SearchInfo) -> Value {
    let mut uci = Vec::new();
    let mut at = position.clone();
    for &mv in &info.pv {
        uci.push(board::to_uci(&at, mv));
        at.play(mv);
    }
    json!({
        "depth": info.depth,
        "seldepth": info.seldepth,
        "multipv": info.multipv,
        "score": match info.score {
            Score::Centipawns(value) => json!({ "cp": value }),
            Score::Mate(moves) => json!({ "mate": moves }),
        },
        "bound": match info.bound {
            Bound::Exact => "exact",
            Bound::Lower => "lower",
            Bound::Upper => "upper",
        },
        "wdl": [info.wdl.win, info.wdl.draw, info.wdl.loss],
        "moves_left": info.moves_left,
        "nodes": info.nodes,
        "nps": uci::per_second(info.nodes, info.elapsed),
        "hashfull": info.hashfull,
        "time_ms": info.elapsed.as_millis() as u64,
        "pv": uci,
        "san": board::san_line(position, &info.pv),
    })
}
