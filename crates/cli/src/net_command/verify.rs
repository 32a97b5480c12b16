//! `batch-first net verify`: the error of each code path and number format, compared with `f32`.

use std::{path::PathBuf, sync::Arc};

use anyhow::Context;
use board::{Color, Position};
use eval::{
    Batch, Devices, Evaluator, Precision, Query,
    cpu::{self, CpuPath},
};
use nets::{Calibration, HeadKind, MoveScores, Network, PolicyIndex, Squares, policy_index};
use train::{HeldOut, LARGEST_FALL, metrics};

use super::{held_out, print, validation_loss};
use crate::{CheckFailed, bench_command, engine_args, eval_target::EvalTarget};

/// The largest fall of tau-b that a GPU may cause.
const LARGEST_FALL_OF_GPU: f64 = 0.001;

/// The largest allowed error of a GPU's score, in centipawns: of all scores in single precision, of
/// 99 of 100 in its own number format.
const LARGEST_DIFFERENCE: f32 = 2.0;

/// The same for the move scores of a policy, in natural logarithms: in single precision, and in its
/// own number format.
const LARGEST_DIFFERENCES_OF_POLICY: [f32; 2] = [0.01, 0.05];

/// Flags of `net verify`.
#[derive(Debug, clap::Args)]
pub struct VerifyArgs {
    /// Network file, or `large` or `fast` (default: the large network in the program).
    file: Option<PathBuf>,
    /// Folder of `batch-first data import`: its held-out positions are evaluated and ranked against
    /// their labels. Without it, positions of random games are evaluated.
    #[arg(long)]
    data: Option<PathBuf>,
    /// Use only this source of the data; may be repeated.
    #[arg(long = "source")]
    sources: Vec<String>,
    /// At most this many positions of each source; 0: all.
    #[arg(long, default_value_t = 10_000)]
    positions: usize,
    /// Compare also these GPUs: cuda:N or vulkan:N, several with commas.
    #[arg(long, value_name = "NAME")]
    device: Option<Devices>,
    /// Compare only the GPUs, no path of the processor.
    #[arg(long, requires = "device")]
    only_device: bool,
    /// Threads; 0: all cores.
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// One JSON object instead of text.
    #[arg(long)]
    json: bool,
}

/// The evaluated positions, each with a move if the head scores moves, and their labels if known.
#[derive(Default)]
struct Samples {
    squares: Vec<(Squares, Color)>,
    moves: Vec<PolicyIndex>,
    /// Name of each source with the labels of its positions, in order. Empty if there are no labels.
    sources: Vec<(String, Vec<f64>)>,
}

impl Samples {
    fn of_data(kind: HeadKind, sources: &[HeldOut]) -> Self {
        let mut all = Self::default();
        for source in sources {
            let turns = source.white_to_move.iter().map(|&white| Color::from_white(white));
            all.squares.extend(source.examples.squares.iter().copied().zip(turns));
            all.moves.extend(&source.examples.moves);
            let labels =
                source.examples.labels(kind).iter().map(|&label| f64::from(label)).collect();
            all.sources.push((source.source.clone(), labels));
        }
        all
    }

    fn of_games(kind: HeadKind) -> Self {
        let mut all = Self::default();
        for position in bench_command::bench_positions() {
            let board = (Squares::of(&position), position.turn());
            if kind == HeadKind::Value {
                all.squares.push(board);
            } else {
                all.add_moves(&position, board);
            }
        }
        all
    }

    fn add_moves(&mut self, position: &Position, board: (Squares, Color)) {
        for mv in position.legal_moves() {
            self.squares.push(board);
            self.moves.push(policy_index(mv, position.turn()));
        }
    }

    /// The outputs of a target before calibration, from the side to move.
    fn logits(
        &self,
        network: &Network,
        target: &EvalTarget,
        threads: usize,
    ) -> anyhow::Result<Vec<f32>> {
        // The default calibration is the identity over the range of all logits.
        let bare = Network { calibration: Calibration::default(), ..network.clone() };
        let mut evaluator = target.evaluator(&Arc::new(bare), threads)?;
        let mut logits = Vec::with_capacity(self.squares.len());
        let size = evaluator.largest_batch().min(4096);
        for start in (0..self.squares.len()).step_by(size) {
            let range = start..(start + size).min(self.squares.len());
            let mut batch = Batch::default();
            for index in range.clone() {
                let (squares, turn) = self.squares[index];
                let moves = self.moves.get(index..=index).unwrap_or_default();
                let value = moves.is_empty();
                batch.push_query(&Query::of_board(index as u64, squares, turn, value), moves, &[]);
            }
            let scores = evaluator.evaluate(batch)?.scores;
            logits.extend(if self.moves.is_empty() { scores.values } else { scores.moves });
        }
        Ok(logits)
    }

