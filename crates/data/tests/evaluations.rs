//! A file of evaluations is learned from as it is read: what is used, what is left out, in which
//! order.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::HashSet;
use std::io::Write;
use std::path::{Path, PathBuf};

use data::{EvaluationStream, LoadedBatch, SkipKind, StreamCounts, StreamOptions, mate_label};

/// White's king stands on one of many squares, so that positions differ; the value tells them
/// apart.
fn line(number: usize) -> String {
    let (white, black) = (number / 12 % 16, number % 12);
    let rank = |file: usize, piece: char| {
        let gap = |count: usize| if count > 0 { count.to_string() } else { String::new() };
        format!("{}{piece}{}", gap(file), gap(7 - file))
    };
    let rows = [
        rank(black % 6, 'k'),
        if black < 6 { "p7".to_owned() } else { "8".to_owned() },
        "8/8/8/8".to_owned(),
        if white < 8 { "P7".to_owned() } else { "7P".to_owned() },
        rank(white % 8, 'K'),
    ];
    format!(
        r#"{{"fen":"{} w - -","evals":[{{"pvs":[{{"cp":{number}}}],"knodes":1,"depth":5}}]}}"#,
        rows.join("/")
    )
}

/// Good lines with bad ones among them, compressed.
fn file(folder: &Path, good: usize) -> PathBuf {
    let mut text = String::new();
    for number in 0..good {
        text += &line(number);
        text.push('\n');
    }
    for bad in [
        "no json",
        r#"{"fen":"9/8/8/8/8/8/8/8 w - -","evals":[]}"#,
        r#"{"fen":"7k/8/5K2/6Q1/8/8/8/8 w - -","evals":[]}"#,
        r#"{"fen":"7k/8/5K2/6Q1/8/8/8/8 w - -","evals":[{"pvs":[{"line":"g5g7"}],"knodes":1,"depth":9}]}"#,
        // The first line of the first evaluation counts: a mate that White gives, with Black to
        // move.
        r#"{"fen":"7k/8/5K2/6Q1/8/8/8/8 b - -","evals":[{"pvs":[{"mate":2,"line":"h8h7"},{"cp":3,"line":"h8h7"}],"knodes":1,"depth":9},{"pvs":[{"cp":7,"line":"h8h7"}],"knodes":5,"depth":40}]}"#,
    ] {
        text += bad;
        text.push('\n');
    }
    let path = folder.join("evals.jsonl.zst");
    let mut packed = zstd::stream::Encoder::new(std::fs::File::create(&path).unwrap(), 1).unwrap();
    packed.write_all(text.as_bytes()).unwrap();
    packed.finish().unwrap();
    path
}

fn options() -> StreamOptions {
    StreamOptions { batch: 10, seed: 5, shuffle: 40, held_out: 0.2, ..StreamOptions::default() }
}

fn take(path: &Path, options: &StreamOptions, count: usize) -> Vec<LoadedBatch> {
    EvaluationStream::open(path, options.clone()).unwrap().take(count).map(Result::unwrap).collect()
}

#[test]
fn an_epoch_visits_every_position_once_and_held_out_ones_never() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path(), 190);
    let held_out = EvaluationStream::held_out(&path, &options(), 0).unwrap();
    assert!((20..60).contains(&held_out.len()), "{}", held_out.len());
    assert_eq!(EvaluationStream::held_out(&path, &options(), 7).unwrap(), held_out[..7]);
    let used = 191 - held_out.len();

    let mut stream = EvaluationStream::open(&path, options()).unwrap();
    let counts = stream.counts();
    let batches: Vec<LoadedBatch> =
        stream.by_ref().take(2 * used / 10).map(Result::unwrap).collect();
    let labels: Vec<i32> = batches.iter().flat_map(|batch| batch.labels.clone()).collect();
    let first: HashSet<i32> = labels[..used].iter().copied().collect();
    assert_eq!(first.len(), used);
    assert!(held_out.iter().all(|record| !first.contains(&record.value)));
    assert!(labels[used..].iter().all(|label| first.contains(label)));
    assert_ne!(labels[used..], labels[..labels.len() - used], "another epoch, another order");
    // Shuffled, but no further than the buffer reaches back.
    assert!(labels[..used].windows(2).any(|pair| pair[0] > pair[1]));
    assert!(labels[..10].iter().all(|&label| label < 80 || label < 0), "{labels:?}");
    assert!(batches.iter().enumerate().all(|(number, batch)| batch.number == number as u64));

    let counts = counts.lock().unwrap().clone();
    let StreamCounts { lines, used: counted, held_out: kept, mates, skipped } = counts;
    assert_eq!((lines, counted, kept, mates), (195, used as u64, held_out.len() as u64, 1));
    let kinds = [SkipKind::BadJson, SkipKind::BadPosition, SkipKind::Unlabelled];
    assert_eq!(kinds.map(|kind| skipped.count(kind)), [1, 1, 2]);
    assert_eq!(skipped.0.len(), kinds.len());
}

#[test]
fn the_same_seed_gives_the_same_batches_from_any_step_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path(), 190);
    let all = take(&path, &options(), 40);
    for first_batch in [0, 1, 13, 29] {
        let resumed = take(&path, &StreamOptions { first_batch, ..options() }, 5);
        assert!(resumed == all[first_batch as usize..][..5], "from {first_batch}");
    }
    assert!(take(&path, &StreamOptions { seed: 6, ..options() }, 1)[0].labels != all[0].labels);
    let plain = StreamOptions { shuffle: 1, held_out: 0.0, ..options() };
    assert_eq!(take(&path, &plain, 3)[2].labels, (20..30).collect::<Vec<i32>>());
}

#[test]
fn mates_and_limits_are_as_wished() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path(), 30);
    let mates = |mates: bool| {
        let options = StreamOptions { mates, held_out: 0.0, batch: 5, ..options() };
        let mut stream = EvaluationStream::open(&path, options).unwrap();
        let labels: Vec<i32> =
            stream.by_ref().take(12).flat_map(|batch| batch.unwrap().labels).collect();
        let counts = stream.counts().lock().unwrap().clone();
        (labels.contains(&mate_label(-2)), counts.mates, counts.skipped.count(SkipKind::Mate))
    };
    assert_eq!(mates(true), (true, 1, 0));
    assert_eq!(mates(false), (false, 0, 1));
    let few = StreamOptions { max_positions: Some(8), held_out: 0.0, batch: 4, ..options() };
    let labels: Vec<i32> =
        take(&path, &few, 6).into_iter().flat_map(|batch| batch.labels).collect();
    assert_eq!(labels.iter().copied().collect::<HashSet<i32>>(), (0..8).collect());
}

#[test]
fn files_without_positions_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let first = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        EvaluationStream::open(&path, options()).unwrap().next().unwrap().unwrap_err().to_string()
    };
    assert!(first("game.pgn", "1. e4 { [%eval 0.3] } *\n").contains("evaluation database"));
    assert!(first("empty.jsonl", "").contains("evaluation database"));
    assert!(first("none.jsonl", "{\"fen\":\"x\",\"evals\":[]}\n").contains("no position"));
    assert!(
        EvaluationStream::open(folder.path(), StreamOptions { shuffle: 0, ..options() }).is_err()
    );
    assert!(
        EvaluationStream::open(&folder.path().join("gone"), options())
            .unwrap()
            .next()
            .unwrap()
            .is_err()
    );
}
