//! `batch-first data`: files of games into training shards, and a look at them.

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
    /// Show what a folder of shards holds and what was left out.
    Inspect(InspectArgs),
}

/// Files may be PGN with [%eval] comments, Lichess's evaluation database (JSON lines) or EPD/FEN
/// lists, plain or compressed with zstd, gzip or bzip2.
#[derive(Debug, clap::Args)]
struct ImportArgs {
    /// Files to read, in this order.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Folder for the shards; created if missing.
    #[arg(long)]
    out: PathBuf,
    /// Share of the games (of single positions: of the positions) held out for validation.
    #[arg(long, default_value_t = 0.02)]
    validation: f64,
    /// Decides which games are held out and the order of the records.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// At most so many labelled positions of each file.
    #[arg(long)]
    max_positions: Option<u64>,
    /// What becomes of mates among the evaluations.
    #[arg(long, value_enum, default_value_t = Mates::Keep)]
    mates: Mates,
    /// Also keep positions with a played move but no evaluation.
    #[arg(long)]
    unlabelled: bool,
    /// Keep equal positions as often as they occur, for learning moves: how often a move is played
    /// matters there.
    #[arg(long)]
    duplicates: bool,
    /// Only games whose players are both rated at least so high.
    #[arg(long, value_name = "RATING")]
    min_elo: Option<u32>,
    /// Only games with such a result.
    #[arg(long, value_enum, default_value_t = Wanted::Any)]
    results: Wanted,
    /// Only games of at least so many moves of both sides together.
    #[arg(long, value_name = "PLIES")]
    min_plies: Option<u32>,
    /// Only games of at most so many moves of both sides together.
    #[arg(long, value_name = "PLIES")]
    max_plies: Option<u32>,
    /// Replace the shards that the folder already holds.
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
    /// For programs.
    #[arg(long)]
    json: bool,
    /// Read every shard and compare with the manifest.
    #[arg(long)]
    verify: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mates {
    Keep,
    Drop,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Wanted {
    Any,
    /// Won, lost or drawn.
    Finished,
    /// Won by one side.
    Decisive,
}

impl From<Wanted> for ResultFilter {
    fn from(wanted: Wanted) -> Self {
        match wanted {
            Wanted::Any => Self::Any,
            Wanted::Finished => Self::Finished,
            Wanted::Decisive => Self::Decisive,
        }
    }
}

/// Runs the command.
///
/// # Errors
/// Files that cannot be read or written, or options that make no sense: one sentence.
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

/// Writes to standard output; a reader that has gone away is no error.
fn print(text: &str) -> anyhow::Result<()> {
    match writeln!(std::io::stdout().lock(), "{text}") {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        result => result.context("cannot write to standard output"),
    }
}

/// For a terminal.
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

/// For a file or a pipe: a line a file and now and then one between.
struct Lines {
    name: String,
    bytes: u64,
    next: Instant,
}

impl Default for Lines {
    fn default() -> Self {
        Self { name: String::new(), bytes: 0, next: Instant::now() + EVERY }
    }
}

const EVERY: Duration = Duration::from_secs(10);

impl Lines {
    /// Progress that cannot be written is not worth an error.
    fn say(&mut self, text: &str) {
        let _ = writeln!(std::io::stderr(), "{text}");
        self.next = Instant::now() + EVERY;
    }
}

impl ImportProgress for Lines {
    fn file(&mut self, path: &Path, bytes: u64) {
        self.name = short_name(path);
        self.bytes = bytes;
        self.say(&format!("reading {}", path.display()));
    }

    fn read(&mut self, bytes: u64, positions: u64) {
        if Instant::now() >= self.next {
            let share = bytes as f64 * 100.0 / self.bytes.max(1) as f64;
            self.say(&format!("{}: {share:.0} %, {positions} positions", self.name));
        }
    }

    fn packed(&mut self, done: usize, of: usize) {
        if done == of || Instant::now() >= self.next {
            self.say(&format!("{PACKING}: {done} of {of}"));
        }
    }
}

fn short_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}
