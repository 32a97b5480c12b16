//! From files to shards: the split goes by game, no position comes twice, and the same input makes
//! the same shards.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use data::{
    DataError, GameFilter, ImportOptions, MATE_LABEL, Manifest, NO_LABEL, Record, ResultFilter,
    SkipKind, Split, import, inspect, read_split,
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A PGN of random games with random evaluations.
fn random_games(count: usize, plies: usize, seed: u64) -> String {
    let mut generator = ChaCha8Rng::seed_from_u64(seed);
    let mut text = String::new();
    for number in 0..count {
        text += &format!("[Event \"{number}\"]\n[Result \"*\"]\n\n");
        let mut position = board::Position::default();
        let mut value = 0.0_f64;
        for _ in 0..plies {
            let moves = position.legal_moves();
            if moves.is_empty() {
                break;
            }
            let mv = moves[generator.random_range(0..moves.len())];
            value += generator.random_range(-0.5..0.5);
            text += &format!("{} {{ [%eval {value:.2}] }} ", board::to_san(&position, mv));
            position.play(mv);
        }
        text += "*\n\n";
    }
    text
}

fn write(dir: &Path, name: &str, text: &str) -> PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

fn records(dir: &Path, split: Split) -> Vec<Record> {
    match read_split(dir, split) {
        Ok(records) => records.map(Result::unwrap).collect(),
        Err(_) => Vec::new(),
    }
}

fn options() -> ImportOptions {
    ImportOptions { validation: 0.25, threads: 2, ..ImportOptions::default() }
}

/// Positions of one search tree are games of their own in a labelled file, and differ by a move.
#[test]
fn positions_of_one_tree_are_held_out_together() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let text = random_games(400, 20, 5);
    let mut texts = text.split("[Event ");
    assert_eq!(texts.next(), Some(""));
    // Ten games of each origin.
    let label = |(number, game): (usize, &str)| {
        let rest = game.split_once('\n').unwrap().1;
        format!("[Event \"{}\"]\n[Round \"{}\"]\n{rest}", games::LABELLED_EVENT, number / 10 + 1)
    };
    let labelled: String = texts.enumerate().map(label).collect();
    let file = write(dir.path(), "trees.pgn", &labelled);
    import(&[file], &out, &options(), &mut ()).unwrap();
    let origins = |split| {
        let origin = |record: &Record| record.game / 10;
        records(&out, split).iter().map(origin).collect::<HashSet<_>>()
    };
    let (train, validation) = (origins(Split::Train), origins(Split::Validation));
    assert!(train.is_disjoint(&validation));
    assert_eq!(train.len() + validation.len(), 40);
    assert!((3..20).contains(&validation.len()), "{} of 40 held out", validation.len());
}

#[test]
fn games_are_not_torn_apart_and_no_position_comes_twice() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let files = [
        write(dir.path(), "a.pgn", &random_games(300, 40, 1)),
        write(dir.path(), "b.pgn", &random_games(200, 40, 2)),
    ];
    let manifest = import(&files, &out, &options(), &mut ()).unwrap();
    let (train, validation) = (records(&out, Split::Train), records(&out, Split::Validation));
    let games =
        |records: &[Record]| records.iter().map(|record| record.game).collect::<HashSet<_>>();
    let (train_games, validation_games) = (games(&train), games(&validation));
    assert!(train_games.is_disjoint(&validation_games));
    assert_eq!(train_games.len() + validation_games.len(), 500);
    assert!(
        (80..170).contains(&validation_games.len()),
        "{} of 500 games held out",
        validation_games.len()
    );

    let all: Vec<_> = train.iter().chain(&validation).collect();
    let distinct: HashSet<_> = all.iter().map(|record| record.squares).collect();
    assert_eq!(distinct.len(), all.len());
    let duplicates: u64 =
        manifest.sources.iter().map(|source| source.skipped.count(SkipKind::Duplicate)).sum();
    assert!(duplicates > 100, "random games share their first moves");
    // Every position read is somewhere.
    for source in &manifest.sources {
        let skipped: u64 = source.skipped.0.values().sum();
        assert_eq!(source.positions, source.train.records + source.validation.records + skipped);
    }
    // Games are numbered through all files, sources by file.
    assert!(all.iter().all(|record| record.source == u8::from(record.game >= 300)));
    assert_eq!(manifest.sources.iter().map(|source| source.games).collect::<Vec<_>>(), [300, 200]);
}

#[test]
fn records_are_those_of_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let file = write(
        dir.path(),
        "a.pgn",
        "[Result \"1-0\"]\n\n1. e4 { [%eval 0.2] } e5 { [%eval 0.3] } 2. Qh5 { [%eval -0.4] } Ke7 { [%eval #1] } 3. Qxe5# 1-0\n",
    );
    import(&[file], &out, &ImportOptions { validation: 0.0, ..options() }, &mut ()).unwrap();
    let mut found = records(&out, Split::Train);
    found.sort_by_key(|record| record.ply);
    let labels: Vec<_> =
        found.iter().map(|record| (record.ply, record.value, record.played_value)).collect();
    let mate = data::mate_label(1);
    assert_eq!(
        labels,
        [
            (0, NO_LABEL, 20),
            (1, -20, -30),
            (2, 30, -40),
            (3, 40, -mate),
            (4, mate, -data::mate_label(0))
        ]
    );
    assert!(records(&out, Split::Validation).is_empty());
}

