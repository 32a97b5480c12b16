//! `batch-first net`: shows, joins, exports, validates, calibrates, quantises and verifies network
//! files.

mod quantise;
mod verify;

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, anyhow, bail};
use nets::{HeadKind, MoveScores, Network, System};
use train::{
    Dataset, EvaluatorScorer, GamePhase, HeldOut, Loss, Scorer, SelectorScorer, ValidationMetrics,
    calibrate, join, summary, validate,
};

use crate::{CheckFailed, engine_args};

/// Positions of each source whose legal moves are ranked.
const AGREEMENT_POSITIONS: usize = 2_000;

/// Network files: show, join, export, validate, calibrate, quantise, verify.
#[derive(Debug, clap::Args)]
pub struct NetArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Show the content of a network file.
    Info {
        /// Network file (.safetensors).
        file: PathBuf,
        /// One JSON object instead of text.
        #[arg(long)]
        json: bool,
    },
    /// Join the value head of one file and the move head of another in one file.
    Join {
        /// Network with a value head.
        value: PathBuf,
        /// Network with a move head.
        moves: PathBuf,
        /// File to write.
        #[arg(long)]
        out: PathBuf,
        /// Name of the new network; the file stem unless given.
        #[arg(long)]
        name: Option<String>,
    },
    /// Write a network as a file of another program.
    #[command(group = clap::ArgGroup::new("form").required(true))]
    Export {
        /// Network file, or `large` or `fast`.
        file: PathBuf,
        /// As a file of Leela Chess Zero (.pb.gz), for networks with her input, layers and outputs.
        #[arg(long, group = "form")]
        leela: bool,
        /// As an ONNX file, for any network: input `planes`, an output for each head, the
        /// calibration in the metadata.
        #[arg(long, group = "form")]
        onnx: bool,
        /// File to write.
        #[arg(long)]
        out: PathBuf,
    },
    /// Validate a network on the held-out positions of imported data.
    Validate {
        /// Network file (.safetensors).
        file: PathBuf,
        #[command(flatten)]
        data: HeldOutArgs,
        /// One JSON object instead of text.
        #[arg(long)]
        json: bool,
    },
    /// Fit centipawns, chances and priority bins on the held-out positions of imported data.
    Calibrate {
        /// Network file (.safetensors).
        file: PathBuf,
        #[command(flatten)]
        data: HeldOutArgs,
        /// File to write; may be the same.
        #[arg(long)]
        out: PathBuf,
    },
    /// Measure the cost of eight-bit integers on held-out positions, and make them the default on
    /// processors that are faster in them if the cost is small. If it is too large, the written file
    /// leaves them on request (exit code 1).
    Quantise {
        /// Network file (.safetensors).
        file: PathBuf,
        #[command(flatten)]
        data: HeldOutArgs,
        /// File to write; may be the same.
        #[arg(long)]
        out: PathBuf,
    },
    /// Show the error of each code path and number format; fails if the default path ranks
    /// positions worse than `f32`.
    Verify(verify::VerifyArgs),
}

#[derive(Debug, clap::Args)]
struct HeldOutArgs {
    /// Folder of `batch-first data import`.
    #[arg(long)]
    data: PathBuf,
    /// Use only this source; may be repeated.
    #[arg(long = "source")]
    sources: Vec<String>,
    /// At most this many positions of each source; 0: all.
    #[arg(long, default_value_t = 0)]
    positions: usize,
    /// For a policy: moves that lose more centipawns are not counted as examples.
    #[arg(long, default_value_t = 100)]
    blunder_margin: i32,
    /// Threads; 0: all cores.
    #[arg(long, default_value_t = 0)]
    threads: usize,
}

impl HeldOutArgs {
    /// The held-out positions of a head.
    fn held_out(&self, network: &Network, head: HeadKind) -> anyhow::Result<Vec<HeldOut>> {
        held_out(
            &self.data,
            (head, validation_loss(network, head)),
            &self.sources,
            self.positions,
            self.blunder_margin,
        )
    }

    fn threads(&self) -> usize {
        if self.threads == 0 { engine_args::processors() } else { self.threads }
    }

    fn scorer(&self, network: &Network, head: HeadKind) -> anyhow::Result<Box<dyn Scorer>> {
        if head.is_selector() {
            return Ok(Box::new(SelectorScorer::new(network, head)?));
        }
        Ok(Box::new(EvaluatorScorer::new(network, head, self.threads())?))
    }
}

/// The loss that a head is validated with.
fn validation_loss(network: &Network, head: HeadKind) -> Loss {
    let is_policy =
        head == HeadKind::Moves && network.calibration.move_scores == MoveScores::Policy;
    if is_policy || head.is_selector() { Loss::CrossEntropy } else { Loss::Ordinal }
}

