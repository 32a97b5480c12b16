//! Chess as the rest of Batch First sees it: positions with an incremental key, the history that
//! repetition needs, the rules that end a game, the text forms of moves and positions, opening
//! books and endgame tables.
//!
//! Move generation is [shakmaty](https://docs.rs/shakmaty)'s; its vocabulary ([`Move`], [`Square`],
//! [`Role`], [`Color`]) is used throughout.

mod book;
mod checks;
mod chess960;
mod error;
mod game;
mod notation;
mod perft;
mod position;
mod tablebase;

pub use book::{Book, BookError};
pub use checks::Checks;
pub use error::BoardError;
pub use game::{Game, GameEnd};
pub use notation::{parse_san, parse_uci, san_line, to_san, to_uci};
pub use perft::perft;
pub use position::Position;
pub use tablebase::{RootMoves, TablebaseError, Tablebases};

pub use shakmaty::{
    Bitboard, Board, CastlingMode, CastlingSide, Color, File, Move, MoveList, Piece, Rank, Role,
    Setup, Square, attacks,
};
