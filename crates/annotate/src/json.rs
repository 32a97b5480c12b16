//! The analysis of a game as one JSON object on one line, for programs. Scores are White's.

use board::{Position, Score};
use serde_json::{Map, Value, json};

use crate::{GameAnalysis, PrincipalVariation, accuracy::player_analyses};

/// The JSON line with its line feed; `number` counts games from 0.
pub(crate) fn json_line(analysis: &GameAnalysis, number: u64) -> String {
    let source = &analysis.source;
    let tags: Map<String, Value> = source
        .tags
        .iter()
        .map(|(name, value)| (name.clone(), Value::from(value.clone())))
        .collect();
    let mut position = source.game.start().clone();
    let mut positions = Vec::new();
    for ply in 0..=source.game.moves().len() {
        let mut object = json!({ "ply": ply });
        if let Some(found) = &analysis.positions[ply] {
            let lines: Vec<Value> =
                found.lines.iter().map(|pv| line_object(&position, pv)).collect();
            object["evaluations"] = found.evaluations.into();
            object["depth"] = found.depth.into();
            object["lines"] = lines.into();
        }
        if let Some(&mv) = source.game.moves().get(ply) {
            object["move"] = board::to_uci(&position, mv).into();
            object["san"] = board::to_san(&position, mv).into();
            if let Some(loss) = analysis.loss(ply) {
                object["loss"] = ((loss * 10.0).round() / 10.0).into();
                object["mark"] = analysis.judgment(ply).map(|judgment| judgment.symbol()).into();
            }
            position.play(mv);
        }
        positions.push(object);
    }
    let player_analyses = player_analyses(&source.game, &analysis.scores).map(|player| {
        player.map(|player| {
            json!({ "accuracy": player.accuracy, "average_loss": player.average_loss, "moves": player.moves })
        })
    });
    let [white, black] = player_analyses;
    let mut object = json!({
        "game": number + 1,
        "tags": tags,
        "fen": source.game.start().fen(),
        "white": white,
        "black": black,
        "positions": positions,
    });
    if let Some(unread) = &source.unread {
        object["unread"] = unread.to_string().into();
    }
    format!("{object}\n")
}

fn line_object(position: &Position, line: &PrincipalVariation) -> Value {
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
