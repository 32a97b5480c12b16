//! The global pool of open positions: priority bins, most urgent first, last in first out within a bin.

/// A position that waits for its next move to be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket {
    pub frame: u32,
    /// Only the latest ticket of a frame counts; see `Frame::ticket`.
    pub stamp: u32,
    pub ply: u16,
}

/// Bins by speculation (how many moves that may prove needless were opened on the way here), then by decisiveness
/// (how far the next move's score stands out from the mean of its position; most decisive first).
#[derive(Debug)]
pub(super) struct Pool {
    bins: Vec<Vec<Ticket>>,
    /// Ascending; a score further out than boundary `i` belongs in front of bin `i`.
    boundaries: Vec<f32>,
    /// No bin before this one holds a ticket.
    first: usize,
    size: usize,
}

/// Levels of speculation told apart.
const LEVELS: usize = 8;

impl Pool {
    /// `boundaries`: ascending percentiles of |score − mean|, centipawns.
    pub(super) fn new(boundaries: &[f32]) -> Self {
        let bins = LEVELS * (boundaries.len() + 1);
        Self { bins: vec![Vec::new(); bins], boundaries: boundaries.to_vec(), first: bins, size: 0 }
    }

    /// Tickets inside, outdated ones included.
    pub(super) fn len(&self) -> usize {
        self.size
    }

    pub(super) fn clear(&mut self) {
        self.bins.iter_mut().for_each(Vec::clear);
        self.first = self.bins.len();
        self.size = 0;
    }

    /// `decisiveness`: |score − mean| of the next move in centipawns.
    pub(super) fn push(&mut self, ticket: Ticket, speculation: u8, decisiveness: f32) {
        let width = self.boundaries.len() + 1;
        let closer = self.boundaries.partition_point(|&boundary| boundary < decisiveness);
        let bin = usize::from(speculation).min(LEVELS - 1) * width + (width - 1 - closer);
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

    /// Of the tickets on top of the bins the one furthest from the root: finishes what is begun when memory is short.
    pub(super) fn pop_deepest(&mut self) -> Option<Ticket> {
        let bin = (self.first..self.bins.len())
            .filter(|&bin| !self.bins[bin].is_empty())
            .max_by_key(|&bin| (self.bins[bin].last().map(|ticket| ticket.ply), usize::MAX - bin))?;
        self.size -= 1;
        self.bins[bin].pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needed_before_speculative_then_decisive_before_even() {
        let mut pool = Pool::new(&[10.0, 100.0]);
        let ticket = |frame| Ticket { frame, stamp: 0, ply: 1 };
        pool.push(ticket(1), 1, 500.0);
        pool.push(ticket(2), 0, 5.0);
        pool.push(ticket(3), 0, 50.0);
        pool.push(ticket(4), 0, 500.0);
        pool.push(ticket(5), 0, 500.0);
        let order: Vec<u32> = std::iter::from_fn(|| pool.pop()).map(|ticket| ticket.frame).collect();
        assert_eq!(order, [5, 4, 3, 2, 1]);
    }
}
