//! Reads files as plain text: decompresses them and cuts them into chunks of whole games or lines.

use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use board::hex;

pub use games::{Format, plain_text};
use games::{GameTexts, open_input};
use sha2::{Digest, Sha256};

/// A file, or standard input, that counts and hashes the bytes read from it.
pub(crate) struct HashedFile<'a> {
    file: Box<dyn Read + Send>,
    hasher: Sha256,
    read: &'a AtomicU64,
}

impl<'a> HashedFile<'a> {
    pub(crate) fn open(path: &Path, read: &'a AtomicU64) -> io::Result<Self> {
        Ok(Self { file: open_input(path)?, hasher: Sha256::new(), read })
    }

    /// Returns the SHA-256 of the bytes that were read. With `whole` it first reads the rest of the
    /// file.
    pub(crate) fn finish(mut self, whole: bool) -> io::Result<String> {
        let mut rest = vec![0; 1 << 16];
        while whole && self.read(&mut rest)? > 0 {}
        Ok(hex(&self.hasher.finalize()))
    }
}

impl Read for HashedFile<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let length = self.file.read(into)?;
        self.hasher.update(&into[..length]);
        self.read.fetch_add(length as u64, Ordering::Relaxed);
        Ok(length)
    }
}

/// Cuts text into chunks of about [`ChunkReader::TARGET`] bytes at boundaries between games or
/// lines.
pub(crate) struct ChunkReader<R> {
    format: Format,
    parts: Parts<R>,
}

enum Parts<R> {
    Games(Box<GameTexts<R>>),
    Lines(R),
}

/// Cuts a text into chunks. Without a format its beginning decides.
pub(crate) fn cut<R: Read>(
    text: R,
    format: Option<Format>,
) -> io::Result<ChunkReader<impl BufRead>> {
    let text = BufReader::with_capacity(1 << 16, text);
    let (by_text, text) = Format::of_stream(text)?;
    let format = format.unwrap_or(by_text);
    let parts = match format {
        Format::Pgn => Parts::Games(Box::new(GameTexts::new(text))),
        Format::LichessEvaluations | Format::Epd => Parts::Lines(text),
    };
    Ok(ChunkReader { format, parts })
}

impl<R: BufRead> ChunkReader<R> {
    pub(crate) const TARGET: usize = 1 << 18;
    /// A longer line is cut, so that memory stays bounded.
    const LONGEST_LINE: u64 = 1 << 22;

    /// The next chunk with its format, or `None` at the end.
    pub(crate) fn next_chunk(&mut self) -> io::Result<Option<(Format, Vec<u8>)>> {
        let mut chunk = Vec::with_capacity(Self::TARGET + Self::TARGET / 8);
        while chunk.len() < Self::TARGET {
            match &mut self.parts {
                Parts::Games(games) => match games.next().transpose()? {
                    Some(game) => chunk.extend_from_slice(&game.text),
                    None => break,
                },
                Parts::Lines(lines) => {
                    let mut line = lines.by_ref().take(Self::LONGEST_LINE);
                    if line.read_until(b'\n', &mut chunk)? == 0 {
                        break;
                    }
                }
            }
        }
        Ok((!chunk.is_empty()).then_some((self.format, chunk)))
    }
}
