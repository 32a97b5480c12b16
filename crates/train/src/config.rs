//! The settings of a training run: a TOML file, changed by `key=value` overrides, checked and saved
//! with the run.

mod check;
mod sections;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use nets::HeadKind;
pub use sections::{
    BackendKind, CheckpointSection, DataSection, GridSection, LossSection, ModelSection,
    RunSection, TrainingSection, ValidationSection,
};
use serde::{Deserialize, Serialize};

use crate::{Loss, Objective, OptimizerSettings, TrainError};

/// All settings of a run. Unknown keys are refused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    pub run: RunSection,
    pub data: DataSection,
    pub model: ModelSection,
    #[serde(default)]
    pub loss: LossSection,
    pub training: TrainingSection,
    #[serde(default)]
    pub optimizer: OptimizerSettings,
    #[serde(default)]
    pub validation: ValidationSection,
    #[serde(default)]
    pub checkpoints: CheckpointSection,
    /// The values that `train --grid` tries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grid: Option<GridSection>,
}

/// Names of architectures in [`ModelSection::start`] that have settings of their own.
pub(crate) const RESIDUAL: &str = "batch-first-residual";
pub(crate) const COCKFISH: &str = "cockfish";
pub(crate) const CONVCHESS: &str = "convchess";

impl Config {
    /// Reads a configuration file and applies overrides such as `training.batch=512`.
    ///
    /// # Errors
    /// The file cannot be read, is not TOML, has an unknown or missing key, or a setting is
    /// impossible.
    pub fn load(path: &Path, overrides: &[String]) -> Result<Self, TrainError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| TrainError::Io { path: path.to_owned(), source })?;
        Self::parse(&text, overrides)
            .map_err(|error| TrainError::Config(format!("{}: {error}", path.display())))
    }

    /// As [`Config::load`], from text.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn parse(text: &str, overrides: &[String]) -> Result<Self, TrainError> {
        let bad = |reason: String| TrainError::Config(reason);
        let mut table: toml::Table =
            toml::from_str(text).map_err(|error| bad(one_line(&error.to_string())))?;
        for change in overrides {
            apply(&mut table, change).map_err(bad)?;
        }
        let config: Self = table.try_into().map_err(|error| bad(one_line(&error.to_string())))?;
        config.check().map_err(bad)?;
        Ok(config)
    }

    /// The configuration as TOML text.
    ///
    /// # Errors
    /// Never for a configuration that was read.
    pub fn to_toml(&self) -> Result<String, TrainError> {
        toml::to_string(self).map_err(|error| TrainError::Config(error.to_string()))
    }

    /// The heads to train, with their losses.
    #[must_use]
    pub fn objectives(&self) -> Vec<Objective> {
        let objective = |&head: &HeadKind| {
            let (loss, weight) = match head {
                HeadKind::Value => (self.loss.value, self.loss.value_weight),
                _ if head.is_selector() => (Loss::CrossEntropy, 1.0),
                _ => (self.loss.moves, self.loss.moves_weight),
            };
            Objective { head, loss, weight }
        };
        self.model.heads.iter().map(objective).collect()
    }

    /// The runs of a configuration with several selector heads, one for each head. Empty when one
    /// run trains all heads.
    #[must_use]
    pub fn parts(&self) -> Vec<Self> {
        let heads = &self.model.heads;
        if heads.len() < 2 || !heads.iter().all(|head| head.is_selector()) {
            return Vec::new();
        }
        let part = |&head: &HeadKind| {
            let mut part = self.clone();
            part.run = RunSection { name: head.name().to_owned(), directory: self.folder() };
            part.model.heads = vec![head];
            part
        };
        heads.iter().map(part).collect()
    }

    /// The run folder: `run.directory/run.name`.
    #[must_use]
    pub fn folder(&self) -> PathBuf {
        self.run.directory.join(&self.run.name)
    }

    /// Length of the run in steps, for a training set of `positions`.
    #[must_use]
    pub fn steps(&self, positions: u64) -> u64 {
        let batch = self.training.batch as u64;
        let steps = match (self.training.steps, self.training.samples, self.training.epochs) {
            (Some(steps), _, _) => steps,
            (_, Some(samples), _) => samples / batch,
            (_, _, epochs) => {
                (epochs.unwrap_or(1.0) * positions as f64 / batch as f64).round() as u64
            }
        };
        steps.max(1)
    }

    /// Worker threads: the setting, or the number of cores.
    #[must_use]
    pub fn threads(&self) -> usize {
        match self.training.threads {
            0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            threads => threads,
        }
    }

    /// The training settings that affect the result and that a resumed run may still change, such
    /// as the learning rate and the length. Names and values as in the file.
    ///
    /// # Errors
    /// As [`Config::to_toml`].
    pub fn pace(&self) -> Result<BTreeMap<String, String>, TrainError> {
        // Converting through text keeps numbers as short as they were written.
        let table: toml::Table = toml::from_str(&self.to_toml()?)
            .map_err(|error| TrainError::Config(error.to_string()))?;
        let keys = [
            "learning_rate",
            "schedule",
            "steps",
            "samples",
            "epochs",
            "max_minutes",
            "mixed_precision",
        ];
        let value = |key: &&str| table.get("training")?.get(*key).map(ToString::to_string);
        let set = keys.iter().filter_map(|key| Some((format!("training.{key}"), value(key)?)));
        Ok(set.collect())
    }

    /// The first setting that differs and that a resumed run must not change.
    #[must_use]
    pub fn conflict(&self, saved: &Self) -> Option<&'static str> {
        let (ours, theirs) = (&self.training, &saved.training);
        [
            (
                "data",
                DataSection {
                    directory: saved.data.directory.clone(),
                    stream: saved.data.stream.clone(),
                    ..self.data.clone()
                } == saved.data,
            ),
            ("model", self.model == saved.model),
            ("loss", self.loss == saved.loss),
            ("optimizer", self.optimizer == saved.optimizer),
            ("training.backend", ours.backend == theirs.backend),
            ("training.seed", ours.seed == theirs.seed),
            ("training.batch", ours.batch == theirs.batch),
            ("training.average", ours.average == theirs.average),
        ]
        .into_iter()
        .find_map(|(name, same)| (!same).then_some(name))
    }
}

