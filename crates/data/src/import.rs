//! Files in, a folder of shuffled shards and a manifest out.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::buckets::{BucketPart, Buckets, PART_BYTES, PackedBucket, mix, squares_hash};
use crate::error::DataError;
use crate::filter::GameFilter;
use crate::manifest::{
    MANIFEST_NAME, MANIFEST_VERSION, Manifest, ShardEntry, SourceEntry, data_hash,
};
use crate::parsed::ParsedChunk;
use crate::record::{MATE_LABEL, NO_LABEL, Record};
use crate::shard::{EncodedBlock, ShardWriter};
use crate::skip::{SkipKind, Skipped};
use crate::split::{Split, shard_paths};
use crate::statistics::Statistics;
use crate::stream::read_file;

/// Records of a full shard.
pub const SHARD_RECORDS: u64 = 1 << 20;

/// Bytes of buckets packed at the same time.
const PACK_BYTES: u64 = 96 << 20;

/// How files become shards. The same files and options make the same shards on any number of
/// threads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ImportOptions {
    /// Share of the games (of single positions: of the positions) that are held out, 0 to below 1.
    pub validation: f64,
    /// Decides which games are held out and the order of the records.
    pub seed: u64,
    /// At most so many positions of each file, from its start: those with a label, and with
    /// `unlabelled` the others too.
    pub max_positions: Option<u64>,
    /// Keep mates among the labels; otherwise a mate counts as no label.
    pub mates: bool,
    /// Also keep positions with a played move but no label.
    pub unlabelled: bool,
    /// Keep equal positions as often as they occur: what was played there matters, not only what
    /// they are worth.
    #[serde(default)]
    pub duplicates: bool,
    /// Which games are taken.
    #[serde(default)]
    pub games: GameFilter,
    /// Parsing threads; 0: one a processor.
    #[serde(skip)]
    pub threads: usize,
    /// Replace the shards that the folder already holds.
    #[serde(skip)]
    pub overwrite: bool,
}

impl Default for ImportOptions {
    fn default() -> Self {
        Self {
            validation: 0.02,
            seed: 1,
            max_positions: None,
            mates: true,
            unlabelled: false,
            duplicates: false,
            games: GameFilter::default(),
            threads: 0,
            overwrite: false,
        }
    }
}

/// Who wants to know how far an import is. Every method does nothing by default.
pub trait ImportProgress {
    /// A file of so many bytes is begun.
    fn file(&mut self, _path: &Path, _bytes: u64) {}
    /// So many bytes of the file, and so many positions, are read.
    fn read(&mut self, _bytes: u64, _positions: u64) {}
    /// So many of the buckets are shuffled and packed.
    fn packed(&mut self, _done: usize, _of: usize) {}
}

/// Tells nobody.
impl ImportProgress for () {}

/// Imports `files` into `dir` (created if missing). Nothing appears there under its final name
/// before everything is written. Memory stays below about 400 MB whatever the size of the files;
/// the disk must hold 52 bytes a position for the time of the import.
///
/// # Errors
/// A file cannot be read, the options make no sense, or the folder holds shards already.
pub fn import(
    files: &[PathBuf],
    dir: &Path,
    options: &ImportOptions,
    progress: &mut dyn ImportProgress,
) -> Result<Manifest, DataError> {
    if files.is_empty() || files.len() > 256 {
        return Err(DataError::Options(format!("{} files given, expected 1 to 256", files.len())));
    }
    if !(0.0..1.0).contains(&options.validation) {
        return Err(DataError::Options(format!(
            "a validation share of {} was asked for, expected 0 to below 1",
            options.validation
        )));
    }
    let sizes = files
        .iter()
        .map(|path| {
            std::fs::metadata(path)
                .map(|metadata| metadata.len())
                .map_err(DataError::io("open", path))
        })
        .collect::<Result<Vec<_>, _>>()?;
    std::fs::create_dir_all(dir).map_err(DataError::io("create the folder", dir))?;
    let old = existing(dir)?;
    if !old.is_empty() && !options.overwrite {
        return Err(DataError::Options(format!(
            "`{}` already holds shards; choose another folder or replace them with --overwrite",
            dir.display()
        )));
    }
    let work = WorkFolder::create(dir)?;
    let threads = match options.threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    };

    let mut buckets = Buckets::create(&work.0, sizes.iter().sum())?;
    let mut sources = Vec::with_capacity(files.len());
    let mut games = 0;
    for (number, (path, &bytes)) in files.iter().zip(&sizes).enumerate() {
        progress.file(path, bytes);
        let mut scatter = SourceImport {
            options,
            buckets: &mut buckets,
            source: number as u8,
            first_game: games,
            games: 0,
            positions: 0,
            taken: 0,
            skipped: Skipped::default(),
        };
        let facts = read_file(path, threads, &options.games, |parsed, bytes| {
            let flow = scatter.take(parsed)?;
            progress.read(bytes, scatter.positions);
            Ok(flow)
        })?;
        let SourceImport { games: read, positions, skipped, .. } = scatter;
        games += read;
        sources.push(SourceEntry {
            name: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            path: path.clone(),
            bytes: facts.bytes,
            sha256: facts.sha256,
            format: facts.format,
            games: read,
            positions,
            train: Statistics::default(),
            validation: Statistics::default(),
            skipped,
        });
    }

    let parts = buckets.finish(PART_BYTES, options.duplicates)?;
    let shards = pack(&parts, &work.0, options.seed, threads, &mut sources, progress)?;
    for path in old {
        std::fs::remove_file(&path).map_err(DataError::io("remove", &path))?;
    }
    for shard in &shards {
        let (from, to) = (work.0.join(&shard.file), dir.join(&shard.file));
        std::fs::rename(&from, &to).map_err(DataError::io("rename", &to))?;
    }
    let manifest = Manifest {
        version: MANIFEST_VERSION,
        made_by: concat!("batch-first ", env!("CARGO_PKG_VERSION")).to_owned(),
        options: options.clone(),
        sources,
        data_hash: data_hash(&shards),
        shards,
    };
    manifest.save(dir)?;
    Ok(manifest)
}

