//! The boards that a table of the whole board summed up last. A search evaluates positions that are
//! a move or two apart, so a sum often takes fewer rows from an earlier one than from nothing.
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

/// Element offsets of rows, at most one a square.
pub(crate) struct Offsets {
    list: [u32; 64],
    count: usize,
}

impl Default for Offsets {
    fn default() -> Self {
        Self { list: [0; 64], count: 0 }
    }
}

impl Offsets {
    /// Adds an offset if it counts.
    #[inline(always)]
    pub fn push(&mut self, offset: u32, counts: bool) {
        self.list[self.count] = offset;
        self.count += usize::from(counts);
    }

    pub fn list(&self) -> &[u32] {
        &self.list[..self.count]
    }
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
            let rows = rows_between(states, kept);
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
        let mut part = [0; N];
        if let Some(board) = board {
            part.copy_from_slice(&self.sums.as_slice()[board * self.width + first..][..N]);
        }
        part
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

/// How many rows are added and taken away on the way from one board to the other, at most 128.
#[inline(always)]
fn rows_between(one: &[u8; 64], other: &[u8; 64]) -> u8 {
    let rows = |(one, other): (&u8, &u8)| {
        u8::from(one != other) * (u8::from(*one != 0) + u8::from(*other != 0))
    };
    one.iter().zip(other).map(rows).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_board_is_made_from_the_nearest_earlier_one() {
        let mut recent = RecentBoards::new(4);
        let (full, mut near) = ([1; 64], [1; 64]);
        let start = recent.start(&full);
        assert_eq!((start.from, start.differing, start.to), (None, u64::MAX, 0));
        recent.keep(start.to, 0, &[1, 2, 3, 4]);
        near[5] = 2;
        let start = recent.start(&near);
        assert_eq!((start.from, start.differing, start.to), (Some(0), 1 << 5, 1));
        assert_eq!((start.before, recent.part(start.from, 1)), (full, [2, 3]));
        assert_eq!(recent.part(None, 0), [0; 4]);
        // Nothing is nearer to an almost empty board than the empty one.
        let mut small = [0; 64];
        small[9] = 3;
        assert_eq!((recent.start(&small).from, recent.start(&[0; 64]).from), (None, None));
    }

    #[test]
    fn the_oldest_board_gives_way() {
        let mut recent = RecentBoards::new(4);
        for board in 0..KEPT {
            let start = recent.start(&[board as u8 + 1; 64]);
            assert_eq!((start.from, start.to), (None, board));
        }
        // From the place that it takes itself.
        let start = recent.start(&[1; 64]);
        assert_eq!((start.from, start.differing, start.to), (Some(0), 0, 0));
        assert_eq!(recent.start(&[200; 64]).to, 1);
        assert_eq!(recent.start(&[2; 64]).from, None);
    }
}
