//! The strength of an engine: limits for each move, and the levels with a measured rating.

use std::time::Duration;

use engine::placings;
use nets::{Network, System};
use search::Limits;
use serde::{Deserialize, Serialize};

use crate::ApiError;

/// The limit of an engine for a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "value", rename_all = "snake_case")]
pub enum EngineLevel {
    /// Positions evaluated.
    Nodes(u64),
    /// Milliseconds.
    Time(u64),
    /// Plies.
    Depth(u32),
    /// The time that the engine's clock allows.
    Clock,
}

/// The most evaluations a move.
const MAX_NODES: u64 = 1_000_000;
/// The shortest time a move, in milliseconds.
const MIN_TIME: u64 = 10;
/// The longest time a move, in milliseconds.
const MAX_TIME: u64 = 60_000;
/// The greatest depth, in plies.
const MAX_DEPTH: u32 = 30;
/// Every search ends after this time, at any level.
const MAX_MOVE_TIME: Duration = Duration::from_secs(120);

impl EngineLevel {
    /// Checks that a visitor may choose this level; `has_clock`: the game has a clock.
    ///
    /// # Errors
    /// A sentence that names the limits.
    pub fn check(self, has_clock: bool) -> Result<(), ApiError> {
        let (is_allowed, limits) = match self {
            Self::Nodes(nodes) => (
                (1..=MAX_NODES).contains(&nodes),
                "The engine may evaluate 1 to 1,000,000 positions a move.",
            ),
            Self::Time(time) => (
                (MIN_TIME..=MAX_TIME).contains(&time),
                "The engine may think 0.01 to 60 seconds a move.",
            ),
            Self::Depth(depth) => (
                (1..=MAX_DEPTH).contains(&depth),
                "The engine may search to a depth of 1 to 30 plies.",
            ),
            Self::Clock => (has_clock, "Choose a clock for the game, or a fixed thinking time."),
        };
        if is_allowed { Ok(()) } else { Err(ApiError::new(limits)) }
    }

    /// The limits of one move.
    #[must_use]
    pub fn limits(self) -> Limits {
        let limits = Limits { movetime: Some(MAX_MOVE_TIME), ..Limits::default() };
        match self {
            Self::Nodes(nodes) => Limits { nodes: Some(nodes), ..limits },
            Self::Time(time) => Limits { movetime: Some(Duration::from_millis(time)), ..limits },
            Self::Depth(depth) => Limits { depth: Some(depth), ..limits },
            Self::Clock => limits,
        }
    }

    /// The level in words, as in `1,000 positions a move`.
    #[must_use]
    pub fn describe(self) -> String {
        match self {
            Self::Nodes(1) => "1 position a move".to_owned(),
            Self::Nodes(nodes) => format!("{} positions a move", grouped(nodes)),
            Self::Time(time) => format!("{} s a move", time as f64 / 1000.0),
            Self::Depth(depth) => format!("depth {depth}"),
            Self::Clock => "by its clock".to_owned(),
        }
    }
}

/// A number with commas between thousands.
fn grouped(number: u64) -> String {
    if number < 1000 {
        return number.to_string();
    }
    format!("{},{:03}", grouped(number / 1000), number % 1000)
}

/// A level with a measured rating on the ladder of fixed opponents (docs/5-arena.md).
#[derive(Clone, Copy, Debug, Serialize)]
pub struct RatedLevel {
    #[serde(serialize_with = "as_name")]
    pub system: System,
    pub level: EngineLevel,
    /// Elo on the ladder's scale.
    pub elo: u32,
    /// Half of the 95 % confidence interval, in Elo.
    pub interval: u32,
    pub games: u32,
}

fn as_name<S: serde::Serializer>(system: &System, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(system.name())
}

/// The rated levels of a system on a network, the weakest first; only networks in the program have
/// some. They do not depend on the machine.
#[must_use]
pub fn rated_levels(system: System, network: &Network) -> Vec<RatedLevel> {
    let level = EngineLevel::Depth(3);
    match system {
        System::Cockfish if engine::embedded(system).is_ok_and(|own| own == *network) => {
            vec![RatedLevel { system, level, elo: 1296, interval: 106, games: 34 }]
        }
        System::BatchFirst => placings(network)
            .iter()
            .map(|placing| RatedLevel {
                system,
                level: EngineLevel::Nodes(placing.evaluations.into()),
                elo: placing.elo,
                interval: placing.interval,
                games: placing.games,
            })
            .collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Networks in the program have levels, others with the same layers have none.
    #[test]
    fn levels_belong_to_networks() {
        for system in [System::BatchFirst, System::Cockfish] {
            let mut network = engine::embedded(system).unwrap();
            let levels = rated_levels(system, &network);
            assert!(!levels.is_empty() && levels.is_sorted_by_key(|level| level.elo));
            let tensor = network.tensors.values_mut().next().unwrap();
            tensor.data[0] += 1.0;
            assert!(rated_levels(system, &network).is_empty(), "trained on, with the same name");
        }
    }
}
