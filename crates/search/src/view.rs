//! A view of a running K-best-first search: the contents of its queue, the fill of its batches, and
//! the bounds on the value. A view is made on request ([`crate::Control::ask_for_view`]).

use std::time::Duration;

/// Levels of priority in a view; the queue itself has more priorities.
pub const LEVELS: usize = 16;

/// Distances from the root that the queue distinguishes, in plies; the last one includes all larger
/// ones.
pub const PLIES: usize = 16;

/// The state of a search at one moment.
#[derive(Clone, Debug)]
pub struct View {
    /// Depth that is being searched, in plies.
    pub depth: u32,
    /// Rank of the line that is being searched, from 1.
    pub line: usize,
    /// The value of the line at this depth lies between `lower` and `upper`, for the side to move:
    /// centipawns, mates beyond ±30,000.
    pub lower: i32,
    pub upper: i32,
    /// The question of this pass: is the value at least this?
    pub bound: i32,
    /// Open nodes of this pass.
    pub open: usize,
    /// Entries in the queue by priority and by distance from the root, outdated ones included.
    pub bins: [[u32; PLIES]; LEVELS],
    /// Positions of the latest batch, and the largest number it could have held.
    pub batch: usize,
    pub width: usize,
    /// Counts since the search began.
    pub batches: u64,
    pub evaluations: u64,
    pub elapsed: Duration,
}
