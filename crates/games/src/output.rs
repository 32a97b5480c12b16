//! The output of a long run: a file that only grows, and a progress file beside it that records its
//! complete length, so that an interrupted run can be resumed.

use std::{
    fs::{File, OpenOptions, TryLockError},
    hash::{BuildHasher, RandomState},
    io::{self, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

use crate::{FileError, streams::open_stream};

/// The content of the progress file, as JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct OutputProgress {
    /// The settings that decide the output, one a line.
    run: Vec<String>,
    /// The content of the inputs ([`crate::content_identity`]); `None` where a run has none, and in
    /// files of earlier versions.
    #[serde(default)]
    input: Option<String>,
    /// Games in the output.
    games: u64,
    /// Positions with an evaluation.
    positions: u64,
    /// Games whose text was not understood to its end.
    #[serde(default)]
    broken: u64,
    /// Length of the output in bytes.
    bytes: u64,
    /// Distinguishes this output from an earlier one of the same name.
    #[serde(default)]
    id: u64,
}

impl OutputProgress {
    fn begin(run: Vec<String>, input: Option<String>) -> Self {
        Self { run, input, games: 0, positions: 0, broken: 0, bytes: 0, id: fresh_id() }
    }
}

/// An output file that grows by whole games and can be resumed.
pub struct ResumableOutput {
    path: PathBuf,
    sink: Sink,
    progress: OutputProgress,
    /// Games that are not in the file yet.
    waiting: String,
    recorded: Instant,
    /// A write failed: what is in the file is no longer known, so nothing more is recorded.
    has_failed: bool,
}

/// Games of [`ResumableOutput::add_soon`] wait so long for others.
const WAIT: Duration = Duration::from_millis(100);

impl std::fmt::Debug for ResumableOutput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ResumableOutput").field("path", &self.path).finish_non_exhaustive()
    }
}

enum Sink {
    File(File),
    /// Standard output, a pipe or a device: there is nothing to resume.
    Stream(Box<dyn Write + Send>),
}

impl ResumableOutput {
    /// Begins an output, or resumes one of the same run on the same input. Text beyond the last
    /// complete game (an unfinished game, or games that another program added) moves to the file
    /// `.cut` beside it.
    ///
    /// # Errors
    /// The files cannot be used or belong to another run.
    pub fn open(path: &Path, run: Vec<String>, input: Option<String>) -> Result<Self, FileError> {
        let failed = |source| FileError::Write { path: path.to_owned(), source };
        if let Some(stream) = open_stream(path).map_err(failed)? {
            let progress = OutputProgress::begin(run, input);
            return Ok(Self::new(path, Sink::Stream(stream), progress));
        }
        let progress = match std::fs::read(progress_path(path)) {
            Ok(bytes) => {
                let progress: OutputProgress = serde_json::from_slice(&bytes).map_err(|error| {
                    let path = progress_path(path);
                    let reason = format!("`{}` is damaged: {error}", path.display());
                    failed(io::Error::other(reason))
                })?;
                let is_other_input =
                    progress.input.is_some() && input.is_some() && progress.input != input;
                match difference(&progress.run, &run) {
                    // An output without games may be taken over by another run.
                    _ if progress.games == 0 => OutputProgress { run, input, ..progress },
                    None if is_other_input => {
                        return Err(FileError::OtherInput { path: path.to_owned() });
                    }
                    None => OutputProgress { input: input.or(progress.input), ..progress },
                    Some(difference) => {
                        return Err(FileError::OtherRun { path: path.to_owned(), difference });
                    }
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if std::fs::metadata(path).is_ok_and(|metadata| metadata.len() > 0) {
                    return Err(FileError::NotResumable { path: path.to_owned() });
                }
                OutputProgress::begin(run, input)
            }
            Err(error) => return Err(failed(error)),
        };
        let file = open_at(path, progress.bytes).map_err(failed)?;
        let output = Self::new(path, Sink::File(file), progress);
        output.record().map_err(failed)?;
        Ok(output)
    }

    fn new(path: &Path, sink: Sink, progress: OutputProgress) -> Self {
        let (path, waiting) = (path.to_owned(), String::new());
        Self { path, sink, progress, waiting, recorded: Instant::now(), has_failed: false }
    }

    /// Games added so far, by this run and the runs that it resumes.
    pub fn games(&self) -> u64 {
        self.progress.games
    }

    /// Identifies this output in all its runs; an earlier output of the same name has another id.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.progress.id
    }

