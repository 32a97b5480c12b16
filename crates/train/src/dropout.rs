//! Dropout behind dense layers (Srivastava et al. 2014). The dropped outputs depend on the seed,
//! the step, the layer's name and the position's index in the batch, so both backends drop the same
//! outputs on any number of threads or devices.

use board::{SplitMix64, mix64};

/// The settings of dropout in one step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dropout {
    /// Share of the outputs that a step drops, 0 to below 1.
    pub rate: f32,
    pub seed: u64,
    /// Number of optimizer steps before this one.
    pub step: u64,
}

impl Dropout {
    /// The factors on the outputs of a layer, channel by channel, for one position of the batch.
    pub fn factors(self, layer: u64, position: usize) -> impl Iterator<Item = f32> {
        let place = self.step << 32 ^ position as u64;
        let mut random = SplitMix64::new(mix64(self.seed ^ mix64(place ^ mix64(layer))));
        std::iter::repeat_with(move || {
            if random.unit() < self.rate { 0.0 } else { 1.0 / (1.0 - self.rate) }
        })
    }
}

/// A number for a layer, by its name in the network's file (FNV-1a).
pub(crate) fn layer_number(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_requested_share_is_dropped_and_the_mean_is_kept() {
        let dropout = Dropout { rate: 0.3, seed: 5, step: 9 };
        let of = |layer: &str| -> Vec<f32> {
            (0..200)
                .flat_map(|position| dropout.factors(layer_number(layer), position).take(100))
                .collect()
        };
        let factors = of("value.4");
        let dropped =
            factors.iter().filter(|&&factor| factor == 0.0).count() as f32 / factors.len() as f32;
        let mean = factors.iter().sum::<f32>() / factors.len() as f32;
        assert!((dropped - 0.3).abs() < 0.015 && (mean - 1.0).abs() < 0.02, "{dropped} {mean}");
        assert_ne!(factors, of("value.5"));
    }
}
