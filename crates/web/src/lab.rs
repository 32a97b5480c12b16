//! What the lab is doing: curves of training runs and tables of matches, read from their journals
//! while they are written. Only folders that hold a journal are listed, and only listed names are
//! answered for.

use std::{
    collections::BTreeMap,
    fs,
    io::Read,
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

use arena::{GameRecord, Results, rate};
use serde_json::{Value, json};

/// The journal of a training run and that of a match.
const RUN_JOURNAL: &str = "metrics.jsonl";
const MATCH_JOURNAL: &str = "games.jsonl";

/// Folders that are listed, and bytes of a file that are read.
const MOST_FOLDERS: usize = 300;
const LARGEST_FILE: u64 = 64 << 20;

/// Points of a training curve that are shown.
const POINTS: usize = 400;

/// Lines of a match's settings that are not players: format, openings and rules.
const SETTINGS_BEFORE_PLAYERS: usize = 3;

/// The folders that are shown, if any.
#[derive(Clone, Debug, Default)]
pub struct Lab {
    pub runs: Option<PathBuf>,
    pub matches: Option<PathBuf>,
}

impl Lab {
    /// Are training runs shown?
    #[must_use]
    pub fn has_runs(&self) -> bool {
        self.runs.is_some()
    }

    /// Are matches shown?
    #[must_use]
    pub fn has_matches(&self) -> bool {
        self.matches.is_some()
    }

    /// Training runs, the latest first.
    #[must_use]
    pub fn list_runs(&self) -> Value {
        list(self.runs.as_deref(), RUN_JOURNAL)
    }

    /// Matches, the latest first.
    #[must_use]
    pub fn list_matches(&self) -> Value {
        list(self.matches.as_deref(), MATCH_JOURNAL)
    }

    /// Curves and state of a listed run.
    #[must_use]
    pub fn run(&self, name: &str) -> Option<Value> {
        let folder = find(self.runs.as_deref()?, RUN_JOURNAL, name)?;
        Some(run_value(name, &read(&folder.join(RUN_JOURNAL))?))
    }

    /// Table of a listed match.
    #[must_use]
    pub fn a_match(&self, name: &str) -> Option<Value> {
        let folder = find(self.matches.as_deref()?, MATCH_JOURNAL, name)?;
        let head = read(&folder.join("match.json")).unwrap_or_default();
        Some(match_value(name, &head, &read(&folder.join(MATCH_JOURNAL))?))
    }

    /// The report of a listed run or match.
    #[must_use]
    pub fn report(&self, of_match: bool, name: &str) -> Option<String> {
        let (root, journal) =
            if of_match { (&self.matches, MATCH_JOURNAL) } else { (&self.runs, RUN_JOURNAL) };
        read(&find(root.as_deref()?, journal, name)?.join("report.html"))
    }
}

/// Folders with a journal in a folder, or in folders of that, by their names. Links are not
/// followed.
fn folders(root: &Path, journal: &str) -> BTreeMap<String, PathBuf> {
    let mut found = BTreeMap::new();
    let mut look = |folder: &Path, prefix: &str| {
        let mut inside = Vec::new();
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(name) = entry.file_name().into_string() else { continue };
            if found.len() < MOST_FOLDERS && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                let name = format!("{prefix}{name}");
                if is_file(&entry.path().join(journal)) {
                    found.insert(name.clone(), entry.path());
                }
                inside.push((entry.path(), name));
            }
        }
        inside
    };
    for (path, name) in look(root, "") {
        look(&path, &format!("{name}/"));
    }
    found
}

/// A file itself, not a link to one.
fn is_file(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|facts| facts.is_file())
}

fn find(root: &Path, journal: &str, name: &str) -> Option<PathBuf> {
    folders(root, journal).remove(name)
}

