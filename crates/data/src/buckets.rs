//! Shuffles and de-duplicates more records than fit into memory.
//!
//! Records are scattered over temporary files by a hash of their squares, so that equal positions
//! meet in one bucket and every bucket is a sample of all games. Each bucket is then de-duplicated,
//! shuffled and packed by itself. A bucket too large for memory is read several times, each time
//! for a part of its hashes.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use board::mix64;
use rand::{SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;

use crate::error::DataError;
use crate::packed::{PackedRecord, RECORD_SIZE, SQUARES_SIZE};
use crate::record::{NO_LABEL, Record};
use crate::shard::{BLOCK_RECORDS, EncodedBlock};
use crate::split::Split;
use crate::statistics::Statistics;

/// Bytes of a bucket that are in memory at the same time.
pub(crate) const PART_BYTES: u64 = 48 << 20;
/// Largest number of buckets; each is an open file, and a process may open only so many.
const MAX_BUCKETS: u64 = 256;
const WRITE_BUFFER: usize = 1 << 16;
/// The last byte of a packed record is 0 in a shard. In a bucket it holds the record's split.
const SPLIT_BYTE: usize = RECORD_SIZE - 1;

/// A hash of squares that is the same on every machine.
pub(crate) fn squares_hash(packed: &PackedRecord, seed: u64) -> u64 {
    let mut hash = seed ^ 0x9e37_79b9_7f4a_7c15;
    for word in packed[..SQUARES_SIZE].chunks_exact(8) {
        // Eight bytes as a little-endian number.
        let word = word.iter().rev().fold(0_u64, |word, &byte| word << 8 | u64::from(byte));
        hash = mix64(hash ^ word);
    }
    hash
}

/// The temporary files.
pub(crate) struct Buckets {
    files: Vec<(PathBuf, BufWriter<File>, u64)>,
}

impl Buckets {
    /// Creates about one bucket for each 2 MB of compressed input.
    pub(crate) fn create(dir: &Path, input_bytes: u64) -> Result<Self, DataError> {
        let count = (input_bytes >> 21).next_power_of_two().clamp(1, MAX_BUCKETS);
        let files = (0..count)
            .map(|number| {
                let path = dir.join(format!("bucket-{number:03}"));
                let file = File::create(&path).map_err(DataError::io("create", &path))?;
                Ok((path, BufWriter::with_capacity(WRITE_BUFFER, file), 0))
            })
            .collect::<Result<_, DataError>>()?;
        Ok(Self { files })
    }

    /// Appends a record to the bucket of `hash`, the hash of its squares.
    pub(crate) fn push(
        &mut self,
        mut packed: PackedRecord,
        hash: u64,
        split: Split,
    ) -> Result<(), DataError> {
        packed[SPLIT_BYTE] = u8::from(split == Split::Validation);
        let bucket = (hash % self.files.len() as u64) as usize;
        let (path, file, records) = &mut self.files[bucket];
        *records += 1;
        file.write_all(&packed).map_err(DataError::io("write", path))
    }

    /// Flushes the files and returns the parts to pack, in order, each of about `part_bytes` bytes.
    /// With `duplicates` equal positions are kept.
    pub(crate) fn finish(
        self,
        part_bytes: u64,
        duplicates: bool,
    ) -> Result<Vec<BucketPart>, DataError> {
        let buckets = self.files.len() as u64;
        let mut parts = Vec::new();
        for (path, file, records) in self.files {
            file.into_inner()
                .map_err(std::io::IntoInnerError::into_error)
                .map_err(DataError::io("write", &path))?;
            let bytes = records * RECORD_SIZE as u64;
            let count = bytes.div_ceil(part_bytes).max(1);
            parts.extend((0..count).map(|part| BucketPart {
                path: path.clone(),
                number: 0,
                buckets,
                part,
                parts: count,
                duplicates,
                bytes: bytes / count,
            }));
        }
        for (number, part) in parts.iter_mut().enumerate() {
            part.number = number as u64;
        }
        Ok(parts)
    }
}

/// A bucket, or a part of a bucket that is too large for memory.
pub(crate) struct BucketPart {
    path: PathBuf,
    /// Number among the parts of all buckets.
    number: u64,
    /// Number of buckets.
    buckets: u64,
    /// Number among the parts of this bucket.
    part: u64,
    /// Number of parts of this bucket.
    parts: u64,
    /// Keep equal positions.
    duplicates: bool,
    /// Approximate size in memory.
    pub(crate) bytes: u64,
}

/// The records of a part, each position once unless duplicates are kept.
struct UniqueRecords {
    records: Vec<PackedRecord>,
    /// Hash of each record and its index in `records`.
    places: Vec<(u64, u32)>,
    /// Number of dropped duplicates by source.
    duplicates: Vec<u64>,
}

/// A part de-duplicated, shuffled and compressed.
pub(crate) struct PackedBucket {
    pub(crate) train: Vec<EncodedBlock>,
    pub(crate) validation: Vec<EncodedBlock>,
    /// Statistics by source.
    pub(crate) train_statistics: Vec<Statistics>,
    pub(crate) validation_statistics: Vec<Statistics>,
    pub(crate) duplicates: Vec<u64>,
}

impl BucketPart {
    /// De-duplicates, shuffles and compresses the part. Of equal positions the record with more
    /// labels is kept, and of these the first.
    pub(crate) fn pack(&self, seed: u64, sources: usize) -> Result<PackedBucket, DataError> {
        let UniqueRecords { mut records, mut places, duplicates } = self.read(sources)?;
        places.sort_unstable();
        let mut kept: Vec<u32> = places.into_iter().map(|(_, at)| at).collect();
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        key[8..16].copy_from_slice(&self.number.to_le_bytes());
        kept.shuffle(&mut ChaCha8Rng::from_seed(key));

        let (mut train, mut validation) = (Vec::new(), Vec::new());
        let mut statistics =
            [vec![Statistics::default(); sources], vec![Statistics::default(); sources]];
        for at in kept {
            let packed = &mut records[at as usize];
            let held_out = std::mem::take(&mut packed[SPLIT_BYTE]) == 1;
            let source = source_of(packed).min(sources - 1);
            statistics[usize::from(held_out)][source].add(&Record::unpack(packed));
            if held_out { validation.push(*packed) } else { train.push(*packed) }
        }
        let encode = |records: &[PackedRecord]| {
            records
                .chunks(BLOCK_RECORDS)
                .map(EncodedBlock::encode)
                .collect::<Result<Vec<_>, _>>()
                .map_err(DataError::io("compress", &self.path))
        };
        let [train_statistics, validation_statistics] = statistics;
        Ok(PackedBucket {
            train: encode(&train)?,
            validation: encode(&validation)?,
            train_statistics,
            validation_statistics,
            duplicates,
        })
    }

    /// Reads the records of the part. Duplicates are dropped while reading, because a position such
    /// as the start position may occur in every game.
    fn read(&self, sources: usize) -> Result<UniqueRecords, DataError> {
        let file = File::open(&self.path).map_err(DataError::io("open", &self.path))?;
        let count =
            file.metadata().map_err(DataError::io("read", &self.path))?.len() / RECORD_SIZE as u64;
        let mut file = BufReader::with_capacity(1 << 20, file);
        let mut records: Vec<PackedRecord> = Vec::new();
        let mut places: HashMap<u64, u32> = HashMap::new();
        let mut all = Vec::new();
        let mut duplicates = vec![0; sources];
        let mut packed = [0; RECORD_SIZE];
        for _ in 0..count {
            file.read_exact(&mut packed).map_err(DataError::io("read", &self.path))?;
            let hash = squares_hash(&packed, 0);
            if self.parts != 1 && hash / self.buckets % self.parts != self.part {
                continue;
            }
            if self.duplicates {
                all.push((hash, records.len() as u32));
                records.push(packed);
                continue;
            }
            let Some(&at) = places.get(&hash) else {
                places.insert(hash, records.len() as u32);
                records.push(packed);
                continue;
            };
            let known = &mut records[at as usize];
            if missing_labels(&packed) < missing_labels(known) {
                // The first occurrence decides the split, whichever record is kept.
                packed[SPLIT_BYTE] = known[SPLIT_BYTE];
                std::mem::swap(known, &mut packed);
            }
            duplicates[source_of(&packed).min(sources - 1)] += 1;
        }
        all.extend(places);
        Ok(UniqueRecords { records, places: all, duplicates })
    }
}

fn source_of(packed: &PackedRecord) -> usize {
    usize::from(Record::unpack(packed).source)
}

fn missing_labels(packed: &PackedRecord) -> u8 {
    let record = Record::unpack(packed);
    2 * u8::from(record.value == NO_LABEL) + u8::from(record.played_value == NO_LABEL)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use nets::Squares;

    use super::*;
    use crate::record::GameResult;

    fn record(number: u32) -> Record {
        let mut squares = [0; 64];
        for (digit, square) in squares.iter_mut().take(8).enumerate() {
            *square = (number >> (4 * digit) & 15) as u8;
        }
        Record {
            squares: Squares(squares),
            white_to_move: true,
            value: number as i32,
            played: 0,
            played_value: 0,
            result: GameResult::Unknown,
            ply: 0,
            halfmove_clock: 0,
            source: 0,
            game: number,
        }
    }

    #[test]
    fn a_bucket_read_in_parts_holds_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let mut buckets = Buckets::create(dir.path(), 5 << 20).unwrap();
        assert_eq!(buckets.files.len(), 2);
        for number in 0..30_000_u32 {
            // Every position three times, the first time to train on.
            let packed = record(number % 10_000).pack();
            let split = if number < 10_000 { Split::Train } else { Split::Validation };
            buckets.push(packed, squares_hash(&packed, 0), split).unwrap();
        }
        let parts = buckets.finish(100_000, false).unwrap();
        assert!(parts.len() > 10, "{} parts", parts.len());
        let mut found = HashSet::new();
        let mut duplicates = 0;
        for part in &parts {
            let records = part.read(1).unwrap().records;
            assert!(records.len() * RECORD_SIZE < 150_000);
            found.extend(records);
            let packed = part.pack(1, 1).unwrap();
            duplicates += packed.duplicates[0];
            assert!(packed.validation.is_empty(), "the first occurrence decides the half");
            assert_eq!(
                packed.train_statistics[0].records,
                packed.train.iter().map(|block| block.records() as u64).sum::<u64>()
            );
        }
        assert_eq!(duplicates, 20_000);
        assert_eq!(found.len(), 10_000, "equal records never meet in memory");
    }
}
