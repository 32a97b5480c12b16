//! The progress reports of a run: one trait, which terminal bars, plain lines and JSON lines
//! implement.

use crate::ValidationMetrics;

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

/// After a step.
#[derive(Clone, Debug, PartialEq)]
pub struct StepReport {
    /// Steps done.
    pub step: u64,
    pub steps: u64,
    pub epoch: f64,
    /// Of this batch.
    pub loss: f32,
    /// Each head's part of it, before its weight.
    pub losses: Vec<f32>,
    /// Kendall's tau-a of this batch, for the first head; not a number for a policy.
    pub tau: f64,
    pub learning_rate: f32,
    /// Over the last steps.
    pub positions_per_second: f64,
    pub seconds_left: f64,
}

/// Receives the progress of a run; every method does nothing by default.
pub trait Progress {
    /// The run begins.
    fn start(&mut self, _plan: &RunPlan) {}
    /// A step is done.
    fn step(&mut self, _report: &StepReport) {}
    /// A validation is done at this step.
    fn validation(&mut self, _step: u64, _sources: &[ValidationMetrics]) {}
    /// Something worth a line.
    fn note(&mut self, _text: &str) {}
}

/// Ignores all reports.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoProgress;

impl Progress for NoProgress {}
