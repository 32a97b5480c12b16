//! Whole files of games, analysed: every position searched, mistakes named with what would have
//! been better, players graded.
//!
//! A game is searched from its end to its beginning by one search, whose memory makes each position
//! profit from what came after it; several games are searched at once over shared evaluators
//! ([`eval::Shared`]). Each game is on its own, so with a limit of evaluations the output does not
//! depend on how many are searched at once, nor on interruptions.

mod accuracy;
mod error;
mod game_analysis;
mod json;
mod pgn;
#[cfg(feature = "queue")]
pub mod queue;
mod report;
mod run;
mod summary;

pub use accuracy::{Judgment, PlayerAnalysis, loss, player_analyses, win_percent};
pub use error::AnnotateError;
pub use game_analysis::{GameAnalysis, PositionAnalysis, PrincipalVariation};
pub use report::html_report;
pub use run::{AnalysisSettings, AnnotateProgress, AnnotateSettings, annotate};
pub use summary::{GameSummary, PlayerSummary, Summary};
