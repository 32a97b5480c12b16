//! The progress of a training run: a bar, plain lines, or JSON lines.

use std::{
    io::{self, Write},
    time::{Duration, Instant},
};

use indicatif::{HumanDuration, ProgressBar, ProgressStyle};
use serde_json::json;
use train::{Progress, RunPlan, StepReport, ValidationMetrics, summary};

/// Time between plain lines.
const INTERVAL: Duration = Duration::from_secs(10);

fn left(report: &StepReport) -> HumanDuration {
    let seconds = if report.seconds_left.is_finite() { report.seconds_left } else { 0.0 };
    HumanDuration(Duration::from_secs(seconds.clamp(0.0, 1e9) as u64))
}

/// The head and the source of a validation.
fn head_and_source(measures: &ValidationMetrics) -> String {
    let head = measures.head.map_or("", |head| head.name());
    format!("{head} {}", measures.source)
}

fn opening(plan: &RunPlan) -> String {
    format!(
        "{}: steps {} to {} of {} positions; {} training positions; {}",
        plan.name, plan.first_step, plan.steps, plan.batch, plan.positions, plan.backend
    )
}

/// A bar with live figures on standard error.
#[derive(Debug, Default)]
pub struct Bar {
    bar: Option<ProgressBar>,
    loss: f32,
    tau: f64,
}

impl Bar {
    fn line(&self, text: &str) {
        if let Some(bar) = &self.bar {
            bar.suspend(|| eprint_line(text));
        } else {
            eprint_line(text);
        }
    }
}

#[expect(clippy::print_stderr, reason = "a line above the bar")]
fn eprint_line(text: &str) {
    eprintln!("{text}");
}

/// Updates an exponential moving mean over about twenty steps.
fn moving_mean(mean: f64, value: f64) -> f64 {
    if mean == 0.0 { value } else { mean + 0.05 * (value - mean) }
}

impl Progress for Bar {
    fn start(&mut self, plan: &RunPlan) {
        let bar = ProgressBar::new(plan.steps);
        let style = ProgressStyle::with_template("{bar:32} {pos}/{len} {msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style);
        bar.set_position(plan.first_step);
        self.bar = Some(bar);
        self.line(&opening(plan));
    }

    fn step(&mut self, report: &StepReport) {
        self.loss = moving_mean(f64::from(self.loss), f64::from(report.loss)) as f32;
        self.tau = moving_mean(self.tau, report.tau);
        if let Some(bar) = &self.bar {
            bar.set_position(report.step);
            bar.set_message(format!(
                "loss {:.4}, tau {:.4}, {:.0} positions/s, epoch {:.2}, {} left",
                self.loss,
                self.tau,
                report.positions_per_second,
                report.epoch,
                left(report)
            ));
        }
    }

    fn validation(&mut self, step: u64, sources: &[ValidationMetrics]) {
        for measures in sources {
            self.line(&format!(
                "step {step}, {}: {}",
                head_and_source(measures),
                summary(measures)
            ));
        }
    }

    fn note(&mut self, text: &str) {
        self.line(text);
    }
}

/// A line every ten seconds on standard output.
#[derive(Debug, Default)]
pub struct Lines {
    last: Option<Instant>,
    loss: f64,
    losses: Vec<f64>,
    tau: f64,
    steps: u32,
}

fn print_line(text: &str) {
    // A closed output does not stop the training.
    let _ = writeln!(io::stdout(), "{text}");
}

impl Progress for Lines {
    fn start(&mut self, plan: &RunPlan) {
        print_line(&opening(plan));
    }

    fn step(&mut self, report: &StepReport) {
        self.loss += f64::from(report.loss);
        self.losses.resize(report.losses.len(), 0.0);
        self.losses.iter_mut().zip(&report.losses).for_each(|(sum, loss)| *sum += f64::from(*loss));
        self.tau += report.tau;
        self.steps += 1;
        let due = self.last.is_none_or(|last| last.elapsed() >= INTERVAL);
        if !due && report.step != report.steps {
            return;
        }
        let parts = match self.losses.as_slice() {
            [] | [_] => String::new(),
            losses => {
                let means =
                    losses.iter().map(|loss| format!("{:.4}", loss / f64::from(self.steps)));
                format!(" ({})", means.collect::<Vec<_>>().join(", "))
            }
        };
        print_line(&format!(
            "step {}/{}, epoch {:.2}: loss {:.4}{parts}, tau {:.4}, rate {:.6}, {:.0} positions/s, {} left",
            report.step,
            report.steps,
            report.epoch,
            self.loss / f64::from(self.steps),
            self.tau / f64::from(self.steps),
            report.learning_rate,
            report.positions_per_second,
            left(report)
        ));
        *self = Self { last: Some(Instant::now()), ..Self::default() };
    }

    fn validation(&mut self, step: u64, sources: &[ValidationMetrics]) {
        for measures in sources {
            print_line(&format!(
                "step {step}, {}: {}",
                head_and_source(measures),
                summary(measures)
            ));
        }
    }

    fn note(&mut self, text: &str) {
        print_line(text);
    }
}

/// One JSON object a line on standard output, for every step.
#[derive(Debug, Default)]
pub struct JsonProgress;

impl Progress for JsonProgress {
    fn start(&mut self, plan: &RunPlan) {
        print_line(
            &json!({
                "kind": "start", "name": plan.name, "backend": plan.backend, "first_step": plan.first_step,
                "steps": plan.steps, "batch": plan.batch, "positions": plan.positions,
            })
            .to_string(),
        );
    }

    fn step(&mut self, report: &StepReport) {
        print_line(
            &json!({
                "kind": "step", "step": report.step, "steps": report.steps, "epoch": report.epoch,
                "loss": report.loss, "losses": report.losses, "tau": report.tau, "learning_rate": report.learning_rate,
                "positions_per_second": report.positions_per_second, "seconds_left": report.seconds_left,
            })
            .to_string(),
        );
    }

    fn validation(&mut self, step: u64, sources: &[ValidationMetrics]) {
        print_line(&json!({ "kind": "validation", "step": step, "sources": sources }).to_string());
    }

    fn note(&mut self, text: &str) {
        print_line(&json!({ "kind": "note", "text": text }).to_string());
    }
}
