//! Searches over an [`eval::Evaluator`]: a game and limits in, a stream of [`SearchInfo`] and a best move out.

mod control;
mod engine;
mod info;
mod kbest;
mod limits;
mod memory;
mod quiet;
mod score;
mod settings;
mod time;

pub use control::Control;
pub use engine::Search;
pub use info::{Bound, Outcome, Score, SearchInfo};
pub use kbest::KBest;
pub use limits::{Clock, Limits};
pub use settings::Settings;
