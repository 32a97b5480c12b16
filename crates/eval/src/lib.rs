//! Batches of positions in, scores out.
//!
//! An [`Evaluator`] knows nothing of searches: it takes a [`Batch`] of questions (what is this
//! position worth? what is each of these moves worth?), answers in centipawns (moves, where the
//! network has a policy, in logarithms of chances), and lets several batches be in flight so that
//! the asking side works while the device does. [`Cached`] remembers, [`Shared`] lets many searches
//! use the same evaluators; [`Mock`] answers from a hash of the position.

mod batch;
mod cache;
pub mod cpu;
mod device;
mod error;
mod folded;
#[cfg(feature = "gpu")]
pub mod gpu;
mod mock;
mod precision;
pub mod reference;
mod shared;
mod store;

pub use batch::{Answered, Batch, Query, Scores};
pub use cache::{CacheCounts, Cached, EvaluationCache};
pub use device::{DeviceName, Devices};
pub use error::EvalError;
pub use mock::Mock;
pub use precision::Precision;
pub use shared::{Client, Shared};

/// Batches that are sent one after the other without waiting for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// Queries in each.
    pub batch: usize,
    /// How many of them are to be on their way.
    pub in_flight: usize,
}

/// Scores positions in batches, first in, first out.
pub trait Evaluator: Send {
    /// Queues a batch; returns before it is evaluated where the evaluator works in the background.
    ///
    /// # Errors
    /// The batch asks for a head that the network does not have, or the device failed.
    fn submit(&mut self, batch: Batch) -> Result<(), EvalError>;

    /// The oldest submitted batch with its scores; waits for it. The batch comes back so that its
    /// memory can be used again.
    ///
    /// # Errors
    /// Nothing was submitted, or the device failed.
    fn wait(&mut self) -> Result<Answered, EvalError>;

    /// Batches submitted and not yet waited for.
    fn in_flight(&self) -> usize;

    /// The number of queries from which more bring no more speed, where one batch is waited for
    /// before the next is made.
    fn preferred_batch(&self) -> usize;

    /// The largest number of queries that one batch may hold.
    fn largest_batch(&self) -> usize;

    /// The preferred batch size and number of batches in flight for a caller that works while batches
    /// are evaluated.
    fn preferred_stream(&self) -> Stream {
        Stream { batch: self.preferred_batch(), in_flight: 1 }
    }

    /// One line for people: network, device, code path, threads.
    fn describe(&self) -> String;

    /// Submits a batch and waits for it; nothing else may be in flight.
    ///
    /// # Errors
    /// As [`Evaluator::submit`] and [`Evaluator::wait`].
    fn evaluate(&mut self, batch: Batch) -> Result<Answered, EvalError> {
        self.submit(batch)?;
        self.wait()
    }
}

impl<E: Evaluator + ?Sized> Evaluator for Box<E> {
    fn submit(&mut self, batch: Batch) -> Result<(), EvalError> {
        (**self).submit(batch)
    }
    fn wait(&mut self) -> Result<Answered, EvalError> {
        (**self).wait()
    }
    fn in_flight(&self) -> usize {
        (**self).in_flight()
    }
    fn preferred_batch(&self) -> usize {
        (**self).preferred_batch()
    }
    fn largest_batch(&self) -> usize {
        (**self).largest_batch()
    }
    fn preferred_stream(&self) -> Stream {
        (**self).preferred_stream()
    }
    fn describe(&self) -> String {
        (**self).describe()
    }
}