fn read(path: &Path) -> Option<String> {
    if !is_file(path) {
        return None;
    }
    let mut bytes = Vec::new();
    fs::File::open(path).ok()?.take(LARGEST_FILE).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn list(root: Option<&Path>, journal: &str) -> Value {
    let Some(root) = root else { return json!([]) };
    let mut all: Vec<(u64, Value)> = folders(root, journal)
        .into_iter()
        .filter_map(|(name, folder)| {
            let facts = fs::metadata(folder.join(journal)).ok()?;
            let changed =
                facts.modified().ok()?.duration_since(UNIX_EPOCH).ok()?.as_millis() as u64;
            let report = is_file(&folder.join("report.html"));
            Some((
                changed,
                json!({ "name": name, "changed": changed, "bytes": facts.len(), "report": report }),
            ))
        })
        .collect();
    all.sort_by_key(|(changed, _)| std::cmp::Reverse(*changed));
    all.into_iter().map(|(_, value)| value).collect()
}

/// Journals of all versions have these fields; what a line lacks is null.
fn run_value(name: &str, journal: &str) -> Value {
    let mut start = Value::Null;
    let mut end = Value::Null;
    let mut training: Vec<[f64; 4]> = Vec::new();
    let mut validation = Vec::new();
    let mut step = 0;
    // The last line may be half written.
    for line in journal.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        let number = |name: &str| line[name].as_f64().unwrap_or(f64::NAN);
        step = line["step"].as_u64().unwrap_or(step);
        match line["kind"].as_str() {
            Some("start") => (start, end) = (line, Value::Null),
            Some("train") => {
                training.push(["samples", "loss", "tau", "positions_per_second"].map(number));
            }
            Some("validation") => {
                for measures in line["sources"].as_array().into_iter().flatten() {
                    validation.push(json!({
                        "samples": line["samples"],
                        "averaged": line["averaged"],
                        "source": measures["source"],
                        "head": measures["head"],
                        "loss": measures["loss"],
                        "tau_b": measures["ranking"]["tau_b"],
                        "top_1": measures["agreement"]["top_1"],
                    }));
                }
            }
            Some("end") => end = line,
            _ => {}
        }
    }
    let latest = training.last().copied();
    let stride = training.len().div_ceil(POINTS).max(1);
    let means: Vec<[f64; 4]> = training
        .chunks(stride)
        .map(|chunk| {
            let mut mean = [0, 1, 2, 3].map(|column| {
                chunk.iter().map(|point| point[column]).sum::<f64>() / chunk.len() as f64
            });
            mean[0] = chunk[chunk.len() - 1][0];
            mean
        })
        .collect();
    json!({ "name": name, "start": start, "end": end, "step": step, "latest": latest, "training": means,
        "validation": validation })
}