/// The held-out positions of a folder for a head, at most `positions` of each source (0: all).
/// Moves that lose more than `margin` centipawns are not counted as examples of a policy.
fn held_out(
    data: &Path,
    (head, loss): (HeadKind, Loss),
    names: &[String],
    positions: usize,
    margin: i32,
) -> anyhow::Result<Vec<HeldOut>> {
    let sources = Dataset::open(data)?.held_out(data, (head, loss), names, margin)?;
    if sources.is_empty() {
        bail!("`{}` has no held-out positions for the {} head", data.display(), head.name());
    }
    Ok(sources.iter().map(|source| source.sample(positions)).collect())
}

/// Runs the command.
///
/// # Errors
/// A file or the data cannot be used.
pub fn run(args: NetArgs) -> anyhow::Result<()> {
    match args.command {
        Command::Info { file, json } => info(&file, json),
        Command::Join { value, moves, out, name } => {
            let name = name.unwrap_or_else(|| stem(&out));
            let joined = join(&Network::load(&value)?, &Network::load(&moves)?, &name)?;
            save(&joined, &out)
        }
        Command::Validate { file, data, json } => validate_network(&file, &data, json),
        Command::Calibrate { file, data, out } => {
            let mut network = Network::load(&file)?;
            for kind in heads(&network).into_iter().filter(|kind| !kind.is_selector()) {
                let held_out = data.held_out(&network, kind)?;
                let mut scorer = data.scorer(&network, kind)?;
                calibrate::calibrate_head(
                    &mut network.calibration,
                    scorer.as_mut(),
                    kind,
                    &held_out,
                )?;
            }
            save(&network, &out)
        }
        Command::Export { file, leela, onnx: _, out } => export(&file, leela, &out),
        Command::Quantise { file, data, out } => {
            let mut network = Network::load(&file)?;
            let allowed = quantise::run(&mut network, &data)?;
            // The file is written in both cases: a cost that is too large removes an earlier permission.
            save(&network, &out)?;
            allowed.then_some(()).ok_or_else(|| CheckFailed(quantise::refusal()).into())
        }
        Command::Verify(args) => verify::run(&args),
    }
}

fn stem(path: &Path) -> String {
    path.file_stem()
        .map_or_else(|| "network".to_owned(), |stem| stem.to_string_lossy().into_owned())
}

fn heads(network: &Network) -> Vec<HeadKind> {
    network.description.heads.iter().map(|head| head.kind).collect()
}

fn print(text: &str) -> io::Result<()> {
    writeln!(io::stdout(), "{text}")
}

fn save(network: &Network, path: &Path) -> anyhow::Result<()> {
    network.save(path)?;
    print(&format!("{}: network {}", path.display(), network.fingerprint()))?;
    Ok(())
}

fn export(file: &Path, leela: bool, out: &Path) -> anyhow::Result<()> {
    let network = engine::load(file)?;
    let (bytes, form) = if leela {
        (nets::leela_file(&network), "a Leela network")
    } else {
        (nets::onnx_file(&network), "an ONNX file")
    };
    let bytes = bytes
        .map_err(|reason| anyhow!("`{}` cannot be written as {form}: {reason}", file.display()))?;
    board::write_whole(out, &bytes).with_context(|| format!("cannot write `{}`", out.display()))?;
    print(&format!("{}: network {}", out.display(), network.name))?;
    Ok(())
}

fn info(file: &Path, json: bool) -> anyhow::Result<()> {
    let network = Network::load(file)?;
    if json {
        print(&serde_json::to_string_pretty(&info_json(&network)).context("cannot write JSON")?)?;
    } else {
        show_info(&network)?;
    }
    Ok(())
}

fn info_json(network: &Network) -> serde_json::Value {
    serde_json::json!({
        "name": network.name,
        "fingerprint": network.fingerprint(),
        "system": System::of(&network.description).name(),
        "description": network.description,
        "parameters": parameters(network),
        "calibration": network.calibration,
        "int8_ranges": network.int8_ranges,
        "provenance": network.provenance,
    })
}

