//! Training data made by another engine: it plays varied games against itself, or analyses the
//! games and positions of files, or positions that a search of ours met, and every position gets its evaluation in a PGN comment.
//!
//! Games are numbered and written in order. The same seed, engine and number of nodes therefore
//! give the same file for any number of processes, and an interrupted run can be resumed.

mod error;
mod game;
mod labeller;
mod nnue;
mod run;
mod self_play;
mod trees;

pub use error::LabelError;
pub use labeller::Teacher;
pub use nnue::StockfishNetwork;
pub use run::{LabelProgress, LabelSettings, LabelSource, label};
pub use self_play::SelfPlaySettings;
pub use trees::TreeSettings;
