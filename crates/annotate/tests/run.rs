//! Whole runs over a small file, with the mock evaluator, whose value is a hash of the position.
#![allow(clippy::unwrap_used)]

use std::{fs, path::Path};

use annotate::{AnalysisSettings, AnnotateSettings, Summary, annotate};
use eval::{Mock, Shared};
use nets::Calibration;
use search::{Control, KBest, Search, Settings};

const GAMES: &str = "[Event \"one\"]\n[White \"A <b>\"]\n[Black \"B\"]\n[Result \"1-0\"]\n\n\
    1. e4 { king's pawn [%clk 0:01:00] } e5 2. Bc4 Nc6 3. Qh5 Nf6 $4 (3... g6) 4. Qxf7# 1-0\n\n\
    [White \"B\"]\n[Black \"A <b>\"]\n[Result \"1/2-1/2\"]\n\n1. d4 d5 2. c4 e6 3. Nc3 Nf6 1/2-1/2\n\n\
    [White \"C\"]\n[Black \"D\"]\n[SetUp \"1\"]\n[FEN \"4k3/8/8/8/8/8/4P3/4K3 b - - 0 7\"]\n\n7... Kd7 8. e4 Ke6 *\n\n\
    [Event \"without moves\"]\n\n*\n\n\
    [White \"A <b>\"]\n[Black \"D\"]\n[Variant \"Chess960\"]\n[FEN \"4k2r/8/8/8/8/8/8/4K2R w Hh - 2 9\"]\n\n\
    9. O-O Rh5 10. Qd4 Rh4 *\n\n";

/// Settings for a file that holds the games `times` times.
fn settings(folder: &Path, jobs: usize, times: usize) -> AnnotateSettings {
    let input = folder.join("games.pgn");
    fs::write(&input, GAMES.repeat(times)).unwrap();
    AnnotateSettings {
        files: vec![input],
        output: folder.join("out.pgn"),
        json: Some(folder.join("out.jsonl")),
        jobs,
        analysis: AnalysisSettings {
            nodes: Some(60),
            movetime: None,
            depth: None,
            batch: 4,
            hash_mib: 4,
            from: 1,
            to: usize::MAX,
            multipv: 2,
            threshold: 10.0,
            strip: false,
            engine: "Batch First mock".to_owned(),
        },
    }
}

fn run(settings: &AnnotateSettings, games: u64) -> u64 {
    let shared = Shared::new(Box::new(Mock::new(3)), vec![Box::new(Mock::new(3))]);
    let search = |settings: &Settings| -> Box<dyn Search> {
        Box::new(KBest::new(Box::new(shared.client()), &Calibration::default(), settings))
    };
    let control = Control::default();
    let end = annotate(settings, &search, &control, &mut |progress| {
        if progress.games >= games {
            control.stop();
        }
    });
    end.unwrap().games
}

fn first_game(pgn: &str) -> games::PgnGame {
    games::read_pgn(pgn.as_bytes()).next().unwrap().unwrap().into_game().unwrap()
}

fn texts(settings: &AnnotateSettings) -> (String, String) {
    let json = settings.json.as_ref().unwrap();
    (fs::read_to_string(&settings.output).unwrap(), fs::read_to_string(json).unwrap())
}

#[test]
fn the_output_depends_neither_on_jobs_nor_on_interruptions() {
    let folders = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let [alone, together, interrupted] =
        [(0, 1), (1, 3), (2, 2)].map(|(at, jobs)| settings(folders[at].path(), jobs, 10));
    assert_eq!(run(&alone, u64::MAX), 50);
    assert_eq!(run(&together, u64::MAX), 50);
    assert_eq!(texts(&together), texts(&alone));

    assert!((2..50).contains(&run(&interrupted, 2)));
    assert!(texts(&interrupted).0.len() < texts(&alone).0.len());
    // As after a crash between the two writes, the progress of the JSON knows one game only.
    let json = interrupted.json.clone().unwrap();
    let progress = json.with_extension("jsonl.progress");
    let text = fs::read_to_string(&json).unwrap();
    let mut facts: serde_json::Value =
        serde_json::from_slice(&fs::read(&progress).unwrap()).unwrap();
    facts["games"] = 1.into();
    facts["bytes"] = (text.find('\n').unwrap() + 1).into();
    fs::write(&progress, facts.to_string()).unwrap();
    assert_eq!(run(&interrupted, u64::MAX), 50);
    assert_eq!(texts(&interrupted), texts(&alone));

    let mut other = interrupted;
    other.analysis.threshold = 5.0;
    let shared = Shared::new(Box::new(Mock::new(3)), Vec::new());
    let search = |settings: &Settings| -> Box<dyn Search> {
        Box::new(KBest::new(Box::new(shared.client()), &Calibration::default(), settings))
    };
    let error = annotate(&other, &search, &Control::default(), &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("threshold 10 against threshold 5"), "{error}");
}

