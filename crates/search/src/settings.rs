//! What a user may set about a search.

use std::{sync::Arc, time::Duration};

use board::Tablebases;

/// Options that stay from search to search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Positions evaluated together (K); 0: the evaluator's preferred batch, for the K-best-first
    /// search that of its stream.
    pub batch: usize,
    /// For the K-best-first search: up to so many positions a batch is filled with whatever is
    /// next, needed or not; beyond, with what most likely is. 0: the batch of the evaluator's
    /// preferred stream.
    pub fill: usize,
    /// Memory for the tree, in MiB (2^20 bytes); never passed.
    pub hash_mib: usize,
    /// For minimax: leaves answer captures before their value is trusted (see [`crate::CockfishSearch`]).
    pub quiet_leaves: bool,
    /// For systems that choose by chance, in hundredths: 0 for always the likeliest move, 100 for
    /// each as often as its chance says.
    pub temperature: u32,
    /// How far the opponent is from perfect, for the K-best-first search of a move that is to be
    /// played ([`crate::Limits::is_move_to_play`]) on a network with a policy: centipawns by which
    /// a reply counts less for each unit of the natural logarithm by which its chance is below that
    /// of the likeliest reply, 80 at most. 0: every reply is found.
    pub opponent_errors: i32,
    /// Number of lines.
    pub multipv: usize,
    /// Endgame tables: what they decide is not evaluated.
    pub tables: Option<Arc<Tablebases>>,
    /// Taken off every time limit for the way to the other player.
    pub move_overhead: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            batch: 0,
            fill: 0,
            hash_mib: 256,
            quiet_leaves: true,
            temperature: 0,
            opponent_errors: 0,
            multipv: 1,
            tables: None,
            move_overhead: Duration::from_millis(10),
        }
    }
}
