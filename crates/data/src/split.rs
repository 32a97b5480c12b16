//! The training and validation splits of a folder of shards, and a reader of one split.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::DataError;
use crate::record::Record;
use crate::shard::ShardReader;

/// Extension of shard files.
pub const SHARD_EXTENSION: &str = "bfs";

/// Whether a record is trained on or held out for validation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Split {
    Train,
    Validation,
}

impl Split {
    /// Both splits.
    pub const ALL: [Self; 2] = [Self::Train, Self::Validation];

    /// `train` or `validation`, the prefix of shard names.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Validation => "validation",
        }
    }

    /// File name of this split's shard number `number`.
    #[must_use]
    pub fn shard_name(self, number: usize) -> String {
        format!("{}-{number:03}.{SHARD_EXTENSION}", self.name())
    }
}

/// The shards of one split, in order of their names.
///
/// # Errors
/// The folder cannot be read.
pub fn shard_paths(dir: &Path, split: Split) -> Result<Vec<PathBuf>, DataError> {
    let prefix = format!("{}-", split.name());
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(DataError::io("read the folder", dir))? {
        let path = entry.map_err(DataError::io("read the folder", dir))?.path();
        let named = path
            .file_name()
            .and_then(|name| name.to_str())
            .is_some_and(|name| name.starts_with(&prefix));
        if named && path.extension().is_some_and(|extension| extension == SHARD_EXTENSION) {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// Reads the records of one split in the order of the files, with one block in memory at a time.
///
/// # Errors
/// The folder or a shard cannot be opened; the iterator itself yields an error for a damaged block
/// and then ends.
pub fn read_split(dir: &Path, split: Split) -> Result<SplitRecords, DataError> {
    let readers = shard_paths(dir, split)?
        .iter()
        .map(|path| ShardReader::open(path))
        .collect::<Result<Vec<_>, _>>()?;
    if readers.is_empty() {
        return Err(DataError::Options(format!(
            "`{}` holds no {} shards; make some with `batch-first data import`",
            dir.display(),
            split.name()
        )));
    }
    let len = readers.iter().map(ShardReader::len).sum();
    Ok(SplitRecords {
        readers: readers.into_iter(),
        current: None,
        block: Vec::new().into_iter(),
        len,
    })
}

/// The iterator of [`read_split`].
#[derive(Debug)]
pub struct SplitRecords {
    readers: std::vec::IntoIter<ShardReader>,
    current: Option<(ShardReader, usize)>,
    block: std::vec::IntoIter<Record>,
    len: u64,
}

impl SplitRecords {
    /// Number of records of the whole split.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.len
    }
}

impl Iterator for SplitRecords {
    type Item = Result<Record, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(record) = self.block.next() {
                return Some(Ok(record));
            }
            match &mut self.current {
                Some((reader, next)) if *next < reader.blocks() => {
                    *next += 1;
                    match reader.read_block(*next - 1) {
                        Ok(records) => self.block = records.into_iter(),
                        Err(error) => {
                            self.current = None;
                            self.readers = Vec::new().into_iter();
                            return Some(Err(error));
                        }
                    }
                }
                _ => self.current = Some((self.readers.next()?, 0)),
            }
        }
    }
}
