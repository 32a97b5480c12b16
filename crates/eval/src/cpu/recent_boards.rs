//! The boards that a table of the whole board summed up last. A search evaluates positions that are
//! a move or two apart, so a sum is mostly made from an earlier one in a third of the additions.
//! Sums of 16 bits are exact, so the way to one makes no difference.

use super::memory::CacheLines;

/// Boards that are kept: each is compared with the next board.
const KEPT: usize = 16;

/// Boards and their sums, a ring.
#[derive(Debug)]
pub(crate) struct RecentBoards {
    /// The states of their squares; at first all 0, of which the sum is zero.
    states: [[u8; 64]; KEPT],
    /// `[boards][width]`
    sums: CacheLines<i16>,
    width: usize,
    oldest: usize,
}

/// How to make the sum of a board from that of an earlier one.
pub(crate) struct Start {
    /// The earlier sum; `None`: zero.
    pub from: Option<usize>,
    /// Squares whose state differs, and the state there.
    pub differing: u64,
    pub before: [u8; 64],
    /// Where the new sum is kept.
    pub to: usize,
}

impl Start {
    /// All rows are added.
    pub fn from_nothing(states: &[u8; 64]) -> Self {
        Self { from: None, differing: differing(states, &[0; 64]), before: [0; 64], to: 0 }
    }
}

impl RecentBoards {
    /// For a table with rows of this width.
    pub fn new(width: usize) -> Self {
        let sums = CacheLines::zeroed(KEPT * width);
        Self { states: [[0; 64]; KEPT], sums, width, oldest: 0 }
    }

    /// Chooses the earlier board from which `states` is made with the fewest rows, and keeps it.
    #[inline(always)]
    pub fn start(&mut self, states: &[u8; 64]) -> Start {
        let mut fewest = states.iter().map(|&state| u8::from(state != 0)).sum::<u8>();
        let mut from = None;
        for (place, kept) in self.states.iter().enumerate() {
            // A square that differs takes a row away and adds one.
            let rows = 2 * differing_squares(states, kept);
            if rows < fewest {
                (fewest, from) = (rows, Some(place));
            }
        }
        let before = from.map_or([0; 64], |place| self.states[place]);
        let differing = differing(states, &before);
        let to = self.oldest;
        self.states[to] = *states;
        self.oldest = (to + 1) % KEPT;
        Start { from, differing, before, to }
    }

    /// Consecutive sums of a kept board, from this channel on; zeros for none.
    #[inline(always)]
    pub fn part<const N: usize>(&self, board: Option<usize>, first: usize) -> [i16; N] {
        let part = board.and_then(|board| {
            self.sums.as_slice()[board * self.width + first..].first_chunk().copied()
        });
        part.unwrap_or([0; N])
    }

    /// Keeps sums of a board, from this channel on.
    #[inline(always)]
    pub fn keep<const N: usize>(&mut self, board: usize, first: usize, sums: &[i16; N]) {
        self.sums.as_mut_slice()[board * self.width + first..][..N].copy_from_slice(sums);
    }
}

/// A bit for each square.
#[inline(always)]
fn differing(one: &[u8; 64], other: &[u8; 64]) -> u64 {
    let squares = one.iter().zip(other).enumerate();
    squares.fold(0, |bits, (square, (one, other))| bits | u64::from(one != other) << square)
}

#[inline(always)]
fn differing_squares(one: &[u8; 64], other: &[u8; 64]) -> u8 {
    one.iter().zip(other).map(|(one, other)| u8::from(one != other)).sum()
}
