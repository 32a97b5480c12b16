//! A training run for the page: its state and learning curves.

use serde_json::{Value, json};

/// The most points of a learning curve.
const MAX_POINTS: usize = 400;

/// A line of the training journal: samples, loss, tau, positions a second.
type TrainingPoint = [f64; 4];

/// State and learning curves of a journal, as JSON. All versions of the journal have the fields
/// that are read; a missing field becomes null.
pub fn to_json(name: &str, journal: &str) -> Value {
    let mut start = Value::Null;
    let mut end = Value::Null;
    let mut training: Vec<TrainingPoint> = Vec::new();
    let mut validation = Vec::new();
    let mut step = 0;
    // The last line may be incomplete; it is skipped.
    for line in journal.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        let number = |name: &str| line[name].as_f64().unwrap_or(f64::NAN);
        step = line["step"].as_u64().unwrap_or(step);
        match line["kind"].as_str() {
            Some("start") => (start, end) = (line, Value::Null),
            Some("train") => {
                training.push(["samples", "loss", "tau", "positions_per_second"].map(number));
            }
            Some("validation") => validation.extend(validation_points(&line)),
            Some("end") => end = line,
            _ => {}
        }
    }
    let latest = training.last().copied();
    json!({ "name": name, "start": start, "end": end, "step": step, "latest": latest,
        "training": averages(&training), "validation": validation })
}

/// The measures of each validation source in a journal line.
fn validation_points(line: &Value) -> impl Iterator<Item = Value> {
    line["sources"].as_array().into_iter().flatten().map(|measures| {
        json!({
            "samples": line["samples"],
            "averaged": line["averaged"],
            "source": measures["source"],
            "head": measures["head"],
            "loss": measures["loss"],
            "tau_b": measures["ranking"]["tau_b"],
            "top_1": measures["agreement"]["top_1"],
        })
    })
}

/// Averages over groups of points, at most [`MAX_POINTS`] of them; the samples are those of the
/// group's last point.
fn averages(training: &[TrainingPoint]) -> Vec<TrainingPoint> {
    let group_size = training.len().div_ceil(MAX_POINTS).max(1);
    training
        .chunks(group_size)
        .map(|group| {
            let mut mean = [0, 1, 2, 3].map(|column| {
                group.iter().map(|point| point[column]).sum::<f64>() / group.len() as f64
            });
            mean[0] = group[group.len() - 1][0];
            mean
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_incomplete_last_line_of_a_journal_is_skipped() {
        let mut journal = String::from("{\"kind\":\"start\",\"step\":0,\"steps\":5000}\n");
        for step in 1..=1000 {
            journal += &format!(
                "{{\"kind\":\"train\",\"step\":{step},\"samples\":{},\"loss\":{},\"tau\":null,\
                 \"positions_per_second\":5}}\n",
                step * 10,
                1000 - step
            );
        }
        journal += "{\"kind\":\"train\",\"step\":1001,\"sam";
        let run = to_json("run", &journal);
        assert_eq!((&run["step"], &run["start"]["steps"]), (&json!(1000), &json!(5000)));
        let curve = run["training"].as_array().unwrap();
        assert_eq!(curve.len(), 334);
        assert_eq!((&curve[0][0], &curve[0][1]), (&json!(30.0), &json!(998.0)));
        assert!(curve[0][2].is_null() && run["end"].is_null());
        assert_eq!(run["latest"][0], json!(10_000.0));
    }
}
