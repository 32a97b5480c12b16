//! Files of games and positions as one stream, plain or compressed, so that a run does not care
//! which files its games come from.

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
};

use board::Game;

use crate::{
    FileError, Format, LeftOutGame, PgnGame, ReadGame, is_epd_comment, open_input, parse_epd,
    plain_text,
};

/// One entry of a file of games or positions.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "most entries are games, and each is moved once")]
pub enum FileEntry {
    /// A game of a PGN.
    Game(PgnGame),
    /// The position of a line of an EPD or FEN file, as a game without moves.
    Position(Game),
    /// A game that is not read; the reason has been logged.
    LeftOutGame(LeftOutGame),
    /// A line that is not a position; the reason has been logged.
    LeftOutLine,
}

/// The games and positions of PGN and EPD/FEN files, plain or compressed, one file after the other.
pub fn read_files(
    files: &[PathBuf],
) -> impl Iterator<Item = Result<FileEntry, FileError>> + Send + '_ {
    files.iter().flat_map(|path| match open(path) {
        Ok(items) => items,
        Err(error) => Box::new(std::iter::once(Err(error))),
    })
}

type Entries<'a> = Box<dyn Iterator<Item = Result<FileEntry, FileError>> + Send + 'a>;

/// The entries of one file. Its format comes from its name, or else from its beginning.
fn open(path: &Path) -> Result<Entries<'_>, FileError> {
    let error = move |source| FileError::Read { path: path.to_owned(), source };
    let text = BufReader::new(DecompressedText::spawn(path.to_owned()));
    let (by_text, text) = Format::of_stream(text).map_err(error)?;
    let format = Format::of_name(path).unwrap_or(by_text);
    Ok(match format {
        Format::Epd => Box::new((1_u64..).zip(text.split(b'\n')).filter_map(
            move |(number, line)| match line {
                Ok(line) => position(&line, path, number).map(Ok),
                Err(source) => Some(Err(error(source))),
            },
        )),
        Format::LichessEvaluations => {
            const HINT: &str = "it holds evaluations, no games; `batch-first data import` reads it";
            return Err(error(std::io::Error::other(HINT)));
        }
        Format::Pgn => Box::new(crate::read_pgn(text).map(move |game| match game {
            Ok(ReadGame::Game(game)) => Ok(FileEntry::Game(*game)),
            Ok(ReadGame::LeftOut(game)) => Ok(FileEntry::LeftOutGame(game)),
            Err(source) => Err(error(source)),
        })),
    })
}

/// The position of a line; `None` for an empty line and a comment. A bad line is logged.
fn position(line: &[u8], path: &Path, number: u64) -> Option<FileEntry> {
    if is_epd_comment(line) {
        return None;
    }
    // Letters in operations may be of any encoding.
    Some(match parse_epd(&String::from_utf8_lossy(line)) {
        Ok(read) => {
            if let Some(warning) = read.warning {
                tracing::warn!("in line {number} of `{}` {warning}", path.display());
            }
            FileEntry::Position(Game::new(read.position))
        }
        Err(error) => {
            tracing::warn!("line {number} of `{}` is left out: {error}", path.display());
            FileEntry::LeftOutLine
        }
    })
}

/// The plain text of a file, decompressed on its own thread: decoders are not `Send`.
struct DecompressedText {
    pieces: crossbeam_channel::Receiver<std::io::Result<Vec<u8>>>,
    piece: Vec<u8>,
    read: usize,
}

impl DecompressedText {
    fn spawn(path: PathBuf) -> Self {
        let (sender, pieces) = crossbeam_channel::bounded(4);
        std::thread::spawn(move || {
            let mut text = match open_input(&path).and_then(plain_text) {
                Ok(text) => text,
                Err(error) => return drop(sender.send(Err(error))),
            };
            loop {
                let mut piece = vec![0; 1 << 16];
                let piece = text.read(&mut piece).map(|length| {
                    piece.truncate(length);
                    piece
                });
                let last = !matches!(&piece, Ok(piece) if !piece.is_empty());
                if sender.send(piece).is_err() || last {
                    return;
                }
            }
        });
        Self { pieces, piece: Vec::new(), read: 0 }
    }
}

impl std::io::Read for DecompressedText {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        if self.read == self.piece.len() {
            // A closed channel means the end of the text.
            self.piece = self.pieces.recv().unwrap_or_else(|_| Ok(Vec::new()))?;
            self.read = 0;
        }
        let length = into.len().min(self.piece.len() - self.read);
        into[..length].copy_from_slice(&self.piece[self.read..self.read + length]);
        self.read += length;
        Ok(length)
    }
}
