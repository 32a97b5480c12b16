//! `batch-first bench search`: measures how a search uses its evaluator (speed, share of the network
//! in the time, batch fill, repeated queries) and computes the signature of the search, a number that
//! only a change of the search changes.

use std::{
    io::{self, Write},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use anyhow::ensure;
use board::Game;
use eval::{DeviceModel, DeviceSpeed, Evaluator, Mock, cpu::measure};
use nets::{Calibration, MoveScores, Network};
use search::{Algorithm, Control, Limits, Search, Settings};
use serde_json::json;

use super::counting::{CountingEvaluator, EvaluatorStatistics};
use crate::engine_args::EngineArgs;

/// Number of searched positions, spread evenly over the built-in openings.
const POSITIONS: usize = 16;

/// Evaluations a position for the signature.
const SIGNATURE_NODES: u64 = 1_000;

/// Seed of the mock evaluator.
const SIGNATURE_SEED: u64 = 1;

#[derive(Debug, clap::Args)]
pub(super) struct SearchArgs {
    #[command(flatten)]
    engine: EngineArgs,
    /// Evaluations a position.
    #[arg(long, value_name = "N", default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    nodes: u64,
    /// Time a position instead of a number of evaluations, as `500ms` or `2s`; with it and `--width 0`
    /// several threads search one tree.
    #[arg(long, value_name = "TIME", conflicts_with = "nodes", value_parser = board::parse_duration)]
    movetime: Option<Duration>,
    /// Positions evaluated together; 0: as the search plays; may be repeated.
    #[arg(long = "width", value_name = "K", default_values_t = [1, 8, 64, 256],
        value_parser = clap::value_parser!(u64).range(0..=16_384))]
    widths: Vec<u64>,
    /// In place of the network: a simulated device with this latency and rate, as `100us,200000/s`.
    /// The evaluator's share of the time is then spent waiting for it.
    #[arg(long, value_name = "LATENCY,RATE")]
    device_model: Option<DeviceSpeed>,
    /// Print JSON, one object a line, instead of a table.
    #[arg(long)]
    json: bool,
}

/// A line of the table.
struct Line {
    algorithm: Algorithm,
    width: usize,
    threads: usize,
    /// Do all threads search, rather than evaluate for one that does?
    searches_on_threads: bool,
    statistics: EvaluatorStatistics,
    /// Positions that the search counts; a later request for moves is a query but no evaluation.
    evaluations: u64,
    /// Seconds of wall time and of processor time.
    wall: f64,
    cpu: f64,
    /// Start of the first search and end of the last, for comparison with measurements of the device.
    from: SystemTime,
    to: SystemTime,
    /// Mean depth of the searches, in plies.
    depth: f64,
}

impl Line {
    /// Of the time of all threads that search.
    fn share_of_network(&self) -> f64 {
        let threads = if self.searches_on_threads { self.threads } else { 1 };
        self.statistics.time.as_secs_f64() / (self.wall * threads as f64)
    }

    /// Mean used share of a batch.
    fn fill(&self) -> f64 {
        self.statistics.queries as f64
            / (self.statistics.batches.max(1) * self.width.max(1) as u64) as f64
    }

    fn repeated(&self) -> f64 {
        self.statistics.repeated as f64 / self.statistics.queries.max(1) as f64
    }

    fn text(&self) -> String {
        let evaluations = self.evaluations as f64;
        format!(
            "{:<10} {:>5} {:>9.0} {:>10.0} {:>9.0} % {:>8.0} % {:>8.1} % {:>6.1}",
            self.algorithm.name(),
            self.width,
            evaluations / self.wall,
            evaluations / self.cpu,
            100.0 * self.share_of_network(),
            100.0 * self.fill(),
            100.0 * self.repeated(),
            self.depth
        )
    }

