//! Keys of positions and of questions about them.

use board::Position;

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
    let clock = position.halfmove_clock();
    if clock < 70 {
        position.key()
    } else {
        position.key() ^ u64::from(clock).wrapping_mul(0xd6e8_feb8_6659_fd93)
    }
}
