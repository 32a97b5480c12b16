//! A folder of shards as training data: sources by name, batches from any step on, held-out
//! positions by source.

use std::{collections::HashSet, path::Path};

use board::Color;
use data::{Loader, LoaderOptions, Manifest, NO_LABEL, Record, Split, Target, read_split};
use nets::{HeadKind, POLICY_SIZE, Squares};

use crate::{
    Config, Examples, Explorer, HeldOut, Loss, Objective, TrainError, played::with_legal_moves,
};

/// The source names and the hash of a folder of shards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dataset {
    /// Source names by [`Record::source`]: file names up to the first dot, or whole file names
    /// where these would be ambiguous.
    pub sources: Vec<String>,
    /// A hash that changes when any record changes.
    pub hash: String,
}

pub(crate) fn data_error(error: data::DataError) -> TrainError {
    TrainError::Config(error.to_string())
}

/// The labels that every record must have for these objectives. Beside a value head, cross entropy
/// leaves out the moves of records without one: half of the positions of search trees have none.
fn target(objectives: &[Objective]) -> Target {
    match objectives {
        [Objective { head, .. }] if head.is_selector() => Target::Played,
        [Objective { head: HeadKind::Value, .. }] => Target::Value,
        [Objective { head: HeadKind::Moves, loss: Loss::Ordinal, .. }] => Target::Moves,
        [Objective { head: HeadKind::Moves, .. }] => Target::Played,
        _ if objectives.iter().any(|objective| objective.loss == Loss::CrossEntropy) => {
            Target::ValueAndAnyMove
        }
        // Compared with the value before a move, its value shows whether it was a mistake.
        _ => Target::Both,
    }
}

pub(crate) fn turn(white_to_move: bool) -> Color {
    if white_to_move { Color::White } else { Color::Black }
}

/// The label of a record for a head; `None` when the record cannot be used. With cross entropy the
/// label of a move may be [`NO_LABEL`].
fn label(record: &Record, head: HeadKind, loss: Loss) -> Option<i32> {
    let is_played = usize::from(record.played) < POLICY_SIZE;
    let label = match head {
        HeadKind::Value => record.value,
        HeadKind::Moves if is_played && loss == Loss::CrossEntropy => {
            return Some(record.played_value);
        }
        HeadKind::Moves if is_played => record.played_value,
        HeadKind::Moves => NO_LABEL,
        _ => return head.target(&record.squares, record.played).map(i32::from),
    };
    (label != NO_LABEL).then_some(label)
}

