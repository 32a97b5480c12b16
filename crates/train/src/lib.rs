//! Training of the networks that `eval` runs: one loop, two backends.

mod average;
mod backend;
mod config;
pub mod metrics;
mod pairs;
mod schedule;

pub use average::Average;
pub use backend::{Backend, Examples, OptimizerSettings, OptimizerState, Step, TrainError};
pub use config::{
    BackendKind, CheckpointSection, Config, DataSection, ModelSection, RunSection, TrainingSection,
    ValidationSection,
};
pub use pairs::{ordinal_gradient, ordinal_loss};
pub use schedule::Schedule;
