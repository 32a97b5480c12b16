//! `batch-first bench eval`: evaluations a second of processor time, a table of network, head, code
//! path and batch size.

mod line;

use std::{
    collections::VecDeque,
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use anyhow::{Context, bail, ensure};
use board::Position;
use eval::{
    Batch, Devices, EvalError, Evaluator, Precision,
    cpu::{CpuPath, measure},
};
use nets::{BatchFirstResidual, Cockfish, Description, HeadKind, Network, Squares};

use line::Line;

use super::{bench_positions, print};
use crate::eval_target::EvalTarget;

#[derive(Debug, clap::Args)]
pub(super) struct EvalArgs {
    /// Network file, or `large` or `fast`; may be repeated (default: the large network in the
    /// program).
    #[arg(long, value_name = "FILE")]
    net: Vec<PathBuf>,
    /// Measure also an architecture with random weights: cockfish or batch-first-residual; may be
    /// repeated.
    #[arg(long, value_name = "NAME", value_parser = ["cockfish", "batch-first-residual"])]
    architecture: Vec<String>,
    /// Channels of batch-first-residual.
    #[arg(long, value_name = "N", default_value_t = BatchFirstResidual::default().filters)]
    filters: usize,
    /// Blocks of batch-first-residual.
    #[arg(long, value_name = "N", default_value_t = BatchFirstResidual::default().blocks)]
    blocks: usize,
    /// Code path: amx, avx512, avx2, neon or portable; may be repeated (default: all that run here).
    #[arg(long, value_name = "PATH")]
    path: Vec<CpuPath>,
    /// Number format: bf16, f32 or int8 (default: those of the path).
    #[arg(long, value_name = "FORMAT")]
    precision: Option<Precision>,
    /// Measure only these GPUs: cuda:N or vulkan:N, several with commas.
    #[arg(long, value_name = "NAME", conflicts_with = "path")]
    device: Option<Devices>,
    /// Head: value or moves; may be repeated (default: those of the network).
    #[arg(long, value_name = "HEAD", value_parser = head)]
    head: Vec<HeadKind>,
    /// Request values and move scores together, as a search does.
    #[arg(long, conflicts_with = "head")]
    both: bool,
    /// Batch size; may be repeated.
    #[arg(long, value_name = "N", default_values_t = [1, 8, 32, 256, 1024],
        value_parser = clap::value_parser!(u64).range(1..=16_384))]
    batch: Vec<u64>,
    /// Threads.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=256))]
    threads: u64,
    /// Processor seconds a line of the table; the median of five parts is shown.
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    seconds: f64,
    /// Evaluate the positions of this file, a FEN or EPD a line, in place of the 1,024 bench
    /// positions.
    #[arg(long, value_name = "FILE")]
    positions: Option<PathBuf>,
    /// Write these positions to this file as the input of the first network: the states of the
    /// squares, 64 bytes each.
    #[arg(long, value_name = "FILE")]
    states_out: Option<PathBuf>,
    /// Write the values of these positions, centipawns as 32-bit floats, to this file.
    #[arg(long, value_name = "FILE")]
    values_out: Option<PathBuf>,
    /// One JSON object a line instead of a table.
    #[arg(long)]
    json: bool,
}

fn head(text: &str) -> Result<HeadKind, String> {
    match text {
        "value" => Ok(HeadKind::Value),
        "moves" => Ok(HeadKind::Moves),
        _ => Err("there are value and moves".to_owned()),
    }
}

/// Runs the command.
pub(super) fn run(args: &EvalArgs) -> anyhow::Result<()> {
    if !(args.seconds > 0.0 && args.seconds <= 3600.0) {
        bail!("--seconds must be above 0 and at most 3600");
    }
    let positions =
        args.positions.as_deref().map_or_else(|| Ok(bench_positions()), read_positions)?;
    let networks = networks(args)?;
    if let (Some(path), Some(network)) = (&args.states_out, networks.first()) {
        let encoding = network.description.encoding;
        let states =
            |position: &Position| encoding.states_of(&Squares::of(position), position.turn());
        let bytes: Vec<u8> = positions.iter().flat_map(states).collect();
        std::fs::write(path, bytes)
            .with_context(|| format!("cannot write `{}`", path.display()))?;
    }
    if !args.json {
        print(&format!(
            "{:<20} {:<6} {:<8} {:<5} {:>3} {:>6} {:>10} {:>10} {:>9} {:>8}",
            "network",
            "head",
            "path",
            "",
            "thr",
            "batch",
            "eval/s",
            "eval/cpu-s",
            "GFLOP/s",
            "of peak"
        ))?;
    }
    for network in networks {
        measure_network(&Arc::new(network), &positions, args)?;
    }
    if !args.json {
        print(&format!(
            "\nfrom a cold start to the first evaluation: {:.0} ms (a new process, {} runs, median)",
            cold_start(args)? * 1e3,
            COLD_STARTS
        ))?;
    }
    Ok(())
}

