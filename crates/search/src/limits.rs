//! The limits of a search.

use std::time::Duration;

use board::Move;

/// Largest depth of a search, in plies.
pub(crate) const LARGEST_DEPTH: u32 = 128;

/// The mover's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    pub remaining: Duration,
    pub increment: Duration,
    /// Moves until the next time control; `None` for sudden death.
    pub moves_to_go: Option<u32>,
}

/// Every limit that is given holds; without one the search runs until it is stopped.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// Plies; for PUCT the mean length of its playouts.
    pub depth: Option<u32>,
    /// Positions evaluated; never passed.
    pub nodes: Option<u64>,
    /// Wall time for this move, move overhead included.
    pub movetime: Option<Duration>,
    pub clock: Option<Clock>,
    /// Stop at a proven mate in at most this many moves.
    pub mate: Option<u32>,
    /// Only these moves at the root; empty: all.
    pub search_moves: Vec<Move>,
    /// The search does not end before it is stopped, whatever the other limits (`go infinite`).
    pub infinite: bool,
    /// As `infinite` until the ponder hit; then the other limits hold, counted from the ponder hit.
    pub ponder: bool,
    /// No limit: the caller wants the value of the position, not a move to play
    /// (`UCI_AnalyseMode`).
    pub analysis: bool,
}

impl Limits {
    /// May the root choose this move?
    #[must_use]
    pub fn allows(&self, mv: Move) -> bool {
        self.search_moves.is_empty() || self.search_moves.contains(&mv)
    }

    /// Is this a move of a game (a clock, a time or a number of evaluations, thinking in the
    /// opponent's time included), rather than an analysis (by depth alone, without an end, for a
    /// mate, or of some moves only)?
    #[must_use]
    pub fn is_move_to_play(&self) -> bool {
        let is_limited = self.clock.is_some() || self.movetime.is_some() || self.nodes.is_some();
        let is_analysis =
            self.analysis || self.infinite || self.mate.is_some() || !self.search_moves.is_empty();
        is_limited && !is_analysis
    }

    /// These limits with at most so many evaluations, if they are not those of an analysis.
    pub(crate) fn at_most(&self, evaluations: u64) -> Self {
        let is_analysis = self.analysis || self.infinite || self.mate.is_some();
        let nodes = self.nodes.unwrap_or(u64::MAX).min(evaluations);
        Self { nodes: if is_analysis { self.nodes } else { Some(nodes) }, ..self.clone() }
    }

    /// The limits that are left after `lost` time; the same limits while pondering.
    #[must_use]
    pub fn less(&self, lost: Duration) -> Self {
        let mut limits = self.clone();
        if limits.ponder {
            return limits;
        }
        if let Some(movetime) = &mut limits.movetime {
            *movetime = movetime.saturating_sub(lost);
        }
        if let Some(clock) = &mut limits.clock {
            clock.remaining = clock.remaining.saturating_sub(lost);
        }
        limits
    }

    /// The last depth to search: a mate in n moves is seen at depth 2n - 1.
    pub(crate) fn last_depth(&self) -> u32 {
        let depth = self.depth.unwrap_or(LARGEST_DEPTH).min(LARGEST_DEPTH);
        self.mate.map_or(depth, |mate| depth.min(mate.saturating_mul(2).saturating_sub(1).max(1)))
    }
}
