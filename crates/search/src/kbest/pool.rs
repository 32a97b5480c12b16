//! The global pool of open positions: priority bins, most urgent first, last in first out within a
//! bin.
//!
//! Batch First (2018) ordered its bins by decisiveness: how far the next move's score stands out
//! from the mean of its position. Measured by evaluations to a given depth, another use of the same
//! bins is better: they grade how speculative a move is. Where a position expects its first move to
//! reach the separator, opening the second before the first is known is the more wasteful the
//! better that second move looks; where no move is expected to reach it, all are needed anyway.
//! Where move scores are a policy the level comes from the chance that the move will be needed
//! (`Frame`). Among equally speculative positions the one furthest from the root goes first, so
//! that what is begun is finished. (docs/2-search.md has the figures.)

use nets::{Calibration, MoveScores};

use super::frame::Frame;
use crate::view::{LEVELS, PLIES};

/// A position that waits for its next move to be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket {
    pub frame: u32,
    /// Only the latest ticket of a frame counts; see `Frame::ticket`.
    pub stamp: u32,
    pub ply: u16,
}

/// What comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// What is likeliest to be needed; doubts add up on the way from the root.
    Need,
    /// As in 2018: the next move that stands out most among those of its position, wherever that
    /// is.
    Decisiveness,
}

/// Bins by speculation, then by distance from the root.
#[derive(Debug)]
pub(super) struct Pool {
    bins: Vec<Vec<Ticket>>,
    /// Percentiles of |move score − mean of the position|, ascending, in the unit of the search's
    /// move scores.
    boundaries: Vec<f32>,
    /// No bin before this one holds a ticket.
    first: usize,
    size: usize,
}

/// Levels of speculation of the pool for each one that is shown to those who watch.
const FINE: usize = 3;

/// What opening the next move of a position adds to its speculation at most.
const LARGEST_STEP: usize = 6 * FINE;

impl Pool {
    /// With the bins of a network.
    pub(super) fn new(calibration: &Calibration) -> Self {
        // A search counts centipawns, or hundredths of a policy's logarithms.
        let unit = if calibration.move_scores == MoveScores::Policy { 100.0 } else { 1.0 };
        let boundaries = calibration.bins.iter().map(|&bin| unit * bin).collect();
        let bins = FINE * LEVELS * PLIES;
        Self { bins: vec![Vec::new(); bins], boundaries, first: bins, size: 0 }
    }

    /// Tickets inside, outdated ones included.
    pub(super) fn len(&self) -> usize {
        self.size
    }

    /// Tickets by level of speculation and distance from the root.
    pub(super) fn census(&self) -> [[u32; PLIES]; LEVELS] {
        let mut counts = [[0; PLIES]; LEVELS];
        for (bin, tickets) in self.bins.iter().enumerate() {
            // The order within a level is by nearness, see `push`.
            counts[bin / PLIES / FINE][PLIES - 1 - bin % PLIES] += tickets.len() as u32;
        }
        counts
    }

    pub(super) fn clear(&mut self) {
        self.bins.iter_mut().for_each(Vec::clear);
        self.first = self.bins.len();
        self.size = 0;
    }

    /// How speculative it is to open a move while earlier ones are undecided: from 0 for a move
    /// that is expected to miss the separator, since then every move is needed, by as many bins as
    /// its score lies above it. `excess`: score − separator, centipawns.
    pub(super) fn speculation(&self, excess: f32) -> u8 {
        let bins = self.boundaries.len().max(1);
        let above = self.boundaries.partition_point(|&boundary| boundary < excess);
        (above * LARGEST_STEP / bins) as u8
    }

