//! The training loop: feeds batches to a backend, writes the journal, and runs validations and
//! checkpoints when they are due.

use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    time::Instant,
};

use nets::{HeadKind, Network};

use crate::{
    Backend, Checkpoint, Config, Event, Examples, HeldOut, Journal, Loss, Objective,
    OptimizerState, Progress, RunState, Scorer, StepReport, TrainError, ValidationMetrics,
    WeightAverage, metrics::tau_a, validate,
};

/// Makes a scorer for a head of a network: validation scores the averaged weights while the backend
/// keeps the current ones.
pub type MakeScorer<'a> = dyn Fn(&Network, HeadKind) -> Result<Box<dyn Scorer>, TrainError> + 'a;

/// The parts of a training run. `batches` begins at the batch of the state's step.
pub struct TrainingLoop<'a> {
    pub config: &'a Config,
    /// Length of the run in steps.
    pub steps: u64,
    /// Training positions of one epoch.
    pub positions: u64,
    pub folder: &'a Path,
    pub backend: Box<dyn Backend>,
    pub batches: Box<dyn Iterator<Item = Result<Examples, TrainError>> + 'a>,
    pub average: Option<WeightAverage>,
    /// The held-out sources of each trained head.
    pub held_out: &'a [(Objective, Vec<HeldOut>)],
    pub scorer: &'a MakeScorer<'a>,
    pub state: RunState,
    /// The step of the last checkpoint of this run, and its folder.
    pub saved: Option<(u64, PathBuf)>,
    pub journal: Journal,
    /// Set to end the run after the current step.
    pub stop: &'a AtomicBool,
}

impl std::fmt::Debug for TrainingLoop<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            formatter,
            "Trainer(step {} of {}, {})",
            self.state.step,
            self.steps,
            self.backend.describe()
        )
    }
}

/// Why the loop ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// All steps are completed.
    Finished,
    /// `training.max_minutes` have elapsed.
    OutOfTime,
    /// The run was asked to stop; it can be resumed.
    Interrupted,
}

impl Ending {
    /// The reason as written to the journal.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::Finished => "finished",
            Self::OutOfTime => "out of time",
            Self::Interrupted => "interrupted",
        }
    }
}

/// Positions per second, averaged over about the last 30 steps.
#[derive(Debug, Default)]
struct Throughput {
    mean: f64,
    steps: u32,
}

impl Throughput {
    fn update(&mut self, positions: usize, seconds: f64) -> f64 {
        self.steps = (self.steps + 1).min(30);
        let speed = positions as f64 / seconds.max(1e-9);
        self.mean += (speed - self.mean) / f64::from(self.steps);
        self.mean
    }
}

