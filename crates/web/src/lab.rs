//! Training runs and matches, read from their journals while these are being written.
//!
//! Only folders that hold a journal are listed, and only listed names can be read.

mod match_summary;
mod run_summary;

use std::{
    cmp::Reverse,
    collections::BTreeMap,
    fs,
    io::Read,
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

use serde_json::{Value, json};

/// File name of a training run's journal.
const RUN_JOURNAL: &str = "metrics.jsonl";
/// File name of a match's journal.
const MATCH_JOURNAL: &str = "games.jsonl";

/// The most folders in a list.
const MAX_FOLDERS: usize = 300;
/// The most bytes of a file that are read.
const MAX_FILE: u64 = 64 << 20;

/// The folders with training runs and matches; `None` shows none.
#[derive(Clone, Debug, Default)]
pub struct LabFolders {
    pub runs: Option<PathBuf>,
    pub matches: Option<PathBuf>,
}

impl LabFolders {
    /// Whether training runs are shown.
    #[must_use]
    pub fn has_runs(&self) -> bool {
        self.runs.is_some()
    }

    /// Whether matches are shown.
    #[must_use]
    pub fn has_matches(&self) -> bool {
        self.matches.is_some()
    }

    /// Training runs as JSON, the latest first.
    #[must_use]
    pub fn list_runs(&self) -> Value {
        list(self.runs.as_deref(), RUN_JOURNAL)
    }

    /// Matches as JSON, the latest first.
    #[must_use]
    pub fn list_matches(&self) -> Value {
        list(self.matches.as_deref(), MATCH_JOURNAL)
    }

    /// Learning curves and state of a listed run, as JSON.
    #[must_use]
    pub fn run(&self, name: &str) -> Option<Value> {
        let folder = find(self.runs.as_deref()?, RUN_JOURNAL, name)?;
        Some(run_summary::to_json(name, &read(&folder.join(RUN_JOURNAL))?))
    }

    /// Standings, pairings and latest games of a listed match, as JSON.
    #[must_use]
    pub fn match_summary(&self, name: &str) -> Option<Value> {
        let folder = find(self.matches.as_deref()?, MATCH_JOURNAL, name)?;
        let head = read(&folder.join("match.json")).unwrap_or_default();
        Some(match_summary::to_json(name, &head, &read(&folder.join(MATCH_JOURNAL))?))
    }

    /// The report of a listed run, as HTML.
    #[must_use]
    pub fn run_report(&self, name: &str) -> Option<String> {
        report(self.runs.as_deref()?, RUN_JOURNAL, name)
    }

    /// The report of a listed match, as HTML.
    #[must_use]
    pub fn match_report(&self, name: &str) -> Option<String> {
        report(self.matches.as_deref()?, MATCH_JOURNAL, name)
    }
}

/// Folders that hold a journal, by their names: those in `root` and in its folders. Links are not
/// followed.
fn folders(root: &Path, journal: &str) -> BTreeMap<String, PathBuf> {
    let mut found = BTreeMap::new();
    let mut add_folders = |parent: &Path, prefix: &str| {
        let mut children = Vec::new();
        for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
            let Ok(name) = entry.file_name().into_string() else { continue };
            if found.len() < MAX_FOLDERS && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                let name = format!("{prefix}{name}");
                if is_file(&entry.path().join(journal)) {
                    found.insert(name.clone(), entry.path());
                }
                children.push((entry.path(), name));
            }
        }
        children
    };
    for (path, name) in add_folders(root, "") {
        add_folders(&path, &format!("{name}/"));
    }
    found
}

/// Whether `path` is a file and not a link to one.
fn is_file(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file())
}

fn find(root: &Path, journal: &str, name: &str) -> Option<PathBuf> {
    folders(root, journal).remove(name)
}

fn report(root: &Path, journal: &str, name: &str) -> Option<String> {
    read(&find(root, journal, name)?.join("report.html"))
}

fn read(path: &Path) -> Option<String> {
    if !is_file(path) {
        return None;
    }
    let mut bytes = Vec::new();
    fs::File::open(path).ok()?.take(MAX_FILE).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn list(root: Option<&Path>, journal: &str) -> Value {
    let Some(root) = root else { return json!([]) };
    let mut entries: Vec<(u64, Value)> = folders(root, journal)
        .into_iter()
        .filter_map(|(name, folder)| {
            let metadata = fs::metadata(folder.join(journal)).ok()?;
            let modified = metadata.modified().ok()?;
            let changed = modified.duration_since(UNIX_EPOCH).ok()?.as_millis() as u64;
            let report = is_file(&folder.join("report.html"));
            let bytes = metadata.len();
            let entry =
                json!({ "name": name, "changed": changed, "bytes": bytes, "report": report });
            Some((changed, entry))
        })
        .collect();
    entries.sort_by_key(|(changed, _)| Reverse(*changed));
    entries.into_iter().map(|(_, entry)| entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_folders_with_a_journal_are_found_and_links_are_not_followed() {
        let root = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join(RUN_JOURNAL), "{}\n").unwrap();
        fs::write(outside.path().join("secret"), "secret").unwrap();
        for run in ["one", "group/part", "without"] {
            fs::create_dir_all(root.path().join(run)).unwrap();
        }
        for run in ["one", "group/part"] {
            fs::write(root.path().join(run).join(RUN_JOURNAL), "{}\n").unwrap();
        }
        std::os::unix::fs::symlink(outside.path(), root.path().join("link")).unwrap();
        std::os::unix::fs::symlink(
            outside.path().join("secret"),
            root.path().join("one/report.html"),
        )
        .unwrap();
        let names: Vec<String> = folders(root.path(), RUN_JOURNAL).into_keys().collect();
        assert_eq!(names, ["group/part", "one"]);
        let lab = LabFolders { runs: Some(root.path().to_owned()), matches: None };
        assert!(lab.run("one").is_some() && lab.run("group/part").is_some());
        for name in ["", ".", "..", "link", "without", "one/../one", "/etc", "one/metrics.jsonl"] {
            assert!(lab.run(name).is_none(), "{name}");
        }
        assert_eq!(lab.run_report("one"), None, "a link leads outside");
        assert_eq!(lab.list_matches(), json!([]));
    }
}
