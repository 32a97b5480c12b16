//! `batch-first ladder`: rates a player on a scale of fixed opponents, and calibrates that scale.

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    sync::atomic::Ordering,
    time::Duration,
};

use anyhow::{Context, ensure};
use arena::{
    Journal, Match, MatchSettings, PlayerKind, PlayerSpec, Results, Rules, ScheduledGame,
    TimeControl, TournamentFormat,
    ladder::{Ladder, Rung},
};
use nets::System;
use serde_json::json;
use uci::client::EngineSpec;

use crate::{
    interrupt::{self, Interrupted},
    label_command::installed_stockfish,
    match_command::{
        interrupted, open_journal, openings,
        players::{LimitArgs, player},
        program::contents,
        view::MatchView,
    },
};

/// Longest wait for a move of an opponent with fixed nodes. It is long, so that the load of the
/// machine decides no game.
const UNTIMED_TIMEOUT: Duration = Duration::from_secs(600);

/// Rate a player on a scale of fixed opponents: Stockfish at fixed nodes, whose strength does not
/// depend on the machine.
///
/// Each opponent is chosen near the current rating of the player. Example: --engine internal
/// --movetime 1s --games 100
#[derive(Debug, clap::Args)]
pub struct LadderArgs {
    /// The player, as in `match --engine`.
    #[arg(long, value_name = "PLAYER", default_value = "internal")]
    engine: String,
    #[command(flatten)]
    limit: LimitArgs,
    /// System of a player in this process: batch-first, cockfish or convchess (default: the
    /// network's).
    #[arg(long, value_name = "NAME")]
    system: Option<System>,
    /// Number of games; with --calibrate, games of each two neighbours, including those that the
    /// scale has already.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(2..=1_000_000))]
    games: u64,
    /// Games at once.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1024))]
    jobs: u64,
    /// First guess of the rating.
    #[arg(long, default_value_t = 1700.0, value_name = "ELO")]
    guess: f64,
    /// File of the scale (default: the embedded scale).
    #[arg(long, value_name = "FILE")]
    scale: Option<PathBuf>,
    /// The opponents' program (default: the installed stockfish).
    #[arg(long, value_name = "PROGRAM")]
    stockfish: Option<PathBuf>,
    /// Openings, as in `match`.
    #[arg(long, value_name = "FILE")]
    openings: Option<PathBuf>,
    /// Seed of the order of the openings; 0: the order of the file.
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Time over the limit that is tolerated.
    #[arg(long, default_value = "100ms", value_name = "TIME", value_parser = board::parse_duration)]
    margin: Duration,
    /// Keep games, report.html and ladder.json in this folder; the same command resumes an
    /// interrupted run.
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Show only games that ended by a fault, and the summary.
    #[arg(long)]
    quiet: bool,
    /// Calibrate the scale: play the rungs against each other and write FOLDER/scale.json. It goes
    /// on from the games in the scale, which must be of the same opponents, openings and seed.
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["engine", "out", "movetime", "nodes", "depth", "clock"])]
    calibrate: Option<PathBuf>,
}

impl LadderArgs {
    fn scale(&self) -> anyhow::Result<Ladder> {
        let Some(path) = &self.scale else { return Ok(Ladder::built_in()?) };
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read `{}`", path.display()))?;
        Ladder::from_json(&text).with_context(|| format!("`{}` cannot be used", path.display()))
    }

    fn rungs(&self, scale: &Ladder) -> anyhow::Result<Vec<PlayerSpec>> {
        let program = match &self.stockfish {
            Some(program) => program.clone(),
            None => installed_stockfish()?,
        };
        let file = contents(&program);
        Ok(scale.rungs.iter().map(|rung| opponent(&program, &file, rung)).collect())
    }

