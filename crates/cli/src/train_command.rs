//! `batch-first train`: runs a training from a configuration file and shows its progress.

mod progress;

use std::{
    io::{self, IsTerminal, Write},
    path::PathBuf,
};

use eval::Devices;
use train::{Config, Ending, Progress, TrainError, summary};

use crate::interrupt::{self, Interrupted};

/// How progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum ProgressMode {
    /// A bar on a terminal, lines elsewhere.
    Auto,
    /// A bar.
    Bar,
    /// A line every ten seconds.
    Plain,
    /// One JSON object a line.
    Json,
    /// Nothing.
    None,
}

/// Train a network; Ctrl-C saves and ends the run.
#[derive(Debug, clap::Args)]
pub struct TrainArgs {
    /// Configuration file of the run (TOML).
    config: PathBuf,
    /// Resume the run from its newest checkpoint.
    #[arg(long)]
    resume: bool,
    /// Try every combination of the values in the file's [grid] section, several runs at a time,
    /// and rank them.
    #[arg(long)]
    grid: bool,
    /// Change a setting of the file, for example `training.batch=512`; may be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
    /// Train on these devices: cuda:N or vulkan:N with Burn, several with commas (short for `--set
    /// training.backend=burn --set training.device=NAME`); cpu is our own backend.
    #[arg(long, value_name = "NAME")]
    device: Option<Devices>,
    /// How progress is shown.
    #[arg(long, value_enum, default_value = "auto")]
    progress: ProgressMode,
}

/// Runs the command.
///
/// # Errors
/// The configuration, the data or a file cannot be used, or training failed.
pub fn run(mut args: TrainArgs) -> anyhow::Result<()> {
    if let Some(device) = &args.device {
        let device = device.found();
        if device.is_cpu() {
            args.settings.push("training.backend=cpu".to_owned());
            args.settings.push("training.device=cpu".to_owned());
        } else {
            args.settings.push("training.backend=burn".to_owned());
            args.settings.push(format!("training.device={device}"));
        }
    }
    let config = Config::load(&args.config, &args.settings)?;
    let stop = interrupt::stop_flag()?;
    let mut progress: Box<dyn Progress + Send> = match args.progress {
        ProgressMode::Auto if std::io::stderr().is_terminal() => Box::new(progress::Bar::default()),
        ProgressMode::Bar => Box::new(progress::Bar::default()),
        ProgressMode::Auto | ProgressMode::Plain => Box::new(progress::Lines::default()),
        ProgressMode::Json => Box::new(progress::JsonProgress),
        ProgressMode::None => Box::new(train::NoProgress),
    };
    if args.grid {
        return match train::search_grid(&config, args.resume, &stop, progress.as_mut()) {
            Err(error @ TrainError::Interrupted { .. }) => {
                // Standard output may be lines of JSON.
                let shown = writeln!(io::stderr(), "{error}").map_err(anyhow::Error::from);
                Interrupted::or(true, shown)
            }
            trials => print_grid(&config, &trials?),
        };
    }
    let outcome = train::train_all(&config, args.resume, &stop, progress.as_mut())?;
    let silent = matches!(args.progress, ProgressMode::Json | ProgressMode::None);
    let shown = if silent { Ok(()) } else { print(&outcome) };
    Interrupted::or(outcome.ending == Ending::Interrupted, shown)
}

fn print_grid(config: &Config, trials: &[train::Trial]) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    for trial in trials {
        writeln!(out, "{}", trial.describe())?;
    }
    writeln!(out, "table: {}", config.folder().join("grid.tsv").display())?;
    Ok(())
}

fn print(outcome: &train::RunOutcome) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    for measures in &outcome.measures {
        let head = measures.head.map_or("", |head| head.name());
        writeln!(out, "{head} {}: {}", measures.source, summary(measures))?;
    }
    if outcome.ending == Ending::Interrupted {
        writeln!(out, "interrupted after step {}; add --resume to go on", outcome.step)?;
    }
    if let Some(network) = &outcome.network {
        writeln!(out, "network: {}", network.display())?;
    }
    // Each selector is a run with its own report; several selectors share one picture of curves.
    let pictures = [("report", "report.html"), ("curves", "loss.svg")];
    let mut pictures = pictures.map(|(what, file)| (what, outcome.folder.join(file))).into_iter();
    if let Some((what, path)) = pictures.find(|(_, path)| path.exists()) {
        writeln!(out, "{what}: {}", path.display())?;
    }
    Ok(())
}
