//! Training data made by another engine: it plays varied games against itself, or looks at the
//! games and positions of files, and every position gets its evaluation in a PGN comment.
//!
//! Games are numbered and written in order, so the same seed, engine and number of nodes give the
//! same file however many processes work; an interrupted run goes on where it ended.

mod error;
mod game;
mod run;

pub use error::LabelError;
pub use game::{LabelJob, SelfPlaySettings};
pub use run::{LabelProgress, LabelSettings, LabelSource, label};
