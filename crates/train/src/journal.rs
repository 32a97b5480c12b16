//! `metrics.jsonl`: what happened in a run, one JSON object a line. The report is drawn from it.

use std::{
    fs::{File, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{TrainError, ValidationMetrics};

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Event {
    /// The run began or was taken up again.
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
        /// Each head's part of the loss, before its weight, where there are several.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        losses: Vec<f64>,
        /// Kendall's tau-a of the batches, for the first head; none for a policy.
        #[serde(deserialize_with = "crate::validation_metrics::number_or_nan")]
        tau: f64,
        learning_rate: f32,
        positions_per_second: f64,
        /// Training time so far, over resumptions.
        seconds: f64,
    },
    Validation {
        step: u64,
        samples: u64,
        /// Are these the averaged weights?
        averaged: bool,
        /// Is this the one at the end of the run?
        last: bool,
        sources: Vec<ValidationMetrics>,
    },
    /// The run ended or was left.
    End { step: u64, reason: String, seconds: f64 },
}

impl Event {
    /// The step it belongs to.
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

/// The open file.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
}

impl Journal {
    /// Opens the journal of a run folder at `step`: lines of later steps, written before an
    /// interruption and about to be written again, are dropped.
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
        Ok(Self { path, file })
    }

    /// Adds a line.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&mut self, event: &Event) -> Result<(), TrainError> {
        let line = line(event)?;
        self.file
            .write_all(line.as_bytes())
            .map_err(|source| TrainError::Io { path: self.path.clone(), source })
    }
}

fn line(event: &Event) -> Result<String, TrainError> {
    let mut line =
        serde_json::to_string(event).map_err(|error| TrainError::Config(error.to_string()))?;
    line.push('\n');
    Ok(line)
}

/// All lines of a run folder's journal. A line cut short by a crash is left out.
///
/// # Errors
/// The file cannot be read.
pub fn read(folder: &Path) -> Result<Vec<Event>, TrainError> {
    let path = folder.join("metrics.jsonl");
    let text = std::fs::read_to_string(&path).map_err(|source| TrainError::Io { path, source })?;
    Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}
