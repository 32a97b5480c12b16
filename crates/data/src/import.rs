//! The import: reads files of games and evaluations and writes a folder of shuffled shards with a
//! manifest.

use std::path::{Path, PathBuf};

use games::is_standard;
use rayon::prelude::*;

use crate::buckets::{BucketPart, Buckets, PART_BYTES, PackedBucket};
use crate::error::DataError;
use crate::import_options::ImportOptions;
use crate::manifest::{
    MANIFEST_NAME, MANIFEST_VERSION, Manifest, ShardEntry, SourceEntry, data_hash,
};
use crate::shard_series::ShardSeries;
use crate::skip::SkipKind;
use crate::source_import::SourceImport;
use crate::split::{Split, shard_paths};
use crate::statistics::Statistics;
use crate::stream::read_file;

/// Bytes of buckets packed at the same time.
const PACK_BYTES: u64 = 96 << 20;

/// Receives the progress of an import. Every method does nothing by default.
pub trait ImportProgress {
    /// The import begins to read a file of `_bytes` bytes.
    fn file(&mut self, _path: &Path, _bytes: u64) {}
    /// `_bytes` bytes and `_positions` positions of the current file are read.
    fn read(&mut self, _bytes: u64, _positions: u64) {}
    /// `_done` of `_of` bucket parts are shuffled and packed.
    fn packed(&mut self, _done: usize, _of: usize) {}
}

/// No progress reports.
impl ImportProgress for () {}

/// Imports `files` into `dir` (created if missing). Nothing appears there under its final name
/// before everything is written. Memory stays below about 400 MB whatever the size of the files;
/// the disk must hold 52 bytes a position for the time of the import.
///
/// # Errors
/// A file cannot be read, an option is impossible, or the folder holds shards already.
pub fn import(
    files: &[PathBuf],
    dir: &Path,
    options: &ImportOptions,
    progress: &mut dyn ImportProgress,
) -> Result<Manifest, DataError> {
    let sizes = check_sources(files, options)?;
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
    let mut sources = read_sources(files, &sizes, options, threads, &mut buckets, progress)?;
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

/// Checks the number of files and the validation share; returns the files' sizes in bytes.
fn check_sources(files: &[PathBuf], options: &ImportOptions) -> Result<Vec<u64>, DataError> {
    if files.is_empty() || files.len() > 256 {
        return Err(DataError::Options(format!("{} files given, expected 1 to 256", files.len())));
    }
    if !(0.0..1.0).contains(&options.validation) {
        return Err(DataError::Options(format!(
            "a validation share of {} was asked for, expected 0 to below 1",
            options.validation
        )));
    }
    let size = |path: &PathBuf| {
        // Nobody knows how much will come from standard input.
        if is_standard(path) {
            return Ok(0);
        }
        std::fs::metadata(path).map(|metadata| metadata.len()).map_err(DataError::io("open", path))
    };
    files.iter().map(size).collect()
}

/// Reads every file into the buckets. The statistics of the entries stay empty until the buckets
/// are packed.
fn read_sources(
    files: &[PathBuf],
    sizes: &[u64],
    options: &ImportOptions,
    threads: usize,
    buckets: &mut Buckets,
    progress: &mut dyn ImportProgress,
) -> Result<Vec<SourceEntry>, DataError> {
    let mut sources = Vec::with_capacity(files.len());
    let mut games = 0;
    for (number, (path, &bytes)) in files.iter().zip(sizes).enumerate() {
        progress.file(path, bytes);
        let mut source = SourceImport::new(options, buckets, number as u8, games);
        let info = read_file(path, threads, &options.games, |chunk, bytes| {
            let flow = source.take(chunk)?;
            progress.read(bytes, source.positions);
            Ok(flow)
        })?;
        games += source.games;
        sources.push(SourceEntry {
            name: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            path: path.clone(),
            bytes: info.bytes,
            sha256: info.sha256,
            format: info.format,
            games: source.games,
            positions: source.positions,
            train: Statistics::default(),
            validation: Statistics::default(),
            skipped: source.skipped,
        });
    }
    Ok(sources)
}

/// The manifest and the shards in a folder, the manifest first.
pub(crate) fn existing(dir: &Path) -> Result<Vec<PathBuf>, DataError> {
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

/// The folder for temporary files, removed with its content when the import succeeds or fails.
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

/// Packs the bucket parts, several at a time, and writes them in order.
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
