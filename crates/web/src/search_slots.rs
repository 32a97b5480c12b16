//! The fair queue of searches: a fixed number of search slots, first come, first served; and the
//! thread of a search.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use board::Game;
use search::{Control, Limits, Outcome, Search, SearchInfo};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task,
};

use crate::ApiError;

/// While searches wait, every search gets a turn within this time if all turns are equally long.
const ROUND: Duration = Duration::from_secs(1);
/// The shortest turn: a search needs some time for its first line.
const MIN_TURN: Duration = Duration::from_millis(100);

/// The search slots of a server.
#[derive(Debug)]
pub struct SearchSlots {
    semaphore: Arc<Semaphore>,
    count: usize,
    waiting: AtomicUsize,
}

/// The right to run one search; released when dropped.
#[derive(Debug)]
pub struct SearchSlot {
    _permit: OwnedSemaphorePermit,
}

impl SearchSlots {
    /// `count` slots, at least one.
    #[must_use]
    pub fn new(count: usize) -> Self {
        let count = count.max(1);
        let semaphore = Arc::new(Semaphore::new(count));
        Self { semaphore, count, waiting: AtomicUsize::new(0) }
    }

    /// Waits for a free slot.
    ///
    /// # Errors
    /// The server is shutting down.
    pub async fn acquire(&self) -> Result<SearchSlot, ApiError> {
        let _waiter = Waiter::new(&self.waiting);
        let permit = Arc::clone(&self.semaphore).acquire_owned().await;
        permit
            .map(|permit| SearchSlot { _permit: permit })
            .map_err(|_| ApiError::new("The server is closing."))
    }

    /// Whether a search without an end of its own gives its slot up, after it has had it for `used`.
    /// The more searches wait, the shorter are the turns; nobody gives way while none waits.
    #[must_use]
    pub fn is_turn_over(&self, used: Duration) -> bool {
        let waiting = self.waiting.load(Ordering::Relaxed);
        let share = self.count as f64 / (self.count + waiting) as f64;
        waiting > 0 && used >= ROUND.mul_f64(share).max(MIN_TURN)
    }
}

/// Counts one waiting search until it is dropped: a search may stop waiting at any time.
struct Waiter<'a>(&'a AtomicUsize);

impl<'a> Waiter<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Stops a search when the future that waits for it is dropped.
struct StopOnDrop(Control);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Runs a search on a blocking thread and returns it with its outcome; it keeps its cache. Dropping
/// this future stops the search.
///
/// # Errors
/// The evaluator failed, or the search panicked.
pub async fn run_search(
    mut search: Box<dyn Search>,
    game: Game,
    limits: Limits,
    control: Control,
    mut on_info: impl FnMut(&SearchInfo) + Send + 'static,
) -> Result<(Box<dyn Search>, Outcome), ApiError> {
    let _stop = StopOnDrop(control.clone());
    let running = task::spawn_blocking(move || {
        let outcome = search.search(&game, &limits, &control, &mut on_info);
        (search, outcome)
    });
    let (search, outcome) = running
        .await
        .map_err(|_| ApiError::new("The search stopped unexpectedly. Please report this."))?;
    let outcome =
        outcome.map_err(|error| ApiError::sentence(&format!("The evaluator failed: {error}")))?;
    Ok((search, outcome))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_shorter_the_more_searches_wait() {
        let slots = SearchSlots::new(4);
        let is_over = |milliseconds| slots.is_turn_over(Duration::from_millis(milliseconds));
        assert!(!is_over(60_000), "nobody waits");
        let mut waiters: Vec<_> = (0..16).map(|_| Waiter::new(&slots.waiting)).collect();
        assert!(!is_over(199) && is_over(200));
        waiters.truncate(1);
        assert!(!is_over(799) && is_over(800));
        waiters.clear();
        assert!(!is_over(60_000));
    }
}
