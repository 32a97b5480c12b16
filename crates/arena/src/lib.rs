//! Matches between players, which are UCI engines or searches in this process: games with clocks,
//! adjudication and faults, the schedule of a match, its journal, and the statistics of its results
//! (Elo with intervals, SPRT, ratings, the ladder).

mod adjudication;
mod estimate;
mod game;
mod journal;
pub mod ladder;
mod linear;
mod opening;
pub mod pgn;
mod pgn_results;
mod player;
mod rating;
mod record;
pub mod report;
mod results;
mod runner;
mod schedule;
mod sprt;
pub mod summary;
mod termination;
mod time_control;

pub use adjudication::{Adjudicator, Rules};
pub use estimate::{
    EloEstimate, Observation, Pentanomial, WinDrawLoss, elo_of_score, elo_text, score_of_elo,
};
pub use game::{MoveEvaluation, PlayedGame, play_game};
pub use journal::{Journal, JournalError};
pub use opening::{OpeningError, balanced, from_epd, from_pgn, main_lines, select_balanced};
pub use pgn_results::PgnResults;
pub use player::{EngineReply, Player, PlayerKind, PlayerSpec, StartError};
pub use rating::{PairingResults, Rating, performance_rating, rate, relative_information};
pub use record::{FaultRecord, GameRecord};
pub use results::{PlayerResults, Results};
pub use runner::{Match, MatchError, MatchSettings};
pub use schedule::{ScheduledGame, TournamentFormat, shuffled};
pub use sprt::{EloModel, Sprt, SprtError, SprtRun, Verdict};
pub use termination::{Fault, Termination};
pub use time_control::TimeControl;
