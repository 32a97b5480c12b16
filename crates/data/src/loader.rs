//! Loads endless shuffled batches for training, decoded on a separate thread.
//!
//! Every epoch visits the blocks of all shards in a new order; the records of [`GROUP_BLOCKS`]
//! blocks at a time are shuffled together (imported shards are already shuffled as a whole).
//! Everything follows from the seed and the batch number, so a run resumed at batch n sees the same
//! batches as an uninterrupted one.

use std::path::Path;
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, bounded};
use nets::{HeadKind, POLICY_SIZE, PolicyIndex, Squares, mirror_index};
use rand::{RngExt, SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;

use crate::error::DataError;
use crate::packed::PackedRecord;
use crate::record::{GameResult, NO_LABEL, Record};
use crate::shard::ShardReader;
use crate::split::{Split, shard_paths};

/// Blocks whose records are shuffled together: about 14 MB.
pub const GROUP_BLOCKS: usize = 64;

/// Batches decoded ahead of the consumer.
const AHEAD: usize = 8;

/// The records that become examples, and their labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Records with a value; the label is that value.
    Value,
    /// Records with a played move and its value; the label is the value after it, for the side that
    /// played it.
    Moves,
    /// Records with a value and a played move with its value; the label is the value of the
    /// position.
    Both,
    /// Records with a value, which is the label. The played move is given where its value is known
    /// too; elsewhere it is [`PolicyIndex::MAX`].
    ValueAndAnyMove,
    /// Records with a played move, with or without values: labels and played values may be
    /// [`NO_LABEL`].
    Played,
}

impl Target {
    fn takes(self, record: &Record) -> bool {
        let played = usize::from(record.played) < POLICY_SIZE;
        match self {
            Self::Value | Self::ValueAndAnyMove => record.value != NO_LABEL,
            Self::Moves => played && record.played_value != NO_LABEL,
            Self::Both => played && record.value != NO_LABEL && record.played_value != NO_LABEL,
            Self::Played => played,
        }
    }
}

/// The content and order of the batches of a [`Loader`].
#[derive(Clone, Debug, PartialEq)]
pub struct LoaderOptions {
    /// Examples of a batch; every batch is full.
    pub batch: usize,
    /// Seed of the order and of the mirroring.
    pub seed: u64,
    pub target: Target,
    /// Mirror half of the examples left to right, where no castling right is left.
    pub mirror: bool,
    /// Only records whose played move has a target square for this selector head.
    pub selector: Option<HeadKind>,
    /// Only these sources ([`Record::source`]); empty: all.
    pub sources: Vec<u8>,
    /// Number of the first batch: a run resumed after n batches passes n.
    pub first_batch: u64,
}

impl Default for LoaderOptions {
    fn default() -> Self {
        Self {
            batch: 1024,
            seed: 0,
            target: Target::Value,
            mirror: true,
            selector: None,
            sources: Vec::new(),
            first_batch: 0,
        }
    }
}

/// Properties of an example besides its label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExampleInfo {
    /// Men on the board, kings included.
    pub pieces: u8,
    pub source: u8,
    pub ply: u16,
    pub result: GameResult,
    pub white_to_move: bool,
}

impl ExampleInfo {
    /// The properties of a record.
    #[must_use]
    pub fn of(record: &Record) -> Self {
        let pieces = record.squares.0.iter().filter(|&&class| class > 1).count() as u8;
        Self {
            pieces,
            source: record.source,
            ply: record.ply,
            result: record.result,
            white_to_move: record.white_to_move,
        }
    }
}

/// One batch: parallel vectors of `LoaderOptions::batch` entries.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoadedBatch {
    /// Number of this batch since the start of training.
    pub number: u64,
    /// Passes over the data completed before this batch's first example.
    pub epoch: u64,
    pub squares: Vec<Squares>,
    /// See [`Target`].
    pub labels: Vec<i32>,
    /// The move of each example; empty for [`Target::Value`].
    pub moves: Vec<PolicyIndex>,
    /// The value after each move, for the side that played it; for [`Target::Both`],
    /// [`Target::ValueAndAnyMove`] and [`Target::Played`] only.
    pub played_values: Vec<i32>,
    pub infos: Vec<ExampleInfo>,
}

/// Endless batches of one split of a folder of shards. The iterator ends only with an error.
#[derive(Debug)]
pub struct Loader {
    batches: Option<Receiver<Result<LoadedBatch, DataError>>>,
    thread: Option<JoinHandle<()>>,
    examples: u64,
}

impl Loader {
    /// Opens the shards, counts the examples that fit the options and starts decoding.
    ///
    /// # Errors
    /// A shard cannot be read or is damaged, or no record fits.
    pub fn open(dir: &Path, split: Split, options: LoaderOptions) -> Result<Self, DataError> {
        if options.batch == 0 {
            return Err(DataError::Options("a batch must have at least one example".to_owned()));
        }
        let readers = shard_paths(dir, split)?
            .iter()
            .map(|path| ShardReader::open(path))
            .collect::<Result<_, _>>()?;
        let mut producer = ShardProducer::new(readers, options)?;
        if producer.examples == 0 {
            return Err(DataError::Options(format!(
                "`{}` has no {} records for these options",
                dir.display(),
                split.name()
            )));
        }
        let examples = producer.examples;
        let (sender, receiver) = bounded(AHEAD);
        let thread = std::thread::Builder::new()
            .name("loader".to_owned())
            .spawn(move || producer.run(&sender))
            .map_err(DataError::io("start a thread for", dir))?;
        Ok(Self { batches: Some(receiver), thread: Some(thread), examples })
    }

    /// Examples of one epoch.
    #[must_use]
    pub fn examples(&self) -> u64 {
        self.examples
    }
}