#[test]
fn a_whole_file_as_it_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(folder.path(), 2, 1);
    run(&settings, u64::MAX);
    let (pgn, json) = texts(&settings);
    insta::assert_snapshot!(pgn);
    // The mate has no evaluation; every other position has one.
    assert_eq!(pgn.matches("Qxf7#").count(), 1);
    assert!(pgn.contains("Qxf7# 1-0"), "{pgn}");
    let games: Vec<serde_json::Value> =
        json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(games.len(), 5);
    assert_eq!(games[0]["positions"].as_array().unwrap().len(), 8);
    assert_eq!(games[0]["positions"][0]["lines"].as_array().unwrap().len(), 2);
    assert_eq!(games[0]["positions"][6]["san"], "Qxf7#");
    assert_eq!(games[4]["positions"][0]["move"], "e1h1", "castling is king takes rook");
    assert!(pgn.contains("the file goes on, but move 10, `Qd4`, is not legal: Qd4 Rh4 *"));

    let summary = Summary::read(pgn.as_bytes()).unwrap();
    assert_eq!(summary.games.len(), 5);
    let tag = |name: &str| first_game(&pgn).tag(name).unwrap().to_owned();
    let [white, black] = summary.games[0].player_analyses.map(Option::unwrap);
    assert_eq!((white.moves, black.moves), (4, 3));
    assert_eq!(format!("{:.1}", white.accuracy), tag("WhiteAccuracy"));
    assert_eq!(format!("{:.0}", black.average_loss), tag("BlackAverageLoss"));
    let player = &summary.players["A <b>"];
    assert_eq!((player.games, player.moves), (3, 4 + 3 + 1));
    let html = annotate::html_report(&summary, "out.pgn");
    assert!(html.contains("A &lt;b&gt;") && !html.contains("A <b>"));
    assert_eq!(html.matches("<path").count(), 4);
}

#[test]
fn only_the_plies_asked_for_are_analysed() {
    let folder = tempfile::tempdir().unwrap();
    let mut settings = settings(folder.path(), 1, 1);
    (settings.analysis.from, settings.analysis.to) = (3, 4);
    run(&settings, u64::MAX);
    let pgn = texts(&settings).0;
    let first = first_game(&pgn);
    let plies: Vec<usize> = first.evaluations.iter().map(|(ply, _)| *ply).collect();
    assert_eq!(plies, [2, 3, 4], "the positions around the third and the fourth move");
}

#[test]
fn what_people_wrote_stays_and_a_second_run_replaces_only_ours() {
    let folder = tempfile::tempdir().unwrap();
    let mut settings = settings(folder.path(), 1, 1);
    let written = "[White \"A\"]\n[Annotator \"Kasparov\"]\n[Result \"1-0\"]\n\n\
        1. e4 $13 (1. d4 $1 {better?} d5 (1... Nf6 -- ) 2. c4) 1... e5?? ; hm\n\
        2. Nf3 { a plan } (2. f4!?) Nc6 1-0\n\n\
        [Variant \"Antichess\"]\n[White \"B\"]\n\n1. e3 b5 { odd [%eval 1.0] }\n2. Bxb5 *\n";
    fs::write(&settings.files[0], written).unwrap();
    let mut runs = Vec::new();
    for number in 0..2 {
        settings.output = folder.path().join(format!("{number}.pgn"));
        settings.json = None;
        assert_eq!(run(&settings, u64::MAX), 2);
        runs.push(fs::read_to_string(&settings.output).unwrap());
        settings.files = vec![settings.output.clone()];
    }
    assert_eq!(runs[0], runs[1]);
    let words = runs[0].split_whitespace().collect::<Vec<_>>().join(" ");
    for kept in [
        "[Annotator \"Kasparov; Batch First mock, 60 evaluations a position\"]",
        "$13",
        "(1. d4 $1 { better? } 1... d5 (1... Nf6 2. --) 2. c4)",
        "1... e5 $4",
        "hm }",
        "a plan }",
        "(2. f4 $5)",
        "({ Batch First } 1.",
        "[Variant \"Antichess\"] [White \"B\"] 1. e3 b5 { odd [%eval 1.0] } 2. Bxb5 *",
    ] {
        assert!(words.contains(kept), "{kept} is not in {words}");
    }
    // One of them is a person's.
    assert_eq!(words.matches("$4").count() + words.matches("$2").count(), verdicts(&words) + 1);
    assert!(words.contains(") A blunder. ") || words.contains(") A mistake. "), "{words}");
    settings.output = folder.path().join("stripped.pgn");
    settings.analysis.strip = true;
    run(&settings, u64::MAX);
    let stripped = fs::read_to_string(&settings.output).unwrap();
    for gone in ["Kasparov", "$13", "better?", "f4"] {
        assert!(!stripped.contains(gone), "{gone} is in {stripped}");
    }
    assert!(stripped.contains("a plan"));
}

/// Moves that are called mistakes or blunders.
fn verdicts(words: &str) -> usize {
    words.matches(" Mistake.").count() + words.matches(" Blunder.").count()
}
