//! `batch-first rate`: rates all players of PGN files.

use std::{
    io::{self, Write},
    path::PathBuf,
};

use anyhow::{Context, bail};
use arena::{PairingResults, PgnResults, rate};

/// Rate the players of PGN files from all their games at once (maximum likelihood, 95 % intervals).
#[derive(Debug, clap::Args)]
pub struct RateArgs {
    /// PGN files, plain or compressed.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// The player whose rating is fixed, as in `Stockfish 2k nodes=2150` (default: the first
    /// player of the first file, 0).
    #[arg(long, value_name = "NAME=ELO")]
    anchor: Option<String>,
}

/// Runs the command.
///
/// # Errors
/// A file cannot be read or holds no finished game, or no player has the anchor's name.
pub fn run(args: RateArgs) -> anyhow::Result<()> {
    let mut results = PgnResults::default();
    for path in &args.files {
        let failed = || format!("cannot read `{}`", path.display());
        let text = games::plain_text(games::open_input(path).with_context(failed)?)
            .with_context(failed)?;
        results.read(&path.display().to_string(), text).with_context(failed)?;
    }
    let names = &results.names;
    if names.len() < 2 {
        bail!("the files hold no finished games between two players");
    }
    let (anchor, elo) = match &args.anchor {
        None => (0, 0.0),
        Some(text) => {
            let (name, elo) = text
                .rsplit_once('=')
                .and_then(|(name, elo)| Some((name.trim(), elo.trim().parse::<f64>().ok()?)))
                .with_context(|| format!("--anchor wants NAME=ELO, not `{text}`"))?;
            let known = names.iter().position(|other| other == name);
            (known.with_context(|| format!("nobody in the files is called `{name}`"))?, elo)
        }
    };
    let pairings = results.pairing_results();
    let ratings = rate(names.len(), &pairings, anchor, elo);
    let mut rows: Vec<(f64, String)> = (0..names.len())
        .map(|player| {
            let (points, games) = score(&pairings, player);
            let (elo, rating) = match ratings[player] {
                Some(rating) => {
                    let (low, high) = rating.interval();
                    (rating.elo, format!("{:>6.0}  [{low:.0}, {high:.0}]", rating.elo))
                }
                None => (f64::NEG_INFINITY, "no finite rating".to_owned()),
            };
            let percent = 100.0 * points / f64::from(games.max(1));
            (elo, format!("{:<28} {games:>6} {percent:>6.1} %  {rating}", names[player]))
        })
        .collect();
    rows.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut out = io::stdout().lock();
    writeln!(out, "{:<28} {:>6} {:>8}  {:>6}  95 %", "player", "games", "score", "Elo")?;
    for (_, row) in rows {
        writeln!(out, "{row}")?;
    }
    if results.unfinished > 0 {
        writeln!(out, "{} games without a result or players were left out", results.unfinished)?;
    }
    Ok(())
}

/// Points and games of a player.
fn score(pairings: &[PairingResults], player: usize) -> (f64, u32) {
    let (mut half_points, mut games) = (0, 0);
    for pairing in pairings {
        for observation in &pairing.observations {
            half_points += match player {
                _ if player == pairing.first => u32::from(observation.half_points),
                _ if player == pairing.second => {
                    u32::from(2 * observation.games - observation.half_points)
                }
                _ => continue,
            };
            games += u32::from(observation.games);
        }
    }
    (f64::from(half_points) / 2.0, games)
}