impl Iterator for Loader {
    type Item = Result<LoadedBatch, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.batches.as_ref()?.recv().ok()
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        // Closing the channel ends the thread at its next batch.
        self.batches = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The producer: decodes shards and sends batches.
struct ShardProducer {
    readers: Vec<ShardReader>,
    options: LoaderOptions,
    /// (shard, block, number of fitting examples) of every block with examples.
    blocks: Vec<(usize, usize, u64)>,
    examples: u64,
}

impl ShardProducer {
    fn new(mut readers: Vec<ShardReader>, options: LoaderOptions) -> Result<Self, DataError> {
        let mut blocks = Vec::new();
        let mut packed = Vec::new();
        for (shard, reader) in readers.iter_mut().enumerate() {
            for block in 0..reader.blocks() {
                packed.clear();
                reader.read_packed(block, &mut packed)?;
                let fitting =
                    packed.iter().filter(|bytes| fits(&options, &Record::unpack(bytes))).count();
                if fitting > 0 {
                    blocks.push((shard, block, fitting as u64));
                }
            }
        }
        let examples = blocks.iter().map(|&(_, _, count)| count).sum();
        Ok(Self { readers, options, blocks, examples })
    }

    fn run(&mut self, batches: &Sender<Result<LoadedBatch, DataError>>) {
        if let Err(error) = self.stream(batches) {
            let _ = batches.send(Err(error));
        }
    }

    /// Produces batches until the consumer is gone.
    fn stream(
        &mut self,
        batches: &Sender<Result<LoadedBatch, DataError>>,
    ) -> Result<(), DataError> {
        let size = self.options.batch;
        let start = u128::from(self.options.first_batch) * size as u128;
        let mut epoch = (start / u128::from(self.examples)) as u64;
        let mut skip = (start % u128::from(self.examples)) as u64;
        let mut batch = self.empty(self.options.first_batch, epoch);
        loop {
            for (number, group) in self.epoch_order(epoch).chunks(GROUP_BLOCKS).enumerate() {
                let count: u64 = group.iter().map(|&(_, _, count)| count).sum();
                if skip >= count {
                    skip -= count;
                    continue;
                }
                for (record, mirror) in
                    self.group(epoch, number as u64, group)?.drain(skip as usize..)
                {
                    self.push(&mut batch, &Record::unpack(&record), mirror);
                    if batch.squares.len() == size {
                        let next = self.empty(batch.number + 1, epoch);
                        if batches.send(Ok(std::mem::replace(&mut batch, next))).is_err() {
                            return Ok(());
                        }
                    }
                }
                skip = 0;
            }
            epoch += 1;
            if batch.squares.is_empty() {
                batch.epoch = epoch;
            }
        }
    }

    fn epoch_order(&self, epoch: u64) -> Vec<(usize, usize, u64)> {
        let mut order = self.blocks.clone();
        order.shuffle(&mut self.generator(epoch, u64::MAX));
        order
    }

    /// The fitting records of a group of blocks, shuffled, each with its mirror decision.
    fn group(
        &mut self,
        epoch: u64,
        number: u64,
        blocks: &[(usize, usize, u64)],
    ) -> Result<Vec<(PackedRecord, bool)>, DataError> {
        let mut packed = Vec::new();
        for &(shard, block, _) in blocks {
            self.readers[shard].read_packed(block, &mut packed)?;
        }
        let mut generator = self.generator(epoch, number);
        let mut records: Vec<(PackedRecord, bool)> = packed
            .into_iter()
            .filter(|bytes| fits(&self.options, &Record::unpack(bytes)))
            .map(|bytes| (bytes, generator.random_bool(0.5)))
            .collect();
        records.shuffle(&mut generator);
        Ok(records)
    }

    fn generator(&self, epoch: u64, stream: u64) -> ChaCha8Rng {
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&self.options.seed.to_le_bytes());
        seed[8..16].copy_from_slice(&epoch.to_le_bytes());
        seed[16..24].copy_from_slice(&stream.to_le_bytes());
        ChaCha8Rng::from_seed(seed)
    }

    fn empty(&self, number: u64, epoch: u64) -> LoadedBatch {
        let size = self.options.batch;
        let moves = if self.options.target == Target::Value { 0 } else { size };
        LoadedBatch {
            number,
            epoch,
            squares: Vec::with_capacity(size),
            labels: Vec::with_capacity(size),
            moves: Vec::with_capacity(moves),
            played_values: Vec::new(),
            infos: Vec::with_capacity(size),
        }
    }

    fn push(&self, batch: &mut LoadedBatch, record: &Record, mirror: bool) {
        let mirror = mirror && self.options.mirror && record.squares.can_mirror();
        batch.squares.push(if mirror { record.squares.mirror() } else { record.squares });
        batch.infos.push(ExampleInfo::of(record));
        let target = self.options.target;
        let labels_value = target != Target::Moves;
        batch.labels.push(if labels_value { record.value } else { record.played_value });
        if target != Target::Value {
            let is_unknown = target == Target::ValueAndAnyMove && !Target::Both.takes(record);
            batch.moves.push(match record.played {
                _ if is_unknown => PolicyIndex::MAX,
                played if mirror => mirror_index(played),
                played => played,
            });
        }
        if matches!(target, Target::Both | Target::ValueAndAnyMove | Target::Played) {
            batch.played_values.push(record.played_value);
        }
    }
}

fn fits(options: &LoaderOptions, record: &Record) -> bool {
    let chosen = |head: HeadKind| head.target(&record.squares, record.played).is_some();
    options.target.takes(record)
        && options.selector.is_none_or(chosen)
        && (options.sources.is_empty() || options.sources.contains(&record.source))
}
