//! Quantisation of weights: each output channel has the smallest unit that keeps its integers and
//! their 16-bit sums in range.

use super::memory::Element;

/// The largest magnitude of a weight, in units.
const LARGEST: f32 = 127.0;

/// The largest sum of weights of one sign, in units, for formats that add their products in 16
/// bits: `128 * 255` is below 32,768.
const LARGEST_SUM: f32 = 128.0;

/// Rounds the weights of an output channel to whole units. Returns the unit, which is at least
/// `least`, and the weights in units. `tall` is that of [`Element::largest_sum`].
pub(crate) fn in_units<E: Element>(column: &[f32], least: f32, tall: bool) -> (f32, Vec<f32>) {
    let largest = column.iter().fold(0.0_f32, |most, weight| most.max(weight.abs()));
    let mut unit = (largest / LARGEST).max(E::largest_sum(column, tall) / LARGEST_SUM).max(least);
    if unit <= 0.0 {
        return (1.0, vec![0.0; column.len()]);
    }
    loop {
        let whole: Vec<f32> = column.iter().map(|weight| (weight / unit).round()).collect();
        if E::largest_sum(&whole, tall) <= LARGEST_SUM {
            return (unit, whole);
        }
        // Rounding made the sum too large.
        unit = (unit * 1.005).max(unit.next_up());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::cpu::memory::{Byte, SmallByte};

    /// Columns of one to three blocks of 32 weights, in very different magnitudes.
    fn columns() -> impl Strategy<Value = Vec<f32>> {
        let scales = prop::sample::select(vec![1e-44_f32, 1e-30, 1.0, 1e30]);
        let weights = prop::collection::vec(-1.0_f32..1.0, 96);
        (weights, 1..4_usize, 1..9, scales).prop_map(|(weights, blocks, power, scale)| {
            weights[..32 * blocks].iter().map(|weight| weight.powi(power) * scale).collect()
        })
    }

    proptest! {
        #[test]
        fn products_that_are_added_in_16_bits_fit(column in columns(), tall: bool) {
            let (unit, whole) = in_units::<SmallByte>(&column, 0.0, tall);
            prop_assert!(unit > 0.0);
            let fours = if tall { 1 } else { SmallByte::GROUPS };
            let mut fullest = 0;
            for part in whole.chunks_exact(4 * fours) {
                for pair in [0, 2] {
                    let eight = part.chunks_exact(4).flat_map(|four| &four[pair..pair + 2]);
                    let [mut above, mut below] = [0_i16; 2];
                    for &weight in eight {
                        let product = 255 * i16::from(SmallByte::from_f32(weight).0.cast_signed());
                        let sum = if product > 0 { &mut above } else { &mut below };
                        *sum = sum.checked_add(product).unwrap();
                    }
                    fullest = fullest.max(above).max(-below);
                }
            }
            // The unit is not larger than needed.
            let largest = column.iter().fold(0.0_f32, |most, weight| most.max(weight.abs()));
            prop_assert!(largest < 1e-40 || largest / unit > 120.0 || fullest > 29_000, "{fullest} {unit}");
        }
    }

    #[test]
    fn zero_weights_stay_zero() {
        assert_eq!(in_units::<Byte>(&[0.0; 32], 0.0, false), (1.0, vec![0.0; 32]));
    }
}