/// The shards and the manifest in a folder, the manifest first.
fn existing(dir: &Path) -> Result<Vec<PathBuf>, DataError> {
    let mut paths = Vec::new();
    let manifest = dir.join(MANIFEST_NAME);
    if manifest.exists() {
        paths.push(manifest);
    }
    for split in Split::ALL {
        paths.extend(shard_paths(dir, split)?);
    }
    Ok(paths)
}

/// The folder for temporary files, removed with its content when the import ends in any way.
struct WorkFolder(PathBuf);

impl WorkFolder {
    fn create(dir: &Path) -> Result<Self, DataError> {
        let path = dir.join(format!(".import-{}", std::process::id()));
        std::fs::create_dir_all(&path).map_err(DataError::io("create the folder", &path))?;
        Ok(Self(path))
    }
}

impl Drop for WorkFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Takes the pieces of one file in order: numbers, filters and splits their records.
struct SourceImport<'a> {
    options: &'a ImportOptions,
    buckets: &'a mut Buckets,
    source: u8,
    /// Games of the files before.
    first_game: u64,
    games: u64,
    positions: u64,
    taken: u64,
    skipped: Skipped,
}

impl SourceImport<'_> {
    fn take(&mut self, parsed: ParsedChunk) -> Result<ControlFlow<()>, DataError> {
        self.positions += parsed.positions;
        self.skipped.merge(&parsed.skipped);
        for mut record in parsed.records {
            if self.options.max_positions.is_some_and(|most| self.taken >= most) {
                self.games += u64::from(parsed.games);
                return Ok(ControlFlow::Break(()));
            }
            self.drop_mates(&mut record);
            let labelled = record.value != NO_LABEL || record.played_value != NO_LABEL;
            let wanted = self.options.unlabelled && record.played != nets::PolicyIndex::MAX;
            if !labelled && !wanted {
                self.skipped.add(SkipKind::Unlabelled);
                continue;
            }
            let game = self.games + u64::from(record.game);
            record.game = (self.first_game + game) as u32;
            record.source = self.source;
            let packed = record.pack();
            let split_key = if parsed.single_positions {
                squares_hash(&packed, mix(self.options.seed))
            } else {
                mix(mix(self.options.seed) ^ mix(u64::from(self.source) << 40 | game))
            };
            // The upper 53 bits as a number from 0 to below 1.
            let held_out =
                ((split_key >> 11) as f64 / (1_u64 << 53) as f64) < self.options.validation;
            let split = if held_out { Split::Validation } else { Split::Train };
            self.buckets.push(packed, squares_hash(&packed, 0), split)?;
            self.taken += 1;
        }
        self.games += u64::from(parsed.games);
        Ok(ControlFlow::Continue(()))
    }

    fn drop_mates(&mut self, record: &mut Record) {
        if self.options.mates {
            return;
        }
        for label in [&mut record.value, &mut record.played_value] {
            if *label != NO_LABEL && label.unsigned_abs() >= MATE_LABEL as u32 {
                *label = NO_LABEL;
                self.skipped.add(SkipKind::Mate);
            }
        }
    }
}

/// Packs the buckets, several at a time but written in order.
fn pack(
    parts: &[BucketPart],
    work: &Path,
    seed: u64,
    threads: usize,
    sources: &mut [SourceEntry],
    progress: &mut dyn ImportProgress,
) -> Result<Vec<ShardEntry>, DataError> {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .map_err(|error| DataError::Options(format!("cannot start {threads} threads: {error}")))?;
    let mut train = ShardSeries::new(work, Split::Train);
    let mut validation = ShardSeries::new(work, Split::Validation);
    let mut done = 0;
    while done < parts.len() {
        let mut bytes = 0;
        let group = parts[done..]
            .iter()
            .take(2 * threads)
            .take_while(|part| {
                let first = bytes == 0;
                bytes += part.bytes.max(1);
                first || bytes <= PACK_BYTES
            })
            .count();
        let packed: Vec<PackedBucket> = pool.install(|| {
            parts[done..done + group]
                .par_iter()
                .map(|part| part.pack(seed, sources.len()))
                .collect::<Result<_, _>>()
        })?;
        for part in &packed {
            train.write(&part.train)?;
            validation.write(&part.validation)?;
            for (number, source) in sources.iter_mut().enumerate() {
                source.train.merge(&part.train_statistics[number]);
                source.validation.merge(&part.validation_statistics[number]);
                source.skipped.add_many(SkipKind::Duplicate, part.duplicates[number]);
            }
        }
        done += group;
        progress.packed(done, parts.len());
    }
    let mut shards = train.finish()?;
    shards.extend(validation.finish()?);
    Ok(shards)
}

/// The shards of one half, begun as they fill.
struct ShardSeries<'a> {
    dir: &'a Path,
    split: Split,
    current: Option<ShardWriter>,
    finished: Vec<ShardEntry>,
}

impl<'a> ShardSeries<'a> {
    fn new(dir: &'a Path, split: Split) -> Self {
        Self { dir, split, current: None, finished: Vec::new() }
    }

    fn write(&mut self, blocks: &[EncodedBlock]) -> Result<(), DataError> {
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

    fn finish(mut self) -> Result<Vec<ShardEntry>, DataError> {
        self.close()?;
        Ok(self.finished)
    }
}
