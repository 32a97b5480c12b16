//! Training runs and matches over HTTP, while their journals grow.

use std::{fs, io::Write};

use serde_json::{Value, json};
use web::Lab;

use crate::visitor::{House, Wishes, serve};

async fn ask(house: &House, path: &str) -> Value {
    serde_json::from_str(&house.get(path).await.body).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_seen_growing() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("my run");
    fs::create_dir_all(&run).unwrap();
    let mut journal = fs::File::create(run.join("metrics.jsonl")).unwrap();
    writeln!(journal, "{}", json!({ "kind": "start", "step": 0, "steps": 10 })).unwrap();
    let lab = Lab { runs: Some(folder.path().to_owned()), matches: None };
    let house = serve(Wishes { lab, ..Wishes::default() }).await;
    let list = ask(&house, "/api/runs").await;
    assert_eq!((list.as_array().unwrap().len(), &list[0]["name"]), (1, &json!("my run")));
    assert_eq!(ask(&house, "/api/run?name=my%20run").await["training"], json!([]));
    for step in 1..=3 {
        let line = json!({ "kind": "train", "step": step, "samples": 100 * step, "loss": 1.5, "tau": 0.5, "positions_per_second": 9.0 });
        writeln!(journal, "{line}").unwrap();
    }
    let run = ask(&house, "/api/run?name=my%20run").await;
    assert_eq!((run["training"].as_array().unwrap().len(), &run["step"]), (3, &json!(3)));
    assert_ne!(ask(&house, "/api/runs").await[0]["bytes"], list[0]["bytes"]);
    assert_eq!(ask(&house, "/api/matches").await, json!([]));
}
