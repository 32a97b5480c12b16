//! Games over the web socket: the server judges moves and keeps every move that it has published.

use std::{path::Path, time::Duration};

use rusqlite::Connection;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::test_server::{TIMEOUT, TestOptions, TestPage, new_game, serve};

/// Plays a move; the state after the engine's reply.
async fn play(page: &mut TestPage, game: &Value, uci: &str) -> Value {
    let ply = game["moves"].as_array().unwrap().len();
    page.send(json!({ "type": "move", "game": game["id"], "ply": ply, "uci": uci })).await;
    page.until("game", |state| {
        state["moves"].as_array().unwrap().len() == ply + 2 || !state["result"].is_null()
    })
    .await
}

/// Milliseconds that the side to move had used when the game was closed, from the file of games.
fn stored_time(games: &Path, id: &Value) -> i64 {
    let connection = Connection::open(games).unwrap();
    let query = "SELECT spent_ms FROM games WHERE id = ?1";
    connection.query_row(query, [id.as_i64()], |row| row.get(0)).unwrap()
}

fn ucis(state: &Value) -> Vec<&str> {
    state["moves"].as_array().unwrap().iter().map(|mv| mv["uci"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_game_survives_a_reload_and_a_crash() {
    let folder = tempfile::tempdir().unwrap();
    let games = folder.path().join("games.sqlite");
    let server = serve(TestOptions::with_games(&games)).await;
    let visitor = server.visitor().await;
    let mut page = server.page(&visitor).await;
    let state = page.start_game(json!({})).await;
    assert_eq!(state["side"], "white");
    assert_eq!(state["destinations"]["e2"], json!(["e3", "e4"]));
    let state = play(&mut page, &state, "e2e4").await;
    let state = play(&mut page, &state, "Nf3").await;
    let moves: Vec<String> = ucis(&state).into_iter().map(str::to_owned).collect();
    assert_eq!((moves.len(), moves[0].as_str(), moves[2].as_str()), (4, "e2e4", "g1f3"));
    assert_eq!(state["fens"].as_array().unwrap().len(), 5);

    // A reload closes the web socket and opens another.
    drop(page);
    let mut page = server.page(&visitor).await;
    page.send(json!({ "type": "open", "game": state["id"] })).await;
    let reloaded = page.expect("game").await;
    assert_eq!(reloaded["fens"], state["fens"]);

    // The visitor's move is stored when its state is published, even if the server is killed before
    // the engine replies.
    page.send(json!({ "type": "move", "game": state["id"], "ply": 4, "uci": "f1e2" })).await;
    page.until("game", |state| ucis(state).len() >= 5).await;
    drop(server);
    let server = serve(TestOptions::with_games(&games)).await;
    let mut page = server.page(&visitor).await;
    page.send(json!({ "type": "games" })).await;
    let list = page.expect("games").await;
    assert_eq!(
        (list["games"].as_array().unwrap().len(), &list["games"][0]["id"]),
        (1, &state["id"])
    );
    page.send(json!({ "type": "open", "game": state["id"] })).await;
    let after = page.until("game", |state| ucis(state).len() == 6).await;
    let after = ucis(&after);
    assert_eq!(after[..4], moves.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(after[4], "f1e2");
}

#[tokio::test(flavor = "multi_thread")]
async fn illegal_moves_are_refused_and_moves_are_taken_back() {
    let server = serve(TestOptions::default()).await;
    let mut page = server.page(&server.visitor().await).await;
    let state = page.start_game(json!({})).await;
    let id = &state["id"];
    for uci in ["e2e5", "e7e5", "0000", "", "e2e4e5", "🦀"] {
        page.error(json!({ "type": "move", "game": id, "ply": 0, "uci": uci })).await;
    }
    let error = page.error(json!({ "type": "move", "game": id, "ply": 1, "uci": "e2e4" })).await;
    assert_eq!(error, "It is not your turn.");
    page.error(json!({ "type": "take_back", "game": id })).await;
    let state = play(&mut page, &state, "d2d4").await;
    let id = &state["id"];
    page.send(json!({ "type": "take_back", "game": id })).await;
    let state = page.until("game", |state| ucis(state).is_empty()).await;
    let state = play(&mut page, &state, "c2c4").await;
    assert_eq!(ucis(&state)[0], "c2c4");
    page.send(json!({ "type": "resign", "game": id })).await;
    let state = page.until("game", |state| !state["result"].is_null()).await;
    assert_eq!(state["result"], json!(["0-1", "White resigned"]));
    assert_eq!(state["destinations"], json!({}));
    page.error(json!({ "type": "move", "game": id, "ply": 2, "uci": "b1c3" })).await;
    // A resignation can be taken back.
    page.send(json!({ "type": "take_back", "game": id })).await;
    page.until("game", |state| state["result"].is_null() && ucis(state).is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn games_start_from_any_position_and_are_exported_as_pgn() {
    let server = serve(TestOptions::default()).await;
    let visitor = server.visitor().await;
    let mut page = server.page(&visitor).await;

    // From a FEN: a promotion that mates.
    let state = page.start_game(json!({ "fen": "7k/P7/6K1/8/8/8/8/8 w - - 0 1" })).await;
    assert_eq!(state["destinations"]["a7"], json!(["a8"]));
    let state = play(&mut page, &state, "a7a8q").await;
    assert_eq!(state["result"], json!(["1-0", "checkmate"]));
    let cookie = format!("batch-first-visitor={visitor}");
    let pgn =
        server.request(&format!("GET /games/{}.pgn", state["id"]), &[("Cookie", &cookie)]).await;
    assert_eq!(pgn.status, 200);
    assert!(pgn.body.contains("[FEN \"7k/P7/6K1/8/8/8/8/8 w - - 0 1\"]"), "{}", pgn.body);
    assert!(pgn.body.contains("1. a8=Q# { checkmate } 1-0"), "{}", pgn.body);

    // From a PGN, as Black.
    let state = page.start_game(json!({ "pgn": "1. e4 e5 2. Nf3 *", "side": "black" })).await;
    assert_eq!(ucis(&state), ["e2e4", "e7e5", "g1f3"]);
    assert_eq!(state["turn"], "black");

    // Chess960: castling moves the king to its rook.
    let state = page.start_game(json!({ "chess960": true, "chess960_number": 518 })).await;
    assert!(state["chess960"].as_bool().unwrap());
    let castling = "r3k2r/pppppppp/8/8/8/8/PPPPPPPP/R3K2R w KQkq - 0 1";
    let state = page.start_game(json!({ "chess960": true, "fen": castling })).await;
    let targets = state["destinations"]["e1"].as_array().unwrap().clone();
    assert!(targets.contains(&json!("h1")) && !targets.contains(&json!("g1")), "{targets:?}");
    let state = play(&mut page, &state, "e1h1").await;
    assert_eq!(state["moves"][0], json!({ "uci": "e1h1", "san": "O-O" }));
    let state = page.start_game(json!({ "fen": castling })).await;
    let state = play(&mut page, &state, "e1g1").await;
    assert_eq!(state["moves"][0], json!({ "uci": "e1g1", "san": "O-O" }));

    let all = server.request("GET /games/all.pgn", &[("Cookie", &cookie)]).await;
    assert_eq!(all.body.matches("[Event ").count(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn clocks_run_on_the_server_and_stop_while_no_page_has_the_game_open() {
    let folder = tempfile::tempdir().unwrap();
    let games = folder.path().join("games.sqlite");
    let server = serve(TestOptions::with_games(&games)).await;
    let visitor = server.visitor().await;
    let mut page = server.page(&visitor).await;
    let state =
        page.start_game(json!({ "clock": [60_000, 5_000], "level": { "kind": "clock" } })).await;
    assert_eq!(state["clock"]["running"], "white");
    let state = play(&mut page, &state, "e2e4").await;
    let left = |state: &Value, side: &str| state["clock"][side].as_u64().unwrap();
    assert_eq!((left(&state, "white"), left(&state, "black")), (65_000, 65_000), "{state}");

    // The flag falls without a message from the page.
    let state = page.start_game(json!({ "clock": [1_000, 0] })).await;
    server.time.advance(Duration::from_secs(1));
    let end =
        page.until("game", |other| other["id"] == state["id"] && !other["result"].is_null()).await;
    assert_eq!(end["result"], json!(["0-1", "White ran out of time"]));
    assert_eq!(left(&end, "white"), 0, "{end}");
    // The clock of a resigned game keeps the used time, now and when the game is opened again.
    let state = page.start_game(json!({ "clock": [60_000, 0] })).await;
    server.time.advance(Duration::from_millis(300));
    page.send(json!({ "type": "resign", "game": state["id"] })).await;
    let end =
        page.until("game", |other| other["id"] == state["id"] && !other["result"].is_null()).await;
    assert_eq!(left(&end, "white"), 59_700, "{end}");
    page.send(json!({ "type": "close" })).await;
    page.send(json!({ "type": "open", "game": state["id"] })).await;
    let again = page.until("game", |other| other["id"] == state["id"]).await;
    assert_eq!(left(&again, "white"), left(&end, "white"));

    // The clock stops when the page is gone; the server stores the used time then.
    let state = page.start_game(json!({ "clock": [2_000, 0] })).await;
    server.time.advance(Duration::from_millis(500));
    drop(page);
    let closed = async {
        while stored_time(&games, &state["id"]) != 500 {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(TIMEOUT, closed).await.unwrap();
    server.time.advance(Duration::from_millis(2_500));
    let mut page = server.page(&visitor).await;
    page.send(json!({ "type": "open", "game": state["id"] })).await;
    let again = page.expect("game").await;
    assert_eq!((&again["result"], left(&again, "white")), (&json!(null), 1_500), "{again}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_stores_the_clocks() {
    let folder = tempfile::tempdir().unwrap();
    let games = folder.path().join("games.sqlite");
    let server = serve(TestOptions::with_games(&games)).await;
    let visitor = server.visitor().await;
    let mut page = server.page(&visitor).await;
    let state = page.start_game(json!({ "clock": [60_000, 0] })).await;
    // No page has this game open when the server ends.
    let other = page.start_game(json!({ "clock": [60_000, 0] })).await;
    server.time.advance(Duration::from_millis(300));
    page.send(json!({ "type": "open", "game": state["id"] })).await;
    page.until("game", |shown| shown["id"] == state["id"]).await;
    server.time.advance(Duration::from_millis(300));
    server.end().await;
    let server = serve(TestOptions::with_games(&games)).await;
    let mut page = server.page(&visitor).await;
    for id in [&state["id"], &other["id"]] {
        page.send(json!({ "type": "open", "game": id })).await;
        let shown = page.until("game", |shown| shown["id"] == *id).await;
        assert!(shown["clock"]["white"].as_u64() <= Some(59_700), "{shown}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn visitors_cannot_use_the_games_of_others() {
    let server = serve(TestOptions::default()).await;
    let (one, other) = (server.visitor().await, server.visitor().await);
    assert_ne!(one, other);
    let mut page = server.page(&one).await;
    let state = page.start_game(json!({})).await;
    let id = &state["id"];
    let mut stranger = server.page(&other).await;
    for command in ["open", "delete"] {
        let error = stranger.error(json!({ "type": command, "game": id })).await;
        assert!(error.contains("no game"), "{error}");
    }
    for command in ["resign", "take_back"] {
        stranger.error(json!({ "type": command, "game": id })).await;
    }
    stranger.error(json!({ "type": "move", "game": id, "ply": 0, "uci": "e2e4" })).await;
    stranger.send(json!({ "type": "games" })).await;
    assert_eq!(stranger.expect("games").await["games"], json!([]));
    for cookie in [format!("batch-first-visitor={other}"), "batch-first-visitor=x".to_owned()] {
        let pgn = server.request(&format!("GET /games/{id}.pgn"), &[("Cookie", &cookie)]).await;
        assert_eq!(pgn.status, 404);
    }
    // The game stays open until its own visitor deletes it.
    let state = play(&mut page, &state, "e2e4").await;
    assert!(state["result"].is_null());
    page.send(json!({ "type": "delete", "game": id })).await;
    assert_eq!(page.expect("games").await["games"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn impossible_new_games_are_refused_with_the_reason() {
    let server = serve(TestOptions::default()).await;
    let mut page = server.page(&server.visitor().await).await;
    let long_fen = " ".repeat(200) + "8";
    let long_pgn = format!("{{{}}} *", "x".repeat(49_500));
    for (changes, word) in [
        (json!({ "system": "stockfish" }), "no opponent stockfish"),
        (json!({ "system": "cockfish" }), "not available"),
        (json!({ "side": "green" }), "not a side"),
        (json!({ "level": { "kind": "nodes", "value": 0 } }), "1 to 1,000,000"),
        (json!({ "level": { "kind": "nodes", "value": 2_000_000 } }), "1 to 1,000,000"),
        (json!({ "level": { "kind": "time", "value": 600_000 } }), "0.01 to 60 seconds"),
        (json!({ "level": { "kind": "depth", "value": 99 } }), "1 to 30 plies"),
        (json!({ "level": { "kind": "clock" } }), "Choose a clock"),
        (json!({ "level": { "kind": "force", "value": 1 } }), "not understand"),
        (json!({ "clock": [0, 0] }), "A clock"),
        (json!({ "clock": [100_000_000, 0] }), "A clock"),
        (json!({ "fen": "rubbish" }), "That is not a valid FEN: "),
        (json!({ "fen": "" }), "That is not a valid FEN: it is empty."),
        (json!({ "fen": " " }), "That is not a valid FEN: it is empty."),
        (json!({ "pgn": "" }), "no game"),
        (json!({ "fen": long_fen + "/k7/8 w - - 0 1" + &"x".repeat(200) }), "FEN"),
        (json!({ "fen": "8/8/8/8/8/8/8/8 w - - 0 1" }), "the board is empty"),
        (json!({ "fen": "7k/6Q1/6K1/8/8/8/8/8 b - - 0 1" }), "over"),
        (json!({ "pgn": long_pgn }), "KiB"),
        (json!({ "pgn": "1. e4 e5 2. Ke3 *" }), "move 2"),
        (json!({ "pgn": "https://lichess.org/abcdefgh" }), "it is a link"),
        (json!({ "pgn": "1. e4 e5 2. Sf3" }), "English letters"),
        (json!({ "pgn": "1. e4 e5 *\n\n1. d4 d5 *" }), "several games"),
        (json!({ "chess960": true, "chess960_number": 960 }), "960"),
        (json!({ "unknown": 1 }), "not understand"),
    ] {
        let error = page.error(new_game(changes.clone())).await;
        assert!(!error.contains('`'), "{error}");
        assert!(error.contains(word), "{changes}: {error}");
    }
    page.send(json!({ "type": "games" })).await;
    assert_eq!(page.expect("games").await["games"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_game_names_the_wrong_field() {
    let server = serve(TestOptions::default()).await;
    let mut page = server.page(&server.visitor().await).await;
    for (changes, field) in [
        (json!({ "system": "cockfish" }), "system"),
        (json!({ "side": "green" }), "side"),
        (json!({ "threads": 0 }), "threads"),
        (json!({ "threads": 1_000 }), "threads"),
        (json!({ "level": { "kind": "clock" } }), "level"),
        (json!({ "clock": [0, 0] }), "clock"),
        (json!({ "fen": "rubbish" }), "fen"),
        (json!({ "fen": "7k/6Q1/6K1/8/8/8/8/8 b - - 0 1" }), "fen"),
        (json!({ "pgn": "1. e5" }), "pgn"),
        (json!({ "pgn": "1. f3 e5 2. g4 Qh4#" }), "pgn"),
        (json!({ "chess960": true, "chess960_number": 960 }), "chess960_number"),
    ] {
        page.send(new_game(changes.clone())).await;
        assert_eq!(page.expect("error").await["field"], field, "{changes}");
    }
}

/// A level whose search lasts minutes.
fn long_search() -> Value {
    json!({ "side": "black", "level": { "kind": "nodes", "value": 1_000_000 } })
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_is_told_when_the_engine_begins_to_think() {
    let server = serve(TestOptions::default()).await;
    let mut page = server.page(&server.visitor().await).await;
    // The engine may get its place at any moment around the first state: many games meet them all.
    for _ in 0..30 {
        let state = page.start_game(long_search()).await;
        if state["thinking"] != "yes" {
            page.until("game", |other| other["id"] == state["id"] && other["thinking"] == "yes")
                .await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn games_that_are_left_stop_their_searches() {
    let server = serve(TestOptions { search_slots: Some(1), ..TestOptions::default() }).await;
    let mut page = server.page(&server.visitor().await).await;
    // More games than a visitor may have open, each with a search that lasts minutes: with one
    // place for searches each has to leave it to the next.
    let mut first = Value::Null;
    for _ in 0..10 {
        let state = page.start_game(long_search()).await;
        if state["thinking"] != "yes" {
            page.until("game", |other| other["id"] == state["id"] && other["thinking"] == "yes")
                .await;
        }
        if first.is_null() {
            first = state;
        }
    }
    // A game that was left searches again when it is opened.
    page.send(json!({ "type": "open", "game": first["id"] })).await;
    page.until("game", |state| state["id"] == first["id"] && state["thinking"] == "yes").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn leaving_a_game_gives_the_engine_no_time() {
    let folder = tempfile::tempdir().unwrap();
    let games = folder.path().join("games.sqlite");
    let server = serve(TestOptions::with_games(&games)).await;
    let visitor = server.visitor().await;
    let mut page = server.page(&visitor).await;
    let mut request = long_search();
    request["clock"] = json!([60_000, 0]);
    let state = page.start_game(request).await;
    let is_thinking = |other: &Value| other["id"] == state["id"] && other["thinking"] == "yes";
    if state["thinking"] != "yes" {
        page.until("game", is_thinking).await;
    }
    server.time.advance(Duration::from_secs(5));
    drop(page);
    let closed = async {
        while stored_time(&games, &state["id"]) != 5_000 {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(TIMEOUT, closed).await.unwrap();
    server.time.advance(Duration::from_secs(30));
    let mut page = server.page(&visitor).await;
    page.send(json!({ "type": "open", "game": state["id"] })).await;
    let again = page.until("game", is_thinking).await;
    assert_eq!(again["clock"]["white"], 55_000, "{again}");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_moves_of_the_visitor_can_be_taken_back() {
    let server = serve(TestOptions::default()).await;
    let mut page = server.page(&server.visitor().await).await;
    let state = page.start_game(json!({ "side": "black" })).await;
    let state = page.until("game", |other| {
        other["id"] == state["id"] && other["moves"].as_array().unwrap().len() == 1
    });
    let state = state.await;
    assert_eq!(state["takeback"], false, "the visitor has not moved");
    let state = play(&mut page, &state, "e7e5").await;
    assert_eq!(state["takeback"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_visitor_gets_a_hint_and_offers_a_draw() {
    let server = serve(TestOptions::default()).await;
    let mut page = server.page(&server.visitor().await).await;
    // ConvChess does not search: the hint comes from another engine.
    let mate = "6k1/5ppp/8/8/8/8/8/R5K1 w - - 0 1";
    let state = page.start_game(json!({ "system": "convchess", "fen": mate })).await;
    let id = &state["id"];
    assert_eq!(state["advice"], Value::Null);
    page.send(json!({ "type": "hint", "game": id })).await;
    let state = page.until("game", |state| state["advice"]["state"] == "hint").await;
    assert_eq!(
        (&state["advice"]["uci"], &state["advice"]["san"]),
        (&json!("a1a8"), &json!("Ra8#"))
    );
    // No draw in the opening, and none that the engine would not like.
    page.send(json!({ "type": "offer_draw", "game": id })).await;
    let state = page.until("game", |state| state["advice"]["state"] == "draw_declined").await;
    assert_eq!(state["result"], Value::Null);
    let state = play(&mut page, &state, "g1f1").await;
    assert_eq!(state["advice"], Value::Null, "the hint was for another position");

    // Ten quiet moves on each side, then a rook against a king: only the side that loses gets a draw.
    let knights = "1. Nf3 Nf6 2. Ng1 Ng8 3. Nc3 Nc6 4. Nb1 Nb8 5. e3 e6 6. d3 d6 7. c3 c6 8. b3 b6 \
                   9. a3 a6 10. h3 h6";
    for (pgn, is_taken) in [
        (format!("{knights} 11. Qh5 g6 12. Bb2 gxh5"), false),
        (format!("{knights} 11. Qf3 Qg5 12. Bb2 Qxe3+ 13. fxe3 a5"), true),
    ] {
        let state = page.start_game(json!({ "pgn": pgn })).await;
        page.send(json!({ "type": "offer_draw", "game": state["id"] })).await;
        let end = page.until("game", |other| {
            other["id"] == state["id"]
                && (!other["result"].is_null() || other["advice"]["state"] == "draw_declined")
        });
        let expected = if is_taken { json!(["1/2-1/2", "draw by agreement"]) } else { Value::Null };
        assert_eq!(end.await["result"], expected, "{pgn}");
    }
    // It is the visitor's turn when a draw is offered.
    let state = page.start_game(long_search()).await;
    for command in ["hint", "offer_draw"] {
        let error = page.error(json!({ "type": command, "game": state["id"] })).await;
        assert_eq!(error, "It is not your turn.");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn network_and_threads_are_chosen_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let games = folder.path().join("games.sqlite");
    let server = serve(TestOptions::with_games(&games)).await;
    let visitor = server.visitor().await;
    let mut page = server.page(&visitor).await;
    let state = page.start_game(json!({ "system": "batch-first-large", "threads": 1 })).await;
    assert_eq!(state["level_text"], "20 positions a move, 1 thread");
    let state = play(&mut page, &state, "e2e4").await;
    drop(server);
    // A file of games from before threads could be chosen is taken over.
    let connection = Connection::open(&games).unwrap();
    let older = "UPDATE games SET threads = NULL; ALTER TABLE games DROP COLUMN threads; \
                 PRAGMA user_version = 1;";
    let server = serve(TestOptions::with_games(&games)).await;
    let mut page = server.page(&visitor).await;
    page.send(json!({ "type": "open", "game": state["id"] })).await;
    let again = page.expect("game").await;
    assert_eq!(
        (&again["system"], &again["level_text"]),
        (&json!("batch-first-large"), &json!("20 positions a move, 1 thread"))
    );
    drop(server);
    connection.execute_batch(older).unwrap();
    let server = serve(TestOptions::with_games(&games)).await;
    let mut page = server.page(&visitor).await;
    page.send(json!({ "type": "open", "game": state["id"] })).await;
    let again = page.expect("game").await;
    assert_eq!(
        (&again["moves"], &again["level_text"]),
        (&state["moves"], &json!("20 positions a move"))
    );
}
