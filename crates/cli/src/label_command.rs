//! `batch-first label`: makes training data with another engine.

use std::{
    io::Write,
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use anyhow::{Context, bail};
use arena::{PlayerKind, TimeControl};
use engine::has_search;
use label::{
    LabelProgress, LabelSettings, LabelSource, SelfPlaySettings, StockfishNetwork, Teacher,
    TreeSettings,
};
use uci::client::EngineSpec;

use crate::{
    interrupt::{self, Interrupted},
    match_command::{
        players::{engine_spec, player},
        program::on_path,
    },
    progress_line::{ProgressLine, ending, ensure_none_broken, summary_output},
};

/// Let another engine evaluate positions, into a PGN with [%eval] comments.
///
/// With files (PGN, EPD or FEN, plain or compressed) every position of their games is evaluated;
/// without files the engine plays varied games against itself; with --trees a search of this program
/// plays them, and positions that it evaluates on the way are labelled. The same command resumes an
/// interrupted run.
#[derive(Debug, clap::Args)]
pub struct LabelArgs {
    /// Games or positions to evaluate (default: self-play).
    files: Vec<PathBuf>,
    /// PGN to write (`-`: standard output); a file beside it keeps the progress of the run.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// The engine, as `PROGRAM [ARGUMENT...][; OPTION=VALUE]...` (default: the installed stockfish).
    #[arg(long, value_name = "ENGINE")]
    engine: Option<String>,
    /// A network of Stockfish 15.1 (its command `export_net FILE` writes one) in place of an engine:
    /// its value after the captures, without a best move.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["engine", "nodes", "patience"])]
    network: Option<PathBuf>,
    /// Label positions of search trees: of this player, as in `match --engine`, with its evaluations
    /// a move.
    #[arg(
        long,
        value_name = "PLAYER",
        num_args = 0..=1,
        default_missing_value = "internal; WeightsFile=fast; Threads=1; nodes=500",
        conflicts_with = "files"
    )]
    trees: Option<String>,
    /// Share of the positions evaluated by --trees that are labelled.
    #[arg(long, default_value_t = 0.025, value_name = "SHARE", requires = "trees")]
    share: f64,
    /// Nodes a position.
    #[arg(long, default_value_t = 5000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    nodes: u64,
    /// Engine processes, or threads with --network (default: one a processor).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1024))]
    jobs: Option<u64>,
    /// Games of self-play or of --trees.
    #[arg(long, default_value_t = 1000, value_name = "N", conflicts_with = "files")]
    games: u64,
    /// Seed of the openings and random moves of self-play.
    #[arg(long, default_value_t = 1, conflicts_with = "files")]
    seed: u64,
    /// Most random moves at the beginning of a game of self-play.
    #[arg(long, default_value_t = 10, value_name = "PLIES", conflicts_with = "files")]
    random_plies: usize,
    /// Chance of a random move later in a game of self-play.
    #[arg(long, default_value_t = 0.05, value_name = "CHANCE", conflicts_with = "files")]
    random_moves: f64,
    /// Longest game of self-play.
    #[arg(long, default_value_t = 240, value_name = "PLIES", conflicts_with = "files")]
    max_plies: usize,
    /// Longest wait for one evaluation.
    #[arg(long, default_value = "60s", value_name = "TIME", value_parser = board::parse_duration)]
    patience: Duration,
}

/// Runs the command.
///
/// # Errors
/// The engine, an input or the output cannot be used.
pub fn run(args: LabelArgs) -> anyhow::Result<()> {
    if !(0.0..=1.0).contains(&args.random_moves) {
        bail!("--random-moves wants a chance from 0 to 1");
    }
    let defaults = SelfPlaySettings::default();
    if !(0.0..=1.0).contains(&args.share) {
        bail!("--share wants a number from 0 to 1");
    }
    let self_play = SelfPlaySettings {
        seed: args.seed,
        random_plies: (defaults.random_plies.0.min(args.random_plies), args.random_plies),
        random_moves: args.random_moves,
        max_plies: args.max_plies,
        ..defaults
    };
    let games = args.games;
    let (nodes, timeout) = (args.nodes, args.patience);
    let asked = |engine| Teacher::Engine { engine, nodes, timeout };
    let source = match &args.trees {
        Some(text) => {
            let settings = Box::new(trees(text, args.share, self_play)?);
            LabelSource::Trees { settings, games }
        }
        None if args.files.is_empty() => LabelSource::SelfPlay { settings: self_play, games },
        None => LabelSource::Files(args.files),
    };
    if args.network.is_some() && matches!(source, LabelSource::SelfPlay { .. }) {
        bail!("a network plays no games by itself: give files, or --trees with a player");
    }
    let teacher = match (&args.network, &args.engine) {
        (Some(file), _) => Teacher::Network(Arc::new(StockfishNetwork::open(file)?)),
        (None, Some(text)) => asked(engine_spec(text)?),
        (None, None) => {
            asked(EngineSpec { program: installed_stockfish()?, ..EngineSpec::default() })
        }
    };
    let settings = LabelSettings {
        teacher,
        source,
        jobs: args.jobs.map_or_else(crate::engine_args::processors, |jobs| jobs as usize),
        output: args.out,
    };
    let stop = interrupt::stop_flag()?;
    let mut shown = ProgressReport::new();
    let end = label::label(&settings, &stop, &mut |progress| shown.show(progress))?;
    let interrupted = stop.load(Ordering::Relaxed);
    let written = shown.finish(&end, interrupted, &settings.output);
    Interrupted::or(interrupted, written)?;
    ensure_none_broken(end.broken)
}

/// The player whose trees are sampled.
fn trees(text: &str, share: f64, games: SelfPlaySettings) -> anyhow::Result<TreeSettings> {
    let spec = player(text, None, None, None)?;
    match (spec.kind, spec.control) {
        (PlayerKind::Search(player), TimeControl::Nodes(nodes)) if has_search(player.system()) => {
            Ok(TreeSettings { player: *player, identity: spec.identity, nodes, share, games })
        }
        _ => bail!(
            "`{text}` has no trees to sample: --trees wants a search of this program with a number of \
             evaluations, as in `internal; WeightsFile=fast; nodes=500`"
        ),
    }
}

/// The `stockfish` of `PATH`, or of the folders where Debian installs it.
pub fn installed_stockfish() -> anyhow::Result<PathBuf> {
    on_path(Path::new("stockfish"), &["/usr/games", "/usr/local/bin"])
        .context("stockfish is not installed; install it or name an engine with --engine")
}

/// Shows games, positions and speed of this run.
struct ProgressReport {
    line: ProgressLine,
    first: Option<u64>,
}

impl ProgressReport {
    fn new() -> Self {
        Self { line: ProgressLine::new(), first: None }
    }

    fn show(&mut self, progress: &LabelProgress) {
        let first = *self.first.get_or_insert(progress.positions);
        if progress.positions == first {
            return; // An engine that does not start is an error, which is reported without progress.
        }
        let rate = (progress.positions - first) as f64 / self.line.seconds();
        self.line.show(|| {
            let of = progress.of.map_or(String::new(), |of| format!(" of {of}"));
            format!(
                "{}{of} games, {} positions, {rate:.0} a second",
                progress.games, progress.positions
            )
        });
    }

    fn finish(&self, end: &LabelProgress, interrupted: bool, output: &Path) -> anyhow::Result<()> {
        self.line.finish();
        writeln!(
            summary_output(output),
            "{}: {} games, {} evaluated positions, {}",
            output.display(),
            end.games,
            end.positions,
            ending(interrupted)
        )?;
        Ok(())
    }
}
