//! Matches and labelled games on the command line.

use super::*;

#[test]
fn a_match_against_itself() {
    let folder = tempfile::tempdir().unwrap();
    let pgn = folder.path().join("match.pgn");
    let output = run(&[
        "match",
        "--engine",
        "self; name=one",
        "--engine",
        "self; name=two; Batch=8",
        "--games",
        "4",
        "--nodes",
        "30",
        "--max-plies",
        "20",
        "--jobs",
        "2",
        "--strict",
        "--pgn",
        pgn.to_str().unwrap(),
    ]);
    let shown = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{shown}{}", text(&output.stderr));
    assert_eq!(shown.lines().count(), 8, "{shown}");
    assert!(shown.contains("faults: 0 by the first engine, 0 by the second"), "{shown}");
    let games = std::fs::read_to_string(pgn).unwrap();
    assert_eq!(games.matches("[White \"one\"]").count(), 2);
    assert_eq!(games.matches("[White \"two\"]").count(), 2);
}

#[test]
fn strict_matches_blame_the_engine_at_fault() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("engine.sh");
    // Shakes hands, then runs its argument on `go`.
    std::fs::write(
        &script,
        "while read -r line; do case \"$line\" in uci) echo uciok;; isready) echo readyok;; go*) eval \"$1\";; \
         quit) exit 0;; esac; done",
    )
    .unwrap();
    for (on_go, fault) in [
        ("exit 7", "crash"),
        ("echo bestmove e1e8", "illegal move"),
        ("sleep 0.4; echo bestmove e1e8", "illegal move"),
    ] {
        let action = folder.path().join("action.sh");
        std::fs::write(&action, on_go).unwrap();
        let engine =
            format!("/bin/sh {} .${{IFS}}{}; name=bad", script.display(), action.display());
        let output = run(&[
            "match",
            "--engine",
            "self; name=good",
            "--engine",
            &engine,
            "--games",
            "2",
            "--nodes",
            "5",
            "--strict",
        ]);
        let shown = text(&output.stdout);
        assert_eq!(output.status.code(), Some(1), "{shown}{}", text(&output.stderr));
        assert_eq!(shown.matches(&format!("{fault} by ")).count(), 2, "{shown}");
        assert!(shown.contains("result: +2 =0 -0"), "{shown}");
        assert!(shown.contains("faults: 0 by the first engine, 2 by the second"), "{shown}");
    }
}

fn label(out: &Path, extra: &[&str]) -> Output {
    let arguments = ["label", "--engine", "self", "--nodes", "60", "--out", out.to_str().unwrap()];
    run(&[&arguments[..], extra].concat())
}

#[test]
fn labels_do_not_depend_on_jobs_or_interruptions() {
    let folder = tempfile::tempdir().unwrap();
    let [one, two, parts] =
        ["one.pgn", "two.pgn", "parts.pgn"].map(|name| folder.path().join(name));
    let common = ["--max-plies", "24", "--seed", "7"];
    let output = label(&one, &[&common[..], &["--games", "6", "--jobs", "1"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    label(&two, &[&common[..], &["--games", "6", "--jobs", "3"]].concat());
    label(&parts, &[&common[..], &["--games", "2"]].concat());
    // Half a game, as a crash leaves it.
    let mut broken = std::fs::read(&parts).unwrap();
    broken.extend_from_slice(b"[Event \"labelled");
    std::fs::write(&parts, broken).unwrap();
    label(&parts, &[&common[..], &["--games", "6"]].concat());
    let read = |path: &Path| std::fs::read_to_string(path).unwrap();
    assert_eq!(read(&one).matches("[Annotator ").count(), 6);
    assert!(read(&one).matches("[%eval ").count() > 60);
    assert!(read(&one) == read(&two), "the number of jobs changes nothing");
    assert!(read(&one) == read(&parts), "an interruption changes nothing");
    let other = label(&one, &["--games", "7", "--seed", "8"]);
    assert_eq!(other.status.code(), Some(2), "another seed is another run");
}

#[test]
fn positions_of_trees_are_labelled() {
    let folder = tempfile::tempdir().unwrap();
    let [one, three] = ["one.pgn", "three.pgn"].map(|name| folder.path().join(name));
    let player = "internal; WeightsFile=fast; Threads=1; nodes=60";
    let common = ["--trees", player, "--share", "0.1", "--max-plies", "14", "--games", "4"];
    let output = label(&one, &[&common[..], &["--jobs", "1"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    label(&three, &[&common[..], &["--jobs", "3"]].concat());
    let labelled = std::fs::read_to_string(&one).unwrap();
    assert!(labelled == std::fs::read_to_string(&three).unwrap(), "jobs change nothing");
    // Each position is a game of one move; few positions have no move or end the game.
    let games = labelled.matches("[FEN ").count();
    assert!((60..400).contains(&games), "{games}");
    assert!(labelled.matches("[%eval ").count() > games * 3 / 2);
    let other = label(&one, &[&common[..2], &["--share", "0.2"]].concat());
    assert_eq!(other.status.code(), Some(2), "another share is another run");
}

#[test]
fn files_are_labelled() {
    let folder = tempfile::tempdir().unwrap();
    let games = folder.path().join("games.pgn");
    std::fs::write(
        &games,
        "[White \"A\"]\n[Black \"B\"]\n[Result \"1-0\"]\n\n1. e4 {[%eval 9.9]} e5 2. Qh5 Nc6 3. Bc4 Nf6 4. Qxf7# 1-0\n\n1. d4 *\n",
    )
    .unwrap();
    let positions = folder.path().join("positions.epd");
    std::fs::write(
        &positions,
        "4k3/8/8/8/8/8/4P3/4K3 w - - id \"x\";\n\n4k3/8/8/8/8/8/4P3/4K3 b - - 3 9\n",
    )
    .unwrap();
    let out = folder.path().join("out.pgn");
    let output = label(&out, &[games.to_str().unwrap(), positions.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let labelled = std::fs::read_to_string(&out).unwrap();
    assert_eq!(labelled.matches("[Annotator ").count(), 4, "{labelled}");
    // 7 positions of the first game (mate has no evaluation), 2 of the second, 2 of each position.
    assert_eq!(labelled.matches("[%eval ").count(), 7 + 2 + 4, "{labelled}");
    assert!(labelled.contains("[White \"A\"]") && !labelled.contains("9.9"), "{labelled}");
    assert!(labelled.contains("Qxf7# 1-0"), "{labelled}");
}
