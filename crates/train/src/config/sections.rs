//! The sections of a configuration: every setting with its meaning and its default.

use std::path::{Path, PathBuf};

use nets::{Activation, Encoding, HeadKind};
use serde::{Deserialize, Serialize};

use crate::{Loss, Schedule};

/// The values of a grid search, which tries all combinations; an empty list leaves the setting as
/// it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GridSection {
    /// Values of `training.learning_rate`.
    pub learning_rate: Vec<f32>,
    /// Values of `optimizer.l2`.
    pub l2: Vec<f32>,
    /// Values of `model.weight_scale`.
    pub weight_scale: Vec<f32>,
    /// Runs at a time, each on one thread; 0: one for each core.
    pub jobs: usize,
}

/// The name and the folder of the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunSection {
    /// Name of the run folder and of the network.
    pub name: String,
    /// Folder that contains the run folders.
    #[serde(default = "runs")]
    pub directory: PathBuf,
}

fn runs() -> PathBuf {
    PathBuf::from("runs")
}

/// The training data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataSection {
    /// Folder written by `data import`; give this or `stream`.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub directory: PathBuf,
    /// Lichess's evaluation database (`lichess_db_eval.jsonl.zst`), read while training and never
    /// unpacked to the disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<PathBuf>,
    /// For `stream`: size of the shuffle buffer in positions.
    #[serde(default = "default_shuffle")]
    pub shuffle: usize,
    /// For `stream`: largest number of training positions in an epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_positions: Option<u64>,
    /// For `stream`: train on positions with a forced mate too.
    #[serde(default = "yes")]
    pub mates: bool,
    /// Sources to use, by name; empty: all.
    #[serde(default)]
    pub sources: Vec<String>,
    /// Mirror half of the positions without castling rights left to right.
    #[serde(default = "yes")]
    pub mirror: bool,
    /// For a move head: number of random legal moves of each position that are trained on besides
    /// the played one. Games contain mostly good moves, but a search scores all of them.
    #[serde(default)]
    pub explored: usize,
    /// The calibrated value network that labels those moves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub teacher: Option<PathBuf>,
    /// For cross entropy: a played move that loses more centipawns than this, often a random move,
    /// is not trained on.
    #[serde(default = "blunder_margin")]
    pub blunder_margin: i32,
}

pub(super) fn is_empty(path: &Path) -> bool {
    path.as_os_str().is_empty()
}

pub(super) fn default_shuffle() -> usize {
    10_000
}

fn blunder_margin() -> i32 {
    100
}

fn yes() -> bool {
    true
}

/// The network to train.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelSection {
    /// `batch-first`, `batch-first-shared`, `batch-first-residual`, `cockfish`, `convchess`, or the
    /// path of a description (`.json`) or of a network (`.safetensors`) to start from.
    #[serde(default = "batch_first")]
    pub start: String,
    /// For `batch-first-residual` and `cockfish`: channels of the trunk; for `convchess`: of each
    /// convolution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filters: Option<usize>,
    /// For `batch-first-residual` and `cockfish`: number of residual blocks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<usize>,
    /// For `batch-first`, `batch-first-shared` and `batch-first-residual`: `batch-first-15`;
    /// `attacks-21`, which adds the cheapest attackers of each square; or `attacks-21-king-right`,
    /// which sees the mirror image where the mover's king stands on the left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Encoding>,
    /// For `cockfish`: `relu`, `leaky-relu`, `gelu` or `silu`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activation: Option<Activation>,
    /// For `cockfish`: append each channel's average over the board to every square before the
    /// dense layers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pooling: Option<bool>,
    /// For `convchess`: number of 3x3 convolutions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub convolutions: Option<usize>,
    /// For `convchess`: number of convolutions with a 2x2 max-pooling behind them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pools: Option<usize>,
    /// For `convchess`: outputs of the dense layer before the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dense: Option<usize>,
    /// Factor on the random initial weights of a fresh network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight_scale: Option<f32>,
    /// A network (`.safetensors`) whose first layers initialise a fresh network, as far as their
    /// shapes are equal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<PathBuf>,
    /// The head that is trained, or a list of heads.
    #[serde(rename = "head", with = "one_or_several")]
    pub heads: Vec<HeadKind>,
}

