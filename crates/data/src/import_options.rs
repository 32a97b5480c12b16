//! The settings of an import, in a module of their own because the manifest records them.

use serde::{Deserialize, Serialize};

use crate::filter::GameFilter;

/// How files become shards. The same files and options make the same shards on any number of
/// threads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ImportOptions {
    /// Share of the games, or of the positions in files of single positions, that is held out; 0 to
    /// below 1.
    pub validation: f64,
    /// Seed of the choice of held-out games and of the order of the records.
    pub seed: u64,
    /// Largest number of positions taken from the start of each file. Positions without a label
    /// count only with `unlabelled`.
    pub max_positions: Option<u64>,
    /// Keep mates among the labels; otherwise a mate counts as no label.
    pub mates: bool,
    /// Also keep positions with a played move but no label.
    pub unlabelled: bool,
    /// Keep equal positions as often as they occur, each with its own played move.
    #[serde(default)]
    pub duplicates: bool,
    /// Conditions on the games.
    #[serde(default)]
    pub games: GameFilter,
    /// Number of parsing threads; 0: one for each processor.
    #[serde(skip)]
    pub threads: usize,
    /// Replace the shards that the folder already holds.
    #[serde(skip)]
    pub overwrite: bool,
}

impl Default for ImportOptions {
    fn default() -> Self {
        Self {
            validation: 0.02,
            seed: 1,
            max_positions: None,
            mates: true,
            unlabelled: false,
            duplicates: false,
            games: GameFilter::default(),
            threads: 0,
            overwrite: false,
        }
    }
}