    fn arrange(&self, players: Vec<PlayerSpec>, format: TournamentFormat) -> anyhow::Result<Match> {
        Ok(Match::new(MatchSettings {
            players,
            format,
            games: self.games as usize,
            rules: Rules { margin: self.margin, untimed: UNTIMED_TIMEOUT, ..Rules::default() },
            tables: None,
            openings: arena::shuffled(openings(self.openings.as_deref(), 16)?, self.seed),
            jobs: self.jobs as usize,
            start_timeout: UNTIMED_TIMEOUT,
            times: true,
        })?)
    }
}

fn opponent(program: &Path, file: &str, rung: &Rung) -> PlayerSpec {
    let options = rung.options.clone();
    PlayerSpec {
        identity: format!("{} ({file}) {options:?} {}", program.display(), rung.nodes),
        name: Some(rung.name.clone()),
        kind: PlayerKind::Engine(EngineSpec {
            program: program.to_owned(),
            options,
            ..EngineSpec::default()
        }),
        control: TimeControl::Nodes(rung.nodes),
    }
}

/// Runs the command.
///
/// # Errors
/// The player, the scale, the openings or a folder cannot be used.
pub fn run(args: LadderArgs) -> anyhow::Result<()> {
    match &args.calibrate {
        Some(folder) => calibrate(&args, folder),
        None => rate_player(&args),
    }
}

fn calibrate(args: &LadderArgs, folder: &Path) -> anyhow::Result<()> {
    ensure!(
        args.games.is_multiple_of(2),
        "--games must be even: rungs play each opening with both colours"
    );
    let scale = args.scale()?;
    let tournament = args.arrange(args.rungs(&scale)?, Ladder::FORMAT)?;
    let schedule: Vec<ScheduledGame> =
        tournament.schedule().iter().filter(|game| !scale.knows(game)).copied().collect();
    let (mut journal, known) = Journal::open(folder, tournament.identity())?;
    let view = MatchView::new(tournament.names().to_vec(), tournament.games(), args.quiet);
    let stop = interrupt::stop_flag()?;
    let mut out = io::stdout().lock();
    let mut written: anyhow::Result<()> = Ok(());
    let results = tournament.play(&schedule, known, &stop, &mut |game, results| {
        if written.is_ok() {
            written = journal
                .add(game)
                .map_err(anyhow::Error::from)
                .and_then(|()| Ok(view.game(&mut out, game, results, None)?));
        }
        if written.is_err() {
            stop.store(true, Ordering::Relaxed);
        }
    })?;
    journal.finish(&results)?;
    write(
        folder,
        "report.html",
        arena::report::html_report(&tournament.summary(&results, None)).as_bytes(),
    )?;
    let done = schedule.iter().filter(|game| results.contains(game.number)).count();
    let cut_short = done < schedule.len();
    let scale = if cut_short {
        None // A scale needs all games.
    } else {
        let scale = scale.calibrated(&results)?;
        write(folder, "scale.json", &serde_json::to_vec_pretty(&scale)?)?;
        Some(scale)
    };
    let end = || -> io::Result<()> {
        view.end(&mut out, &results, None)?;
        let Some(scale) = scale else {
            return writeln!(out, "{}", interrupted(done, schedule.len(), true));
        };
        print_scale(&mut out, &scale)
    };
    Interrupted::or(cut_short, written.and_then(|()| Ok(end()?)))
}

/// Writes the rungs, each with what it is above the one before.
fn print_scale(out: &mut impl Write, scale: &Ladder) -> io::Result<()> {
    writeln!(out, "{:<28} {:>6}  {:>15} {:>11}  games", "rung", "Elo", "95 %", "step")?;
    for rung in &scale.rungs {
        let interval = format!("[{:.0}, {:.0}]", rung.low, rung.high);
        let step = rung.step.map_or(String::new(), |[elo, error]| format!("{elo:.0} ± {error:.0}"));
        writeln!(
            out,
            "{:<28} {:>6.0}  {interval:>15} {step:>11}  {:>5}",
            rung.name, rung.elo, rung.games
        )?;
    }
    Ok(())
}

