//! Files of games and positions as one stream, plain or compressed, so that a run does not care
//! which files its games come from.

use std::{
    fs::File,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
};

use board::{BoardError, Game, Position};

use crate::{FileError, Format, PgnGame, plain_text};

/// One entry of a file of games or positions.
#[derive(Clone, Debug)]
pub enum FileEntry {
    /// A game of a PGN.
    Game(PgnGame),
    /// The position of a line of an EPD or FEN file, as a game without moves.
    Position(Game),
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

/// The entries of one file. Its format comes from its name, or else from its first 4 KiB.
fn open(path: &Path) -> Result<Entries<'_>, FileError> {
    let error = move |source| FileError::Read { path: path.to_owned(), source };
    let plain = || plain_text(File::open(path)?);
    let format = match Format::of_name(path) {
        Some(format) => format,
        None => {
            let mut begin = Vec::new();
            std::io::Read::read_to_end(
                &mut std::io::Read::take(plain().map_err(error)?, 4096),
                &mut begin,
            )
            .map_err(error)?;
            Format::of_text(&begin)
        }
    };
    let text = DecompressedText::spawn(path.to_owned());
    Ok(match format {
        // Letters in operations may be of any encoding.
        Format::Epd => Box::new((1_u64..).zip(BufReader::new(text).split(b'\n')).filter_map(
            move |(number, line)| match line {
                Ok(line) => position(&String::from_utf8_lossy(&line), path, number),
                Err(source) => Some(Err(error(source))),
            },
        )),
        _ => Box::new(
            crate::read_pgn(text)
                .map(move |game| game.map(FileEntry::Game).map_err(error))
                .filter(|item| !matches!(item, Ok(FileEntry::Game(game)) if is_empty(game))),
        ),
    })
}

/// True for the game without tags and moves that trailing text in a PGN leaves.
fn is_empty(game: &PgnGame) -> bool {
    game.game.moves().is_empty()
        && game.tags.is_empty()
        && *game.game.start() == Position::default()
}

/// The position of a line; `None` for an empty line, a comment and a bad line, which is logged.
fn position(line: &str, path: &Path, number: u64) -> Option<Result<FileEntry, FileError>> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    match parse_epd(line) {
        Ok(position) => Some(Ok(FileEntry::Position(Game::new(position)))),
        Err(error) => {
            tracing::warn!("line {number} of `{}` is skipped: {error}", path.display());
            None
        }
    }
}

/// Parses an EPD or FEN line: four fields and, if they are present, the two counters. Operations
/// are ignored. Castling rights decide whether it is a position of Chess960; those that the pieces
/// do not have are dropped with a warning.
///
/// # Errors
/// The line is not a legal position.
pub fn parse_epd(line: &str) -> Result<Position, BoardError> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let is_number = |field: &&&str| field.bytes().all(|byte| byte.is_ascii_digit());
    let counters = fields.iter().skip(4).take(2).take_while(is_number).count();
    let fen = fields[..fields.len().min(4 + counters)].join(" ");
    let read = Position::read_fen(&fen, None)?;
    if let Some(warning) = read.warning {
        tracing::warn!("in `{}` {warning}", board::shortened(&fen));
    }
    Ok(read.position)
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
            let mut text = match File::open(&path).and_then(plain_text) {
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
