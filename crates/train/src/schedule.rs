//! Learning-rate schedules. The rate is a pure function of the step, so that a resumed run uses the
//! same rates.

use serde::{Deserialize, Serialize};

/// A learning-rate schedule over a run of known length.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Schedule {
    /// The same rate throughout.
    Constant,
    /// Multiplied by `factor` after each epoch (smoothly, step by step).
    Decay { factor: f32 },
    /// Rises linearly over `warm_up` steps, a fifth of the run at most, then falls along half a
    /// cosine to `floor` times the rate.
    Cosine { warm_up: u64, floor: f32 },
}

impl Default for Schedule {
    fn default() -> Self {
        Self::Cosine { warm_up: 200, floor: 0.01 }
    }
}

impl Schedule {
    /// Factor on the base rate at `step` (from 0) of `steps`, with `steps_an_epoch` steps in an
    /// epoch.
    #[must_use]
    pub fn factor(&self, step: u64, steps: u64, steps_an_epoch: f64) -> f32 {
        match *self {
            Self::Constant => 1.0,
            Self::Decay { factor } => {
                f64::from(factor).powf(step as f64 / steps_an_epoch.max(1.0)) as f32
            }
            Self::Cosine { warm_up, floor } => {
                let warm_up = warm_up.min(steps / 5);
                if step < warm_up {
                    return (step + 1) as f32 / (warm_up + 1) as f32;
                }
                let part = (step - warm_up) as f64 / (steps - warm_up).max(1) as f64;
                let fall = 0.5 * (1.0 + (std::f64::consts::PI * part.min(1.0)).cos());
                floor + (1.0 - floor) * fall as f32
            }
        }
    }

    /// Checks the parameters of the schedule.
    ///
    /// # Errors
    /// A sentence that names the setting.
    pub fn check(&self) -> Result<(), String> {
        match *self {
            Self::Decay { factor } if !(factor > 0.0 && factor <= 1.0) => Err(format!(
                "training.schedule.factor is {factor}; it must be above 0 and at most 1"
            )),
            Self::Cosine { floor, .. } if !(0.0..=1.0).contains(&floor) => {
                Err(format!("training.schedule.floor is {floor}; it must be between 0 and 1"))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cosine_rises_then_falls_to_its_floor() {
        let schedule = Schedule::Cosine { warm_up: 10, floor: 0.1 };
        let at = |step| schedule.factor(step, 110, 1.0);
        assert!(at(0) > 0.0 && at(0) < at(5) && at(5) < at(10));
        assert!((at(10) - 1.0).abs() < 1e-6);
        assert!((at(60) - 0.55).abs() < 1e-6);
        assert!((at(110) - 0.1).abs() < 1e-6);
        assert!((at(500) - 0.1).abs() < 1e-6);
        let short = |step| Schedule::default().factor(step, 20, 1.0);
        assert!(short(4) > 0.99 && short(19) < 0.05, "a short run warms up for a fifth");
    }

    #[test]
    fn decay_is_counted_in_epochs() {
        let schedule = Schedule::Decay { factor: 0.96 };
        assert!((schedule.factor(200, 1000, 100.0) - 0.96 * 0.96).abs() < 1e-6);
    }
}
