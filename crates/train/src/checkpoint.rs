//! Saved states of a run, from which training resumes exactly: one folder for each saved step,
//! either complete or absent.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use nets::{Network, Tensor};
use safetensors::{Dtype, SafeTensors, tensor::TensorView};
use serde::{Deserialize, Serialize};

use crate::{OptimizerState, TrainError, WeightAverage};

/// The small part of a checkpoint, as JSON.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunState {
    /// Completed steps; the loader resumes at this batch.
    pub step: u64,
    pub seed: u64,
    /// Hash of the training data.
    pub data: String,
    /// Steps of the optimizer.
    pub optimizer_steps: u64,
    /// Decay and number of steps of the average of the weights, if there is one.
    pub average: Option<(f32, u64)>,
    /// Training time so far, in seconds, over all resumptions.
    pub seconds: f64,
    /// Sums of loss and tau (NaN for a policy) over the steps since the last line of the journal,
    /// and the number of these steps.
    #[serde(deserialize_with = "sums")]
    pub pending: (f64, f64, u64),
    /// As `pending`: the sum of each head's loss, for several heads.
    #[serde(default)]
    pub pending_losses: Vec<f64>,
    /// The current [`Config::pace`](crate::Config::pace) of the run.
    #[serde(default)]
    pub pace: BTreeMap<String, String>,
    /// The changes of the pace, each with its step.
    #[serde(default)]
    pub changes: Vec<String>,
}

impl RunState {
    /// Sets the pace and records each setting that differs from the one before in `changes`.
    pub fn set_pace(&mut self, pace: BTreeMap<String, String>) {
        let before = std::mem::replace(&mut self.pace, pace);
        if before.is_empty() {
            return; // A new run.
        }
        let keys: BTreeSet<&String> = before.keys().chain(self.pace.keys()).collect();
        for key in keys {
            let value = |pace: &BTreeMap<String, String>| {
                pace.get(key).map_or_else(|| "unset".to_owned(), Clone::clone)
            };
            let (from, to) = (value(&before), value(&self.pace));
            if from != to {
                self.changes.push(format!("at step {}: {key} from {from} to {to}", self.step));
            }
        }
    }
}

/// JSON has no NaN, so the tau of a policy is written as null.
fn sums<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<(f64, f64, u64), D::Error> {
    let (loss, tau, steps) = <(f64, Option<f64>, u64)>::deserialize(deserializer)?;
    Ok((loss, tau.unwrap_or(f64::NAN), steps))
}

/// The complete state of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint {
    pub state: RunState,
    pub network: Network,
    pub optimizer: OptimizerState,
    pub average: Option<WeightAverage>,
}

fn io(path: &Path) -> impl FnOnce(std::io::Error) -> TrainError {
    let path = path.to_owned();
    move |source| TrainError::Io { path, source }
}