#[test]
fn threads_do_not_matter_and_the_seed_does() {
    let dir = tempfile::tempdir().unwrap();
    let file = write(dir.path(), "a.pgn", &random_games(1500, 30, 3));
    let run = |name: &str, threads: usize, seed: u64| {
        let out = dir.path().join(name);
        let options = ImportOptions { threads, seed, ..options() };
        let manifest = import(std::slice::from_ref(&file), &out, &options, &mut ()).unwrap();
        (manifest, records(&out, Split::Train))
    };
    let (one, one_records) = run("one", 1, 5);
    let (four, _) = run("four", 4, 5);
    let (other, other_records) = run("other", 2, 6);
    assert_eq!(one.data_hash, four.data_hash);
    assert!(one.sources == four.sources && one.shards == four.shards);
    assert_ne!(one.data_hash, other.data_hash);
    assert!(one_records != other_records);
    // Shuffled: neighbours seldom come from one game.
    let neighbours = one_records.windows(2).filter(|pair| pair[0].game == pair[1].game).count();
    assert!(neighbours * 100 < one_records.len(), "{neighbours} of {}", one_records.len());
}

#[test]
fn the_record_with_more_labels_stays() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let file = write(
        dir.path(),
        "a.pgn",
        "1. e4 { [%eval 0.2] } *\n\n[Event \"2\"]\n\n1. e4 { [%eval 0.3] } e5 { [%eval 0.1] } *\n\n\
         [Event \"3\"]\n\n1. e4 { [%eval 0.4] } e5 { [%eval 0.5] } *\n",
    );
    let manifest =
        import(&[file], &out, &ImportOptions { validation: 0.0, ..options() }, &mut ()).unwrap();
    let after_e4: Vec<_> =
        records(&out, Split::Train).into_iter().filter(|record| record.ply == 1).collect();
    assert_eq!(after_e4.len(), 1);
    assert_eq!((after_e4[0].value, after_e4[0].played_value, after_e4[0].game), (-30, -10, 1));
    assert_eq!(manifest.sources[0].skipped.count(SkipKind::Duplicate), 2 + 2 + 1);
}

#[test]
fn lines_are_split_by_position_and_options_hold() {
    let dir = tempfile::tempdir().unwrap();
    let mut lines = String::new();
    for number in 0..58 {
        let mut squares = ['1'; 64];
        squares[6 + number] = 'K';
        squares[0] = 'k';
        squares[3] = 'R';
        let ranks: Vec<String> = squares.chunks(8).map(|rank| rank.iter().collect()).collect();
        let value = if number.is_multiple_of(2) {
            "\"mate\":5".to_owned()
        } else {
            format!("\"cp\":{number}")
        };
        lines += &format!(
            "{{\"fen\":\"{} b - -\",\"evals\":[{{\"pvs\":[{{{value}}}]}}]}}\n",
            ranks.join("/")
        );
    }
    let file = write(dir.path(), "a.jsonl", &lines);
    let run = |name: &str, options: &ImportOptions| {
        let out = dir.path().join(name);
        let manifest = import(std::slice::from_ref(&file), &out, options, &mut ()).unwrap();
        let all = [records(&out, Split::Train), records(&out, Split::Validation)].concat();
        (manifest, all)
    };
    let (manifest, all) = run("all", &options());
    assert!(manifest.sources[0].validation.records > 0 && manifest.sources[0].train.records > 20);
    let mates = all.iter().filter(|record| record.value <= -MATE_LABEL).count();
    assert!(mates > 20);
    let (manifest, calm) = run("calm", &ImportOptions { mates: false, ..options() });
    assert_eq!(calm.len(), all.len() - mates);
    assert_eq!(manifest.sources[0].skipped.count(SkipKind::Mate), mates as u64);
    let (_, few) = run("few", &ImportOptions { max_positions: Some(10), ..options() });
    assert_eq!(few.len(), 10);
    assert!(few.iter().all(|record| record.game < 20), "the first of the file");
}

#[test]
fn unlabelled_positions_stay_on_request() {
    let dir = tempfile::tempdir().unwrap();
    let file = write(dir.path(), "a.pgn", "1. e4 e5 2. Nf3 Nc6 1-0\n");
    let out = dir.path().join("out");
    let manifest = import(std::slice::from_ref(&file), &out, &options(), &mut ()).unwrap();
    assert_eq!(manifest.sources[0].skipped.count(SkipKind::Unlabelled), 5);
    assert!(manifest.shards.is_empty());
    let options = ImportOptions { unlabelled: true, validation: 0.0, overwrite: true, ..options() };
    let manifest = import(&[file], &out, &options, &mut ()).unwrap();
    assert_eq!(manifest.statistics(Split::Train).records, 4);
    assert!(records(&out, Split::Train).iter().all(|record| record.played_value == NO_LABEL));
}

