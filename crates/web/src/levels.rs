//! How strong an opponent plays: limits for each move, and the ratings of those that were measured.

use std::time::Duration;

use nets::System;
use search::Limits;
use serde::{Deserialize, Serialize};

/// What an engine may spend on a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "value", rename_all = "snake_case")]
pub enum Level {
    /// Positions evaluated.
    Nodes(u64),
    /// Milliseconds.
    Time(u64),
    /// Plies.
    Depth(u32),
    /// Whatever its clock allows.
    Clock,
}

/// The most that a visitor may ask for.
pub const MOST_NODES: u64 = 1_000_000;
/// Milliseconds.
pub const MOST_TIME: u64 = 60_000;
/// Plies.
pub const MOST_DEPTH: u32 = 30;
/// Time after which every move comes, whatever the level.
pub const PATIENCE: Duration = Duration::from_secs(120);

impl Level {
    /// Within what a visitor may ask for?
    #[must_use]
    pub fn is_allowed(self, has_clock: bool) -> bool {
        match self {
            Self::Nodes(nodes) => (1..=MOST_NODES).contains(&nodes),
            Self::Time(time) => (10..=MOST_TIME).contains(&time),
            Self::Depth(depth) => (1..=MOST_DEPTH).contains(&depth),
            Self::Clock => has_clock,
        }
    }

    /// The limits of one move.
    #[must_use]
    pub fn limits(self) -> Limits {
        let limits = Limits { movetime: Some(PATIENCE), ..Limits::default() };
        match self {
            Self::Nodes(nodes) => Limits { nodes: Some(nodes), ..limits },
            Self::Time(time) => Limits { movetime: Some(Duration::from_millis(time)), ..limits },
            Self::Depth(depth) => Limits { depth: Some(depth), ..limits },
            Self::Clock => limits,
        }
    }

    /// In words, as in `1000 evaluations`.
    #[must_use]
    pub fn describe(self) -> String {
        match self {
            Self::Nodes(1) => "1 evaluation".to_owned(),
            Self::Nodes(nodes) => format!("{nodes} evaluations"),
            Self::Time(time) => format!("{} s", time as f64 / 1000.0),
            Self::Depth(depth) => format!("depth {depth}"),
            Self::Clock => "its clock".to_owned(),
        }
    }
}

/// A level whose place on the ladder of fixed opponents is known (docs/5-arena.md).
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Measured {
    #[serde(serialize_with = "as_name")]
    pub system: System,
    pub level: Level,
    /// On the ladder's scale (Stockfish 15.1 at level 2000 and 20,000 nodes = 2000), with half of
    /// its 95 % interval.
    pub elo: i32,
    pub interval: i32,
    pub games: u32,
}

fn as_name<S: serde::Serializer>(system: &System, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(system.name())
}

/// Every level that was measured, the weakest of each system first. Those in evaluations do not
/// depend on the machine; the one in seconds was played by one thread of a processor with AVX2.
pub const MEASURED: [Measured; 7] = [
    Measured {
        system: System::BatchFirst,
        level: Level::Nodes(30),
        elo: 999,
        interval: 69,
        games: 100,
    },
    Measured {
        system: System::BatchFirst,
        level: Level::Nodes(100),
        elo: 1339,
        interval: 49,
        games: 100,
    },
    Measured {
        system: System::BatchFirst,
        level: Level::Nodes(300),
        elo: 1615,
        interval: 79,
        games: 100,
    },
    Measured {
        system: System::BatchFirst,
        level: Level::Nodes(1_000),
        elo: 1910,
        interval: 72,
        games: 100,
    },
    Measured {
        system: System::BatchFirst,
        level: Level::Time(1_000),
        elo: 2039,
        interval: 84,
        games: 65,
    },
    Measured {
        system: System::BatchFirst,
        level: Level::Nodes(3_000),
        elo: 2060,
        interval: 69,
        games: 78,
    },
    Measured {
        system: System::Cockfish,
        level: Level::Depth(3),
        elo: 1296,
        interval: 106,
        games: 34,
    },
];
