//! What the readers make of a piece of a file.

use board::Position;
use nets::{PolicyIndex, Squares};

use crate::record::{GameResult, MATE_LABEL, NO_LABEL, Record, mate_label};
use crate::skip::Skipped;

/// The records of a piece of a file, in order. [`Record::game`] counts from 0 within the piece and
/// [`Record::source`] is 0: who puts pieces together numbers them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ParsedChunk {
    /// Games (or lines) seen, good or bad.
    pub games: u32,
    /// Positions seen, labelled or not.
    pub positions: u64,
    /// Lines, not games: the records have nothing to do with each other.
    pub single_positions: bool,
    pub records: Vec<Record>,
    pub skipped: Skipped,
}

/// An evaluation from White's side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WhiteValue {
    Centipawns(i32),
    /// White mates in so many moves; negative: Black does; 0: mate is on the board.
    Mate(i32),
}

impl WhiteValue {
    /// The label for the side to move.
    pub(crate) fn label(self, white_to_move: bool) -> i32 {
        match self {
            Self::Centipawns(value) => {
                centipawn_label(if white_to_move { value } else { value.saturating_neg() })
            }
            Self::Mate(moves) => {
                mate_label(if white_to_move { moves } else { moves.saturating_neg() })
            }
        }
    }
}

/// Centipawns never reach into the labels of mates.
pub(crate) fn centipawn_label(value: i32) -> i32 {
    value.clamp(1 - MATE_LABEL, MATE_LABEL - 1)
}

/// The value, for the side that moves, after the best move from a position of this value: one move
/// nearer to a mate that it gives. (One that it suffers is as near after its move as before.)
pub(crate) fn after_best_move(value: i32) -> i32 {
    // `mate_label(1)` is one below the label of a mate on the board.
    if value >= MATE_LABEL && value < -mate_label(0) { value + 1 } else { value }
}

/// A record without labels.
pub(crate) fn unlabelled(position: &Position, game: u32) -> Record {
    Record {
        squares: Squares::of(position),
        white_to_move: position.turn().is_white(),
        value: NO_LABEL,
        played: PolicyIndex::MAX,
        played_value: NO_LABEL,
        result: GameResult::Unknown,
        ply: u16::try_from(position.ply()).unwrap_or(u16::MAX),
        halfmove_clock: u8::try_from(position.halfmove_clock()).unwrap_or(u8::MAX),
        source: 0,
        game,
    }
}
