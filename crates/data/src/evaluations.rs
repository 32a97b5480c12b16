//! Streams training batches from Lichess's evaluation database: the compressed file is read through
//! a shuffle buffer. Nothing is unpacked to the disk, and the file may be far larger than memory.
//!
//! As in Cockfish, the label of a position is the first line of its first evaluation. A forced mate
//! keeps its label, or is skipped on request; positions without a score and unreadable lines are
//! skipped. All are counted. A share of the positions, chosen by a hash of the position, is held
//! out. An epoch ends with the file or after `max_positions`; then the file is read later_counts.

use std::{
    fs::File,
    io::Read,
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    thread::JoinHandle,
};

use board::{hex, mix64};
use crossbeam_channel::{Receiver, Sender, bounded};
use rand::{RngExt, SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;
use sha2::{Digest, Sha256};

use crate::{
    DataError, ExampleInfo, Format, LoadedBatch, MATE_LABEL, ParsedChunk, Record, SkipKind,
    Skipped,
    buckets::squares_hash,
    lichess::{self, EvaluationChoice},
    stream::read_chunks,
};

/// Batches prepared ahead of the consumer.
const AHEAD: usize = 8;

/// Parsing threads; one more thread decompresses.
const PARSERS: usize = 2;

/// The content and order of the batches of an [`EvaluationStream`].
#[derive(Clone, Debug, PartialEq)]
pub struct StreamOptions {
    /// Examples of a batch; every batch is full.
    pub batch: usize,
    /// Seed of the order, of the mirroring and of the choice of held-out positions.
    pub seed: u64,
    /// Size of the shuffle buffer in records; 1 keeps the order of the file.
    pub shuffle: usize,
    /// Largest number of training positions in an epoch; `None`: the whole file.
    pub max_positions: Option<u64>,
    /// Keep positions with a forced mate.
    pub mates: bool,
    /// Share of the positions that are held out, 0 to below 1.
    pub held_out: f64,
    /// Mirror half of the examples left to right, where no castling right is left.
    pub mirror: bool,
    /// Number of the first batch: a run resumed after n batches passes n. The file is read again up
    /// to that batch.
    pub first_batch: u64,
}

impl Default for StreamOptions {
    fn default() -> Self {
        Self {
            batch: 1024,
            seed: 0,
            shuffle: 10_000,
            max_positions: None,
            mates: true,
            held_out: 0.02,
            mirror: false,
            first_batch: 0,
        }
    }
}

/// Counts over the part of the file that was read so far in the first epoch, updated after each
/// chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamCounts {
    /// Lines that are not blank.
    pub lines: u64,
    /// Training positions.
    pub used: u64,
    /// Held-out positions.
    pub held_out: u64,
    /// Training and held-out positions with a forced mate.
    pub mates: u64,
    /// Skipped lines and positions, by reason.
    pub skipped: Skipped,
}

impl std::fmt::Display for StreamCounts {
    /// Writes the counts as one line.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { lines, used, held_out, mates, skipped } = self;
        write!(
            f,
            "{lines} lines: {used} positions learned from, {held_out} held out, {mates} of both with a mate"
        )?;
        for (number, (kind, count)) in skipped.0.iter().enumerate() {
            write!(
                f,
                "{}{count} {}",
                if number == 0 { "; left out: " } else { ", " },
                kind.describe()
            )?;
        }
        Ok(())
    }
}

/// Endless shuffled batches ([`crate::Target::Value`]) from a file. The iterator ends only with an
/// error.
#[derive(Debug)]
pub struct EvaluationStream {
    batches: Option<Receiver<Result<LoadedBatch, DataError>>>,
    thread: Option<JoinHandle<()>>,
    counts: Arc<Mutex<StreamCounts>>,
}

