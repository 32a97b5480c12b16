//! Files of games: PGN and EPD read as streams, PGN written, and long runs over them that several
//! threads share, that keep the order, and that go on where they were interrupted.

mod error;
mod in_order;
mod output;
mod pgn;
mod read;
mod source;

pub use error::FileError;
pub use in_order::{Worker, in_order};
pub use output::Output;
pub use pgn::{PgnText, white_score};
pub use read::{PgnGame, read};
pub use source::{Item, items, position_of_epd};
