//! Games against the Maias of a folder.

use std::path::Path;

use nets::{Description, Leela, LeelaInput, Network, leela_file};
use serde_json::{Value, json};
use web::load_maias;

use crate::test_server::{TestOptions, TestServer, new_game, serve};

/// Writes a Maia with next to nothing in it, and random weights.
fn write_maia(path: &Path) {
    let input = LeelaInput::Classical;
    let choice = Leela { input, channels: 4, blocks: 1, squeezed: 2, is_older: false };
    let network = Network::random(Description::leela(&choice), 1).unwrap();
    std::fs::write(path, leela_file(&network).unwrap()).unwrap();
}

async fn hello(server: &TestServer) -> Value {
    let cookie = format!("batch-first-visitor={}", server.visitor().await);
    let headers = [("origin", server.origin()), ("cookie", cookie)];
    let headers = headers.each_ref().map(|(name, value)| (*name, value.as_str()));
    server.socket(&headers).await.unwrap().expect("hello").await
}

#[tokio::test(flavor = "multi_thread")]
async fn maias_are_offered_where_the_folder_has_some() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["maia-1900.pb.gz", "Maia-1100.pb", "maia-1100.pb.gz", "maia-blitz.pb.gz"] {
        write_maia(&folder.path().join(name));
    }
    std::fs::write(folder.path().join("maia-1500.txt"), "notes").unwrap();
    let server =
        serve(TestOptions { maia: Some(folder.path().to_owned()), ..TestOptions::default() }).await;
    assert_eq!(hello(&server).await["maia_ratings"], json!([1100, 1900]));

    let server = serve(TestOptions::default()).await;
    assert_eq!(hello(&server).await["maia_ratings"], json!([]));
    let mut page = server.page(&server.visitor().await).await;
    let error = page.error(new_game(json!({ "system": "maia-1900" }))).await;
    assert!(error.starts_with("Maia 1900 is not available here. "), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_game_against_a_maia_waits_for_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let games = folder.path().join("games.sqlite");
    write_maia(&folder.path().join("maia-1500.pb.gz"));
    let with_maia =
        || TestOptions { maia: Some(folder.path().to_owned()), ..TestOptions::with_games(&games) };
    let server = serve(with_maia()).await;
    let visitor = server.visitor().await;
    let mut page = server.page(&visitor).await;
    let request = json!({ "system": "maia-1500", "clock": [60_000, 0] });
    let state = page.start_game(request).await;
    page.send(json!({ "type": "move", "game": state["id"], "ply": 0, "uci": "e2e4" })).await;
    let state = page.until("game", |state| state["moves"][1].is_object()).await;
    assert_eq!((&state["system"], &state["notice"]), (&json!("maia-1500"), &json!(null)));
    page.send(json!({ "type": "games" })).await;
    assert_eq!(page.expect("games").await["games"][0]["system"], "maia-1500");
    let cookie = format!("batch-first-visitor={visitor}");
    let pgn = server.request("GET /games/all.pgn", &[("Cookie", &cookie)]).await;
    assert!(pgn.body.contains("[Black \"Maia 1500\"]"), "{}", pgn.body);
    drop(server);

    // Without the file the game is shown and its clock stands still.
    let server = serve(TestOptions::with_games(&games)).await;
    let mut page = server.page(&visitor).await;
    page.send(json!({ "type": "open", "game": state["id"] })).await;
    let waiting = page.expect("game").await;
    let missing = "Maia 1500 is not available here. Start the server with the file \
                   maia-1500.pb.gz in the folder of its option --maia.";
    assert_eq!((&waiting["moves"], &waiting["notice"]), (&state["moves"], &json!(missing)));
    assert_eq!(waiting["clock"]["running"], json!(null));
    let command = json!({ "type": "move", "game": state["id"], "ply": 2, "uci": "d2d4" });
    assert_eq!(page.error(command.clone()).await, missing);
    drop(server);

    let server = serve(with_maia()).await;
    let mut page = server.page(&visitor).await;
    page.send(json!({ "type": "open", "game": state["id"] })).await;
    assert_eq!(page.expect("game").await["notice"], json!(null));
    page.send(command).await;
    page.until("game", |state| state["moves"][3].is_object()).await;
}

#[test]
fn an_unusable_folder_or_file_is_named_with_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    let error = load_maias(&folder.path().join("missing")).unwrap_err().to_string();
    assert!(error.contains("missing`") && error.ends_with("(choose another with --maia)"));
    assert!(load_maias(folder.path()).unwrap().is_empty());
    write_maia(&folder.path().join("maia-1100.pb.gz"));
    std::fs::write(folder.path().join("maia-1500.pb.gz"), "not a network").unwrap();
    let error = load_maias(folder.path()).unwrap_err().to_string();
    assert!(error.contains("maia-1500.pb.gz`") && error.contains("; replace this file"), "{error}");
}