    /// Positions evaluated so far.
    pub fn positions(&self) -> u64 {
        self.progress.positions
    }

    /// Games so far whose text was not understood to its end.
    #[must_use]
    pub fn broken(&self) -> u64 {
        self.progress.broken
    }

    /// Adds a game, whose text was not understood to its end if it `is_broken`. It counts as
    /// written once the progress file records it.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn add(&mut self, text: &str, positions: u64, is_broken: bool) -> Result<(), FileError> {
        self.push(text, positions, is_broken);
        self.flush()
    }

    /// As [`ResumableOutput::add`], but games that come fast are written together, so that
    /// thousands of single positions a second can be added. A crash or a kill costs the games added
    /// since the last write; after the last game the caller [flushes](ResumableOutput::flush).
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn add_soon(
        &mut self,
        text: &str,
        positions: u64,
        is_broken: bool,
    ) -> Result<(), FileError> {
        self.push(text, positions, is_broken);
        if matches!(self.sink, Sink::Stream(_)) || self.recorded.elapsed() >= WAIT {
            return self.flush();
        }
        Ok(())
    }

    fn push(&mut self, text: &str, positions: u64, is_broken: bool) {
        self.progress.games += 1;
        self.progress.positions += positions;
        self.progress.broken += u64::from(is_broken);
        self.progress.bytes += text.len() as u64;
        self.waiting += text;
    }

    /// Writes and records the games that wait.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn flush(&mut self) -> Result<(), FileError> {
        let written = if self.has_failed {
            Err(io::Error::other("an earlier write failed"))
        } else {
            self.write().and_then(|()| self.record())
        };
        self.has_failed = written.is_err();
        self.recorded = Instant::now();
        written.map_err(|source| FileError::Write { path: self.path.clone(), source })
    }

    fn write(&mut self) -> io::Result<()> {
        let text = std::mem::take(&mut self.waiting);
        match &mut self.sink {
            Sink::File(file) => {
                file.write_all(text.as_bytes())?;
                file.sync_data()
            }
            Sink::Stream(stream) => {
                stream.write_all(text.as_bytes())?;
                stream.flush()
            }
        }
    }

    fn record(&self) -> io::Result<()> {
        if matches!(self.sink, Sink::Stream(_)) {
            return Ok(());
        }
        board::write_whole(&progress_path(&self.path), &serde_json::to_vec(&self.progress)?)
    }
}

/// A run that ends by an error keeps the games that it has.
impl Drop for ResumableOutput {
    fn drop(&mut self) {
        if !self.waiting.is_empty()
            && !self.has_failed
            && let Err(error) = self.flush()
        {
            tracing::error!("{error}");
        }
    }
}

/// Opens and locks the output for writing after its first `length` bytes, which are complete. The
/// text after them moves to the file `.cut`.
fn open_at(path: &Path, length: u64) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let mut file = options.create(true).truncate(false).read(true).write(true).open(path)?;
    file.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => io::Error::other("another run is writing it"),
        TryLockError::Error(error) => error,
    })?;
    if file.metadata()?.len() < length {
        return Err(io::Error::other("it is shorter than its progress file says"));
    }
    if file.metadata()?.len() > length {
        let mut cut = path.as_os_str().to_owned();
        cut.push(".cut");
        // On Windows nobody else may read a locked file, not even this process.
        file.seek(SeekFrom::Start(length))?;
        io::copy(&mut file, &mut File::create(&cut)?)?;
        let (path, cut) = (path.display(), Path::new(&cut).display());
        tracing::warn!("`{path}` has more than this run wrote; the rest is in `{cut}` now");
    }
    file.set_len(length)?;
    file.seek(SeekFrom::End(0))?;
    Ok(file)
}

/// A random number: the hash of the process id with random keys.
fn fresh_id() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

fn progress_path(output: &Path) -> PathBuf {
    let mut name = output.as_os_str().to_owned();
    name.push(".progress");
    PathBuf::from(name)
}

