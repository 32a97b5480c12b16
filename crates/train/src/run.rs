//! A whole run: from a configuration to a run folder with a calibrated network and a report.

use std::{
    path::PathBuf,
    sync::{PoisonError, atomic::AtomicBool},
};

use eval::Devices;
use nets::{HeadKind, Network, Provenance};

use crate::{
    Backend, BackendKind, BackendScorer, Checkpoint, Config, Ending, EvaluatorScorer, Event,
    HeldOut, Journal, Objective, OptimizerSettings, Progress, RunPlan, RunState, Scorer,
    SelectorScorer, TrainError, TrainingLoop, TrainingSection, ValidationMetrics, WeightAverage,
    calibrate,
    first_network::first_network,
    machine,
    native::NativeBackend,
    quantise, report, revision,
    source::{Batches, Source},
};

/// Positions of each source whose legal moves are all ranked at the end of a move head's run.
const AGREEMENT_POSITIONS: usize = 2_000;

/// Positions of each source on which eight-bit integers are tried at the end.
const QUANTISED_POSITIONS: usize = 10_000;

/// What a run came to.
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

/// Makes the backend that a configuration asks for.
///
/// # Errors
/// The backend is not in this build, or it cannot run this network.
pub fn make_backend(
    training: &TrainingSection,
    network: &Network,
    objectives: &[Objective],
    settings: &OptimizerSettings,
    threads: usize,
) -> Result<Box<dyn Backend>, TrainError> {
    match training.backend {
        BackendKind::Cpu => Ok(Box::new(NativeBackend::new(
            network.clone(),
            objectives,
            settings.clone(),
            threads,
        )?)),
        BackendKind::Burn => {
            let devices = training.device.parse().map_err(TrainError::Config)?;
            burn(&devices, training.mixed_precision, network, objectives, settings)
        }
    }
}

/// The backend in Burn, on these devices; with `mixed`, convolutions are done in half precision.
///
/// # Errors
/// The backend or the device is not in this build, or it cannot run this network.
#[cfg(feature = "burn-backend")]
pub fn burn(
    devices: &Devices,
    mixed: bool,
    network: &Network,
    objectives: &[Objective],
    settings: &OptimizerSettings,
) -> Result<Box<dyn Backend>, TrainError> {
    let devices = crate::BurnDevices::open(devices, mixed)?;
    Ok(Box::new(crate::BurnBackend::new(network.clone(), objectives, settings.clone(), devices)?))
}

/// The backend in Burn, on these devices; with `mixed`, convolutions are done in half precision.
///
/// # Errors
/// It is not in this build.
#[cfg(not(feature = "burn-backend"))]
pub fn burn(
    _: &Devices,
    _: bool,
    _: &Network,
    _: &[Objective],
    _: &OptimizerSettings,
) -> Result<Box<dyn Backend>, TrainError> {
    Err(TrainError::Config(
        "the backend `burn` is not in this build; build with --features burn (or cuda, wgpu), or set training.backend=cpu"
            .to_owned(),
    ))
}

/// Refuses to begin a run in the folder of another.
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

/// The checkpoint to go on from, if any.
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
            // Written by a program that did not keep it there.
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

/// Makes the run folder with the resolved settings.
pub(crate) fn write_config(config: &Config) -> Result<(), TrainError> {
    let folder = config.folder();
    let path = folder.join("config.toml");
    std::fs::create_dir_all(&folder)
        .map_err(|source| TrainError::Io { path: folder.clone(), source })?;
    board::write_whole(&path, config.to_toml()?.as_bytes())
        .map_err(|source| TrainError::Io { path, source })
}

