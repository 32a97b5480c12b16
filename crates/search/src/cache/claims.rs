//! Which positions threads are evaluating now. Another thread that needs the same evaluation does
//! something else meanwhile, if it has anything else to do.
//!
//! Two threads may claim a position at the same moment, and a claim is lost when a position of the
//! same place is claimed: then a position is evaluated twice, as without claims. Claims know no
//! more than the position: where values and moves are asked for apart, one waits for the other.

use std::sync::atomic::Ordering::Relaxed;

use crate::pages::Pages;

/// Far more than there are positions in flight.
const PLACES: usize = 1 << 12;

/// The key that is being evaluated, by key; 0: none.
pub(super) struct Claims(Pages);

impl Claims {
    pub(super) fn new() -> Self {
        Self(Pages::zeroed(PLACES, 1))
    }

    /// Claims a position; false if another thread has.
    pub(super) fn claim(&self, key: u64) -> bool {
        let [place] = self.0.bucket(key, 1) else { return true };
        let is_free = place.load(Relaxed) != key;
        if is_free {
            place.store(key, Relaxed);
        }
        is_free
    }

    /// The position has been evaluated.
    pub(super) fn release(&self, key: u64) {
        if let [place] = self.0.bucket(key, 1)
            && place.load(Relaxed) == key
        {
            place.store(0, Relaxed);
        }
    }

    /// Releases all positions, also those of searches that failed.
    pub(super) fn release_all(&self) {
        self.0.words().iter().for_each(|place| place.store(0, Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_claimed_once_until_it_is_released() {
        let claims = Claims::new();
        assert!(claims.claim(5 << 50) && !claims.claim(5 << 50));
        assert!(claims.claim(9 << 50));
        claims.release(5 << 50);
        assert!(claims.claim(5 << 50) && !claims.claim(9 << 50));
        // A position of the same place takes the claim over, and only it can release it.
        assert!(claims.claim(5 << 50 | 1));
        claims.release(5 << 50);
        assert!(!claims.claim(5 << 50 | 1));
        claims.release_all();
        assert!(claims.claim(5 << 50 | 1));
    }
}
