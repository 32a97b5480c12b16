//! Mean and variance of activations, computed from the network's batch norms without any position.
//! They predict the mean rounding error of int8 weights. Activations before ReLU are taken to be
//! normally distributed, as in Nagel et al. 2019, "Data-Free Quantization Through Weight
//! Equalization and Bias Correction".

use nets::NORM_EPSILON;

/// Mean and variance of a channel over cells and positions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Moments {
    pub mean: f32,
    pub variance: f32,
}

impl Moments {
    /// Moments of the output of a batch norm with these parameters.
    pub fn of_norm(scale: f32, shift: f32, variance: f32) -> Self {
        Self { mean: shift, variance: scale * scale * variance / (variance + NORM_EPSILON) }
    }

    /// Moments of the input that a kernel cell reads: it lies on the board for this share of the
    /// output cells and reads zero for the others. The variance is not adjusted.
    pub fn for_share(self, share: f32) -> Self {
        Self { mean: self.mean * share, ..self }
    }

    /// Moments of the product with a weight.
    pub fn times(self, weight: f32) -> Self {
        Self { mean: weight * self.mean, variance: weight * weight * self.variance }
    }

    /// Moments of a sum, as if its terms were independent, which is an approximation.
    pub fn plus(self, other: Self) -> Self {
        Self { mean: self.mean + other.mean, variance: self.variance + other.variance }
    }

    /// Moments after ReLU, as if the values before it were normally distributed.
    fn after_relu(self) -> Self {
        let [mean, square, _] = self.powers_after_relu();
        Self { mean: mean.max(0.0), variance: (square - mean * mean).max(0.0) }
    }

    /// Moments of the square after ReLU, as if the values before it were normally distributed.
    fn after_squared_relu(self) -> Self {
        let [_, square, fourth] = self.powers_after_relu();
        Self { mean: square.max(0.0), variance: (fourth - square * square).max(0.0) }
    }

    /// The means of the first, second and fourth power after ReLU.
    fn powers_after_relu(self) -> [f32; 3] {
        let Self { mean, variance } = self;
        let deviation = variance.sqrt();
        if deviation <= 0.0 {
            return [1, 2, 4].map(|power| mean.max(0.0).powi(power));
        }
        let at = mean / deviation;
        let (share, density) =
            (normal_below(at), (-at * at / 2.0).exp() / std::f32::consts::TAU.sqrt());
        let square = mean * mean;
        [
            mean * share + deviation * density,
            (square + variance) * share + mean * deviation * density,
            (square * square + 6.0 * square * variance + 3.0 * variance * variance) * share
                + mean * deviation * (square + 5.0 * variance) * density,
        ]
    }
}

/// Moments of the channel by channel sum, if those of both terms are known.
pub(crate) fn sum(one: Option<Vec<Moments>>, other: Option<&[Moments]>) -> Option<Vec<Moments>> {
    Some(one?.into_iter().zip(other?).map(|(one, other)| one.plus(*other)).collect())
}

/// Moments of each channel after ReLU.
pub(crate) fn after_relu(list: Vec<Moments>) -> Vec<Moments> {
    list.into_iter().map(Moments::after_relu).collect()
}

/// Moments of the square of each channel after ReLU.
pub(crate) fn after_squared_relu(list: Vec<Moments>) -> Vec<Moments> {
    list.into_iter().map(Moments::after_squared_relu).collect()
}

/// Cumulative distribution function of the standard normal distribution, to seven digits
/// (Abramowitz and Stegun 26.2.17).
fn normal_below(value: f32) -> f32 {
    let t = 1.0 / (1.0 + 0.231_641_9 * value.abs());
    let sum = t
        * (0.319_381_53
            + t * (-0.356_563_78 + t * (1.781_477_9 + t * (-1.821_256 + t * 1.330_274_4))));
    let above = (-value * value / 2.0).exp() / std::f32::consts::TAU.sqrt() * sum;
    if value >= 0.0 { 1.0 - above } else { above }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_after_relu_agree_with_a_sample() {
        // Knuth's MMIX generator, of which the high bits are the random ones.
        let mut state = 1_u64;
        let mut dice = move || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1 << 24) as f32
        };
        // Normal numbers by the method of Box and Muller.
        let sample: Vec<f32> = (0..200_000)
            .map(|_| (-2.0 * (1.0 - dice()).ln()).sqrt() * (std::f32::consts::TAU * dice()).cos())
            .collect();
        for (mean, deviation) in
            [(0.0, 1.0), (-1.0, 0.5), (2.0, 1.0), (-0.3, 2.0), (1.0, 0.0), (-1.0, 0.0)]
        {
            let count = sample.len() as f64;
            let before = Moments { mean, variance: deviation * deviation };
            for (power, found) in [(1, before.after_relu()), (2, before.after_squared_relu())] {
                let after =
                    |value: &f32| f64::from((mean + deviation * value).max(0.0)).powi(power);
                let left: Vec<f64> = sample.iter().map(after).collect();
                let expected = left.iter().sum::<f64>() / count;
                let spread =
                    left.iter().map(|value| (value - expected).powi(2)).sum::<f64>() / count;
                // A sample of squares spreads more.
                let limits = if power == 1 {
                    [0.01, 0.03]
                } else {
                    [expected, spread].map(|value| 0.03 * (1.0 + value))
                };
                let near = |found: f32, expected: f64| (f64::from(found) - expected).abs();
                assert!(near(found.mean, expected) < limits[0], "{found:?} {expected}");
                assert!(near(found.variance, spread) < limits[1], "{found:?} {spread}");
            }
        }
    }
}
