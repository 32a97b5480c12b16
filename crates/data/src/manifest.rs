//! The manifest of a folder of shards, `manifest.json`: its sources, shards and statistics.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use board::hex;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::error::DataError;
use crate::import_options::ImportOptions;
use crate::input::Format;
use crate::skip::Skipped;
use crate::split::Split;
use crate::statistics::Statistics;

/// File name of the manifest.
pub const MANIFEST_NAME: &str = "manifest.json";

/// Version of the manifest format.
pub const MANIFEST_VERSION: u32 = 1;

/// One imported file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceEntry {
    /// File name without folders.
    pub name: String,
    pub path: PathBuf,
    pub bytes: u64,
    pub sha256: String,
    /// `None` for an empty file.
    pub format: Option<Format>,
    /// Games (of a list of positions: lines) and positions read, usable or not.
    pub games: u64,
    pub positions: u64,
    pub train: Statistics,
    pub validation: Statistics,
    pub skipped: Skipped,
}

/// One shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardEntry {
    pub file: String,
    pub split: Split,
    pub records: u64,
    pub bytes: u64,
    pub sha256: String,
}

/// The whole folder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    pub version: u32,
    /// Program and version that wrote it.
    pub made_by: String,
    pub options: ImportOptions,
    /// In the order of [`crate::Record::source`].
    pub sources: Vec<SourceEntry>,
    pub shards: Vec<ShardEntry>,
    /// Identifies the content of all shards, see [`data_hash`].
    pub data_hash: String,
}

impl Manifest {
    /// Reads the manifest of a folder.
    ///
    /// # Errors
    /// It is missing, unreadable or of another version.
    pub fn load(dir: &Path) -> Result<Self, DataError> {
        let path = dir.join(MANIFEST_NAME);
        let text = match std::fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let reason =
                    "there is none; `batch-first data import` makes such folders".to_owned();
                return Err(DataError::Manifest { path, reason });
            }
            result => result.map_err(DataError::io("read", &path))?,
        };
        let manifest: Self = serde_json::from_slice(&text).map_err(|error| {
            DataError::Manifest { path: path.clone(), reason: error.to_string() }
        })?;
        if manifest.version != MANIFEST_VERSION {
            let reason =
                format!("version {}, this build reads {MANIFEST_VERSION}", manifest.version);
            return Err(DataError::Manifest { path, reason });
        }
        Ok(manifest)
    }

    /// Writes the manifest into a folder under a temporary name, then renames it.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save(&self, dir: &Path) -> Result<(), DataError> {
        let path = dir.join(MANIFEST_NAME);
        let text = serde_json::to_vec_pretty(self).map_err(|error| DataError::Manifest {
            path: path.clone(),
            reason: error.to_string(),
        })?;
        board::write_whole(&path, &text).map_err(DataError::io("write", &path))
    }

    /// Statistics of one split over all sources.
    #[must_use]
    pub fn statistics(&self, split: Split) -> Statistics {
        let mut all = Statistics::default();
        for source in &self.sources {
            all.merge(match split {
                Split::Train => &source.train,
                Split::Validation => &source.validation,
            });
        }
        all
    }
}

/// SHA-256 over the names and hashes of the shards, in order. A network records it as its training
/// data.
#[must_use]
pub fn data_hash(shards: &[ShardEntry]) -> String {
    let mut hasher = Sha256::new();
    for shard in shards {
        hasher.update(format!("{} {}\n", shard.sha256, shard.file));
    }
    hex(&hasher.finalize())
}
