//! Counts over a set of records: labels, plies, men and results.

use nets::POLICY_SIZE;
use serde::{Deserialize, Serialize};

use crate::record::{GameResult, MATE_LABEL, NO_LABEL, Record};

/// Lower bounds in centipawns of the classes of the label histogram but the first and second; mates
/// have a class of their own at each end, and 0 has one.
const LABEL_BOUNDS: [i32; 18] =
    [-2000, -1000, -500, -300, -200, -100, -50, -25, 0, 1, 25, 50, 100, 200, 300, 500, 1000, 2000];

/// Classes of the label histogram.
pub const LABEL_CLASSES: usize = LABEL_BOUNDS.len() + 3;

/// Plies of one class of the ply histogram; the last class has all later ones.
pub const PLIES_PER_CLASS: u16 = 20;

/// Classes of the ply histogram.
pub const PLY_CLASSES: usize = 11;

/// Counts over records.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Statistics {
    pub records: u64,
    /// Records with a value.
    pub values: u64,
    /// Records with a played move and its value.
    pub moves: u64,
    pub white_to_move: u64,
    /// Values by the classes of [`label_class_name`].
    pub labels: [u64; LABEL_CLASSES],
    /// By plies since the start of the game, [`PLIES_PER_CLASS`] to a class.
    pub plies: [u64; PLY_CLASSES],
    /// By men on the board, kings included: 0 to 32.
    pub pieces: PieceCounts,
    /// Unknown, lost, drawn, won for the side to move.
    pub results: [u64; 4],
}

/// Counts by men on the board, index = men (0..=32).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<u64>", into = "Vec<u64>")]
pub struct PieceCounts(pub [u64; 33]);

impl Default for PieceCounts {
    fn default() -> Self {
        Self([0; 33])
    }
}

impl TryFrom<Vec<u64>> for PieceCounts {
    type Error = String;

    fn try_from(counts: Vec<u64>) -> Result<Self, String> {
        counts.try_into().map(Self).map_err(|_| "expected 33 counts of men".to_owned())
    }
}

impl From<PieceCounts> for Vec<u64> {
    fn from(counts: PieceCounts) -> Self {
        counts.0.to_vec()
    }
}

impl Statistics {
    /// Counts a record.
    pub fn add(&mut self, record: &Record) {
        self.records += 1;
        self.white_to_move += u64::from(record.white_to_move);
        if record.value != NO_LABEL {
            self.values += 1;
            self.labels[label_class(record.value)] += 1;
        }
        self.moves +=
            u64::from(usize::from(record.played) < POLICY_SIZE && record.played_value != NO_LABEL);
        self.plies[usize::from(record.ply / PLIES_PER_CLASS).min(PLY_CLASSES - 1)] += 1;
        let pieces = record.squares.0.iter().filter(|&&class| class > 1).count();
        self.pieces.0[pieces.min(32)] += 1;
        self.results[match record.result {
            GameResult::Unknown => 0,
            GameResult::Loss => 1,
            GameResult::Draw => 2,
            GameResult::Win => 3,
        }] += 1;
    }

    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.records += other.records;
        self.values += other.values;
        self.moves += other.moves;
        self.white_to_move += other.white_to_move;
        let add = |into: &mut [u64], from: &[u64]| {
            for (into, from) in into.iter_mut().zip(from) {
                *into += from;
            }
        };
        add(&mut self.labels, &other.labels);
        add(&mut self.plies, &other.plies);
        add(&mut self.pieces.0, &other.pieces.0);
        add(&mut self.results, &other.results);
    }
}

fn label_class(value: i32) -> usize {
    if value <= -MATE_LABEL {
        0
    } else if value >= MATE_LABEL {
        LABEL_CLASSES - 1
    } else {
        1 + LABEL_BOUNDS.iter().filter(|&&bound| value >= bound).count()
    }
}

/// The name of a class of the label histogram: its range in centipawns.
#[must_use]
pub fn label_class_name(class: usize) -> String {
    match class {
        0 => "is mated".to_owned(),
        1 => format!("below {}", LABEL_BOUNDS[0]),
        class if class + 1 == LABEL_CLASSES => "mates".to_owned(),
        class if class + 2 >= LABEL_CLASSES => {
            format!("from {}", LABEL_BOUNDS[LABEL_BOUNDS.len() - 1])
        }
        class => match (LABEL_BOUNDS[class - 2], LABEL_BOUNDS[class - 1] - 1) {
            (from, to) if from == to => from.to_string(),
            (from, to) => format!("{from} to {to}"),
        },
    }
}
