//! Grid search: trains every combination of a few settings, several runs at a time, and ranks them.

use std::sync::{
    Mutex,
    atomic::{AtomicBool, Ordering},
};

use nets::HeadKind;

use crate::{
    Config, GridSection, NoProgress, Progress, RunOutcome, RunSection, TrainError,
    parts::load_finished, train,
};

/// A combination of settings and the final validation of its network.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    pub head: HeadKind,
    pub learning_rate: f32,
    pub l2: f32,
    pub weight_scale: f32,
    /// Cross entropy or ordinal loss on the held-out positions of all sources; NaN for a run that
    /// diverged.
    pub loss: f64,
    /// For a policy or a selector: share of the held-out positions whose played move or target
    /// square has the highest output.
    pub accuracy: Option<f64>,
}

/// The values of a setting: those listed in the grid, or its own.
fn values(listed: &[f32], own: f32) -> Vec<f32> {
    if listed.is_empty() { vec![own] } else { listed.to_vec() }
}

/// The configurations of all runs.
fn combinations(config: &Config) -> Result<Vec<Config>, TrainError> {
    let grid = config.grid.clone().unwrap_or_default();
    let runs = match config.parts() {
        parts if parts.is_empty() => vec![config.clone()],
        parts => parts,
    };
    let mut all = Vec::new();
    for run in runs {
        for &learning_rate in &values(&grid.learning_rate, run.training.learning_rate) {
            for &l2 in &values(&grid.l2, run.optimizer.l2) {
                for &scale in &values(&grid.weight_scale, run.model.weight_scale.unwrap_or(1.0)) {
                    let mut one = run.clone();
                    let name = format!("grid-rate-{learning_rate}-l2-{l2}-scale-{scale}");
                    one.run = RunSection { name, directory: run.folder() };
                    (one.grid, one.training.threads) = (None, 1);
                    (one.training.learning_rate, one.optimizer.l2) = (learning_rate, l2);
                    if !grid.weight_scale.is_empty() {
                        one.model.weight_scale = Some(scale);
                    }
                    // Parsing the text applies the checks of a file.
                    all.push(Config::parse(&one.to_toml()?, &[])?);
                }
            }
        }
    }
    Ok(all)
}

/// Trains every combination of the grid, `grid.jobs` at a time, and ranks them; the first of each
/// head is the best. With `resume` load_finished runs are kept and others are resumed.
///
/// # Errors
/// A setting is impossible, a run exists already, data or files cannot be used, or it was
/// interrupted. A run that diverges is not an error; it is ranked last.
pub fn search_grid(
    config: &Config,
    resume: bool,
    stop: &AtomicBool,
    progress: &mut (dyn Progress + Send),
) -> Result<Vec<Trial>, TrainError> {
    let runs = combinations(config)?;
    let jobs = match config.grid.as_ref().map_or(0, |grid: &GridSection| grid.jobs) {
        0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        jobs => jobs,
    };
    let queue = Mutex::new(runs.iter());
    let results = Mutex::new((Vec::new(), None, progress));
    let work = || {
        while let Some(run) = queue.lock().ok().and_then(|mut queue| queue.next()) {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            let trial = trial(run, resume, stop);
            let Ok(mut results) = results.lock() else { return };
            match trial {
                Ok(Some(trial)) => {
                    let done = results.0.len() + 1;
                    results.2.note(&format!("{done} of {}: {}", runs.len(), trial.describe()));
                    results.0.push(trial);
                }
                Ok(None) => return,
                Err(error) => {
                    results.1.get_or_insert(error);
                    // Empties the queue, so that no thread starts another run.
                    if let Ok(mut queue) = queue.lock() {
                        queue.by_ref().for_each(drop);
                    }
                    return;
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..jobs.min(runs.len()) {
            scope.spawn(work);
        }
        work();
    });
    let (mut trials, error, _) =
        results.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(error) = error {
        return Err(error);
    }
    if trials.len() < runs.len() {
        return Err(TrainError::Interrupted { runs: trials.len(), of: runs.len() });
    }
    trials.sort_by(|one, other| {
        let rank = |trial: &Trial| if trial.loss.is_nan() { f64::INFINITY } else { trial.loss };
        one.head.cmp(&other.head).then(rank(one).total_cmp(&rank(other)))
    });
    let path = config.folder().join("grid.tsv");
    let text: String =
        std::iter::once("head\tlearning_rate\tl2\tweight_scale\tloss\taccuracy\n".to_owned())
            .chain(trials.iter().map(Trial::row))
            .collect();
    board::write_whole(&path, text.as_bytes()).map_err(|source| TrainError::Io { path, source })?;
    Ok(trials)
}

/// Trains one combination; `None` when it was interrupted.
fn trial(run: &Config, resume: bool, stop: &AtomicBool) -> Result<Option<Trial>, TrainError> {
    let head = run.model.heads.first().copied().unwrap_or(HeadKind::Value);
    let result = match load_finished(run)? {
        Some(outcome) if resume => Ok(outcome),
        _ => train(run, resume && run.folder().exists(), stop, &mut NoProgress),
    };
    let measures = match result {
        Ok(RunOutcome { network: None, .. }) => return Ok(None),
        Ok(outcome) => outcome.measures,
        Err(TrainError::Diverged { .. }) => Vec::new(),
        Err(error) => return Err(error),
    };
    let (mut loss, mut accuracy, mut positions) = (0.0, 0.0, 0);
    for source in measures.iter().filter(|source| source.head == Some(head)) {
        let agreement = source.agreement.as_ref();
        let count = agreement.map_or(source.ranking.positions, |agreement| agreement.positions);
        loss += source.loss * count as f64;
        accuracy += agreement.map_or(f64::NAN, |agreement| agreement.top_1) * count as f64;
        positions += count;
    }
    Ok(Some(Trial {
        head,
        learning_rate: run.training.learning_rate,
        l2: run.optimizer.l2,
        weight_scale: run.model.weight_scale.unwrap_or(1.0),
        loss: if positions > 0 { loss / positions as f64 } else { f64::NAN },
        accuracy: Some(accuracy / positions as f64).filter(|share| share.is_finite()),
    }))
}

impl Trial {
    /// The trial in one line.
    #[must_use]
    pub fn describe(&self) -> String {
        let Self { learning_rate, l2, weight_scale, .. } = self;
        let accuracy =
            self.accuracy.map_or(String::new(), |share| format!(", {:.2} %", 100.0 * share));
        let loss = if self.loss.is_nan() {
            "diverged".to_owned()
        } else {
            format!("loss {:.4}", self.loss)
        };
        format!(
            "{}: learning rate {learning_rate}, l2 {l2}, weight scale {weight_scale}: {loss}{accuracy}",
            self.head.name()
        )
    }

    /// The trial as a row of `grid.tsv`.
    fn row(&self) -> String {
        let Self { head, learning_rate, l2, weight_scale, loss, accuracy } = self;
        let accuracy = accuracy.map_or(String::new(), |share| format!("{share:.4}"));
        format!("{}\t{learning_rate}\t{l2}\t{weight_scale}\t{loss:.5}\t{accuracy}\n", head.name())
    }
}
