//! Text files as the readers of games and training data take them: the format of the text, and the
//! plain text of a file whatever its compression, line ends and byte order mark.

use std::{
    io::{self, BufRead, BufReader, Read},
    path::Path,
};

use serde::{Deserialize, Serialize};

/// The format of a text file with games or positions.
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
    /// The format by the file name extension, without that of a compression; `None` if it is
    /// unknown.
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

    /// The format by the first line that is not empty, and the whole text again.
    ///
    /// # Errors
    /// The text cannot be read.
    pub fn of_stream<R: BufRead>(mut text: R) -> io::Result<(Self, impl BufRead)> {
        const MOST: u64 = 4096;
        let mut first = Vec::new();
        while first.trim_ascii().is_empty() {
            let most = MOST - first.len() as u64;
            if text.by_ref().take(most).read_until(b'\n', &mut first)? == 0 {
                break;
            }
        }
        Ok((Self::of_text(&first), io::Cursor::new(first).chain(text)))
    }

    /// The format by the beginning of the text.
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

/// The plain text of a file that may be compressed with zstd, gzip or bzip2; the first bytes
/// decide, not the name. A byte order mark is left out, and a line may end in CR, LF or both.
///
/// # Errors
/// The file cannot be read, its compressed stream has no valid beginning, or the text is UTF-16.
pub fn plain_text<'a>(raw: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
    let mut raw = BufReader::with_capacity(1 << 18, raw);
    let bytes: Box<dyn Read + 'a> = match raw.fill_buf()? {
        // A frame, or the skippable frame that parallel compressors put first.
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => {
            Box::new(zstd::stream::read::Decoder::with_buffer(raw)?)
        }
        [0x1f, 0x8b, ..] => Box::new(flate2::bufread::MultiGzDecoder::new(raw)),
        [b'B', b'Z', b'h', b'1'..=b'9', ..] => Box::new(bzip2::bufread::MultiBzDecoder::new(raw)),
        _ => Box::new(raw),
    };
    Ok(Box::new(UniformText {
        bytes: BufReader::with_capacity(1 << 16, bytes),
        begun: false,
        held: false,
    }))
}

/// Text without a byte order mark whose lines end in LF or CR LF.
struct UniformText<R> {
    bytes: BufReader<R>,
    /// Has the beginning been looked at?
    begun: bool,
    /// The last byte that was read is a CR whose successor is not known yet.
    held: bool,
}

impl<R: Read> UniformText<R> {
    fn begin(&mut self) -> io::Result<()> {
        // A file and a decoder return the first bytes together.
        let first = self.bytes.fill_buf()?;
        if first.starts_with(b"\xef\xbb\xbf") {
            self.bytes.consume(3);
        } else if first.starts_with(b"\xff\xfe")
            || first.starts_with(b"\xfe\xff")
            || matches!(first, [0, 1..=255, 0, 1..=255, ..] | [1..=255, 0, 1..=255, 0, ..])
        {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the text is UTF-16; save it as UTF-8",
            ));
        }
        self.begun = true;
        Ok(())
    }
}

impl<R: Read> Read for UniformText<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        if !self.begun {
            self.begin()?;
        }
        let next = self.bytes.fill_buf()?;
        if self.held {
            self.held = false;
            into[0] = if next.first() == Some(&b'\n') { b'\r' } else { b'\n' };
            return Ok(1);
        }
        let length = next.len().min(into.len());
        into[..length].copy_from_slice(&next[..length]);
        // Most texts have no CR at all.
        let mut at = 0;
        while let Some(found) = into[at..length].iter().position(|&byte| byte == b'\r') {
            at += found;
            match next.get(at + 1) {
                Some(b'\n') => {}
                Some(_) => into[at] = b'\n',
                None => {
                    self.held = true;
                    self.bytes.consume(at + 1);
                    return if at > 0 { Ok(at) } else { self.read(into) };
                }
            }
            at += 1;
        }
        self.bytes.consume(length);
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a byte or two at a time.
    struct Drops<'a>(&'a [u8], usize);

    impl Read for Drops<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let length = self.1.min(self.0.len()).min(into.len());
            into[..length].copy_from_slice(&self.0[..length]);
            self.0 = &self.0[length..];
            Ok(length)
        }
    }

    #[test]
    fn a_stream_is_told_by_its_first_line_and_stays_whole() {
        let blank = "\n".repeat(5000);
        for (text, expected) in [
            ("1. e4 e5\n", Format::Pgn),
            ("", Format::Pgn),
            (&blank[..], Format::Pgn),
            ("\n\n{\"fen\":\"x\"}\n", Format::LichessEvaluations),
            ("8/8/8/4k3/8/8/8/4K2R w K -\n[", Format::Epd),
        ] {
            let drops = BufReader::with_capacity(1, text.as_bytes());
            let (format, mut stream) = Format::of_stream(drops).unwrap();
            let mut read = String::new();
            stream.read_to_string(&mut read).unwrap();
            assert_eq!((format, &read[..]), (expected, text));
        }
    }

    #[test]
    fn line_ends_and_byte_order_marks() {
        for (bytes, expected) in [
            (&b"a\nb\n"[..], Some(&b"a\nb\n"[..])),
            (b"a\r\nb\r\n", Some(b"a\r\nb\r\n")),
            (b"a\rb\r", Some(b"a\nb\n")),
            (b"a\r\r\nb\r", Some(b"a\n\r\nb\n")),
            (b"\r\n", Some(b"\r\n")),
            (b"\r", Some(b"\n")),
            (b"", Some(b"")),
            (b"\xef\xbb\xbfab", Some(b"ab")),
            (b"M\xfcller\n", Some(b"M\xfcller\n")),
            (b"\xff\xfea\0b\0", None),
            (b"\xfe\xff\0a\0b", None),
            (b"a\0b\0", None),
            (b"\0bcd", Some(b"\0bcd")),
            (b"a\0cd", Some(b"a\0cd")),
        ] {
            for step in [1, 2, 100] {
                let mut text = Vec::new();
                // The beginning is decided by its first bytes, which a file returns together.
                let read = plain_text(Drops(bytes, step.max(4)))
                    .and_then(|mut reader| {
                        let mut part = vec![0; step];
                        loop {
                            match reader.read(&mut part)? {
                                0 => return Ok(()),
                                length => text.extend_from_slice(&part[..length]),
                            }
                        }
                    })
                    .is_ok();
                assert_eq!(read.then_some(&text[..]), expected, "{bytes:?} by {step}");
            }
        }
    }
}
