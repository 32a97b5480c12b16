//! The errors that end an analysis; each message is one sentence.

/// An error that ends an analysis.
#[derive(Debug, thiserror::Error)]
pub enum AnnotateError {
    /// An input or an output cannot be used.
    #[error(transparent)]
    File(#[from] games::FileError),
    /// A position could not be evaluated.
    #[error("game {game}: {source}")]
    Evaluation { game: u64, source: eval::EvalError },
    /// The work queue cannot be used.
    #[cfg(feature = "queue")]
    #[error("the queue at {url}: {reason}")]
    Queue { url: String, reason: String },
    /// A worker could not analyse a game.
    #[cfg(feature = "queue")]
    #[error("a worker: {0}")]
    Worker(String),
}
