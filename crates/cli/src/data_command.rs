//! `batch-first data`: imports files of games into training shards, and inspects shards.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::{Subcommand, ValueEnum};
use data::{GameFilter, ImportOptions, ImportProgress, ResultFilter};
use indicatif::{ProgressBar, ProgressStyle};

/// Training data.
#[derive(Debug, clap::Args)]
pub struct DataArgs {
    #[command(subcommand)]
    command: DataCommand,
}

#[derive(Debug, Subcommand)]
enum DataCommand {
    /// Read games and evaluations and write shuffled training shards.
    Import(ImportArgs),
    /// Show the content of a folder of shards and the counts of skipped records.
    Inspect(InspectArgs),
}

/// A file is PGN with [%eval] comments, Lichess's evaluation database (JSON lines) or a list of EPD
/// or FEN lines, plain or compressed with zstd, gzip or bzip2.
#[derive(Debug, clap::Args)]
struct ImportArgs {
    /// Files to read, in this order.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Folder for the shards; created if missing.
    #[arg(long)]
    out: PathBuf,
    /// Share of the games (or single positions) held out for validation.
    #[arg(long, default_value_t = 0.02)]
    validation: f64,
    /// Seed of the held-out games and of the order of the records.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// At most this many labelled positions of each file.
    #[arg(long)]
    max_positions: Option<u64>,
    /// Treatment of evaluations that are mates.
    #[arg(long, value_enum, default_value_t = Mates::Keep)]
    mates: Mates,
    /// Keep also positions with a played move but no evaluation.
    #[arg(long)]
    unlabelled: bool,
    /// Keep every occurrence of equal positions, for the training of move heads, which learn the
    /// frequencies of moves.
    #[arg(long)]
    duplicates: bool,
    /// Only games whose players both have at least this rating.
    #[arg(long, value_name = "RATING")]
    min_elo: Option<u32>,
    /// Only games with this result.
    #[arg(long, value_enum, default_value_t = ResultChoice::Any)]
    results: ResultChoice,
    /// Only games of at least this many plies.
    #[arg(long, value_name = "PLIES")]
    min_plies: Option<u32>,
    /// Only games of at most this many plies.
    #[arg(long, value_name = "PLIES")]
    max_plies: Option<u32>,
    /// Replace existing shards in the folder.
    #[arg(long)]
    overwrite: bool,
    /// Parsing threads (default: one a processor).
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    threads: usize,
    /// Print the manifest as JSON at the end instead of a summary.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct InspectArgs {
    /// Folder of shards.
    dir: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Read every shard and compare it with the manifest.
    #[arg(long)]
    verify: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mates {
    Keep,
    Drop,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ResultChoice {
    Any,
    /// Won, lost or drawn.
    Finished,
    /// Won by one side.
    Decisive,
}

impl From<ResultChoice> for ResultFilter {
    fn from(choice: ResultChoice) -> Self {
        match choice {
            ResultChoice::Any => Self::Any,
            ResultChoice::Finished => Self::Finished,
            ResultChoice::Decisive => Self::Decisive,
        }
    }
}

/// Runs the command.
///
/// # Errors
/// A file cannot be read or written, or the options contradict each other.
pub fn run(args: DataArgs) -> anyhow::Result<()> {
    match args.command {
        DataCommand::Import(args) => import(&args),
        DataCommand::Inspect(args) => inspect(&args),
    }
}

fn import(args: &ImportArgs) -> anyhow::Result<()> {
    let options = ImportOptions {
        validation: args.validation,
        seed: args.seed,
        max_positions: args.max_positions,
        mates: args.mates == Mates::Keep,
        unlabelled: args.unlabelled,
        duplicates: args.duplicates,
        games: GameFilter {
            min_elo: args.min_elo,
            results: args.results.into(),
            min_plies: args.min_plies,
            max_plies: args.max_plies,
        },
        threads: args.threads,
        overwrite: args.overwrite,
    };
    let started = Instant::now();
    let mut progress: Box<dyn ImportProgress> = if std::io::stderr().is_terminal() {
        Box::new(Bars::default())
    } else {
        Box::new(Lines::default())
    };
    let manifest = data::import(&args.files, &args.out, &options, progress.as_mut())?;
    drop(progress);
    if args.json {
        return print(&serde_json::to_string_pretty(&manifest)?);
    }
    let seconds = started.elapsed().as_secs_f64();
    let read: u64 = manifest.sources.iter().map(|source| source.positions).sum();
    let mut text = String::new();
    for source in &manifest.sources {
        text += &format!(
            "{}: {} positions read, {} to train on, {} held out\n",
            source.name, source.positions, source.train.records, source.validation.records
        );
        for (kind, count) in &source.skipped.0 {
            text += &format!("  skipped {count} {}\n", kind.describe());
        }
    }
    text += &format!(
        "{read} positions in {seconds:.1} s ({:.0} a second) to {}\ndata hash {}",
        read as f64 / seconds.max(1e-9),
        args.out.display(),
        manifest.data_hash
    );
    print(&text)
}

fn inspect(args: &InspectArgs) -> anyhow::Result<()> {
    let inspection = data::inspect(&args.dir, args.verify)?;
    if args.json {
        print(&serde_json::to_string_pretty(&inspection)?)
    } else {
        print(inspection.to_string().trim_end())
    }
}

/// Writes to standard output; a closed pipe is no error.
fn print(text: &str) -> anyhow::Result<()> {
    match writeln!(std::io::stdout().lock(), "{text}") {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        result => result.context("cannot write to standard output"),
    }
}

/// Progress on a terminal: a bar for each file.
#[derive(Default)]
struct Bars {
    bar: Option<ProgressBar>,
}

impl Bars {
    fn begin(&mut self, length: u64, template: &str, name: String) {
        self.end();
        let style =
            ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        self.bar = Some(ProgressBar::new(length).with_style(style).with_prefix(name));
    }

    fn end(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish();
        }
    }
}

impl Drop for Bars {
    fn drop(&mut self) {
        self.end();
    }
}

impl ImportProgress for Bars {
    fn file(&mut self, path: &Path, bytes: u64) {
        self.begin(bytes, "{prefix} {wide_bar} {bytes}/{total_bytes} {msg}", short_name(path));
    }

