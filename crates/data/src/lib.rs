//! From files of games and evaluations to packed, shuffled training records.

mod error;
mod loader;
mod packed;
mod record;
mod shard;
mod split;

pub use error::DataError;
pub use loader::{ExampleInfo, GROUP_BLOCKS, LoadedBatch, Loader, LoaderOptions, Target};
pub use packed::{PackedRecord, RECORD_SIZE};
pub use record::{GameResult, MATE_LABEL, NO_LABEL, Record, mate_label};
pub use shard::{BLOCK_RECORDS, EncodedBlock, ShardReader, ShardWriter};
pub use split::{SHARD_EXTENSION, Split, SplitRecords, read_split, shard_paths};
