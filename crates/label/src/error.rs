//! The errors that end a labelling run; each message is one sentence.

use std::path::PathBuf;

use uci::client::ClientError;

/// An error that ends a labelling run.
#[derive(Debug, thiserror::Error)]
pub enum LabelError {
    /// An input or the output cannot be used.
    #[error(transparent)]
    File(#[from] games::FileError),
    /// The engine cannot be used, or failed twice on the same game.
    #[error(transparent)]
    Engine(#[from] ClientError),
    /// The search whose trees are sampled cannot be built.
    #[error(transparent)]
    Search(#[from] engine::EngineError),
    /// The evaluator of that search failed.
    #[error(transparent)]
    Evaluator(#[from] eval::EvalError),
    /// A network of Stockfish cannot be read.
    #[error(
        "{path}: {reason}; Stockfish 15.1 writes its network with `export_net FILE`",
        path = .path.display()
    )]
    Network { path: PathBuf, reason: String },
}
