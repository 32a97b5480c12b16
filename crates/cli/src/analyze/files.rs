//! `batch-first analyze games.pgn --out annotated.pgn`: annotates files of games.

use std::{
    fs::File,
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use annotate::{AnalysisSettings, AnnotateProgress, AnnotateSettings, Summary};
use anyhow::{Context, bail, ensure};
use games::is_stream;
use search::Control;

use crate::{
    engine_args::processors,
    interrupt::{self, Interrupted},
    progress_line::{ProgressLine, ending, ensure_none_broken, summary_output},
};

/// Evaluations a position without a limit.
const NODES: u64 = 4000;

/// Memory of each search without --hash, in MiB.
const HASH: u64 = 16;

/// Flags of the analysis of files.
#[derive(Debug, clap::Args)]
pub(super) struct FileArgs {
    /// Annotated PGN to write (`-`: standard output); a file beside it keeps the progress of the run.
    #[arg(long, value_name = "FILE", requires = "games", help_heading = "Files of games")]
    out: Option<PathBuf>,
    /// Write, instead of annotated games, one JSON object for each position: the chance that the
    /// network's policy gives the played move, its rank, and the three likeliest moves.
    #[arg(long, requires = "games", conflicts_with_all = ["jsonl", "report", "queue", "strip"],
          help_heading = "Files of games")]
    chances: bool,
    /// Also write one JSON object a game.
    #[arg(long, value_name = "FILE", requires = "games", help_heading = "Files of games")]
    jsonl: Option<PathBuf>,
    /// Also write a summary of players and games as HTML.
    #[arg(long, value_name = "FILE", requires = "games", help_heading = "Files of games")]
    report: Option<PathBuf>,
    /// Games searched at once (default: one a thread).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=4096), requires = "games",
          help_heading = "Files of games")]
    jobs: Option<u64>,
    /// First move to judge, in plies from 1.
    #[arg(
        long,
        value_name = "PLY",
        default_value_t = 1,
        requires = "games",
        help_heading = "Files of games"
    )]
    from: usize,
    /// Last move to judge, in plies from 1 (default: the last of the game).
    #[arg(long, value_name = "PLY", requires = "games", help_heading = "Files of games")]
    to: Option<usize>,
    /// Show the better lines where a move loses at least this many percent of winning chances. Moves
    /// that lose 5 or more are marked.
    #[arg(
        long,
        value_name = "PERCENT",
        default_value_t = 10.0,
        requires = "games",
        help_heading = "Files of games"
    )]
    threshold: f64,
    /// Leave out variations, glyphs and annotators of the input.
    #[arg(long, requires = "games", help_heading = "Files of games")]
    strip: bool,
    /// Let `batch-first worker` processes analyse the games, through a NATS JetStream server as in
    /// nats://host:4222.
    #[arg(long, value_name = "URL", requires = "games", help_heading = "Files of games")]
    queue: Option<String>,
    /// With --queue: a worker without a sign of life for this time loses its game to another.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = board::parse_duration, requires = "queue",
          help_heading = "Files of games")]
    patience: Duration,
}

/// Annotates files.
///
/// # Errors
/// A file or the network cannot be used.
pub(super) fn run(args: super::AnalyzeArgs) -> anyhow::Result<()> {
    let output = args.files.out.clone().context("--out FILE says where the annotated games go")?;
    check(&args)?;
    if args.files.chances {
        return super::chances::run(&args, &output);
    }
    let options = args.engine.options(processors())?;
    let engine = engine::SharedEngine::for_files(&options)?;
    let settings = settings(&args, output, options.threads, engine.name());
    let own = &args.files;
    let control = Control::default();
    interrupt::stop_search(&control)?;
    let mut shown = ProgressReport::new(count(settings.files.clone()));
    let report = &mut |progress: &AnnotateProgress| shown.show(progress);
    let end = match &own.queue {
        #[cfg(feature = "queue")]
        Some(url) => {
            let queue =
                annotate::queue::QueueServer { url: url.clone(), worker_timeout: own.patience };
            annotate::queue::coordinate(&settings, &queue, &control, report)?
        }
        #[cfg(not(feature = "queue"))]
        Some(_) => {
            bail!("this program was built without the work queue; build it with `--features queue`")
        }
        None => annotate::annotate(&settings, &|wanted| engine.search(wanted), &control, report)?,
    };
    let interrupted = control.is_stopped();
    let written = shown.finish(&end, interrupted, &settings.output);
    if let Some(report) = own.report.as_ref().filter(|_| !interrupted) {
        write_report(&settings.output, report)?;
    }
    Interrupted::or(interrupted, written)?;
    ensure_none_broken(end.broken)
}

