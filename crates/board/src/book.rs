//! Opening books in Polyglot's format: moves with weights, looked up by the key of a position.
//!
//! A book is a sorted list of entries of 16 bytes, big-endian: key (8), move (2), weight (2),
//! learning data (4, not used here). The key is Zobrist's with Polyglot's random numbers; an
//! en-passant file belongs to it where a pawn of the side to move stands beside the one that moved,
//! even if capturing is not legal. Castling is written as the king taking its own rook. The format
//! knows standard chess only.

use std::{
    fmt,
    fs::File,
    io::{self, BufReader, Read, Seek, SeekFrom},
    path::Path,
    sync::{Mutex, PoisonError},
};

use shakmaty::{
    CastlingMode, EnPassantMode, Move, Position as _, Role, Square, zobrist::Zobrist64,
};

use crate::Position;

/// Bytes of an entry.
const ENTRY: u64 = 16;

/// Books up to this size, in bytes, are checked completely when they are opened; of larger ones only
/// the entries that are read.
const CHECKED_AT_ONCE: u64 = 16 << 20;

/// More entries than any position has moves.
const MOST_MOVES: u64 = 256;

/// A book that cannot be used; one sentence with the name of its file.
#[derive(Debug, thiserror::Error)]
pub enum BookError {
    #[error("cannot read the opening book `{name}`: {source}")]
    Read { name: String, source: io::Error },
    #[error(
        "`{name}` is not a Polyglot opening book: it has {length} bytes, and a book has 16 for each of its entries"
    )]
    Length { name: String, length: u64 },
    #[error(
        "the opening book `{name}` is damaged: entry {entry} is not in the order of keys (make the book again)"
    )]
    Order { name: String, entry: u64 },
    #[error(
        "the opening book `{name}` is damaged: the move of entry {entry}, {text}, is not legal in `{fen}`"
    )]
    Illegal { name: String, entry: u64, text: String, fen: String },
}

trait Source: Read + Seek + Send {}
impl<S: Read + Seek + Send> Source for S {}

/// An open book; an entry is read when its position is looked up.
pub struct Book {
    name: String,
    entries: u64,
    source: Mutex<Box<dyn Source>>,
}

impl fmt::Debug for Book {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Book")
            .field("name", &self.name)
            .field("entries", &self.entries)
            .finish_non_exhaustive()
    }
}

impl PartialEq for Book {
    /// The same file, by its name.
    fn eq(&self, other: &Self) -> bool {
        (&self.name, self.entries) == (&other.name, other.entries)
    }
}

impl Eq for Book {}

/// One entry of the file, without its learning data.
#[derive(Clone, Copy)]
struct Entry {
    key: u64,
    mv: u16,
    weight: u16,
}

impl Entry {
    fn read(source: &mut dyn Read) -> io::Result<Self> {
        let mut bytes = [0; ENTRY as usize];
        source.read_exact(&mut bytes)?;
        let [a, b, c, d, e, f, g, h, m1, m0, w1, w0, ..] = bytes;
        Ok(Self {
            key: u64::from_be_bytes([a, b, c, d, e, f, g, h]),
            mv: u16::from_be_bytes([m1, m0]),
            weight: u16::from_be_bytes([w1, w0]),
        })
    }

    fn from(&self) -> Square {
        Square::new(u32::from(self.mv >> 6 & 63))
    }

    fn to(&self) -> Square {
        Square::new(u32::from(self.mv & 63))
    }

    /// The letter of the piece that a pawn becomes; `?` where there is none of that number.
    fn promotion(&self) -> Option<char> {
        match self.mv >> 12 & 7 {
            0 => None,
            number => Some(*['n', 'b', 'r', 'q'].get(usize::from(number) - 1).unwrap_or(&'?')),
        }
    }

    fn text(&self) -> String {
        format!(
            "{}{}{}",
            self.from(),
            self.to(),
            self.promotion().map_or(String::new(), String::from)
        )
    }

    /// The legal move that is meant. Some books write castling as the king's two squares.
    fn legal(&self, position: &Position) -> Option<Move> {
        position.legal_moves().into_iter().find(|mv| {
            let stepped = mv.castling_side().map(|side| side.king_to(position.turn()));
            mv.from() == Some(self.from())
                && (mv.to() == self.to() || stepped == Some(self.to()))
                && mv.promotion().map(Role::char) == self.promotion()
        })
    }
}

