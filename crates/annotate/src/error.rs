//! What can end an analysis; each is one sentence.

/// An analysis that cannot begin or go on.
#[derive(Debug, thiserror::Error)]
pub enum AnnotateError {
    /// An input or an output cannot be used.
    #[error(transparent)]
    File(#[from] games::FileError),
    /// A position could not be evaluated.
    #[error("game {game}: {source}")]
    Evaluation { game: u64, source: eval::EvalError },
}
