//! Matches as their users meet them: resumed after a kill, repeated to the letter, stopped by a
//! test, rated.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::{
    path::Path,
    process::{Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

fn program() -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("batch-first"));
    command.env_remove("RUST_LOG").stdin(Stdio::null());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn checked(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// Four searches in a round robin of 24 short games.
fn round_robin(folder: &Path, jobs: &str) -> Command {
    let mut command = program();
    command.arg("match");
    for batch in [1, 2, 4, 8] {
        command.args(["--engine", &format!("internal; Hash=1; Batch={batch}; name=K{batch}")]);
    }
    command.args([
        "--games",
        "4",
        "--nodes",
        "30",
        "--max-plies",
        "16",
        "--no-times",
        "--jobs",
        jobs,
    ]);
    command.arg("--out").arg(folder);
    command
}

/// Asks a program to end, as terminals (INT) and service managers (TERM) do.
#[cfg(unix)]
fn signal(child: &std::process::Child, name: &str) {
    let sent = Command::new("kill").args(["-s", name, &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

fn numbers(folder: &Path) -> Vec<u64> {
    let journal = std::fs::read_to_string(folder.join("games.jsonl")).unwrap_or_default();
    journal
        .split_inclusive('\n')
        .filter(|line| line.ends_with('\n'))
        .map(|line| {
            serde_json::from_str::<serde_json::Value>(line).unwrap()["number"].as_u64().unwrap()
        })
        .collect()
}

/// An endless match in this folder, of which two games are done.
#[cfg(unix)]
fn endless(folder: &Path) -> std::process::Child {
    let mut command = program();
    command.args([
        "match",
        "--compare",
        "internal; Hash=1",
        "internal; Hash=1; Batch=2",
        "--nodes",
        "20",
    ]);
    command.args(["--max-plies", "4", "--games", "100000", "--quiet", "--out"]).arg(folder);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let started = Instant::now();
    while numbers(folder).len() < 2 {
        assert!(started.elapsed() < Duration::from_secs(300), "no game ends");
        thread::sleep(Duration::from_millis(2));
    }
    child
}

#[cfg(unix)]
#[test]
fn a_match_that_is_asked_to_end_keeps_its_games_and_does_not_claim_success() {
    // `timeout` asks twice at once.
    for names in [&["INT"][..], &["TERM"], &["TERM", "TERM"]] {
        let folder = tempfile::tempdir().unwrap();
        let child = endless(folder.path());
        names.iter().for_each(|name| signal(&child, name));
        let output = child.wait_with_output().unwrap();
        let shown = text(&output.stdout);
        assert_eq!(output.status.code(), Some(130), "{names:?}: {shown}");
        assert!(shown.contains("of 100000 games (the same command goes on)"), "{shown}");
        assert!(folder.path().join("report.html").exists());
    }
}

#[cfg(unix)]
#[test]
fn an_interrupted_match_ends_in_order_without_a_reader() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = endless(folder.path());
    drop(child.stdout.take());
    signal(&child, "INT");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(folder.path().join("report.html").exists());
}

#[test]
fn a_killed_match_goes_on_and_ends_as_if_nothing_had_happened() {
    let folder = tempfile::tempdir().unwrap();
    let (whole, killed) = (folder.path().join("whole"), folder.path().join("killed"));
    checked(&round_robin(&whole, "1").output().unwrap());

    let mut before = Vec::new();
    for least in [3, 9] {
        let mut child =
            round_robin(&killed, "2").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let started = Instant::now();
        while numbers(&killed).len() < least && child.try_wait().unwrap().is_none() {
            assert!(started.elapsed() < Duration::from_secs(300), "no game ends");
            thread::sleep(Duration::from_millis(2));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let after = numbers(&killed);
        assert!(after.len() >= least && after[..before.len()] == before, "{before:?} {after:?}");
        before = after;
    }
    let shown = checked(&round_robin(&killed, "2").output().unwrap());
    assert!(shown.contains("K8"), "{shown}");
    let mut all = numbers(&killed);
    assert_eq!(all[..before.len()], before, "finished games are kept");
    all.sort_unstable();
    assert_eq!(all, (0..24).collect::<Vec<_>>(), "no game is missing or doubled");
    let read = |folder: &Path, name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    assert!(read(&whole, "games.pgn") == read(&killed, "games.pgn"), "the same games");

    let report = read(&killed, "report.html");
    assert!(
        report.starts_with("<!doctype html>") && report.matches("<svg ").count() == 1,
        "{report}"
    );
    assert!(!report.contains("src=") && !report.contains("href="), "nothing from outside");
    let facts: serde_json::Value = serde_json::from_str(&read(&killed, "report.json")).unwrap();
    assert_eq!(facts["games"].as_array().unwrap().len(), 24);
    let played: u64 = facts["players"]
        .as_array()
        .unwrap()
        .iter()
        .map(|player| {
            ["wins", "draws", "losses"]
                .iter()
                .map(|kind| player["tally"][kind].as_u64().unwrap())
                .sum::<u64>()
        })
        .sum();
    assert_eq!(played, 48);

    let rated = program().arg("rate").arg(killed.join("games.pgn")).output().unwrap();
    assert_eq!(checked(&rated).lines().count(), 5);
    let other = round_robin(&killed, "1").args(["--margin", "1s"]).output().unwrap();
    assert_eq!(other.status.code(), Some(2), "other settings are another match");
}

#[test]
fn two_settings_are_compared() {
    let folder = tempfile::tempdir().unwrap();
    let output = program()
        .args([
            "match",
            "--compare",
            "internal; Hash=1; name=new",
            "internal; Hash=1; name=old",
            "--nodes",
            "20",
        ])
        .args(["--games", "20", "--max-plies", "4", "--sprt", "-900,-300", "--quiet", "--out"])
        .arg(folder.path())
        .output()
        .unwrap();
    let shown = checked(&output);
    // Games of four plies are drawn: soon the test knows that the first is not 300 weaker.
    assert!(shown.contains("H1 accepted"), "{shown}");
    assert!(shown.contains("new cannot be told from old"), "{shown}");
    assert!(numbers(folder.path()).len() < 20, "the test ends the match");
    let bad = program()
        .args(["match", "--compare", "internal", "stockfish", "--nodes", "1"])
        .output()
        .unwrap();
    assert_eq!(bad.status.code(), Some(2));
    let bad = program()
        .args(["match", "--compare", "internal", "internal", "--nodes", "1", "--sprt", "5,0"])
        .output()
        .unwrap();
    assert_eq!(bad.status.code(), Some(2), "{}", text(&bad.stderr));
}