    fn read(&mut self, bytes: u64, positions: u64) {
        if let Some(bar) = &self.bar {
            bar.set_position(bytes);
            bar.set_message(format!("{positions} positions"));
        }
    }

    fn packed(&mut self, done: usize, of: usize) {
        if self.bar.as_ref().is_none_or(|bar| bar.prefix() != PACKING) {
            self.begin(of as u64, "{prefix} {wide_bar} {pos}/{len}", PACKING.to_owned());
        }
        if let Some(bar) = &self.bar {
            bar.set_position(done as u64);
        }
    }
}

const PACKING: &str = "shuffling and packing";

/// Progress in a file or a pipe: a line for each file, and one every ten seconds.
struct Lines {
    name: String,
    bytes: u64,
    next: Instant,
}

impl Default for Lines {
    fn default() -> Self {
        Self { name: String::new(), bytes: 0, next: Instant::now() + INTERVAL }
    }
}

/// Time between two lines.
const INTERVAL: Duration = Duration::from_secs(10);

impl Lines {
    /// Writes a line; a failed write is ignored.
    fn print(&mut self, text: &str) {
        let _ = writeln!(std::io::stderr(), "{text}");
        self.next = Instant::now() + INTERVAL;
    }
}

impl ImportProgress for Lines {
    fn file(&mut self, path: &Path, bytes: u64) {
        self.name = short_name(path);
        self.bytes = bytes;
        self.print(&format!("reading {}", path.display()));
    }

    fn read(&mut self, bytes: u64, positions: u64) {
        if Instant::now() >= self.next {
            let share = bytes as f64 * 100.0 / self.bytes.max(1) as f64;
            self.print(&format!("{}: {share:.0} %, {positions} positions", self.name));
        }
    }

    fn packed(&mut self, done: usize, of: usize) {
        if done == of || Instant::now() >= self.next {
            self.print(&format!("{PACKING}: {done} of {of}"));
        }
    }
}

fn short_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}
