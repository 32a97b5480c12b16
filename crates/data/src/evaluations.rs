//! Training straight from Lichess's evaluation database: batches out of the compressed file as it
//! is read, through a shuffle buffer. Nothing is unpacked to the disk, and the file may be far
//! larger than memory.
//!
//! As Cockfish does, the label of a position is the first line of its first evaluation. A forced
//! mate keeps its label (or is left out on request); a record without a score and one that cannot
//! be read are left out. All are counted. A share of the positions, told by their hash wherever
//! they stand, is held out. At its end, or after `max_positions`, the file begins anew: an epoch.

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

/// Batches made ahead of the consumer.
const AHEAD: usize = 8;

/// Parsing threads beside the one that unpacks.
const PARSERS: usize = 2;

/// What an [`EvaluationStream`] yields and in which order.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamOptions {
    /// Examples of a batch; every batch is full.
    pub batch: usize,
    /// Decides the order, the mirroring and what is held out.
    pub seed: u64,
    /// Records that wait in memory to be drawn at random; 1: file order.
    pub shuffle: usize,
    /// Training positions of an epoch at most.
    pub max_positions: Option<u64>,
    /// Keep positions with a forced mate.
    pub mates: bool,
    /// Share of the positions that are held out, 0 to below 1.
    pub held_out: f64,
    /// Mirror half of the examples left to right, where no castling right is left.
    pub mirror: bool,
    /// Number of the first batch: a run resumed after n batches asks for n. The file is read again
    /// up to there.
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

/// What was met in the file so far, in its first epoch; in steps of the pieces that it is read in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamCounts {
    /// Lines that are not blank.
    pub lines: u64,
    /// Positions that are learned from.
    pub used: u64,
    /// Positions that are held out.
    pub held_out: u64,
    /// Of these two, positions with a forced mate.
    pub mates: u64,
    /// What was left out, by reason.
    pub skipped: Skipped,
}

impl std::fmt::Display for StreamCounts {
    /// One line for people.
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

/// Endless shuffled batches ([`crate::Target::Value`]) from a file. Ends only with an error.
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
    /// An option is impossible, or a thread could not be started. What is wrong with the file comes
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

    /// What is met, kept up to date. Batches are made ahead: it is more than was handed out.
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

    /// A hash of the file's size and its first MiB: the whole may be many gigabytes.
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

/// Hands every usable record of the file to `sink`, in order, with whether it is held out; counts
/// the others.
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
    let facts = read_chunks(path, PARSERS, false, parse, |parsed, _| {
        // The lock is not held here: the sink waits until the batches are taken.
        let (flow, seen) = each(parsed);
        *counts.lock().unwrap_or_else(PoisonError::into_inner) = seen;
        Ok(flow)
    })?;
    match facts.format {
        Some(Format::LichessEvaluations) => Ok(()),
        _ => Err(DataError::Options(format!(
            "`{}` holds no lines of Lichess's evaluation database (`{{\"fen\": …, \"evals\": …}}`)",
            path.display()
        ))),
    }
}

/// The reading side.
struct StreamProducer {
    path: PathBuf,
    options: StreamOptions,
    counts: Arc<Mutex<StreamCounts>>,
}

impl StreamProducer {
    fn run(&self, batches: &Sender<Result<LoadedBatch, DataError>>) {
        let mut drawn =
            BatchSender { batches, options: &self.options, skip: 0, batch: LoadedBatch::default() };
        drawn.skip = u128::from(self.options.first_batch) * self.options.batch as u128;
        drawn.batch.number = self.options.first_batch;
        for epoch in 0.. {
            match self.epoch(epoch, &mut drawn) {
                Ok(ControlFlow::Continue(())) => {}
                Ok(ControlFlow::Break(())) => return,
                Err(error) => {
                    let _ = batches.send(Err(error));
                    return;
                }
            }
        }
    }

    /// One pass over the file, to the end of the consumer at most.
    fn epoch(&self, epoch: u64, drawn: &mut BatchSender<'_>) -> Result<ControlFlow<()>, DataError> {
        let StreamOptions { seed, shuffle, max_positions, .. } = self.options;
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        key[8..16].copy_from_slice(&epoch.to_le_bytes());
        let mut generator = ChaCha8Rng::from_seed(key);
        let mut buffer: Vec<Record> = Vec::new();
        let again = Mutex::default();
        let counts = if epoch == 0 { &*self.counts } else { &again };
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
                gone = drawn.push(&next, epoch, &mut generator).is_break();
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
            gone = gone || drawn.push(&record, epoch, &mut generator).is_break();
        }
        Ok(if gone { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }
}

/// The sending end of the shuffle buffer.
struct BatchSender<'a> {
    batches: &'a Sender<Result<LoadedBatch, DataError>>,
    options: &'a StreamOptions,
    /// Examples that a resumed run has seen already.
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
