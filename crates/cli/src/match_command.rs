//! `batch-first match`: games between players, and the strength they show.

pub mod players;
pub mod program;
pub mod view;

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use anyhow::{Context, ensure};
use arena::{
    EloModel, Journal, Match, MatchSettings, PlayerSpec, Results, Rules, Sprt, SprtRun,
    TournamentFormat, Verdict,
};
use board::Game;
use nets::System;

use crate::{
    CheckFailed,
    engine_args::open_tables,
    interrupt::{self, Interrupted},
};
use players::{LimitArgs, SharedCaches, is_internal, player};
use view::MatchView;

/// Play a match between UCI engines, networks and settings.
///
/// A player is `PROGRAM [ARGUMENT...][; OPTION=VALUE]...`, with double quotes around words that
/// contain blanks. The program `self` is this one as a UCI engine; `internal` is the network in
/// this program and `FILE.safetensors` another one, both searched inside this process. The match
/// itself takes the option `name` and one of `nodes`, `movetime`, `depth`, `clock`; all others go
/// to the engine.
/// Examples: --engine self --engine 'stockfish; UCI_LimitStrength=true; UCI_Elo=1350; name=level
/// 1350'; --compare a.safetensors b.safetensors --nodes 1000; --compare internal 'internal;
/// Batch=1' --movetime 100ms
#[derive(Debug, clap::Args)]
pub struct MatchArgs {
    /// A player; given twice or more. The score is the first one's.
    #[arg(long, num_args = 1, value_name = "PLAYER", required_unless_present = "compare")]
    engine: Vec<String>,
    /// Two networks or settings, searched inside this process: is the first one better?
    #[arg(long, num_args = 2, value_names = ["PLAYER", "PLAYER"], conflicts_with = "engine")]
    compare: Vec<String>,
    /// Pair only the first player with each of the others, not all players with each other.
    #[arg(long)]
    gauntlet: bool,
    /// Games of each pairing (default: 10, with --compare 200); colours change after each game,
    /// openings after two.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    games: Option<u64>,
    #[command(flatten)]
    limit: LimitArgs,
    /// System of the players in this process without an option `System`: batch-first, cockfish or
    /// convchess (default: the network's).
    #[arg(long, value_name = "NAME")]
    system: Option<System>,
    /// Games at once.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1024))]
    jobs: u64,
    /// Openings from a PGN, EPD or FEN file, plain or compressed (default: built-in balanced
    /// positions).
    #[arg(long, value_name = "FILE")]
    openings: Option<PathBuf>,
    /// Plies taken from each game of a PGN of openings.
    #[arg(long, default_value_t = 16, value_name = "N", requires = "openings")]
    opening_plies: usize,
    /// Seed of the order of the openings; 0: the order of the file.
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Stop when a sequential test decides between the hypotheses that the first of two players is
    /// stronger by ELO0 and by ELO1, as in `0,5`.
    #[arg(long, value_name = "ELO0,ELO1", allow_hyphen_values = true, value_parser = hypotheses)]
    sprt: Option<(f64, f64)>,
    /// Chance that the test accepts ELO1 when ELO0 is true.
    #[arg(long, default_value_t = 0.05, value_name = "SHARE", requires = "sprt")]
    alpha: f64,
    /// Chance that the test accepts ELO0 when ELO1 is true.
    #[arg(long, default_value_t = 0.05, value_name = "SHARE", requires = "sprt")]
    beta: f64,
    /// ELO0 and ELO1 are normalised Elo.
    #[arg(long, requires = "sprt")]
    normalized: bool,
    /// Append the games to this file.
    #[arg(long, value_name = "FILE")]
    pgn: Option<PathBuf>,
    /// Keep the match in this folder: games, report.html and report.json. The same command resumes
    /// an interrupted match.
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Leave thinking times out of the games: deterministic players then give the same text every
    /// time.
    #[arg(long)]
    no_times: bool,
    /// Show only games that ended by a fault, and the summary.
    #[arg(long)]
    quiet: bool,
    /// End with exit code 1 if an engine crashes, stalls, plays an illegal move or exceeds its
    /// time.
    #[arg(long)]
    strict: bool,
    /// Play until the rules of chess or --max-plies end the game.
    #[arg(long)]
    no_adjudication: bool,
    /// Adjudicate games by the Syzygy tables of this folder.
    #[arg(long, value_name = "FOLDER")]
    syzygy: Option<PathBuf>,
    /// Longest game; a longer one is drawn.
    #[arg(long, default_value_t = 400, value_name = "N")]
    max_plies: usize,
    /// Time over the limit that is tolerated.
    #[arg(long, default_value = "100ms", value_name = "TIME", value_parser = board::parse_duration)]
    margin: Duration,
}

