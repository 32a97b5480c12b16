//! Reads files as plain text: decompresses them and cuts them into chunks of whole games or lines.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use board::hex;

pub use games::{Format, plain_text};
use sha2::{Digest, Sha256};

/// A file that counts and hashes the bytes read from it.
pub(crate) struct HashedFile<'a> {
    file: File,
    hasher: Sha256,
    read: &'a AtomicU64,
}

impl<'a> HashedFile<'a> {
    pub(crate) fn open(path: &Path, read: &'a AtomicU64) -> io::Result<Self> {
        Ok(Self { file: File::open(path)?, hasher: Sha256::new(), read })
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
    text: R,
    format: Option<Format>,
    rest: Vec<u8>,
    ended: bool,
}

impl<R: Read> ChunkReader<R> {
    pub(crate) const TARGET: usize = 1 << 18;
    /// A chunk of this size without a boundary is cut anyway, so that memory stays bounded.
    const LIMIT: usize = 1 << 22;

    pub(crate) fn new(text: R, format: Option<Format>) -> Self {
        Self { text, format, rest: Vec::new(), ended: false }
    }

    /// The next chunk with its format, or `None` at the end.
    pub(crate) fn next_chunk(&mut self) -> io::Result<Option<(Format, Vec<u8>)>> {
        let mut target = Self::TARGET;
        loop {
            self.fill(target)?;
            if self.rest.is_empty() {
                return Ok(None);
            }
            let format = *self.format.get_or_insert_with(|| Format::of_text(&self.rest));
            if self.ended {
                return Ok(Some((format, std::mem::take(&mut self.rest))));
            }
            let cut = match format {
                Format::Pgn => last_game_start(&self.rest),
                Format::LichessEvaluations | Format::Epd => after_last_newline(&self.rest),
            };
            let cut = cut.or_else(|| {
                (self.rest.len() >= Self::LIMIT)
                    .then(|| after_last_newline(&self.rest).unwrap_or(self.rest.len()))
            });
            if let Some(cut) = cut {
                let next = self.rest.split_off(cut);
                return Ok(Some((format, std::mem::replace(&mut self.rest, next))));
            }
            target = self.rest.len() * 2;
        }
    }

    fn fill(&mut self, target: usize) -> io::Result<()> {
        while self.rest.len() < target && !self.ended {
            let old = self.rest.len();
            self.rest.resize(target, 0);
            let result = self.text.read(&mut self.rest[old..]);
            self.rest.truncate(old + *result.as_ref().unwrap_or(&0));
            match result {
                Ok(0) => self.ended = true,
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

fn after_last_newline(text: &[u8]) -> Option<usize> {
    text.iter().rposition(|&byte| byte == b'\n').map(|at| at + 1)
}

/// Start of the last game that is not the first one: a tag line after a line that is not a tag.
fn last_game_start(text: &[u8]) -> Option<usize> {
    let is_tag = |line: &[u8]| matches!(line, [b'[', second, ..] if second.is_ascii_alphabetic());
    let mut end = text.len();
    while let Some(at) = text[..end].iter().rposition(|&byte| byte == b'[') {
        end = at;
        // The byte after the bracket distinguishes a tag from `[%eval` in a comment.
        if at > 0 && text[at - 1] == b'\n' && is_tag(&text[at..]) {
            let before = text[..at].trim_ascii_end();
            let line = before
                .iter()
                .rposition(|&byte| byte == b'\n')
                .map_or(before, |from| &before[from + 1..]);
            if !before.is_empty() && !is_tag(line) {
                return Some(at);
            }
        }
    }
    None
}
