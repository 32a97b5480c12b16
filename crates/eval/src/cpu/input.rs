//! The input layer as data: for each branch, a row of folded weights for every state that a square
//! can be in and every kernel cell (the sum over the planes that the state sets; zeros where it
//! sets none), so that a kernel adds one row a neighbour without a branch.

use nets::{Branch, Encoding, kernel_start};

use super::memory::Lines;

/// Most lanes that one job accumulates in registers.
const MOST_LANES: usize = 64;

/// Most squares of a rank that are computed together.
const MOST_TOGETHER: usize = 4;

/// Squares beside the board on either side: where one of a group's neighbours lies on the board,
/// the others are no further out.
const BESIDE: usize = MOST_TOGETHER - 1;

/// Squares of a rank with those beside it.
pub(crate) const WIDE_RANK: usize = BESIDE + 8 + BESIDE;

/// Where a square stands on a board with squares beside it.
pub(crate) fn wide_place(square: usize) -> usize {
    square / 8 * WIDE_RANK + BESIDE + square % 8
}

/// Squares of a rank whose `units` vectors of 8 lanes leave some of 16 registers free.
pub(crate) const fn together(units: usize) -> usize {
    match units {
        ..=3 => MOST_TOGETHER,
        4..=6 => 2,
        _ => 1,
    }
}

/// What each square, or each group of squares of a rank, reads in the order of the kernel cells.
#[derive(Debug)]
pub(crate) struct SquareReads {
    /// Where in `list` each group begins; one more at the end.
    starts: Vec<u16>,
    /// The place that the group's first square reads, the others those after it, and the element
    /// offset of the kernel cell from its state in [`Job::table`].
    list: Vec<(u32, u32)>,
}

impl SquareReads {
    /// For `together` squares at a time, some of which may find no board at a place that others
    /// read; `place` says where on the board that is read a square stands. Without a branch nothing
    /// is read.
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

    /// What the n-th square or group reads.
    pub fn of(&self, group: usize) -> &[(u32, u32)] {
        &self.list[usize::from(self.starts[group])..usize::from(self.starts[group + 1])]
    }
}

/// Channels of one branch that are computed together: some full vectors of 16 lanes and perhaps a
/// half one.
#[derive(Debug)]
pub(crate) struct Job {
    /// Full vectors of 16 lanes; they come first in a row.
    pub full: usize,
    /// Is there a vector of 8 lanes behind them?
    pub half: bool,
    /// First output channel of the full vectors and of the half one. Neither straddles a block of
    /// 32.
    pub full_at: usize,
    pub half_at: usize,
    /// What each square reads.
    pub squares: SquareReads,
    /// What each [`together`] squares read on the wide board, where those beside the board have the
    /// state that is none.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    pub groups: SquareReads,
    /// `[state, and one that is none: zeros][kernel cell][lanes]`; a board has few states, whose
    /// cells share cache lines.
    pub table: Lines<f32>,
    /// Elements from one state to the next.
    pub state_stride: usize,
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
    /// `weights[branch]` is `[channels][planes][rows][columns]`; `factors` and `bias` are the
    /// folded norm.
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
struct ChannelRange<'a> {
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
fn job(part: Option<&ChannelRange>, lanes: usize, at: usize, states: &[Vec<(usize, f32)>]) -> Job {
    let (full, half) = (lanes / 16, lanes % 16 == 8);
    // Full vectors begin at a multiple of 16, the half one fills the space before or behind.
    let half_first = at % 16 == 8;
    let (full_at, half_at) = match (half, half_first) {
        (true, true) => (at + 8, at),
        _ => (at, at + full * 16),
    };
    let cells = part.map_or(0, |part| part.branch.kernel[0] * part.branch.kernel[1]);
    let state_stride = cells.max(1) * lanes;
    let mut table = Lines::zeroed((states.len() + 1) * state_stride);
    let mut padded_bias = Lines::zeroed(lanes);
    if let Some(part) = part {
        // Row place of the part's n-th channel: the full vectors come first in a row, whatever
        // their position.
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
    let groups = SquareReads::new(branch, together(lanes / 8), lanes, wide_place);
    Job { full, half, full_at, half_at, squares, groups, table, state_stride, bias: padded_bias }
}

/// The kernel cells of a branch that fall on the board around `square`, and the squares they fall
/// on.
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

    /// What a group reads for one of its squares is what that square reads by itself, in the same
    /// order, and nothing else but zeros.
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
            let together = together(job.lanes() / 8);
            let mut on_board = [None; 8 * WIDE_RANK];
            (0..64).for_each(|square| on_board[wide_place(square)] = Some(square as u32));
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
