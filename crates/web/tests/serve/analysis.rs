//! Analysis over the socket: lines, the inside of the search, chances, and turns for everybody.

use serde_json::{Value, json};

use crate::visitor::{Wishes, serve};

const START: &str = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1";

fn question(tag: u32, changes: Value) -> Value {
    let mut question = json!({ "type": "analyse", "tag": tag, "start": START, "system": "batch-first", "lines": 2, "batch": 16 });
    for (name, value) in changes.as_object().unwrap() {
        question[name] = value.clone();
    }
    question
}

fn has_lines(answer: &Value) -> bool {
    answer["lines"]
        .as_array()
        .is_some_and(|lines| lines.len() == 2 && lines[0]["depth"].as_u64() >= Some(2))
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_and_the_inside_of_the_search_come_while_it_runs() {
    let house = serve(Wishes::default()).await;
    let mut page = house.page(&house.visitor().await).await;
    page.say(question(7, json!({ "moves": ["e2e4"] }))).await;
    let position = page.expect("position").await;
    assert_eq!((&position["turn"], &position["sans"]), (&json!("black"), &json!(["e4"])));
    let answer =
        page.until("analysis", |answer| has_lines(answer) && !answer["view"].is_null()).await;
    assert_eq!((&answer["tag"], &answer["state"]), (&json!(7), &json!("running")));
    let line = &answer["lines"][0];
    let wdl: u64 =
        line["wdl"].as_array().unwrap().iter().map(|chance| chance.as_u64().unwrap()).sum();
    assert_eq!(wdl, 1000);
    assert!(line["line"][0][0].is_string() && line["score"]["cp"].as_i64().unwrap().abs() < 300);
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

    // A new question ends the old one: from then on all answers carry its number.
    page.say(question(8, json!({ "moves": ["d2d4"] }))).await;
    page.expect("position").await;
    page.until("analysis", |answer| answer["tag"] == 8 && has_lines(answer)).await;
    page.say(json!({ "type": "stop" })).await;
    page.say(json!({ "type": "games" })).await;
    page.expect("games").await;
    for _ in 0..2 {
        page.say(json!({ "type": "look", "tag": 9, "start": START, "system": "batch-first" }))
            .await;
        page.until("position", |position| position["tag"] == 9).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn convchess_shows_the_chances_of_moves_and_squares() {
    let house = serve(Wishes::default()).await;
    let mut page = house.page(&house.visitor().await).await;
    page.say(question(1, json!({ "system": "convchess" }))).await;
    let answer = page.until("analysis", |answer| !answer["chances"].is_null()).await;
    for squares in ["from", "to"] {
        let chances = answer["chances"][squares].as_array().unwrap();
        let sum: f64 = chances.iter().map(|chance| chance.as_f64().unwrap()).sum();
        assert_eq!(chances.len(), 64);
        assert!((sum - 1.0).abs() < 1e-3, "{squares}: {sum}");
    }
    // Only pawns and knights can leave their squares, for the third and fourth ranks.
    let share = |squares: &str, keep: &dyn Fn(usize) -> bool| -> f64 {
        let all = answer["chances"][squares].as_array().unwrap().iter().enumerate();
        all.filter(|(square, _)| keep(*square)).map(|(_, chance)| chance.as_f64().unwrap()).sum()
    };
    assert!(share("from", &|square| square >= 16) < 1e-6);
    assert!(share("to", &|square| !(16..32).contains(&square)) < 1e-6);
    assert!(answer["chances"]["moves"][0][2].as_f64() >= answer["chances"]["moves"][1][2].as_f64());
}

#[tokio::test(flavor = "multi_thread")]
async fn visitors_take_turns_at_a_single_place() {
    let house = serve(Wishes { places: Some(1), ..Wishes::default() }).await;
    let mut pages = Vec::new();
    for tag in 0..3 {
        let mut page = house.page(&house.visitor().await).await;
        page.say(question(tag, json!({}))).await;
        pages.push(page);
    }
    for page in &mut pages {
        page.until("analysis", has_lines).await;
    }
    // And a game goes on beside them.
    let mut page = house.page(&house.visitor().await).await;
    page.begin(json!({ "side": "black" })).await;
    page.until("game", |state| state["moves"].as_array().unwrap().len() == 1).await;
    // The first one comes to its turn again.
    pages[0].until("analysis", |answer| answer["state"] == "running").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_beyond_bounds_are_refused() {
    let house = serve(Wishes::default()).await;
    let mut page = house.page(&house.visitor().await).await;
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
        (json!({ "tag": -1 }), "not understood"),
    ] {
        let refused = page.refusal(question(1, changes)).await;
        assert!(refused.contains(word), "{word}: {refused}");
    }
    // A refusal says which question it is about; one of something else carries none.
    page.say(question(77, json!({ "start": "8/8" }))).await;
    assert_eq!(page.expect("error").await["tag"], json!(77));
    page.say(json!({ "type": "resign", "game": 1 })).await;
    assert_eq!(page.expect("error").await["tag"], json!(null));
    // A game that is over has no lines, and says so at once.
    page.say(question(2, json!({ "start": "7k/6Q1/6K1/8/8/8/8/8 b - - 0 1" }))).await;
    assert_eq!(page.expect("position").await["over"], json!(true));
    let answer = page.until("analysis", |answer| answer["tag"] == 2).await;
    assert_eq!((&answer["state"], &answer["lines"]), (&json!("done"), &json!([])));
}