/// The positions of a file, a FEN or EPD a line.
fn read_positions(path: &Path) -> anyhow::Result<Vec<Position>> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read `{}`", path.display()))?;
    let lines =
        text.lines().enumerate().filter(|(_, line)| !games::is_epd_comment(line.as_bytes()));
    let positions = lines.map(|(index, line)| {
        let read = games::parse_epd(line);
        let read = read.with_context(|| format!("`{}`, line {}", path.display(), index + 1))?;
        if let Some(warning) = read.warning {
            tracing::warn!("`{}`, line {}: {warning}", path.display(), index + 1);
        }
        Ok(read.position)
    });
    let positions = positions.collect::<anyhow::Result<Vec<_>>>()?;
    ensure!(!positions.is_empty(), "`{}` holds no position", path.display());
    Ok(positions)
}

/// The networks that the flags name; each has a head that gives scores.
fn networks(args: &EvalArgs) -> anyhow::Result<Vec<Network>> {
    let mut networks = Vec::new();
    if args.net.is_empty() && args.architecture.is_empty() {
        networks.push(engine::load_or_large(None)?);
    }
    for path in &args.net {
        networks.push(engine::load_or_large(Some(path))?);
    }
    for name in &args.architecture {
        let residual = BatchFirstResidual { filters: args.filters, blocks: args.blocks };
        let description = match name.as_str() {
            "cockfish" => Description::cockfish(&Cockfish::default()),
            _ => Description::batch_first_residual(&residual),
        };
        let network = Network::random(description, 1)?;
        networks.push(Network { name: name.clone(), ..network });
    }
    if let Some(network) = networks.iter().find(|network| scored_heads(network).is_empty()) {
        bail!(
            "the network `{}` has neither a value nor a moves head: there are no scores to time",
            network.name
        );
    }
    Ok(networks)
}

/// The heads that give scores.
fn scored_heads(network: &Network) -> Vec<HeadKind> {
    let kinds = network.description.heads.iter().map(|head| head.kind);
    kinds.filter(|kind| matches!(kind, HeadKind::Value | HeadKind::Moves)).collect()
}

