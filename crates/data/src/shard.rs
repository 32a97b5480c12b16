//! Shards: many packed records in one file whose blocks can be read in any order and are checked
//! when read.
//!
//! Layout, all little-endian: a 32-byte header (magic, version, record size, record count, CRC-32
//! of these); blocks, each a zstd frame of packed records; the block index, 24 bytes a block
//! (offset u64, compressed bytes u32, records u32, CRC-32 of the unpacked block u32, zero u32); a
//! 24-byte footer (index offset u64, blocks u32, CRC-32 of the index u32, magic). A shard is
//! written under a temporary name and renamed when it is complete.

use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::error::DataError;
use crate::packed::{PackedRecord, RECORD_SIZE};
use crate::record::Record;

/// Records of a full block.
pub const BLOCK_RECORDS: usize = 4096;

const MAGIC: [u8; 8] = *b"BFSHARD\n";
const END: [u8; 8] = *b"BFSHEND\n";
const VERSION: u32 = 1;
const HEADER: usize = 32;
const FOOTER: usize = 24;
const ENTRY: usize = 24;
const ZSTD_LEVEL: i32 = 3;
/// Largest number of records of a block; a file with a larger count is damaged.
const MAX_BLOCK_RECORDS: u32 = 1 << 16;

/// Where a block lies and what it must contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BlockEntry {
    offset: u64,
    bytes: u32,
    records: u32,
    crc: u32,
}

/// A block ready to be appended: compressed on any thread, written by one.
#[derive(Clone, Debug)]
pub struct EncodedBlock {
    bytes: Vec<u8>,
    records: u32,
    crc: u32,
}

impl EncodedBlock {
    /// Compresses up to [`BLOCK_RECORDS`] records.
    ///
    /// # Errors
    /// The compressor failed.
    pub fn encode(records: &[PackedRecord]) -> io::Result<Self> {
        let raw = records.as_flattened();
        Ok(Self {
            bytes: zstd::bulk::compress(raw, ZSTD_LEVEL)?,
            records: records.len() as u32,
            crc: crc32fast::hash(raw),
        })
    }

    /// Number of records.
    #[must_use]
    pub fn records(&self) -> usize {
        self.records as usize
    }
}

/// Writes one shard; nothing appears under its name before [`ShardWriter::finish`].
#[derive(Debug)]
pub struct ShardWriter {
    path: PathBuf,
    temporary: PathBuf,
    file: BufWriter<File>,
    offset: u64,
    index: Vec<BlockEntry>,
    pending: Vec<PackedRecord>,
    count: u64,
}

