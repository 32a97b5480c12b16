//! The error of an evaluation: one sentence that names the network or the device.

/// Why a batch cannot be evaluated.
#[derive(Debug, thiserror::Error)]
pub enum EvalError {
    /// The network does not have the requested head.
    #[error("the network `{network}` has no {head} head")]
    NoHead { network: String, head: &'static str },
    /// `wait` was called without a batch in flight.
    #[error("no batch is in flight")]
    NothingInFlight,
    /// This evaluator cannot run the network.
    #[error("the network `{network}` cannot run here: {reason}")]
    Unsupported { network: String, reason: String },
    /// A worker thread ended or a device failed.
    #[error("evaluation failed: {0}")]
    Device(String),
}
