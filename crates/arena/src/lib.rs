//! Matches between engines that speak UCI: games, adjudication, faults told apart, results and what they say about
//! strength.

mod elo;
mod game;
mod opening;
pub mod pgn;
pub mod pgn_games;
mod runner;

pub use elo::{EloEstimate, Tally, estimate};
pub use game::{Ending, Fault, MoveNote, PlayedGame, Rules, TimeControl, play_game};
pub use opening::{OpeningError, built_in, from_epd, from_pgn, position_of_epd};
pub use runner::{MatchError, MatchGame, MatchScore, MatchSettings, run_match};
