//! Records that another program made, as a folder of shards.

use std::path::{Path, PathBuf};

use rayon::prelude::*;

use crate::{
    error::DataError,
    import::existing,
    import_options::ImportOptions,
    manifest::{MANIFEST_VERSION, Manifest, SourceEntry, data_hash},
    packed::PackedRecord,
    record::Record,
    shard::{BLOCK_RECORDS, EncodedBlock},
    shard_series::ShardSeries,
    skip::Skipped,
    split::Split,
    statistics::Statistics,
};

/// Writes the records of both splits, training first, into `dir` (created if missing) as the import
/// of one file named `source`. Their order stays as it is: training takes them in blocks, so they
/// should be shuffled.
///
/// # Errors
/// The folder holds shards already, or a file cannot be written.
pub fn write_records(
    dir: &Path,
    source: &str,
    records: [&[Record]; 2],
) -> Result<Manifest, DataError> {
    std::fs::create_dir_all(dir).map_err(DataError::io("create the folder", dir))?;
    if !existing(dir)?.is_empty() {
        return Err(DataError::Options(format!(
            "`{}` already holds shards; choose another folder",
            dir.display()
        )));
    }
    let mut shards = Vec::new();
    for (split, records) in Split::ALL.into_iter().zip(records) {
        let mut series = ShardSeries::new(dir, split);
        // A group of blocks at a time, so that they are not all in memory twice.
        for group in records.chunks(16 * BLOCK_RECORDS) {
            let encode = |block: &[Record]| {
                let packed: Vec<PackedRecord> = block.iter().map(Record::pack).collect();
                EncodedBlock::encode(&packed).map_err(DataError::io("compress for", dir))
            };
            let blocks: Vec<EncodedBlock> =
                group.par_chunks(BLOCK_RECORDS).map(encode).collect::<Result<_, _>>()?;
            series.write(&blocks)?;
        }
        shards.extend(series.finish()?);
    }
    let [train, validation] = records.map(|records| {
        let mut statistics = Statistics::default();
        records.iter().for_each(|record| statistics.add(record));
        statistics
    });
    let entry = SourceEntry {
        name: source.to_owned(),
        path: PathBuf::from(source),
        bytes: 0,
        sha256: String::new(),
        format: None,
        games: 0,
        positions: train.records + validation.records,
        train,
        validation,
        skipped: Skipped::default(),
    };
    let manifest = Manifest {
        version: MANIFEST_VERSION,
        made_by: concat!("batch-first ", env!("CARGO_PKG_VERSION")).to_owned(),
        options: ImportOptions::default(),
        sources: vec![entry],
        data_hash: data_hash(&shards),
        shards,
    };
    manifest.save(dir)?;
    Ok(manifest)
}
