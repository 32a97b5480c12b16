//! `batch-first openings`: selects balanced openings for matches from games with evaluations.

use std::{
    io::{self, Write},
    path::PathBuf,
};

use anyhow::{Context, ensure};

/// Select balanced openings from games with [%eval] comments, as `label` makes them, into an EPD
/// file.
#[derive(Debug, clap::Args)]
pub struct OpeningsArgs {
    /// PGN files, plain or compressed.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// EPD file to write.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Take the position after this many plies of each game.
    #[arg(long, default_value_t = 10, value_name = "N")]
    plies: usize,
    /// Largest evaluation for either side, in centipawns.
    #[arg(long, default_value_t = 25, value_name = "CENTIPAWNS", value_parser = clap::value_parser!(i32).range(0..=10_000))]
    within: i32,
    /// A comment for the first line, for example the origin of the games.
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
}

/// Runs the command.
///
/// # Errors
/// A file cannot be read or written, or no game is balanced.
pub fn run(args: OpeningsArgs) -> anyhow::Result<()> {
    let mut games = Vec::new();
    for path in &args.files {
        let failed = || format!("cannot read `{}`", path.display());
        let text = games::plain_text(games::open_input(path).with_context(failed)?)
            .with_context(failed)?;
        for game in games::read_pgn(text) {
            games.extend(game.with_context(failed)?.into_game());
        }
    }
    let count = games.len();
    let lines = arena::select_balanced(games.into_iter(), args.plies, args.within);
    ensure!(
        !lines.is_empty(),
        "none of the {count} games has a balanced evaluation after {} plies",
        args.plies
    );
    let note =
        args.note.map_or_else(String::new, |note| format!("# {}\n", note.replace('\n', " ")));
    let text = format!("{note}{}\n", lines.join("\n"));
    board::write_whole(&args.out, text.as_bytes())
        .with_context(|| format!("cannot write `{}`", args.out.display()))?;
    writeln!(io::stdout(), "{} openings from {count} games", lines.len())?;
    Ok(())
}
