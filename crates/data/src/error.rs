//! What can go wrong between a file and a record.

use std::io;
use std::path::{Path, PathBuf};

/// A file or folder of data that cannot be used; the message names the file (and the block) and is
/// one sentence.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// The operating system, or a decompressor, refused.
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
    /// For `map_err`: what was tried on which path.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |error| Self::Io { action, path, error }
    }
}
