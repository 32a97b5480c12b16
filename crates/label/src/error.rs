//! What can end a labelling run; each is one sentence.

use uci::client::ClientError;

/// A run that cannot begin or go on.
#[derive(Debug, thiserror::Error)]
pub enum LabelError {
    /// An input or the output cannot be used.
    #[error(transparent)]
    File(#[from] games::FileError),
    /// The engine cannot be used, or failed twice on the same game.
    #[error(transparent)]
    Engine(#[from] ClientError),
}
