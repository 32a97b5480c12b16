//! Training of the networks that `eval` runs: one loop, two backends.

mod average;
mod backend;
#[cfg(feature = "burn-backend")]
mod burn_backend;
pub mod calibrate;
mod checkpoint;
mod config;
mod dataset;
mod dropout;
mod explore;
mod first_network;
mod grid;
mod join;
mod journal;
mod machine;
pub mod metrics;
pub mod native;
mod pairs;
mod parts;
mod played;
mod progress;
mod quantise;
pub mod report;
mod run;
mod schedule;
mod scorer;
mod source;
mod speed;
mod training_loop;
mod validate;

pub use average::WeightAverage;
pub use backend::{
    Backend, Examples, Loss, Objective, OptimizerKind, OptimizerSettings, OptimizerState,
    StepResult, TrainError,
};
#[cfg(feature = "burn-backend")]
pub use burn_backend::{BurnBackend, BurnDevices};
pub use checkpoint::{Checkpoint, RunState};
pub use config::{
    BackendKind, CheckpointSection, Config, DataSection, GridSection, LossSection, ModelSection,
    RunSection, TrainingSection, ValidationSection,
};
pub use dataset::Dataset;
pub use explore::Explorer;
pub use grid::{Trial, search_grid};
pub use join::{join, join_heads};
pub use journal::{Event, Journal, read as read_journal};
pub use machine::{machine, revision};
pub use pairs::{ordinal_gradient, ordinal_loss};
pub use parts::train_all;
pub use progress::{NoProgress, Progress, RunPlan, StepReport};
pub use quantise::{LARGEST_FALL, LARGEST_RISE, QuantisationCost, quantise};
pub use run::{RunOutcome, burn, make_backend, summary, train};
pub use schedule::Schedule;
pub use scorer::{BackendScorer, EvaluatorScorer, Scorer, SelectorScorer};
pub use speed::{SpeedMeasurement, measure_speed};
pub use training_loop::{Ending, MakeScorer, TrainingLoop};
pub use validate::{
    Agreement, GamePhase, HeldOut, RankCorrelations, ValidationMetrics, legal_moves, measure,
    validate,
};
