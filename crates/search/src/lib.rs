//! Searches over an [`eval::Evaluator`]: a game and limits in, a stream of [`SearchInfo`] and a
//! best move out.

mod alphabeta;
mod cache;
mod cockfish;
mod control;
mod convchess;
mod depth_first;
mod endgame;
mod evaluations;
mod history;
mod info;
mod kbest;
mod limits;
mod mating;
mod pages;
#[cfg(test)]
mod plain;
mod puct;
mod quiet;
mod registry;
mod rules;
mod score;
mod selectivity;
mod settings;
mod settled;
mod time;
mod transposition;
mod tuning;
mod view;

pub use alphabeta::AlphaBeta;
pub use cockfish::CockfishSearch;
pub use control::Control;
pub use convchess::ConvChess;
pub use info::{Bound, Outcome, SearchInfo};
pub use kbest::KBest;
pub use limits::{Clock, Limits};
pub use puct::Puct;
pub use registry::{Algorithm, SEARCHES, Search, SearchEntry};
pub use settings::Settings;
pub use settled::settled;
pub use tuning::{Tunable, Tuning, tunables};
pub use view::{LEVELS, PLIES, View};
