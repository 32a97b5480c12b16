//! Settings of a search.

use std::{sync::Arc, time::Duration};

use board::Tablebases;

use crate::Tuning;

/// Options that stay from search to search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Positions evaluated together (K); 0: the evaluator's preferred batch, for the K-best-first
    /// search that of its stream.
    pub batch: usize,
    /// For the K-best-first search: up to this many positions a batch takes the next nodes of the
    /// queue, needed or not; beyond, only those that will most likely be needed. 0: the batch of
    /// the evaluator's preferred stream.
    pub fill: usize,
    /// Limit of the memory for the tree, in MiB (2^20 bytes).
    pub hash_mib: usize,
    /// For [`crate::CockfishSearch`] (`minimax`): quiescence search at leaves.
    pub quiet_leaves: bool,
    /// For systems that choose by chance, in hundredths: 0 plays the likeliest move always, 100
    /// plays each move with its chance.
    pub temperature: u32,
    /// For the same, in percent: only the likeliest moves are drawn whose chances first add up to
    /// this share.
    pub top_p: u32,
    /// Opponent model of the K-best-first search, for a move that is to be
    /// played ([`crate::Limits::is_move_to_play`]) on a network with a policy: centipawns by which
    /// a reply counts less for each unit of the natural logarithm by which its chance is below that
    /// of the likeliest reply, 80 at most. 0: every reply is found.
    pub opponent_errors: i32,
    /// For a weaker player: the most evaluations of a search that is no analysis. `None`: as many as
    /// the limits allow.
    pub evaluations: Option<u64>,
    /// Lines have the network's guess how long the game will last, if it makes one.
    pub show_moves_left: bool,
    /// Number of lines.
    pub multipv: usize,
    /// Endgame tables: positions that they decide are not evaluated.
    pub tables: Option<Arc<Tablebases>>,
    /// Taken off every time limit, for the delay until the move reaches the opponent.
    pub move_overhead: Duration,
    /// Numbers of the rules by which K-best-first and alpha-beta reduce and prune.
    pub tuning: Tuning,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            batch: 0,
            fill: 0,
            hash_mib: 256,
            quiet_leaves: true,
            temperature: 0,
            top_p: 100,
            opponent_errors: 0,
            evaluations: None,
            show_moves_left: false,
            multipv: 1,
            tables: None,
            move_overhead: Duration::from_millis(10),
            tuning: Tuning::default(),
        }
    }
}
