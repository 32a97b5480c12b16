//! The input of a network as numbers, for programs that run it in another runtime.

use crate::{BoardSeen, Encoding, LeelaPlanes};

/// The input planes of a board, `[planes][64]`: square a1 = 0 … h8 = 63 from the side to move
/// (from White's side where the [encoding](Encoding::is_whites_view) is), of the mirror image where
/// the encoding [sees that](Encoding::mirrors).
#[must_use]
pub fn input_planes(encoding: Encoding, seen: &BoardSeen<'_>) -> Vec<f32> {
    let mut numbers = vec![0.0; 64 * encoding.planes()];
    if let Encoding::Leela(form) = encoding {
        let planes = LeelaPlanes::of(seen, form);
        for (plane, numbers) in numbers.chunks_mut(64).enumerate() {
            for (square, number) in numbers.iter_mut().enumerate() {
                if planes.mask(plane) >> square & 1 == 1 {
                    *number = planes.value(plane);
                }
            }
        }
        return numbers;
    }
    for (square, state) in encoding.states_of(seen.squares, seen.turn).into_iter().enumerate() {
        for (plane, value) in encoding.planes_of(usize::from(state)) {
            numbers[plane * 64 + square] = value;
        }
    }
    numbers
}
