//! Games over the socket: the rules are the server's, and no move that was answered is lost.

use serde_json::{Value, json};

use crate::visitor::{Page, Wishes, proposal, serve};

/// The visitor's move, and the state once the engine has answered.
async fn play(page: &mut Page, game: &Value, uci: &str) -> Value {
    let ply = game["moves"].as_array().unwrap().len();
    page.say(json!({ "type": "move", "game": game["id"], "ply": ply, "uci": uci })).await;
    page.until("game", |state| {
        state["moves"].as_array().unwrap().len() == ply + 2 || !state["result"].is_null()
    })
    .await
}

fn ucis(state: &Value) -> Vec<&str> {
    state["moves"].as_array().unwrap().iter().map(|mv| mv["uci"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_game_is_played_and_kept_through_a_reload_and_a_crash() {
    let folder = tempfile::tempdir().unwrap();
    let wishes = || Wishes { games: Some(folder.path().join("games.sqlite")), ..Wishes::default() };
    let house = serve(wishes()).await;
    let visitor = house.visitor().await;
    let mut page = house.page(&visitor).await;
    let state = page.begin(json!({})).await;
    assert_eq!(state["side"], "white");
    assert_eq!(state["destinations"]["e2"], json!(["e3", "e4"]));
    let state = play(&mut page, &state, "e2e4").await;
    let state = play(&mut page, &state, "Nf3").await;
    let moves: Vec<String> = ucis(&state).into_iter().map(str::to_owned).collect();
    assert_eq!((moves.len(), moves[0].as_str(), moves[2].as_str()), (4, "e2e4", "g1f3"));
    assert_eq!(state["fens"].as_array().unwrap().len(), 5);

    // A reload: another socket, and the first one gone.
    drop(page);
    let mut page = house.page(&visitor).await;
    page.say(json!({ "type": "open", "game": state["id"] })).await;
    let reloaded = page.expect("game").await;
    assert_eq!(reloaded["fens"], state["fens"]);

    // Its move is stored when its answer is seen, even if the engine is never heard.
    page.say(json!({ "type": "move", "game": state["id"], "ply": 4, "uci": "f1e2" })).await;
    page.until("game", |state| ucis(state).len() >= 5).await;
    drop(house);
    let house = serve(wishes()).await;
    let mut page = house.page(&visitor).await;
    page.say(json!({ "type": "games" })).await;
    let list = page.expect("games").await;
    assert_eq!(
        (list["games"].as_array().unwrap().len(), &list["games"][0]["id"]),
        (1, &state["id"])
    );
    page.say(json!({ "type": "open", "game": state["id"] })).await;
    let after = page.until("game", |state| ucis(state).len() == 6).await;
    let after = ucis(&after);
    assert_eq!(after[..4], moves.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(after[4], "f1e2");
}

#[tokio::test(flavor = "multi_thread")]
async fn moves_are_judged_here_and_taken_back() {
    let house = serve(Wishes::default()).await;
    let mut page = house.page(&house.visitor().await).await;
    let state = page.begin(json!({})).await;
    let id = &state["id"];
    for uci in ["e2e5", "e7e5", "0000", "", "e2e4e5", "🦀"] {
        page.refusal(json!({ "type": "move", "game": id, "ply": 0, "uci": uci })).await;
    }
    let refused =
        page.refusal(json!({ "type": "move", "game": id, "ply": 1, "uci": "e2e4" })).await;
    assert!(refused.contains("not your turn"), "{refused}");
    page.refusal(json!({ "type": "take_back", "game": id })).await;
    let state = play(&mut page, &state, "d2d4").await;
    let id = &state["id"];
    page.say(json!({ "type": "take_back", "game": id })).await;
    let state = page.until("game", |state| ucis(state).is_empty()).await;
    let state = play(&mut page, &state, "c2c4").await;
    assert_eq!(ucis(&state)[0], "c2c4");
    page.say(json!({ "type": "resign", "game": id })).await;
    let state = page.until("game", |state| !state["result"].is_null()).await;
    assert_eq!(state["result"], json!(["0-1", "White resigned"]));
    assert_eq!(state["destinations"], json!({}));
    page.refusal(json!({ "type": "move", "game": id, "ply": 2, "uci": "b1c3" })).await;
    // The end may be taken back, too.
    page.say(json!({ "type": "take_back", "game": id })).await;
    page.until("game", |state| state["result"].is_null() && ucis(state).is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn games_begin_anywhere_and_are_written_as_pgn() {
    let house = serve(Wishes::default()).await;
    let visitor = house.visitor().await;
    let mut page = house.page(&visitor).await;

    // Mate in one, from a FEN; a promotion on the way to it.
    let state = page.begin(json!({ "fen": "7k/P7/6K1/8/8/8/8/8 w - - 0 1" })).await;
    assert_eq!(state["destinations"]["a7"], json!(["a8"]));
    let state = play(&mut page, &state, "a7a8q").await;
    assert_eq!(state["result"], json!(["1-0", "checkmate"]));
    let cookie = format!("batch-first-visitor={visitor}");
    let pgn =
        house.request(&format!("GET /games/{}.pgn", state["id"]), &[("Cookie", &cookie)]).await;
    assert_eq!(pgn.status, 200);
    assert!(pgn.body.contains("[FEN \"7k/P7/6K1/8/8/8/8/8 w - - 0 1\"]"), "{}", pgn.body);
    assert!(pgn.body.contains("1. a8=Q# { checkmate } 1-0"), "{}", pgn.body);

    // From a PGN, as the other side.
    let state = page.begin(json!({ "pgn": "1. e4 e5 2. Nf3 *", "side": "black" })).await;
    assert_eq!(ucis(&state), ["e2e4", "e7e5", "g1f3"]);
    assert_eq!(state["turn"], "black");

    // Chess960: castling is the king on its rook.
    let state = page.begin(json!({ "chess960": true, "array": 518 })).await;
    assert!(state["chess960"].as_bool().unwrap());
    let castling = "r3k2r/pppppppp/8/8/8/8/PPPPPPPP/R3K2R w KQkq - 0 1";
    let state = page.begin(json!({ "chess960": true, "fen": castling })).await;
    let targets = state["destinations"]["e1"].as_array().unwrap().clone();
    assert!(targets.contains(&json!("h1")) && !targets.contains(&json!("g1")), "{targets:?}");
    let state = play(&mut page, &state, "e1h1").await;
    assert_eq!(state["moves"][0], json!({ "uci": "e1h1", "san": "O-O" }));
    let state = page.begin(json!({ "fen": castling })).await;
    let state = play(&mut page, &state, "e1g1").await;
    assert_eq!(state["moves"][0], json!({ "uci": "e1g1", "san": "O-O" }));

    let all = house.request("GET /games/all.pgn", &[("Cookie", &cookie)]).await;
    assert_eq!(all.body.matches("[Event ").count(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn clocks_run_on_the_server_and_stand_still_while_nobody_looks() {
    let house = serve(Wishes::default()).await;
    let visitor = house.visitor().await;
    let mut page = house.page(&visitor).await;
    let state = page.begin(json!({ "clock": [60_000, 5_000], "level": { "kind": "clock" } })).await;
    assert_eq!(state["clock"]["running"], "white");
    let state = play(&mut page, &state, "e2e4").await;
    let left = |state: &Value, side: &str| state["clock"][side].as_u64().unwrap();
    assert!(left(&state, "white") > 60_000 - 30_000 && left(&state, "white") <= 65_000, "{state}");
    assert!(left(&state, "black") <= 65_000);

    // One second only: time runs out by itself.
    let state = page.begin(json!({ "clock": [1_000, 0] })).await;
    let end =
        page.until("game", |other| other["id"] == state["id"] && !other["result"].is_null()).await;
    assert_eq!(end["result"], json!(["0-1", "White ran out of time"]));
    assert_eq!(left(&end, "white"), 0, "{end}");
    // Nor does the clock of a game that is given up jump back, now or when it is looked at again.
    let state = page.begin(json!({ "clock": [60_000, 0] })).await;
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    page.say(json!({ "type": "resign", "game": state["id"] })).await;
    let end =
        page.until("game", |other| other["id"] == state["id"] && !other["result"].is_null()).await;
    assert!(left(&end, "white") <= 59_700, "{end}");
    page.say(json!({ "type": "close" })).await;
    page.say(json!({ "type": "open", "game": state["id"] })).await;
    let again = page.until("game", |other| other["id"] == state["id"]).await;
    assert_eq!(left(&again, "white"), left(&end, "white"));

    // Nobody looks for longer than the clock has: it stood still.
    let state = page.begin(json!({ "clock": [2_000, 0] })).await;
    drop(page);
    let mut page = house.page(&visitor).await;
    tokio::time::sleep(std::time::Duration::from_millis(2_500)).await;
    page.say(json!({ "type": "open", "game": state["id"] })).await;
    let again = page.expect("game").await;
    assert!(again["result"].is_null() && left(&again, "white") > 0, "{again}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_ends_keeps_the_clocks_as_they_stand() {
    let folder = tempfile::tempdir().unwrap();
    let wishes = || Wishes { games: Some(folder.path().join("games.sqlite")), ..Wishes::default() };
    let house = serve(wishes()).await;
    let visitor = house.visitor().await;
    let mut page = house.page(&visitor).await;
    let state = page.begin(json!({ "clock": [60_000, 0] })).await;
    // Nobody looks at it any more when the server ends.
    let other = page.begin(json!({ "clock": [60_000, 0] })).await;
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    page.say(json!({ "type": "open", "game": state["id"] })).await;
    page.until("game", |shown| shown["id"] == state["id"]).await;
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    house.end().await;
    let house = serve(wishes()).await;
    let mut page = house.page(&visitor).await;
    for id in [&state["id"], &other["id"]] {
        page.say(json!({ "type": "open", "game": id })).await;
        let shown = page.until("game", |shown| shown["id"] == *id).await;
        assert!(shown["clock"]["white"].as_u64() <= Some(59_700), "{shown}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn visitors_have_games_of_their_own() {
    let house = serve(Wishes::default()).await;
    let (one, other) = (house.visitor().await, house.visitor().await);
    assert_ne!(one, other);
    let mut page = house.page(&one).await;
    let state = page.begin(json!({})).await;
    let id = &state["id"];
    let mut stranger = house.page(&other).await;
    for wish in ["open", "delete"] {
        let refused = stranger.refusal(json!({ "type": wish, "game": id })).await;
        assert!(refused.contains("no game"), "{refused}");
    }
    for wish in ["resign", "take_back"] {
        stranger.refusal(json!({ "type": wish, "game": id })).await;
    }
    stranger.refusal(json!({ "type": "move", "game": id, "ply": 0, "uci": "e2e4" })).await;
    stranger.say(json!({ "type": "games" })).await;
    assert_eq!(stranger.expect("games").await["games"], json!([]));
    for cookie in [format!("batch-first-visitor={other}"), "batch-first-visitor=x".to_owned()] {
        let pgn = house.request(&format!("GET /games/{id}.pgn"), &[("Cookie", &cookie)]).await;
        assert_eq!(pgn.status, 404);
    }
    // It goes on as if nothing had happened, until its own visitor deletes it.
    let state = play(&mut page, &state, "e2e4").await;
    assert!(state["result"].is_null());
    page.say(json!({ "type": "delete", "game": id })).await;
    assert_eq!(page.expect("games").await["games"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn proposals_that_cannot_be_met_are_refused_in_words() {
    let house = serve(Wishes::default()).await;
    let mut page = house.page(&house.visitor().await).await;
    let long_fen = " ".repeat(200) + "8";
    let long_pgn = format!("{{{}}} *", "x".repeat(49_500));
    for (changes, word) in [
        (json!({ "system": "stockfish" }), "no system"),
        (json!({ "system": "cockfish" }), "does not play here"),
        (json!({ "side": "green" }), "no side"),
        (json!({ "level": { "kind": "nodes", "value": 0 } }), "level"),
        (json!({ "level": { "kind": "nodes", "value": 2_000_000 } }), "level"),
        (json!({ "level": { "kind": "time", "value": 600_000 } }), "level"),
        (json!({ "level": { "kind": "depth", "value": 99 } }), "level"),
        (json!({ "level": { "kind": "clock" } }), "level"),
        (json!({ "level": { "kind": "force", "value": 1 } }), "not understood"),
        (json!({ "clock": [0, 0] }), "clock"),
        (json!({ "clock": [100_000_000, 0] }), "clock"),
        (json!({ "fen": "rubbish" }), "FEN"),
        (json!({ "fen": long_fen + "/k7/8 w - - 0 1" + &"x".repeat(200) }), "FEN"),
        (json!({ "fen": "8/8/8/8/8/8/8/8 w - - 0 1" }), "missing king"),
        (json!({ "fen": "7k/6Q1/6K1/8/8/8/8/8 b - - 0 1" }), "over"),
        (json!({ "pgn": long_pgn }), "KiB"),
        (json!({ "pgn": "1. e4 e5 2. Ke3 *" }), "move 2"),
        (json!({ "chess960": true, "array": 960 }), "960"),
        (json!({ "unknown": 1 }), "not understood"),
    ] {
        let refused = page.refusal(proposal(changes.clone())).await;
        assert!(refused.contains(word), "{changes}: {refused}");
    }
    page.say(json!({ "type": "games" })).await;
    assert_eq!(page.expect("games").await["games"], json!([]));
}
