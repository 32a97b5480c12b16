//! What a game's text holds that is not understood or not believed, in words.

use board::{BoardError, FenWarning, shortened};
use serde::{Deserialize, Serialize};

/// The first text of a game that is not understood. The game ends before it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unread {
    pub kind: UnreadKind,
    /// The text, shortened; empty where the kind says it all.
    pub text: String,
    /// Number of the move that would have come, from 1 or as the start position says.
    pub number: u32,
}

/// Why a text is not understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum UnreadKind {
    /// A move that is not legal, or that several pieces can make.
    IllegalMove,
    /// Neither a move nor anything else that PGN knows.
    NotUnderstood,
    /// A move number that cannot follow the moves before it.
    WrongNumber,
    /// A brace is never closed.
    UnendingComment,
    /// A parenthesis is never closed.
    UnendingVariation,
    /// Moves follow the result.
    BehindResult,
    /// The text of the game is longer than what is read.
    TooLong,
}

impl Unread {
    pub(super) fn new(kind: UnreadKind, text: &str, number: u32) -> Self {
        Self { kind, text: shortened(text), number }
    }
}

impl std::fmt::Display for Unread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { kind, text, number } = self;
        match kind {
            UnreadKind::IllegalMove => write!(f, "move {number}, `{text}`, is not legal"),
            UnreadKind::NotUnderstood => write!(f, "at move {number}, `{text}` is not a move"),
            UnreadKind::WrongNumber => write!(f, "at move {number}, `{text}` is another number"),
            UnreadKind::UnendingComment => write!(f, "at move {number} a comment does not end"),
            UnreadKind::UnendingVariation => write!(f, "at move {number} a variation does not end"),
            UnreadKind::BehindResult => write!(f, "`{text}` follows the result"),
            UnreadKind::TooLong => write!(f, "the text is longer than 16 MiB after move {number}"),
        }
    }
}

/// Something odd that does not end a game.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GameWarning {
    /// Castling rights of the start position are corrected.
    Start(FenWarning),
    /// A line among the tags that is not a tag.
    TagLine(String),
    /// The tag `Result` and the result behind the moves differ; the tag counts.
    Results { tag: String, text: String },
    /// A variation is read up to here only.
    Variation(Unread),
}

impl std::fmt::Display for GameWarning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Start(warning) => write!(f, "in the start position {warning}"),
            Self::TagLine(line) => write!(f, "`{line}` is not a tag and is left out"),
            Self::Results { tag, text } => {
                write!(f, "the tag says {tag} and the moves end in {text}; the tag counts")
            }
            Self::Variation(unread) => write!(f, "a variation is cut off: {unread}"),
        }
    }
}

/// Why a game is not read at all.
#[derive(Debug, thiserror::Error)]
pub enum LeftOut {
    #[error("the variant `{0}` is not played here")]
    Variant(String),
    #[error("{0}")]
    BadStart(BoardError),
    #[error("`{0}` is not a tag, and it decides the start position")]
    StartTag(String),
    #[error("the tag {0} has two values")]
    TwoStarts(&'static str),
    #[error("the tag SetUp tells of a start position, and there is no FEN")]
    NoStart,
    #[error("`{0}` is not a game")]
    NoGame(String),
}

/// A game that is not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOutGame {
    /// As it was written.
    pub text: String,
    /// A sentence without its full stop.
    pub reason: String,
    /// It is of a variant that is not played here; otherwise it is not understood.
    pub is_variant: bool,
    /// Number of its first line in the file, from 1.
    pub line: u64,
}
