//! Time controls and the clocks of a game: how long each side may think, and which side
//! has exceeded its time.

use std::{fmt, time::Duration};

use board::Color;
use uci::client::SearchRequest;

/// The limit of a player's thinking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeControl {
    Nodes(u64),
    Depth(u32),
    MoveTime(Duration),
    Clock { base: Duration, increment: Duration },
}

impl fmt::Display for TimeControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nodes(nodes) => write!(f, "{nodes} nodes"),
            Self::Depth(depth) => write!(f, "depth {depth}"),
            Self::MoveTime(time) => write!(f, "{} ms a move", time.as_millis()),
            Self::Clock { base, increment } => {
                write!(f, "{} s + {} s a move", base.as_secs_f64(), increment.as_secs_f64())
            }
        }
    }
}

/// The time controls of White and Black and their remaining times.
pub(crate) struct Clocks {
    controls: [TimeControl; 2],
    remaining: [Duration; 2],
}

impl Clocks {
    pub(crate) fn new(controls: [TimeControl; 2]) -> Self {
        let remaining = controls.map(|control| match control {
            TimeControl::Clock { base, .. } => base,
            _ => Duration::ZERO,
        });
        Self { controls, remaining }
    }

    /// The request for the side to move. An opponent without a clock is shown with the clock of the
    /// side to move.
    pub(crate) fn request(&self, turn: Color) -> SearchRequest {
        let clock = |side: Color| match self.controls[index(side)] {
            TimeControl::Clock { increment, .. } => Some((self.remaining[index(side)], increment)),
            _ => None,
        };
        match self.controls[index(turn)] {
            TimeControl::Nodes(nodes) => SearchRequest::Nodes(nodes),
            TimeControl::Depth(depth) => SearchRequest::Depth(depth),
            TimeControl::MoveTime(time) => SearchRequest::MoveTime(time),
            TimeControl::Clock { increment, .. } => {
                let own = (self.remaining[index(turn)], increment);
                let (white, white_increment) = clock(Color::White).unwrap_or(own);
                let (black, black_increment) = clock(Color::Black).unwrap_or(own);
                SearchRequest::Clock { white, black, white_increment, black_increment }
            }
        }
    }

    /// The longest time that the side may take for its move; `None` without a time limit.
    pub(crate) fn allowed(&self, side: Color) -> Option<Duration> {
        match self.controls[index(side)] {
            TimeControl::Nodes(_) | TimeControl::Depth(_) => None,
            TimeControl::MoveTime(time) => Some(time),
            TimeControl::Clock { .. } => Some(self.remaining[index(side)]),
        }
    }

    /// Takes the time of a move off the clock. `Some(excess)` if it exceeded the limit by more than
    /// `margin`.
    pub(crate) fn spend(
        &mut self,
        side: Color,
        elapsed: Duration,
        margin: Duration,
    ) -> Option<Duration> {
        let allowed = self.allowed(side)?;
        if elapsed > allowed + margin {
            return Some(elapsed - allowed);
        }
        if let TimeControl::Clock { increment, .. } = self.controls[index(side)] {
            self.remaining[index(side)] = allowed.saturating_sub(elapsed) + increment;
        }
        None
    }
}

fn index(side: Color) -> usize {
    usize::from(side.is_black())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_runs_down_and_gains_its_increment() {
        let second = Duration::from_secs(1);
        let control = TimeControl::Clock { base: second, increment: second / 10 };
        let mut clocks = Clocks::new([control; 2]);
        assert_eq!(clocks.spend(Color::White, second / 2, Duration::ZERO), None);
        assert_eq!(clocks.remaining, [second / 2 + second / 10, second]);
        assert_eq!(
            clocks.spend(Color::Black, second + second / 100, second / 50),
            None,
            "within the margin"
        );
        assert_eq!(clocks.remaining[1], second / 10);
        assert_eq!(clocks.spend(Color::Black, second, second / 50), Some(second - second / 10));
    }

    #[test]
    fn each_side_has_its_own_time_control() {
        let second = Duration::from_secs(1);
        let clock = TimeControl::Clock { base: second, increment: Duration::ZERO };
        let mut clocks = Clocks::new([TimeControl::Nodes(7), clock]);
        assert_eq!(clocks.request(Color::White), SearchRequest::Nodes(7));
        assert_eq!(clocks.spend(Color::White, 99 * second, Duration::ZERO), None);
        assert_eq!(clocks.spend(Color::Black, second / 4, Duration::ZERO), None);
        let left = second - second / 4;
        assert_eq!(
            clocks.request(Color::Black),
            SearchRequest::Clock {
                white: left,
                black: left,
                white_increment: Duration::ZERO,
                black_increment: Duration::ZERO
            }
        );
    }
}
