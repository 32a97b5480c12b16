//! The page: games against the engine, analysis with a view into the search, training runs and matches, in a browser.
//!
//! One server ([`Server`]) with its files inside. Each open page is a web socket; each open game is a task that keeps its
//! moves in a SQLite file ([`Store`]) before it answers; searches wait in a fair queue ([`Engines`]).

mod analysis;
mod assets;
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

pub use error::{Refusal, WebError};
pub use guard::secret;
pub use lab::Lab;
pub use levels::{Level, MEASURED, Measured};
pub use server::{Options, Server};
pub use store::{ListedGame, Store, StoredGame, StoredMove};

use analysis::{Analysis, Question};
use contest::{Contest, Proposal};
use engines::Engines;
use guard::Guard;
use table::{Seat, Tables, Wish};
