//! The global queue of open positions: priority bins, most urgent first, last in first out within a
//! bin.
//!
//! Batch First (2018) ordered its bins by decisiveness: how far the next move's score stands out
//! from the mean of its position. Measured by evaluations to a given depth, another use of the same
//! bins is better: they grade how speculative a move is. Where a position expects its first move to
//! reach the bound, opening the second before the first is known is the more wasteful the
//! better that second move looks; where no move is expected to reach it, all are needed anyway.
//! Where move scores are a policy the level comes from the chance that the move will be needed
//! (`Node`). Among equally speculative positions the one furthest from the root goes first, so
//! that what is begun is finished. (docs/2-search.md has the figures.)

use nets::{Calibration, MoveScores};

use super::node::Node;
use crate::view::{LEVELS, PLIES};

/// A position that waits for its next move to be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QueueEntry {
    pub node: u32,
    /// Only the latest queue entry of a node counts; see `Node::queue entry`.
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

/// Bins by priority, then by distance from the root.
#[derive(Debug)]
pub(super) struct NodeQueue {
    bins: Vec<Vec<QueueEntry>>,
    /// Percentiles of |move score − mean of the position|, ascending, in the unit of the search's
    /// move scores.
    boundaries: Vec<f32>,
    /// No bin before this one holds a queue entry.
    first: usize,
    size: usize,
}

/// Levels of priority of the queue for each one that is shown to those who watch.
const FINE: usize = 3;

/// What opening the next move of a position adds to its priority at most.
const LARGEST_STEP: usize = 6 * FINE;

impl NodeQueue {
    /// With the bins of a network.
    pub(super) fn new(calibration: &Calibration) -> Self {
        // A search counts centipawns, or hundredths of a policy's logarithms.
        let unit = if calibration.move_scores == MoveScores::Policy { 100.0 } else { 1.0 };
        let boundaries = calibration.bins.iter().map(|&bin| unit * bin).collect();
        let bins = FINE * LEVELS * PLIES;
        Self { bins: vec![Vec::new(); bins], boundaries, first: bins, size: 0 }
    }

    /// Queue entries inside, outdated ones included.
    pub(super) fn len(&self) -> usize {
        self.size
    }

    /// Queue entries by level of priority and distance from the root.
    pub(super) fn counts(&self) -> [[u32; PLIES]; LEVELS] {
        let mut counts = [[0; PLIES]; LEVELS];
        for (bin, entries) in self.bins.iter().enumerate() {
            // The order within a level is by nearness, see `push`.
            counts[bin / PLIES / FINE][PLIES - 1 - bin % PLIES] += entries.len() as u32;
        }
        counts
    }

    pub(super) fn clear(&mut self) {
        self.bins.iter_mut().for_each(Vec::clear);
        self.first = self.bins.len();
        self.size = 0;
    }

    /// How speculative it is to open a move while earlier ones are undecided: from 0 for a move
    /// that is expected to miss the bound, since then every move is needed, by as many bins as
    /// its score lies above it. `excess`: score − bound, centipawns.
    pub(super) fn priority(&self, excess: f32) -> u8 {
        let bins = self.boundaries.len().max(1);
        let above = self.boundaries.partition_point(|&boundary| boundary < excess);
        (above * LARGEST_STEP / bins) as u8
    }

    /// How little the next move of a node stands out from the mean of its position: the level
    /// under [`Order::Decisiveness`].
    pub(super) fn indecision(&self, node: &Node) -> u8 {
        let Some(next) = node.ordered.get(node.next) else { return 0 };
        let scores = node.ordered.iter().map(|ordered| f32::from(ordered.score()));
        let mean = scores.sum::<f32>() / node.ordered.len() as f32;
        let outstanding = (f32::from(next.score()) - mean).abs();
        let bin = self.boundaries.partition_point(|&boundary| boundary < outstanding);
        ((self.boundaries.len() - bin) * (FINE * LEVELS - 1) / self.boundaries.len().max(1)) as u8
    }

    pub(super) fn push(&mut self, entry: QueueEntry, priority: u8) {
        let nearness = PLIES - 1 - usize::from(entry.ply).min(PLIES - 1);
        let bin = usize::from(priority).min(FINE * LEVELS - 1) * PLIES + nearness;
        self.bins[bin].push(entry);
        self.first = self.first.min(bin);
        self.size += 1;
    }

    /// The most urgent queue entry.
    pub(super) fn pop(&mut self) -> Option<QueueEntry> {
        while self.first < self.bins.len() {
            if let Some(entry) = self.bins[self.first].pop() {
                self.size -= 1;
                return Some(entry);
            }
            self.first += 1;
        }
        None
    }

    /// The level of the most urgent queue entry, which may be outdated.
    pub(super) fn next_priority(&mut self) -> Option<usize> {
        while self.bins.get(self.first).is_some_and(Vec::is_empty) {
            self.first += 1;
        }
        (self.first < self.bins.len()).then_some(self.first / PLIES)
    }

    /// Drops outdated queue entries: the queue holds as much as there are open positions, however long a
    /// pass takes.
    pub(super) fn retain(&mut self, mut is_valid: impl FnMut(&QueueEntry) -> bool) {
        for bin in &mut self.bins {
            bin.retain(&mut is_valid);
            bin.shrink_to(2 * bin.len());
        }
        self.size = self.bins.iter().map(Vec::len).sum();
    }

    /// Of the queue entries on top of the bins the one furthest from the root: keeps the tree small when
    /// memory is short.
    pub(super) fn pop_deepest(&mut self) -> Option<QueueEntry> {
        let bin = (self.first..self.bins.len())
            .filter(|&bin| !self.bins[bin].is_empty())
            .max_by_key(|&bin| (self.bins[bin].last().map(|entry| entry.ply), usize::MAX - bin))?;
        self.size -= 1;
        self.bins[bin].pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_bins(bins: &[f32], move_scores: MoveScores) -> NodeQueue {
        NodeQueue::new(&Calibration { bins: bins.to_vec(), move_scores, ..Calibration::default() })
    }

    #[test]
    fn needed_before_speculative_then_deep_before_shallow() {
        let mut queue = with_bins(&[10.0, 100.0], MoveScores::Centipawns);
        let entry = |node, ply| QueueEntry { node, stamp: 0, ply };
        queue.push(entry(1, 3), 3);
        queue.push(entry(2, 1), 0);
        queue.push(entry(3, 2), 0);
        queue.push(entry(4, 40), 0);
        queue.push(entry(5, 2), 0);
        let counts = queue.counts();
        assert_eq!([counts[1][3], counts[0][1], counts[0][2], counts[0][PLIES - 1]], [1, 1, 2, 1]);
        assert_eq!(counts.iter().flatten().sum::<u32>(), 5);
        let order: Vec<u32> = std::iter::from_fn(|| queue.pop()).map(|entry| entry.node).collect();
        assert_eq!(order, [4, 5, 3, 2, 1]);
    }

    #[test]
    fn the_better_the_next_move_the_more_speculative() {
        let centipawns = with_bins(&[10.0, 100.0], MoveScores::Centipawns);
        // The file has logarithms, the search hundredths of them.
        let policy = with_bins(&[0.1, 1.0], MoveScores::Policy);
        for queue in [centipawns, policy] {
            assert_eq!(
                [-50.0, 0.0, 50.0, 500.0].map(|excess| queue.priority(excess)),
                [0, 0, 9, 18]
            );
        }
    }
}