/// Measures and prints every target, head and batch size of one network.
fn measure_network(
    network: &Arc<Network>,
    positions: &[Position],
    args: &EvalArgs,
) -> anyhow::Result<()> {
    let kinds = scored_heads(network);
    let requested: Vec<Vec<HeadKind>> = if args.both {
        vec![kinds]
    } else {
        let wanted = |kind: &HeadKind| args.head.is_empty() || args.head.contains(kind);
        kinds.into_iter().filter(wanted).map(|kind| vec![kind]).collect()
    };
    for target in targets(args)? {
        let mut evaluator = match target.evaluator(network, args.threads as usize) {
            Ok(evaluator) => evaluator,
            // A format that not all layers have is left out unless it was asked for.
            Err(error @ EvalError::Unsupported { .. })
                if args.precision.is_none() && target.is_int8() =>
            {
                tracing::warn!("{}: {error}", target.names().0);
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let (path, precision) = target.names();
        let peak = match target {
            EvalTarget::Path(path, precision) => measure::peak_flops(path, precision),
            EvalTarget::Gpus(..) => None,
        };
        if let Some(path) = &args.values_out {
            write_values(path, &mut *evaluator, positions)?;
        }
        for heads in &requested {
            let part = network.description.heads.iter().filter(|head| heads.contains(&head.kind));
            let part =
                Description { heads: part.cloned().collect(), ..network.description.clone() };
            let macs = part.multiply_adds().unwrap_or(0);
            for &batch in &args.batch {
                let batch = batch as usize;
                let (wall_rate, cpu_rate) =
                    rate(&mut *evaluator, positions, heads, batch, &target, args)?;
                let line = Line {
                    network: network.name.clone(),
                    heads: heads.iter().map(|kind| kind.name()).collect::<Vec<_>>().join("+"),
                    path: path.clone(),
                    precision,
                    threads: args.threads as usize,
                    batch,
                    wall_rate,
                    cpu_rate,
                    flops: 2.0 * macs as f64,
                    peak,
                };
                print(&if args.json { line.json() } else { line.text() })?;
            }
        }
    }
    Ok(())
}

/// Number of measured cold starts.
const COLD_STARTS: usize = 5;

/// Seconds from the start of a new process to its first score, with default options: the median of
/// [`COLD_STARTS`].
fn cold_start(args: &EvalArgs) -> anyhow::Result<f64> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let mut seconds = Vec::new();
    for _ in 0..COLD_STARTS {
        let mut command = std::process::Command::new(&program);
        command.args(["bench", "first"]);
        if let Some(path) = args.net.first() {
            command.arg("--net").arg(path);
        }
        let start = Instant::now();
        let output = command.output().context("cannot start this program")?;
        seconds.push(start.elapsed().as_secs_f64());
        if !output.status.success() {
            bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
        }
    }
    seconds.sort_by(f64::total_cmp);
    Ok(seconds[COLD_STARTS / 2])
}

fn write_values(
    path: &Path,
    evaluator: &mut dyn Evaluator,
    positions: &[Position],
) -> anyhow::Result<()> {
    let mut batch = Batch::default();
    positions.iter().for_each(|position| batch.push(position, true, &[]));
    let values = evaluator.evaluate(batch)?.scores.values;
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    std::fs::write(path, bytes).with_context(|| format!("cannot write `{}`", path.display()))
}

/// The clock that other programs disturb least, in seconds.
fn clock(target: &EvalTarget, start: Instant) -> f64 {
    match target {
        EvalTarget::Path(..) => measure::process_seconds(),
        EvalTarget::Gpus(..) => start.elapsed().as_secs_f64(),
    }
}

/// The measured targets: code paths with number formats, or the GPUs.
fn targets(args: &EvalArgs) -> anyhow::Result<Vec<EvalTarget>> {
    if let Some(given) = &args.device {
        let devices = given.found();
        if devices.is_cpu() {
            bail!(
                "`--device {given}` names no GPU that is here; without the flag the processor is measured"
            );
        }
        return Ok(vec![EvalTarget::Gpus(devices, args.precision)]);
    }
    let paths = if args.path.is_empty() { CpuPath::ALL.to_vec() } else { args.path.clone() };
    let precisions = args.precision.map_or(Precision::OF_PROCESSORS.to_vec(), |one| vec![one]);
    let mut list = Vec::new();
    for path in paths {
        let fitting = precisions.iter().filter(|&&precision| path.obstacle(precision).is_none());
        let before = list.len();
        list.extend(fitting.map(|&precision| EvalTarget::Path(path, precision)));
        if list.len() == before && !args.path.is_empty() {
            let obstacle = path.obstacle(precisions[0]).unwrap_or_default();
            bail!("the path {path} cannot run here: {obstacle}");
        }
    }
    if let (true, Some(precision)) = (list.is_empty(), args.precision) {
        bail!(
            "no path of this processor computes in {precision}; `batch-first doctor` lists those that run here"
        );
    }
    Ok(list)
}

/// Evaluations a second of wall time and of processor time: medians of five parts after a warm-up.
/// With several threads, and on GPUs, two batches are in flight, so that no thread waits for another
/// one.
fn rate(
    evaluator: &mut dyn Evaluator,
    positions: &[Position],
    heads: &[HeadKind],
    size: usize,
    target: &EvalTarget,
    args: &EvalArgs,
) -> anyhow::Result<(f64, f64)> {
    let (seconds, threads) = (args.seconds, args.threads);
    let in_flight = match target {
        EvalTarget::Path(..) if threads == 1 => 1,
        EvalTarget::Path(..) => 2,
        EvalTarget::Gpus(devices, _) => 2 * devices.cards().len(),
    };
    let mut batches = VecDeque::new();
    let mut cycle = positions.iter().cycle();
    for _ in 0..positions.len().div_ceil(size).max(in_flight) {
        let mut batch = Batch::default();
        for position in cycle.by_ref().take(size) {
            let value = heads.contains(&HeadKind::Value);
            let moves = if heads.contains(&HeadKind::Moves) {
                position.legal_moves()
            } else {
                Default::default()
            };
            batch.push(position, value, &moves);
        }
        batches.push_back(batch);
    }
    let (mut walls, mut cpus) = (Vec::new(), Vec::new());
    for part in 0..6 {
        let wall = Instant::now();
        let start = clock(target, wall);
        let (mut done, mut elapsed) = (0, 0.0);
        // The first part warms up.
        while done == 0 || elapsed < if part == 0 { 0.05 } else { seconds / 5.0 } {
            while evaluator.in_flight() < in_flight {
                let Some(batch) = batches.pop_front() else { break };
                evaluator.submit(batch)?;
            }
            let answered = evaluator.wait()?;
            done += answered.batch.len();
            batches.push_back(answered.batch);
            elapsed = clock(target, wall) - start;
        }
        if part > 0 {
            walls.push(done as f64 / wall.elapsed().as_secs_f64());
            cpus.push(done as f64 / elapsed);
        }
    }
    while evaluator.in_flight() > 0 {
        evaluator.wait()?;
    }
    walls.sort_by(f64::total_cmp);
    cpus.sort_by(f64::total_cmp);
    Ok((walls[2], cpus[2]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_of_a_file_are_read_and_comments_left_out() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let start = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq -";
        std::fs::write(file.path(), format!("# two\n\n{start} 0 1\n{start} bm e4;\n")).unwrap();
        assert_eq!(read_positions(file.path()).unwrap(), vec![Position::default(); 2]);
        std::fs::write(file.path(), format!("{start}\nx\n")).unwrap();
        assert!(read_positions(file.path()).unwrap_err().to_string().ends_with("line 2"));
        std::fs::write(file.path(), "# none\n").unwrap();
        assert!(read_positions(file.path()).is_err());
    }
}
