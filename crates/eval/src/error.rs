//! What can go wrong between a batch and its scores.

/// An evaluation that cannot be done.
#[derive(Debug, thiserror::Error)]
pub enum EvalError {
    /// The network lacks the asked head.
    #[error("the network `{network}` has no {head} head")]
    NoHead { network: String, head: &'static str },
    /// `wait` without a batch in flight.
    #[error("no batch is in flight")]
    NothingInFlight,
    /// The network cannot be run by this evaluator.
    #[error("the network `{network}` cannot run here: {reason}")]
    Unsupported { network: String, reason: String },
    /// A worker thread ended or a device failed.
    #[error("evaluation failed: {0}")]
    Device(String),
}
