//! The fixed-size form of a [`Record`] inside a shard.

use nets::Squares;

use crate::record::{GameResult, Record};

/// Bytes of one packed record: 32 of squares (two to a byte, see [`Squares::pack`]), then
/// little-endian `value` i32, `played_value` i32, `game` u32, `played` u16, `ply` u16,
/// `halfmove_clock` u8, `source` u8, flags u8 (bit 0: White moves; bits 1-2: result 0 unknown, 1
/// loss, 2 draw, 3 win) and one zero byte.
pub const RECORD_SIZE: usize = 52;

/// Bytes of the squares at the front of a packed record.
pub(crate) const SQUARES_SIZE: usize = 32;

/// A record as it is stored in a shard.
pub type PackedRecord = [u8; RECORD_SIZE];

impl Record {
    /// The fixed-size form.
    #[must_use]
    pub fn pack(&self) -> PackedRecord {
        let mut bytes = [0; RECORD_SIZE];
        bytes[..32].copy_from_slice(&self.squares.pack());
        bytes[32..36].copy_from_slice(&self.value.to_le_bytes());
        bytes[36..40].copy_from_slice(&self.played_value.to_le_bytes());
        bytes[40..44].copy_from_slice(&self.game.to_le_bytes());
        bytes[44..46].copy_from_slice(&self.played.to_le_bytes());
        bytes[46..48].copy_from_slice(&self.ply.to_le_bytes());
        bytes[48] = self.halfmove_clock;
        bytes[49] = self.source;
        let result = match self.result {
            GameResult::Unknown => 0,
            GameResult::Loss => 1,
            GameResult::Draw => 2,
            GameResult::Win => 3,
        };
        bytes[50] = u8::from(self.white_to_move) | result << 1;
        bytes
    }

    /// The inverse of [`Record::pack`]; any bytes give a record.
    #[must_use]
    pub fn unpack(bytes: &PackedRecord) -> Self {
        let four = |at: usize| [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        let two = |at: usize| [bytes[at], bytes[at + 1]];
        let mut squares = [0; SQUARES_SIZE];
        squares.copy_from_slice(&bytes[..SQUARES_SIZE]);
        Self {
            squares: Squares::unpack(&squares),
            value: i32::from_le_bytes(four(32)),
            played_value: i32::from_le_bytes(four(36)),
            game: u32::from_le_bytes(four(40)),
            played: u16::from_le_bytes(two(44)),
            ply: u16::from_le_bytes(two(46)),
            halfmove_clock: bytes[48],
            source: bytes[49],
            white_to_move: bytes[50] & 1 == 1,
            result: match bytes[50] >> 1 & 3 {
                0 => GameResult::Unknown,
                1 => GameResult::Loss,
                2 => GameResult::Draw,
                _ => GameResult::Win,
            },
        }
    }
}
