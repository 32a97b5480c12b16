//! Analysis of whole files of games: every position is searched, mistakes are named with the better
//! moves, and the accuracy of both players is computed.
//!
//! One search analyses a game from its last position to its first, so that the search cache helps
//! each position with the results of the positions after it. Several games are searched at once
//! over shared evaluators. Games do not influence each other: with a limit of evaluations the
//! output depends neither on the number of games searched at once nor on interruptions.

mod accuracy;
mod error;
mod game_analysis;
mod json;
mod kept;
mod old_verdicts;
mod pgn;
#[cfg(feature = "queue")]
pub mod queue;
mod report;
mod run;
mod summary;

pub use accuracy::{Judgment, PlayerAnalysis, loss, player_analyses, win_percent};
pub use error::AnnotateError;
pub use game_analysis::{GameAnalyser, GameAnalysis, PositionAnalysis, PrincipalVariation};
pub use kept::{OWN_NAME, remove_old_analysis};
pub use pgn::pgn as annotated_pgn;
pub use report::html_report;
pub use run::{AnalysisSettings, AnnotateProgress, AnnotateSettings, annotate};
pub use summary::{GameSummary, PlayerSummary, Summary};
