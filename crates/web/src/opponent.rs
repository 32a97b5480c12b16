//! Whom a visitor plays: a system, Batch First on its small network, or the Maia of a rating.

use std::{fmt, str::FromStr};

use nets::System;

use crate::ApiError;

/// Name of [`Opponent::Fast`].
const FAST: &str = "batch-first-fast";

/// Whom a visitor plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opponent {
    /// A system on its own network.
    System(System),
    /// Batch First on the network `fast`.
    Fast,
    /// Plays the moves that people of this rating play.
    Maia(u32),
}

impl Opponent {
    /// The system that chooses the moves. A Maia chooses by chance, as ConvChess does.
    #[must_use]
    pub fn system(self) -> System {
        match self {
            Self::System(system) => system,
            Self::Fast => System::BatchFirst,
            Self::Maia(_) => System::ConvChess,
        }
    }

    /// The name in messages and in the file of games: `cockfish`, `maia-1500`.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::System(system) => system.name().to_owned(),
            Self::Fast => FAST.to_owned(),
            Self::Maia(rating) => format!("maia-{rating}"),
        }
    }

    /// The error where the server does not have the opponent.
    pub(crate) fn unavailable(self) -> ApiError {
        ApiError(match self {
            Self::System(_) | Self::Fast => format!("{self} is not available here."),
            Self::Maia(rating) => format!(
                "Maia {rating} is not available here. Start the server with the file \
                 maia-{rating}.pb.gz in the folder of its option --maia."
            ),
        })
    }
}

impl fmt::Display for Opponent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System(system) => system.fmt(f),
            Self::Fast => f.write_str("Batch First (fast)"),
            Self::Maia(rating) => write!(f, "Maia {rating}"),
        }
    }
}

impl FromStr for Opponent {
    type Err = String;

    /// Reads a [name](Opponent::name).
    fn from_str(text: &str) -> Result<Self, String> {
        if text == FAST {
            return Ok(Self::Fast);
        }
        match text.strip_prefix("maia-").and_then(|rating| rating.parse().ok()) {
            Some(rating) => Ok(Self::Maia(rating)),
            None => text.parse().map(Self::System),
        }
    }
}