impl MatchArgs {
    fn players(&self) -> anyhow::Result<Vec<PlayerSpec>> {
        let limit = self.limit.control();
        for text in &self.compare {
            let program = program::unquoted(program::without_options(text).0.trim());
            ensure!(
                is_internal(program),
                "--compare takes networks (FILE.safetensors or `internal`), not `{program}`; engines go to --engine"
            );
        }
        let texts = if self.compare.is_empty() { &self.engine } else { &self.compare };
        ensure!(texts.len() >= 2, "a match needs --engine twice");
        let mut caches = SharedCaches::default();
        texts.iter().map(|text| player(text, limit, self.system, Some(&mut caches))).collect()
    }

    fn sprt(&self, players: usize) -> anyhow::Result<Option<SprtRun>> {
        let Some((elo0, elo1)) = self.sprt else { return Ok(None) };
        ensure!(players == 2, "--sprt is a test between two players");
        let model = if self.normalized { EloModel::Normalized } else { EloModel::Logistic };
        let sprt = Sprt { elo0, elo1, alpha: self.alpha, beta: self.beta, model }.checked()?;
        Ok(Some(SprtRun::new(sprt)))
    }

    fn settings(&self) -> anyhow::Result<MatchSettings> {
        let mut rules =
            Rules { max_plies: self.max_plies, margin: self.margin, ..Rules::default() };
        if self.no_adjudication {
            rules = rules.without_adjudication();
        }
        let openings = openings(self.openings.as_deref(), self.opening_plies)?;
        let games = self.games.unwrap_or(if self.compare.is_empty() { 10 } else { 200 });
        Ok(MatchSettings {
            players: self.players()?,
            format: if self.gauntlet {
                TournamentFormat::Gauntlet
            } else {
                TournamentFormat::RoundRobin
            },
            games: games as usize,
            rules,
            tables: self.syzygy.as_deref().map(open_tables).transpose()?.map(Arc::new),
            openings: arena::shuffled(openings, self.seed),
            jobs: self.jobs as usize,
            start_timeout: Duration::from_secs(20),
            times: !self.no_times,
        })
    }
}

fn hypotheses(text: &str) -> Result<(f64, f64), String> {
    let numbers = text.split_once(',').and_then(|(elo0, elo1)| {
        Some((elo0.trim().parse::<f64>().ok()?, elo1.trim().parse::<f64>().ok()?))
    });
    numbers.ok_or_else(|| "expected two Elo differences like `0,5`".to_owned())
}

