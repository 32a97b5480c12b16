//! The order of batches follows from the seed alone, every epoch visits everything once, and a run
//! can be taken up.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::HashMap;
use std::path::Path;

use data::{
    GameResult, LoadedBatch, Loader, LoaderOptions, NO_LABEL, Record, ShardWriter, Split, Target,
};
use nets::{HeadKind, PolicyIndex, Squares, mirror_index};

/// Enough blocks for several groups: distinct records with and without labels, from two sources.
fn shards(dir: &Path) -> Vec<Record> {
    let mut all = Vec::new();
    for shard in 0..3 {
        let mut writer = ShardWriter::create(&dir.join(Split::Train.shard_name(shard))).unwrap();
        for number in 0..120_000_u32 {
            let id = shard as u32 * 120_000 + number;
            let mut squares = [0; 64];
            // The number in the left half of the board only, so that mirror images are told apart.
            for digit in 0..10 {
                squares[8 * (digit / 2) + digit % 2] = 2 + (id >> (2 * digit) & 3) as u8;
            }
            squares[63] = if id.is_multiple_of(5) { 15 } else { 14 };
            let record = Record {
                squares: Squares(squares),
                white_to_move: id.is_multiple_of(2),
                value: if id.is_multiple_of(7) { NO_LABEL } else { id as i32 },
                played: if id.is_multiple_of(3) {
                    PolicyIndex::MAX
                } else {
                    (id % 4672) as PolicyIndex
                },
                played_value: if id.is_multiple_of(11) { NO_LABEL } else { -(id as i32) },
                result: GameResult::Draw,
                ply: (id % 300) as u16,
                halfmove_clock: 0,
                source: u8::from(number > 80_000),
                game: id,
            };
            writer.push(&record).unwrap();
            all.push(record);
        }
        writer.finish().unwrap();
    }
    all
}

fn take(dir: &Path, options: &LoaderOptions, count: usize) -> Vec<LoadedBatch> {
    Loader::open(dir, Split::Train, options.clone())
        .unwrap()
        .take(count)
        .map(Result::unwrap)
        .collect()
}

#[test]
fn batches() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let all = shards(dir);
    let options = LoaderOptions { batch: 1000, seed: 3, ..LoaderOptions::default() };

    // The same seed, the same batches; another seed, others.
    let batches = take(dir, &options, 700);
    assert!(take(dir, &options, 5) == batches[..5]);
    assert!(
        take(dir, &LoaderOptions { seed: 4, ..options.clone() }, 1)[0].labels != batches[0].labels
    );

    // A run taken up at any batch, also in a later epoch, sees the same.
    for first in [1, 37, 307, 308, 309, 310, 650] {
        let resumed = take(dir, &LoaderOptions { first_batch: first, ..options.clone() }, 3);
        assert!(resumed[..] == batches[first as usize..first as usize + 3], "from batch {first}");
    }

    // Each epoch has every record with a value once.
    let expected: Vec<i32> =
        all.iter().map(|record| record.value).filter(|&value| value != NO_LABEL).collect();
    let loader = Loader::open(dir, Split::Train, options.clone()).unwrap();
    assert_eq!(loader.examples(), expected.len() as u64);
    let stream: Vec<i32> = batches.iter().flat_map(|batch| batch.labels.iter().copied()).collect();
    for epoch in stream.chunks_exact(expected.len()).take(2) {
        let mut seen = epoch.to_vec();
        seen.sort_unstable();
        assert!(seen == expected);
    }
    assert!(
        stream[..1000] != stream[expected.len()..expected.len() + 1000],
        "a new order each epoch"
    );
    for (number, batch) in batches.iter().enumerate() {
        assert_eq!(batch.number, number as u64);
        assert_eq!(batch.epoch, (number * 1000 / expected.len()) as u64);
        assert!(batch.moves.is_empty() && batch.squares.len() == 1000 && batch.infos.len() == 1000);
    }
    // Shuffled far: a batch reaches into most shards.
    let reach = batches[0].labels.iter().max().unwrap() - batches[0].labels.iter().min().unwrap();
    assert!(reach > 200_000, "{reach}");

    // About half is mirrored, never with castling rights, and as the seed says.
    let of_label: HashMap<i32, &Record> = all.iter().map(|record| (record.value, record)).collect();
    let (mut mirrored, mut plain) = (0, 0);
    for (squares, label) in
        batches[..300].iter().flat_map(|batch| batch.squares.iter().zip(&batch.labels))
    {
        let record = of_label[label];
        if *squares == record.squares {
            plain += usize::from(record.squares.can_mirror());
        } else {
            assert!(*squares == record.squares.mirror() && record.squares.can_mirror());
            mirrored += 1;
        }
    }
    let share = f64::from(mirrored) / (f64::from(mirrored) + plain as f64);
    assert!((0.49..0.51).contains(&share), "{share} mirrored");
    let plain = take(dir, &LoaderOptions { mirror: false, ..options.clone() }, 2);
    assert!(plain[1].labels == batches[1].labels && plain[1].squares != batches[1].squares);

    moves_and_sources(dir, &all, &options);
    values_with_and_without_moves(dir, &all, &options);
    selectors(dir, &all, &options);
}