    /// How little the next move of a frame stands out from the mean of its position: the level
    /// under [`Order::Decisiveness`].
    pub(super) fn indecision(&self, frame: &Frame) -> u8 {
        let Some(next) = frame.ranked.get(frame.next) else { return 0 };
        let scores = frame.ranked.iter().map(|ranked| f32::from(ranked.score()));
        let mean = scores.sum::<f32>() / frame.ranked.len() as f32;
        let outstanding = (f32::from(next.score()) - mean).abs();
        let bin = self.boundaries.partition_point(|&boundary| boundary < outstanding);
        ((self.boundaries.len() - bin) * (FINE * LEVELS - 1) / self.boundaries.len().max(1)) as u8
    }

    pub(super) fn push(&mut self, ticket: Ticket, speculation: u8) {
        let nearness = PLIES - 1 - usize::from(ticket.ply).min(PLIES - 1);
        let bin = usize::from(speculation).min(FINE * LEVELS - 1) * PLIES + nearness;
        self.bins[bin].push(ticket);
        self.first = self.first.min(bin);
        self.size += 1;
    }

    /// The most urgent ticket.
    pub(super) fn pop(&mut self) -> Option<Ticket> {
        while self.first < self.bins.len() {
            if let Some(ticket) = self.bins[self.first].pop() {
                self.size -= 1;
                return Some(ticket);
            }
            self.first += 1;
        }
        None
    }

    /// The level of the most urgent ticket, which may be outdated.
    pub(super) fn next_level(&mut self) -> Option<usize> {
        while self.bins.get(self.first).is_some_and(Vec::is_empty) {
            self.first += 1;
        }
        (self.first < self.bins.len()).then_some(self.first / PLIES)
    }

    /// Drops outdated tickets: the pool holds as much as there are open positions, however long a
    /// pass takes.
    pub(super) fn retain(&mut self, mut is_valid: impl FnMut(&Ticket) -> bool) {
        for bin in &mut self.bins {
            bin.retain(&mut is_valid);
            bin.shrink_to(2 * bin.len());
        }
        self.size = self.bins.iter().map(Vec::len).sum();
    }

    /// Of the tickets on top of the bins the one furthest from the root: keeps the tree small when
    /// memory is short.
    pub(super) fn pop_deepest(&mut self) -> Option<Ticket> {
        let bin =
            (self.first..self.bins.len()).filter(|&bin| !self.bins[bin].is_empty()).max_by_key(
                |&bin| (self.bins[bin].last().map(|ticket| ticket.ply), usize::MAX - bin),
            )?;
        self.size -= 1;
        self.bins[bin].pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_bins(bins: &[f32], move_scores: MoveScores) -> Pool {
        Pool::new(&Calibration { bins: bins.to_vec(), move_scores, ..Calibration::default() })
    }

    #[test]
    fn needed_before_speculative_then_deep_before_shallow() {
        let mut pool = with_bins(&[10.0, 100.0], MoveScores::Centipawns);
        let ticket = |frame, ply| Ticket { frame, stamp: 0, ply };
        pool.push(ticket(1, 3), 3);
        pool.push(ticket(2, 1), 0);
        pool.push(ticket(3, 2), 0);
        pool.push(ticket(4, 40), 0);
        pool.push(ticket(5, 2), 0);
        let census = pool.census();
        assert_eq!([census[1][3], census[0][1], census[0][2], census[0][PLIES - 1]], [1, 1, 2, 1]);
        assert_eq!(census.iter().flatten().sum::<u32>(), 5);
        let order: Vec<u32> =
            std::iter::from_fn(|| pool.pop()).map(|ticket| ticket.frame).collect();
        assert_eq!(order, [4, 5, 3, 2, 1]);
    }

    #[test]
    fn the_better_the_next_move_the_more_speculative() {
        let centipawns = with_bins(&[10.0, 100.0], MoveScores::Centipawns);
        // The file has logarithms, the search hundredths of them.
        let policy = with_bins(&[0.1, 1.0], MoveScores::Policy);
        for pool in [centipawns, policy] {
            assert_eq!(
                [-50.0, 0.0, 50.0, 500.0].map(|excess| pool.speculation(excess)),
                [0, 0, 9, 18]
            );
        }
    }
}
