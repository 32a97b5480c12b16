//! Writes a folder of shards as plain arrays, for training with another program
//! (`scripts/train_torch.py`).
//!
//! ```text
//! cargo run --release -p batch-first-train --example arrays -- SHARDS OUT [CHILDREN [FILE…]]
//! ```
//!
//! Files, if there are any, are imported into the folder first, as `batch-first data import` does.
//!
//! For each split, `train` and `validation`, little-endian: `states` (64 bytes a position, its
//! squares as `attacks-21` states), `values` (i32: centipawns for the mover, mates beyond 100,000),
//! `weights` (u8: 1 where the first move is worth learning), `counts` (u8: moves of the position),
//! `moves` (u16: output indices of its legal moves, the played one first), `sources` (u8).
//! `children` are positions after CHILDREN random legal moves of each training position, without
//! values: the same files without `values`, `weights` and `sources`.

use std::{
    error::Error,
    fs::File,
    io::{BufWriter, Write},
    path::{Path, PathBuf},
};

use board::{Color, SplitMix64};
use data::{ImportOptions, NO_LABEL, Record, Split, read_split};
use nets::{Encoding, PolicyIndex, Squares, policy_index};

/// A move is not learned if it lost more centipawns than this.
const BLUNDER_MARGIN: i32 = 100;

/// More moves than this are left out; the played one is never among them.
const MOST_MOVES: usize = 96;

/// The arrays of some positions.
#[derive(Default)]
struct Arrays {
    states: Vec<u8>,
    values: Vec<u8>,
    weights: Vec<u8>,
    counts: Vec<u8>,
    moves: Vec<u8>,
    sources: Vec<u8>,
}

impl Arrays {
    fn push(
        &mut self,
        squares: &Squares,
        mut legal: Vec<PolicyIndex>,
        played: Option<PolicyIndex>,
    ) {
        let place = played.and_then(|played| legal.iter().position(|&mv| mv == played));
        if let Some(place) = place {
            legal.swap(0, place);
        }
        legal.truncate(MOST_MOVES);
        self.states.extend(Encoding::Attacks21.states_of(squares, Color::White));
        self.counts.push(legal.len() as u8);
        self.moves.extend(legal.iter().flat_map(|mv| mv.to_le_bytes()));
        self.weights.push(u8::from(place.is_some()));
    }

    fn push_record(&mut self, record: &Record) {
        let Some(position) = record.squares.position(Color::White) else { return };
        let legal = position.legal_moves().into_iter().map(|mv| policy_index(mv, Color::White));
        let (before, after) = (record.value, record.played_value);
        let is_good = after == NO_LABEL || after.saturating_add(BLUNDER_MARGIN) >= before;
        self.push(&record.squares, legal.collect(), is_good.then_some(record.played));
        self.values.extend(record.value.to_le_bytes());
        self.sources.push(record.source);
    }

    /// Adds the positions after some random moves, one each.
    fn push_children(&mut self, record: &Record, children: usize, random: &mut SplitMix64) {
        let Some(position) = record.squares.position(Color::White) else { return };
        let mut legal = position.legal_moves();
        for _ in 0..children.min(legal.len()) {
            let place = (random.unit() * legal.len() as f32) as usize;
            let mv = legal.swap_remove(place.min(legal.len() - 1));
            let mut child = position.clone();
            child.play(mv);
            let replies = child.legal_moves();
            if !replies.is_empty() {
                let replies = replies.into_iter().map(|mv| policy_index(mv, Color::Black));
                self.push(&Squares::of(&child), replies.collect(), None);
            }
        }
    }
}

/// Writers of the arrays of one kind.
struct Writers(Vec<BufWriter<File>>);

impl Writers {
    fn new(folder: &Path, kind: &str) -> Result<Self, Box<dyn Error>> {
        let names = ["states", "values", "weights", "counts", "moves", "sources"];
        let open = |name| Ok(BufWriter::new(File::create(folder.join(format!("{kind}.{name}")))?));
        Ok(Self(names.into_iter().map(open).collect::<Result<_, std::io::Error>>()?))
    }

    fn write(&mut self, arrays: &Arrays) -> std::io::Result<()> {
        let Arrays { states, values, weights, counts, moves, sources } = arrays;
        let parts = [states, values, weights, counts, moves, sources];
        self.0.iter_mut().zip(parts).try_for_each(|(file, part)| file.write_all(part))
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(shards), Some(out)) = (arguments.next(), arguments.next()) else {
        return Err("usage: arrays SHARDS OUT [CHILDREN [FILE…]]".into());
    };
    let children: usize = arguments.next().map_or(Ok(0), |number| number.parse())?;
    let (shards, out) = (PathBuf::from(shards), PathBuf::from(out));
    let files: Vec<PathBuf> = arguments.map(PathBuf::from).collect();
    if !files.is_empty() {
        data::import(&files, &shards, &ImportOptions::default(), &mut ())?;
    }
    std::fs::create_dir_all(&out)?;
    let threads = std::thread::available_parallelism()?.get();
    for (split, kind, children) in
        [(Split::Train, "train", children), (Split::Validation, "validation", 0)]
    {
        let mut writers = Writers::new(&out, kind)?;
        let mut child_writers =
            (children > 0).then(|| Writers::new(&out, "children")).transpose()?;
        let mut records = read_split(&shards, split)?
            .filter(|record| record.as_ref().map_or(true, |record| record.value != NO_LABEL));
        for number in 0_u64.. {
            let some: Vec<Record> =
                records.by_ref().take(threads * 8192).collect::<Result<_, _>>()?;
            if some.is_empty() {
                break;
            }
            let done: Vec<(Arrays, Arrays)> = std::thread::scope(|scope| {
                let parts = some.chunks(8192).zip(0_u64..).map(|(part, place)| {
                    scope.spawn(move || {
                        let (mut own, mut after) = (Arrays::default(), Arrays::default());
                        let mut random = SplitMix64::new(number << 16 | place);
                        for record in part {
                            own.push_record(record);
                            after.push_children(record, children, &mut random);
                        }
                        (own, after)
                    })
                });
                let parts: Vec<_> = parts.collect();
                parts.into_iter().map(|part| part.join().expect("a thread panicked")).collect()
            });
            for (own, after) in &done {
                writers.write(own)?;
                if let Some(writers) = &mut child_writers {
                    writers.write(after)?;
                }
            }
        }
    }
    Ok(())
}
