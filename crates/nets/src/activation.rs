//! The activation functions of layers, computed from their definitions.

use serde::{Deserialize, Serialize};

/// Slope of [`Activation::LeakyRelu`] below zero.
pub const LEAKY_SLOPE: f32 = 0.01;

/// A function applied to each element of a layer's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Activation {
    Identity,
    /// `max(x, 0)`
    Relu,
    /// `x` above zero, `0.01 x` below.
    LeakyRelu,
    /// `x * P(X <= x)` for a standard normal X (Hendrycks and Gimpel, 2016), not its tanh
    /// approximation.
    Gelu,
    /// `x / (1 + exp(-x))`
    Silu,
    Tanh,
    /// `x * tanh(ln(1 + exp(x)))` (Misra, 2019).
    Mish,
    /// `max(x, 0)^2`
    SquaredRelu,
    /// `x` above zero, `1.6733 (exp(x) - 1)` below, all times `1.0507` (Klambauer and others, 2017).
    Selu,
}

/// The two numbers of [`Activation::Selu`]: that of negative inputs, and that of all.
pub const SELU: [f32; 2] = [1.673_263_2, 1.050_701];

impl Activation {
    /// Every activation.
    pub const ALL: [Self; 9] = [
        Self::Identity,
        Self::Relu,
        Self::LeakyRelu,
        Self::Gelu,
        Self::Silu,
        Self::Tanh,
        Self::Mish,
        Self::SquaredRelu,
        Self::Selu,
    ];

    /// Applies the activation to one number. GELU, SiLU, tanh, Mish and SELU are computed in double
    /// precision and rounded once.
    #[must_use]
    pub fn apply(self, value: f32) -> f32 {
        let x = f64::from(value);
        match self {
            Self::Identity => value,
            Self::Relu => value.max(0.0),
            Self::LeakyRelu => value.max(0.0) + LEAKY_SLOPE * value.min(0.0),
            Self::Gelu => (0.5 * x * (1.0 + libm::erf(x / std::f64::consts::SQRT_2))) as f32,
            Self::Silu => (x / (1.0 + (-x).exp())) as f32,
            Self::Tanh => x.tanh() as f32,
            Self::Mish => (x * x.exp().ln_1p().tanh()) as f32,
            Self::SquaredRelu => value.max(0.0).powi(2),
            Self::Selu => {
                let [below, all] = SELU.map(f64::from);
                (all * (x.max(0.0) + below * x.min(0.0).exp_m1())) as f32
            }
        }
    }
}
