//! `batch-first doctor`: shows the hardware of this machine and the chosen code path with the reason,
//! and checks that the path computes correctly.

use std::{io::Write, path::PathBuf, sync::Arc, time::Instant};

use board::Position;
use engine::{EngineOptions, NetworkSpeed};
use eval::{
    Batch, Devices, Evaluator, Precision,
    cpu::{self, CpuEvaluator, CpuOptions, CpuPath, PATH_VARIABLE, amx},
    reference::Reference,
};
use nets::{HeadKind, Network, System};

use crate::engine_args::processors;

/// Shows which code path evaluates networks here and why, and checks it against plain arithmetic.
#[derive(Debug, clap::Args)]
pub struct DoctorArgs {
    /// Network file, or `large` or `fast` (default: the network in the program that fits the
    /// device).
    #[arg(long, value_name = "FILE")]
    net: Option<PathBuf>,
    /// Threads (default: all processors).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=256))]
    threads: Option<u64>,
}

/// Number of compared positions, from a game of blunders. The scores of its first positions are near
/// zero, where the rounding of int8 is a large share.
const COMPARED: usize = 64;

/// Largest allowed difference from the reference, as a share of the largest score.
fn tolerance(precision: Precision) -> f32 {
    match precision {
        Precision::Bf16 | Precision::F16 => 0.05,
        Precision::F32 => 1e-3,
        Precision::Int8 => 0.25,
    }
}

/// The usable GPUs, and the missing drivers and features of others.
#[cfg(feature = "gpu-kernels")]
fn gpus() -> Vec<String> {
    let line = |device: &eval::gpu::Listed| {
        let kind = if device.is_card { "" } else { ", no card: only on demand" };
        format!("{:<9} {}{kind}", device.name.to_string(), device.model)
    };
    let found = eval::gpu::list();
    let lacks = eval::gpu::lacks(&found).into_iter().map(|what| format!("missing: {what}"));
    let mut lines: Vec<String> = found.iter().map(line).chain(lacks).collect();
    for (name, is_there) in
        [("cuda", cfg!(feature = "cuda")), ("wgpu", cfg!(feature = "untuned-wgpu"))]
    {
        if !is_there {
            lines.push(format!("not looked for: {name}; build with `--features {name}`"));
        }
    }
    lines
}

/// The features that a program with GPUs needs.
#[cfg(not(feature = "gpu-kernels"))]
fn gpus() -> Vec<String> {
    let how = "`cargo build --release --features cuda` (NVIDIA) or `--features wgpu` (Vulkan, Metal, DirectX 12)";
    vec![format!("not looked for: this program was built without them; {how} builds them in")]
}

/// Runs the command.
///
/// # Errors
/// The network cannot be used, no path runs, or the path computes wrongly.
pub fn run(args: DoctorArgs) -> anyhow::Result<()> {
    let begun = Instant::now();
    let given = args.net.as_deref().map(engine::load).transpose()?;
    let mut loaded = begun.elapsed();
    let mut out = std::io::stdout().lock();
    let processors = processors();
    show_machine(&mut out, processors)?;
    let threads = args.threads.map_or(processors, |threads| threads as usize);
    let start = Instant::now();
    let network = match given {
        Some(network) => network,
        // The network is chosen after the report on the machine, which explains a missing path.
        None => {
            let on_processor =
                EngineOptions { threads, devices: Devices::cpu(), ..EngineOptions::default() };
            show_networks(&mut out, &on_processor)?;
            engine::fitting(System::BatchFirst, &on_processor)?
        }
    };
    loaded += start.elapsed();
    let network = Arc::new(network);
    let options = CpuOptions { threads, ..CpuOptions::default() };
    let mut evaluator = CpuEvaluator::new(Arc::clone(&network), options)?;
    evaluator.evaluate(game_batch(&network, 8))?;
    let first = begun.elapsed();
    show_network(&mut out, &network, &evaluator)?;
    writeln!(
        out,
        "  network read in {:.0} ms, first eight positions scored after {:.0} ms",
        loaded.as_secs_f64() * 1e3,
        first.as_secs_f64() * 1e3
    )?;
    check_exactness(&mut out, &network, &mut evaluator, threads)
}

