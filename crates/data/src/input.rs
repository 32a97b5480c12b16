//! Files as plain text: compression seen through, cut into pieces that hold whole games or lines.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use board::hex;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// What a file contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// Games in PGN, with or without evaluations.
    Pgn,
    /// Lichess's evaluation database, one JSON object a line.
    LichessEvaluations,
    /// FEN or EPD, one position a line.
    Epd,
}

impl Format {
    /// By the extension before that of a compression, if it says.
    #[must_use]
    pub fn of_name(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?.to_ascii_lowercase();
        let compressed =
            [".zst", ".gz", ".bz2"].iter().find_map(|extension| name.strip_suffix(extension));
        match compressed.unwrap_or(&name).rsplit_once('.')?.1 {
            "pgn" => Some(Self::Pgn),
            "jsonl" | "ndjson" | "json" => Some(Self::LichessEvaluations),
            "epd" | "fen" | "fens" => Some(Self::Epd),
            _ => None,
        }
    }

    /// By how the text begins.
    #[must_use]
    pub fn of_text(text: &[u8]) -> Self {
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text).trim_ascii_start();
        let line = text.split(|&byte| byte == b'\n').next().unwrap_or_default();
        if line.starts_with(b"{\"") {
            Self::LichessEvaluations
        } else if line.iter().filter(|&&byte| byte == b'/').count() >= 7 && line[0] != b'[' {
            Self::Epd
        } else {
            Self::Pgn
        }
    }
}

/// A file that counts and hashes what is read of it.
pub(crate) struct HashedFile<'a> {
    file: File,
    hasher: Sha256,
    read: &'a AtomicU64,
}

impl<'a> HashedFile<'a> {
    pub(crate) fn open(path: &Path, read: &'a AtomicU64) -> io::Result<Self> {
        Ok(Self { file: File::open(path)?, hasher: Sha256::new(), read })
    }

    /// Reads what is left, if the file is to be read `whole`, and returns the SHA-256 of what was
    /// read.
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

/// The plain text of a file that may be compressed; its first bytes decide, not its name.
///
/// # Errors
/// The file cannot be read, or the compressed stream does not begin as one.
pub fn plain_text<'a>(raw: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
    let mut raw = BufReader::with_capacity(1 << 18, raw);
    Ok(match raw.fill_buf()? {
        // A frame, or the skippable frame that parallel compressors put first.
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => {
            Box::new(zstd::stream::read::Decoder::with_buffer(raw)?)
        }
        [0x1f, 0x8b, ..] => Box::new(flate2::bufread::MultiGzDecoder::new(raw)),
        [b'B', b'Z', b'h', b'1'..=b'9', ..] => Box::new(bzip2::bufread::MultiBzDecoder::new(raw)),
        _ => Box::new(raw),
    })
}

/// Text in pieces of about [`Pieces::TARGET`] bytes that begin and end between games or lines.
pub(crate) struct Pieces<R> {
    text: R,
    format: Option<Format>,
    rest: Vec<u8>,
    ended: bool,
}

impl<R: Read> Pieces<R> {
    pub(crate) const TARGET: usize = 1 << 18;
    /// Where no boundary is found for so long, the text is cut anyway: memory stays bounded.
    const LIMIT: usize = 1 << 22;

    pub(crate) fn new(text: R, format: Option<Format>) -> Self {
        Self { text, format, rest: Vec::new(), ended: false }
    }

    /// The next piece with its format, or `None` at the end.
    pub(crate) fn next_piece(&mut self) -> io::Result<Option<(Format, Vec<u8>)>> {
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

/// Where the last game begins that is not the first: a line of tags after a line that is none.
fn last_game_start(text: &[u8]) -> Option<usize> {
    let is_tag = |line: &[u8]| matches!(line, [b'[', second, ..] if second.is_ascii_alphabetic());
    let mut end = text.len();
    while let Some(at) = text[..end].iter().rposition(|&byte| byte == b'[') {
        end = at;
        // The byte after the bracket must be there to tell a tag from a comment's `[%eval`.
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
