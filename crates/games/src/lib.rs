//! Files of games for every other crate: PGN and EPD are read as streams, PGN is written, and a
//! long run over such files is shared by several threads, keeps the order of its input and can be
//! resumed after an interruption.

mod epd;
mod error;
mod evaluation;
mod files;
pub mod html;
mod identity;
mod ordered;
mod output;
mod pgn;
mod pgn_write;
mod streams;
mod text;
mod variant;

pub use epd::{EpdLine, is_epd_comment, parse_epd};
pub use error::FileError;
pub use evaluation::{CommentEvaluation, LABELLED_EVENT, find_evaluation, is_possible_score};
pub use files::{FileEntry, read_files};
pub use identity::content_identity;
pub use ordered::{Worker, process_in_order};
pub use output::ResumableOutput;
pub use pgn::{
    GameStart, GameText, GameTexts, GameVisitor, GameWarning, LeftOut, LeftOutGame, PgnGame,
    ReadGame, Tags, Unread, UnreadKind, Variation, VariationItem, parse_result, read_pgn, walk,
};
pub use pgn_write::{PgnWriter, white_score_text};
pub use streams::{is_standard, is_stream, open_input};
pub use text::{Format, plain_text};
pub use variant::castling_mode_of_variant;
