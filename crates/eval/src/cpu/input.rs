//! The input layer as data: for each branch, a row of folded weights for every state that a square can be in and every
//! kernel cell (the sum over the planes that the state sets; zeros where it sets none), so that a kernel adds one
//! row a neighbour without a branch.

use nets::{Branch, Encoding};

use super::memory::Lines;
use crate::reference::kernel_start;

/// Most lanes that one job accumulates in registers.
const MOST_LANES: usize = 64;

/// Squares beside a board on either side: no fewer than a group that finds the board somewhere reads beyond its edge.
const BESIDE: usize = 7;

/// Squares of a rank with those beside it.
pub(crate) const WIDE_RANK: usize = BESIDE + 8 + BESIDE;

/// Where a square stands on a board with squares beside it.
pub(crate) fn wide_place(square: usize) -> usize {
    square / 8 * WIDE_RANK + BESIDE + square % 8
}

/// Squares of a rank whose `units` vectors of 8 lanes leave some of 16 registers free.
pub(crate) const fn together(units: usize) -> usize {
    match units {
        ..=3 => 4,
        4..=6 => 2,
        _ => 1,
    }
}

/// Channels of one branch that are computed together: some full vectors of 16 lanes and perhaps a half one.
#[derive(Debug)]
pub(crate) struct Job {
    /// Full vectors of 16 lanes; they come first in a row.
    pub full: usize,
    /// Is there a vector of 8 lanes behind them?
    pub half: bool,
    /// First output channel of the full vectors and of the half one. Neither straddles a block of 32.
    pub full_at: usize,
    pub half_at: usize,
    /// For each square, where in `taps` its taps begin; one more at the end.
    pub starts: [u16; 65],
    /// The neighbour that is read and the element offset of its kernel cell from its state in `table`.
    pub taps: Vec<(u32, u32)>,
    /// The same for [`together`] squares of a rank at once: where the taps of each such group begin; one more at the end.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    pub group_starts: Vec<u16>,
    /// What the first square of a group reads, on the wide board, and the kernel cell's element offset. Some square of the
    /// group finds the board there; those that do not take the row of zeros.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    pub group_taps: Vec<(u32, u32)>,
    /// `[state, and one that is none: zeros][kernel cell][lanes]`; a board has few states, whose cells share cache lines.
    pub table: Lines<f32>,
    /// Elements from one state to the next.
    pub state_stride: usize,
    /// States; the zeros come after them.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    pub states: usize,
    /// `[lanes]`
    pub bias: Lines<f32>,
}

impl Job {
    /// Channels in a row of the table.
    pub fn lanes(&self) -> usize {
        self.full * 16 + usize::from(self.half) * 8
    }
}

/// All jobs of an input layer.
#[derive(Debug)]
pub(crate) struct InputTable {
    pub jobs: Vec<Job>,
    pub relu: bool,
    width: usize,
}

impl InputTable {
    /// Builds the table; also gives the position of each channel among the padded ones.
    ///
    /// `weights[branch]` is `[channels][planes][rows][columns]`; `factors` and `bias` are the folded norm.
    pub fn new(
        encoding: Encoding,
        branches: &[Branch],
        weights: &[&[f32]],
        factors: &[f32],
        bias: &[f32],
        relu: bool,
    ) -> (Self, Vec<usize>) {
        let states: Vec<Vec<(usize, f32)>> =
            (0..encoding.states()).map(|state| encoding.planes_of(state)).collect();
        let planes = encoding.planes();
        let (mut jobs, mut positions, mut next, mut channel) = (Vec::new(), Vec::new(), 0, 0);
        for (branch, weight) in branches.iter().zip(weights) {
            let mut done = 0;
            while done < branch.channels {
                let count = (branch.channels - done).min(MOST_LANES);
                if next % 16 == 8 && count.next_multiple_of(8) % 16 == 0 {
                    // Full vectors only begin at multiples of 16: fill the gap.
                    jobs.push(job(None, 8, next, &states));
                    next += 8;
                }
                let part = Part { branch, weight, planes, first: done, count, channel, factors, bias };
                jobs.push(job(Some(&part), count.next_multiple_of(8), next, &states));
                positions.extend(next..next + count);
                next += count.next_multiple_of(8);
                done += count;
                channel += count;
            }
        }
        // Lanes up to the end of the last block are written as well, as zeros.
        while next % 32 != 0 {
            let lanes = if next % 16 == 8 { 8 } else { 32 - next % 32 };
            jobs.push(job(None, lanes, next, &states));
            next += lanes;
        }
        (Self { jobs, relu, width: next }, positions)
    }

    /// Padded output channels.
    pub fn width(&self) -> usize {
        self.width
    }
}

/// Consecutive channels of a branch.
struct Part<'a> {
    branch: &'a Branch,
    weight: &'a [f32],
    planes: usize,
    /// First channel in the branch, and in the layer.
    first: usize,
    channel: usize,
    count: usize,
    factors: &'a [f32],
    bias: &'a [f32],
}

