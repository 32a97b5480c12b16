//! The settings of an import, in a module of their own because the manifest records them.

use serde::{Deserialize, Serialize};

use crate::filter::GameFilter;

/// How files become shards. The same files and options make the same shards on any number of
/// threads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ImportOptions {
    /// Share of the games (of single positions: of the positions) that are held out, 0 to below 1.
    pub validation: f64,
    /// Decides which games are held out and the order of the records.
    pub seed: u64,
    /// At most so many positions of each file, from its start: those with a label, and with
    /// `unlabelled` the others too.
    pub max_positions: Option<u64>,
    /// Keep mates among the labels; otherwise a mate counts as no label.
    pub mates: bool,
    /// Also keep positions with a played move but no label.
    pub unlabelled: bool,
    /// Keep equal positions as often as they occur: what was played there matters, not only what
    /// they are worth.
    #[serde(default)]
    pub duplicates: bool,
    /// Which games are taken.
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
