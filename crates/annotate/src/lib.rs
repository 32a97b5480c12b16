//! Whole files of games, analysed: every position searched, mistakes named with what would have
//! been better, players graded.
//!
//! A game is searched from its end to its beginning by one search, whose memory makes each position
//! profit from what came after it; several games are searched at once over shared evaluators
//! ([`eval::Shared`]). Each game is on its own, so with a limit of evaluations the output does not
//! depend on how many are searched at once, nor on interruptions.

mod error;
mod grade;
mod json;
mod pgn;
#[cfg(feature = "queue")]
pub mod queue;
mod report;
mod review;
mod run;
mod summary;

pub use error::AnnotateError;
pub use grade::{Grade, Mark, grades, loss, win_percent};
pub use report::html;
pub use review::{Line, Look, Review};
pub use run::{Analysis, AnnotateProgress, AnnotateSettings, annotate};
pub use summary::{GameSummary, PlayerSummary, Summary};
