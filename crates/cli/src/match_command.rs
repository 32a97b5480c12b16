//! `batch-first match`: games between two engines and what they say about strength.

use std::{
    fs::OpenOptions,
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, bail};
use arena::{MatchGame, MatchScore, MatchSettings, Rules, TimeControl};
use board::Game;
use uci::client::EngineSpec;

use crate::{Found, analyze::duration};

/// Play a match between two UCI engines.
///
/// An engine is given as `PROGRAM [ARGUMENT...][; OPTION=VALUE]...`; the program `self` is this one, and the option
/// `name` is what it is called in results. Example: --engine self --engine 'stockfish; UCI_LimitStrength=true;
/// UCI_Elo=1350; name=level 1350'
#[derive(Debug, clap::Args)]
pub struct Args {
    /// An engine; given twice. The score is the first one's.
    #[arg(long, required = true, num_args = 1, value_name = "ENGINE")]
    engine: Vec<String>,
    /// Number of games; colours change after each, openings after two.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    games: u64,
    #[command(flatten)]
    limit: LimitArgs,
    /// Games at once.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1024))]
    jobs: u64,
    /// Openings from a PGN, EPD or FEN file (default: a built-in book).
    #[arg(long, value_name = "FILE")]
    openings: Option<PathBuf>,
    /// Plies taken from each game of a PGN of openings.
    #[arg(long, default_value_t = 8, value_name = "N")]
    opening_plies: usize,
    /// Append the games to this file.
    #[arg(long, value_name = "FILE")]
    pgn: Option<PathBuf>,
    /// End with exit code 1 if an engine crashed, stalled, played an illegal move or overstepped its time.
    #[arg(long)]
    strict: bool,
    /// Play on until the rules of chess end the game.
    #[arg(long)]
    no_adjudication: bool,
    /// Games of more plies are drawn.
    #[arg(long, default_value_t = 400, value_name = "N")]
    max_plies: usize,
    /// Time over the limit that is forgiven.
    #[arg(long, default_value = "100ms", value_name = "TIME", value_parser = duration)]
    margin: Duration,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct LimitArgs {
    /// Time a move, as in `200ms` or `1s`.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    movetime: Option<Duration>,
    /// Nodes a move.
    #[arg(long, value_name = "N")]
    nodes: Option<u64>,
    /// Depth of each search.
    #[arg(long, value_name = "PLIES")]
    depth: Option<u32>,
    /// Seconds for the game and increment a move, as in `10+0.1`.
    #[arg(long, value_name = "BASE+INC", value_parser = clock)]
    clock: Option<TimeControl>,
}

impl LimitArgs {
    fn control(&self) -> anyhow::Result<TimeControl> {
        Ok(match self {
            Self { movetime: Some(time), .. } => TimeControl::MoveTime(*time),
            Self { nodes: Some(nodes), .. } => TimeControl::Nodes(*nodes),
            Self { depth: Some(depth), .. } => TimeControl::Depth(*depth),
            Self { clock: Some(clock), .. } => *clock,
            _ => bail!("one of --movetime, --nodes, --depth and --clock is needed"),
        })
    }
}

fn clock(text: &str) -> Result<TimeControl, String> {
    let (base, increment) = text.split_once('+').unwrap_or((text, "0"));
    let seconds = |text: &str| duration(&format!("{text}s"));
    let explain = |_| "expected seconds and increment like `10+0.1`".to_owned();
    Ok(TimeControl::Clock {
        base: seconds(base).map_err(explain)?,
        increment: seconds(increment).map_err(explain)?,
    })
}

/// Runs the command.
///
/// # Errors
/// An engine, the openings or the PGN file cannot be used; with `--strict`, an engine was at fault.
pub fn run(args: Args) -> anyhow::Result<()> {
    let [first, second] = args.engine.as_slice() else {
        bail!("a match needs --engine twice");
    };
    let mut rules = Rules { max_plies: args.max_plies, margin: args.margin, ..Rules::default() };
    if args.no_adjudication {
        rules = rules.without_adjudication();
    }
    let settings = MatchSettings {
        engines: [engine(first)?, engine(second)?],
        games: args.games as usize,
        control: args.limit.control()?,
        rules,
        openings: openings(args.openings.as_deref(), args.opening_plies)?,
        jobs: args.jobs as usize,
        start_patience: Duration::from_secs(20),
    };
    let mut pgn = match &args.pgn {
        Some(path) => Some(
            OpenOptions::new()
                .create(true)
                .append(true)
                .open(path)
                .with_context(|| format!("cannot write `{}`", path.display()))?,
        ),
        None => None,
    };
    let stop = Arc::new(AtomicBool::new(false));
    let raised = Arc::clone(&stop);
    ctrlc::set_handler(move || {
        if raised.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
    })
    .context("Ctrl-C cannot be caught")?;
    let mut out = io::stdout().lock();
    let mut written: io::Result<()> = Ok(());
    let score = arena::run_match(&settings, &stop, &mut |game, score| {
        if written.is_ok() {
            written = show(&mut out, game, score, settings.games);
        }
        if let (Ok(()), Some(file)) = (&written, &mut pgn) {
            let names = (game.names[0].as_str(), game.names[1].as_str());
            let text = arena::pgn::match_game("Batch First match", game.number + 1, names, &game.played);
            written = file.write_all(text.as_bytes());
        }
        if written.is_err() {
            stop.store(true, Ordering::Relaxed);
        }
    })?;
    written?;
    summary(&mut out, &score)?;
    let faults: usize = score.faults.iter().sum();
    if args.strict && faults > 0 {
        return Err(Found(format!("{faults} games ended by a fault of an engine")).into());
    }
    if args.strict && score.tally.games() < args.games as u32 {
        return Err(Found("the match was interrupted".to_owned()).into());
    }
    Ok(())
}

fn show(out: &mut impl Write, game: &MatchGame, score: &MatchScore, games: usize) -> io::Result<()> {
    let result = match game.played.winner {
        None => "1/2",
        Some(board::Color::White) => "1-0",
        Some(board::Color::Black) => "0-1",
    };
    writeln!(
        out,
        "game {:>3} of {games}  {} - {}  {result}  {} ({} plies)  {}",
        game.number + 1,
        game.names[0],
        game.names[1],
        arena::pgn::describe(&game.played.ending),
        game.played.game.moves().len(),
        score.tally
    )?;
    if let Some((engine, fault)) = game.fault() {
        writeln!(out, "  fault of engine {}: {}: {}", engine + 1, fault.name(), fault.describe())?;
    }
    out.flush()
}

fn summary(out: &mut impl Write, score: &MatchScore) -> io::Result<()> {
    let tally = &score.tally;
    let percent = 100.0 * tally.points() / f64::from(tally.games().max(1));
    write!(out, "result: {tally}, {:.1} of {} ({percent:.1} %)", tally.points(), tally.games())?;
    if let Some(elo) = score.elo() {
        write!(out, ", Elo {elo}")?;
    }
    writeln!(out, "\nfaults: {} by the first engine, {} by the second", score.faults[0], score.faults[1])?;
    out.flush()
}

/// Reads `PROGRAM [ARGUMENT...][; OPTION=VALUE]...`.
pub fn engine(text: &str) -> anyhow::Result<EngineSpec> {
    let mut parts = text.split(';');
    let mut words = parts.next().unwrap_or_default().split_whitespace();
    let program = words.next().with_context(|| format!("`{text}` names no engine"))?;
    let mut spec = EngineSpec {
        program: program.into(),
        arguments: words.map(str::to_owned).collect(),
        ..EngineSpec::default()
    };
    if program == "self" {
        spec.program = std::env::current_exe().context("this program cannot find itself")?;
    }
    for part in parts.map(str::trim).filter(|part| !part.is_empty()) {
        let (option, value) = part
            .split_once('=')
            .with_context(|| format!("`{part}` in `{text}` is no option (expected OPTION=VALUE)"))?;
        let (option, value) = (option.trim(), value.trim().to_owned());
        if option == "name" {
            spec.name = Some(value);
        } else {
            spec.options.push((option.to_owned(), value));
        }
    }
    Ok(spec)
}

fn openings(path: Option<&Path>, plies: usize) -> anyhow::Result<Vec<Game>> {
    let Some(path) = path else { return Ok(arena::built_in()) };
    let text = std::fs::read(path).with_context(|| format!("cannot read `{}`", path.display()))?;
    let is_pgn = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("pgn"));
    let openings =
        if is_pgn { arena::from_pgn(&text, plies) } else { arena::from_epd(&String::from_utf8_lossy(&text)) };
    openings.with_context(|| format!("`{}` cannot be used", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_from_text() {
        let spec = engine("stockfish --x; UCI_Elo = 1350;name=level 1350;").unwrap();
        assert_eq!(spec.program, PathBuf::from("stockfish"));
        assert_eq!(spec.arguments, ["--x"]);
        assert_eq!(spec.options, [("UCI_Elo".to_owned(), "1350".to_owned())]);
        assert_eq!(spec.name.as_deref(), Some("level 1350"));
        assert!(engine("").is_err());
        assert!(engine("sf; Elo").is_err());
        assert!(engine("self").unwrap().program.is_absolute());
    }

    #[test]
    fn clocks_from_text() {
        let second = Duration::from_secs(1);
        assert_eq!(clock("10+0.1"), Ok(TimeControl::Clock { base: 10 * second, increment: second / 10 }));
        assert_eq!(clock("1"), Ok(TimeControl::Clock { base: second, increment: Duration::ZERO }));
        assert!(clock("x+1").is_err() && clock("1+").is_err() && clock("-1+0").is_err());
    }
}
