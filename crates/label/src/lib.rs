//! Training data made by another engine: it plays varied games against itself, or looks at the
//! games and positions of files, and every position gets its evaluation in a PGN comment.
//!
//! Games are numbered and written in order, so the same seed, engine and number of nodes give the
//! same file however many processes work; an interrupted run goes on where it ended.

mod annotate;
mod error;
mod run;

pub use annotate::{SelfPlay, Work};
pub use error::LabelError;
pub use run::{LabelProgress, LabelSettings, Source, label};
