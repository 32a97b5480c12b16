//! Training of the networks that `eval` runs: one loop, two backends.

mod backend;

pub use backend::{Backend, Examples, OptimizerSettings, OptimizerState, Step, TrainError};