    /// tau-b against the labels, averaged over the sources with their numbers of positions as weights;
    /// `None` without labels.
    fn tau_b(&self, logits: &[f32]) -> Option<f64> {
        let logits: Vec<f64> = logits.iter().map(|&logit| f64::from(logit)).collect();
        let (mut sum, mut start) = (0.0, 0);
        for (_, labels) in &self.sources {
            sum +=
                metrics::tau_b(&logits[start..start + labels.len()], labels) * labels.len() as f64;
            start += labels.len();
        }
        (start > 0).then(|| sum / start as f64)
    }

    /// The absolute differences in centipawns (for a policy in natural logarithms), ascending.
    fn differences(
        &self,
        network: &Network,
        kind: HeadKind,
        exact: &[f32],
        found: &[f32],
    ) -> Vec<f32> {
        let calibration = &network.calibration;
        let map = if kind == HeadKind::Value { &calibration.value } else { &calibration.moves };
        let whites = network.description.encoding.is_whites_view();
        let mut differences: Vec<f32> = (0..exact.len())
            .map(|index| {
                // Outputs from White's view have a map from White's view.
                let sign = if whites && self.squares[index].1.is_black() { -1.0 } else { 1.0 };
                (map.apply(sign * found[index]) - map.apply(sign * exact[index])).abs()
            })
            .collect();
        differences.sort_by(f32::total_cmp);
        differences
    }
}

/// The targets that are compared with `exact`. The portable path is left out above 20,000 outputs.
fn targets(exact: CpuPath, outputs: usize, device: Option<&Devices>) -> Vec<EvalTarget> {
    let paths =
        CpuPath::ALL.into_iter().filter(|&path| path != CpuPath::Portable || outputs <= 20_000);
    let all = paths.flat_map(|path| Precision::OF_PROCESSORS.map(|precision| (path, precision)));
    let gpus = device.into_iter().flat_map(|devices| {
        [None, Some(Precision::F32)].map(|precision| EvalTarget::Gpus(devices.clone(), precision))
    });
    all.filter(|&(path, precision)| {
        (path, precision) != (exact, Precision::F32) && path.obstacle(precision).is_none()
    })
    .map(|(path, precision)| EvalTarget::Path(path, precision))
    .chain(gpus)
    .collect()
}

/// The result of one target for one head.
struct Line {
    target: EvalTarget,
    is_default: bool,
    /// Centipawns, or `ln` for a policy.
    unit: &'static str,
    mean: f32,
    percentile_99: f32,
    largest: f32,
    /// tau-b, and its fall against `f32`.
    tau_b: Option<(f64, f64)>,
}

impl Line {
    fn breaks_the_limit(&self) -> bool {
        let most = if matches!(self.target, EvalTarget::Path(..)) {
            LARGEST_FALL
        } else {
            LARGEST_FALL_OF_GPU
        };
        let [exact, own] = match self.unit {
            "cp" => [LARGEST_DIFFERENCE; 2],
            _ => LARGEST_DIFFERENCES_OF_POLICY,
        };
        // NaN breaks the limit.
        let falls = self.tau_b.is_some_and(|(_, fall)| fall.is_nan() || fall > most);
        let is_off = match self.target {
            EvalTarget::Path(..) => false,
            EvalTarget::Gpus(_, Some(Precision::F32)) => self.largest > exact,
            EvalTarget::Gpus(..) => self.percentile_99 > own,
        };
        falls || is_off || self.largest.is_nan()
    }

    fn text(&self) -> String {
        let mut tau =
            self.tau_b.map_or(String::new(), |(tau, fall)| format!(" {tau:>9.5} {fall:>9.5}"));
        if !tau.is_empty() || matches!(self.target, EvalTarget::Gpus(..)) {
            tau += if self.breaks_the_limit() { "  above the limit" } else { "  within the limit" };
        }
        let (path, precision) = self.target.names();
        format!(
            "  {path:<8} {precision:<5} {:>9.2} {:>9.2} {:>9.2}{tau}{}",
            self.mean,
            self.percentile_99,
            self.largest,
            if self.is_default { "  (default)" } else { "" }
        )
    }