/// Every value is there; moves whose value is unknown are not.
fn values_with_and_without_moves(dir: &Path, all: &[Record], options: &LoaderOptions) {
    let of_label: HashMap<i32, &Record> = all.iter().map(|record| (record.value, record)).collect();
    let options = LoaderOptions { target: Target::ValueAndAnyMove, ..options.clone() };
    let loader = Loader::open(dir, Split::Train, options).unwrap();
    assert_eq!(
        loader.examples(),
        all.iter().filter(|record| record.value != NO_LABEL).count() as u64
    );
    let (mut known, mut unknown) = (0, 0);
    for batch in loader.take(30).map(Result::unwrap) {
        for (at, (label, &played)) in batch.labels.iter().zip(&batch.moves).enumerate() {
            let record = of_label[label];
            assert_eq!(batch.played_values[at], record.played_value);
            let is_known = record.played != PolicyIndex::MAX && record.played_value != NO_LABEL;
            let mirrored = batch.squares[at] != record.squares;
            let expected = match record.played {
                _ if !is_known => PolicyIndex::MAX,
                played if mirrored => mirror_index(played),
                played => played,
            };
            assert_eq!(played, expected);
            *if is_known { &mut known } else { &mut unknown } += 1;
        }
    }
    assert!(known > 1_000 && unknown > 1_000, "{known} {unknown}");
}

fn moves_and_sources(dir: &Path, all: &[Record], options: &LoaderOptions) {
    let of_game: HashMap<i32, &Record> =
        all.iter().map(|record| (record.played_value, record)).collect();
    for (target, fits) in [
        (
            Target::Moves,
            (|record| record.played != PolicyIndex::MAX && record.played_value != NO_LABEL)
                as fn(&Record) -> bool,
        ),
        (Target::Played, |record| record.played != PolicyIndex::MAX),
    ] {
        let options = LoaderOptions { target, sources: vec![1], ..options.clone() };
        let loader = Loader::open(dir, Split::Train, options).unwrap();
        let expected = all.iter().filter(|record| record.source == 1 && fits(record)).count();
        assert_eq!(loader.examples(), expected as u64);
        for batch in loader.take(30).map(Result::unwrap) {
            assert_eq!(batch.moves.len(), 1000);
            let labels = if target == Target::Moves { &batch.labels } else { &batch.played_values };
            for (at, label) in labels.iter().enumerate().filter(|&(_, &label)| label != NO_LABEL) {
                let record = of_game[label];
                assert_eq!((batch.infos[at].source, batch.infos[at].ply), (1, record.ply));
                let mirrored = batch.squares[at] != record.squares;
                let expected = if mirrored { mirror_index(record.played) } else { record.played };
                assert_eq!(batch.moves[at], expected);
            }
        }
    }
}

