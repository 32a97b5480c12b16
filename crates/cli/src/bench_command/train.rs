//! `batch-first bench train`: measures the positions a second that this machine trains.

use std::io::{self, Write};

use ::train::{
    Backend, Loss, Objective, OptimizerSettings, measure_speed,
    native::{NativeBackend, Precision},
};
use eval::Devices;
use nets::{BatchFirstResidual, Cockfish, Description, HeadKind, Network};

/// The trained network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Model {
    /// The value network, ordinal loss.
    Value,
    /// The move network, ordinal loss.
    Moves,
    /// Both heads on one trunk: ordinal loss and cross entropy.
    Shared,
    /// The same heads and losses on residual blocks.
    Residual,
    /// Cockfish's value network, tanh loss.
    Cockfish,
}

/// Number format of the products.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Bf16,
    F32,
}

#[derive(Debug, clap::Args)]
pub(super) struct BenchTrainArgs {
    /// Network; may be repeated.
    #[arg(long, value_enum, default_values_t = [Model::Value, Model::Moves, Model::Shared, Model::Residual])]
    model: Vec<Model>,
    /// Channels of the residual network.
    #[arg(long, value_name = "N", default_value_t = BatchFirstResidual::default().filters)]
    filters: usize,
    /// Blocks of the residual network.
    #[arg(long, value_name = "N", default_value_t = BatchFirstResidual::default().blocks)]
    blocks: usize,
    /// Positions a step.
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(2..=16_384))]
    batch: u32,
    /// Timed steps, after three warm-up steps.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    steps: u32,
    /// Threads; 0: all cores.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=256))]
    threads: u32,
    /// Number format (default: bf16 if the processor has a tile unit).
    #[arg(long, value_enum)]
    precision: Option<Format>,
    /// Train with Burn on these GPUs: cuda:N or vulkan:N, several with commas; `bf16` then means
    /// half-precision convolutions.
    #[arg(long, value_name = "NAME", conflicts_with = "threads")]
    device: Option<Devices>,
    /// Print JSON, one object a line, instead of a table.
    #[arg(long)]
    json: bool,
}

impl Model {
    fn name(self) -> &'static str {
        match self {
            Self::Value => "value",
            Self::Moves => "moves",
            Self::Shared => "shared",
            Self::Residual => "residual",
            Self::Cockfish => "cockfish",
        }
    }

    fn parts(self, args: &BenchTrainArgs) -> (Description, Vec<Objective>) {
        let (value, moves): (Objective, Objective) =
            (HeadKind::Value.into(), HeadKind::Moves.into());
        let policy = Objective { loss: Loss::CrossEntropy, ..moves };
        match self {
            Self::Value => (Description::batch_first(&[HeadKind::Value]), vec![value]),
            Self::Moves => (Description::batch_first(&[HeadKind::Moves]), vec![moves]),
            Self::Shared => (Description::batch_first_shared(), vec![value, policy]),
            Self::Residual => {
                let choice = BatchFirstResidual { filters: args.filters, blocks: args.blocks };
                (Description::batch_first_residual(&choice), vec![value, policy])
            }
            Self::Cockfish => {
                let tanh = Objective { loss: Loss::Tanh { scale: 400.0 }, ..value };
                (Description::cockfish(&Cockfish::default()), vec![tanh])
            }
        }
    }
}

/// Runs the command.
///
/// # Errors
/// Training failed.
pub(super) fn run(args: &BenchTrainArgs) -> anyhow::Result<()> {
    let precision = match args.precision {
        None => Precision::best(),
        Some(Format::Bf16) => Precision::Bf16,
        Some(Format::F32) => Precision::Single,
    };
    let batch = args.batch as usize;
    let mut out = io::stdout().lock();
    if !args.json {
        writeln!(
            out,
            "{:<8} {:>6} {:>14} {:>14}  backend",
            "network", "batch", "positions/s", "a CPU second"
        )?;
    }
    for model in &args.model {
        let (description, objectives) = model.parts(args);
        let (steps, threads) = (args.steps as usize, args.threads as usize);
        let network = Network::random(description, 1)?;
        let settings = OptimizerSettings::default();
        let mut backend: Box<dyn Backend> = match &args.device {
            Some(devices) => {
                let mixed = args.precision == Some(Format::Bf16);
                ::train::burn(devices, mixed, &network, &objectives, &settings)?
            }
            None => Box::new(NativeBackend::with_precision(
                network,
                &objectives,
                settings,
                threads,
                precision,
            )?),
        };
        let speed = measure_speed(backend.as_mut(), &objectives, batch, steps)?;
        let cpu = speed.per_cpu_second();
        if args.json {
            let line = serde_json::json!({
                "network": model.name(), "batch": batch, "steps": steps, "backend": speed.backend,
                "positions_per_second": speed.per_second(), "positions_per_cpu_second": cpu,
            });
            writeln!(out, "{line}")?;
        } else {
            let cpu = cpu.map_or_else(|| "unknown".to_owned(), |rate| format!("{rate:.0}"));
            writeln!(
                out,
                "{:<8} {batch:>6} {:>14.0} {cpu:>14}  {}",
                model.name(),
                speed.per_second(),
                speed.backend
            )?;
        }
    }
    Ok(())
}