impl Checkpoint {
    /// Writes `checkpoints/step-…` under a temporary name, renames it, and removes all but the
    /// newest `keep`.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn save(&self, run: &Path, keep: usize) -> Result<PathBuf, TrainError> {
        let folder = run.join("checkpoints");
        let target = folder.join(format!("step-{:09}", self.state.step));
        let temporary = folder.join("saving.tmp");
        if temporary.exists() {
            std::fs::remove_dir_all(&temporary).map_err(io(&temporary))?;
        }
        std::fs::create_dir_all(&temporary).map_err(io(&temporary))?;
        self.network.save(&temporary.join("network.safetensors"))?;
        if let Some(average) = &self.average {
            average.network.save(&temporary.join("average.safetensors"))?;
        }
        let path = temporary.join("optimizer.safetensors");
        std::fs::write(&path, tensors_to_bytes(&self.optimizer.tensors)?).map_err(io(&path))?;
        let path = temporary.join("state.json");
        let text = serde_json::to_string_pretty(&self.state)
            .map_err(|error| TrainError::Config(error.to_string()))?;
        std::fs::write(&path, text).map_err(io(&path))?;
        // The files are synced before the rename, so that a crash leaves either this checkpoint
        // complete or the one before it.
        for entry in std::fs::read_dir(&temporary).map_err(io(&temporary))? {
            let path = entry.map_err(io(&temporary))?.path();
            // Windows syncs only what may be written.
            let file = std::fs::File::options().write(true).open(&path);
            file.and_then(|file| file.sync_all()).map_err(io(&path))?;
        }
        if target.exists() {
            std::fs::remove_dir_all(&target).map_err(io(&target))?;
        }
        std::fs::rename(&temporary, &target).map_err(io(&target))?;
        let all = Self::list(run)?;
        for old in all.iter().rev().skip(keep.max(1)) {
            std::fs::remove_dir_all(old).map_err(io(old))?;
        }
        Ok(target)
    }

    /// The complete checkpoints of a run, oldest first.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn list(run: &Path) -> Result<Vec<PathBuf>, TrainError> {
        let folder = run.join("checkpoints");
        if !folder.exists() {
            return Ok(Vec::new());
        }
        let mut found = Vec::new();
        for entry in std::fs::read_dir(&folder).map_err(io(&folder))? {
            let entry = entry.map_err(io(&folder))?;
            if entry.file_name().to_string_lossy().starts_with("step-") {
                found.push(entry.path());
            }
        }
        found.sort();
        Ok(found)
    }

    /// The newest checkpoint of a run; `None` without checkpoints.
    ///
    /// # Errors
    /// The checkpoint cannot be read.
    pub fn newest(run: &Path) -> Result<Option<Self>, TrainError> {
        let all = Self::list(run)?;
        let Some(newest) = all.last() else { return Ok(None) };
        let hint = |error| match all.len() {
            1 => error,
            _ => TrainError::Config(format!(
                "{error}; without the folder `{}` the run goes on from the checkpoint before it",
                newest.display()
            )),
        };
        Self::load(newest).map(Some).map_err(hint)
    }

    /// Reads one checkpoint folder.
    ///
    /// # Errors
    /// A file is missing or damaged.
    pub fn load(folder: &Path) -> Result<Self, TrainError> {
        let path = folder.join("state.json");
        let text = std::fs::read_to_string(&path).map_err(io(&path))?;
        let state: RunState = serde_json::from_str(&text).map_err(|error| {
            TrainError::Config(format!("`{}` is damaged: {error}", path.display()))
        })?;
        let network = Network::load(&folder.join("network.safetensors"))?;
        let average = match state.average {
            Some((decay, steps)) => Some(WeightAverage {
                decay,
                steps,
                network: Network::load(&folder.join("average.safetensors"))?,
            }),
            None => None,
        };
        let path = folder.join("optimizer.safetensors");
        let bytes = std::fs::read(&path).map_err(io(&path))?;
        let tensors = tensors_from_bytes(&bytes).map_err(|reason| {
            TrainError::Config(format!("`{}` is damaged: {reason}", path.display()))
        })?;
        let optimizer = OptimizerState { steps: state.optimizer_steps, tensors };
        Ok(Self { state, network, optimizer, average })
    }
}

fn tensors_to_bytes(tensors: &BTreeMap<String, Tensor>) -> Result<Vec<u8>, TrainError> {
    let bad = |error: safetensors::SafeTensorError| TrainError::Config(error.to_string());
    let bytes: Vec<(&String, &Tensor, Vec<u8>)> = tensors
        .iter()
        .map(|(name, tensor)| {
            (name, tensor, tensor.data.iter().flat_map(|value| value.to_le_bytes()).collect())
        })
        .collect();
    let mut views = Vec::with_capacity(bytes.len());
    for (name, tensor, bytes) in &bytes {
        views.push((
            name.as_str(),
            TensorView::new(Dtype::F32, tensor.shape.clone(), bytes).map_err(bad)?,
        ));
    }
    safetensors::serialize(views, None).map_err(bad)
}

fn tensors_from_bytes(bytes: &[u8]) -> Result<BTreeMap<String, Tensor>, String> {
    let file = SafeTensors::deserialize(bytes).map_err(|error| error.to_string())?;
    let mut tensors = BTreeMap::new();
    for (name, view) in file.tensors() {
        if view.dtype() != Dtype::F32 {
            return Err(format!("tensor `{name}` is {:?}", view.dtype()));
        }
        let values = view.data().chunks_exact(4);
        let data = values
            .map(|bytes| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
            .collect();
        tensors.insert(name, Tensor { shape: view.shape().to_vec(), data });
    }
    Ok(tensors)
}
