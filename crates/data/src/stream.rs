//! One file through several threads: one unpacks and cuts, others parse, the caller gets the pieces
//! in order.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_channel::bounded;

use crate::error::DataError;
use crate::filter::GameFilter;
use crate::input::{ChunkReader, Format, HashedFile, plain_text};
use crate::lichess::{self, EvaluationChoice};
use crate::parsed::ParsedChunk;
use crate::{epd, pgn};

/// Facts about a file after it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileInfo {
    /// SHA-256 of the file as it lies on the disk, in hexadecimal.
    pub sha256: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// `None` for an empty file.
    pub format: Option<Format>,
}

/// Reads the file in pieces and hands each to `sink`, in file order, with the number of bytes of
/// the file read so far. A few pieces are in memory at a time, however large the file is. `sink`
/// may stop early; the file is then still hashed to its end. `threads` parsers work at once (at
/// least one). Games that `filter` refuses leave only a count.
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

/// As [`read_file`], with a parser of one's own; unless it is to be read `whole`, the file is left
/// where `sink` stops, and the hash and size are those of the part that was read.
pub(crate) fn read_chunks(
    path: &Path,
    threads: usize,
    whole: bool,
    parse: impl Fn(Format, &[u8]) -> ParsedChunk + Sync,
    mut sink: impl FnMut(ParsedChunk, u64) -> Result<ControlFlow<()>, DataError>,
) -> Result<FileInfo, DataError> {
    let threads = threads.max(1);
    let in_flight = threads + (3 * threads).min(32);
    let read = AtomicU64::new(0);
    // The reader takes a permit for each piece and gets it back when the piece is consumed in
    // order: a slow piece cannot make the others pile up.
    let (return_permit, permits) = bounded(in_flight);
    for _ in 0..in_flight {
        let _ = return_permit.send(());
    }
    let (to_parsers, pieces) = bounded::<(u64, Format, Vec<u8>)>(in_flight);
    let (to_caller, parsed) = bounded::<(u64, ParsedChunk)>(in_flight);

    std::thread::scope(|scope| {
        let read = &read;
        let reader = scope.spawn(move || -> Result<FileInfo, DataError> {
            let mut raw = HashedFile::open(path, read).map_err(DataError::io("open", path))?;
            let mut format = None;
            {
                let text = plain_text(&mut raw).map_err(DataError::io("read", path))?;
                let mut cutter = ChunkReader::new(text, Format::of_name(path));
                let mut number = 0;
                while permits.recv().is_ok() {
                    let piece = cutter.next_chunk().map_err(DataError::io("read", path))?;
                    let Some((found, text)) = piece else { break };
                    format = Some(found);
                    if to_parsers.send((number, found, text)).is_err() {
                        break;
                    }
                    number += 1;
                }
            }
            let sha256 = raw.finish(whole).map_err(DataError::io("read", path))?;
            Ok(FileInfo { sha256, bytes: read.load(Ordering::Relaxed), format })
        });
        for _ in 0..threads {
            let (pieces, to_caller, parse) = (pieces.clone(), to_caller.clone(), &parse);
            scope.spawn(move || {
                for (number, format, text) in pieces {
                    if to_caller.send((number, parse(format, &text))).is_err() {
                        break;
                    }
                }
            });
        }
        drop((pieces, to_caller));

        let result = (|| {
            let mut waiting = BTreeMap::new();
            let mut next = 0;
            for (number, piece) in &parsed {
                waiting.insert(number, piece);
                while let Some(piece) = waiting.remove(&next) {
                    next += 1;
                    let _ = return_permit.try_send(());
                    if sink(piece, read.load(Ordering::Relaxed))?.is_break() {
                        return Ok(());
                    }
                }
            }
            Ok(())
        })();
        // Everyone upstream sees closed channels and ends.
        drop((return_permit, parsed));
        let facts = reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        result.and(facts)
    })
}
