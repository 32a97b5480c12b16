//! Tells the crate the git revision that it is built from.

use std::{path::Path, process::Command};

fn main() {
    // Changes of these crates build this one anyway.
    for crate_name in ["board", "nets", "eval", "data", "train"] {
        println!("cargo:rerun-if-changed=../{crate_name}/src");
    }
    let commits = "../../.git/logs/HEAD";
    if Path::new(commits).exists() {
        println!("cargo:rerun-if-changed={commits}");
    }
    println!("cargo:rustc-env=BATCH_FIRST_REVISION={}", revision());
}

fn revision() -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Some(revision) = git(&["rev-parse", "--short=12", "HEAD"]) else {
        return "unknown".to_owned();
    };
    match git(&["status", "--porcelain", "--untracked-files=no", "--", ".."]) {
        Some(changes) if changes.is_empty() => revision,
        _ => format!("{revision}-dirty"),
    }
}
