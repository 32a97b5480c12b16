//! Training runs and matches over HTTP while their journals grow.

use std::{fs, io::Write};

use serde_json::{Value, json};
use web::LabFolders;

use crate::test_server::{TestOptions, TestServer, serve};

async fn ask(server: &TestServer, path: &str) -> Value {
    serde_json::from_str(&server.get(path).await.body).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn new_lines_of_a_journal_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("my run");
    fs::create_dir_all(&run).unwrap();
    let mut journal = fs::File::create(run.join("metrics.jsonl")).unwrap();
    writeln!(journal, "{}", json!({ "kind": "start", "step": 0, "steps": 10 })).unwrap();
    let lab = LabFolders { runs: Some(folder.path().to_owned()), matches: None };
    let server = serve(TestOptions { lab, ..TestOptions::default() }).await;
    let list = ask(&server, "/api/runs").await;
    assert_eq!((list.as_array().unwrap().len(), &list[0]["name"]), (1, &json!("my run")));
    assert_eq!(ask(&server, "/api/run?name=my%20run").await["training"], json!([]));
    for step in 1..=3 {
        let line = json!({ "kind": "train", "step": step, "samples": 100 * step, "loss": 1.5,
            "tau": 0.5, "positions_per_second": 9.0 });
        writeln!(journal, "{line}").unwrap();
    }
    let run = ask(&server, "/api/run?name=my%20run").await;
    assert_eq!((run["training"].as_array().unwrap().len(), &run["step"]), (3, &json!(3)));
    assert_ne!(ask(&server, "/api/runs").await[0]["bytes"], list[0]["bytes"]);
    assert_eq!(ask(&server, "/api/matches").await, json!([]));
}
