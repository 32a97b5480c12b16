//! What a search reports while it runs and when it ends.

use std::time::Duration;

use board::{Move, Score};
use nets::Wdl;

/// Is a score exact, or a bound on the true score?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    Exact,
    /// The true score is at least this.
    Lower,
    /// The true score is at most this.
    Upper,
}

/// One reported line.
#[derive(Clone, Debug)]
pub struct SearchInfo {
    /// Depth of the search in plies; for PUCT the mean length of its playouts.
    pub depth: u32,
    /// Deepest line in plies, quiescence included.
    pub seldepth: u32,
    /// Rank of this line, from 1.
    pub multipv: usize,
    pub score: Score,
    pub bound: Bound,
    pub wdl: Wdl,
    /// Moves until the game ends, as the network guesses for the root, where that is shown.
    pub moves_left: Option<u32>,
    /// Positions evaluated since the search began.
    pub nodes: u64,
    pub elapsed: Duration,
    /// Share of the memory for the tree that is in use, per mille.
    pub hashfull: u32,
    /// Principal variation, not empty.
    pub pv: Vec<Move>,
}

/// The result of a search.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// The move to play; `None` only where there is no legal move (or none allowed).
    pub best: Option<Move>,
    /// The expected reply.
    pub ponder: Option<Move>,
    /// The last complete set of lines, best first.
    pub lines: Vec<SearchInfo>,
    /// Positions evaluated.
    pub nodes: u64,
}