/// A move selector gets the moves of its piece, mirrored ones too.
fn selectors(dir: &Path, all: &[Record], options: &LoaderOptions) {
    let mut sum = 0;
    for head in HeadKind::SELECTORS {
        let options =
            LoaderOptions { target: Target::Played, selector: Some(head), ..options.clone() };
        let loader = Loader::open(dir, Split::Train, options);
        let wanted = all
            .iter()
            .filter(|record| head.target(&record.squares, record.played).is_some())
            .count();
        sum += if head == HeadKind::From { 0 } else { wanted };
        if wanted == 0 {
            assert!(loader.is_err());
            continue;
        }
        let loader = loader.unwrap();
        assert_eq!(loader.examples(), wanted as u64);
        for batch in loader.take(3).map(Result::unwrap) {
            let mut moves = batch.squares.iter().zip(&batch.moves);
            assert!(moves.all(|(squares, &played)| head.target(squares, played).is_some()));
        }
    }
    let from = |record: &&Record| HeadKind::From.target(&record.squares, record.played).is_some();
    assert!(sum > 0 && sum == all.iter().filter(from).count());
}

#[test]
fn nothing_to_load_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    assert!(Loader::open(dir.path(), Split::Train, LoaderOptions::default()).is_err());
    assert!(
        Loader::open(&dir.path().join("none"), Split::Train, LoaderOptions::default()).is_err()
    );
    shards(dir.path());
    let none = LoaderOptions { sources: vec![7], ..LoaderOptions::default() };
    let error = Loader::open(dir.path(), Split::Train, none).unwrap_err().to_string();
    assert!(error.contains("no train records"), "{error}");
    assert!(Loader::open(dir.path(), Split::Validation, LoaderOptions::default()).is_err());
    let empty = LoaderOptions { batch: 0, ..LoaderOptions::default() };
    assert!(Loader::open(dir.path(), Split::Train, empty).is_err());
}

#[test]
fn few_records_fill_large_batches() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = ShardWriter::create(&dir.path().join(Split::Train.shard_name(0))).unwrap();
    for value in 0..3 {
        let record = Record {
            squares: Squares::default(),
            white_to_move: true,
            value,
            played: PolicyIndex::MAX,
            played_value: NO_LABEL,
            result: GameResult::Unknown,
            ply: 0,
            halfmove_clock: 0,
            source: 0,
            game: 0,
        };
        writer.push(&record).unwrap();
    }
    writer.finish().unwrap();
    let options = LoaderOptions { batch: 8, ..LoaderOptions::default() };
    let batches = take(dir.path(), &options, 3);
    assert_eq!(batches.iter().map(|batch| batch.epoch).collect::<Vec<_>>(), [0, 2, 5]);
    let all: Vec<i32> = batches.iter().flat_map(|batch| batch.labels.clone()).collect();
    assert!((0..3).all(|value| all.iter().filter(|&&label| label == value).count() == 8));
}

#[test]
fn a_damaged_block_ends_the_batches_with_an_error() {
    let dir = tempfile::tempdir().unwrap();
    shards(dir.path());
    let loader = Loader::open(
        dir.path(),
        Split::Train,
        LoaderOptions { batch: 20_000, ..LoaderOptions::default() },
    );
    let mut loader = loader.unwrap();
    assert!(loader.next().unwrap().is_ok());
    for shard in 0..3 {
        let path = dir.path().join(Split::Train.shard_name(shard));
        let length = std::fs::metadata(&path).unwrap().len();
        // In place: the loader has the files open.
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(length / 20).unwrap();
    }
    assert!(loader.by_ref().take(200).any(|batch| batch.is_err()));
    assert!(loader.next().is_none());
}
