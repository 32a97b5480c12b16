//! Runs one training run: a configuration becomes a run folder with a calibrated network and a
//! report.

use std::{
    path::PathBuf,
    sync::{PoisonError, atomic::AtomicBool},
};

use nets::{HeadKind, Network};

use crate::{
    Backend, BackendScorer, Checkpoint, Config, Ending, EvaluatorScorer, Event, HeldOut, Journal,
    Objective, OptimizerSettings, Progress, RunPlan, RunState, Scorer, SelectorScorer, TrainError,
    TrainingLoop, ValidationMetrics, WeightAverage,
    finish::finish,
    first_network::first_network,
    machine, make_backend, report, revision,
    source::{Batches, Source},
};

/// The result of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunOutcome {
    pub ending: Ending,
    pub step: u64,
    pub folder: PathBuf,
    /// The exported network; none for an interrupted run.
    pub network: Option<PathBuf>,
    /// The last validation, on as many held-out positions as `validation.final_positions` says;
    /// empty for an interrupted run.
    pub measures: Vec<ValidationMetrics>,
}

/// Checks that a new run does not use the folder of an existing one.
pub(crate) fn check_folder(config: &Config, resume: bool) -> Result<(), TrainError> {
    let folder = config.folder();
    if folder.join("config.toml").exists() && !resume {
        return Err(TrainError::Config(format!(
            "the run `{}` exists; add --resume to go on with it, or choose another name with \
             --set run.name=NAME",
            folder.display()
        )));
    }
    Ok(())
}

/// The checkpoint to resume from, if there is one.
fn find_checkpoint(config: &Config, resume: bool) -> Result<Option<Checkpoint>, TrainError> {
    check_folder(config, resume)?;
    let folder = config.folder();
    let path = folder.join("config.toml");
    let mut checkpoint = None;
    if path.exists() {
        let saved = Config::load(&path, &[])?;
        checkpoint = Checkpoint::newest(&folder)?;
        if let Some(checkpoint) =
            checkpoint.as_mut().filter(|checkpoint| checkpoint.state.pace.is_empty())
        {
            // Checkpoints of early versions do not contain the pace.
            checkpoint.state.pace = saved.pace()?;
        }
        if let (Some(setting), Some(_)) = (config.conflict(&saved), &checkpoint) {
            return Err(TrainError::Config(format!(
                "`{setting}` differs from what the run `{}` was begun with",
                folder.display()
            )));
        }
    }
    Ok(checkpoint)
}

/// Creates the run folder and writes the resolved settings to `config.toml`.
pub(crate) fn write_config(config: &Config) -> Result<(), TrainError> {
    let folder = config.folder();
    let path = folder.join("config.toml");
    std::fs::create_dir_all(&folder)
        .map_err(|source| TrainError::Io { path: folder.clone(), source })?;
    board::write_whole(&path, config.to_toml()?.as_bytes())
        .map_err(|source| TrainError::Io { path, source })
}

/// A run whose settings and data are accepted. No file is written before this exists, so a refused
/// run leaves no trace.
struct PreparedRun {
    /// The network that training starts from.
    network: Network,
    /// The checkpoint that training resumes from.
    checkpoint: Option<Checkpoint>,
    state: RunState,
    /// Entries of `state.changes` that are older than this call.
    earlier_changes: usize,
    batches: Batches,
    /// One list of sources for each trained head.
    held_out: Vec<(Objective, Vec<HeldOut>)>,
}

impl PreparedRun {
    fn new(config: &Config, resume: bool) -> Result<Self, TrainError> {
        let source = Source::open(config)?;
        let network = first_network(config)?;
        let checkpoint = find_checkpoint(config, resume)?;
        if let Some(checkpoint) =
            checkpoint.as_ref().filter(|checkpoint| checkpoint.state.data != source.hash())
        {
            return Err(TrainError::Config(format!(
                "the data has changed since step {} of the run `{}`",
                checkpoint.state.step,
                config.folder().display()
            )));
        }
        let mut state = checkpoint.as_ref().map_or_else(
            || RunState {
                seed: config.training.seed,
                data: source.hash().to_owned(),
                ..RunState::default()
            },
            |checkpoint| checkpoint.state.clone(),
        );
        let earlier_changes = state.changes.len();
        state.set_pace(config.pace()?);
        let batches = source.batches(config, state.step)?;
        let held_out = held_out(config, &source)?;
        Ok(Self { network, checkpoint, state, earlier_changes, batches, held_out })
    }
}

/// The held-out positions of each trained head.
///
/// # Errors
/// The data cannot be read, or a head that needs calibration has no held-out position.
fn held_out(
    config: &Config,
    source: &Source,
) -> Result<Vec<(Objective, Vec<HeldOut>)>, TrainError> {
    let mut held_out = Vec::new();
    for objective in config.objectives() {
        let positions = source.held_out(config, (objective.head, objective.loss))?;
        if positions.is_empty() && !objective.head.is_selector() {
            return Err(TrainError::Config(format!(
                "none of the held-out positions has a label for the {} head, which could not be calibrated at the end: \
                 take more sources (data.sources) or games",
                objective.head.name()
            )));
        }
        held_out.push((objective, positions));
    }
    Ok(held_out)
}