impl Dataset {
    /// Reads the manifest of a folder.
    ///
    /// # Errors
    /// There is no manifest, or it cannot be read.
    pub fn open(directory: &Path) -> Result<Self, TrainError> {
        let manifest = Manifest::load(directory).map_err(data_error)?;
        let short = |name: &str| name.split('.').next().unwrap_or(name).to_owned();
        let mut sources: Vec<String> =
            manifest.sources.iter().map(|source| short(&source.name)).collect();
        let mut sorted = sources.clone();
        sorted.sort();
        if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
            sources = manifest.sources.iter().map(|source| source.name.clone()).collect();
        }
        Ok(Self { sources, hash: manifest.data_hash })
    }

    /// The numbers of the named sources; no names give no numbers, which selects all sources.
    ///
    /// # Errors
    /// A name is unknown.
    pub fn numbers(&self, names: &[String]) -> Result<Vec<u8>, TrainError> {
        if let Some(name) = names.iter().find(|name| !self.sources.contains(name)) {
            let known = self.sources.join(", ");
            return Err(TrainError::Config(format!(
                "the data has no source `{name}`; it has {known} (`--set 'data.sources=[]'` takes all)"
            )));
        }
        // Files in different folders may have the same name.
        Ok((0..=u8::MAX)
            .zip(&self.sources)
            .filter(|(_, source)| names.contains(source))
            .map(|(number, _)| number)
            .collect())
    }

    /// The training batches from `first_batch` on, and the number of examples of an epoch.
    ///
    /// # Errors
    /// A shard cannot be read or no record fits.
    pub fn batches(
        &self,
        config: &Config,
        first_batch: u64,
    ) -> Result<(impl Iterator<Item = Result<Examples, TrainError>> + use<>, u64), TrainError> {
        let objectives = config.objectives();
        let target = target(&objectives);
        let selector =
            objectives.iter().map(|objective| objective.head).find(|head| head.is_selector());
        let options = LoaderOptions {
            batch: config.training.batch,
            seed: config.training.seed,
            target,
            mirror: config.data.mirror,
            selector,
            sources: self.numbers(&config.data.sources)?,
            first_batch,
        };
        let loader =
            Loader::open(&config.data.directory, Split::Train, options).map_err(data_error)?;
        let examples = loader.examples();
        let mut explorer = match &config.data.teacher {
            Some(teacher) if config.data.explored > 0 => {
                let (extra, seed) = (config.data.explored, config.training.seed);
                Some(Explorer::new(teacher, extra, seed, config.threads())?)
            }
            _ => None,
        };
        let policy = objectives.iter().any(|objective| objective.loss == Loss::CrossEntropy);
        let margin = config.data.blunder_margin;
        let batches = loader.map(move |batch| {
            let batch = batch.map_err(data_error)?;
            let turns = batch.infos.iter().map(|info| turn(info.white_to_move)).collect();
            let (squares, moves) = (batch.squares, batch.moves);
            let mut examples = Examples { squares, turns, moves, ..Examples::default() };
            match target {
                Target::Moves => examples.move_values = batch.labels,
                Target::Value | Target::Both | Target::ValueAndAnyMove | Target::Played => {
                    (examples.values, examples.move_values) = (batch.labels, batch.played_values);
                }
            }
            if let Some(head) = selector {
                let chosen = examples.squares.iter().zip(&examples.moves);
                // The loader returns only moves with a target for this head.
                examples.targets =
                    chosen.filter_map(|(squares, &mv)| head.target(squares, mv)).collect();
                return Ok(examples);
            }
            match &mut explorer {
                Some(explorer) => explorer.explore(batch.number, examples),
                None if policy => Ok(with_legal_moves(examples, margin)),
                None => Ok(examples),
            }
        });
        Ok((batches, examples))
    }

    /// The held-out positions that have a label for `head` with this loss, by source, without empty
    /// sources. `names` selects sources; no names select all. `margin`: see
    /// [`crate::DataSection::blunder_margin`].
    ///
    /// # Errors
    /// A shard cannot be read or is damaged.
    pub fn held_out(
        &self,
        directory: &Path,
        (head, loss): (HeadKind, Loss),
        names: &[String],
        margin: i32,
    ) -> Result<Vec<HeldOut>, TrainError> {
        let wanted = self.numbers(names)?;
        let trained = if head.is_selector() {
            positions_of(directory, Split::Train, &wanted)?
        } else {
            HashSet::new()
        };
        let mut sources: Vec<HeldOut> = self
            .sources
            .iter()
            .map(|name| HeldOut { source: name.clone(), ..HeldOut::default() })
            .collect();
        for record in read_split(directory, Split::Validation).map_err(data_error)? {
            let record = record.map_err(data_error)?;
            let Some(label) = label(&record, head, loss) else { continue };
            let number = usize::from(record.source);
            if !wanted.is_empty() && !wanted.contains(&record.source) {
                continue;
            }
            while sources.len() <= number {
                let source = format!("source {}", sources.len());
                sources.push(HeldOut { source, ..HeldOut::default() });
            }
            sources[number].push(&record, label, head, margin);
            if head.is_selector() {
                sources[number].seen.push(trained.contains(&record.squares));
            }
        }
        sources.retain(|source| !source.is_empty());
        Ok(sources)
    }
}

/// All positions of one split in the sources with these numbers; no numbers select all sources.
fn positions_of(
    directory: &Path,
    split: Split,
    wanted: &[u8],
) -> Result<HashSet<Squares>, TrainError> {
    let mut positions = HashSet::new();
    for record in read_split(directory, split).map_err(data_error)? {
        let record = record.map_err(data_error)?;
        if wanted.is_empty() || wanted.contains(&record.source) {
            positions.insert(record.squares);
        }
    }
    Ok(positions)
}