    fn json(&self) -> serde_json::Value {
        let (path, precision) = self.target.names();
        serde_json::json!({
            "path": path,
            "precision": precision,
            "default": self.is_default,
            "unit": self.unit,
            "mean": self.mean,
            "percentile_99": self.percentile_99,
            "largest": self.largest,
            "tau_b": self.tau_b.map(|tau| tau.0),
            "tau_b_fall": self.tau_b.map(|tau| tau.1),
        })
    }
}

/// Runs the command.
///
/// # Errors
/// A file cannot be used, or the default path lowers tau-b by more than [`LARGEST_FALL`].
pub fn run(args: &VerifyArgs) -> anyhow::Result<()> {
    if let Some(devices) = &args.device {
        anyhow::ensure!(
            !devices.found().is_cpu(),
            "`--device {devices}` names no GPU that is here; without the flag the processor's paths are compared"
        );
    }
    let network = engine::load_or_large(args.file.as_deref())?;
    let threads = if args.threads == 0 { engine_args::processors() } else { args.threads };
    let default = cpu::choose(None, None, network.int8_ranges.is_some())?;
    // The fastest f32 path is the reference: all f32 paths agree to 1/10,000 of the largest score.
    let exact = CpuPath::ALL.into_iter().find(|path| path.obstacle(Precision::F32).is_none());
    let exact = exact.context("no path computes in f32 here")?;
    let setup = Setup { args, network: &network, threads, default: &default, exact };
    let (mut object, mut failures) = (serde_json::Map::new(), Failures::default());
    for head in &network.description.heads {
        let kind = head.kind;
        if !matches!(kind, HeadKind::Value | HeadKind::Moves) {
            print(&format!(
                "{} head: its outputs are no scores and are not compared",
                kind.name()
            ))?;
            continue;
        }
        let lines = setup.compare_head(kind, &mut failures)?;
        object.insert(kind.name().to_owned(), serde_json::Value::Array(lines));
    }
    if args.json {
        print(&serde_json::Value::Object(object).to_string())?;
    }
    failures.check(&setup)?;
    if !args.json && !args.only_device {
        print(&match (&args.data, default.precision) {
            (None, _) => "tau-b was not measured: give labelled positions with --data".to_owned(),
            (Some(_), Precision::F32) => {
                format!("the default path, {}, computes in f32", default.path)
            }
            (Some(_), precision) => {
                format!(
                    "the default path, {} in {precision}, lowers tau-b by at most {LARGEST_FALL}",
                    default.path
                )
            }
        })?;
    }
    Ok(())
}

/// The settings that all comparisons of one run share.
struct Setup<'a> {
    args: &'a VerifyArgs,
    network: &'a Network,
    threads: usize,
    default: &'a cpu::Choice,
    /// The path that computes the expected outputs, in f32.
    exact: CpuPath,
}

/// The heads that break a limit: on the default path, and on GPUs.
#[derive(Default)]
struct Failures {
    default_path: Vec<&'static str>,
    gpus: Vec<&'static str>,
}

