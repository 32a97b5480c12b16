//! One training example: a position, its value, and the move that was played.

use nets::{PolicyIndex, Squares};

/// The label is missing: see [`Record::value`] and [`Record::played_value`].
pub const NO_LABEL: i32 = i32::MIN;

/// Labels with at least this absolute value are mates.
pub const MATE_LABEL: i32 = 100_000;

/// Result of the game, for the side to move in the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GameResult {
    Unknown,
    Loss,
    Draw,
    Win,
}

/// One position with its labels, all from the mover's side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    pub squares: Squares,
    /// True when White is to move (with `squares` this is the whole position).
    pub white_to_move: bool,
    /// Value for the side to move: centipawns, a mate ([`mate_label`]), or [`NO_LABEL`].
    pub value: i32,
    /// The move that was played (from the mover's side), or `PolicyIndex::MAX` if unknown.
    pub played: PolicyIndex,
    /// Value *for the side that played it* after that move, in the units of `value`, or
    /// [`NO_LABEL`].
    pub played_value: i32,
    pub result: GameResult,
    /// Plies since the start of the game.
    pub ply: u16,
    /// Plies since the last capture or pawn move (at most 255).
    pub halfmove_clock: u8,
    /// Index of the imported file that the record comes from.
    pub source: u8,
    /// Number of the game within the import.
    pub game: u32,
}

/// The label of a forced mate in `moves` moves (positive: the mover mates; negative: the mover is
/// mated; 0: the mover is mated now). Its absolute value is at least [`MATE_LABEL`], and larger for
/// nearer mates.
#[must_use]
pub fn mate_label(moves: i32) -> i32 {
    let distance = moves.unsigned_abs().min(10_000) as i32;
    if moves > 0 { MATE_LABEL + 10_000 - distance } else { -(MATE_LABEL + 10_000 - distance) }
}
