//! A match for the page: its standings, pairings and latest games.

use arena::{GameRecord, Results, rate};
use serde_json::{Value, json};

/// Settings in `match.json` that come before the players: format, openings and rules.
const SETTINGS_BEFORE_PLAYERS: usize = 3;

/// The most players of a match. A damaged journal may name any player number.
const MAX_PLAYERS: usize = 256;

/// The most games in the list of latest games.
const LATEST_GAMES: usize = 20;

/// Standings, pairings and latest games as JSON. `head`: the text of `match.json`.
pub fn to_json(name: &str, head: &str, journal: &str) -> Value {
    let mut results = Results::default();
    for line in journal.lines() {
        if let Ok(game) = serde_json::from_str::<GameRecord>(line) {
            results.add(game);
        }
    }
    let highest = results.games().map(|game| game.white.max(game.black)).max().unwrap_or(0);
    if highest >= MAX_PLAYERS {
        return json!({ "name": name, "error": "the journal cannot be read" });
    }
    let mut names = player_names(head);
    while names.len() <= highest {
        names.push(format!("player {}", names.len() + 1));
    }
    json!({
        "name": name,
        "games": results.len(),
        "players": standings(&results, &names),
        "pairings": pairings(&results, names.len()),
        "latest": latest_games(&results),
    })
}

fn player_names(head: &str) -> Vec<String> {
    let head: Value = serde_json::from_str(head).unwrap_or_default();
    let settings = head["settings"].as_array().map_or(&[][..], Vec::as_slice);
    settings
        .iter()
        .skip(SETTINGS_BEFORE_PLAYERS)
        .filter_map(Value::as_str)
        .map(|line| line.split(": ").next().unwrap_or_default().to_owned())
        .collect()
}

/// Games, results and rating of each player: Elo with its 95 % confidence interval.
fn standings(results: &Results, names: &[String]) -> Vec<Value> {
    let ratings = rate(names.len(), &results.pairing_results(names.len()), 0, 0.0);
    names
        .iter()
        .zip(&ratings)
        .enumerate()
        .map(|(player, (name, rating))| {
            let tally = results.of(player).tally;
            let rating = rating.as_ref().filter(|rating| rating.error.is_finite()).map(|rating| {
                let (low, high) = rating.interval();
                [rating.elo, low, high]
            });
            json!({ "name": name, "games": tally.games(), "wins": tally.wins, "draws": tally.draws,
                "losses": tally.losses, "rating": rating, "faults": results.faults(player) })
        })
        .collect()
}

/// Result and Elo difference of each pair of players.
fn pairings(results: &Results, player_count: usize) -> Vec<Value> {
    results
        .pairing_results(player_count)
        .iter()
        .map(|pairing| {
            let (first, second) = (pairing.first, pairing.second);
            let head_to_head = results.head_to_head(first, second);
            json!({ "first": first, "second": second, "tally": head_to_head.tally,
                "pairs": head_to_head.pairs, "estimate": head_to_head.estimate() })
        })
        .collect()
}

fn latest_games(results: &Results) -> Vec<Value> {
    results
        .games()
        .rev()
        .take(LATEST_GAMES)
        .map(|game| {
            json!({ "number": game.number + 1, "white": game.white, "black": game.black,
                "result": game.result(), "ending": game.ending, "plies": game.plies })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_counted_from_the_journal() {
        let game = |number: usize, white: usize, half_points: u8| {
            json!({ "number": number, "white": white, "black": 1 - white, "opening": 0,
                "white_half_points": half_points, "ending": "checkmate", "fault": null,
                "plies": 40, "seconds": 1.0, "pgn": "" })
            .to_string()
        };
        let journal = [game(0, 0, 2), game(1, 1, 1), "{\"number\"".to_owned()].join("\n");
        let head = json!({ "settings":
            ["Gauntlet", "2 openings", "Rules", "One: internal", "Two: internal"] });
        let table = to_json("m", &head.to_string(), &journal);
        assert_eq!(table["games"], json!(2));
        assert_eq!(table["players"][0]["name"], json!("One"));
        assert_eq!(
            (&table["players"][0]["wins"], &table["players"][1]["draws"]),
            (&json!(1), &json!(1))
        );
        assert_eq!(table["latest"][0]["number"], json!(2));
        let damaged = to_json("m", "", &game(0, 0, 2).replace("\"black\":1", "\"black\":99999999"));
        assert!(damaged["error"].is_string());
    }
}
