//! Analysis over the web socket: lines, the inside of the search, move probabilities, and turns of
//! several visitors.

use serde_json::{Value, json};

use crate::test_server::{TestOptions, serve, with_changes};

const START: &str = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1";

fn request(tag: u32, changes: Value) -> Value {
    let request = json!({ "type": "analyse", "tag": tag, "start": START, "system": "batch-first",
        "lines": 2, "batch": 16 });
    with_changes(request, changes)
}

fn has_lines(answer: &Value) -> bool {
    answer["lines"]
        .as_array()
        .is_some_and(|lines| lines.len() == 2 && lines[0]["depth"].as_u64() >= Some(2))
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_and_the_inside_of_the_search_are_sent_while_it_runs() {
    let server = serve(TestOptions::default()).await;
    let mut page = server.page(&server.visitor().await).await;
    page.send(request(7, json!({ "moves": ["e2e4"] }))).await;
    let position = page.expect("position").await;
    assert_eq!(
        (&position["turn"], &position["moves"]),
        (&json!("black"), &json!([["e2e4", "e4"]]))
    );
    assert_eq!(position["openings"], json!(["", "B00 King's Pawn Game"]));
    let answer =
        page.until("analysis", |answer| has_lines(answer) && !answer["view"].is_null()).await;
    assert_eq!((&answer["tag"], &answer["state"]), (&json!(7), &json!("running")));
    let line = &answer["lines"][0];
    let wdl: u64 =
        line["wdl"].as_array().unwrap().iter().map(|chance| chance.as_u64().unwrap()).sum();
    assert_eq!(wdl, 1000);
    assert!(line["pv"][0][0].is_string() && line["score"]["cp"].as_i64().unwrap().abs() < 300);
    let view = &answer["view"];
    assert_eq!(
        (view["bins"].as_array().unwrap().len(), view["bins"][0].as_array().unwrap().len()),
        (16, 16)
    );
    let number = |name: &str| view[name].as_i64().unwrap();
    assert!(number("lower") <= number("upper"), "{view}");
    assert!(
        number("batch") >= 1 && number("batch") <= number("width") && number("width") <= 16,
        "{view}"
    );
    assert!(number("evaluations") <= number("batches") * 16 && number("evaluations") > 0, "{view}");

    // A new request ends the old one: from then on all answers carry its tag.
    page.send(request(8, json!({ "moves": ["d2d4"] }))).await;
    page.expect("position").await;
    page.until("analysis", |answer| answer["tag"] == 8 && has_lines(answer)).await;
    page.send(json!({ "type": "stop" })).await;
    page.send(json!({ "type": "games" })).await;
    page.expect("games").await;
    for _ in 0..2 {
        page.send(
            json!({ "type": "show_position", "tag": 9, "start": START, "system": "batch-first" }),
        )
        .await;
        page.until("position", |position| position["tag"] == 9).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn convchess_shows_the_probabilities_of_moves_and_squares() {
    let server = serve(TestOptions::default()).await;
    let mut page = server.page(&server.visitor().await).await;
    page.send(request(1, json!({ "system": "convchess" }))).await;
    let answer = page.until("analysis", |answer| !answer["chances"].is_null()).await;
    for squares in ["from", "to"] {
        let chances = answer["chances"][squares].as_array().unwrap();
        let sum: f64 = chances.iter().map(|chance| chance.as_f64().unwrap()).sum();
        assert_eq!(chances.len(), 64);
        assert!((sum - 1.0).abs() < 1e-3, "{squares}: {sum}");
    }
    // In the start position pieces leave the first two ranks for the third and fourth.
    let share = |squares: &str, keep: &dyn Fn(usize) -> bool| -> f64 {
        let all = answer["chances"][squares].as_array().unwrap().iter().enumerate();
        all.filter(|(square, _)| keep(*square)).map(|(_, chance)| chance.as_f64().unwrap()).sum()
    };
    assert!(share("from", &|square| square >= 16) < 1e-6);
    assert!(share("to", &|square| !(16..32).contains(&square)) < 1e-6);
    assert!(answer["chances"]["moves"][0][2].as_f64() >= answer["chances"]["moves"][1][2].as_f64());
}

#[tokio::test(flavor = "multi_thread")]
async fn visitors_take_turns_with_one_search_slot() {
    let server = serve(TestOptions { search_slots: Some(1), ..TestOptions::default() }).await;
    let mut pages = Vec::new();
    for tag in 0..3 {
        let mut page = server.page(&server.visitor().await).await;
        page.send(request(tag, json!({}))).await;
        pages.push(page);
    }
    // Turns end by the clock.
    server.let_time_pass();
    for page in &mut pages {
        page.until("analysis", has_lines).await;
    }
    // A game gets its turn as well.
    let mut page = server.page(&server.visitor().await).await;
    page.start_game(json!({ "side": "black" })).await;
    page.until("game", |state| state["moves"].as_array().unwrap().len() == 1).await;
    // The first visitor gets another turn.
    pages[0].until("analysis", |answer| answer["state"] == "running").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_beyond_the_limits_are_refused() {
    let server = serve(TestOptions::default()).await;
    let mut page = server.page(&server.visitor().await).await;
    let many = ["g1f3", "g8f6", "f3g1", "f6g8"].repeat(400);
    for (changes, word) in [
        (json!({ "lines": 0 }), "lines"),
        (json!({ "lines": 6 }), "lines"),
        (json!({ "batch": 100_000 }), "batches"),
        (json!({ "start": "8/8" }), "FEN"),
        (json!({ "start": "x".repeat(1_000) }), "FEN"),
        (json!({ "moves": ["e2e5"] }), "e2e5"),
        (json!({ "moves": many }), "plies"),
        (json!({ "system": "other" }), "system"),
        (json!({ "tag": -1 }), "not understand"),
    ] {
        let error = page.error(request(1, changes)).await;
        assert!(error.contains(word), "{word}: {error}");
    }
    // The error of an analysis carries the request's tag; other errors carry none.
    page.send(request(77, json!({ "start": "8/8" }))).await;
    assert_eq!(page.expect("error").await["tag"], json!(77));
    page.send(json!({ "type": "resign", "game": 1 })).await;
    assert_eq!(page.expect("error").await["tag"], json!(null));
    // The analysis of a finished game is done at once, without lines.
    page.send(request(2, json!({ "start": "7k/6Q1/6K1/8/8/8/8/8 b - - 0 1" }))).await;
    assert_eq!(page.expect("position").await["over"], json!("Checkmate: White wins."));
    let answer = page.until("analysis", |answer| answer["tag"] == 2).await;
    assert_eq!((&answer["state"], &answer["lines"]), (&json!("done"), &json!([])));
}

/// The moves of a tree that the page sends: `(parent, move)`, from 1.
fn tree(moves: &[(usize, &str)]) -> Value {
    let nodes = moves.iter().map(|(parent, uci)| json!({ "parent": parent, "uci": uci }));
    let nodes: Vec<Value> = [json!({})].into_iter().chain(nodes).collect();
    json!({ "start": START, "tags": [["White", "Ann"]], "nodes": nodes })
}

/// The node that moves lead to.
fn after<'a>(nodes: &'a [Value], moves: &[&str]) -> &'a Value {
    let mut at = 0;
    for &uci in moves {
        let is_next = |(index, node): &(usize, &Value)| {
            *index > 0 && node["parent"] == json!(at) && node["uci"] == uci
        };
        at = nodes.iter().enumerate().find(is_next).unwrap_or_else(|| panic!("{moves:?}")).0;
    }
    &nodes[at]
}

#[tokio::test(flavor = "multi_thread")]
async fn games_with_variations_are_read_completed_and_written() {
    let server = serve(TestOptions::default()).await;
    let mut page = server.page(&server.visitor().await).await;
    let text = "[White \"Ann\"]\n\n1. e4 (1. d4 d5 {good}) e5 $1 *";
    page.send(json!({ "type": "tree", "what": "read_pgn", "tag": 5, "text": text })).await;
    let answer = page.expect("reply").await;
    assert_eq!((&answer["tag"], &answer["notes"]), (&json!(5), &json!([])));
    let sans: Vec<&Value> =
        answer["tree"]["nodes"].as_array().unwrap().iter().map(|node| &node["san"]).collect();
    assert_eq!(sans, [&json!(null), &json!("e4"), &json!("d4"), &json!("d5"), &json!("e5")]);

    let moves = [(0, "e2e4"), (0, "d2d4"), (1, "e7e5"), (2, "d7d5")];
    page.send(json!({ "type": "tree", "what": "complete", "tag": 6, "tree": tree(&moves) })).await;
    let node = page.expect("reply").await["tree"]["nodes"][3].clone();
    assert_eq!((&node["san"], &node["opening"]), (&json!("e5"), &json!("C20 King's Pawn Game")));
    page.send(json!({ "type": "tree", "what": "write_pgn", "tag": 7, "tree": tree(&moves) })).await;
    let pgn = page.expect("reply").await["pgn"].as_str().unwrap().to_owned();
    assert!(pgn.contains("[White \"Ann\"]") && pgn.contains("1. e4 (1. d4 d5) 1... e5 *"), "{pgn}");
    let typed = json!({ "type": "tree", "what": "read_move", "tag": 8, "start": START,
        "moves": ["e2e4"], "text": "Nf6" });
    page.send(typed.clone()).await;
    assert_eq!(page.expect("reply").await["uci"], json!("g8f6"));

    for (changes, words) in [
        (json!({ "text": "Nf3" }), "Nf3 is not legal here."),
        (json!({ "text": "hm" }), "That is not a move: hm."),
        (json!({ "what": "read_pgn", "text": "hello" }), "does not understand"),
    ] {
        let error = page.error(with_changes(typed.clone(), changes)).await;
        assert!(error.contains(words), "{words}: {error}");
    }
    for (nodes, words) in [
        (tree(&[(0, "e2e5")]), "e2e5"),
        (tree(&[(1, "e2e4")]), "comes before"),
        (tree(&[(0, "e2e4"), (9, "e7e5")]), "comes before"),
        (tree(&vec![(0, "e2e4"); 10_001]), "at most 10000 moves"),
        (json!({ "start": START, "nodes": [] }), "no start position"),
    ] {
        for what in ["complete", "write_pgn"] {
            let request = json!({ "type": "tree", "what": what, "tag": 9, "tree": nodes.clone() });
            let error = page.error(request).await;
            assert!(error.contains(words), "{words}: {error}");
            assert!(error.starts_with(char::is_uppercase) && error.ends_with('.'), "{error}");
        }
    }
    // Only PGN and trees may be long.
    let long = json!({ "type": "show_position", "tag": 10, "start": "x".repeat(70_000), "system": "batch-first" });
    assert!(page.error(long).await.contains("at most 64 KiB"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_whole_game_is_analysed_and_can_be_cancelled() {
    let server = serve(TestOptions { search_slots: Some(1), ..TestOptions::default() }).await;
    let mut page = server.page(&server.visitor().await).await;
    let moves = [(0, "f2f3"), (1, "e7e5"), (2, "g2g4"), (3, "d8h4"), (3, "b8c6")];
    let review = json!({ "type": "review", "tag": 3, "tree": tree(&moves), "evaluations": 200 });
    page.send(review.clone()).await;
    let progress = page.until("review", |report| report["state"] == "running").await;
    assert_eq!((&progress["tag"], &progress["total"]), (&json!(3), &json!(5)));
    let done = page.until("review", |report| report["state"] == "done").await;
    // The move that allows mate is a blunder, the mate has its score, and the visitor's line stays.
    let tree_of = |done: &Value| done["tree"]["nodes"].as_array().unwrap().clone();
    let nodes = tree_of(&done);
    assert_eq!(after(&nodes, &["f2f3", "e7e5", "g2g4"])["nags"], json!([4]));
    assert_eq!(after(&nodes, &["f2f3", "e7e5", "g2g4", "d8h4"])["mate"], json!(-1));
    after(&nodes, &["f2f3", "e7e5", "g2g4", "b8c6"]);
    let tags = done["tree"]["tags"].as_array().unwrap();
    assert!(tags.iter().any(|tag| tag[0] == "BlackAccuracy") && tags[0] == json!(["White", "Ann"]));

    // Black does not see the mate: it is the only good move.
    let moves = [(0, "f2f3"), (1, "e7e5"), (2, "g2g4"), (3, "b8c6")];
    page.send(with_changes(review.clone(), json!({ "tag": 8, "tree": tree(&moves) }))).await;
    let done = page.until("review", |report| report["tag"] == 8 && report["state"] == "done").await;
    let nodes = tree_of(&done);
    let mate = after(&nodes, &["f2f3", "e7e5", "g2g4", "d8h4"]);
    assert_eq!((&mate["before"], &mate["nags"]), (&json!("Batch First"), &json!([7])));

    // A cancelled analysis gives its slot back.
    let slow = with_changes(review.clone(), json!({ "tag": 4, "evaluations": 100_000 }));
    page.send(slow).await;
    page.until("review", |report| report["tag"] == 4).await;
    page.send(json!({ "type": "stop_review" })).await;
    page.send(request(5, json!({}))).await;
    page.until("analysis", |answer| answer["tag"] == 5 && has_lines(answer)).await;
    for (changes, words) in [
        (json!({ "evaluations": 0 }), "1 to 100000 evaluations."),
        (json!({ "tree": tree(&[]) }), "no moves to analyse."),
    ] {
        let error = page.error(with_changes(review.clone(), changes)).await;
        assert!(error.contains(words), "{words}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_analysis_of_a_game_gives_way_within_a_position() {
    let server = serve(TestOptions { search_slots: Some(1), ..TestOptions::default() }).await;
    server.let_time_pass();
    let mut page = server.page(&server.visitor().await).await;
    let moves = [(0, "f2f3"), (1, "e7e5"), (2, "g2g4"), (3, "b8c6")];
    let review =
        json!({ "type": "review", "tag": 1, "tree": tree(&moves), "evaluations": 100_000 });
    page.send(review).await;
    page.until("review", |report| report["state"] == "waiting").await;
    let mut other = server.page(&server.visitor().await).await;
    other.send(request(2, json!({}))).await;
    // The first position is not mate: by itself its search would take far longer.
    let began = std::time::Instant::now();
    other.until("analysis", has_lines).await;
    assert!(began.elapsed().as_secs() < 5, "{:?}", began.elapsed());
    // What was found by then counts, and the analysis goes on.
    let report = page.until("review", |report| report["done"].as_u64() >= Some(1)).await;
    assert!(!report["scores"][4].is_null(), "{report}");
}
