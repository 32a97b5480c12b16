//! Reads one file with several threads: one decompresses it and cuts it into chunks, others parse
//! them, and the caller receives the results in file order.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::error::DataError;
use crate::filter::GameFilter;
use crate::input::{Format, HashedFile, cut, plain_text};
use crate::lichess::{self, EvaluationChoice};
use crate::parsed::ParsedChunk;
use crate::{epd, pgn};

/// Properties of a file, known after it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileInfo {
    /// SHA-256 of the file's bytes on the disk, in hexadecimal.
    pub sha256: String,
    /// Size of the file in bytes.
    pub bytes: u64,
    /// `None` for an empty file.
    pub format: Option<Format>,
}

/// Reads the file in chunks and passes each to `sink`, in file order, with the number of bytes of
/// the file read so far. A few chunks are in memory at a time, however large the file is. `sink`
/// may stop early; the file is then still hashed to its end. `threads` parsers work at the same
/// time (at least one). Games that `filter` rejects are only counted.
///
/// # Errors
/// The file cannot be read or unpacked, or `sink` failed.
pub fn read_file(
    path: &Path,
    threads: usize,
    filter: &GameFilter,
    sink: impl FnMut(ParsedChunk, u64) -> Result<ControlFlow<()>, DataError>,
) -> Result<FileInfo, DataError> {
    let parse = |format: Format, text: &[u8]| match format {
        Format::Pgn => pgn::parse(text, filter),
        Format::LichessEvaluations => lichess::parse(text, EvaluationChoice::Deepest),
        Format::Epd => epd::parse(text),
    };
    read_chunks(path, threads, true, parse, sink)
}

/// As [`read_file`], with the parser `parse`. Without `whole`, reading ends where `sink` stops, and
/// hash and size are those of the part that was read.
pub(crate) fn read_chunks(
    path: &Path,
    threads: usize,
    whole: bool,
    parse: impl Fn(Format, &[u8]) -> ParsedChunk + Sync,
    mut sink: impl FnMut(ParsedChunk, u64) -> Result<ControlFlow<()>, DataError>,
) -> Result<FileInfo, DataError> {
    let threads = threads.max(1);
    let in_flight = threads + (3 * threads).min(32);
    let read = &AtomicU64::new(0);
    // The reader takes a permit for each chunk and gets it back when the chunk is consumed in
    // order, so that chunks cannot pile up behind a slow one.
    let (return_permit, permits) = bounded(in_flight);
    for _ in 0..in_flight {
        let _ = return_permit.send(());
    }
    let (to_parsers, chunks) = bounded::<NumberedText>(in_flight);
    let (to_caller, parsed) = bounded::<(u64, ParsedChunk)>(in_flight);

    std::thread::scope(|scope| {
        let reader = scope.spawn(move || cut_file(path, whole, read, &permits, to_parsers));
        for _ in 0..threads {
            let (chunks, to_caller, parse) = (chunks.clone(), to_caller.clone(), &parse);
            scope.spawn(move || {
                for (number, format, text) in chunks {
                    if to_caller.send((number, parse(format, &text))).is_err() {
                        break;
                    }
                }
            });
        }
        drop((chunks, to_caller));
        let result = consume_in_order(&parsed, &return_permit, |chunk| {
            sink(chunk, read.load(Ordering::Relaxed))
        });
        // Closed channels end the reader and the parsers.
        drop((return_permit, parsed));
        let info = reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        result.and(info)
    })
}

/// A chunk of text with its number in the file and its format.
type NumberedText = (u64, Format, Vec<u8>);

/// Decompresses a file, cuts it into chunks and sends each to the parsers once it has a permit.
/// `read` counts the bytes of the file that were read.
fn cut_file(
    path: &Path,
    whole: bool,
    read: &AtomicU64,
    permits: &Receiver<()>,
    to_parsers: Sender<NumberedText>,
) -> Result<FileInfo, DataError> {
    let mut raw = HashedFile::open(path, read).map_err(DataError::io("open", path))?;
    let mut format = None;
    {
        let text = plain_text(&mut raw).map_err(DataError::io("read", path))?;
        let mut cutter = cut(text, Format::of_name(path)).map_err(DataError::io("read", path))?;
        let mut number = 0;
        while permits.recv().is_ok() {
            let chunk = cutter.next_chunk().map_err(DataError::io("read", path))?;
            let Some((found, text)) = chunk else { break };
            format = Some(found);
            if to_parsers.send((number, found, text)).is_err() {
                break;
            }
            number += 1;
        }
    }
    let sha256 = raw.finish(whole).map_err(DataError::io("read", path))?;
    Ok(FileInfo { sha256, bytes: read.load(Ordering::Relaxed), format })
}

/// Passes parsed chunks to `sink` in the order of their numbers until it breaks or fails, and
/// returns a permit for each.
fn consume_in_order(
    parsed: &Receiver<(u64, ParsedChunk)>,
    return_permit: &Sender<()>,
    mut sink: impl FnMut(ParsedChunk) -> Result<ControlFlow<()>, DataError>,
) -> Result<(), DataError> {
    let mut waiting = BTreeMap::new();
    let mut next = 0;
    for (number, chunk) in parsed {
        waiting.insert(number, chunk);
        while let Some(chunk) = waiting.remove(&next) {
            next += 1;
            let _ = return_permit.try_send(());
            if sink(chunk)?.is_break() {
                return Ok(());
            }
        }
    }
    Ok(())
}
