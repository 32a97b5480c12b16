//! Layers without weights over the squares of one board, with their backward passes: averages
//! appended to the channels, and pooling.

use super::matmul::Element;
use nets::Pooling;

use super::passes::vectorised;

/// Channels of the rows of a layer that appends means.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowWidths {
    /// Channels before the layer, without padding.
    pub channels: usize,
    /// Channels of an input row, with padding.
    pub input: usize,
    /// Channels of an output row, with padding.
    pub output: usize,
}

vectorised! {
/// Appends to every cell each channel's mean over the board.
pub(super) fn append_mean<E: Element>(a: &[E], rows: RowWidths, means: &mut Vec<f32>, output: &mut [E]) {
    let RowWidths { channels, input, output: width } = rows;
    means.clear();
    means.resize(channels, 0.0);
    for cell in a.chunks_exact(input) {
        means.iter_mut().zip(cell).for_each(|(mean, a)| *mean += a.to_f32());
    }
    let share = input as f32 / a.len() as f32;
    for (cell, output) in a.chunks_exact(input).zip(output.chunks_exact_mut(width)) {
        output[..channels].copy_from_slice(&cell[..channels]);
        for (output, mean) in output[channels..2 * channels].iter_mut().zip(means.iter()) {
            *output = E::from_f32(mean * share);
        }
        output[2 * channels..].fill(E::default());
    }
}
}

vectorised! {
/// The backward pass of [`append_mean`]: each cell's own gradient plus its share of the means'
/// gradient.
pub(super) fn append_mean_backward<E: Element>(dz: &[E], rows: RowWidths, means: &mut Vec<f32>, da: &mut [f32]) {
    let RowWidths { channels, input, output: width } = rows;
    means.clear();
    means.resize(channels, 0.0);
    for cell in dz.chunks_exact(width) {
        means.iter_mut().zip(&cell[channels..]).for_each(|(mean, dz)| *mean += dz.to_f32());
    }
    let share = input as f32 / da.len() as f32;
    for (cell, da) in dz.chunks_exact(width).zip(da.chunks_exact_mut(input)) {
        for ((da, dz), mean) in da.iter_mut().zip(&cell[..channels]).zip(means.iter()) {
            *da = dz.to_f32() + mean * share;
        }
        da[channels..].fill(0.0);
    }
}
}

/// The input cells of output cell `cell` of a pooling, in order.
fn window(side: usize, size: usize, cell: usize) -> impl Iterator<Item = usize> {
    let (rank, file) = (cell / (side / size) * size, cell % (side / size) * size);
    (0..size * size).map(move |index| (rank + index / size) * side + file + index % size)
}

/// The cell with the largest value of a channel in a window (the first of equal ones), and that
/// value.
fn largest<E: Element>(
    a: &[E],
    width: usize,
    channel: usize,
    window: impl Iterator<Item = usize>,
) -> (usize, f32) {
    window.fold((0, f32::NEG_INFINITY), |best, cell| {
        let value = a[cell * width + channel].to_f32();
        if value > best.1 { (cell, value) } else { best }
    })
}

/// Pools a board of side `side`; input and output rows have the same width.
pub(super) fn pool<E: Element>(
    a: &[E],
    (side, width): (usize, usize),
    (pooling, size): (Pooling, usize),
    output: &mut [E],
) {
    for (cell, row) in output.chunks_exact_mut(width).enumerate() {
        for (channel, output) in row.iter_mut().enumerate() {
            *output = E::from_f32(match pooling {
                Pooling::Max => largest(a, width, channel, window(side, size, cell)).1,
                Pooling::Average => {
                    let values =
                        window(side, size, cell).map(|cell| a[cell * width + channel].to_f32());
                    values.sum::<f32>() / (size * size) as f32
                }
            });
        }
    }
}

/// The backward pass of [`pool`].
pub(super) fn pool_backward<E: Element>(
    a: &[E],
    dz: &[E],
    (side, width): (usize, usize),
    (pooling, size): (Pooling, usize),
    da: &mut [f32],
) {
    da.fill(0.0);
    for (cell, row) in dz.chunks_exact(width).enumerate() {
        for (channel, dz) in row.iter().enumerate() {
            let dz = dz.to_f32();
            match pooling {
                Pooling::Max => {
                    let (input, _) = largest(a, width, channel, window(side, size, cell));
                    da[input * width + channel] = dz;
                }
                Pooling::Average => {
                    for input in window(side, size, cell) {
                        da[input * width + channel] = dz / (size * size) as f32;
                    }
                }
            }
        }
    }
}