/// Reads one head or a list of heads; writes a single head without brackets.
mod one_or_several {
    use nets::HeadKind;
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Names {
        One(String),
        Several(Vec<String>),
    }

    pub fn serialize<S: Serializer>(heads: &[HeadKind], serializer: S) -> Result<S::Ok, S::Error> {
        match heads {
            [head] => head.serialize(serializer),
            heads => heads.serialize(serializer),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<HeadKind>, D::Error> {
        let wrong = || {
            D::Error::custom(
                "model.head must be `value`, `moves`, `from`, `pawn-to` … `king-to` or a list of them",
            )
        };
        let names = match Names::deserialize(deserializer).map_err(|_| wrong())? {
            Names::One(name) => vec![name],
            Names::Several(names) => names,
        };
        let kind = |name: &String| {
            HeadKind::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(wrong)
        };
        names.iter().map(kind).collect()
    }
}

/// The losses of the heads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LossSection {
    /// `ordinal`, or `{ tanh = { scale = 400 } }`.
    pub value: Loss,
    /// `ordinal` or `cross-entropy`.
    pub moves: Loss,
    /// Part in the sum of losses.
    pub value_weight: f32,
    /// Part in the sum of losses.
    pub moves_weight: f32,
}

impl Default for LossSection {
    fn default() -> Self {
        Self { value: Loss::Ordinal, moves: Loss::Ordinal, value_weight: 1.0, moves_weight: 1.0 }
    }
}

fn batch_first() -> String {
    "batch-first".to_owned()
}

/// The implementation of the forward and backward passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BackendKind {
    /// Our own kernels.
    Cpu,
    /// Burn; needs a build with the cargo feature `burn`.
    Burn,
}

/// Backend, length and learning rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainingSection {
    #[serde(default = "cpu")]
    pub backend: BackendKind,
    /// For Burn: `cpu`, `cuda:N` or `vulkan:N`, or several separated by commas, which share each
    /// batch.
    #[serde(default = "processor", skip_serializing_if = "is_processor")]
    pub device: String,
    /// For Burn: convolutions in half precision, everything else in single precision.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub mixed_precision: bool,
    /// Worker threads; 0: one for each core.
    #[serde(default)]
    pub threads: usize,
    #[serde(default = "one")]
    pub seed: u64,
    /// Positions per step.
    pub batch: usize,
    pub learning_rate: f32,
    #[serde(default)]
    pub schedule: Schedule,
    /// Length of the run; exactly one of `steps`, `samples` and `epochs`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epochs: Option<f64>,
    /// Ends the run early after this many minutes of training (counted over resumptions).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_minutes: Option<f64>,
    /// Decay of the exponential average of the weights; 0: none. The averaged weights are validated
    /// and exported.
    #[serde(default = "average")]
    pub average: f32,
    /// Steps between lines in `metrics.jsonl`.
    #[serde(default = "log_every")]
    pub log_every: u64,
}

fn cpu() -> BackendKind {
    BackendKind::Cpu
}

fn processor() -> String {
    "cpu".to_owned()
}

fn is_processor(device: &str) -> bool {
    device == "cpu"
}

fn one() -> u64 {
    1
}

fn average() -> f32 {
    0.999
}

fn log_every() -> u64 {
    20
}

/// The times and the size of validations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ValidationSection {
    /// Steps between validations; 0: only at the end.
    pub every: u64,
    /// Positions of each source during training; 0: all.
    pub positions: usize,
    /// Positions of each source at the end, for the last validation and the calibration; 0: all.
    pub final_positions: usize,
}

impl Default for ValidationSection {
    fn default() -> Self {
        Self { every: 500, positions: 12_000, final_positions: 0 }
    }
}

/// The times of checkpoints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CheckpointSection {
    /// Steps between checkpoints; 0: only at the end.
    pub every: u64,
    /// Number of checkpoints that are kept.
    pub keep: usize,
}

impl Default for CheckpointSection {
    fn default() -> Self {
        Self { every: 500, keep: 2 }
    }
}
