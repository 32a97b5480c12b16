//! The progress reports of a run: one trait, which terminal bars, plain lines and JSON lines
//! implement.

use crate::{Event, ValidationMetrics};

/// The run that is about to start.
#[derive(Clone, Debug, PartialEq)]
pub struct RunPlan {
    pub name: String,
    pub backend: String,
    pub first_step: u64,
    pub steps: u64,
    pub batch: usize,
    /// Training positions of one epoch.
    pub positions: u64,
}

/// The state of a run after a step.
#[derive(Clone, Debug, PartialEq)]
pub struct StepReport {
    /// Completed steps.
    pub step: u64,
    pub steps: u64,
    pub epoch: f64,
    /// Loss of this batch.
    pub loss: f32,
    /// Each head's loss, before its weight.
    pub losses: Vec<f32>,
    /// Kendall's tau-a of this batch for the first head; NaN for a policy.
    pub tau: f64,
    pub learning_rate: f32,
    /// Positions per second over the last steps.
    pub positions_per_second: f64,
    pub seconds_left: f64,
}

/// Receives the progress of a run; every method does nothing by default.
pub trait Progress {
    /// The run starts.
    fn start(&mut self, _plan: &RunPlan) {}
    /// A step is completed.
    fn step(&mut self, _report: &StepReport) {}
    /// A validation at this step is completed.
    fn validation(&mut self, _step: u64, _sources: &[ValidationMetrics]) {}
    /// A line of the journal is written.
    fn event(&mut self, _event: &Event) {}
    /// A remark in one line.
    fn note(&mut self, _text: &str) {}
}

/// Ignores all reports.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoProgress;

impl Progress for NoProgress {}
