//! Whom a visitor plays: a system, or the Maia of a rating.

use std::{fmt, str::FromStr};

use nets::System;

use crate::ApiError;

/// Whom a visitor plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opponent {
    System(System),
    /// Plays the moves that people of this rating play.
    Maia(u32),
}

impl Opponent {
    /// The system that chooses the moves. A Maia chooses by chance, as ConvChess does.
    #[must_use]
    pub fn system(self) -> System {
        match self {
            Self::System(system) => system,
            Self::Maia(_) => System::ConvChess,
        }
    }

    /// The name in messages and in the file of games: `cockfish`, `maia-1500`.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::System(system) => system.name().to_owned(),
            Self::Maia(rating) => format!("maia-{rating}"),
        }
    }

    /// The error where the server does not have the opponent.
    pub(crate) fn unavailable(self) -> ApiError {
        ApiError(match self {
            Self::System(system) => format!("{system} is not available here"),
            Self::Maia(rating) => format!(
                "Maia {rating} is not available here; start the server with maia-{rating}.pb.gz in \
                 the folder of its option --maia"
            ),
        })
    }
}

impl fmt::Display for Opponent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System(system) => system.fmt(f),
            Self::Maia(rating) => write!(f, "Maia {rating}"),
        }
    }
}

impl FromStr for Opponent {
    type Err = String;

    /// Reads a [name](Opponent::name).
    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("maia-").and_then(|rating| rating.parse().ok()) {
            Some(rating) => Ok(Self::Maia(rating)),
            None => text.parse().map(Self::System),
        }
    }
}