/// Runs the command.
///
/// # Errors
/// A player, the openings or an output cannot be used; with `--strict`, an engine was at fault.
pub fn run(args: MatchArgs) -> anyhow::Result<()> {
    let settings = args.settings()?;
    let mut sprt = args.sprt(settings.players.len())?;
    warn_of_repeated_openings(&settings);
    let mut pgn = args.pgn.as_deref().map(append_to).transpose()?;
    let stop = interrupt::stop_flag()?;
    let tournament = Match::new(settings)?;
    let (mut journal, known) = open_journal(args.out.as_deref(), &tournament)?;
    if let Some(sprt) = &mut sprt
        && sprt.advance(&known) != Verdict::Open
    {
        stop.store(true, Ordering::Relaxed);
    }
    let view = MatchView::new(tournament.names().to_vec(), tournament.games(), args.quiet);
    let mut out = io::stdout().lock();
    let mut written: anyhow::Result<()> = Ok(());
    let results = tournament.run(known, &stop, &mut |game, results| {
        let mut show = || -> anyhow::Result<()> {
            if let Some(journal) = &mut journal {
                journal.add(game)?;
            }
            if let Some(file) = &mut pgn {
                file.write_all(game.pgn.as_bytes())?;
            }
            let decided = sprt.as_mut().is_some_and(|sprt| sprt.advance(results) != Verdict::Open);
            if decided {
                stop.store(true, Ordering::Relaxed);
            }
            Ok(view.game(&mut out, game, results, sprt.as_ref())?)
        };
        if written.is_ok() {
            written = show();
        }
        if written.is_err() {
            stop.store(true, Ordering::Relaxed);
        }
    })?;
    // Files come before the screen, whose reader may have closed it.
    let decided = sprt.is_some_and(|sprt| sprt.verdict != Verdict::Open);
    let cut_short = results.len() < tournament.games() && !decided;
    if let (Some(journal), Some(folder)) = (journal, &args.out) {
        journal.finish(&results)?;
        write_reports(folder, &tournament.summary(&results, sprt))?;
    }
    let end = || -> io::Result<()> {
        view.end(&mut out, &results, sprt.as_ref())?;
        if cut_short {
            let is_kept = args.out.is_some();
            writeln!(out, "{}", interrupted(results.len(), tournament.games(), is_kept))?;
        }
        Ok(())
    };
    let shown = written.and_then(|()| Ok(end()?));
    let faults = results.games().filter(|game| game.fault.is_some()).count();
    if args.strict && faults > 0 {
        return Err(CheckFailed(format!("{faults} games ended by a fault of an engine")).into());
    }
    Interrupted::or(cut_short, shown)
}

fn warn_of_repeated_openings(settings: &MatchSettings) {
    let rounds = settings.games.div_ceil(2);
    if rounds > settings.openings.len() {
        tracing::warn!(
            "{} openings for {rounds} pairs of games: deterministic players will repeat themselves",
            settings.openings.len()
        );
    }
}

/// The journal of a match in a folder with the games that it already has; without a folder no
/// journal and no games.
pub fn open_journal(
    folder: Option<&Path>,
    tournament: &Match,
) -> anyhow::Result<(Option<Journal>, Results)> {
    let Some(folder) = folder else { return Ok((None, Results::default())) };
    let (journal, known) = Journal::open(folder, tournament.identity())?;
    Ok((Some(journal), known))
}

/// Opens a file for appending.
fn append_to(path: &Path) -> anyhow::Result<File> {
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .with_context(|| format!("cannot write `{}`", path.display()))
}

fn write_reports(folder: &Path, summary: &arena::summary::Summary) -> anyhow::Result<()> {
    let write = |name: &str, text: &[u8]| {
        let path = folder.join(name);
        board::write_whole(&path, text)
            .with_context(|| format!("cannot write `{}`", path.display()))
    };
    write("report.json", &serde_json::to_vec_pretty(summary)?)?;
    write("report.html", arena::report::html_report(summary).as_bytes())
}

/// The message about an interrupted match.
pub fn interrupted(games: usize, of: usize, kept: bool) -> String {
    let how = if kept { " (the same command goes on)" } else { "" };
    format!("interrupted after {games} of {of} games{how}")
}

/// The openings of a file, or the built-in ones.
pub fn openings(path: Option<&Path>, plies: usize) -> anyhow::Result<Vec<Game>> {
    let Some(path) = path else { return Ok(arena::balanced()) };
    let read = || -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        io::Read::read_to_end(&mut games::plain_text(games::open_input(path)?)?, &mut text)?;
        Ok(text)
    };
    let text = read().with_context(|| format!("cannot read `{}`", path.display()))?;
    let by_name = games::Format::of_name(path);
    let openings = match by_name.unwrap_or_else(|| games::Format::of_text(&text)) {
        games::Format::Pgn => arena::from_pgn(&text, plies),
        _ => arena::from_epd(&String::from_utf8_lossy(&text)),
    };
    openings.with_context(|| format!("`{}` cannot be used", path.display()))
}