impl EvaluationStream {
    /// Starts reading.
    ///
    /// # Errors
    /// An option is impossible, or a thread could not be started. Errors of the file are returned
    /// with the batches.
    pub fn open(path: &Path, options: StreamOptions) -> Result<Self, DataError> {
        if options.batch == 0 || options.shuffle == 0 {
            return Err(DataError::Options(
                "a batch and a shuffle buffer must hold at least one example".to_owned(),
            ));
        }
        let counts = Arc::new(Mutex::new(StreamCounts::default()));
        let (sender, receiver) = bounded(AHEAD);
        let producer =
            StreamProducer { path: path.to_owned(), options, counts: Arc::clone(&counts) };
        let thread = std::thread::Builder::new()
            .name("stream".to_owned())
            .spawn(move || producer.run(&sender))
            .map_err(DataError::io("start a thread for", path))?;
        Ok(Self { batches: Some(receiver), thread: Some(thread), counts })
    }

    /// The counts, updated while the file is read. They include batches that are prepared but not
    /// yet returned.
    #[must_use]
    pub fn counts(&self) -> Arc<Mutex<StreamCounts>> {
        Arc::clone(&self.counts)
    }

    /// The first `most` held-out positions of the file (0: all), which the batches for the same
    /// options leave out.
    ///
    /// # Errors
    /// The file cannot be read or is of another format.
    pub fn held_out(
        path: &Path,
        options: &StreamOptions,
        most: usize,
    ) -> Result<Vec<Record>, DataError> {
        let mut held_out = Vec::new();
        let mut used = 0;
        each_record(path, options, &Mutex::default(), |record, is_held_out| {
            if is_held_out {
                held_out.push(record);
            } else {
                used += 1;
            }
            let is_full = most > 0 && held_out.len() >= most;
            let is_over = options.max_positions.is_some_and(|most| used >= most);
            if is_full || is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        Ok(held_out)
    }

    /// A hash of the file's size and its first MiB; the whole file may have many gigabytes.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn fingerprint(path: &Path) -> Result<String, DataError> {
        let file = File::open(path).map_err(DataError::io("open", path))?;
        let size = file.metadata().map_err(DataError::io("read", path))?.len();
        let mut start = Vec::new();
        file.take(1 << 20).read_to_end(&mut start).map_err(DataError::io("read", path))?;
        Ok(hex(&Sha256::new().chain_update(size.to_le_bytes()).chain_update(start).finalize()))
    }
}

impl Iterator for EvaluationStream {
    type Item = Result<LoadedBatch, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.batches.as_ref()?.recv().ok()
    }
}