fn rate_player(args: &LadderArgs) -> anyhow::Result<()> {
    let scale = args.scale()?;
    ensure!(args.guess.is_finite(), "--guess must be a number");
    let mut players = vec![player(&args.engine, args.limit.control(), args.system, None)?];
    players.extend(args.rungs(&scale)?);
    let tournament = args.arrange(players, TournamentFormat::Gauntlet)?;
    let (mut journal, mut results) = open_journal(args.out.as_deref(), &tournament)?;
    let games = args.games as usize;
    let view = MatchView::new(tournament.names().to_vec(), games, args.quiet);
    let stop = interrupt::stop_flag()?;
    let mut out = io::stdout().lock();
    let mut written: anyhow::Result<()> = Ok(());
    while results.len() < games && written.is_ok() && !stop.load(Ordering::Relaxed) {
        let mut scheduled_games = Ladder::missing_partners(&results);
        if scheduled_games.is_empty() {
            let pairs = (args.jobs as usize).min((games - results.len()).div_ceil(2));
            scheduled_games = scale.next_pairs(&results, args.guess, pairs);
        }
        results = tournament.play(&scheduled_games, results, &stop, &mut |game, results| {
            let mut show = || -> anyhow::Result<()> {
                if let Some(journal) = &mut journal {
                    journal.add(game)?;
                }
                Ok(view.game(&mut out, game, results, None)?)
            };
            if written.is_ok() {
                written = show();
            }
            if written.is_err() {
                stop.store(true, Ordering::Relaxed);
            }
        })?;
    }
    view.clear();
    if let (Some(journal), Some(folder)) = (journal, &args.out) {
        journal.finish(&results)?;
        let summary = tournament.summary(&results, None);
        let placing = scale.ladder_rating(&results);
        let facts = json!({ "placing": placing, "scale": scale, "match": summary });
        write(folder, "ladder.json", &serde_json::to_vec_pretty(&facts)?)?;
        write(folder, "report.html", arena::report::html_report(&summary).as_bytes())?;
    }
    let cut_short = results.len() < games;
    let mut end = || -> io::Result<()> {
        summary(&mut out, &scale, &results, tournament.names())?;
        if cut_short {
            writeln!(out, "{}", interrupted(results.len(), games, args.out.is_some()))?;
        }
        Ok(())
    };
    Interrupted::or(cut_short, written.and_then(|()| Ok(end()?)))
}

fn write(folder: &Path, name: &str, text: &[u8]) -> anyhow::Result<()> {
    let path = folder.join(name);
    board::write_whole(&path, text).with_context(|| format!("cannot write `{}`", path.display()))
}

/// Writes the result against each rung, then the rating.
fn summary(
    out: &mut impl Write,
    scale: &Ladder,
    results: &Results,
    names: &[String],
) -> io::Result<()> {
    writeln!(out, "{:<28} {:>6} {:>6}  won drew lost    score", "opponent", "Elo", "games")?;
    for (index, rung) in scale.rungs.iter().enumerate() {
        let tally = results.head_to_head(0, index + 1).tally;
        if tally.games() > 0 {
            writeln!(
                out,
                "{:<28} {:>6.0} {:>6}  {:>3} {:>4} {:>4}  {:>5.1} %",
                rung.name,
                rung.elo,
                tally.games(),
                tally.wins,
                tally.draws,
                tally.losses,
                100.0 * tally.points() / f64::from(tally.games())
            )?;
        }
    }
    let tally = results.of(0).tally;
    let percent = 100.0 * tally.points() / f64::from(tally.games().max(1));
    writeln!(
        out,
        "{}: {} games, {tally}, {percent:.1} %, pooled Elo {} (95 %; {} = {:.0})",
        names[0],
        tally.games(),
        scale.ladder_rating(results).text,
        scale.anchor,
        scale.rungs.iter().find(|rung| rung.name == scale.anchor).map_or(0.0, |rung| rung.elo)
    )?;
    for (kind, count) in results.faults(0) {
        writeln!(out, "{count} games lost by a fault: {kind}")?;
    }
    out.flush()
}