/// Sets one dotted key; the value is read as TOML, or as text where it is not TOML.
fn apply(table: &mut toml::Table, change: &str) -> Result<(), String> {
    let hint =
        || format!("`{change}` is not a setting; write key=value, for example training.batch=512");
    let (key, value) = change.split_once('=').ok_or_else(hint)?;
    let value = toml::from_str::<toml::Table>(&format!("value = {value}"))
        .ok()
        .and_then(|mut parsed| parsed.remove("value"))
        .unwrap_or_else(|| toml::Value::String(value.to_owned()));
    let mut parts: Vec<&str> = key.trim().split('.').collect();
    let last = parts.pop().filter(|last| !last.is_empty()).ok_or_else(hint)?;
    let mut table = table;
    for part in parts {
        table = table
            .entry(part)
            .or_insert_with(|| toml::Value::Table(toml::Table::new()))
            .as_table_mut()
            .ok_or_else(hint)?;
    }
    // A new length replaces one given in another unit.
    let lengths = ["steps", "samples", "epochs"];
    if key.trim().starts_with("training.") && lengths.contains(&last) {
        for length in lengths {
            table.remove(length);
        }
    }
    table.insert(last.to_owned(), value);
    Ok(())
}

/// Joins the lines of a TOML error, because a message is one line.
fn one_line(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Schedule;

    const TEXT: &str = "
        [run]
        name = 'test'
        [data]
        directory = 'shards'
        [model]
        head = 'value'
        [training]
        batch = 64
        learning_rate = 2.5e-3
        samples = 6400
    ";

    #[test]
    fn defaults_overrides_and_a_round_trip() {
        let config = Config::parse(TEXT, &[]).unwrap();
        assert_eq!(config.steps(0), 100);
        assert_eq!(config.folder(), PathBuf::from("runs/test"));
        assert_eq!(Config::parse(&config.to_toml().unwrap(), &[]).unwrap(), config);
        let changes = [
            "training.steps=7",
            "data.directory=/some/where",
            "training.schedule={kind='constant'}",
        ];
        let changed = Config::parse(TEXT, &changes.map(str::to_owned)).unwrap();
        assert_eq!(changed.steps(0), 7);
        assert_eq!(changed.data.directory, PathBuf::from("/some/where"));
        assert_eq!(changed.training.schedule, Schedule::Constant);
        assert_eq!(config.conflict(&changed), None);
        assert_eq!(config.objectives(), [Objective::from(HeadKind::Value)]);
        let both = [
            "model.head=['value', 'moves']",
            "loss.value={tanh={scale=300}}",
            "loss.moves=cross-entropy",
            "loss.moves_weight=0.5",
        ];
        let both = Config::parse(TEXT, &both.map(str::to_owned)).unwrap();
        assert_eq!(Config::parse(&both.to_toml().unwrap(), &[]).unwrap(), both);
        assert_eq!(both.objectives()[0].loss, Loss::Tanh { scale: 300.0 });
        let moves = Objective { head: HeadKind::Moves, loss: Loss::CrossEntropy, weight: 0.5 };
        assert_eq!(both.objectives()[1], moves);
        let residual = [
            "model.start=batch-first-residual",
            "model.filters=96",
            "model.blocks=6",
            "model.input=attacks-21",
        ];
        let residual = Config::parse(TEXT, &residual.map(str::to_owned)).unwrap();
        assert_eq!(Config::parse(&residual.to_toml().unwrap(), &[]).unwrap(), residual);
        let cockfish = [
            "model.start=cockfish",
            "model.activation=leaky-relu",
            "model.pooling=false",
            "data.directory=''",
            "data.stream=evals.jsonl.zst",
            "data.shuffle=500",
            "data.mates=false",
        ];
        let cockfish = Config::parse(TEXT, &cockfish.map(str::to_owned)).unwrap();
        assert_eq!(Config::parse(&cockfish.to_toml().unwrap(), &[]).unwrap(), cockfish);
        let seven = "model.head=['from', 'pawn-to', 'knight-to', 'bishop-to', 'rook-to', 'queen-to', 'king-to']";
        let seven = ["model.start=convchess", "model.pools=1", "grid.l2=[0.0, 1e-4]", seven];
        let seven = Config::parse(TEXT, &seven.map(str::to_owned)).unwrap();
        assert_eq!(Config::parse(&seven.to_toml().unwrap(), &[]).unwrap(), seven);
        let parts = seven.parts();
        assert_eq!(parts.len(), 7);
        assert_eq!(parts[6].folder(), PathBuf::from("runs/test/king-to"));
        assert_eq!(parts[6].objectives()[0].loss, Loss::CrossEntropy);
        assert!(parts[6].parts().is_empty());
        let other = Config::parse(TEXT, &["training.batch=32".to_owned()]).unwrap();
        assert_eq!(config.conflict(&other), Some("training.batch"));
    }

    #[test]
    fn wrong_settings_are_refused() {
        for change in [
            "training.bach=3",
            "training.batch=1",
            "training.learning_rate=-1",
            "training.average=1",
            "model.head=both",
            "model.head=[]",
            "model.head=['value', 'value']",
            "model.filters=32",
            "model.activation=gelu",
            "model.input=cockfish-13",
            "model.input=convchess-6",
            "model={head='value', start='networks/batch-first.safetensors', input='attacks-21'}",
            "model={head='value', start='cockfish', input='attacks-21'}",
            "model={head='value', start='cockfish', activation='tanh'}",
            "model={head='value', start='cockfish', filters=0}",
            "data.directory=''",
            "data.stream=evals.jsonl",
            "data.max_positions=5",
            "data={stream='evals.jsonl', sources=['x']}",
            "data={stream='evals.jsonl', shuffle=0}",
            "data={stream='evals.jsonl', max_positions=0}",
            "model.dense=32",
            "model.weight_scale=0",
            "optimizer.l2=-1",
            "model.head=['value', 'from']",
            "model.head=['from', 'from']",
            "optimizer.dropout=1",
            "loss.value=cross-entropy",
            "loss.value={tanh={scale=0}}",
            "loss.value_weight=0",
            "loss.moves=sum",
            "data.blunder_margin=-1",
            "run.name=../x",
            "checkpoints.keep=0",
            "data.explored=0.5",
            "data.explored=2",
            "data.explored=16",
            "training.schedule.kind=linear",
            "nothing",
            "=3",
            "run.name.more=3",
        ] {
            let error = Config::parse(TEXT, &[change.to_owned()]);
            assert!(error.is_err(), "{change} was taken");
            assert!(!error.unwrap_err().to_string().contains('\n'));
        }
    }
}
