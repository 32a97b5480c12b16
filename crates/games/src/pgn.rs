//! Reads PGN, for every command alike. A text is cut into games ([`GameTexts`]), a game into
//! tokens, and [`walk`] tells a visitor what happens in the main line. What is not understood ends
//! the game there and is reported; nothing is skipped in silence.

mod game;
mod problem;
mod tags;
mod texts;
mod tokens;
mod variation;
mod walk;

pub use game::{PgnGame, ReadGame, parse_result, read_pgn};
pub use problem::{GameWarning, LeftOut, LeftOutGame, Unread, UnreadKind};
pub use tags::Tags;
pub use texts::{GameText, GameTexts};
pub use variation::{Variation, VariationItem};
pub use walk::{GameStart, GameVisitor, walk};

/// Decodes UTF-8; other bytes are Latin-1, the character set of the PGN standard.
fn decoded(bytes: &[u8]) -> String {
    let latin = |_| bytes.iter().map(|&byte| char::from(byte)).collect();
    std::str::from_utf8(bytes).map_or_else(latin, str::to_owned)
}
