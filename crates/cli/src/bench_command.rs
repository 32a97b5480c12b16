//! `batch-first bench`: measures the speed of evaluation (by code path and batch size), of search and
//! of training on this machine.

mod counting;
mod evaluations;
mod search;
mod train;

use std::{
    io::Write,
    path::{Path, PathBuf},
    sync::Arc,
};

use board::Position;
use eval::{
    Batch, Evaluator,
    cpu::{CpuEvaluator, CpuOptions},
};
use nets::HeadKind;

/// Measure speed on this machine.
///
/// Without a command: the last line is `N nodes M nps`, as frameworks for engine tests read it. N are
/// the evaluations of K-best-first to a fixed depth with a mock evaluator: only a change of the
/// search changes it. M are the evaluations a second with the network `fast` on one thread.
#[derive(Debug, clap::Args)]
pub struct BenchArgs {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Evaluations a second: a table of network, head, code path and batch size.
    Eval(evaluations::EvalArgs),
    /// Score the start position once and end; another program times this cold start.
    First {
        /// Network file, or `large` or `fast` (default: the large network in the program).
        #[arg(long, value_name = "FILE")]
        net: Option<PathBuf>,
    },
    /// How the searches use the evaluator: evaluations a second, share of the network in the time,
    /// batch fill.
    Search(search::SearchArgs),
    /// Positions trained a second, on meaningless data.
    Train(train::BenchTrainArgs),
}

/// Runs the command.
///
/// # Errors
/// A network or path cannot be used.
pub fn run(args: BenchArgs) -> anyhow::Result<()> {
    match args.command {
        None => print(&engine::bench()?.to_string()),
        Some(Command::Eval(args)) => evaluations::run(&args),
        Some(Command::First { net }) => first(net.as_deref()),
        Some(Command::Search(args)) => search::run(&args),
        Some(Command::Train(args)) => train::run(&args),
    }
}

/// Number of bench positions.
const POSITIONS: usize = 1024;

/// The bench positions: from random games, the same on every machine.
pub(crate) fn bench_positions() -> Vec<Position> {
    let mut state = 1_u64;
    let mut position = Position::default();
    let mut list = Vec::with_capacity(POSITIONS);
    while list.len() < POSITIONS {
        let moves = position.legal_moves();
        if moves.is_empty() || position.ply() > 100 {
            position = Position::default();
            continue;
        }
        // Knuth's MMIX generator; only its high bits are random enough.
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        position.play(moves[(state >> 33) as usize % moves.len()]);
        list.push(position.clone());
    }
    list
}

/// Evaluates the start position once, for the measurement of a cold start by another process.
fn first(net: Option<&Path>) -> anyhow::Result<()> {
    let network = Arc::new(engine::load_or_large(net)?);
    let value = network.description.head(HeadKind::Value).is_some();
    let mut evaluator = CpuEvaluator::new(network, CpuOptions::default())?;
    let mut batch = Batch::default();
    let start = Position::default();
    let moves = start.legal_moves();
    batch.push(&start, value, if value { &[] } else { moves.as_slice() });
    let scores = evaluator.evaluate(batch)?.scores;
    print(&format!("{:.1}", if value { scores.values[0] } else { scores.moves[0] }))
}

/// Prints and flushes a line, so that a long table appears line by line.
fn print(line: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()?;
    Ok(())
}