impl ShardWriter {
    /// Starts a shard under a temporary name; [`ShardWriter::finish`] renames it to `path`.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn create(path: &Path) -> Result<Self, DataError> {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(".tmp");
        let temporary = path.with_file_name(name);
        let mut file =
            BufWriter::new(File::create(&temporary).map_err(DataError::io("create", &temporary))?);
        file.write_all(&[0; HEADER]).map_err(DataError::io("write", &temporary))?;
        Ok(Self {
            path: path.to_owned(),
            temporary,
            file,
            offset: HEADER as u64,
            index: Vec::new(),
            pending: Vec::with_capacity(BLOCK_RECORDS),
            count: 0,
        })
    }

    /// Records appended so far.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.count + self.pending.len() as u64
    }

    /// True before the first record.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends a record.
    ///
    /// # Errors
    /// A full block could not be written.
    pub fn push(&mut self, record: &Record) -> Result<(), DataError> {
        self.pending.push(record.pack());
        if self.pending.len() == BLOCK_RECORDS { self.flush_pending() } else { Ok(()) }
    }

    /// Appends a block that was compressed elsewhere, after the records pushed so far.
    ///
    /// # Errors
    /// It could not be written.
    pub fn push_block(&mut self, block: &EncodedBlock) -> Result<(), DataError> {
        self.flush_pending()?;
        self.write_block(block)
    }

    fn flush_pending(&mut self) -> Result<(), DataError> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let block = EncodedBlock::encode(&self.pending)
            .map_err(DataError::io("compress for", &self.path))?;
        self.pending.clear();
        self.write_block(&block)
    }

    fn write_block(&mut self, block: &EncodedBlock) -> Result<(), DataError> {
        self.file.write_all(&block.bytes).map_err(DataError::io("write", &self.temporary))?;
        let bytes = block.bytes.len() as u32;
        self.index.push(BlockEntry {
            offset: self.offset,
            bytes,
            records: block.records,
            crc: block.crc,
        });
        self.offset += u64::from(bytes);
        self.count += u64::from(block.records);
        Ok(())
    }

    /// Writes the index and the header, renames the file, and returns the number of records.
    ///
    /// # Errors
    /// The file cannot be written or renamed.
    pub fn finish(mut self) -> Result<u64, DataError> {
        self.flush_pending()?;
        let failed = DataError::io("write", &self.temporary);
        let result = self.close();
        result.map_err(failed)?;
        std::fs::rename(&self.temporary, &self.path)
            .map_err(DataError::io("rename", &self.path))?;
        Ok(self.count)
    }

    fn close(&mut self) -> io::Result<()> {
        let mut index = Vec::with_capacity(self.index.len() * ENTRY);
        for entry in &self.index {
            index.extend_from_slice(&entry.offset.to_le_bytes());
            index.extend_from_slice(&entry.bytes.to_le_bytes());
            index.extend_from_slice(&entry.records.to_le_bytes());
            index.extend_from_slice(&entry.crc.to_le_bytes());
            index.extend_from_slice(&[0; 4]);
        }
        self.file.write_all(&index)?;
        self.file.write_all(&self.offset.to_le_bytes())?;
        self.file.write_all(&(self.index.len() as u32).to_le_bytes())?;
        self.file.write_all(&crc32fast::hash(&index).to_le_bytes())?;
        self.file.write_all(&END)?;

        let mut header = [0; HEADER];
        header[..8].copy_from_slice(&MAGIC);
        header[8..12].copy_from_slice(&VERSION.to_le_bytes());
        header[12..16].copy_from_slice(&(RECORD_SIZE as u32).to_le_bytes());
        header[16..24].copy_from_slice(&self.count.to_le_bytes());
        let crc = crc32fast::hash(&header[..28]);
        header[28..].copy_from_slice(&crc.to_le_bytes());
        self.file.flush()?;
        let file = self.file.get_mut();
        file.seek(SeekFrom::Start(0))?;
        file.write_all(&header)?;
        file.sync_all()
    }
}

impl Drop for ShardWriter {
    /// Removes an unfinished file; after `finish` the temporary name no longer exists.
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.temporary);
    }
}

/// Reads the blocks of one shard, in any order.
#[derive(Debug)]
pub struct ShardReader {
    path: PathBuf,
    file: File,
    index: Vec<BlockEntry>,
    count: u64,
    compressed: Vec<u8>,
}

impl ShardReader {
    /// Opens a shard and checks its header and index (blocks are checked as they are read).
    ///
    /// # Errors
    /// The file cannot be read, is not a shard, or is cut short.
    pub fn open(path: &Path) -> Result<Self, DataError> {
        let refuse = |reason: String| DataError::Shard { path: path.to_owned(), reason };
        let mut file = File::open(path).map_err(DataError::io("open", path))?;
        let length = file.metadata().map_err(DataError::io("read", path))?.len();
        if length < (HEADER + FOOTER) as u64 {
            return Err(refuse(format!("{length} bytes are too few")));
        }
        let mut header = [0; HEADER];
        file.read_exact(&mut header).map_err(DataError::io("read", path))?;
        if header[..8] != MAGIC {
            return Err(refuse("it does not begin as a shard does".to_owned()));
        }
        let version = u32_at(&header, 8);
        if version != VERSION {
            return Err(refuse(format!(
                "version {version}, this build reads {VERSION}; import the data again"
            )));
        }
        if u32_at(&header, 28) != crc32fast::hash(&header[..28]) {
            return Err(refuse("the header's checksum is wrong".to_owned()));
        }
        if u32_at(&header, 12) as usize != RECORD_SIZE {
            return Err(refuse(format!(
                "records of {} bytes, expected {RECORD_SIZE}",
                u32_at(&header, 12)
            )));
        }
        let count = u64_at(&header, 16);
        let index = read_index(&mut file, path, length, count)?;
        Ok(Self { path: path.to_owned(), file, index, count, compressed: Vec::new() })
    }

