//! The sparse input layer: each plane set on a square adds a slab of weights to the outputs of all
//! squares that a branch reaches from it. The backward pass collects the slab's gradient from the
//! same outputs.

use super::matmul::Element;
use board::Color;
use nets::{Branch, Encoding, Squares};

use super::passes::vectorised;

/// Consecutive output channels of one target square that depend on one source square.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChannelRun {
    /// First element within the plane's slab.
    slab: u32,
    /// First element within the board's outputs.
    target: u32,
    length: u32,
}

/// The layout of the branches' weights in the slabs, and the targets of each square's slab.
#[derive(Clone, Debug)]
pub(super) struct InputLayer {
    encoding: Encoding,
    /// The planes set by each state of a square, with their values.
    states: Vec<Vec<(usize, f32)>>,
    /// Elements of one plane's slab; the slabs of all planes are contiguous.
    slab: usize,
    /// Slab offset of each tap (rows, then columns) of each branch.
    taps: Vec<Vec<usize>>,
    /// Channels of each branch.
    channels: Vec<usize>,
    /// The runs of each source square.
    runs: Vec<Vec<ChannelRun>>,
}

impl InputLayer {
    /// Lays out `branches` for boards of `width` channels for each square.
    pub fn new(encoding: Encoding, branches: &[Branch], width: usize) -> Self {
        // Sorted by offset, so that all branches that touch the centre form one run.
        let mut entries = Vec::new();
        let mut first_channel = 0;
        for (index, branch) in branches.iter().enumerate() {
            let reach = |axis: usize, tap: usize| {
                let (kernel, dilation) = (branch.kernel[axis], branch.dilation[axis]);
                (dilation * tap) as i32 - (dilation * (kernel - 1) / 2) as i32
            };
            for row in 0..branch.kernel[0] {
                for column in 0..branch.kernel[1] {
                    let tap = row * branch.kernel[1] + column;
                    entries.push((reach(0, row), reach(1, column), first_channel, index, tap));
                }
            }
            first_channel += branch.channels;
        }
        entries.sort_unstable();
        let channels: Vec<usize> = branches.iter().map(|branch| branch.channels).collect();
        let mut taps: Vec<Vec<usize>> =
            branches.iter().map(|branch| vec![0; branch.kernel[0] * branch.kernel[1]]).collect();
        let mut slab = 0;
        let mut runs: Vec<Vec<ChannelRun>> = vec![Vec::new(); 64];
        for (ranks, files, first, index, tap) in entries {
            taps[index][tap] = slab;
            for (square, runs) in runs.iter_mut().enumerate() {
                let rank = (square / 8) as i32 - ranks;
                let file = (square % 8) as i32 - files;
                if !(0..8).contains(&rank) || !(0..8).contains(&file) {
                    continue;
                }
                let target = (rank * 8 + file) as usize * width + first;
                let run = ChannelRun {
                    slab: slab as u32,
                    target: target as u32,
                    length: channels[index] as u32,
                };
                match runs.last_mut() {
                    Some(last)
                        if last.slab + last.length == run.slab
                            && last.target + last.length == run.target =>
                    {
                        last.length += run.length;
                    }
                    _ => runs.push(run),
                }
            }
            slab += channels[index];
        }
        let states = (0..encoding.states()).map(|state| encoding.planes_of(state)).collect();
        Self { encoding, states, slab, taps, channels, runs }
    }

    /// Elements of the slabs of all planes.
    pub fn size(&self) -> usize {
        self.encoding.planes() * self.slab
    }

    /// The state of every square of a board.
    pub fn states_of(&self, squares: &Squares, turn: Color) -> [u8; 64] {
        self.encoding.states_of(squares, turn)
    }

    /// The square, the start of the slab and the value of each set plane.
    #[inline(always)]
    fn active(&self, states: &[u8; 64]) -> impl Iterator<Item = (usize, usize, f32)> {
        states.iter().enumerate().flat_map(move |(square, &state)| {
            let planes = self.states.get(usize::from(state)).map_or(&[][..], Vec::as_slice);
            planes.iter().map(move |&(plane, value)| (square, plane * self.slab, value))
        })
    }

    /// Elements of one branch's parameter.
    pub fn branch_size(&self, branch: usize) -> usize {
        self.encoding.planes() * self.taps[branch].len() * self.channels[branch]
    }

    /// The index in a branch's parameter `[planes, taps, channels]` of each element of its tensor
    /// `[channels, planes, rows, columns]`.
    pub fn branch_places(&self, branch: usize) -> Vec<u32> {
        let (taps, channels) = (self.taps[branch].len(), self.channels[branch]);
        let mut places = Vec::with_capacity(self.branch_size(branch));
        for channel in 0..channels {
            for plane in 0..self.encoding.planes() {
                places.extend(
                    (0..taps).map(|tap| ((plane * taps + tap) * channels + channel) as u32),
                );
            }
        }
        places
    }

    /// Copies a branch's parameter into the slabs.
    pub fn fill(&self, branch: usize, parameter: &[f32], slabs: &mut [f32]) {
        self.each_tap(branch, |own, slab| slabs[slab].copy_from_slice(&parameter[own]));
    }

    /// Copies the slabs' gradient into a branch's.
    pub fn collect(&self, branch: usize, slabs: &[f32], gradient: &mut [f32]) {
        self.each_tap(branch, |own, slab| gradient[own].copy_from_slice(&slabs[slab]));
    }

    /// Calls `copy` with the range of each tap in the branch's parameter and in the slabs.
    fn each_tap(
        &self,
        branch: usize,
        mut copy: impl FnMut(std::ops::Range<usize>, std::ops::Range<usize>),
    ) {
        let channels = self.channels[branch];
        let taps = &self.taps[branch];
        for plane in 0..self.encoding.planes() {
            for (tap, &offset) in taps.iter().enumerate() {
                let own = (plane * taps.len() + tap) * channels;
                let slab = plane * self.slab + offset;
                copy(own..own + channels, slab..slab + channels);
            }
        }
    }
}

vectorised! {
/// Computes one board's outputs in `sums` (`[64, width]`, zeroed first).
pub(super) fn input_forward(layer: &InputLayer, slabs: &[f32], states: &[u8; 64], sums: &mut [f32]) {
    sums.fill(0.0);
    for (square, from, value) in layer.active(states) {
        let slab = &slabs[from..from + layer.slab];
        for run in &layer.runs[square] {
            let length = run.length as usize;
            let weights = &slab[run.slab as usize..][..length];
            let sums = &mut sums[run.target as usize..][..length];
            for (sum, weight) in sums.iter_mut().zip(weights) {
                *sum += value * weight;
            }
        }
    }
}
}

vectorised! {
/// Adds one board's part to the gradient of the slabs.
pub(super) fn input_backward<E: Element>(layer: &InputLayer, dy: &[E], states: &[u8; 64], gradient: &mut [f32]) {
    for (square, from, value) in layer.active(states) {
        let slab = &mut gradient[from..from + layer.slab];
        for run in &layer.runs[square] {
            let length = run.length as usize;
            let sums = &mut slab[run.slab as usize..][..length];
            let dy = &dy[run.target as usize..][..length];
            for (sum, dy) in sums.iter_mut().zip(dy) {
                *sum += value * dy.to_f32();
            }
        }
    }
}
}
