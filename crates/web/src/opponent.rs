//! Whom a visitor plays: a system, Batch First on its large network, or the Maia of a rating.

use std::{fmt, str::FromStr};

use nets::System;

use crate::ApiError;

/// Name of [`Opponent::Large`].
const LARGE: &str = "batch-first-large";

/// Stored games know Batch First on the network `fast` by this name, from when another was usual.
const FAST: &str = "batch-first-fast";

/// Whom a visitor plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opponent {
    /// A system on its own network.
    System(System),
    /// Batch First on the network `large`, where its usual one is another.
    Large,
    /// Plays the moves that people of this rating play.
    Maia(u32),
}

impl Opponent {
    /// The system that chooses the moves. A Maia chooses by chance, as ConvChess does.
    #[must_use]
    pub fn system(self) -> System {
        match self {
            Self::System(system) => system,
            Self::Large => System::BatchFirst,
            Self::Maia(_) => System::ConvChess,
        }
    }

    /// The name in messages and in the file of games: `cockfish`, `maia-1500`.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::System(system) => system.name().to_owned(),
            Self::Large => LARGE.to_owned(),
            Self::Maia(rating) => format!("maia-{rating}"),
        }
    }

    /// The error where the server does not have the opponent.
    pub(crate) fn unavailable(self) -> ApiError {
        ApiError(match self {
            Self::System(_) | Self::Large => format!("{self} is not available here."),
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
            Self::Large => f.write_str("Batch First (large)"),
            Self::Maia(rating) => write!(f, "Maia {rating}"),
        }
    }
}

impl FromStr for Opponent {
    type Err = String;

    /// Reads a [name](Opponent::name).
    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.strip_prefix("maia-").and_then(|rating| rating.parse().ok())) {
            (LARGE, _) => Ok(Self::Large),
            (FAST, _) => Ok(Self::System(System::BatchFirst)),
            (_, Some(rating)) => Ok(Self::Maia(rating)),
            (_, None) => text.parse().map(Self::System),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_again() {
        let systems = System::ALL.map(Opponent::System);
        for opponent in [&systems[..], &[Opponent::Large, Opponent::Maia(1500)]].concat() {
            assert_eq!(opponent.name().parse(), Ok(opponent));
        }
        assert!("maia-".parse::<Opponent>().is_err());
    }

    /// A stored game with the fast network goes on with Batch First's usual network.
    #[test]
    fn the_name_of_before_is_understood() {
        assert_eq!("batch-first-fast".parse(), Ok(Opponent::System(System::BatchFirst)));
    }
}
