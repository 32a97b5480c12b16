//! Trains the networks that `eval` runs: one training loop over two backends, validation,
//! calibration and reports.

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
mod finish;
mod first_network;
mod grid;
mod held_out;
mod join;
mod journal;
mod machine;
mod make_backend;
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
mod validation_metrics;

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
pub use held_out::HeldOut;
pub use join::{join, join_heads};
pub use journal::{Event, Journal, read as read_journal};
pub use machine::{machine, revision};
pub use make_backend::{burn, make_backend};
pub use pairs::{ordinal_gradient, ordinal_loss};
pub use parts::train_all;
pub use progress::{NoProgress, Progress, RunPlan, StepReport};
pub use quantise::{LARGEST_FALL, LARGEST_RISE, QuantisationCost, quantise};
pub use run::{RunOutcome, train};
pub use schedule::Schedule;
pub use scorer::{BackendScorer, EvaluatorScorer, Scorer, SelectorScorer};
pub use speed::{SpeedMeasurement, measure_speed};
pub use training_loop::{Ending, MakeScorer, TrainingLoop};
pub use validate::{legal_moves, measure, validate};
pub use validation_metrics::{Agreement, GamePhase, RankCorrelations, ValidationMetrics, summary};
