//! The folder of a match, from which an interrupted match is resumed. `match.json` identifies the
//! match, `games.jsonl` holds one line a finished game and is written at once, and `games.pgn` is
//! made from it. `match.lock` is held by the process that plays.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{GameRecord, Results};

/// The finished games of a match on disk. Only one process at a time can open it.
#[derive(Debug)]
pub struct Journal {
    folder: PathBuf,
    /// The locked file. It has no content, because on Windows nobody else may read a locked file,
    /// and the page shows the games of a match that is being played.
    _lock: File,
    games: File,
    pgn: File,
}

/// A folder that cannot be used; each message is one sentence.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    #[error("cannot use `{path}`: {source}")]
    File { path: PathBuf, source: io::Error },
    #[error(
        "`{folder}` holds another match ({difference}); choose another folder, or the same players, programs and settings"
    )]
    OtherMatch { folder: PathBuf, difference: String },
    #[error("`{folder}` is in use by another process")]
    InUse { folder: PathBuf },
    #[error("line {line} of `{path}` is not a game: {reason}")]
    Line { path: PathBuf, line: usize, reason: String },
}

/// The content of `match.json`.
#[derive(Serialize, Deserialize)]
struct JournalHeader {
    format: u32,
    /// The settings that decide the games, one a line.
    settings: Vec<String>,
}

const FORMAT: u32 = 1;

impl Journal {
    /// Begins the folder of a match, or opens one with the same settings, and returns its games. An
    /// unfinished last line, left by a crash, is removed.
    ///
    /// # Errors
    /// The folder cannot be written, belongs to another match, or is in use.
    pub fn open(folder: &Path, settings: Vec<String>) -> Result<(Self, Results), JournalError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| JournalError::File { path, source }
        };
        std::fs::create_dir_all(folder).map_err(failed(folder))?;
        let open = |path: &Path| {
            OpenOptions::new().create(true).truncate(false).read(true).write(true).open(path)
        };
        let path = folder.join("match.lock");
        let lock = open(&path).map_err(failed(&path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(JournalError::InUse { folder: folder.to_owned() });
            }
            Err(TryLockError::Error(source)) => return Err(failed(&path)(source)),
        }
        let path = folder.join("games.jsonl");
        let mut games = open(&path).map_err(failed(&path))?;
        let mut text = Vec::new();
        games.read_to_end(&mut text).map_err(failed(&path))?;
        let whole = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        check_header(folder, settings, whole == 0)?;
        let mut results = Results::default();
        for (index, line) in text[..whole].split(|&byte| byte == b'\n').enumerate() {
            if line.is_empty() {
                continue;
            }
            let game: GameRecord =
                serde_json::from_slice(line).map_err(|error| JournalError::Line {
                    path: path.clone(),
                    line: index + 1,
                    reason: error.to_string(),
                })?;
            results.add(game);
        }
        games
            .set_len(whole as u64)
            .and_then(|()| games.seek(SeekFrom::End(0)))
            .map_err(failed(&path))?;
        let pgn_path = folder.join("games.pgn");
        board::write_whole(&pgn_path, pgn_of(&results).as_bytes()).map_err(failed(&pgn_path))?;
        let pgn = OpenOptions::new().append(true).open(&pgn_path).map_err(failed(&pgn_path))?;
        Ok((Self { folder: folder.to_owned(), _lock: lock, games, pgn }, results))
    }

    /// Adds a finished game. It is part of the journal when this returns.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn add(&mut self, game: &GameRecord) -> Result<(), JournalError> {
        let failed = |source| JournalError::File { path: self.folder.clone(), source };
        let mut line = serde_json::to_vec(game).map_err(io::Error::other).map_err(failed)?;
        line.push(b'\n');
        self.games
            .write_all(&line)
            .and_then(|()| self.games.flush())
            .and_then(|()| self.pgn.write_all(game.pgn.as_bytes()))
            .map_err(failed)
    }

    /// Writes `games.pgn` again, in the order of the games' numbers.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(self, results: &Results) -> Result<(), JournalError> {
        let path = self.folder.join("games.pgn");
        // Not every Windows replaces a file that is open, nor does wine.
        drop(self.pgn);
        board::write_whole(&path, pgn_of(results).as_bytes())
            .map_err(|source| JournalError::File { path, source })
    }
}

