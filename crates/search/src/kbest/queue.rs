//! The global queue of open nodes: priority bins, the most urgent first, last in first out within a
//! bin.
//!
//! Batch First (2018) ordered its bins by decisiveness: how far the next move's score stands out
//! from the mean of its position. Measured by evaluations to a given depth, another use of the same
//! bins is better: they grade the chance that a move is not needed. If a node's first move is
//! expected to reach the bound, the next one is likely wasted, the likelier the further its own
//! score lies above the bound. If no move is expected to reach it, every move is needed. Where move
//! scores are a policy, the priority comes from the chance that the move will be needed
//! ([`super::priority`]). Of two nodes of one priority the one further from the root goes first, so
//! that begun lines are finished. Figures: docs/experiments/2026-11-queue-order.md.

use nets::{Calibration, MoveScores};

use crate::view::{LEVELS, PLIES};

/// A node that waits for its next move to be expanded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QueueEntry {
    /// The node's slot.
    pub node: u32,
    /// Number of this entry among those of its node; only the latest is valid
    /// (`Node::latest_entry`).
    pub stamp: u32,
    pub ply: u16,
}

/// What the priorities mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// What is likeliest to be needed comes first; priority costs add up from the root down.
    Need,
    /// As in 2018: the next move that stands out most among those of its position comes first, at
    /// any distance from the root.
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

/// Priorities of the queue for each level of a [`crate::View`].
const FINE: usize = 3;

/// The most that expanding the next move adds to a priority.
const LARGEST_STEP: usize = 6 * FINE;

impl NodeQueue {
    /// An empty queue with the bins of a network.
    pub(super) fn new(calibration: &Calibration) -> Self {
        // Move scores are centipawns, or hundredths of a policy's logarithms.
        let unit = if calibration.move_scores == MoveScores::Policy { 100.0 } else { 1.0 };
        let boundaries = calibration.bins.iter().map(|&bin| unit * bin).collect();
        let bins = FINE * LEVELS * PLIES;
        Self { bins: vec![Vec::new(); bins], boundaries, first: bins, size: 0 }
    }

    /// Number of entries, outdated ones included.
    pub(super) fn len(&self) -> usize {
        self.size
    }

    /// Entries by level of a [`crate::View`] and distance from the root.
    pub(super) fn counts(&self) -> [[u32; PLIES]; LEVELS] {
        let mut counts = [[0; PLIES]; LEVELS];
        for (bin, entries) in self.bins.iter().enumerate() {
            // Within a level bins are ordered by nearness, see `push`.
            counts[bin / PLIES / FINE][PLIES - 1 - bin % PLIES] += entries.len() as u32;
        }
        counts
    }

    pub(super) fn clear(&mut self) {
        self.bins.iter_mut().for_each(Vec::clear);
        self.first = self.bins.len();
        self.size = 0;
    }

    /// What expanding a move adds to the priority while earlier ones are undecided: 0 for a move
    /// that is expected to miss the bound, since then every move is needed; more by every bin that
    /// its score lies above the bound. `excess`: score − bound, centipawns.
    pub(super) fn priority(&self, excess: f32) -> u8 {
        let bins = self.boundaries.len().max(1);
        let above = self.boundaries.partition_point(|&boundary| boundary < excess);
        (above * LARGEST_STEP / bins) as u8
    }

    /// How little the next of a node's moves stands out from the mean of its position: the priority
    /// under [`Order::Decisiveness`]. `scores`: those of the node's moves, in their order.
    pub(super) fn indecision(
        &self,
        scores: impl ExactSizeIterator<Item = i16> + Clone,
        next: usize,
    ) -> u8 {
        let count = scores.len();
        let Some(score) = scores.clone().nth(next) else { return 0 };
        let mean = scores.map(f32::from).sum::<f32>() / count as f32;
        let outstanding = (f32::from(score) - mean).abs();
        let bin = self.boundaries.partition_point(|&boundary| boundary < outstanding);
        let bins = self.boundaries.len();
        ((bins - bin) * (FINE * LEVELS - 1) / bins.max(1)) as u8
    }

    pub(super) fn push(&mut self, entry: QueueEntry, priority: u8) {
        let nearness = PLIES - 1 - usize::from(entry.ply).min(PLIES - 1);
        let bin = usize::from(priority).min(FINE * LEVELS - 1) * PLIES + nearness;
        self.bins[bin].push(entry);
        self.first = self.first.min(bin);
        self.size += 1;
    }

    /// Takes the most urgent entry out.
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

    /// The priority of the most urgent entry, which may be outdated.
    pub(super) fn next_priority(&mut self) -> Option<usize> {
        while self.bins.get(self.first).is_some_and(Vec::is_empty) {
            self.first += 1;
        }
        (self.first < self.bins.len()).then_some(self.first / PLIES)
    }

    /// Drops outdated entries, so that the queue holds no more than the open nodes, however long a
    /// pass takes.
    pub(super) fn retain(&mut self, mut is_valid: impl FnMut(&QueueEntry) -> bool) {
        for bin in &mut self.bins {
            bin.retain(&mut is_valid);
            bin.shrink_to(2 * bin.len());
        }
        self.size = self.bins.iter().map(Vec::len).sum();
    }

    /// Takes out, of the last entries of all bins, the one furthest from the root: keeps the tree
    /// small when memory is short.
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
    fn lower_priorities_come_first_then_deeper_nodes() {
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
    fn better_next_moves_have_higher_priority_numbers() {
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