impl TrainingLoop<'_> {
    /// Trains to the end of the run, its time limit or an interruption, then saves a checkpoint.
    ///
    /// # Errors
    /// Loss, outputs or weights are no longer finite, data or device fail, or a file cannot be
    /// written.
    pub fn run(&mut self, progress: &mut dyn Progress) -> Result<Ending, TrainError> {
        let ending = self.run_to_the_end(progress);
        self.journal.report(progress);
        ending
    }

    fn run_to_the_end(&mut self, progress: &mut dyn Progress) -> Result<Ending, TrainError> {
        let (started, before) = (Instant::now(), self.state.seconds);
        let limit =
            self.config.training.max_minutes.map_or(f64::INFINITY, |minutes| minutes * 60.0);
        let mut speed = Throughput::default();
        let ending = loop {
            self.state.seconds = before + started.elapsed().as_secs_f64();
            if self.state.step >= self.steps {
                break Ending::Finished;
            }
            if self.stop.load(Ordering::Relaxed) {
                break Ending::Interrupted;
            }
            if self.state.seconds >= limit {
                break Ending::OutOfTime;
            }
            let report = self.step(&mut speed)?;
            self.state.seconds = before + started.elapsed().as_secs_f64();
            progress.step(&report);
            self.log(&report)?;
            self.journal.report(progress);
            let due = |every: u64| every > 0 && self.state.step.is_multiple_of(every);
            let (validation_due, checkpoint_due) =
                (due(self.config.validation.every), due(self.config.checkpoints.every));
            if validation_due && self.state.step < self.steps {
                let sources = self.validate(self.config.validation.positions, 0, false)?;
                progress.validation(self.state.step, &sources);
            }
            if checkpoint_due && self.state.step < self.steps {
                self.state.seconds = before + started.elapsed().as_secs_f64();
                self.save()?;
            }
        };
        let path = self.save()?;
        self.journal.write(&Event::End {
            step: self.state.step,
            reason: ending.reason().to_owned(),
            seconds: self.state.seconds,
        })?;
        progress.note(&format!(
            "{} at step {}; saved {}",
            ending.reason(),
            self.state.step,
            path.display()
        ));
        Ok(ending)
    }

    /// The learning rate of the next step.
    fn learning_rate(&self) -> f32 {
        let training = &self.config.training;
        let epoch = self.positions as f64 / training.batch as f64;
        training.learning_rate * training.schedule.factor(self.state.step, self.steps, epoch)
    }

    /// Trains on the next batch and updates the sums for the journal.
    fn step(&mut self, speed: &mut Throughput) -> Result<StepReport, TrainError> {
        let started = Instant::now();
        let ended = || TrainError::Config("the training data ended".to_owned());
        let batch = self.batches.next().ok_or_else(ended)??;
        let learning_rate = self.learning_rate();
        let result = self.backend.step(&batch, learning_rate)?;
        if !result.loss.is_finite() {
            return Err(self.diverged(format!("the loss is {}", result.loss)));
        }
        if result.logits.iter().flatten().any(|logit| !logit.is_finite()) {
            return Err(self.diverged("outputs are no longer numbers".to_owned()));
        }
        if let Some(average) = &mut self.average {
            self.backend.mix_into(average)?;
        }
        self.state.step += 1;
        let tau = self.tau(&batch, &result.logits);
        self.state.pending.0 += f64::from(result.loss);
        self.state.pending.1 += tau;
        self.state.pending.2 += 1;
        if result.losses.len() > 1 {
            self.state.pending_losses.resize(result.losses.len(), 0.0);
            let sums = self.state.pending_losses.iter_mut().zip(&result.losses);
            sums.for_each(|(sum, loss)| *sum += f64::from(*loss));
        }
        let positions_per_second =
            speed.update(batch.squares.len(), started.elapsed().as_secs_f64());
        let left = (self.steps - self.state.step) * self.config.training.batch as u64;
        Ok(StepReport {
            step: self.state.step,
            steps: self.steps,
            epoch: self.epoch(),
            loss: result.loss,
            losses: result.losses,
            tau,
            learning_rate,
            positions_per_second,
            seconds_left: left as f64 / positions_per_second,
        })
    }

    /// Kendall's tau-a of a batch for the first head; NaN for cross entropy.
    fn tau(&self, batch: &Examples, logits: &[Vec<f32>]) -> f64 {
        match (self.held_out, logits) {
            ([(objective, _), ..], [logits, ..]) if objective.loss != Loss::CrossEntropy => {
                let labels = batch.labels(objective.head).iter().map(|&label| f64::from(label));
                let logits: Vec<f64> = logits.iter().map(|&logit| f64::from(logit)).collect();
                tau_a(&labels.collect::<Vec<_>>(), &logits)
            }
            _ => f64::NAN,
        }
    }

    fn samples(&self) -> u64 {
        self.state.step * self.config.training.batch as u64
    }

    fn epoch(&self) -> f64 {
        self.samples() as f64 / self.positions.max(1) as f64
    }

    /// Writes a line of the journal every `log_every` steps.
    fn log(&mut self, report: &StepReport) -> Result<(), TrainError> {
        if !self.state.step.is_multiple_of(self.config.training.log_every)
            && self.state.step != self.steps
        {
            return Ok(());
        }
        let (loss, tau, count) = std::mem::take(&mut self.state.pending);
        let losses = std::mem::take(&mut self.state.pending_losses);
        self.journal.write(&Event::Train {
            step: self.state.step,
            samples: self.samples(),
            epoch: self.epoch(),
            loss: loss / count.max(1) as f64,
            losses: losses.iter().map(|loss| loss / count.max(1) as f64).collect(),
            tau: tau / count.max(1) as f64,
            learning_rate: report.learning_rate,
            positions_per_second: report.positions_per_second.round(),
            seconds: (self.state.seconds * 10.0).round() / 10.0,
        })
    }

    /// The averaged weights, or the current ones without averaging.
    ///
    /// # Errors
    /// The device failed.
    pub fn network(&mut self) -> Result<Network, TrainError> {
        match &mut self.average {
            Some(average) => {
                self.backend.fetch_average(average)?;
                Ok(average.network.clone())
            }
            None => self.backend.network(),
        }
    }

    /// Computes the running statistics of the network that the run leaves anew: those of the run are
    /// of weights that still moved, and of other weights than the average. A tenth of the run's
    /// steps, 8 to 100, at learning rate 0; afterwards the run can't go on.
    ///
    /// # Errors
    /// Data or device fail.
    pub fn settle_statistics(&mut self) -> Result<(), TrainError> {
        let network = self.network()?;
        self.backend.restore(&network, &OptimizerState::default())?;
        self.average = None;
        for _ in 0..(self.steps / 10).clamp(8, 100) {
            // Data that ends early has been seen whole.
            let Some(batch) = self.batches.next() else { break };
            self.backend.step(&batch?, 0.0)?;
        }
        Ok(())
    }

    /// Validates on at most `positions` of each source (0: all) and writes the result to the
    /// journal. `agreement` is the number of positions of each source whose legal moves are all
    /// ranked; `last` marks the validation at the end of the run.
    ///
    /// # Errors
    /// The device failed or the journal cannot be written.
    pub fn validate(
        &mut self,
        positions: usize,
        agreement: usize,
        last: bool,
    ) -> Result<Vec<ValidationMetrics>, TrainError> {
        let network = self.network()?;
        let mut sources = Vec::new();
        for (objective, held_out) in self.held_out {
            let mut scorer = (self.scorer)(&network, objective.head)?;
            let scores = network.calibration.move_scores;
            let held_out: Vec<HeldOut> =
                held_out.iter().map(|source| source.sample(positions)).collect();
            sources.extend(validate::validate(
                scorer.as_mut(),
                objective.head,
                scores,
                &held_out,
                agreement,
            )?);
        }
        self.journal.write(&Event::Validation {
            step: self.state.step,
            samples: self.samples(),
            averaged: self.config.training.average > 0.0,
            last,
            sources: sources.clone(),
        })?;
        Ok(sources)
    }

    /// Ends the journal with the divergence and returns the error.
    fn diverged(&mut self, what: String) -> TrainError {
        let (step, reason) = (self.state.step, format!("diverged: {what}"));
        match self.journal.write(&Event::End { step, reason, seconds: self.state.seconds }) {
            Ok(()) => TrainError::Diverged { step, what },
            Err(error) => error,
        }
    }

    /// Saves a checkpoint of this step unless it exists. Weights that are not finite are not saved.
    fn save(&mut self) -> Result<PathBuf, TrainError> {
        if let Some((step, path)) = &self.saved
            && *step == self.state.step
        {
            return Ok(path.clone());
        }
        let network = self.backend.network()?;
        if network.tensors.values().flat_map(|tensor| &tensor.data).any(|value| !value.is_finite())
        {
            return Err(self.diverged("weights are no longer numbers".to_owned()));
        }
        let optimizer = self.backend.optimizer()?;
        self.state.optimizer_steps = optimizer.steps;
        if let Some(average) = &mut self.average {
            self.backend.fetch_average(average)?;
        }
        self.state.average = self.average.as_ref().map(|average| (average.decay, average.steps));
        let checkpoint = Checkpoint {
            state: self.state.clone(),
            network,
            optimizer,
            average: self.average.clone(),
        };
        let path = checkpoint.save(self.folder, self.config.checkpoints.keep)?;
        self.saved = Some((self.state.step, path.clone()));
        Ok(path)
    }
}
