//! Computes activations and their slopes over a few channels at a time, from the values before the
//! activation.

use eval::cpu::activation::{exp, gelu, mish, normal_tails, selu, tanh};
use nets::{Activation, LEAKY_SLOPE, SELU};

/// The slope below zero of a piecewise linear activation, whose slope above zero is 1; `None` for a
/// curved one.
#[inline(always)]
pub(super) fn low_slope(activation: Activation) -> Option<f32> {
    match activation {
        Activation::Identity => Some(1.0),
        Activation::Relu => Some(0.0),
        Activation::LeakyRelu => Some(LEAKY_SLOPE),
        Activation::Gelu
        | Activation::Silu
        | Activation::Tanh
        | Activation::Mish
        | Activation::SquaredRelu
        | Activation::Selu => None,
    }
}

/// Applies a curved activation in place; does nothing for a piecewise linear one, see
/// [`low_slope`].
#[inline(always)]
pub(super) fn curve(activation: Activation, values: &mut [f32]) {
    match activation {
        Activation::Gelu => values.iter_mut().for_each(|value| *value = gelu(*value)),
        Activation::Silu => values.iter_mut().for_each(|value| *value /= 1.0 + exp(-*value)),
        Activation::Tanh => values.iter_mut().for_each(|value| *value = tanh(*value)),
        Activation::Mish => values.iter_mut().for_each(|value| *value = mish(*value)),
        Activation::SquaredRelu => {
            values.iter_mut().for_each(|value| *value = value.max(0.0) * value.max(0.0));
        }
        Activation::Selu => values.iter_mut().for_each(|value| *value = selu(*value)),
        Activation::Identity | Activation::Relu | Activation::LeakyRelu => {}
    }
}

/// Replaces values by the slopes of a curved activation at these values.
#[inline(always)]
pub(super) fn curve_slope(activation: Activation, values: &mut [f32]) {
    match activation {
        Activation::Gelu => values.iter_mut().for_each(|value| *value = gelu_slope(*value)),
        Activation::Silu => values.iter_mut().for_each(|value| {
            let chance = 1.0 / (1.0 + exp(-*value));
            *value = chance * (1.0 + *value * (1.0 - chance));
        }),
        Activation::Tanh => values.iter_mut().for_each(|value| {
            let tanh = tanh(*value);
            *value = 1.0 - tanh * tanh;
        }),
        Activation::Mish => values.iter_mut().for_each(|value| {
            let power = exp(value.min(20.0));
            let part = power * (power + 2.0);
            let (tanh, chance) = (part / (part + 2.0), power / (1.0 + power));
            *value = tanh + *value * (1.0 - tanh * tanh) * chance;
        }),
        Activation::SquaredRelu => {
            values.iter_mut().for_each(|value| *value = 2.0 * value.max(0.0));
        }
        Activation::Selu => values.iter_mut().for_each(|value| {
            let slope = if *value > 0.0 { 1.0 } else { SELU[0] * exp(*value) };
            *value = SELU[1] * slope;
        }),
        Activation::Identity | Activation::Relu | Activation::LeakyRelu => {}
    }
}

/// Slope of GELU: the distribution function of the standard normal plus `x` times its density.
#[inline(always)]
fn gelu_slope(x: f32) -> f32 {
    let density = exp(-0.5 * x * x)
        * (0.5 * std::f32::consts::FRAC_2_SQRT_PI * std::f32::consts::FRAC_1_SQRT_2);
    0.5 + (0.5 - 0.5 * normal_tails(x)).copysign(x) + x * density
}

/// The activation of one value, and the slope at that value.
pub(super) fn one(activation: Activation, z: f32) -> (f32, f32) {
    match low_slope(activation) {
        Some(_) if z > 0.0 => (z, 1.0),
        Some(low) => (low * z, low),
        None => {
            let (mut value, mut slope) = ([z], [z]);
            curve(activation, &mut value);
            curve_slope(activation, &mut slope);
            (value[0], slope[0])
        }
    }
}

#[cfg(test)]
mod tests {
    use eval::reference::activated;

    use super::*;

    #[test]
    fn activations_and_slopes_follow_the_definitions() {
        for activation in Activation::ALL {
            for step in -600..600 {
                // Avoids zero, where piecewise linear activations have two slopes.
                let z = (step as f32 + 0.5) / 50.0;
                let (value, slope) = one(activation, z);
                assert!(
                    (value - activated(activation, f64::from(z)) as f32).abs()
                        < 2e-6 * (1.0 + z.abs()),
                    "{activation:?} {z}"
                );
                let (x, h) = (f64::from(z), 4e-3);
                let found = ((activated(activation, x + h) - activated(activation, x - h))
                    / (2.0 * h)) as f32;
                assert!((slope - found).abs() < 1e-3, "{activation:?} {z}: {slope} {found}");
            }
        }
    }
}