fn match_value(name: &str, head: &str, journal: &str) -> Value {
    let mut results = Results::default();
    for line in journal.lines() {
        if let Ok(game) = serde_json::from_str::<GameRecord>(line) {
            results.add(game);
        }
    }
    let head: Value = serde_json::from_str(head).unwrap_or_default();
    let settings = head["settings"].as_array().map_or(&[][..], Vec::as_slice);
    let mut names: Vec<String> = settings
        .iter()
        .skip(SETTINGS_BEFORE_PLAYERS)
        .filter_map(Value::as_str)
        .map(|line| line.split(": ").next().unwrap_or_default().to_owned())
        .collect();
    // A damaged journal may name anybody; nobody plays in a match of thousands.
    const MOST_PLAYERS: usize = 256;
    let highest = results.games().map(|game| game.white.max(game.black)).max().unwrap_or(0);
    if highest >= MOST_PLAYERS {
        return json!({ "name": name, "error": "the journal cannot be read" });
    }
    while names.len() <= highest {
        names.push(format!("player {}", names.len() + 1));
    }
    let pairings = results.pairing_results(names.len());
    let ratings = rate(names.len(), &pairings, 0, 0.0);
    let players: Vec<Value> = names
        .iter()
        .zip(&ratings)
        .enumerate()
        .map(|(player, (name, rating))| {
            let tally = results.of(player).tally;
            let rating = rating.as_ref().filter(|rating| rating.error.is_finite()).map(|rating| {
                let (low, high) = rating.interval();
                [rating.elo, low, high]
            });
            json!({ "name": name, "games": tally.games(), "wins": tally.wins, "draws": tally.draws,
                "losses": tally.losses, "rating": rating, "faults": results.faults(player) })
        })
        .collect();
    let duels: Vec<Value> = pairings
        .iter()
        .map(|games| {
            let head_to_head = results.head_to_head(games.first, games.second);
            json!({ "first": games.first, "second": games.second, "tally": head_to_head.tally, "pairs": head_to_head.pairs,
                "estimate": head_to_head.estimate() })
        })
        .collect();
    let latest: Vec<Value> = results
        .games()
        .rev()
        .take(20)
        .map(|game| {
            json!({ "number": game.number + 1, "white": game.white, "black": game.black,
            "result": game.result(), "ending": game.ending, "plies": game.plies })
        })
        .collect();
    json!({ "name": name, "games": results.len(), "players": players, "duels": duels, "latest": latest })
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
        let lab = Lab { runs: Some(root.path().to_owned()), matches: None };
        assert!(lab.run("one").is_some() && lab.run("group/part").is_some());
        for name in ["", ".", "..", "link", "without", "one/../one", "/etc", "one/metrics.jsonl"] {
            assert!(lab.run(name).is_none(), "{name}");
        }
        assert_eq!(lab.report(false, "one"), None, "a link leads outside");
        assert_eq!(lab.list_matches(), json!([]));
    }

    #[test]
    fn a_journal_becomes_curves_while_its_last_line_is_being_written() {
        let mut journal = String::from("{\"kind\":\"start\",\"step\":0,\"steps\":5000}\n");
        for step in 1..=1000 {
            journal += &format!(
                "{{\"kind\":\"train\",\"step\":{step},\"samples\":{},\"loss\":{},\"tau\":null,\"positions_per_second\":5}}\n",
                step * 10,
                1000 - step
            );
        }
        journal += "{\"kind\":\"train\",\"step\":1001,\"sam";
        let run = run_value("run", &journal);
        assert_eq!((&run["step"], &run["start"]["steps"]), (&json!(1000), &json!(5000)));
        let curve = run["training"].as_array().unwrap();
        assert_eq!(curve.len(), 334);
        assert_eq!((&curve[0][0], &curve[0][1]), (&json!(30.0), &json!(998.0)));
        assert!(curve[0][2].is_null() && run["end"].is_null());
        assert_eq!(run["latest"][0], json!(10_000.0));
    }

    #[test]
    fn a_match_is_counted_from_its_journal() {
        let game = |number: usize, white: usize, half_points: u8| {
            json!({ "number": number, "white": white, "black": 1 - white, "opening": 0, "white_half_points": half_points,
                "ending": "checkmate", "fault": null, "plies": 40, "seconds": 1.0, "pgn": "" })
            .to_string()
        };
        let journal = [game(0, 0, 2), game(1, 1, 1), "{\"number\"".to_owned()].join("\n");
        let head = json!({ "settings": ["Gauntlet", "2 openings", "Rules", "One: internal", "Two: internal"] });
        let table = match_value("m", &head.to_string(), &journal);
        assert_eq!(table["games"], json!(2));
        assert_eq!(table["players"][0]["name"], json!("One"));
        assert_eq!(
            (&table["players"][0]["wins"], &table["players"][1]["draws"]),
            (&json!(1), &json!(1))
        );
        assert_eq!(table["latest"][0]["number"], json!(2));
        let damaged =
            match_value("m", "", &game(0, 0, 2).replace("\"black\":1", "\"black\":99999999"));
        assert!(damaged["error"].is_string());
    }
}
