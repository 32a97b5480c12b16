//! A review as one JSON object, for programs; scores are White's.

use board::{Position, Score};
use serde_json::{Map, Value, json};

use crate::{Line, Review, grade::grades};

/// One line of text, with its end.
pub(crate) fn json_line(review: &Review, number: u64) -> String {
    let source = &review.source;
    let tags: Map<String, Value> = source
        .tags
        .iter()
        .map(|(name, value)| (name.clone(), Value::from(value.clone())))
        .collect();
    let mut position = source.game.start().clone();
    let mut positions = Vec::new();
    for ply in 0..=source.game.moves().len() {
        let mut object = json!({ "ply": ply });
        if let Some(look) = &review.looks[ply] {
            let lines: Vec<Value> = look.lines.iter().map(|found| line(&position, found)).collect();
            object["evaluations"] = look.evaluations.into();
            object["depth"] = look.depth.into();
            object["lines"] = lines.into();
        }
        if let Some(&mv) = source.game.moves().get(ply) {
            object["move"] = board::to_uci(&position, mv).into();
            object["san"] = board::to_san(&position, mv).into();
            if let Some(loss) = review.loss(ply) {
                object["loss"] = ((loss * 10.0).round() / 10.0).into();
                object["mark"] = review.mark(ply).map(|mark| mark.sign()).into();
            }
            position.play(mv);
        }
        positions.push(object);
    }
    let grades = grades(&source.game, &review.scores).map(|grade| {
        grade.map(|grade| {
            json!({ "accuracy": grade.accuracy, "average_loss": grade.average_loss, "moves": grade.moves })
        })
    });
    let [white, black] = grades;
    let object = json!({
        "game": number + 1,
        "tags": tags,
        "fen": source.game.start().fen(),
        "white": white,
        "black": black,
        "positions": positions,
    });
    format!("{object}\n")
}

fn line(position: &Position, line: &Line) -> Value {
    let mut at = position.clone();
    let mut moves = Vec::with_capacity(line.moves.len());
    for &mv in &line.moves {
        moves.push(board::to_uci(&at, mv));
        at.play(mv);
    }
    let mut object = match line.score {
        Score::Centipawns(value) => json!({ "cp": value }),
        Score::Mate(moves) => json!({ "mate": moves }),
    };
    object["pv"] = moves.into();
    object
}