fn pgn_of(results: &Results) -> String {
    results.games().map(|game| game.pgn.as_str()).collect()
}

/// Writes `match.json`, or checks that it belongs to the same match. A folder that `is_empty`,
/// without a finished game, may be taken over by another match.
fn check_header(folder: &Path, settings: Vec<String>, is_empty: bool) -> Result<(), JournalError> {
    let path = folder.join("match.json");
    let failed = |source| JournalError::File { path: path.clone(), source };
    let header = JournalHeader { format: FORMAT, settings };
    match std::fs::read(&path) {
        Ok(bytes) if !is_empty => {
            let known: JournalHeader =
                serde_json::from_slice(&bytes).map_err(|error| failed(io::Error::other(error)))?;
            let other =
                |difference| JournalError::OtherMatch { folder: folder.to_owned(), difference };
            if known.format != FORMAT {
                return Err(other(format!("format {}", known.format)));
            }
            if known.settings.len() != header.settings.len() {
                return Err(other("another number of players".to_owned()));
            }
            match known.settings.iter().zip(&header.settings).find(|(old, new)| old != new) {
                Some((old, new)) => Err(other(format!("`{old}` there, `{new}` here"))),
                None => Ok(()),
            }
        }
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(error)),
        _ => {
            let text = serde_json::to_vec_pretty(&header)
                .map_err(|error| failed(io::Error::other(error)))?;
            board::write_whole(&path, &text).map_err(failed)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn game(number: usize) -> GameRecord {
        GameRecord {
            number,
            white: 0,
            black: 1,
            opening: 0,
            white_half_points: 2,
            ending: "checkmate".to_owned(),
            fault: None,
            plies: 7,
            seconds: 0.5,
            pgn: format!("game {number}\n\n"),
        }
    }

    fn settings(text: &str) -> Vec<String> {
        vec!["round robin".to_owned(), text.to_owned()]
    }

    #[test]
    fn finished_games_survive_a_crash_once_each() {
        let folder = tempfile::tempdir().unwrap();
        let (mut journal, results) = Journal::open(folder.path(), settings("a")).unwrap();
        assert!(results.is_empty());
        journal.add(&game(2)).unwrap();
        journal.add(&game(0)).unwrap();
        drop(journal);
        // Killed in the middle of a line.
        let path = folder.path().join("games.jsonl");
        OpenOptions::new()
            .append(true)
            .open(&path)
            .unwrap()
            .write_all(b"{\"number\":1,\"wh")
            .unwrap();
        let (mut journal, mut results) = Journal::open(folder.path(), settings("a")).unwrap();
        let numbers =
            |results: &Results| results.games().map(|game| game.number).collect::<Vec<_>>();
        assert_eq!(numbers(&results), [0, 2]);
        journal.add(&game(1)).unwrap();
        results.add(game(1));
        journal.finish(&results).unwrap();
        let pgn = std::fs::read_to_string(folder.path().join("games.pgn")).unwrap();
        assert_eq!(pgn, "game 0\n\ngame 1\n\ngame 2\n\n");
        let (_, results) = Journal::open(folder.path(), settings("a")).unwrap();
        assert_eq!(numbers(&results), [0, 1, 2]);
    }

    #[test]
    fn a_folder_belongs_to_one_match_and_one_process() {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::open(folder.path(), settings("a")).unwrap();
        assert!(matches!(
            Journal::open(folder.path(), settings("a")),
            Err(JournalError::InUse { .. })
        ));
        drop(journal);
        // A folder without a finished game may be taken over.
        let (mut journal, _) = Journal::open(folder.path(), settings("a, corrected")).unwrap();
        journal.add(&game(0)).unwrap();
        drop(journal);
        let error = Journal::open(folder.path(), settings("b")).unwrap_err();
        assert!(error.to_string().contains("`a, corrected` there, `b` here"), "{error}");
        std::fs::write(folder.path().join("games.jsonl"), "nonsense\n").unwrap();
        assert!(matches!(
            Journal::open(folder.path(), settings("a, corrected")),
            Err(JournalError::Line { line: 1, .. })
        ));
    }
}
