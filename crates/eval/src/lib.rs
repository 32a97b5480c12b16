//! Evaluation of positions and moves by a network, in batches.
//!
//! An [`Evaluator`] takes a [`Batch`] of queries: the value of a position, the scores of some of
//! its moves, or both. Values are in centipawns. Move scores are in centipawns too, or natural
//! logarithms of probabilities where the network has a policy head. Several batches may be in
//! flight, so that a search works while the device evaluates.
//!
//! [`CpuEvaluator`](cpu::CpuEvaluator) and `gpu::GpuEvaluator` run networks. [`Cached`] keeps
//! earlier scores, [`Shared`] lets many searches use the same evaluators, [`Mock`] computes scores
//! from a hash of the position, [`DeviceModel`] imitates the speed of a device, and [`reference`] is
//! the plain implementation for tests.

mod batch;
mod cache;
pub mod cpu;
mod device;
mod device_model;
mod error;
mod folded;
#[cfg(feature = "gpu")]
pub mod gpu;
mod large_pages;
mod mock;
mod precision;
pub mod reference;
mod shared;
mod store;

pub use batch::{Answered, Batch, Query, Scores};
pub use cache::{CacheCounts, Cached, EvaluationCache};
pub use device::{DeviceName, Devices};
pub use device_model::{DeviceModel, DeviceSpeed};
pub use error::EvalError;
pub use large_pages::use_large_pages;
pub use mock::Mock;
pub use precision::Precision;
pub use shared::{Client, Shared};

/// How a caller that does not wait for each batch uses an evaluator best.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// Queries a batch.
    pub batch: usize,
    /// Batches in flight.
    pub in_flight: usize,
    /// Do move scores cost about as much as all the rest, or share nothing with the value? Then a
    /// caller saves time that asks for them only where it needs them.
    pub moves_are_dear: bool,
}

/// Scores positions in batches; batches are returned in the order in which they were submitted.
pub trait Evaluator: Send {
    /// Queues a batch. An evaluator with threads of its own returns before the batch is evaluated.
    ///
    /// # Errors
    /// The batch needs a head that the network does not have, or the device failed.
    fn submit(&mut self, batch: Batch) -> Result<(), EvalError>;

    /// Waits for the oldest submitted batch and returns it with its scores, so that the caller can
    /// reuse its memory.
    ///
    /// # Errors
    /// No batch is in flight, or the device failed.
    fn wait(&mut self) -> Result<Answered, EvalError>;

    /// Batches submitted and not yet returned by [`Evaluator::wait`].
    fn in_flight(&self) -> usize;

    /// The batch size above which larger batches are no faster per query, for a caller that waits
    /// for each batch before it makes the next.
    fn preferred_batch(&self) -> usize;

    /// The most queries that one batch may hold.
    fn largest_batch(&self) -> usize;

    /// The preferred batch size and number of batches in flight for a caller that works while batches
    /// are evaluated.
    fn preferred_stream(&self) -> Stream {
        Stream { batch: self.preferred_batch(), in_flight: 1, moves_are_dear: false }
    }

    /// One line for the user: network, device, code path, threads.
    fn describe(&self) -> String;

    /// An evaluator of the same scores for each of its threads, each with one thread: for a search
    /// that works on several threads itself. None if it has one thread or cannot be divided.
    fn apart(&self) -> Vec<Box<dyn Evaluator>> {
        Vec::new()
    }

    /// Submits a batch and waits for it. No other batch may be in flight.
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
    fn apart(&self) -> Vec<Box<dyn Evaluator>> {
        (**self).apart()
    }
}
