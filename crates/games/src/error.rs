//! The errors of runs over files of games; each message is one sentence.

use std::{io, path::PathBuf};

/// An error that ends a run over files.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
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
    /// The inputs are not those with which the output was begun.
    #[error(
        "`{path}` was begun from other games than the input has now; choose another output, or remove this one and `{path}.progress`"
    )]
    OtherInput { path: PathBuf },
    /// The output has no progress file, so that its complete part is unknown.
    #[error("`{path}` exists but has no progress file beside it; choose another output")]
    NotResumable { path: PathBuf },
    /// A thread could not be started.
    #[error("a thread could not be started: {0}")]
    Thread(io::Error),
}
