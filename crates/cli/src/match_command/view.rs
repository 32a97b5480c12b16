//! A match on the terminal: a line for each finished game, a live table below them, a summary at
//! the end.

use std::{
    fmt::Write as _,
    io::{self, IsTerminal, Write},
    time::Duration,
};

use arena::{GameRecord, Results, SprtRun};
use indicatif::{ProgressBar, ProgressStyle};

/// Shows the games of a match.
#[derive(Debug)]
pub struct MatchView {
    names: Vec<String>,
    games: usize,
    quiet: bool,
    bar: Option<ProgressBar>,
}

impl MatchView {
    /// `quiet` leaves out the lines of games that ended without a fault.
    pub fn new(names: Vec<String>, games: usize, quiet: bool) -> Self {
        let bar = io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(games as u64);
            let style = ProgressStyle::with_template("{bar:40} {pos} of {len}, {eta} left\n{msg}")
                .unwrap_or_else(|_| ProgressStyle::default_bar());
            bar.set_style(style);
            bar.enable_steady_tick(Duration::from_secs(1));
            bar
        });
        Self { names, games, quiet, bar }
    }

    /// Shows a finished game.
    ///
    /// # Errors
    /// The output is closed.
    pub fn game(
        &self,
        out: &mut impl Write,
        game: &GameRecord,
        results: &Results,
        sprt: Option<&SprtRun>,
    ) -> io::Result<()> {
        let mut text = String::new();
        if !self.quiet || game.fault.is_some() {
            let standing = match self.names.as_slice() {
                [_, _] => results.of(0).tally.to_string(),
                _ => format!("{} done", results.len()),
            };
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "game {:>3} of {}  {} - {}  {}  {} ({} plies)  {standing}",
                game.number + 1,
                self.games,
                self.names[game.white],
                self.names[game.black],
                game.result().replace("1/2-1/2", "1/2"),
                game.ending,
                game.plies,
            );
            if let Some(fault) = &game.fault {
                let _ = writeln!(
                    text,
                    "  fault of {}: {}: {}",
                    self.names[fault.player], fault.kind, fault.detail
                );
            }
        }
        let mut write = || out.write_all(text.as_bytes()).and_then(|()| out.flush());
        let Some(bar) = &self.bar else { return write() };
        bar.set_position(results.len() as u64);
        let test = sprt.map_or_else(String::new, SprtRun::to_string);
        bar.set_message(format!("{}{test}", standings(&self.names, results)));
        bar.suspend(write)
    }

    /// Removes the live table.
    pub fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    /// Removes the live table and shows the summary.
    ///
    /// # Errors
    /// The output is closed.
    pub fn end(
        self,
        out: &mut impl Write,
        results: &Results,
        sprt: Option<&SprtRun>,
    ) -> io::Result<()> {
        self.clear();
        if let [first, second] = self.names.as_slice() {
            writeln!(out, "{}", head_to_head(first, second, results))?;
            if let Some(sprt) = sprt {
                writeln!(out, "{sprt}")?;
            }
            let faults = [0, 1].map(|player| results.faults(player).values().sum::<usize>());
            writeln!(
                out,
                "faults: {} by the first engine, {} by the second",
                faults[0], faults[1]
            )?;
        } else {
            write!(out, "{}", standings(&self.names, results))?;
        }
        out.flush()
    }
}

/// The summary of a match between two players, from the first player's side.
fn head_to_head(first: &str, second: &str, results: &Results) -> String {
    let head_to_head = results.head_to_head(0, 1);
    let tally = head_to_head.tally;
    let percent = 100.0 * tally.points() / f64::from(tally.games().max(1));
    let mut text =
        format!("result: {tally}, {:.1} of {} ({percent:.1} %)", tally.points(), tally.games());
    if let Some(estimate) = head_to_head.estimate() {
        let _ = write!(
            text,
            ", Elo {estimate}, LOS {:.1} %\npairs:  {} (LL, LD, DD or WL, WD, WW)",
            100.0 * estimate.superiority,
            head_to_head.pairs
        );
        if let Some((value, reach)) = estimate.normalized {
            let _ = write!(text, ", normalised Elo {value:+.0} ± {reach:.0}");
        }
        let verdict = if estimate.low > 0.0 {
            "is better than"
        } else if estimate.high < 0.0 {
            "is worse than"
        } else {
            "cannot be told from"
        };
        let _ = write!(text, "\n{first} {verdict} {second} (95 %)");
    }
    text
}

/// The table of all players with a finished game, best score first.
fn standings(names: &[String], results: &Results) -> String {
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).max(6);
    let mut rows: Vec<(f64, String)> = names
        .iter()
        .enumerate()
        .map(|(player, name)| (player, name, results.of(player)))
        .filter(|(_, _, head_to_head)| head_to_head.tally.games() > 0)
        .map(|(player, name, head_to_head)| {
            let games = head_to_head.tally.games();
            let score = head_to_head.tally.points() / f64::from(games);
            let mut row = format!(
                "{name:<width$}  {games:>5}  {:>4} {:>4} {:>4}  {:>5.1} %",
                head_to_head.tally.wins,
                head_to_head.tally.draws,
                head_to_head.tally.losses,
                100.0 * score
            );
            if let Some(estimate) = head_to_head.estimate() {
                let _ = write!(
                    row,
                    "  {:<22}  {:>5.1} %",
                    estimate.to_string(),
                    100.0 * estimate.superiority
                );
            }
            for (kind, count) in results.faults(player) {
                let _ = write!(row, "  {count} × {kind}");
            }
            (score, row)
        })
        .collect();
    rows.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut text = format!(
        "{:<width$}  games   won drew lost    score  Elo against the field       LOS  faults\n",
        "player"
    );
    for (_, row) in rows {
        text.push_str(row.trim_end());
        text.push('\n');
    }
    text
}
