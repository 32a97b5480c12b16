//! Limits of pages: the number of open pages of a visitor, and the number of messages of a page.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

/// The most pages that one visitor may have open.
const MAX_PAGES_PER_VISITOR: usize = 8;
/// The most pages that all visitors together may have open.
const MAX_PAGES: usize = 128;

/// The most messages of one page at once.
const BURST: f64 = 60.0;
/// Messages of one page a second in the long run.
const RATE: f64 = 20.0;

/// Counts open pages by visitor; clones share the counts.
#[derive(Clone, Debug, Default)]
pub struct PageLimiter(Arc<Mutex<HashMap<String, usize>>>);

/// One open page; counted until dropped.
#[derive(Debug)]
pub struct PagePermit {
    limiter: PageLimiter,
    visitor: String,
}

impl PageLimiter {
    /// Counts another page of a visitor.
    ///
    /// # Errors
    /// The visitor, or all visitors together, have too many pages open; a sentence for the visitor.
    pub fn acquire(&self, visitor: &str) -> Result<PagePermit, &'static str> {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let own = counts.get(visitor).copied().unwrap_or(0);
        if own >= MAX_PAGES_PER_VISITOR {
            return Err("You have too many pages open. Close one.");
        }
        if counts.values().sum::<usize>() >= MAX_PAGES {
            return Err("Too many visitors are connected. Please wait.");
        }
        counts.insert(visitor.to_owned(), own + 1);
        Ok(PagePermit { limiter: self.clone(), visitor: visitor.to_owned() })
    }
}

impl Drop for PagePermit {
    fn drop(&mut self) {
        let mut counts = self.limiter.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.visitor) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.visitor);
            }
        }
    }
}

/// A token bucket that limits the messages of one page.
#[derive(Debug)]
pub struct RateLimiter {
    tokens: f64,
    updated: Instant,
}

impl RateLimiter {
    /// A full bucket.
    #[must_use]
    pub fn new(now: Instant) -> Self {
        Self { tokens: BURST, updated: now }
    }

    /// Takes a token for one message; false if none is left.
    pub fn try_take(&mut self, now: Instant) -> bool {
        let earned = now.saturating_duration_since(self.updated).as_secs_f64() * RATE;
        self.tokens = (self.tokens + earned).min(BURST) - 1.0;
        self.updated = now;
        self.tokens >= 0.0
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_rate_limiter_allows_a_burst_and_refills_over_time() {
        let start = Instant::now();
        let mut limiter = RateLimiter::new(start);
        assert!((0..60).all(|_| limiter.try_take(start)));
        assert!(!limiter.try_take(start));
        let later = start + Duration::from_millis(500);
        assert!((0..9).all(|_| limiter.try_take(later)));
        assert!(!limiter.try_take(later));
    }
}
