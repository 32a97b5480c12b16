//! Converts files of games and evaluations to packed, shuffled training records, and loads them in
//! batches.

mod buckets;
mod epd;
mod error;
mod evaluations;
mod filter;
mod import;
mod import_options;
mod input;
mod inspect;
mod lichess;
mod loader;
mod manifest;
mod packed;
mod parsed;
mod pgn;
mod record;
mod record_folder;
mod shard;
mod shard_series;
mod skip;
mod source_import;
mod split;
mod statistics;
mod stream;

pub use error::DataError;
pub use evaluations::{EvaluationStream, StreamCounts, StreamOptions};
pub use filter::{GameFilter, ResultFilter};
pub use import::{ImportProgress, import};
pub use import_options::ImportOptions;
pub use input::{Format, plain_text};
pub use inspect::{Inspection, inspect};
pub use loader::{ExampleInfo, GROUP_BLOCKS, LoadedBatch, Loader, LoaderOptions, Target};
pub use manifest::{MANIFEST_NAME, MANIFEST_VERSION, Manifest, ShardEntry, SourceEntry, data_hash};
pub use packed::{PackedRecord, RECORD_SIZE};
pub use parsed::ParsedChunk;
pub use record::{GameResult, MATE_LABEL, NO_LABEL, Record, mate_label};
pub use record_folder::write_records;
pub use shard::{BLOCK_RECORDS, EncodedBlock, ShardReader, ShardWriter};
pub use shard_series::SHARD_RECORDS;
pub use skip::{SkipKind, Skipped};
pub use split::{SHARD_EXTENSION, Split, SplitRecords, read_split, shard_paths};
pub use statistics::{
    LABEL_CLASSES, PLIES_PER_CLASS, PLY_CLASSES, PieceCounts, Statistics, label_class_name,
};
pub use stream::{FileInfo, read_file};
