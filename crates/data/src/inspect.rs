//! Describes a folder of shards as text or JSON, and checks it against its manifest.

use std::fmt;
use std::path::Path;

use serde::Serialize;

use crate::error::DataError;
use crate::manifest::{Manifest, data_hash};
use crate::packed::PackedRecord;
use crate::record::Record;
use crate::shard::ShardReader;
use crate::skip::Skipped;
use crate::split::Split;
use crate::statistics::{
    LABEL_CLASSES, PLIES_PER_CLASS, PLY_CLASSES, Statistics, label_class_name,
};

/// The result of [`inspect`]; its `Display` is the text form, its serialization the JSON form.
#[derive(Clone, Debug, Serialize)]
pub struct Inspection {
    pub manifest: Manifest,
    /// Training records of all sources.
    pub train: Statistics,
    /// Held-out records of all sources.
    pub validation: Statistics,
    pub skipped: Skipped,
    /// Names of the classes of the label histograms.
    pub label_classes: Vec<String>,
    /// First plies of the classes of the ply histograms.
    pub ply_classes: Vec<u16>,
    /// True when every shard was read and agrees with the manifest.
    pub verified: bool,
}

/// Reads the manifest of a folder; with `verify` also every shard to its last record.
///
/// # Errors
/// There is no manifest, or a shard is missing, damaged or different from the manifest's.
pub fn inspect(dir: &Path, verify: bool) -> Result<Inspection, DataError> {
    let manifest = Manifest::load(dir)?;
    if verify {
        check(dir, &manifest)?;
    }
    let mut skipped = Skipped::default();
    for source in &manifest.sources {
        skipped.merge(&source.skipped);
    }
    Ok(Inspection {
        train: manifest.statistics(Split::Train),
        validation: manifest.statistics(Split::Validation),
        skipped,
        label_classes: (0..LABEL_CLASSES).map(label_class_name).collect(),
        ply_classes: (0..PLY_CLASSES as u16).map(|class| class * PLIES_PER_CLASS).collect(),
        verified: verify,
        manifest,
    })
}

fn check(dir: &Path, manifest: &Manifest) -> Result<(), DataError> {
    let differs = |path: &Path, reason: &str| DataError::Shard {
        path: path.to_owned(),
        reason: reason.to_owned(),
    };
    let mut found = [vec![Statistics::default(); manifest.sources.len()], Vec::new()];
    found[1] = found[0].clone();
    let mut packed: Vec<PackedRecord> = Vec::new();
    for shard in &manifest.shards {
        let path = dir.join(&shard.file);
        let (_, sha256) = board::sha256_file(&path).map_err(DataError::io("read", &path))?;
        if sha256 != shard.sha256 {
            return Err(differs(&path, "its hash is not the one in the manifest"));
        }
        let mut reader = ShardReader::open(&path)?;
        for block in 0..reader.blocks() {
            packed.clear();
            reader.read_packed(block, &mut packed)?;
            for record in packed.iter().map(Record::unpack) {
                let half = &mut found[usize::from(shard.split == Split::Validation)];
                match half.get_mut(usize::from(record.source)) {
                    Some(statistics) => statistics.add(&record),
                    None => {
                        return Err(differs(
                            &path,
                            "a record has a source that the manifest does not list",
                        ));
                    }
                }
            }
        }
    }
    let agrees = manifest.sources.iter().enumerate().all(|(number, source)| {
        source.train == found[0][number] && source.validation == found[1][number]
    });
    if !agrees || data_hash(&manifest.shards) != manifest.data_hash {
        return Err(differs(dir, "its records are not those that the manifest counts"));
    }
    Ok(())
}

impl fmt::Display for Inspection {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "data hash {}", self.manifest.data_hash)?;
        let options = &self.manifest.options;
        writeln!(
            out,
            "made by {}, seed {}, {:.1} % of the games held out{}",
            self.manifest.made_by,
            options.seed,
            options.validation * 100.0,
            if self.verified { "; every shard agrees with the manifest" } else { "" }
        )?;
        for (number, source) in self.manifest.sources.iter().enumerate() {
            writeln!(out, "\nsource {number}: {}", source.name)?;
            writeln!(
                out,
                "  read     {:>10} positions of {} games or lines",
                source.positions, source.games
            )?;
            for (name, half) in [("train", &source.train), ("held out", &source.validation)] {
                writeln!(
                    out,
                    "  {name:<8} {:>10} records, {} with a value, {} with a valued move",
                    half.records, half.values, half.moves
                )?;
            }
            for (kind, count) in &source.skipped.0 {
                writeln!(out, "  skipped  {count:>10} {}", kind.describe())?;
            }
        }
        self.write_histograms(out)
    }
}

impl Inspection {
    /// Writes the histograms of labels, plies, men and results, training and held-out records side
    /// by side.
    fn write_histograms(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "\nvalue for the side to move, centipawns        train            held out")?;
        let halves = [&self.train, &self.validation];
        for class in 0..LABEL_CLASSES {
            row(
                out,
                &label_class_name(class),
                halves.map(|half| half.labels[class]),
                halves.map(|half| half.values),
            )?;
        }
        writeln!(out, "\nplies since the start of the game")?;
        for class in 0..PLY_CLASSES {
            let from = class * usize::from(PLIES_PER_CLASS);
            let name = if class + 1 == PLY_CLASSES {
                format!("from {from}")
            } else {
                format!("{from} to {}", from + usize::from(PLIES_PER_CLASS) - 1)
            };
            row(out, &name, halves.map(|half| half.plies[class]), halves.map(|half| half.records))?;
        }
        writeln!(out, "\nmen on the board")?;
        for men in (2..=32).step_by(4) {
            let to = (men + 3).min(32);
            let counts = halves.map(|half| half.pieces.0[men..=to].iter().sum());
            row(out, &format!("{men} to {to}"), counts, halves.map(|half| half.records))?;
        }
        writeln!(out, "\nresult for the side to move")?;
        for (class, name) in ["unknown", "lost", "drawn", "won"].into_iter().enumerate() {
            row(
                out,
                name,
                halves.map(|half| half.results[class]),
                halves.map(|half| half.records),
            )?;
        }
        Ok(())
    }
}

/// Writes a row of a histogram: counts and percentages of training and held-out records.
fn row(out: &mut fmt::Formatter<'_>, name: &str, counts: [u64; 2], of: [u64; 2]) -> fmt::Result {
    let share = |at: usize| counts[at] as f64 * 100.0 / of[at].max(1) as f64;
    writeln!(
        out,
        "  {name:<28} {:>10} {:>5.1} %  {:>10} {:>5.1} %",
        counts[0],
        share(0),
        counts[1],
        share(1)
    )
}
