//! What can end a labelling run; each is one sentence.

use std::{io, path::PathBuf};

use uci::client::ClientError;

/// A run that cannot begin or go on.
#[derive(Debug, thiserror::Error)]
pub enum LabelError {
    /// An input cannot be read.
    #[error("cannot read `{path}`: {source}")]
    Read { path: PathBuf, source: io::Error },
    /// The output or its progress file cannot be written.
    #[error("cannot write `{path}`: {source}")]
    Write { path: PathBuf, source: io::Error },
    /// The output belongs to a run with other settings.
    #[error(
        "`{path}` was begun with other settings ({difference}); choose another output or the same settings"
    )]
    OtherRun { path: PathBuf, difference: String },
    /// There is an output but nothing says how much of it is complete.
    #[error("`{path}` exists but has no progress file beside it; choose another output")]
    NotResumable { path: PathBuf },
    /// The engine cannot be used, or failed twice on the same game.
    #[error(transparent)]
    Engine(#[from] ClientError),
    /// A thread could not be started.
    #[error("a thread could not be started: {0}")]
    Thread(io::Error),
}
