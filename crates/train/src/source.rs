//! The training data of a run: a folder of shards, or a file of evaluations that is read while
//! training.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex},
};

use data::{EvaluationStream, StreamCounts, StreamOptions};
use nets::HeadKind;

use crate::{
    Config, Dataset, Examples, HeldOut, Loss, TrainError,
    dataset::{data_error, turn},
};

/// Number of held-out positions of a streamed file; reading all of a large file would take too
/// long.
const HELD_OUT: usize = 10_000;

/// The data of a run.
#[derive(Debug)]
pub(crate) enum Source {
    Shards(Dataset),
    Stream { path: PathBuf, hash: String },
}

/// The batches of a run from some step on.
pub(crate) struct Batches {
    pub batches: Box<dyn Iterator<Item = Result<Examples, TrainError>>>,
    /// Training positions of an epoch; of a stream without limit, of the whole run.
    pub positions: u64,
    /// Counts of a streamed file, updated while it is read.
    pub counts: Option<Arc<Mutex<StreamCounts>>>,
}

fn options(config: &Config, first_batch: u64) -> StreamOptions {
    StreamOptions {
        batch: config.training.batch,
        seed: config.training.seed,
        shuffle: config.data.shuffle,
        max_positions: config.data.max_positions,
        mates: config.data.mates,
        mirror: config.data.mirror,
        first_batch,
        ..StreamOptions::default()
    }
}

impl Source {
    /// Opens the data that the configuration names.
    ///
    /// # Errors
    /// The data cannot be read.
    pub fn open(config: &Config) -> Result<Self, TrainError> {
        let Some(path) = &config.data.stream else {
            return Dataset::open(&config.data.directory).map(Self::Shards);
        };
        let hash = EvaluationStream::fingerprint(path).map_err(data_error)?;
        Ok(Self::Stream { path: path.clone(), hash })
    }

    /// A hash that changes when the data changes.
    pub fn hash(&self) -> &str {
        match self {
            Self::Shards(dataset) => &dataset.hash,
            Self::Stream { hash, .. } => hash,
        }
    }

    /// Training batches from `first_batch` on.
    ///
    /// # Errors
    /// The data cannot be read, or no record fits.
    pub fn batches(&self, config: &Config, first_batch: u64) -> Result<Batches, TrainError> {
        let path = match self {
            Self::Shards(dataset) => {
                let (batches, positions) = dataset.batches(config, first_batch)?;
                return Ok(Batches { batches: Box::new(batches), positions, counts: None });
            }
            Self::Stream { path, .. } => path,
        };
        let stream =
            EvaluationStream::open(path, options(config, first_batch)).map_err(data_error)?;
        let counts = stream.counts();
        let batches = stream.map(|batch| {
            let batch = batch.map_err(data_error)?;
            let turns = batch.infos.iter().map(|info| turn(info.white_to_move)).collect();
            Ok(Examples {
                squares: batch.squares,
                turns,
                values: batch.labels,
                ..Examples::default()
            })
        });
        let whole_run = config.steps(0) * config.training.batch as u64;
        let positions = config.data.max_positions.unwrap_or(whole_run);
        Ok(Batches { batches: Box::new(batches), positions, counts: Some(counts) })
    }

    /// The held-out positions with a label for `head` with this loss, by source; of a stream the
    /// first [`HELD_OUT`].
    ///
    /// # Errors
    /// The data cannot be read.
    pub fn held_out(
        &self,
        config: &Config,
        (head, loss): (HeadKind, Loss),
    ) -> Result<Vec<HeldOut>, TrainError> {
        let margin = config.data.blunder_margin;
        let path = match self {
            Self::Shards(dataset) => {
                return dataset.held_out(
                    &config.data.directory,
                    (head, loss),
                    &config.data.sources,
                    margin,
                );
            }
            Self::Stream { path, .. } => path,
        };
        let records =
            EvaluationStream::held_out(path, &options(config, 0), HELD_OUT).map_err(data_error)?;
        let name =
            path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let short = name.split('.').next().unwrap_or(&name).to_owned();
        let mut held_out = HeldOut { source: short, ..HeldOut::default() };
        for record in records {
            held_out.push(&record, record.value, head, margin);
        }
        Ok(if held_out.is_empty() { Vec::new() } else { vec![held_out] })
    }
}
