//! The chances of all legal moves, for a system without a search.

use std::io::Write;

use board::{Game, Move};
use serde_json::json;

use crate::board_view::{Charset, diagram};

/// Cells of the bar for a chance of 1.
const BAR: f32 = 40.0;

/// Writes every move with its chance, the likeliest first.
///
/// # Errors
/// The output cannot be written.
pub(super) fn show(
    out: &mut dyn Write,
    game: &Game,
    chances: &[(Move, f32)],
    engine: &str,
    is_json: bool,
    charset: Charset,
) -> anyhow::Result<()> {
    let position = game.position();
    if is_json {
        let rows: Vec<_> = chances
            .iter()
            .map(|&(mv, chance)| {
                json!({ "uci": board::to_uci(position, mv), "san": board::to_san(position, mv), "chance": chance })
            })
            .collect();
        let object = json!({
            "type": "distribution",
            "fen": position.fen(),
            "turn": if position.turn().is_white() { "white" } else { "black" },
            "engine": engine,
            "over": game.end().map(|end| super::screen::describe_end(&end)),
            "moves": rows,
        });
        writeln!(out, "{object}")?;
        return Ok(out.flush()?);
    }
    writeln!(out, "{}", diagram(position, charset))?;
    writeln!(out, "{}", position.fen())?;
    writeln!(out, "{engine}\n")?;
    if let Some(end) = game.end() {
        writeln!(out, "{}", super::screen::describe_end(&end))?;
    }
    let cell = if charset == Charset::Ascii { "#" } else { "█" };
    for &(mv, chance) in chances {
        let bar = cell.repeat((BAR * chance).round() as usize);
        let row = format!("{:<8}{:>6.2} %  {bar}", board::to_san(position, mv), 100.0 * chance);
        writeln!(out, "{}", row.trim_end())?;
    }
    if let Some(&(best, _)) = chances.first() {
        writeln!(out, "\nBest move: {}", board::to_san(position, best))?;
    }
    Ok(out.flush()?)
}