#[test]
fn games_are_chosen_and_equal_positions_stay_on_request() {
    let dir = tempfile::tempdir().unwrap();
    let game = |white: &str, black: &str, result: &str, moves: &str| {
        format!(
            "[WhiteElo \"{white}\"]\n[BlackElo \"{black}\"]\n[Result \"{result}\"]\n\n{moves} {result}\n\n"
        )
    };
    let text = [
        game("2100", "2000", "1-0", "1. e4 e5 2. Nf3 Nc6"),
        game("2100", "1999", "1-0", "1. e4 e5 2. Nf3 Nc6"),
        game("2400", "?", "0-1", "1. e4 e5 2. Nf3 Nc6"),
        game("2300", "2300", "1/2-1/2", "1. e4 e5 2. Nf3 Nc6"),
        game("2300", "2300", "0-1", "1. e4 e5 2. Nf3"),
        game("2300", "2300", "0-1", "1. e4 e5 2. Nf3 Nf6"),
    ];
    let file = write(dir.path(), "a.pgn", &text.concat());
    let games = GameFilter {
        min_elo: Some(2000),
        results: ResultFilter::Decisive,
        min_plies: Some(4),
        max_plies: None,
    };
    let options =
        ImportOptions { unlabelled: true, duplicates: true, validation: 0.0, games, ..options() };
    let out = dir.path().join("out");
    let manifest = import(std::slice::from_ref(&file), &out, &options, &mut ()).unwrap();
    assert_eq!(manifest.statistics(Split::Train).records, 8);
    let skipped = &manifest.sources[0].skipped;
    let counts = [SkipKind::Elo, SkipKind::Result, SkipKind::Length, SkipKind::Duplicate];
    assert_eq!(counts.map(|kind| skipped.count(kind)), [2, 1, 1, 0]);
    let options = ImportOptions { duplicates: false, overwrite: true, ..options };
    let manifest = import(&[file], &out, &options, &mut ()).unwrap();
    assert_eq!(manifest.statistics(Split::Train).records, 5 - 1);
    assert_eq!(manifest.sources[0].skipped.count(SkipKind::Duplicate), 4);
}

#[test]
fn a_folder_with_shards_is_not_overwritten_unasked_and_nothing_is_left_behind() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let file = write(dir.path(), "a.pgn", &random_games(50, 20, 4));
    import(std::slice::from_ref(&file), &out, &options(), &mut ()).unwrap();
    let error = import(std::slice::from_ref(&file), &out, &options(), &mut ()).unwrap_err();
    assert!(
        matches!(error, DataError::Options(_)) && error.to_string().contains("--overwrite"),
        "{error}"
    );
    let again = ImportOptions { overwrite: true, ..options() };
    import(&[file], &out, &again, &mut ()).unwrap();
    let mut names: Vec<_> = std::fs::read_dir(&out)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["manifest.json", "train-000.bfs", "validation-000.bfs"]);

    let missing =
        import(&[dir.path().join("none.pgn")], &dir.path().join("other"), &options(), &mut ());
    assert!(missing.unwrap_err().to_string().contains("none.pgn"));
    for validation in [-0.1, 1.0, f64::NAN] {
        let bad = ImportOptions { validation, ..options() };
        assert!(import(&[dir.path().join("a.pgn")], &out, &bad, &mut ()).is_err());
    }
}

#[test]
fn inspection_verifies_the_shards() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let file = write(dir.path(), "a.pgn", &random_games(100, 30, 7));
    let manifest = import(&[file], &out, &options(), &mut ()).unwrap();
    let inspection = inspect(&out, true).unwrap();
    let json = |manifest: &Manifest| serde_json::to_string(manifest).unwrap();
    assert!(json(&inspection.manifest) == json(&manifest));
    let counted: HashMap<_, _> = Split::ALL
        .into_iter()
        .map(|split| (split.name(), records(&out, split).len() as u64))
        .collect();
    assert_eq!(inspection.train.records, counted["train"]);
    assert_eq!(inspection.validation.records, counted["validation"]);
    assert_eq!(inspection.train.labels.iter().sum::<u64>(), inspection.train.values);
    assert_eq!(inspection.train.plies.iter().sum::<u64>(), inspection.train.records);
    let text = inspection.to_string();
    assert!(
        text.contains("a.pgn")
            && text.contains(&manifest.data_hash)
            && text.contains("duplicate positions")
    );
    assert_eq!(inspection.label_classes.len(), inspection.train.labels.len());

    let shard = out.join("train-000.bfs");
    let mut bytes = std::fs::read(&shard).unwrap();
    bytes[100] ^= 1;
    std::fs::write(&shard, bytes).unwrap();
    assert!(inspect(&out, true).unwrap_err().to_string().contains("train-000.bfs"));
    std::fs::write(out.join("manifest.json"), "{}").unwrap();
    assert!(inspect(&out, false).unwrap_err().to_string().contains("manifest"));
}
