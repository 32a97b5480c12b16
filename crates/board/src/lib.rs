//! The chess of all crates: positions with an incremental key, the history that
//! repetition needs, the rules that end a game, the text forms of moves and positions, opening
//! books and endgame tables. Also the tools of all crates: scores, whole-file writes, hashes, times, a
//! seeded generator, positions for tests.
//!
//! Move generation is [shakmaty](https://docs.rs/shakmaty)'s; its vocabulary ([`Move`], [`Square`],
//! [`Role`], [`Color`]) is used throughout.

mod book;
mod checks;
mod chess960;
mod duration;
mod error;
mod fen;
mod fen_fault;
mod game;
mod hash;
mod loose_moves;
mod machine;
mod notation;
mod perft;
mod position;
mod random;
mod score;
mod tablebase;
pub mod testing;
mod whole_file;

pub use book::{Book, BookError};
pub use checks::Checks;
pub use duration::parse_duration;
pub use error::{BoardError, shortened};
pub use fen::{FenWarning, ReadFen};
pub use game::{Game, GameEnd};
pub use hash::{hex, sha256, sha256_file};
pub use machine::memory_without_room_for;
pub use notation::{parse_san, parse_uci, san_line, to_san, to_uci};
pub use perft::{perft, stoppable_perft};
pub use position::Position;
pub use random::{SplitMix64, mix64};
pub use score::Score;
pub use tablebase::{RootMoves, TablebaseError, Tablebases};
pub use whole_file::write_whole;

pub use shakmaty::{
    Bitboard, Board, CastlingMode, CastlingSide, Color, File, Move, MoveList, Piece, Rank, Role,
    Setup, Square, attacks,
};
