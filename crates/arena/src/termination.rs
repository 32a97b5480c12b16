//! Why a game ended, and the faults by which an engine loses one.

use std::time::Duration;

use board::{Color, GameEnd};
use uci::client::ClientError;

/// A fault of an engine, by which it loses the game. The text is one sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The process ended.
    Crash(String),
    /// The process is alive but has closed its output.
    ClosedOutput(String),
    /// Endless output without a move.
    Flood(String),
    /// No move within the limit and the stall time after it.
    Stall(String),
    IllegalMove(String),
    /// The move exceeded the limit by this time. A draw if the opponent could never mate.
    TimeForfeit(Duration),
}

impl Fault {
    /// The kind of the fault, for tables and PGN.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Crash(_) => "crash",
            Self::ClosedOutput(_) => "closed output",
            Self::Flood(_) => "flood",
            Self::Stall(_) => "stall",
            Self::IllegalMove(_) => "illegal move",
            Self::TimeForfeit(_) => "time forfeit",
        }
    }

    /// The fault as a sentence.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Crash(text)
            | Self::ClosedOutput(text)
            | Self::Flood(text)
            | Self::Stall(text)
            | Self::IllegalMove(text) => text.clone(),
            Self::TimeForfeit(late) => format!("the move came {} ms too late", late.as_millis()),
        }
    }
}

impl From<ClientError> for Fault {
    fn from(error: ClientError) -> Self {
        let text = error.to_string();
        match error {
            ClientError::Stalled { .. } | ClientError::NoHandshake { .. } => Self::Stall(text),
            ClientError::IllegalMove { .. } => Self::IllegalMove(text),
            ClientError::ClosedOutput { .. } => Self::ClosedOutput(text),
            ClientError::Flooded { .. } => Self::Flood(text),
            ClientError::Crashed { .. }
            | ClientError::Spawn { .. }
            | ClientError::NoOption { .. }
            | ClientError::BadValue { .. } => Self::Crash(text),
        }
    }
}

/// Why a game ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Termination {
    /// The rules of chess ended it.
    GameEnd(GameEnd),
    /// The scores of both engines agreed for long enough.
    Adjudicated,
    /// The endgame tables gave the result.
    Tablebase,
    /// It reached the limit of plies.
    PlyLimit,
    /// A fault of a side ended it.
    Fault { side: Color, fault: Fault },
}
