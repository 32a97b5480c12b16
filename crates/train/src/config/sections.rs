//! The sections of a configuration: every setting with its meaning and its default.

use std::path::{Path, PathBuf};

use nets::{Activation, Encoding, HeadKind};
use serde::{Deserialize, Serialize};

use crate::{Loss, Schedule};

/// Values to try, each with each; an empty list leaves the setting as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GridSection {
    /// For `training.learning_rate`.
    pub learning_rate: Vec<f32>,
    /// For `optimizer.l2`.
    pub l2: Vec<f32>,
    /// For `model.weight_scale`.
    pub weight_scale: Vec<f32>,
    /// Runs at a time, each on one thread; 0: one a core.
    pub jobs: usize,
}

/// What the run is called and where it lies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunSection {
    /// Name of the run folder and of the network.
    pub name: String,
    /// Folder of run folders.
    #[serde(default = "runs")]
    pub directory: PathBuf,
}

fn runs() -> PathBuf {
    PathBuf::from("runs")
}

/// What is learned from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataSection {
    /// Folder that `data import` wrote; this or `stream`.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub directory: PathBuf,
    /// Lichess's evaluation database (`lichess_db_eval.jsonl.zst`), read while training and never
    /// unpacked to the disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<PathBuf>,
    /// For `stream`: positions that wait in memory to be drawn at random.
    #[serde(default = "shuffle")]
    pub shuffle: usize,
    /// For `stream`: training positions of an epoch at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_positions: Option<u64>,
    /// For `stream`: positions with a forced mate are learned too.
    #[serde(default = "yes")]
    pub mates: bool,
    /// Sources to use, by name; empty: all.
    #[serde(default)]
    pub sources: Vec<String>,
    /// Show half of the positions without castling rights as their left-right mirror image.
    #[serde(default = "yes")]
    pub mirror: bool,
    /// For a move head: how many random legal moves of each position are learned beside the played
    /// one. Games show good moves only, and a search asks about all of them.
    #[serde(default)]
    pub explored: usize,
    /// The calibrated value network that labels those moves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub teacher: Option<PathBuf>,
    /// For cross entropy: a played move after which the mover stands more centipawns worse than
    /// before it (a random one, mostly) is not learned.
    #[serde(default = "blunder_margin")]
    pub blunder_margin: i32,
}

pub(super) fn is_empty(path: &Path) -> bool {
    path.as_os_str().is_empty()
}

pub(super) fn shuffle() -> usize {
    10_000
}

fn blunder_margin() -> i32 {
    100
}

fn yes() -> bool {
    true
}

/// What learns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelSection {
    /// `batch-first`, `batch-first-shared`, `batch-first-residual`, `cockfish`, `convchess`, or the
    /// path of a description (`.json`) or of a network (`.safetensors`) to go on from.
    #[serde(default = "batch_first")]
    pub start: String,
    /// For `batch-first-residual` and `cockfish`: channels of the trunk; for `convchess`: of each
    /// convolution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filters: Option<usize>,
    /// For `batch-first-residual` and `cockfish`: residual blocks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<usize>,
    /// For `batch-first`, `batch-first-shared` and `batch-first-residual`: `batch-first-15`, or
    /// `attacks-21`, which tells who attacks each square.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Encoding>,
    /// For `cockfish`: `relu`, `leaky-relu`, `gelu` or `silu`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activation: Option<Activation>,
    /// For `cockfish`: append each channel's average over the board to every square before the
    /// dense layers?
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pooling: Option<bool>,
    /// For `convchess`: 3x3 convolutions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub convolutions: Option<usize>,
    /// For `convchess`: how many of them a 2x2 max-pooling follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pools: Option<usize>,
    /// For `convchess`: outputs of the dense layer before the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dense: Option<usize>,
    /// What the first, random weights of a fresh network are multiplied with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight_scale: Option<f32>,
    /// A network (`.safetensors`) whose layers, as far as they have the same shapes, a fresh
    /// network begins with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<PathBuf>,
    /// The head that is trained, or a list of heads.
    #[serde(rename = "head", with = "one_or_several")]
    pub heads: Vec<HeadKind>,
}

/// A single head is written without brackets.
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

/// What the heads are trained for.
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

/// Which implementation of the forward and backward passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BackendKind {
    /// Our own kernels.
    Cpu,
    /// Burn; needs a build with the cargo feature `burn`.
    Burn,
}

/// How long and how fast.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainingSection {
    #[serde(default = "cpu")]
    pub backend: BackendKind,
    /// For Burn: `cpu`, `cuda:N` or `vulkan:N`, or several with commas, which share each batch.
    #[serde(default = "processor", skip_serializing_if = "is_processor")]
    pub device: String,
    /// For Burn: convolutions in half precision, weights and everything else in single.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub mixed_precision: bool,
    /// 0: all cores.
    #[serde(default)]
    pub threads: usize,
    #[serde(default = "one")]
    pub seed: u64,
    /// Positions a step.
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

/// When and on what the network is judged.
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

/// When the run is saved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CheckpointSection {
    /// Steps between checkpoints; 0: only at the end.
    pub every: u64,
    /// How many are kept.
    pub keep: usize,
}

impl Default for CheckpointSection {
    fn default() -> Self {
        Self { every: 500, keep: 2 }
    }
}