fn show_info(network: &Network) -> io::Result<()> {
    print(&format!("name         {}", network.name))?;
    print(&format!("fingerprint  {}", network.fingerprint()))?;
    print(&format!("system       {}", System::of(&network.description)))?;
    print(&format!("input        {}", network.description.encoding.name()))?;
    for (kind, count) in parameters(network) {
        print(&format!("parameters   {count} ({kind})"))?;
    }
    let trunk = network.description.trunk.len();
    if trunk > 0 {
        print(&format!("trunk        {trunk} shared layers"))?;
    }
    for head in &network.description.heads {
        print(&format!("head         {}: {} layers", head.kind.name(), head.layers.len()))?;
    }
    if network.description.encoding.has_history() {
        print(
            "int8         where its layers allow it and it costs little, which is measured once",
        )?;
        print(
            "centipawns   those at which wins minus losses are the network's, by the model of chances",
        )?;
    } else {
        let is_unasked = network.int8_ranges.is_some();
        let int8 = if is_unasked { "unasked, where it is faster" } else { "on request" };
        print(&format!("int8         {int8}"))?;
        show_calibration(network)?;
    }
    for (key, value) in &network.provenance {
        print(&format!("{key}: {value}"))?;
    }
    Ok(())
}

fn show_calibration(network: &Network) -> io::Result<()> {
    let calibration = &network.calibration;
    // The outputs of selectors are chances, without a calibration.
    for kind in heads(network).into_iter().filter(|kind| !kind.is_selector()) {
        let map = if kind == HeadKind::Value { &calibration.value } else { &calibration.moves };
        let policy = kind == HeadKind::Moves && calibration.move_scores == MoveScores::Policy;
        let unit = if policy { "logarithms of chances" } else { "centipawns" };
        let ends = |values: &[f32]| match values {
            [first, .., last] => format!("{first:.2} to {last:.2}"),
            _ => "none".to_owned(),
        };
        print(&format!(
            "calibration  {}: {} knots, logits {} to {unit} {}",
            kind.name(),
            map.inputs.len(),
            ends(&map.inputs),
            ends(&map.outputs)
        ))?;
    }
    let has = |kind| network.description.head(kind).is_some();
    if has(HeadKind::Value) {
        print(&format!(
            "chances      the mover wins half of the games at {:.0} centipawns; scale {:.0}",
            calibration.wdl.offset, calibration.wdl.scale
        ))?;
    }
    let decimals = if calibration.move_scores == MoveScores::Policy { 2 } else { 0 };
    let bins: Vec<String> =
        calibration.bins.iter().map(|bin| format!("{bin:.decimals$}")).collect();
    if has(HeadKind::Moves) {
        print(&format!(
            "bins         {}",
            if bins.is_empty() { "none".to_owned() } else { bins.join(" ") }
        ))?;
    }
    Ok(())
}

/// Numbers of trained parameters of the trunk and each head.
fn parameters(network: &Network) -> std::collections::BTreeMap<String, usize> {
    let mut counts = std::collections::BTreeMap::new();
    for (name, tensor) in &network.tensors {
        let statistic = name.ends_with(".norm.mean") || name.ends_with(".norm.variance");
        if let (Some((part, _)), false) = (name.split_once('.'), statistic) {
            *counts.entry(part.to_owned()).or_insert(0) += tensor.data.len();
        }
    }
    counts
}

fn validate_network(file: &Path, data: &HeldOutArgs, json: bool) -> anyhow::Result<()> {
    let network = Network::load(file)?;
    let mut all = serde_json::Map::new();
    for kind in heads(&network) {
        let held_out = data.held_out(&network, kind)?;
        let mut scorer = data.scorer(&network, kind)?;
        let measures = validate(
            scorer.as_mut(),
            kind,
            network.calibration.move_scores,
            &held_out,
            AGREEMENT_POSITIONS,
        )?;
        if !json {
            print(&format!("{} head", kind.name()))?;
            measures.iter().try_for_each(print_metrics)?;
        }
        all.insert(
            kind.name().to_owned(),
            serde_json::to_value(&measures).context("cannot write JSON")?,
        );
    }
    if json {
        print(&serde_json::Value::Object(all).to_string())?;
    }
    Ok(())
}

fn print_metrics(metrics: &ValidationMetrics) -> io::Result<()> {
    print(&format!("  {}: {}", metrics.source, summary(metrics)))?;
    if metrics.ranking.positions == 0 {
        return Ok(());
    }
    print(&format!(
        "    with mates: tau-b {:.4}, weighted tau {:.4}, rho {:.4} ({} positions)",
        metrics.with_mates.tau_b,
        metrics.with_mates.weighted_tau,
        metrics.with_mates.spearman,
        metrics.with_mates.positions
    ))?;
    for (phase, ranking) in GamePhase::ALL.iter().zip(&metrics.phases) {
        print(&format!(
            "    {}: tau-b {:.4}, weighted tau {:.4}, rho {:.4} ({} positions)",
            phase.name(),
            ranking.tau_b,
            ranking.weighted_tau,
            ranking.spearman,
            ranking.positions
        ))?;
    }
    Ok(())
}