/// The first difference between the settings of two runs, for the error message.
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
        let mut output = ResumableOutput::open(&path, run(), None).unwrap();
        output.add("one\n\n", 3, false).unwrap();
        drop(output);
        // A crash in the middle of a game.
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"tw").unwrap();
        let mut output = ResumableOutput::open(&path, run(), None).unwrap();
        assert_eq!((output.games(), output.positions()), (1, 3));
        let error = ResumableOutput::open(&path, run(), None).map(drop).unwrap_err();
        assert!(error.to_string().contains("another run is writing it"), "{error}");
        output.add("two\n\n", 4, true).unwrap();
        assert_eq!(output.broken(), 1);
        drop(output);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\n\ntwo\n\n");
        let other =
            ResumableOutput::open(&path, vec!["nodes 6".to_owned()], None).map(drop).unwrap_err();
        assert!(other.to_string().contains("nodes 5 against nodes 6"), "{other}");
        std::fs::remove_file(progress_path(&path)).unwrap();
        assert!(matches!(
            ResumableOutput::open(&path, run(), None),
            Err(FileError::NotResumable { .. })
        ));
    }

    #[test]
    fn games_that_wait_are_written_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.pgn");
        let open = || ResumableOutput::open(&path, vec!["nodes 5".to_owned()], None).unwrap();
        let mut output = open();
        for number in 0..500 {
            output.add_soon(&format!("{number};"), 2, false).unwrap();
        }
        assert_eq!((output.games(), output.positions()), (500, 1000));
        output.flush().unwrap();
        let text: String = (0..500).map(|number| format!("{number};")).collect();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        output.add_soon("last", 1, false).unwrap();
        drop(output);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text + "last");
        let resumed = open();
        assert_eq!((resumed.games(), resumed.positions()), (501, 1001));
    }

    /// A full disk, or a file that may not be written: what is recorded stays what is there.
    #[test]
    fn nothing_is_recorded_after_a_failed_write() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.pgn");
        let open = || ResumableOutput::open(&path, vec!["nodes 5".to_owned()], None).unwrap();
        let mut output = open();
        output.add("one", 1, false).unwrap();
        let recorded = std::fs::read_to_string(progress_path(&path)).unwrap();
        output.sink = Sink::File(File::open(&path).unwrap());
        assert!(output.add("two", 1, false).is_err());
        assert!(output.add_soon("three", 1, false).is_ok() && output.flush().is_err());
        drop(output);
        assert_eq!(std::fs::read_to_string(progress_path(&path)).unwrap(), recorded);
        let mut output = open();
        assert_eq!(output.games(), 1);
        output.add("two", 1, false).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "onetwo");
    }

    #[test]
    fn an_output_without_games_may_be_taken_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.pgn");
        drop(ResumableOutput::open(&path, vec!["files gamse.pgn".to_owned()], None).unwrap());
        let run = || vec!["files games.pgn".to_owned()];
        ResumableOutput::open(&path, run(), None).unwrap().add("one", 1, false).unwrap();
        assert_eq!(ResumableOutput::open(&path, run(), None).unwrap().games(), 1);
    }

    #[test]
    fn another_input_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.pgn");
        let open = |input: Option<&str>| {
            ResumableOutput::open(&path, vec!["files a.pgn".to_owned()], input.map(str::to_owned))
        };
        drop(open(Some("old")).unwrap());
        open(Some("one")).unwrap().add("one", 1, false).unwrap();
        assert_eq!(open(Some("one")).unwrap().games(), 1);
        assert!(matches!(open(Some("two")), Err(FileError::OtherInput { .. })));
        // Files of earlier versions do not say what they were made from.
        std::fs::remove_file(progress_path(&path)).unwrap();
        std::fs::remove_file(&path).unwrap();
        open(None).unwrap().add("one", 1, false).unwrap();
        assert_eq!(open(Some("two")).unwrap().games(), 1);
        assert!(matches!(open(Some("one")), Err(FileError::OtherInput { .. })));
    }

    /// What is not a file is written through and never replaced.
    #[cfg(unix)]
    #[test]
    fn links_devices_and_folders() {
        let folder = tempfile::tempdir().unwrap();
        let open = |path: &Path| ResumableOutput::open(path, Vec::new(), None);
        let (target, link) = (folder.path().join("target.pgn"), folder.path().join("link.pgn"));
        std::os::unix::fs::symlink(&target, &link).unwrap();
        open(&link).unwrap().add("one", 1, false).unwrap();
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "one");
        assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
        open(Path::new("/dev/null")).unwrap().add("one", 1, false).unwrap();
        assert!(!Path::new("/dev/null.progress").exists());
        assert!(open(Path::new("/dev/full")).unwrap().add("one", 1, false).is_err());
        let error = open(folder.path()).map(drop).unwrap_err();
        assert!(error.to_string().contains("it is a folder"), "{error}");
    }
}