/// Opens the journal at the step of `state`, and reports the start of the run to it and to
/// `progress`.
fn open_journal(
    config: &Config,
    state: &RunState,
    (steps, positions): (u64, u64),
    backend: &dyn Backend,
    progress: &mut dyn Progress,
) -> Result<Journal, TrainError> {
    let mut journal = Journal::open(&config.folder(), state.step)?;
    journal.write(&Event::Start {
        step: state.step,
        steps,
        positions,
        backend: backend.describe(),
        machine: machine(),
        revision: revision(),
        data: state.data.clone(),
        seed: config.training.seed,
    })?;
    journal.report(progress);
    progress.start(&RunPlan {
        name: config.run.name.clone(),
        backend: backend.describe(),
        first_step: state.step,
        steps,
        batch: config.training.batch,
        positions,
    });
    Ok(journal)
}

/// Reports the changed settings, the heads that this run makes worse, and the heads that only the
/// training backend can score.
fn note_limits(
    config: &Config,
    network: &Network,
    changes: &[String],
    progress: &mut dyn Progress,
) {
    for change in changes {
        progress.note(&format!("changed {change}"));
    }
    let trained: Vec<HeadKind> =
        config.objectives().iter().map(|objective| objective.head).collect();
    for head in network.description.heads.iter().filter(|head| !trained.contains(&head.kind)) {
        if !network.description.trunk.is_empty() {
            progress.note(&format!(
                "the {} head stays as it is on a trunk that changes: it will be worth less than before",
                head.kind.name()
            ));
        }
    }
    for head in trained.into_iter().filter(|head| !head.is_selector()) {
        if let Err(error) = EvaluatorScorer::new(network, head, config.threads()) {
            progress.note(&format!("{error}: what trains the {} head also judges it", head.name()));
        }
    }
}

/// Trains, or resumes training; at the end validates, calibrates and exports
/// `network.safetensors`.
///
/// # Errors
/// Settings, data or files are unusable, the device fails, or the loss diverges.
pub fn train(
    config: &Config,
    resume: bool,
    stop: &AtomicBool,
    progress: &mut dyn Progress,
) -> Result<RunOutcome, TrainError> {
    let PreparedRun { network, checkpoint, state, earlier_changes, batches, held_out } =
        PreparedRun::new(config, resume)?;
    let Batches { batches, positions, counts } = batches;
    write_config(config)?;
    let folder = config.folder();
    let objectives = config.objectives();
    let settings =
        OptimizerSettings { dropout_seed: config.training.seed, ..config.optimizer.clone() };
    let make_backend = |network: &Network| {
        make_backend(&config.training, network, &objectives, &settings, config.threads())
    };
    let mut backend = make_backend(&network)?;
    let decay = config.training.average;
    let mut average = (decay > 0.0).then(|| WeightAverage::new(network.clone(), decay));
    if let Some(checkpoint) = checkpoint {
        backend.restore(&checkpoint.network, &checkpoint.optimizer)?;
        average = checkpoint.average;
    }
    let steps = config.steps(positions);
    let journal = open_journal(config, &state, (steps, positions), backend.as_ref(), progress)?;
    note_limits(config, &network, &state.changes[earlier_changes..], progress);
    let scorer =
        |network: &Network, head| make_scorer(config, network, head, || make_backend(network));
    let mut training_loop = TrainingLoop {
        config,
        steps,
        positions,
        folder: &folder,
        backend,
        batches,
        average,
        held_out: &held_out,
        scorer: &scorer,
        state,
        saved: None,
        journal,
        stop,
    };
    let ending = training_loop.run(progress)?;
    let streamed =
        counts.map(|counts| counts.lock().unwrap_or_else(PoisonError::into_inner).to_string());
    if let Some(streamed) = &streamed {
        progress.note(streamed);
    }
    let (step, mut network, mut measures) = (training_loop.state.step, None, Vec::new());
    if ending != Ending::Interrupted {
        let (path, last) = finish(&mut training_loop, &held_out, streamed, progress)?;
        (network, measures) = (Some(path), last);
    }
    report::write(&folder)?;
    Ok(RunOutcome { ending, step, folder: config.folder(), network, measures })
}

/// Makes a scorer for a head: the evaluator if it can run the network, otherwise the training
/// backend.
fn make_scorer(
    config: &Config,
    network: &Network,
    head: HeadKind,
    make_backend: impl FnOnce() -> Result<Box<dyn Backend>, TrainError>,
) -> Result<Box<dyn Scorer>, TrainError> {
    if head.is_selector()
        && let Ok(scorer) = SelectorScorer::new(network, head)
    {
        return Ok(Box::new(scorer));
    }
    match EvaluatorScorer::new(network, head, config.threads()) {
        Ok(scorer) => Ok(Box::new(scorer)),
        Err(_) => {
            let batch = config.training.batch;
            Ok(Box::new(BackendScorer { backend: make_backend()?, head, batch }))
        }
    }
}
