//! The layers behind the sums: 16, 32 and 1 outputs, in small integers.

use super::{WIDTH, view::ONE};

/// Outputs of the first layer; the last of them is part of the result as it is.
pub(super) const FIRST: usize = 16;
/// Inputs of the second layer, with padding.
pub(super) const SECOND_INPUTS: usize = 32;
/// Outputs of the second layer.
pub(super) const SECOND: usize = 32;
/// Bits behind the point of a layer's output.
const BITS: u32 = 6;

/// The weights of one stack, 8 bits each, kept with 16 for multiplications.
pub(super) struct Stack {
    pub first_bias: [i32; FIRST],
    /// `[FIRST][WIDTH]`.
    pub first: Vec<i16>,
    pub second_bias: [i32; SECOND],
    /// `[SECOND][SECOND_INPUTS]`.
    pub second: Vec<i16>,
    pub last_bias: i32,
    pub last: [i16; SECOND],
}

impl Stack {
    /// The result, in the network's units.
    #[inline(always)]
    pub fn output(&self, inputs: &[i16; WIDTH]) -> i32 {
        let mut first = self.first_bias;
        for (sum, row) in first.iter_mut().zip(self.first.chunks_exact(WIDTH)) {
            *sum = sum.wrapping_add(product(inputs, row));
        }
        let mut middle = [0_i16; SECOND_INPUTS];
        for (place, &value) in first[..FIRST - 1].iter().enumerate() {
            let square = (i64::from(value) * i64::from(value)) >> (2 * BITS + 7);
            middle[place] = square.min(i64::from(ONE)) as i16;
            middle[FIRST - 1 + place] = clipped(value);
        }
        let mut last = self.last_bias;
        let rows = self.second.chunks_exact(SECOND_INPUTS).zip(&self.second_bias);
        for ((row, bias), weight) in rows.zip(&self.last) {
            let sum = bias.wrapping_add(product(&middle, row));
            last = last.wrapping_add(i32::from(clipped(sum)) * i32::from(*weight));
        }
        // 1 of the first layer is 600 of Stockfish's units, each 16 of the network's.
        let straight = i64::from(first[FIRST - 1]) * (600 * 16) / (i64::from(ONE) << BITS);
        last.wrapping_add(straight as i32)
    }
}

#[inline(always)]
fn clipped(value: i32) -> i16 {
    (value >> BITS).clamp(0, i32::from(ONE)) as i16
}

#[inline(always)]
fn product(inputs: &[i16], weights: &[i16]) -> i32 {
    inputs.iter().zip(weights).map(|(&input, &weight)| i32::from(input) * i32::from(weight)).sum()
}
