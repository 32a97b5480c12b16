//! A whole run: from a configuration to a run folder with a calibrated network and a report.

use std::{
    path::{Path, PathBuf},
    sync::{PoisonError, atomic::AtomicBool},
};

use eval::Devices;
use nets::{
    BatchFirstResidual, Cockfish, ConvChess, Description, Encoding, HeadKind, Layer, MoveScores, Network,
    Provenance, TensorKind,
};

use crate::{
    Average, Backend, BackendKind, BackendScorer, Checkpoint, Config, Ending, EvaluatorScorer, Event,
    HeldOut, Journal, Loss, Measures, Objective, OptimizerSettings, Plan, Progress, Scorer, SelectorScorer,
    State, TrainError, Trainer, TrainingSection, calibrate,
    config::{COCKFISH, CONVCHESS, RESIDUAL},
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
pub struct Outcome {
    pub ending: Ending,
    pub step: u64,
    pub folder: PathBuf,
    /// The exported network; none for an interrupted run.
    pub network: Option<PathBuf>,
    /// The last validation, on all held-out positions; empty for an interrupted run.
    pub measures: Vec<Measures>,
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
        BackendKind::Cpu => {
            Ok(Box::new(NativeBackend::new(network.clone(), objectives, settings.clone(), threads)?))
        }
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

/// The network that a run starts from.
fn first_network(config: &Config) -> Result<Network, TrainError> {
    let (start, heads) = (config.model.start.as_str(), config.model.heads.as_slice());
    let seed = config.training.seed;
    let lacks =
        |network: &Network| heads.iter().copied().find(|&head| network.description.head(head).is_none());
    // Of what is random, only what is trained.
    let random = |mut description: Description| {
        if heads.iter().all(|&head| description.head(head).is_some()) {
            description.heads.retain(|head| heads.contains(&head.kind));
        }
        Network::random(description, seed)
    };
    let with_input = |description: Description| {
        let encoding = config.model.input.unwrap_or(description.encoding);
        random(Description { encoding, ..description })
    };
    let mut network = if start == "batch-first" {
        with_input(Description::batch_first(heads))?
    } else if start == "batch-first-shared" {
        with_input(Description::batch_first_shared())?
    } else if start == RESIDUAL {
        let BatchFirstResidual { filters, blocks } = BatchFirstResidual::default();
        let filters = config.model.filters.unwrap_or(filters);
        let blocks = config.model.blocks.unwrap_or(blocks);
        with_input(Description::batch_first_residual(&BatchFirstResidual { filters, blocks }))?
    } else if start == COCKFISH {
        let published = Cockfish::default();
        let filters = config.model.filters.unwrap_or(published.filters);
        let blocks = config.model.blocks.unwrap_or(published.blocks);
        let activation = config.model.activation.unwrap_or(published.activation);
        let global_mean = config.model.pooling.unwrap_or(published.global_mean);
        let choice = Cockfish { filters, blocks, activation, global_mean };
        Network::random(Description::cockfish(&choice), seed)?
    } else if start == CONVCHESS {
        let (published, model) = (ConvChess::default(), &config.model);
        let choice = ConvChess {
            convolutions: model.convolutions.unwrap_or(published.convolutions),
            filters: model.filters.unwrap_or(published.filters),
            pools: model.pools.unwrap_or(published.pools),
            dense: model.dense.unwrap_or(published.dense),
        };
        Network::random(Description::convchess(&choice, heads), seed)?
    } else if start.ends_with(".json") {
        let path = Path::new(start);
        let text = std::fs::read_to_string(path)
            .map_err(|source| TrainError::Io { path: path.to_owned(), source })?;
        let description: Description = serde_json::from_str(&text)
            .map_err(|error| TrainError::Config(format!("`{start}` is no network description: {error}")))?;
        random(description)?
    } else if start.ends_with(".safetensors") {
        let network = Network { int8_ranges: None, ..Network::load(Path::new(start))? };
        if lacks(&network).is_none() {
            network
        } else {
            let encoding = match network.description.encoding {
                told @ Encoding::Attacks21 => told,
                _ => Encoding::BatchFirst15,
            };
            let description = Description { encoding, ..Description::batch_first(heads) };
            let mut fresh = Network::random(description, seed)?;
            take_layers(&mut fresh, &network)?;
            fresh
        }
    } else {
        return Err(TrainError::Config(format!(
            "model.start is `{start}`; it must be `batch-first`, `batch-first-shared`, `{RESIDUAL}`, `{COCKFISH}`, \
             `{CONVCHESS}` or the path of a .json or .safetensors file"
        )));
    };
    if let Some(head) = lacks(&network) {
        return Err(TrainError::Config(format!("`{start}` has no {} head", head.name())));
    }
    if let Some(scale) = config.model.weight_scale {
        if start.ends_with(".safetensors") {
            return Err(TrainError::Config(
                "model.weight_scale is for the random weights of a fresh network".to_owned(),
            ));
        }
        for spec in network.description.tensors().map_err(TrainError::Config)? {
            let tensor = network.tensors.get_mut(&spec.name).filter(|_| spec.kind == TensorKind::Weight);
            tensor.into_iter().flat_map(|tensor| &mut tensor.data).for_each(|value| *value *= scale);
        }
    }
    if let Some(body) = &config.model.body {
        take_layers(&mut network, &Network::load(body)?)?;
    }
    for objective in config.objectives().iter().filter(|objective| objective.head == HeadKind::Moves) {
        network.calibration.move_scores = match objective.loss {
            Loss::CrossEntropy => MoveScores::Policy,
            Loss::Ordinal | Loss::Tanh { .. } => MoveScores::Centipawns,
        };
    }
    Ok(network)
}

/// The layers from the input to the end of a head, with the prefix of their tensors.
fn way(description: &Description, head: HeadKind) -> Vec<(String, &Layer)> {
    let own = description.head(head).map_or(&[][..], |head| &head.layers);
    let own = own.iter().enumerate().map(|(index, layer)| (format!("{}.{index}.", head.name()), layer));
    let trunk = description.trunk.iter().enumerate();
    trunk.map(|(index, layer)| (format!("trunk.{index}."), layer)).chain(own).collect()
}

/// Gives a fresh network the layers of another, from the input to where they differ: what one has learned to see, the
/// other can use. A head takes from its like if there is one; a trunk from what its first head takes from.
fn take_layers(network: &mut Network, other: &Network) -> Result<(), TrainError> {
    let description = network.description.clone();
    let [own, from] = [description.encoding, other.description.encoding].map(Encoding::name);
    if own != from {
        return Err(TrainError::Config(format!(
            "`{}` has the input {from}, the network to train {own} (model.input): its layers are no use there",
            other.name
        )));
    }
    for head in description.heads.iter().rev() {
        let mut lenders: Vec<HeadKind> = other.description.heads.iter().map(|head| head.kind).collect();
        lenders.sort_by_key(|&kind| kind != head.kind);
        let Some(&lender) = lenders.first() else { break };
        let pairs = way(&description, head.kind).into_iter().zip(way(&other.description, lender));
        for ((own, _), (from, _)) in pairs.take_while(|((_, own), (_, from))| own == from) {
            for (name, tensor) in &mut network.tensors {
                let known = name.strip_prefix(&own).and_then(|rest| other.tensor(&format!("{from}{rest}")));
                if let Some(known) = known.filter(|known| known.shape == tensor.shape) {
                    tensor.data.clone_from(&known.data);
                }
            }
        }
    }
    Ok(())
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
    std::fs::create_dir_all(&folder).map_err(|source| TrainError::Io { path: folder.clone(), source })?;
    let temporary = folder.join("config.toml.tmp");
    std::fs::write(&temporary, config.to_toml()?)
        .and_then(|()| std::fs::rename(&temporary, &path))
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
) -> Result<Outcome, TrainError> {
    let source = Source::open(config)?;
    let network = first_network(config)?;
    let checkpoint = find_checkpoint(config, resume)?;
    let folder = config.folder();
    if let Some(checkpoint) = checkpoint.as_ref().filter(|checkpoint| checkpoint.state.data != source.hash())
    {
        return Err(TrainError::Config(format!(
            "the data has changed since step {} of the run `{}`",
            checkpoint.state.step,
            folder.display()
        )));
    }
    let state = checkpoint.as_ref().map_or_else(
        || State { seed: config.training.seed, data: source.hash().to_owned(), ..State::default() },
        |checkpoint| checkpoint.state.clone(),
    );
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
    let settings = OptimizerSettings { dropout_seed: config.training.seed, ..config.optimizer.clone() };
    let backend =
        |network: &Network| make_backend(&config.training, network, &objectives, &settings, config.threads());
    let mut own = backend(&network)?;
    let average = match &checkpoint {
        Some(checkpoint) => {
            own.restore(&checkpoint.network, &checkpoint.optimizer)?;
            checkpoint.average.clone()
        }
        None => {
            let decay = config.training.average;
            (decay > 0.0).then(|| Average::new(network.clone(), decay))
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
    progress.start(&Plan {
        name: config.run.name.clone(),
        backend: own.describe(),
        first_step: state.step,
        steps,
        batch: config.training.batch,
        positions,
    });
    let is_trained = |head: HeadKind| objectives.iter().any(|objective| objective.head == head);
    for head in network.description.heads.iter().filter(|head| !is_trained(head.kind)) {
        if !network.description.trunk.is_empty() {
            progress.note(&format!(
                "the {} head stays as it is on a trunk that changes: it will be worth less than before",
                head.kind.name()
            ));
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
    let mut trainer = Trainer {
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
    let seen = counts.map(|counts| counts.lock().unwrap_or_else(PoisonError::into_inner).to_string());
    if let Some(seen) = &seen {
        progress.note(seen);
    }
    let mut outcome = Outcome {
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
    trainer: &mut Trainer<'_>,
    held_out: &[(Objective, Vec<HeldOut>)],
    seen: Option<String>,
    progress: &mut dyn Progress,
) -> Result<(PathBuf, Vec<Measures>), TrainError> {
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
        calibrate::calibrate_head(&mut network.calibration, scorer.as_mut(), objective.head, &held_out)?;
        let sample = |source: &HeldOut| source.sample(QUANTISED_POSITIONS);
        judged.push((objective.head, held_out.iter().map(sample).collect()));
    }
    // Networks that cannot be computed in integers are as welcome; selectors never are.
    if !judged.is_empty() {
        match quantise(&mut network, &judged, config.threads()) {
            Ok(costs) => {
                let verdict = if network.int8_ranges.is_some() { "will be used" } else { "will not be used" };
                costs.iter().for_each(|cost| progress.note(&format!("int8 {verdict} unasked: {cost}")));
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

fn provenance(trainer: &Trainer<'_>, objective: &Objective, measures: &[Measures]) -> Provenance {
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
pub fn summary(measures: &Measures) -> String {
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
            line +=
                &format!("; {:.1} % in the {positions} positions that no training game holds", 100.0 * share);
        }
        for (head, positions, share) in &agreement.choices {
            line += &format!("; {} {:.1} % of {positions}", head.name(), 100.0 * share);
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_that_are_told_who_attacks_have_the_shapes_of_their_configurations() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for (config, shipped) in
            [("batch-first-attacks", "batch-first"), ("convchess-attacks", "convchess-attacks")]
        {
            let config = Config::load(&root.join(format!("configs/{config}.toml")), &[]).unwrap();
            let shipped = Network::load(&root.join(format!("networks/{shipped}.safetensors"))).unwrap();
            assert_eq!(first_network(&config).unwrap().description, shipped.description);
        }
    }

    #[test]
    fn a_network_can_start_from_the_layers_of_another() {
        let value = Network::random(Description::batch_first(&[HeadKind::Value]), 1).unwrap();
        let mut moves = Network::random(Description::batch_first(&[HeadKind::Moves]), 2).unwrap();
        let fresh = moves.clone();
        take_layers(&mut moves, &value).unwrap();
        assert!(moves.tensors["moves.0.branches.3.weight"] == value.tensors["value.0.branches.3.weight"]);
        assert!(moves.tensors["moves.8.weight"] == value.tensors["value.8.weight"]);
        // The last layers differ in shape.
        assert!(moves.tensors["moves.9.weight"] == fresh.tensors["moves.9.weight"]);

        let mut shared = Network::random(Description::batch_first_shared(), 3).unwrap();
        let both = crate::join(&value, &fresh, "both").unwrap();
        take_layers(&mut shared, &both).unwrap();
        assert!(shared.tensors["trunk.8.norm.mean"] == value.tensors["value.8.norm.mean"]);
        assert!(shared.tensors["trunk.1.weight"] == value.tensors["value.1.weight"]);
        assert!(shared.tensors["value.1.weight"] == value.tensors["value.10.weight"]);
        assert!(shared.tensors["moves.0.weight"].data.len() == 9 * 32 * 64);

        // What one has learned to see in fifteen planes, another does not see in twenty-one.
        let description = Description { encoding: Encoding::Attacks21, ..Description::batch_first_shared() };
        let mut told = Network::random(description, 3).unwrap();
        let before = told.clone();
        let error = take_layers(&mut told, &both).unwrap_err().to_string();
        assert!(error.contains("batch-first-15") && error.contains("attacks-21"), "{error}");
        assert!(told == before);
    }
}
