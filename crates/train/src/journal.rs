//! The journal of a run, `metrics.jsonl`: one JSON object on each line. The report is made from it.

use std::{
    fs::{File, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{Progress, TrainError, ValidationMetrics};

/// One line of the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Event {
    /// The run started or was resumed.
    Start {
        step: u64,
        steps: u64,
        /// Training positions of one epoch.
        positions: u64,
        backend: String,
        machine: String,
        revision: String,
        data: String,
        seed: u64,
    },
    /// Means over the steps since the last such line.
    Train {
        step: u64,
        samples: u64,
        epoch: f64,
        loss: f64,
        /// Each head's loss, before its weight, for several heads.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        losses: Vec<f64>,
        /// Kendall's tau-a of the batches, for the first head; null (NaN) for a policy.
        #[serde(deserialize_with = "crate::validation_metrics::number_or_nan")]
        tau: f64,
        learning_rate: f32,
        positions_per_second: f64,
        /// Training time so far over all resumptions.
        seconds: f64,
    },
    /// A validation of the network.
    Validation {
        step: u64,
        samples: u64,
        /// True when the averaged weights were validated.
        averaged: bool,
        /// True for the validation at the end of the run.
        last: bool,
        sources: Vec<ValidationMetrics>,
    },
    /// The run ended or was interrupted.
    End { step: u64, reason: String, seconds: f64 },
}

impl Event {
    /// The step of the event.
    #[must_use]
    pub fn step(&self) -> u64 {
        match self {
            Self::Start { step, .. }
            | Self::Train { step, .. }
            | Self::Validation { step, .. }
            | Self::End { step, .. } => *step,
        }
    }
}

/// The journal file, open for appending.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    /// Written and not reported yet.
    unreported: Vec<Event>,
}

impl Journal {
    /// Opens the journal of a run folder at `step`. Lines of later steps, which a resumed run
    /// writes again, are dropped.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn open(folder: &Path, step: u64) -> Result<Self, TrainError> {
        let path = folder.join("metrics.jsonl");
        let io = |source| TrainError::Io { path: path.clone(), source };
        if path.exists() {
            let kept: Vec<Event> = read(folder)?
                .into_iter()
                .filter(|event| step > 0 && event.step() <= step)
                .collect();
            let mut text = String::new();
            for event in kept {
                text.push_str(&line(&event)?);
            }
            board::write_whole(&path, text.as_bytes()).map_err(io)?;
        }
        let file = OpenOptions::new().create(true).append(true).open(&path).map_err(io)?;
        Ok(Self { path, file, unreported: Vec::new() })
    }

    /// Appends an event.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&mut self, event: &Event) -> Result<(), TrainError> {
        let line = line(event)?;
        self.file
            .write_all(line.as_bytes())
            .map_err(|source| TrainError::Io { path: self.path.clone(), source })?;
        self.unreported.push(event.clone());
        Ok(())
    }

    /// Reports the lines written since the last call.
    pub fn report(&mut self, progress: &mut dyn Progress) {
        self.unreported.drain(..).for_each(|event| progress.event(&event));
    }
}

fn line(event: &Event) -> Result<String, TrainError> {
    let mut line =
        serde_json::to_string(event).map_err(|error| TrainError::Config(error.to_string()))?;
    line.push('\n');
    Ok(line)
}

/// Reads all events of a run folder's journal. Unreadable lines, such as one cut short by a crash,
/// are skipped.
///
/// # Errors
/// The file cannot be read.
pub fn read(folder: &Path) -> Result<Vec<Event>, TrainError> {
    let path = folder.join("metrics.jsonl");
    let text = std::fs::read_to_string(&path).map_err(|source| TrainError::Io { path, source })?;
    Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}
