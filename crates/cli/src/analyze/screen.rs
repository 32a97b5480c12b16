//! The analysis for people: the board, then a row for every new principal variation, then a summary.

use std::io::{self, Write};

use board::{Game, GameEnd};
use nets::Wdl;
use search::{Bound, Outcome, SearchInfo};

use super::AnalysisView;
use crate::board_view::{Charset, chances_bar, diagram, san_line, white_chances, white_score};

/// Plies of a line in a row of the table.
const ROW_PLIES: usize = 8;

/// Plies of a line in the summary.
const SUMMARY_PLIES: usize = 24;

#[derive(Debug)]
pub(super) struct Screen {
    charset: Charset,
}

impl Screen {
    pub(super) fn new(charset: Charset) -> Self {
        Self { charset }
    }
}

impl AnalysisView for Screen {
    fn begin(&mut self, out: &mut dyn Write, game: &Game, engine: &str) -> io::Result<()> {
        writeln!(out, "{}", diagram(game.position(), self.charset))?;
        writeln!(out, "{}", game.position().fen())?;
        writeln!(out, "{engine}\n")?;
        match game.end() {
            Some(end) => writeln!(out, "{}", describe_end(&end))?,
            None => writeln!(
                out,
                "{:>7}  {:>7}  {:<12}  {:>10}  {:>7}  line",
                "depth", "White", "win draw loss", "nodes", "time"
            )?,
        }
        Ok(())
    }

    fn info(&mut self, out: &mut dyn Write, game: &Game, info: &SearchInfo) -> io::Result<()> {
        let position = game.position();
        let turn = position.turn();
        let bound = match (info.bound, turn.is_white()) {
            (Bound::Exact, _) => "",
            (Bound::Lower, true) | (Bound::Upper, false) => ">",
            _ => "<",
        };
        writeln!(
            out,
            "{:>7}  {:>7}  {}  {:>10}  {:>6.1}s  {}",
            format!("{}/{}", info.depth, info.seldepth),
            format!("{bound}{}", white_score(info.score, turn)),
            chances_bar(white_chances(info.wdl, turn), self.charset, 13),
            info.nodes,
            info.elapsed.as_secs_f64(),
            san_line(position, &info.pv, ROW_PLIES)
        )
    }

    fn end(&mut self, out: &mut dyn Write, game: &Game, outcome: &Outcome) -> io::Result<()> {
        let position = game.position();
        let Some(best) = outcome.best else { return Ok(()) };
        writeln!(out)?;
        if let Some(info) = outcome.lines.first() {
            let turn = position.turn();
            let chances = white_chances(info.wdl, turn);
            let [wins, draws, losses] = percents(chances);
            writeln!(
                out,
                "White {}   {}  wins {wins} %, draws {draws} %, loses {losses} %",
                white_score(info.score, turn),
                chances_bar(chances, self.charset, 30),
            )?;
            if let Some(moves) = info.moves_left {
                writeln!(out, "The game lasts about {moves} more moves, the network estimates.")?;
            }
            for info in &outcome.lines {
                let line = san_line(position, &info.pv, SUMMARY_PLIES);
                writeln!(out, "{:>3}  {:>7}  {line}", info.multipv, white_score(info.score, turn))?;
            }
        }
        write!(out, "Best move: {}", board::to_san(position, best))?;
        if let Some(reply) = outcome.ponder {
            write!(out, " (expected reply: {})", board::to_san(&position.after(best), reply))?;
        }
        writeln!(out)
    }
}

/// Chances of a win, a draw and a loss in whole percents, which add up to 100.
fn percents(chances: Wdl) -> [u16; 3] {
    let rounded = |per_mille: u16| (per_mille + 5) / 10;
    let wins = rounded(chances.win);
    let not_lost = rounded(chances.win + chances.draw);
    [wins, not_lost - wins, 100 - not_lost]
}

/// The end of a game in one sentence.
pub(super) fn describe_end(end: &GameEnd) -> String {
    match end {
        GameEnd::Checkmate { winner } => {
            format!("Checkmate: {} has won.", if winner.is_white() { "White" } else { "Black" })
        }
        GameEnd::Stalemate => "Stalemate: a draw.".to_owned(),
        GameEnd::InsufficientMaterial => "Neither side can mate: a draw.".to_owned(),
        GameEnd::Repetition => "Threefold repetition: a draw.".to_owned(),
        GameEnd::FiftyMoves => "Fifty moves without a capture or pawn move: a draw.".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percents_add_up() {
        let of = |win, draw, loss| percents(Wdl { win, draw, loss });
        assert_eq!(of(276, 467, 257), [28, 46, 26]);
        assert_eq!(of(995, 0, 5), [100, 0, 0]);
        assert_eq!(of(0, 0, 1000), [0, 0, 100]);
    }
}
