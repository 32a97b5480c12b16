//! The errors of reading and writing training data.

use std::io;
use std::path::{Path, PathBuf};

/// An error about a file or folder of training data. The message is one sentence that names the
/// file and, for a damaged block, its number.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// The operating system or a decompressor reported an error.
    #[error("cannot {action} `{path}`: {error}")]
    Io { action: &'static str, path: PathBuf, error: io::Error },
    /// The file is not a shard, or of a version or record size that this build does not know.
    #[error("`{path}` is not a usable shard: {reason}")]
    Shard { path: PathBuf, reason: String },
    /// One block of a shard is damaged.
    #[error("block {block} of `{path}` is damaged: {reason}")]
    Block { path: PathBuf, block: usize, reason: String },
    /// The folder's manifest is missing or unreadable.
    #[error("cannot use the manifest `{path}`: {reason}")]
    Manifest { path: PathBuf, reason: String },
    /// Options that contradict each other or the data.
    #[error("{0}")]
    Options(String),
}

impl DataError {
    /// Returns a function for `map_err` that adds the attempted action and the path.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |error| Self::Io { action, path, error }
    }
}