/// Shows processor, code paths and GPUs.
fn show_machine(out: &mut impl Write, processors: usize) -> anyhow::Result<()> {
    writeln!(out, "batch-first {}", env!("CARGO_PKG_VERSION"))?;
    writeln!(out, "\nProcessor")?;
    writeln!(out, "  {} processors, {}", processors, std::env::consts::ARCH)?;
    let (have, lack): (Vec<_>, Vec<_>) = cpu::features().into_iter().partition(|feature| feature.1);
    let names = |list: &[(&str, bool)]| {
        if list.is_empty() {
            "none".to_owned()
        } else {
            list.iter().map(|entry| entry.0).collect::<Vec<_>>().join(" ")
        }
    };
    writeln!(out, "  has: {}", names(&have))?;
    writeln!(out, "  lacks: {}", names(&lack))?;
    writeln!(out, "  tile unit: {}", amx::status())?;
    writeln!(out, "\nCode paths")?;
    for path in CpuPath::ALL {
        for precision in Precision::OF_PROCESSORS {
            match path.obstacle(precision) {
                None => writeln!(out, "  {:<8} {:<4}  runs here", path.name(), precision.name())?,
                Some(obstacle) => {
                    writeln!(out, "  {:<8} {:<4}  no: {obstacle}", path.name(), precision.name())?;
                }
            }
        }
    }
    writeln!(
        out,
        "  {PATH_VARIABLE}: {}",
        std::env::var(PATH_VARIABLE).unwrap_or_else(|_| "not set".to_owned())
    )?;
    writeln!(out, "\nGPUs")?;
    for line in gpus() {
        writeln!(out, "  {line}")?;
    }
    Ok(())
}

/// Shows the speed and rating of Batch First's networks on this machine, the default one first.
fn show_networks(out: &mut impl Write, options: &EngineOptions) -> anyhow::Result<()> {
    writeln!(out, "\nNetworks in the program, {} threads", options.threads)?;
    for (NetworkSpeed { name, evaluations, rating }, note) in
        engine::compare(options)?.iter().zip(["plays by default", "the option WeightsFile has it"])
    {
        writeln!(
            out,
            "  {name:<5}  {evaluations:>7.0} evaluations a second, rating {rating:.0} at a second a move: {note}"
        )?;
    }
    Ok(())
}

fn show_network(
    out: &mut impl Write,
    network: &Network,
    evaluator: &CpuEvaluator,
) -> anyhow::Result<()> {
    let heads: Vec<&str> = network.description.heads.iter().map(|head| head.kind.name()).collect();
    writeln!(out, "\nNetwork")?;
    writeln!(out, "  {} ({}), heads: {}", network.name, network.fingerprint(), heads.join(", "))?;
    for head in &network.description.heads {
        let macs = evaluator.macs(head.kind) as f64 / 1e6;
        writeln!(out, "  {}: {macs:.1} million multiply-adds a position", head.kind.name())?;
    }
    writeln!(out, "\nEvaluator")?;
    writeln!(out, "  {}", evaluator.describe())?;
    let choice = evaluator.choice();
    writeln!(out, "  {} in {}: {}", choice.path, choice.precision, choice.reason)?;
    Ok(())
}

/// The positions of a game of `plies` plies, with all outputs of the network requested.
fn game_batch(network: &Network, plies: usize) -> Batch {
    let has = |kind| network.description.head(kind).is_some();
    let mut batch = Batch::default();
    let mut position = Position::default();
    for step in 0..plies {
        let moves = position.legal_moves();
        if moves.is_empty() {
            break;
        }
        let asked = if has(HeadKind::Moves) { moves.as_slice() } else { &[] };
        batch.push(&position, has(HeadKind::Value), asked);
        position.play(moves[step * 7 % moves.len()]);
    }
    batch
}

/// Compares the evaluator with plain arithmetic.
fn check_exactness(
    out: &mut impl Write,
    network: &Arc<Network>,
    evaluator: &mut CpuEvaluator,
    threads: usize,
) -> anyhow::Result<()> {
    let choice = evaluator.choice().clone();
    let found = evaluator.evaluate(game_batch(network, COMPARED))?.scores;
    let mut reference = Reference::new(Arc::clone(network));
    let expected = reference.evaluate(game_batch(network, COMPARED))?.scores;
    let mut all = vec![(choice.precision, found)];
    if choice.precision == Precision::Int8 {
        // The rounding of int8 hides other errors of the path, so the path is compared in f32 too.
        let options =
            CpuOptions { threads, path: Some(choice.path), precision: Some(Precision::F32) };
        let mut exact = CpuEvaluator::new(Arc::clone(network), options)?;
        all.push((Precision::F32, exact.evaluate(game_batch(network, COMPARED))?.scores));
    }
    for (precision, found) in all {
        let pairs = || {
            expected.values.iter().zip(&found.values).chain(expected.moves.iter().zip(&found.moves))
        };
        let largest = pairs().fold(1.0_f32, |largest, (a, _)| largest.max(a.abs()));
        let difference = pairs().fold(0.0_f32, |worst, (a, b)| worst.max((a - b).abs()));
        let right = difference <= tolerance(precision) * largest;
        writeln!(
            out,
            "  in {precision} it differs from plain arithmetic by at most {difference:.2} centipawns (scores up to \
             {largest:.0}): {}",
            if right { "right" } else { "WRONG" }
        )?;
        if !right {
            anyhow::bail!(
                "the code path {} computes wrongly here; set {PATH_VARIABLE}=portable",
                choice.path
            );
        }
    }
    Ok(())
}
