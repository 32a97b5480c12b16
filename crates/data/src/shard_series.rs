//! The numbered shards of one split: a new file begins when the current one is full.

use std::path::Path;

use crate::error::DataError;
use crate::manifest::ShardEntry;
use crate::shard::{EncodedBlock, ShardWriter};
use crate::split::Split;

/// Records of a full shard.
pub const SHARD_RECORDS: u64 = 1 << 20;

/// The shards of one split that are being written.
pub(crate) struct ShardSeries<'a> {
    dir: &'a Path,
    split: Split,
    current: Option<ShardWriter>,
    finished: Vec<ShardEntry>,
}

impl<'a> ShardSeries<'a> {
    pub(crate) fn new(dir: &'a Path, split: Split) -> Self {
        Self { dir, split, current: None, finished: Vec::new() }
    }

    /// Appends blocks to the current shard; a full shard is closed first.
    pub(crate) fn write(&mut self, blocks: &[EncodedBlock]) -> Result<(), DataError> {
        for block in blocks {
            if self
                .current
                .as_ref()
                .is_some_and(|writer| writer.len() + block.records() as u64 > SHARD_RECORDS)
            {
                self.close()?;
            }
            let writer = match &mut self.current {
                Some(writer) => writer,
                none => {
                    let path = self.dir.join(self.split.shard_name(self.finished.len()));
                    none.insert(ShardWriter::create(&path)?)
                }
            };
            writer.push_block(block)?;
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), DataError> {
        let Some(writer) = self.current.take() else { return Ok(()) };
        let file = self.split.shard_name(self.finished.len());
        let records = writer.finish()?;
        let path = self.dir.join(&file);
        let (bytes, sha256) = board::sha256_file(&path).map_err(DataError::io("read", &path))?;
        self.finished.push(ShardEntry { file, split: self.split, records, bytes, sha256 });
        Ok(())
    }

    /// Closes the last shard and returns the entries of all shards.
    pub(crate) fn finish(mut self) -> Result<Vec<ShardEntry>, DataError> {
        self.close()?;
        Ok(self.finished)
    }
}