impl Drop for EvaluationStream {
    fn drop(&mut self) {
        // Closing the channel ends the thread at its next batch.
        self.batches = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Passes every usable record of the file to `sink` in order, with a flag for held-out records, and
/// counts the skipped ones.
fn each_record(
    path: &Path,
    options: &StreamOptions,
    counts: &Mutex<StreamCounts>,
    mut sink: impl FnMut(Record, bool) -> ControlFlow<()>,
) -> Result<(), DataError> {
    let parse = |format: Format, text: &[u8]| match format {
        Format::LichessEvaluations => lichess::parse(text, EvaluationChoice::First),
        _ => ParsedChunk::default(),
    };
    let mut seen = StreamCounts::default();
    let mut each = |parsed: ParsedChunk| {
        seen.lines += u64::from(parsed.games);
        seen.skipped.merge(&parsed.skipped);
        for record in parsed.records {
            let is_mate = record.value.unsigned_abs() >= MATE_LABEL as u32;
            if is_mate && !options.mates {
                seen.skipped.add(SkipKind::Mate);
                continue;
            }
            let key = squares_hash(&record.pack(), mix64(options.seed));
            // The upper 53 bits as a number from 0 to below 1.
            let is_held_out = ((key >> 11) as f64 / (1_u64 << 53) as f64) < options.held_out;
            seen.mates += u64::from(is_mate);
            *if is_held_out { &mut seen.held_out } else { &mut seen.used } += 1;
            if sink(record, is_held_out).is_break() {
                return (ControlFlow::Break(()), seen.clone());
            }
        }
        (ControlFlow::Continue(()), seen.clone())
    };
    let info = read_chunks(path, PARSERS, false, parse, |parsed, _| {
        // The lock is not held while the sink waits for the consumer.
        let (flow, seen) = each(parsed);
        *counts.lock().unwrap_or_else(PoisonError::into_inner) = seen;
        Ok(flow)
    })?;
    match info.format {
        Some(Format::LichessEvaluations) => Ok(()),
        _ => Err(DataError::Options(format!(
            "`{}` holds no lines of Lichess's evaluation database (`{{\"fen\": …, \"evals\": …}}`)",
            path.display()
        ))),
    }
}

/// The producer: reads the file and sends batches.
struct StreamProducer {
    path: PathBuf,
    options: StreamOptions,
    counts: Arc<Mutex<StreamCounts>>,
}

impl StreamProducer {
    fn run(&self, batches: &Sender<Result<LoadedBatch, DataError>>) {
        let mut sender =
            BatchSender { batches, options: &self.options, skip: 0, batch: LoadedBatch::default() };
        sender.skip = u128::from(self.options.first_batch) * self.options.batch as u128;
        sender.batch.number = self.options.first_batch;
        for epoch in 0.. {
            match self.epoch(epoch, &mut sender) {
                Ok(ControlFlow::Continue(())) => {}
                Ok(ControlFlow::Break(())) => return,
                Err(error) => {
                    let _ = batches.send(Err(error));
                    return;
                }
            }
        }
    }

    /// Makes one pass over the file; breaks when the receiver is gone.
    fn epoch(
        &self,
        epoch: u64,
        sender: &mut BatchSender<'_>,
    ) -> Result<ControlFlow<()>, DataError> {
        let StreamOptions { seed, shuffle, max_positions, .. } = self.options;
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        key[8..16].copy_from_slice(&epoch.to_le_bytes());
        let mut generator = ChaCha8Rng::from_seed(key);
        let mut buffer: Vec<Record> = Vec::new();
        let later_counts = Mutex::default();
        let counts = if epoch == 0 { &*self.counts } else { &later_counts };
        let (mut used, mut gone) = (0, false);
        each_record(&self.path, &self.options, counts, |record, is_held_out| {
            if is_held_out {
                return ControlFlow::Continue(());
            }
            used += 1;
            if buffer.len() < shuffle {
                buffer.push(record);
            } else {
                let place = generator.random_range(0..shuffle);
                let next = std::mem::replace(&mut buffer[place], record);
                gone = sender.push(&next, epoch, &mut generator).is_break();
            }
            let is_over = max_positions.is_some_and(|most| used >= most);
            if gone || is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        if used == 0 {
            return Err(DataError::Options(format!(
                "`{}` has no position with a value",
                self.path.display()
            )));
        }
        buffer.shuffle(&mut generator);
        for record in buffer {
            gone = gone || sender.push(&record, epoch, &mut generator).is_break();
        }
        Ok(if gone { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }
}

/// Collects the examples drawn from the shuffle buffer and sends full batches.
struct BatchSender<'a> {
    batches: &'a Sender<Result<LoadedBatch, DataError>>,
    options: &'a StreamOptions,
    /// Examples still to skip, because a resumed run has seen them.
    skip: u128,
    batch: LoadedBatch,
}

impl BatchSender<'_> {
    /// Adds an example and sends the batch when it is full; breaks when the receiver is gone.
    fn push(&mut self, record: &Record, epoch: u64, generator: &mut ChaCha8Rng) -> ControlFlow<()> {
        let mirror =
            generator.random_bool(0.5) && self.options.mirror && record.squares.can_mirror();
        if self.skip > 0 {
            self.skip -= 1;
            return ControlFlow::Continue(());
        }
        let batch = &mut self.batch;
        if batch.squares.is_empty() {
            batch.epoch = epoch;
        }
        batch.squares.push(if mirror { record.squares.mirror() } else { record.squares });
        batch.labels.push(record.value);
        batch.infos.push(ExampleInfo::of(record));
        if batch.squares.len() < self.options.batch {
            return ControlFlow::Continue(());
        }
        let next = LoadedBatch { number: batch.number + 1, ..LoadedBatch::default() };
        match self.batches.send(Ok(std::mem::replace(batch, next))) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    }
}
