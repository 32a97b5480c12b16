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

    /// The name in messages, in the file of games and of a Maia's file: `cockfish`, `maia-1500`.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::System(system) => system.name().to_owned(),
            Self::Maia(rating) => format!("maia-{rating}"),
        }
    }

    /// Why an opponent that the server was not given cannot play, and what to do.
    pub(crate) fn unavailable(self) -> ApiError {
        let hint = match self {
            Self::System(_) => String::new(),
            Self::Maia(_) => format!(
                "; start the server with {}.pb.gz in the folder of its option --maia",
                self.name()
            ),
        };
        ApiError(format!("{self} is not available here{hint}"))
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
