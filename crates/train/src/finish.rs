//! Finishes a run: the last validation, the calibration, and the export of the network.

use std::path::PathBuf;

use nets::{HeadKind, Network, Provenance};

use crate::{
    HeldOut, Objective, Progress, TrainError, TrainingLoop, ValidationMetrics, calibrate, machine,
    quantise, revision, summary,
};

/// Positions of each source whose legal moves are all ranked at the end of a move head's run.
const AGREEMENT_POSITIONS: usize = 2_000;

/// Positions of each source for the measurement of int8.
const QUANTISED_POSITIONS: usize = 10_000;

/// Validates on all held-out positions, calibrates each head, measures int8 and writes
/// `network.safetensors`. `streamed` describes a streamed file. Returns the network's path and the
/// metrics.
///
/// # Errors
/// A head cannot be calibrated, the device fails, or a file cannot be written.
pub(crate) fn finish(
    training_loop: &mut TrainingLoop<'_>,
    held_out: &[(Objective, Vec<HeldOut>)],
    streamed: Option<String>,
    progress: &mut dyn Progress,
) -> Result<(PathBuf, Vec<ValidationMetrics>), TrainError> {
    let config = training_loop.config;
    training_loop.settle_statistics()?;
    let measures =
        training_loop.validate(config.validation.final_positions, AGREEMENT_POSITIONS, true)?;
    progress.validation(training_loop.state.step, &measures);
    training_loop.journal.report(progress);
    let mut network = training_loop.network()?;
    network.provenance.clear();
    let mut calibrated = Vec::new();
    for (objective, held_out) in held_out {
        let keys = &mut provenance(training_loop, objective, &measures);
        network.provenance.append(keys);
        if objective.head.is_selector() {
            continue;
        }
        let mut scorer = (training_loop.scorer)(&network, objective.head)?;
        let sample = |source: &HeldOut| source.sample(config.validation.final_positions);
        let held_out: Vec<HeldOut> = held_out.iter().map(sample).collect();
        calibrate::calibrate_head(
            &mut network.calibration,
            scorer.as_mut(),
            objective.head,
            &held_out,
        )?;
        let sample = |source: &HeldOut| source.sample(QUANTISED_POSITIONS);
        calibrated.push((objective.head, held_out.iter().map(sample).collect()));
    }
    note_int8(&mut network, &calibrated, config.threads(), progress);
    if let Some(streamed) = streamed {
        network.provenance.insert("streamed".to_owned(), streamed);
    }
    network.name = config.run.name.clone();
    let path = training_loop.folder.join("network.safetensors");
    network.save(&path)?;
    progress.note(&format!("saved {}", path.display()));
    Ok((path, measures))
}

/// Measures int8 and reports whether it will be used. A network that cannot run in int8, or has a
/// selector, gets no ranges.
fn note_int8(
    network: &mut Network,
    calibrated: &[(HeadKind, Vec<HeldOut>)],
    threads: usize,
    progress: &mut dyn Progress,
) {
    if calibrated.is_empty() {
        return;
    }
    match quantise(network, calibrated, threads) {
        Ok(costs) => {
            let verdict =
                if network.int8_ranges.is_some() { "will be used" } else { "will not be used" };
            costs.iter().for_each(|cost| progress.note(&format!("int8 {verdict} unasked: {cost}")));
        }
        Err(error) => progress.note(&format!("int8 will not be used unasked: {error}")),
    }
}

/// The lines of origin about the training of one head.
fn provenance(
    training_loop: &TrainingLoop<'_>,
    objective: &Objective,
    measures: &[ValidationMetrics],
) -> Provenance {
    let (config, training) = (training_loop.config, &training_loop.config.training);
    let head = objective.head.name();
    let mut lines = Provenance::new();
    let mut add = |key: &str, value: String| lines.insert(format!("{head}: {key}"), value);
    add("run", config.run.name.clone());
    add("revision", revision());
    add("machine", machine());
    add("backend", training_loop.backend.describe());
    add("data hash", training_loop.state.data.clone());
    add("start", config.model.start.clone());
    if let Some(body) = &config.model.body {
        add("first layers from", body.display().to_string());
    }
    add("seed", training.seed.to_string());
    add("steps", format!("{} of {} positions", training_loop.state.step, training.batch));
    add("learning rate", format!("{}, {:?}", training.learning_rate, training.schedule));
    if !training_loop.state.changes.is_empty() {
        add("changed", training_loop.state.changes.join("; "));
    }
    add("average of weights", training.average.to_string());
    add("training positions", training_loop.positions.to_string());
    add("training minutes", format!("{:.0}", training_loop.state.seconds / 60.0));
    add("loss", format!("{:?}, weight {}", objective.loss, objective.weight));
    for source in measures.iter().filter(|source| source.head == Some(objective.head)) {
        add(&format!("validation {}", source.source), summary(source));
    }
    lines
}
