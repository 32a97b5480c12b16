//! The program as its users meet it: exit codes, messages and output.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod analysis;
mod errors;
mod matches_and_labels;

use std::{path::Path, process::Output};

use assert_cmd::Command;

fn program(arguments: &[&str]) -> Command {
    let mut command = Command::cargo_bin("batch-first").unwrap();
    command.args(arguments).env_remove("RUST_LOG").env("LC_ALL", "C.UTF-8");
    command.timeout(std::time::Duration::from_secs(60));
    command
}

fn run(arguments: &[&str]) -> Output {
    program(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The text without the line that differs from run to run.
fn stable(text: &str) -> String {
    text.lines()
        .map(|line| {
            if line.starts_with("network ") { "(the network)".to_owned() } else { line.to_owned() }
        })
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn the_doctor_finds_nothing_wrong() {
    for (path, network) in [
        ("auto", "large"),
        ("avx2", "large"),
        ("avx2", "fast"),
        ("neon", "large"),
        ("portable", "fast"),
    ] {
        let mut doctor = program(&["doctor", "--threads", "1", "--net", network]);
        if path != "auto" {
            doctor.env("BATCH_FIRST_CPU", path);
        }
        let output = doctor.output().unwrap();
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        if out.contains(&format!("{path:<8} f32   no:")) {
            continue; // Not on this processor.
        }
        assert!(
            output.status.success() && out.contains(": right"),
            "{path}, {network}: {out}{err}"
        );
    }
}

/// A user needs the report on the machine most if no path fits.
#[test]
fn the_doctor_speaks_before_it_fails() {
    let output = program(&["doctor"]).env("BATCH_FIRST_CPU", "abacus").output().unwrap();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(!output.status.success() && err.contains("abacus"), "{err}");
    assert!(out.contains("Code paths") && out.contains("portable f32   runs here"), "{out}");
}

#[test]
fn help_and_version() {
    for arguments in [&["--help"][..], &["--version"], &["analyze", "--help"], &["match", "--help"]]
    {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(0));
        assert!(!output.stdout.is_empty() && output.stderr.is_empty());
    }
}

#[test]
fn without_a_command_it_speaks_uci() {
    let output = program(&[])
        .write_stdin("uci\nisready\nposition startpos\ngo nodes 1\nquit\n")
        .output()
        .unwrap();
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0));
    assert!(said.starts_with("id name Batch First "), "{said}");
    assert!(said.contains("uciok\n") && said.contains("readyok\n"), "{said}");
    assert!(said.lines().last().unwrap().starts_with("bestmove "), "{said}");
}
