//! The inside of a running K-best search, for those who watch: what its queue holds, how full its
//! batches are, and between which bounds the value lies. A view is made when somebody asks for one
//! ([`crate::Control::ask_for_view`]).

use std::time::Duration;

/// Levels of priority that are shown; the queue itself tells more apart.
pub const LEVELS: usize = 16;

/// Distances from the root that the queue tells apart; the last stands for all beyond, too.
pub const PLIES: usize = 16;

/// A moment of a search.
#[derive(Clone, Debug)]
pub struct View {
    /// Depth that is being searched, in plies.
    pub depth: u32,
    /// Rank of the line that is being searched, from 1.
    pub line: usize,
    /// Between these the value of the line lies at this depth, for the side to move: centipawns,
    /// mates beyond ±30,000.
    pub lower: i32,
    pub upper: i32,
    /// The question of this pass: is the value at least this?
    pub bound: i32,
    /// Positions of this pass that are neither decided nor dropped.
    pub open: usize,
    /// Queue entries in the queue by priority and by distance from the root, outdated ones included.
    pub bins: [[u32; PLIES]; LEVELS],
    /// Positions of the latest batch, and how many it might have held.
    pub batch: usize,
    pub width: usize,
    /// Since the search began.
    pub batches: u64,
    pub evaluations: u64,
    pub elapsed: Duration,
}
