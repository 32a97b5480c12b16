//! Files of games for every other crate: PGN and EPD are read as streams, PGN is written, and a
//! long run over such files is shared by several threads, keeps the order of its input and can be
//! resumed after an interruption.

mod error;
mod evaluation;
mod files;
pub mod html;
mod identity;
mod ordered;
mod output;
mod pgn_read;
mod pgn_write;
mod text;
mod variant;

pub use error::FileError;
pub use evaluation::{CommentEvaluation, find_evaluation};
pub use files::{FileEntry, parse_epd, read_files};
pub use identity::content_identity;
pub use ordered::{Worker, process_in_order};
pub use output::ResumableOutput;
pub use pgn_read::{PgnGame, parse_result, read_pgn};
pub use pgn_write::{PgnWriter, white_score_text};
pub use text::{Format, plain_text};
pub use variant::castling_mode_of_variant;
