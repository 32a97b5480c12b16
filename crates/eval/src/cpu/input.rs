//! The tables of the input layer. For each state of a square and each kernel cell there is a row of
//! weights: the sum over the planes that the state sets, with the batch norm folded in. A kernel
//! adds one row for each neighbour of a square, and rows of zeros need no test.

use nets::{Branch, Encoding, kernel_start};

use super::memory::CacheLines;

/// The most channels that a job keeps in registers.
const MOST_LANES: usize = 64;

/// The most squares of a rank that are computed at once.
const MOST_SQUARES: usize = 4;

/// Squares of padding at either end of a rank. If one square of a group has its neighbour on the
/// board, the neighbours of the others are at most this far outside.
const MARGIN: usize = MOST_SQUARES - 1;

/// Squares of a rank with its padding.
pub(crate) const PADDED_RANK: usize = MARGIN + 8 + MARGIN;

/// Index of a square on the padded board.
pub(crate) fn padded_square(square: usize) -> usize {
    square / 8 * PADDED_RANK + MARGIN + square % 8
}

/// Number of squares to compute at once, so that their sums of `units` vectors of 8 lanes fit into
/// 16 registers of eight lanes.
pub(crate) const fn squares_at_once(units: usize) -> usize {
    match units {
        ..=3 => MOST_SQUARES,
        4..=6 => 2,
        _ => 1,
    }
}

/// The table rows that each group of squares adds, in the order of the kernel cells. A group is
/// one square, or several squares of a rank.
#[derive(Debug)]
pub(crate) struct SquareReads {
    /// Index in `list` of each group's first entry; one more at the end.
    starts: Vec<u16>,
    /// Index of the neighbour of the group's first square (those of the others follow it), and
    /// element offset of the kernel cell within a state of [`Job::table`].
    list: Vec<(u32, u32)>,
}

impl SquareReads {
    /// Lists the reads of groups of `together` squares. `place` maps a square to its index on the
    /// board of the kernel. If only some squares of a group have a neighbour on the board, the
    /// others read padding. Without a branch the lists are empty.
    fn new(
        branch: Option<&Branch>,
        together: usize,
        lanes: usize,
        place: fn(usize) -> usize,
    ) -> Self {
        let mut reads = Self { starts: vec![0; 64 / together + 1], list: Vec::new() };
        let Some(branch) = branch else { return reads };
        for group in 0..64 / together {
            let mut places = vec![None; branch.kernel[0] * branch.kernel[1]];
            for n in 0..together {
                for (cell, neighbour) in neighbours(branch, group * together + n) {
                    places[cell] = Some(place(neighbour) - n);
                }
            }
            for (cell, place) in places.into_iter().enumerate() {
                reads.list.extend(place.map(|place| (place as u32, (cell * lanes) as u32)));
            }
            reads.starts[group + 1] = reads.list.len() as u16;
        }
        reads
    }

    /// The reads of a group.
    pub fn of(&self, group: usize) -> &[(u32, u32)] {
        &self.list[usize::from(self.starts[group])..usize::from(self.starts[group + 1])]
    }
}

/// Channels of one branch whose sums are kept in registers together: full vectors of 16 lanes and,
/// if `half`, one of 8 lanes.
#[derive(Debug)]
pub(crate) struct Job {
    /// Number of full vectors. They come first in a row of the table.
    pub full: usize,
    /// Does a vector of 8 lanes follow them?
    pub half: bool,
    /// First output channel of the full vectors.
    pub full_at: usize,
    /// First output channel of the half vector. No vector straddles a block of 32 channels.
    pub half_at: usize,
    /// The reads of each square.
    pub squares: SquareReads,
    /// The reads of each group of [`squares_at_once`] squares on the padded board. Padding has the
    /// state behind the last one, whose weights are zero.
    #[cfg_attr(not(any(target_arch = "x86_64", target_arch = "aarch64")), allow(dead_code))]
    pub groups: SquareReads,
    /// `[states + 1][kernel cells][lanes]`. The last state is that of padding. A board has few
    /// different states, and the rows of a state are adjacent in memory.
    pub table: CacheLines<f32>,
    /// Elements from one state to the next.
    pub state_stride: usize,
    /// `[lanes]`
    pub bias: CacheLines<f32>,
}