    fn json(&self) -> String {
        let seconds = |time: SystemTime| {
            time.duration_since(SystemTime::UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
        };
        json!({
            "search": self.algorithm.name(),
            "batch": self.width,
            "evaluations": self.evaluations,
            "evaluations_per_second": self.evaluations as f64 / self.wall,
            "evaluations_per_cpu_second": self.evaluations as f64 / self.cpu,
            "share_of_time_in_the_evaluator": self.share_of_network(),
            "batch_fill": self.fill(),
            "asked_again": self.repeated(),
            "mean_depth": self.depth,
            "started": seconds(self.from),
            "ended": seconds(self.to),
        })
        .to_string()
    }
}

/// Runs the command.
///
/// # Errors
/// The network cannot be used.
pub(super) fn run(args: &SearchArgs) -> anyhow::Result<()> {
    ensure!(
        args.engine.batch.is_none(),
        "here the flag for positions evaluated together is --width"
    );
    let options = args.engine.options(1)?;
    let (network, system) = engine::choose(&options)?;
    ensure!(engine::has_search(system), "{system} has no search to measure");
    let network = Arc::new(network);
    let games = games();
    let algorithms = match options.algorithm {
        Some(one) => vec![one],
        None => Algorithm::ALL.into_iter().filter(|one| one.suits(&network)).collect(),
    };
    let mut out = io::stdout().lock();
    if !args.json {
        let each = args.movetime.map_or_else(
            || format!("{} evaluations", args.nodes),
            |time| format!("{} ms", time.as_millis()),
        );
        writeln!(
            out,
            "network {}, {} positions, {each} each, {} thread{}\n",
            network.name,
            games.len(),
            options.threads,
            if options.threads == 1 { "" } else { "s" }
        )?;
        writeln!(
            out,
            "search         K    eval/s eval/cpu-s  in network  batch fill  asked again  depth"
        )?;
    }
    for &algorithm in &algorithms {
        for &width in &args.widths {
            let settings = Settings { batch: width as usize, ..options.settings.clone() };
            let limits = Limits {
                nodes: args.movetime.is_none().then_some(args.nodes),
                movetime: args.movetime,
                analysis: true,
                ..Limits::default()
            };
            let inner: Box<dyn Evaluator> = match args.device_model {
                Some(speed) => Box::new(DeviceModel::new(speed, options.threads)),
                None => engine::evaluator(&network, &options)?,
            };
            let line = measure(algorithm, (&network, inner), &options, &settings, &games, &limits)?;
            writeln!(out, "{}", if args.json { line.json() } else { line.text() })?;
            // Alpha-beta evaluates one position at a time, whatever the width.
            if algorithm == Algorithm::AlphaBeta {
                break;
            }
        }
    }
    show_signatures(&mut out, &algorithms, args.json)
}

/// Writes the signature of each search.
fn show_signatures(
    out: &mut impl Write,
    algorithms: &[Algorithm],
    is_json: bool,
) -> anyhow::Result<()> {
    let signatures: Vec<(&str, u64)> = algorithms
        .iter()
        .map(|&algorithm| Ok((algorithm.name(), signature(algorithm)?)))
        .collect::<anyhow::Result<_>>()?;
    if is_json {
        writeln!(
            out,
            "{}",
            json!({ "signatures": signatures.into_iter().collect::<std::collections::BTreeMap<_, _>>() })
        )?;
    } else {
        let list: Vec<String> =
            signatures.iter().map(|(name, number)| format!("{name} {number:016x}")).collect();
        writeln!(
            out,
            "\nsignature (mock evaluator, {SIGNATURE_NODES} evaluations): {}",
            list.join(", ")
        )?;
    }
    Ok(())
}

fn games() -> Vec<Game> {
    let all = arena::balanced();
    let step = (all.len() / POSITIONS).max(1);
    all.into_iter().step_by(step).take(POSITIONS).collect()
}

fn measure(
    algorithm: Algorithm,
    (network, inner): (&Arc<Network>, Box<dyn Evaluator>),
    options: &engine::EngineOptions,
    settings: &Settings,
    games: &[Game],
    limits: &Limits,
) -> anyhow::Result<Line> {
    let statistics = Arc::new(Mutex::new(EvaluatorStatistics::default()));
    let divides = algorithm == Algorithm::KBest && !inner.apart().is_empty();
    let searches_on_threads = divides && limits.nodes.is_none() && settings.batch == 0;
    let counting = CountingEvaluator { inner, statistics: Arc::clone(&statistics) };
    let mut search = algorithm.build(Box::new(counting), network, settings);
    let (mut wall, mut cpu, mut depth, mut evaluations) = (0.0, 0.0, 0.0, 0);
    let from = SystemTime::now();
    for game in games {
        search.clear();
        statistics.lock().unwrap_or_else(PoisonError::into_inner).seen.clear();
        let (started, before) = (Instant::now(), measure::process_seconds());
        let outcome = search.search(game, limits, &Control::default(), &mut |_| {})?;
        wall += started.elapsed().as_secs_f64();
        cpu += measure::process_seconds() - before;
        evaluations += outcome.nodes;
        depth += outcome.lines.first().map_or(0.0, |line| f64::from(line.depth));
    }
    let to = SystemTime::now();
    let statistics = statistics.lock().unwrap_or_else(PoisonError::into_inner).clone();
    // The time for counting, of all threads, belongs neither to the search nor to the network.
    let counting = statistics.counting.as_secs_f64();
    let searching = if searches_on_threads { options.threads } else { 1 };
    (wall, cpu) = (wall - counting / searching as f64, cpu - counting);
    let width = if algorithm == Algorithm::AlphaBeta { 1 } else { settings.batch };
    Ok(Line {
        algorithm,
        width,
        threads: options.threads,
        searches_on_threads,
        statistics,
        evaluations,
        wall,
        cpu,
        from,
        to,
        depth: depth / games.len() as f64,
    })
}

/// The signature of a search: a hash of every line that it reports on the positions, with the mock
/// evaluator.
fn signature(algorithm: Algorithm) -> anyhow::Result<u64> {
    let settings = Settings { batch: 8, hash_mib: 16, ..Settings::default() };
    let calibration = Calibration { move_scores: MoveScores::Policy, ..Calibration::default() };
    let mock = Box::new(Mock::new(SIGNATURE_SEED));
    signature_of(algorithm.over(mock, &calibration, true, &settings).as_mut(), &games())
}

/// The FNV-1a hash (Fowler, Noll and Vo 1991) of the lines.
fn signature_of(search: &mut dyn Search, games: &[Game]) -> anyhow::Result<u64> {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for game in games {
        search.clear();
        let limits = Limits { nodes: Some(SIGNATURE_NODES), ..Limits::default() };
        let mut lines = String::new();
        search.search(game, &limits, &Control::default(), &mut |info| {
            lines += &format!("{} {:?} {} ", info.depth, info.score, info.nodes);
            info.pv.iter().for_each(|mv| lines += &format!("{mv:?} "));
        })?;
        for byte in lines.bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    Ok(hash)
}

#[cfg(test)]
mod tests {
    use search::KBest;

    use super::*;

    #[test]
    fn signatures_repeat_and_tell_searches_apart() {
        let games: Vec<Game> = games().into_iter().take(2).collect();
        let of = |seed, batch| {
            let settings = Settings { batch, hash_mib: 16, ..Settings::default() };
            let mut search =
                KBest::new(Box::new(Mock::new(seed)), &Calibration::default(), &settings);
            signature_of(&mut search, &games).unwrap()
        };
        assert_eq!(of(1, 8), of(1, 8));
        assert_ne!(of(1, 8), of(2, 8));
        assert_ne!(of(1, 8), of(1, 1));
    }
}
