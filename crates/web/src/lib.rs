//! The page: games against the engine, analysis with a view into the search, training runs and
//! matches, in a browser.
//!
//! One server ([`Server`]) with its files inside. Each open page is a web socket; each open game is
//! a task that keeps its moves in a SQLite file before it answers; searches share an evaluator and
//! wait in a fair queue.

mod analysis;
mod assets;
mod connections;
mod contest;
mod engines;
mod error;
mod guard;
mod lab;
mod levels;
mod server;
mod socket;
mod store;
mod table;

pub use error::WebError;
pub use guard::secret;
pub use lab::Lab;
pub use server::{Options, Server};

use analysis::{Analysis, Question};
use contest::{Contest, Proposal};
use engines::Engines;
use error::Refusal;
use guard::Guard;
use levels::Level;
use store::{Store, StoredGame, StoredMove};
use table::{Seat, Tables, Wish};