impl Job {
    /// Channels of a row of the table.
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
    /// Builds the table. Also returns the position of each channel among the padded ones.
    ///
    /// `weights[branch]` is `[channels][planes][rows][columns]`; `factors` and `bias` are the folded
    /// batch norm, one for each channel.
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
                    // Full vectors begin at multiples of 16, so the gap is filled with zeros.
                    jobs.push(job(None, 8, next, &states));
                    next += 8;
                }
                let part = ChannelRange {
                    branch,
                    weight,
                    planes,
                    first: done,
                    count,
                    channel,
                    factors,
                    bias,
                };
                jobs.push(job(Some(&part), count.next_multiple_of(8), next, &states));
                positions.extend(next..next + count);
                next += count.next_multiple_of(8);
                done += count;
                channel += count;
            }
        }
        // The lanes up to the end of the last block are written as zeros.
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
struct ChannelRange<'a> {
    branch: &'a Branch,
    weight: &'a [f32],
    planes: usize,
    /// First channel, counted in the branch.
    first: usize,
    /// First channel, counted in the layer.
    channel: usize,
    count: usize,
    factors: &'a [f32],
    bias: &'a [f32],
}

/// The job of `lanes` channels (a multiple of 8) from position `at`. Without a part its outputs are
/// zero.
fn job(part: Option<&ChannelRange>, lanes: usize, at: usize, states: &[Vec<(usize, f32)>]) -> Job {
    let (full, half) = (lanes / 16, lanes % 16 == 8);
    // Full vectors begin at a multiple of 16; the half one comes before or behind them.
    let half_first = at % 16 == 8;
    let (full_at, half_at) = match (half, half_first) {
        (true, true) => (at + 8, at),
        _ => (at, at + full * 16),
    };
    let cells = part.map_or(0, |part| part.branch.kernel[0] * part.branch.kernel[1]);
    let state_stride = cells.max(1) * lanes;
    let mut table = CacheLines::zeroed((states.len() + 1) * state_stride);
    let mut padded_bias = CacheLines::zeroed(lanes);
    if let Some(part) = part {
        // Index in a row of the part's n-th channel. The full vectors come first in a row, even if
        // the half one comes first in the output.
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
    }
    let branch = part.map(|part| part.branch);
    let squares = SquareReads::new(branch, 1, lanes, |square| square);
    let groups = SquareReads::new(branch, squares_at_once(lanes / 8), lanes, padded_square);
    Job { full, half, full_at, half_at, squares, groups, table, state_stride, bias: padded_bias }
}

/// The kernel cells of a branch that are on the board around `square`, each with its square.
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
            if let (Some(rank), Some(file)) =
                (step(0, square / 8, row), step(1, square % 8, column))
            {
                list.push((row * branch.kernel[1] + column, rank * 8 + file));
            }
        }
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A group reads for each of its squares the rows that the square reads alone, in the same
    /// order; all other rows that it reads are zero.
    #[test]
    fn groups_read_the_rows_of_their_squares() {
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
            let part = ChannelRange {
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
            let together = squares_at_once(job.lanes() / 8);
            let mut on_board = [None; 8 * PADDED_RANK];
            (0..64).for_each(|square| on_board[padded_square(square)] = Some(square as u32));
            for square in 0..64 {
                let group = job.groups.of(square / together).iter();
                let read: Vec<(u32, u32)> = group
                    .filter_map(|&(place, cell)| {
                        Some((on_board[place as usize + square % together]?, cell))
                    })
                    .collect();
                assert_eq!(
                    read,
                    job.squares.of(square),
                    "{kernel:?}, {dilation:?}, square {square}"
                );
                let expected: Vec<_> = neighbours(&branch, square)
                    .into_iter()
                    .map(|(cell, neighbour)| (neighbour as u32, (cell * job.lanes()) as u32))
                    .collect();
                assert_eq!(read, expected);
            }
            let nothing = &job.table.as_slice()[states.len() * job.state_stride..];
            assert!(
                nothing.len() == job.state_stride && nothing.iter().all(|&weight| weight == 0.0)
            );
        }
    }
}
