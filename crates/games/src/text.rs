//! Text files as the readers of games and training data take them: the format of the text, and the
//! plain text of a compressed file.

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

/// The plain text of a file that may be compressed with zstd, gzip or bzip2. The first bytes
/// decide, not the name.
///
/// # Errors
/// The file cannot be read, or its compressed stream has no valid beginning.
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