/// Checks the flags and the input files.
fn check(args: &super::AnalyzeArgs) -> anyhow::Result<()> {
    let own = &args.files;
    ensure!(!args.json, "for files of games JSON goes to a file of its own: --jsonl FILE");
    for path in &args.games {
        ensure!(
            !path.is_dir(),
            "`{}` is a folder; games are read from files, compressed or not",
            path.display()
        );
    }
    if let (Some(report), Some(out)) = (&own.report, &own.out) {
        ensure!(
            !is_stream(out),
            "`{}` is made from the annotated games, which have to be a file: --out FILE",
            report.display()
        );
    }
    ensure!(own.from >= 1, "--from counts plies from 1");
    ensure!(
        own.threshold.is_finite() && own.threshold >= 0.0,
        "--threshold wants a percentage, 0 or more"
    );
    if let Some(to) = own.to.filter(|&to| to < own.from) {
        bail!("--to {to} comes before --from {}", own.from);
    }
    ensure!(args.nodes != Some(0), "--nodes 0 would look at nothing");
    Ok(())
}

/// The settings of the run. `threads` is the default number of games at once, `engine` the name of
/// program, network and search.
fn settings(
    args: &super::AnalyzeArgs,
    output: PathBuf,
    threads: usize,
    engine: &str,
) -> AnnotateSettings {
    let own = &args.files;
    let limited = args.nodes.is_some() || args.depth.is_some() || args.movetime.is_some();
    AnnotateSettings {
        files: args.games.clone(),
        output,
        json: own.jsonl.clone(),
        jobs: own.jobs.map_or(threads, |jobs| jobs as usize),
        analysis: AnalysisSettings {
            nodes: if limited { args.nodes } else { Some(NODES) },
            movetime: args.movetime,
            depth: args.depth,
            batch: args.engine.batch.unwrap_or(0) as usize,
            hash_mib: args.engine.hash.unwrap_or(HASH) as usize,
            from: own.from,
            to: own.to.unwrap_or(usize::MAX),
            multipv: args.multipv as usize,
            threshold: own.threshold,
            strip: own.strip,
            engine: engine.to_owned(),
        },
    }
}

fn write_report(annotated: &Path, report: &Path) -> anyhow::Result<()> {
    let failed = || format!("cannot read `{}`", annotated.display());
    let file = File::open(annotated).with_context(failed)?;
    let summary = Summary::read(io::BufReader::new(file)).with_context(failed)?;
    let title =
        annotated.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    board::write_whole(report, annotate::html_report(&summary, &title).as_bytes())
        .with_context(|| format!("cannot write `{}`", report.display()))
}

/// Counts the games of files on a thread of its own, for the time left; 0 until the count is done.
fn count(files: Vec<PathBuf>) -> Arc<AtomicU64> {
    let total = Arc::new(AtomicU64::new(0));
    // What can be read only once is left to the run.
    if files.iter().any(|file| is_stream(file)) {
        return total;
    }
    let counted = Arc::clone(&total);
    thread::spawn(move || {
        // The run itself reports unreadable files and games.
        let silent = tracing::subscriber::NoSubscriber::default();
        let games = tracing::subscriber::with_default(silent, || {
            games::read_files(&files).map_while(Result::ok).count()
        });
        counted.store(games as u64, Ordering::Relaxed);
    });
    total
}

/// Shows games, positions, speed and time left of this run.
struct ProgressReport {
    line: ProgressLine,
    total: Arc<AtomicU64>,
    first: Option<AnnotateProgress>,
}

impl ProgressReport {
    fn new(total: Arc<AtomicU64>) -> Self {
        Self { line: ProgressLine::new(), total, first: None }
    }

    /// Games and positions a second since the start of this run.
    fn rates(&self, progress: &AnnotateProgress) -> (f64, f64) {
        let first = self.first.unwrap_or_default();
        let rate = |now: u64, then: u64| now.saturating_sub(then) as f64 / self.line.seconds();
        (rate(progress.games, first.games), rate(progress.positions, first.positions))
    }

    fn show(&mut self, progress: &AnnotateProgress) {
        let first = *self.first.get_or_insert(*progress);
        if progress.games == first.games {
            return;
        }
        let (games, positions) = self.rates(progress);
        let total = self.total.load(Ordering::Relaxed);
        self.line.show(|| {
            let (of, left) = match total {
                0 => (String::new(), String::new()),
                total => {
                    let seconds = (total.saturating_sub(progress.games)) as f64 / games.max(1e-9);
                    (format!(" of {total}"), format!(", {} left", time(seconds)))
                }
            };
            format!(
                "{}{of} games, {} positions, {positions:.0} a second{left}",
                progress.games, progress.positions
            )
        });
    }

    fn finish(
        &self,
        end: &AnnotateProgress,
        interrupted: bool,
        output: &Path,
    ) -> anyhow::Result<()> {
        self.line.finish();
        let (_, positions) = self.rates(end);
        writeln!(
            summary_output(output),
            "{}: {} games, {} positions, {positions:.0} positions a second, {}",
            output.display(),
            end.games,
            end.positions,
            ending(interrupted)
        )?;
        Ok(())
    }
}

fn time(seconds: f64) -> String {
    // `as` saturates, so a very long time stays very long.
    let seconds = seconds.round() as u64;
    match seconds {
        0..100 => format!("{seconds} s"),
        100..6000 => format!("{} min", seconds / 60),
        _ => format!("{} h", seconds / 3600),
    }
}
