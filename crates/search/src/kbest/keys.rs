//! Keys of positions and of questions about them.

use board::{Move, Position};

use crate::score::Value;

/// Passes keys through: they are random already.
#[derive(Clone, Copy, Default)]
pub(super) struct KeyHasher(u64);

impl std::hash::Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0.rotate_left(8)) ^ u64::from(byte);
        }
    }
    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}

/// The key of the question whether a position reaches `bound` at a depth.
pub(super) fn question_key(key: u64, depth: i16, bound: Value) -> u64 {
    let question = u64::from(depth as u16) << 32 | u64::from(bound as u32);
    key ^ (question.wrapping_mul(0x9e37_79b9_7f4a_7c15)).rotate_left(17)
}

/// The key under which bounds are remembered: near the fifty-move limit a position is a different
/// one at each clock.
pub(super) fn cache_key(position: &Position) -> u64 {
    with_clock(position.key(), position.halfmove_clock())
}

/// The [`cache_key`] after a legal move.
pub(super) fn cache_key_after(position: &Position, mv: Move) -> u64 {
    with_clock(position.key_after(mv), position.halfmove_clock_after(mv))
}

/// The [`cache_key`] of a position with this key and this clock.
pub(super) fn with_clock(key: u64, clock: u32) -> u64 {
    if clock < 70 { key } else { key ^ u64::from(clock).wrapping_mul(0xd6e8_feb8_6659_fd93) }
}
