//! The records that the readers parse from a chunk of a file.

use board::{Position, Score};
use nets::{PolicyIndex, Squares};

use crate::record::{GameResult, MATE_LABEL, NO_LABEL, Record, mate_label};
use crate::skip::{SkipKind, Skipped};

/// The records of a chunk of a file, in order. [`Record::game`] counts from 0 within the chunk and
/// [`Record::source`] is 0; the import sets the final numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ParsedChunk {
    /// Games or lines, usable or not: those below together.
    pub games: u32,
    /// Games or lines read to their end.
    pub whole: u32,
    /// Games read up to a text that was not understood.
    pub broken: u32,
    /// Games or lines that are not used.
    pub left_out: u32,
    /// Positions read, labelled or not.
    pub positions: u64,
    /// True for lists of positions, whose records belong to no game.
    pub single_positions: bool,
    /// For each game, the number of the game from which it comes, if its file says so: such games are
    /// held out together.
    pub origins: Vec<Option<u32>>,
    pub records: Vec<Record>,
    pub skipped: Skipped,
}

impl ParsedChunk {
    /// A game or line is not used.
    pub(crate) fn leave_out(&mut self, kind: SkipKind) {
        self.left_out += 1;
        self.skipped.add(kind);
    }
}

/// An evaluation from White's side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WhiteValue {
    Centipawns(i32),
    /// White mates in this many moves; negative: Black mates; 0: the side to move is mated.
    Mate(i32),
}

impl From<Score> for WhiteValue {
    fn from(score: Score) -> Self {
        match score {
            Score::Centipawns(value) => Self::Centipawns(value),
            Score::Mate(moves) => Self::Mate(moves),
        }
    }
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

/// Clamps centipawns so that they stay apart from the labels of mates.
pub(crate) fn centipawn_label(value: i32) -> i32 {
    value.clamp(1 - MATE_LABEL, MATE_LABEL - 1)
}

/// The mover's value after its best move, from its value before: the same, except that a mate by
/// the mover is one move nearer. (The distance of a mate against the mover counts the opponent's
/// moves, so it does not change.)
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
