//! The output: a PGN that only grows, and a progress file beside it that says how much of it is
//! complete.

use std::{
    fs::{File, OpenOptions, TryLockError},
    hash::{BuildHasher, RandomState},
    io::{self, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::FileError;

/// What the progress file holds, as JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct OutputProgress {
    /// The settings of the run that decide its output, one a line.
    run: Vec<String>,
    /// Games in the output.
    games: u64,
    /// Positions with an evaluation.
    positions: u64,
    /// Length of the output in bytes.
    bytes: u64,
    /// Tells this output from an earlier one of the same name.
    #[serde(default)]
    id: u64,
}

/// An output that grows by whole games.
#[derive(Debug)]
pub struct ResumableOutput {
    path: PathBuf,
    file: File,
    progress: OutputProgress,
}

impl ResumableOutput {
    /// Begins an output, or goes on with one of the same run. What is beyond its last complete game
    /// (an unfinished one, or games that another program added) moves to a file beside it, `.cut`.
    ///
    /// # Errors
    /// The files cannot be used or belong to another run.
    pub fn open(path: &Path, run: Vec<String>) -> Result<Self, FileError> {
        let failed = |source| FileError::Write { path: path.to_owned(), source };
        let progress = match std::fs::read(progress_path(path)) {
            Ok(bytes) => {
                let progress: OutputProgress = serde_json::from_slice(&bytes).map_err(|error| {
                    let reason = format!("`{}` is damaged: {error}", progress_path(path).display());
                    failed(io::Error::other(reason))
                })?;
                match difference(&progress.run, &run) {
                    None => progress,
                    // A run that came to nothing reserves nothing.
                    Some(_) if progress.games == 0 => OutputProgress { run, ..progress },
                    Some(difference) => {
                        return Err(FileError::OtherRun { path: path.to_owned(), difference });
                    }
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if std::fs::metadata(path).is_ok_and(|facts| facts.len() > 0) {
                    return Err(FileError::NotResumable { path: path.to_owned() });
                }
                OutputProgress { run, games: 0, positions: 0, bytes: 0, id: fresh_id() }
            }
            Err(error) => return Err(failed(error)),
        };
        let open = || {
            let mut file =
                OpenOptions::new().create(true).truncate(false).write(true).open(path)?;
            file.try_lock().map_err(|error| match error {
                TryLockError::WouldBlock => io::Error::other("another run is writing it"),
                TryLockError::Error(error) => error,
            })?;
            if file.metadata()?.len() < progress.bytes {
                return Err(io::Error::other("it is shorter than its progress file says"));
            }
            if file.metadata()?.len() > progress.bytes {
                let mut cut = path.as_os_str().to_owned();
                cut.push(".cut");
                let mut from = File::open(path)?;
                from.seek(SeekFrom::Start(progress.bytes))?;
                io::copy(&mut from, &mut File::create(&cut)?)?;
                let (path, cut) = (path.display(), Path::new(&cut).display());
                tracing::warn!("`{path}` has more than this run wrote; the rest is in `{cut}` now");
            }
            file.set_len(progress.bytes)?;
            file.seek(SeekFrom::End(0))?;
            Ok(file)
        };
        let file = open().map_err(failed)?;
        let output = Self { path: path.to_owned(), file, progress };
        output.record().map_err(failed)?;
        Ok(output)
    }

    /// Games written so far, by this run and those it goes on with.
    pub fn games(&self) -> u64 {
        self.progress.games
    }

    /// Tells this output, in all its runs, from others, also from an earlier one of the same name.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.progress.id
    }

    /// Positions evaluated so far.
    pub fn positions(&self) -> u64 {
        self.progress.positions
    }

    /// Adds a game; it counts once the progress file says so.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn add(&mut self, pgn: &str, positions: u64) -> Result<(), FileError> {
        self.progress.games += 1;
        self.progress.positions += positions;
        self.progress.bytes += pgn.len() as u64;
        self.file
            .write_all(pgn.as_bytes())
            .and_then(|()| self.file.sync_data())
            .and_then(|()| self.record())
            .map_err(|source| FileError::Write { path: self.path.clone(), source })
    }

    fn record(&self) -> io::Result<()> {
        board::write_whole(&progress_path(&self.path), &serde_json::to_vec(&self.progress)?)
    }
}

/// Another number each time, as far as hashing with random keys gives one.
fn fresh_id() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

fn progress_path(output: &Path) -> PathBuf {
    let mut name = output.as_os_str().to_owned();
    name.push(".progress");
    PathBuf::from(name)
}

fn difference(old: &[String], new: &[String]) -> Option<String> {
    let pair = old.iter().zip(new).find(|(old, new)| old != new);
    match pair {
        Some((old, new)) => Some(format!("{old} against {new}")),
        None if old.len() != new.len() => Some("another number of settings".to_owned()),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_complete_games_count() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.pgn");
        let run = || vec!["nodes 5".to_owned()];
        let mut output = ResumableOutput::open(&path, run()).unwrap();
        output.add("one\n\n", 3).unwrap();
        drop(output);
        // A crash in the middle of a game.
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"tw").unwrap();
        let mut output = ResumableOutput::open(&path, run()).unwrap();
        assert_eq!((output.games(), output.positions()), (1, 3));
        let error = ResumableOutput::open(&path, run()).unwrap_err();
        assert!(error.to_string().contains("another run is writing it"), "{error}");
        output.add("two\n\n", 4).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\n\ntwo\n\n");
        drop(output);
        let other = ResumableOutput::open(&path, vec!["nodes 6".to_owned()]).unwrap_err();
        assert!(other.to_string().contains("nodes 5 against nodes 6"), "{other}");
        std::fs::remove_file(progress_path(&path)).unwrap();
        assert!(matches!(ResumableOutput::open(&path, run()), Err(FileError::NotResumable { .. })));
    }

    #[test]
    fn a_run_that_came_to_nothing_reserves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.pgn");
        drop(ResumableOutput::open(&path, vec!["files gamse.pgn".to_owned()]).unwrap());
        let run = || vec!["files games.pgn".to_owned()];
        ResumableOutput::open(&path, run()).unwrap().add("one", 1).unwrap();
        assert_eq!(ResumableOutput::open(&path, run()).unwrap().games(), 1);
    }
}
