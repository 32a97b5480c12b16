//! Where the games to label come from: files read as a stream, or numbers from which games are grown.

use std::{
    fs::File,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
};

use arena::pgn_games::PgnGame;
use board::Game;
use data::Format;

use crate::{LabelError, SelfPlay, Work};

/// The inputs of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// PGN and EPD/FEN files, plain or compressed, one after the other.
    Files(Vec<PathBuf>),
    /// Games of the engine against itself.
    SelfPlay { settings: SelfPlay, games: u64 },
}

/// The work of a source in order.
pub(crate) fn work(source: &Source) -> Box<dyn Iterator<Item = Result<Work, LabelError>> + Send + '_> {
    match source {
        Source::SelfPlay { games, .. } => Box::new((0..*games).map(|number| Ok(Work::SelfPlay { number }))),
        Source::Files(files) => Box::new(files.iter().flat_map(|path| match open(path) {
            Ok(games) => games,
            Err(error) => Box::new(std::iter::once(Err(error))),
        })),
    }
}

type Games<'a> = Box<dyn Iterator<Item = Result<Work, LabelError>> + Send + 'a>;

fn open(path: &Path) -> Result<Games<'_>, LabelError> {
    let error = move |source| LabelError::Read { path: path.to_owned(), source };
    let plain = || data::plain_text(File::open(path)?);
    let format = match Format::of_name(path) {
        Some(format) => format,
        None => {
            let mut begin = Vec::new();
            std::io::Read::read_to_end(&mut std::io::Read::take(plain().map_err(error)?, 4096), &mut begin)
                .map_err(error)?;
            Format::of_text(&begin)
        }
    };
    let text = Streamed::spawn(path.to_owned());
    Ok(match format {
        Format::Epd => Box::new((1_u64..).zip(BufReader::new(text).lines()).filter_map(
            move |(number, line)| match line {
                Ok(line) => position(&line, path, number),
                Err(source) => Some(Err(error(source))),
            },
        )),
        _ => Box::new(
            arena::pgn_games::read(text)
                .map(move |game| game.map(Work::Game).map_err(error))
                .filter(|work| !matches!(work, Ok(Work::Game(game)) if is_empty(game))),
        ),
    })
}

fn is_empty(game: &PgnGame) -> bool {
    game.game.moves().is_empty() && game.tags.is_empty()
}

/// The position of a line; a bad line is named in the log and skipped.
fn position(line: &str, path: &Path, number: u64) -> Option<Result<Work, LabelError>> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    match arena::position_of_epd(line) {
        Ok(position) => Some(Ok(Work::Position(Game::new(position)))),
        Err(error) => {
            tracing::warn!("line {number} of `{}` is skipped: {error}", path.display());
            None
        }
    }
}

/// A file's plain text, decompressed on a thread of its own (decoders cannot change threads, and need not).
struct Streamed {
    pieces: crossbeam_channel::Receiver<std::io::Result<Vec<u8>>>,
    piece: Vec<u8>,
    read: usize,
}

impl Streamed {
    fn spawn(path: PathBuf) -> Self {
        let (sender, pieces) = crossbeam_channel::bounded(4);
        std::thread::spawn(move || {
            let mut text = match File::open(&path).and_then(data::plain_text) {
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

impl std::io::Read for Streamed {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        if self.read == self.piece.len() {
            // A thread that is gone has said everything.
            self.piece = self.pieces.recv().unwrap_or_else(|_| Ok(Vec::new()))?;
            self.read = 0;
        }
        let length = into.len().min(self.piece.len() - self.read);
        into[..length].copy_from_slice(&self.piece[self.read..self.read + length]);
        self.read += length;
        Ok(length)
    }
}