impl Book {
    /// Opens a file. Small ones are checked wholly.
    ///
    /// # Errors
    /// It cannot be read, is not a book, or its entries are not sorted.
    pub fn open(path: &Path) -> Result<Self, BookError> {
        let name = path.display().to_string();
        let opened = File::open(path).and_then(|file| match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(io::Error::other("it is not a file")),
        });
        match opened {
            Ok(file) => Self::of(file, name),
            Err(source) => Err(BookError::Read { name, source }),
        }
    }

    /// As [`Book::open`], from anything that can be read; `name` is for messages.
    ///
    /// # Errors
    /// As there.
    pub fn of(source: impl Read + Seek + Send + 'static, name: String) -> Result<Self, BookError> {
        let mut source = BufReader::new(source);
        let length = match source.seek(SeekFrom::End(0)) {
            Ok(length) => length,
            Err(source) => return Err(BookError::Read { name, source }),
        };
        if length == 0 || !length.is_multiple_of(ENTRY) {
            return Err(BookError::Length { name, length });
        }
        let entries = length / ENTRY;
        if length <= CHECKED_AT_ONCE {
            let mut check = || -> io::Result<Option<u64>> {
                source.rewind()?;
                let mut last = 0;
                for entry in 1..=entries {
                    let Entry { key, .. } = Entry::read(&mut source)?;
                    if key < last {
                        return Ok(Some(entry));
                    }
                    last = key;
                }
                Ok(None)
            };
            match check() {
                Ok(None) => {}
                Ok(Some(entry)) => return Err(BookError::Order { name, entry }),
                Err(source) => return Err(BookError::Read { name, source }),
            }
        }
        Ok(Self { name, entries, source: Mutex::new(Box::new(source)) })
    }

    /// The name of its file.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The key under which books have a position.
    #[must_use]
    pub fn key(position: &Position) -> u64 {
        let Zobrist64(key) = position.chess().zobrist_hash(EnPassantMode::PseudoLegal);
        key
    }

    /// The moves for a position with their weights, in the order of the book; none in Chess960.
    /// Entries without weight were taken out of the book and are left out.
    ///
    /// # Errors
    /// The file cannot be read any more, or is damaged.
    pub fn moves(&self, position: &Position) -> Result<Vec<(Move, u16)>, BookError> {
        if position.castling_mode() != CastlingMode::Standard {
            return Ok(Vec::new());
        }
        let wanted = Self::key(position);
        let first = self.first(wanted)?;
        let mut moves = Vec::new();
        for number in first..self.entries.min(first + MOST_MOVES) {
            let entry = self.entry(number)?;
            if entry.key != wanted {
                break;
            }
            if entry.weight == 0 {
                continue;
            }
            let mv = entry.legal(position).ok_or_else(|| BookError::Illegal {
                name: self.name.clone(),
                entry: number + 1,
                text: entry.text(),
                fen: position.fen(),
            })?;
            moves.push((mv, entry.weight));
        }
        Ok(moves)
    }

    /// One of the moves for a position. Over all values of `dice` each move is as frequent as its
    /// weight.
    ///
    /// # Errors
    /// As for [`Book::moves`].
    pub fn choose(&self, position: &Position, dice: u64) -> Result<Option<Move>, BookError> {
        let moves = self.moves(position)?;
        let sum: u64 = moves.iter().map(|&(_, weight)| u64::from(weight)).sum();
        let mut left = (u128::from(dice) * u128::from(sum)) >> 64;
        for (mv, weight) in moves {
            match left.checked_sub(u128::from(weight)) {
                None => return Ok(Some(mv)),
                Some(rest) => left = rest,
            }
        }
        Ok(None)
    }

    /// The number of the first entry, from 0, whose key is not smaller.
    fn first(&self, wanted: u64) -> Result<u64, BookError> {
        let (mut low, mut high) = (0, self.entries);
        let mut between = 0..=u64::MAX;
        while low < high {
            let middle = low + (high - low) / 2;
            let Entry { key, .. } = self.entry(middle)?;
            if !between.contains(&key) {
                return Err(BookError::Order { name: self.name.clone(), entry: middle + 1 });
            }
            if key < wanted {
                low = middle + 1;
                between = key..=*between.end();
            } else {
                high = middle;
                between = *between.start()..=key;
            }
        }
        Ok(low)
    }

    fn entry(&self, number: u64) -> Result<Entry, BookError> {
        let mut source = self.source.lock().unwrap_or_else(PoisonError::into_inner);
        source
            .seek(SeekFrom::Start(number * ENTRY))
            .and_then(|_| Entry::read(&mut *source))
            .map_err(|source| BookError::Read { name: self.name.clone(), source })
    }
}

#[cfg(test)]
mod tests;
