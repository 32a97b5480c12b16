//! The engine's answers as lines of the protocol.

use std::fmt::{self, Write as _};

use board::{Move, Position, Score};
use search::{Bound, SearchInfo};

/// A score as in `cp 13` or `mate -2`.
pub(crate) struct ScoreText(pub(crate) Score);

impl fmt::Display for ScoreText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Score::Centipawns(value) => write!(f, "cp {value}"),
            Score::Mate(moves) => write!(f, "mate {moves}"),
        }
    }
}

/// The `info` line of a principal variation from `position`. `tbhits`: positions found in endgame
/// tables, if there are tables.
#[must_use]
pub fn info_line(
    position: &Position,
    info: &SearchInfo,
    show_wdl: bool,
    tbhits: Option<u64>,
) -> String {
    let mut line = format!(
        "info depth {} seldepth {} multipv {} score {}",
        info.depth,
        info.seldepth.max(info.depth),
        info.multipv,
        ScoreText(info.score)
    );
    line.push_str(match info.bound {
        Bound::Exact => "",
        Bound::Lower => " lowerbound",
        Bound::Upper => " upperbound",
    });
    // Writing to a string cannot fail.
    if show_wdl {
        let _ = write!(line, " wdl {} {} {}", info.wdl.win, info.wdl.draw, info.wdl.loss);
    }
    if let Some(moves) = info.moves_left {
        let _ = write!(line, " movesleft {moves}");
    }
    let _ = write!(
        line,
        " nodes {} nps {} hashfull {} time {}",
        info.nodes,
        per_second(info.nodes, info.elapsed),
        info.hashfull,
        info.elapsed.as_millis()
    );
    if let Some(hits) = tbhits {
        let _ = write!(line, " tbhits {hits}");
    }
    if !info.pv.is_empty() {
        line.push_str(" pv");
        let mut position = position.clone();
        for &mv in &info.pv {
            if !position.legal_moves().contains(&mv) {
                break;
            }
            line.push(' ');
            line.push_str(&board::to_uci(&position, mv));
            position.play(mv);
        }
    }
    line
}

/// Positions a second; the time is taken as at least a millisecond.
#[must_use]
pub fn per_second(nodes: u64, elapsed: std::time::Duration) -> u64 {
    (nodes as f64 / elapsed.as_secs_f64().max(1e-3)).round() as u64
}

/// The `bestmove` line; `0000` where there is no move. A reply that is not legal is left out.
#[must_use]
pub fn best_move_line(position: &Position, best: Option<Move>, ponder: Option<Move>) -> String {
    let Some(best) = best else {
        return "bestmove 0000".to_owned();
    };
    let mut line = format!("bestmove {}", board::to_uci(position, best));
    if let Some(reply) = ponder {
        let next = position.after(best);
        if next.legal_moves().contains(&reply) {
            line.push_str(" ponder ");
            line.push_str(&board::to_uci(&next, reply));
        }
    }
    line
}
