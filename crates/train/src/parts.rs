//! Trains selector heads: one run for each head, and a network that joins them at the end.

use std::sync::atomic::AtomicBool;

use nets::{HeadKind, Network};

use crate::{
    Config, Ending, Event, Progress, RunOutcome, TrainError, ValidationMetrics,
    first_network::first_network,
    join_heads, read_journal, report,
    run::{check_folder, train, write_config},
};

/// Trains a configuration: one run, or one for each selector head in a subfolder, whose networks
/// are then joined in the run folder. With `resume` load_finished runs are kept.
///
/// # Errors
/// As [`train`].
pub fn train_all(
    config: &Config,
    resume: bool,
    stop: &AtomicBool,
    progress: &mut dyn Progress,
) -> Result<RunOutcome, TrainError> {
    let parts = config.parts();
    if parts.is_empty() {
        return train(config, resume, stop, progress);
    }
    check_folder(config, resume)?;
    let heads = &config.model.heads;
    let join = |networks: &[Network]| {
        let pairs: Vec<(&Network, HeadKind)> = networks.iter().zip(heads.iter().copied()).collect();
        join_heads(&pairs, &config.run.name)
    };
    if !resume {
        // Networks that cannot be joined at the end are refused before training.
        let first = parts.iter().map(first_network).collect::<Result<Vec<_>, _>>()?;
        if first.iter().any(|network| !network.description.trunk.is_empty()) {
            return Err(TrainError::Config(
                "selectors are trained one after the other and cannot share a trunk".to_owned(),
            ));
        }
        join(&first)?;
    }
    let folder = config.folder();
    let mut outcome = RunOutcome {
        ending: Ending::Finished,
        step: 0,
        folder,
        network: None,
        measures: Vec::new(),
    };
    let mut networks = Vec::new();
    for part in &parts {
        let done = match load_finished(part)? {
            Some(done) if resume => done,
            _ => train(part, resume && part.folder().exists(), stop, progress)?,
        };
        if networks.is_empty() {
            // Written after the first run was accepted, so that a refused run leaves no files.
            write_config(config)?;
        }
        outcome.step += done.step;
        outcome.measures.extend(done.measures);
        let Some(network) = done.network else {
            outcome.ending = done.ending;
            return Ok(outcome);
        };
        networks.push(Network::load(&network)?);
    }
    let path = outcome.folder.join("network.safetensors");
    join(&networks)?.save(&path)?;
    progress.note(&format!("saved {}", path.display()));
    let folders: Vec<_> = parts.iter().map(|part| (part.run.name.clone(), part.folder())).collect();
    report::write_group(&outcome.folder, &folders)?;
    outcome.network = Some(path);
    Ok(outcome)
}

/// The result of a finished run; `None` if it is not load_finished.
pub(crate) fn load_finished(config: &Config) -> Result<Option<RunOutcome>, TrainError> {
    let folder = config.folder();
    let network = folder.join("network.safetensors");
    if !network.exists() {
        return Ok(None);
    }
    let saved = Config::load(&folder.join("config.toml"), &[])?;
    if let Some(setting) = config.conflict(&saved) {
        return Err(TrainError::Config(format!(
            "`{setting}` differs from what the run `{}` was made with",
            folder.display()
        )));
    }
    let mut last: Option<(u64, Vec<ValidationMetrics>)> = None;
    for event in read_journal(&folder)? {
        if let Event::Validation { step, last: true, sources, .. } = event {
            last = Some((step, sources));
        }
    }
    Ok(last.map(|(step, measures)| RunOutcome {
        ending: Ending::Finished,
        step,
        folder,
        network: Some(network),
        measures,
    }))
}
