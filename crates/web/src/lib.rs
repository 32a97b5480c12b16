//! The page: games against the engine, analysis with a view into the search, training runs and
//! matches, in a browser.
//!
//! One server ([`Server`]) contains the page's files. Each open page is a web socket. Each open
//! game is a task that stores every move in a SQLite file before it publishes it. All searches of a
//! system share one evaluator and wait in a fair queue for a search slot.

mod access;
mod advice;
mod analysis;
mod assets;
mod connections;
mod engines;
mod error;
mod game_state;
mod lab;
mod levels;
mod maia;
mod message;
mod new_game;
mod openings;
mod opponent;
mod page_limit;
mod registry;
mod search_slots;
mod server;
mod session;
mod socket;
mod store;
mod time_source;

pub use access::random_secret;
pub use error::WebError;
pub use lab::LabFolders;
pub use maia::load_maias;
pub use opponent::Opponent;
pub use server::{Options, Server};
pub use time_source::{ManualTime, TimeSource};

use access::AccessPolicy;
use analysis::{Analysis, AnalysisRequest, GameReview, ReviewRequest, TreeRequest};
use engines::Engines;
use error::ApiError;
use game_state::GameState;
use levels::EngineLevel;
use new_game::NewGameRequest;
use registry::GameRegistry;
use session::{GameCommand, GameHandle};
use store::{GameStore, StoredGame, StoredMove};
