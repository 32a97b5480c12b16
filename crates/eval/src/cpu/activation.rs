//! Activation functions as polynomials without branches, so that the compiler can vectorise them for
//! each path. Their errors are below 1e-6.

use nets::{Activation, LEAKY_SLOPE, SELU};

use super::layout::BLOCK;

/// Applies an activation to a row of 32 channels.
#[inline(always)]
pub(crate) fn activate(activation: Activation, values: &mut [f32; BLOCK]) {
    match activation {
        Activation::Identity => {}
        Activation::Relu => values.iter_mut().for_each(|value| *value = value.max(0.0)),
        Activation::LeakyRelu => {
            values
                .iter_mut()
                .for_each(|value| *value = value.max(0.0) + LEAKY_SLOPE * value.min(0.0));
        }
        Activation::Gelu => values.iter_mut().for_each(|value| *value = gelu(*value)),
        Activation::Silu => values.iter_mut().for_each(|value| *value /= 1.0 + exp(-*value)),
        Activation::Tanh => values.iter_mut().for_each(|value| *value = tanh(*value)),
        Activation::Mish => values.iter_mut().for_each(|value| *value = mish(*value)),
        Activation::SquaredRelu => {
            values.iter_mut().for_each(|value| *value = value.max(0.0) * value.max(0.0));
        }
        Activation::Selu => values.iter_mut().for_each(|value| *value = selu(*value)),
    }
}

/// `e^x`: a power of two by the exponent bits, times a Taylor polynomial of degree 6. `x` is clamped
/// to -87..88.
#[inline(always)]
#[must_use]
pub fn exp(x: f32) -> f32 {
    /// `1.5 * 2^23`: adding it rounds a number to an integer, which is then in the low bits.
    const WHOLE: f32 = 12_582_912.0;
    /// ln 2 as a sum of two numbers, so that the remainder is computed without rounding error.
    const LN_2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];
    let x = x.clamp(-87.0, 88.0);
    let shifted = x * std::f32::consts::LOG2_E + WHOLE;
    let whole = shifted - WHOLE;
    let r = x - whole * LN_2[0] - whole * LN_2[1];
    let polynomial = 1.0
        + r * (1.0
            + r * (0.5
                + r * (1.0 / 6.0 + r * (1.0 / 24.0 + r * (1.0 / 120.0 + r * (1.0 / 720.0))))));
    polynomial * f32::from_bits(shifted.to_bits().wrapping_add(127) << 23)
}

/// The hyperbolic tangent.
#[inline(always)]
#[must_use]
pub fn tanh(x: f32) -> f32 {
    1.0 - 2.0 / (1.0 + exp(2.0 * x))
}

/// `x tanh(ln(1 + e^x))`, where the tangent is `(e^2x + 2 e^x) / (e^2x + 2 e^x + 2)`.
#[inline(always)]
#[must_use]
pub fn mish(x: f32) -> f32 {
    // Above 20 the tangent is 1.
    let power = exp(x.min(20.0));
    let part = power * (power + 2.0);
    x * part / (part + 2.0)
}

/// `1.0507 x` above zero, `1.0507 * 1.6733 (e^x - 1)` below.
#[inline(always)]
#[must_use]
pub fn selu(x: f32) -> f32 {
    SELU[1] * (x.max(0.0) + SELU[0] * (exp(x.min(0.0)) - 1.0))
}

/// `erfc(|x| / sqrt 2)`: the probability that a standard normal number is further from 0 than `x`.
/// Approximation 7.1.26 of Abramowitz and Stegun, with an error below 1.5e-7.
#[inline(always)]
#[must_use]
pub fn normal_tails(x: f32) -> f32 {
    let z = x.abs() * std::f32::consts::FRAC_1_SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * z);
    let polynomial = t
        * (0.254_829_6
            + t * (-0.284_496_74 + t * (1.421_413_7 + t * (-1.453_152 + t * 1.061_405_4))));
    polynomial * exp(-z * z)
}

/// `x / 2 (1 + erf(x / sqrt 2))`, by the symmetry of erf.
#[inline(always)]
#[must_use]
pub fn gelu(x: f32) -> f32 {
    0.5 * (x + x.abs() * (1.0 - normal_tails(x)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::activated;

    #[test]
    fn activations_follow_their_definitions() {
        for activation in Activation::ALL {
            for step in -4000..=4000 {
                let x = step as f32 / 100.0;
                let mut row = [x; BLOCK];
                activate(activation, &mut row);
                let expected = activated(activation, f64::from(x)) as f32;
                let error = (row[0] - expected).abs() / (1.0 + expected.abs());
                assert!(error < 1e-6, "{activation:?} of {x}: {} instead of {expected}", row[0]);
            }
        }
    }
}