/// The job of `lanes` (a multiple of 8) channels from position `at`; without a part, zeros.
fn job(part: Option<&Part>, lanes: usize, at: usize, states: &[Vec<(usize, f32)>]) -> Job {
    let (full, half) = (lanes / 16, lanes % 16 == 8);
    // Full vectors begin at a multiple of 16, the half one fills what is left before or behind.
    let half_first = at % 16 == 8;
    let (full_at, half_at) = match (half, half_first) {
        (true, true) => (at + 8, at),
        _ => (at, at + full * 16),
    };
    let cells = part.map_or(0, |part| part.branch.kernel[0] * part.branch.kernel[1]);
    let state_stride = cells.max(1) * lanes;
    let mut table = Lines::zeroed((states.len() + 1) * state_stride);
    let mut padded_bias = Lines::zeroed(lanes);
    let mut starts = [0_u16; 65];
    let mut taps = Vec::new();
    let together = together(lanes / 8);
    let (mut group_starts, mut group_taps) = (vec![0_u16; 64 / together + 1], Vec::new());
    if let Some(part) = part {
        // Row place of the part's n-th channel: the full vectors come first in a row, whatever their position.
        let place = |n: usize| match (half && half_first, n < 8) {
            (true, true) => full * 16 + n,
            (true, false) => n - 8,
            _ => n,
        };
        for n in 0..part.count {
            let factor = part.factors[part.channel + n];
            padded_bias.as_mut_slice()[place(n)] = part.bias[part.channel + n];
            for (state, planes) in states.iter().enumerate() {
                for cell in 0..cells {
                    let to = state * state_stride + cell * lanes + place(n);
                    for &(plane, value) in planes {
                        let from = ((part.first + n) * part.planes + plane) * cells + cell;
                        table.as_mut_slice()[to] += part.weight[from] * value * factor;
                    }
                }
            }
        }
        for square in 0..64 {
            for (cell, neighbour) in neighbours(part.branch, square) {
                taps.push((neighbour as u32, (cell * lanes) as u32));
            }
            starts[square + 1] = taps.len() as u16;
        }
        for group in 0..64 / together {
            // In the order of the cells, as for one square.
            let mut places = vec![None; cells];
            for n in 0..together {
                for (cell, neighbour) in neighbours(part.branch, group * together + n) {
                    places[cell] = Some(wide_place(neighbour) - n);
                }
            }
            let read = (0..).zip(places).filter_map(|(cell, place)| Some((cell, place?)));
            group_taps.extend(read.map(|(cell, place): (usize, _)| (place as u32, (cell * lanes) as u32)));
            group_starts[group + 1] = group_taps.len() as u16;
        }
    }
    let states = states.len();
    Job {
        full,
        half,
        full_at,
        half_at,
        starts,
        taps,
        group_starts,
        group_taps,
        table,
        state_stride,
        states,
        bias: padded_bias,
    }
}

/// The kernel cells of a branch that fall on the board around `square`, and the squares they fall on.
fn neighbours(branch: &Branch, square: usize) -> Vec<(usize, usize)> {
    let step = |axis: usize, place: usize, index: usize| {
        let start = kernel_start(branch.kernel[axis], branch.dilation[axis]);
        usize::try_from(place as isize + start + (index * branch.dilation[axis]) as isize)
            .ok()
            .filter(|&place| place < 8)
    };
    let mut list = Vec::new();
    for row in 0..branch.kernel[0] {
        for column in 0..branch.kernel[1] {
            if let (Some(rank), Some(file)) = (step(0, square / 8, row), step(1, square % 8, column)) {
                list.push((row * branch.kernel[1] + column, rank * 8 + file));
            }
        }
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a group reads for one of its squares is what that square reads by itself, in the same order, and nothing else
    /// but zeros.
    #[test]
    fn groups_of_squares_read_what_each_square_reads() {
        let states: Vec<Vec<(usize, f32)>> = vec![vec![(0, 1.0)]; 3];
        for (kernel, dilation, channels) in [
            ([3, 3], [1, 1], 24),
            ([3, 3], [7, 7], 6),
            ([2, 2], [2, 4], 6),
            ([3, 3], [2, 2], 40),
            ([8, 8], [1, 1], 64),
        ] {
            let branch = Branch { kernel, dilation, channels };
            let weight = vec![1.0; channels * kernel[0] * kernel[1]];
            let (factors, bias) = (vec![1.0; channels], vec![0.0; channels]);
            let part = Part {
                branch: &branch,
                weight: &weight,
                planes: 1,
                first: 0,
                channel: 0,
                count: channels,
                factors: &factors,
                bias: &bias,
            };
            let job = job(Some(&part), channels.next_multiple_of(8), 0, &states);
            let together = together(job.lanes() / 8);
            let mut on_board = [None; 8 * WIDE_RANK];
            (0..64).for_each(|square| on_board[wide_place(square)] = Some(square as u32));
            for square in 0..64 {
                let [from, to] = [square, square + 1].map(|square| usize::from(job.starts[square]));
                let group = square / together;
                let [first, last] = [group, group + 1].map(|group| usize::from(job.group_starts[group]));
                let read: Vec<(u32, u32)> = job.group_taps[first..last]
                    .iter()
                    .filter_map(|&(place, cell)| Some((on_board[place as usize + square % together]?, cell)))
                    .collect();
                assert_eq!(read, job.taps[from..to], "{kernel:?}, {dilation:?}, square {square}");
            }
            let nothing = &job.table.as_slice()[job.states * job.state_stride..];
            assert!(nothing.len() == job.state_stride && nothing.iter().all(|&weight| weight == 0.0));
        }
    }
}