    /// The path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Records in all blocks.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.count
    }

    /// True when the shard has no record.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Number of blocks.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.index.len()
    }

    /// Records of one block (0 past the end).
    #[must_use]
    pub fn block_len(&self, block: usize) -> usize {
        self.index.get(block).map_or(0, |entry| entry.records as usize)
    }

    /// Appends the packed records of block `block` to `into`.
    ///
    /// # Errors
    /// There is no such block, or it is damaged.
    pub fn read_packed(
        &mut self,
        block: usize,
        into: &mut Vec<PackedRecord>,
    ) -> Result<(), DataError> {
        let damaged = |reason: String| DataError::Block { path: self.path.clone(), block, reason };
        let entry =
            *self.index.get(block).ok_or_else(|| damaged("there is no such block".to_owned()))?;
        self.compressed.resize(entry.bytes as usize, 0);
        self.file
            .seek(SeekFrom::Start(entry.offset))
            .and_then(|_| self.file.read_exact(&mut self.compressed))
            .map_err(|error| damaged(error.to_string()))?;
        let old = into.len();
        into.resize(old + entry.records as usize, [0; RECORD_SIZE]);
        let raw = into[old..].as_flattened_mut();
        let result = match zstd::bulk::decompress_to_buffer(&self.compressed, &mut *raw) {
            Err(error) => Err(damaged(format!("it cannot be unpacked ({error})"))),
            Ok(length) if length != raw.len() => {
                Err(damaged(format!("{length} bytes unpacked, expected {}", raw.len())))
            }
            Ok(_) if crc32fast::hash(raw) != entry.crc => {
                Err(damaged("its checksum is wrong".to_owned()))
            }
            Ok(_) => Ok(()),
        };
        if result.is_err() {
            into.truncate(old);
        }
        result
    }

    /// The records of block `block`.
    ///
    /// # Errors
    /// See [`ShardReader::read_packed`].
    pub fn read_block(&mut self, block: usize) -> Result<Vec<Record>, DataError> {
        let mut packed = Vec::new();
        self.read_packed(block, &mut packed)?;
        Ok(packed.iter().map(Record::unpack).collect())
    }
}

/// Reads the block index of a shard of `length` bytes and `count` records from the end of the file.
fn read_index(
    file: &mut File,
    path: &Path,
    length: u64,
    count: u64,
) -> Result<Vec<BlockEntry>, DataError> {
    let refuse =
        |reason: &str| DataError::Shard { path: path.to_owned(), reason: reason.to_owned() };
    let mut footer = [0; FOOTER];
    file.seek(SeekFrom::End(-(FOOTER as i64))).map_err(DataError::io("read", path))?;
    file.read_exact(&mut footer).map_err(DataError::io("read", path))?;
    if footer[16..] != END {
        return Err(refuse("its end is missing (cut short?)"));
    }
    let index_offset = u64_at(&footer, 0);
    let blocks = u32_at(&footer, 8) as usize;
    let expected = (length - FOOTER as u64).checked_sub((blocks as u64) * ENTRY as u64);
    if expected != Some(index_offset) || index_offset < HEADER as u64 {
        return Err(refuse("the block index does not fit the file"));
    }
    let mut bytes = vec![0; blocks * ENTRY];
    file.seek(SeekFrom::Start(index_offset)).map_err(DataError::io("read", path))?;
    file.read_exact(&mut bytes).map_err(DataError::io("read", path))?;
    if u32_at(&footer, 12) != crc32fast::hash(&bytes) {
        return Err(refuse("the block index's checksum is wrong"));
    }
    let entry = |entry: &[u8]| BlockEntry {
        offset: u64_at(entry, 0),
        bytes: u32_at(entry, 8),
        records: u32_at(entry, 12),
        crc: u32_at(entry, 16),
    };
    let index: Vec<BlockEntry> = bytes.chunks_exact(ENTRY).map(entry).collect();
    let fits = |entry: &BlockEntry| {
        let end = entry.offset.checked_add(u64::from(entry.bytes));
        entry.records <= MAX_BLOCK_RECORDS && end.is_some_and(|end| end <= index_offset)
    };
    let records: u64 = index.iter().map(|entry| u64::from(entry.records)).sum();
    if !index.iter().all(fits) || records != count {
        return Err(refuse("the block index contradicts the header"));
    }
    Ok(index)
}

/// The caller passes at least `at + 4` bytes.
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}