/// Trains, or goes on training; at the end validates, calibrates and exports `network.safetensors`.
///
/// # Errors
/// Settings, data or files are unusable, the device fails, or the loss diverges.
pub fn train(
    config: &Config,
    resume: bool,
    stop: &AtomicBool,
    progress: &mut dyn Progress,
) -> Result<RunOutcome, TrainError> {
    let source = Source::open(config)?;
    let network = first_network(config)?;
    let checkpoint = find_checkpoint(config, resume)?;
    let folder = config.folder();
    if let Some(checkpoint) =
        checkpoint.as_ref().filter(|checkpoint| checkpoint.state.data != source.hash())
    {
        return Err(TrainError::Config(format!(
            "the data has changed since step {} of the run `{}`",
            checkpoint.state.step,
            folder.display()
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
    let before = state.changes.len();
    state.pace_is(config.pace()?);
    let objectives = config.objectives();
    let Batches { batches, positions, counts } = source.batches(config, state.step)?;
    let mut held_out = Vec::new();
    for objective in &objectives {
        let positions = source.held_out(config, (objective.head, objective.loss))?;
        if positions.is_empty() && !objective.head.is_selector() {
            return Err(TrainError::Config(format!(
                "none of the held-out positions has a label for the {} head, which could not be calibrated at the end: \
                 take more sources (data.sources) or games",
                objective.head.name()
            )));
        }
        held_out.push((*objective, positions));
    }
    // Only now: a run that is refused leaves no trace.
    write_config(config)?;
    let settings =
        OptimizerSettings { dropout_seed: config.training.seed, ..config.optimizer.clone() };
    let backend = |network: &Network| {
        make_backend(&config.training, network, &objectives, &settings, config.threads())
    };
    let mut own = backend(&network)?;
    let average = match &checkpoint {
        Some(checkpoint) => {
            own.restore(&checkpoint.network, &checkpoint.optimizer)?;
            checkpoint.average.clone()
        }
        None => {
            let decay = config.training.average;
            (decay > 0.0).then(|| WeightAverage::new(network.clone(), decay))
        }
    };
    let steps = config.steps(positions);
    let mut journal = Journal::open(&folder, state.step)?;
    journal.write(&Event::Start {
        step: state.step,
        steps,
        positions,
        backend: own.describe(),
        machine: machine(),
        revision: revision(),
        data: source.hash().to_owned(),
        seed: config.training.seed,
    })?;
    progress.start(&RunPlan {
        name: config.run.name.clone(),
        backend: own.describe(),
        first_step: state.step,
        steps,
        batch: config.training.batch,
        positions,
    });
    for change in &state.changes[before..] {
        progress.note(&format!("changed {change}"));
    }
    let is_trained = |head: HeadKind| objectives.iter().any(|objective| objective.head == head);
    for head in network.description.heads.iter().filter(|head| !is_trained(head.kind)) {
        if !network.description.trunk.is_empty() {
            progress.note(&format!(
                "the {} head stays as it is on a trunk that changes: it will be worth less than before",
                head.kind.name()
            ));
        }
    }
    for head in objectives.iter().map(|objective| objective.head).filter(|head| !head.is_selector())
    {
        if let Err(error) = EvaluatorScorer::new(&network, head, config.threads()) {
            progress.note(&format!("{error}: what trains the {} head also judges it", head.name()));
        }
    }
    let batch = config.training.batch;
    let scorer = |network: &Network, head: HeadKind| -> Result<Box<dyn Scorer>, TrainError> {
        if head.is_selector()
            && let Ok(scorer) = SelectorScorer::new(network, head)
        {
            return Ok(Box::new(scorer));
        }
        // A network that the evaluator cannot run can still be trained; then the backend judges it.
        match EvaluatorScorer::new(network, head, config.threads()) {
            Ok(scorer) => Ok(Box::new(scorer)),
            Err(_) => Ok(Box::new(BackendScorer { backend: backend(network)?, head, batch })),
        }
    };
    let mut trainer = TrainingLoop {
        config,
        steps,
        positions,
        folder: &folder,
        backend: own,
        batches,
        average,
        held_out: &held_out,
        scorer: &scorer,
        state,
        saved: None,
        journal,
        stop,
    };
    let ending = trainer.run(progress)?;
    let seen =
        counts.map(|counts| counts.lock().unwrap_or_else(PoisonError::into_inner).to_string());
    if let Some(seen) = &seen {
        progress.note(seen);
    }
    let mut outcome = RunOutcome {
        ending,
        step: trainer.state.step,
        folder: folder.clone(),
        network: None,
        measures: Vec::new(),
    };
    if ending != Ending::Interrupted {
        let (path, measures) = finish(&mut trainer, &held_out, seen, progress)?;
        (outcome.network, outcome.measures) = (Some(path), measures);
    }
    report::write(&folder)?;
    Ok(outcome)
}

/// The last validation, the calibration and the exported file.
fn finish(
    trainer: &mut TrainingLoop<'_>,
    held_out: &[(Objective, Vec<HeldOut>)],
    seen: Option<String>,
    progress: &mut dyn Progress,
) -> Result<(PathBuf, Vec<ValidationMetrics>), TrainError> {
    let config = trainer.config;
    let measures = trainer.judge(config.validation.final_positions, AGREEMENT_POSITIONS, true)?;
    progress.validation(trainer.state.step, &measures);
    let mut network = trainer.network()?;
    network.provenance.clear();
    let mut judged = Vec::new();
    for (objective, held_out) in held_out {
        let keys = &mut provenance(trainer, objective, &measures);
        network.provenance.append(keys);
        if objective.head.is_selector() {
            continue;
        }
        let mut scorer = (trainer.scorer)(&network, objective.head)?;
        let sample = |source: &HeldOut| source.sample(config.validation.final_positions);
        let held_out: Vec<HeldOut> = held_out.iter().map(sample).collect();
        calibrate::calibrate_head(
            &mut network.calibration,
            scorer.as_mut(),
            objective.head,
            &held_out,
        )?;
        let sample = |source: &HeldOut| source.sample(QUANTISED_POSITIONS);
        judged.push((objective.head, held_out.iter().map(sample).collect()));
    }
    // Networks that cannot be computed in integers are as welcome; selectors never are.
    if !judged.is_empty() {
        match quantise(&mut network, &judged, config.threads()) {
            Ok(costs) => {
                let verdict =
                    if network.int8_ranges.is_some() { "will be used" } else { "will not be used" };
                costs
                    .iter()
                    .for_each(|cost| progress.note(&format!("int8 {verdict} unasked: {cost}")));
            }
            Err(error) => progress.note(&format!("int8 will not be used unasked: {error}")),
        }
    }
    if let Some(seen) = seen {
        network.provenance.insert("streamed".to_owned(), seen);
    }
    network.name = config.run.name.clone();
    let path = trainer.folder.join("network.safetensors");
    network.save(&path)?;
    progress.note(&format!("saved {}", path.display()));
    Ok((path, measures))
}

fn provenance(
    trainer: &TrainingLoop<'_>,
    objective: &Objective,
    measures: &[ValidationMetrics],
) -> Provenance {
    let (config, training) = (trainer.config, &trainer.config.training);
    let head = objective.head.name();
    let mut lines = Provenance::new();
    let mut add = |key: &str, value: String| lines.insert(format!("{head}: {key}"), value);
    add("run", config.run.name.clone());
    add("revision", revision());
    add("machine", machine());
    add("backend", trainer.backend.describe());
    add("data hash", trainer.state.data.clone());
    add("start", config.model.start.clone());
    if let Some(body) = &config.model.body {
        add("first layers from", body.display().to_string());
    }
    add("seed", training.seed.to_string());
    add("steps", format!("{} of {} positions", trainer.state.step, training.batch));
    add("learning rate", format!("{}, {:?}", training.learning_rate, training.schedule));
    if !trainer.state.changes.is_empty() {
        add("changed", trainer.state.changes.join("; "));
    }
    add("average of weights", training.average.to_string());
    add("training positions", trainer.positions.to_string());
    add("training minutes", format!("{:.0}", trainer.state.seconds / 60.0));
    add("loss", format!("{:?}, weight {}", objective.loss, objective.weight));
    for source in measures.iter().filter(|source| source.head == Some(objective.head)) {
        add(&format!("validation {}", source.source), summary(source));
    }
    lines
}

/// One source's figures on one line.
#[must_use]
pub fn summary(measures: &ValidationMetrics) -> String {
    let ranking = &measures.ranking;
    let mut line = if ranking.positions == 0 {
        format!("cross entropy {:.4}", measures.loss)
    } else {
        format!(
            "tau-b {:.4}, weighted tau {:.4}, rho {:.4} ({} positions without mates); with mates tau-b {:.4}; \
             loss {:.4}",
            ranking.tau_b,
            ranking.weighted_tau,
            ranking.spearman,
            ranking.positions,
            measures.with_mates.tau_b,
            measures.loss
        )
    };
    if let Some(agreement) = &measures.agreement {
        line += &format!(
            "; played move first {:.1} %, in the first three {:.1} % of {} positions",
            100.0 * agreement.top_1,
            100.0 * agreement.top_3,
            agreement.positions
        );
        if let Some(legal) = agreement.legal {
            line += &format!("; {:.1} % among squares of legal moves", 100.0 * legal);
        }
        if let Some((positions, share)) = agreement.unseen {
            line += &format!(
                "; {:.1} % in the {positions} positions that no training game holds",
                100.0 * share
            );
        }
        for (head, positions, share) in &agreement.choices {
            line += &format!("; {} {:.1} % of {positions}", head.name(), 100.0 * share);
        }
    }
    line
}