impl Setup<'_> {
    fn samples(&self, kind: HeadKind) -> anyhow::Result<Samples> {
        let Some(data) = &self.args.data else { return Ok(Samples::of_games(kind)) };
        let wanted = (kind, validation_loss(self.network, kind));
        let held_out = held_out(data, wanted, &self.args.sources, self.args.positions, i32::MAX)?;
        Ok(Samples::of_data(kind, &held_out))
    }

    /// Compares every target for one head; a JSON object for each.
    fn compare_head(
        &self,
        kind: HeadKind,
        failures: &mut Failures,
    ) -> anyhow::Result<Vec<serde_json::Value>> {
        let (args, network, exact) = (self.args, self.network, self.exact);
        let samples = self.samples(kind)?;
        let expected =
            samples.logits(network, &EvalTarget::Path(exact, Precision::F32), self.threads)?;
        // A policy's scores are not comparable between positions, so tau-b is not defined.
        let policy =
            kind == HeadKind::Moves && network.calibration.move_scores == MoveScores::Policy;
        let tau = if policy { None } else { samples.tau_b(&expected) };
        let unit = if policy { "ln" } else { "cp" };
        if !args.json {
            self.show_head(kind, expected.len(), tau, unit)?;
        }
        let mut lines = Vec::new();
        let mut targets = targets(exact, expected.len(), args.device.as_ref());
        targets.retain(|target| !args.only_device || matches!(target, EvalTarget::Gpus(..)));
        for target in targets {
            let found = match (samples.logits(network, &target, self.threads), &target) {
                (Ok(found), _) => found,
                (Err(error), EvalTarget::Gpus(..)) => return Err(error),
                (Err(error), EvalTarget::Path(path, precision)) => {
                    print(&format!("  {path} {precision}: {error}"))?;
                    continue;
                }
            };
            let differences = samples.differences(network, kind, &expected, &found);
            let at = |share: f64| {
                let index = (share * differences.len() as f64) as usize;
                let last = differences.len().saturating_sub(1);
                differences.get(index.min(last)).copied().unwrap_or(0.0)
            };
            let line = Line {
                is_default: target == EvalTarget::Path(self.default.path, self.default.precision),
                target,
                unit,
                mean: differences.iter().sum::<f32>() / differences.len().max(1) as f32,
                percentile_99: at(0.99),
                largest: at(1.0),
                tau_b: tau.and_then(|tau| samples.tau_b(&found).map(|found| (found, tau - found))),
            };
            if !args.json {
                print(&line.text())?;
            }
            failures.add(&line, kind);
            lines.push(line.json());
        }
        Ok(lines)
    }

    fn show_head(
        &self,
        kind: HeadKind,
        outputs: usize,
        tau: Option<f64>,
        unit: &str,
    ) -> anyhow::Result<()> {
        print(&format!(
            "{} head, {outputs} outputs, against {} in f32{}",
            kind.name(),
            self.exact,
            tau.map_or(String::new(), |tau| format!(" (tau-b {tau:.5} against the labels)"))
        ))?;
        print(&format!(
            "  {:<8} {:<5} {:>9} {:>9} {:>9}{}",
            "path",
            "",
            format!("mean {unit}"),
            format!("99 % {unit}"),
            format!("max {unit}"),
            if tau.is_some() { "     tau-b      fall" } else { "" }
        ))?;
        Ok(())
    }
}

impl Failures {
    fn add(&mut self, line: &Line, kind: HeadKind) {
        if line.breaks_the_limit() {
            match line.target {
                EvalTarget::Gpus(..) => self.gpus.push(kind.name()),
                EvalTarget::Path(..) if line.is_default => self.default_path.push(kind.name()),
                EvalTarget::Path(..) => {}
            }
        }
    }

    fn check(&self, setup: &Setup<'_>) -> anyhow::Result<()> {
        if !self.default_path.is_empty() {
            return Err(CheckFailed(format!(
                "{} in {} lowers tau-b of the {} head by more than {LARGEST_FALL}",
                setup.default.path,
                setup.default.precision,
                self.default_path.join(" and the ")
            ))
            .into());
        }
        if !self.gpus.is_empty() {
            let [exact, own] = LARGEST_DIFFERENCES_OF_POLICY;
            return Err(CheckFailed(format!(
                "{} lowers tau-b of the {} head by more than {LARGEST_FALL_OF_GPU}, or its scores are off by over \
                 {LARGEST_DIFFERENCE} centipawns (any in f32, more than one of 100 in its own number format) or, those of a \
                 policy, by over {exact} (any in f32) or {own} (more than one of 100 in its own)",
                setup.args.device.clone().unwrap_or_default(),
                self.gpus.join(" and the ")
            ))
            .into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_beyond_the_limits_are_found_for_scores_and_for_chances() {
        let gpu = |precision| EvalTarget::Gpus(Devices::default(), precision);
        let breaks = |target: EvalTarget, unit, percentile_99, largest| {
            let line = Line {
                target,
                is_default: false,
                unit,
                mean: 0.0,
                percentile_99,
                largest,
                tau_b: None,
            };
            line.breaks_the_limit()
        };
        for (unit, exact, own) in [("cp", 2.0, 2.0), ("ln", 0.01, 0.05)] {
            assert!(!breaks(gpu(Some(Precision::F32)), unit, 0.0, exact));
            assert!(breaks(gpu(Some(Precision::F32)), unit, 0.0, 1.1 * exact));
            assert!(!breaks(gpu(None), unit, own, 10.0 * own));
            assert!(breaks(gpu(None), unit, 1.1 * own, 10.0 * own));
            assert!(breaks(gpu(None), unit, 0.0, f32::NAN), "NaN");
        }
        assert!(!breaks(EvalTarget::Path(CpuPath::Avx2, Precision::Bf16), "ln", 1.0, 1.0));
    }
}
