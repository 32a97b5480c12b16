//! Every search follows the endgame tables, at the root and below it.

use std::{path::Path, sync::Arc};

use board::{CastlingMode, GameEnd, Position, SplitMix64, Tablebases, to_uci};
use eval::Mock;
use nets::{Calibration, MoveScores};

use super::*;
use crate::{Algorithm, plain::Impartial, score::TABLE_WIN};

fn tables() -> Option<Arc<Tablebases>> {
    Some(Arc::new(Tablebases::open(Path::new("../board/tests/tables")).unwrap()))
}

fn settings(tables: Option<Arc<Tablebases>>) -> Settings {
    Settings { hash_mib: 16, tables, ..Settings::default() }
}

/// All searches over a mock network.
fn every(settings: &Settings) -> Vec<(String, Box<dyn Search>)> {
    let mut all = Vec::new();
    for move_scores in [MoveScores::Centipawns, MoveScores::Policy] {
        let calibration = Calibration { move_scores, ..Calibration::default() };
        for algorithm in Algorithm::ALL {
            let search =
                algorithm.over(Box::new(Impartial(Mock::new(1))), &calibration, true, settings);
            all.push((format!("{} {move_scores:?}", algorithm.name()), search));
        }
    }
    let mock = Box::new(Impartial(Mock::new(1)));
    let of_values = Algorithm::AlphaBeta.over(mock, &Calibration::default(), false, settings);
    all.push(("alphabeta of values".to_owned(), of_values));
    all
}

fn game(fen: &str) -> Game {
    Game::new(Position::from_fen(fen, CastlingMode::Standard).unwrap())
}

/// The depth of PUCT is a mean length: it gets evaluations instead.
fn to_depth(name: &str, depth: u32) -> Limits {
    let depth = (!name.starts_with("puct")).then_some(depth);
    Limits { depth, nodes: Some(1000), ..Limits::default() }
}

fn go(search: &mut dyn Search, game: &Game, limits: Limits) -> Outcome {
    search.search(game, &limits, &Control::default(), &mut |_| {}).unwrap()
}

fn best(outcome: &Outcome, game: &Game) -> String {
    to_uci(game.position(), outcome.best.unwrap())
}

#[test]
fn a_table_below_the_root_decides() {
    let settings = settings(tables());
    // Captures into the tables: two win, one draws, one loses. Positions with four pieces are in no
    // table.
    let cases = [
        ("8/8/2k5/8/8/8/6n1/K5Q1 w - - 0 1", "g1g2", TABLE_WIN - 1),
        ("k7/8/8/8/8/8/3nR3/7K w - - 0 1", "e2d2", TABLE_WIN - 1),
        ("8/8/8/8/8/3kN3/4P3/4K3 b - - 0 1", "d3e3", 0),
        ("8/8/8/3kN3/8/8/8/KQ6 b - - 0 1", "d5e5", 1 - TABLE_WIN),
    ];
    for (fen, capture, value) in cases {
        let game = game(fen);
        let mv = board::parse_uci(game.position(), capture).unwrap();
        for depth in 1..=2 {
            for (name, mut search) in every(&settings) {
                let limits = |search_moves| Limits { search_moves, ..to_depth(&name, depth) };
                let line = go(search.as_mut(), &game, limits(vec![mv])).lines.remove(0);
                assert_eq!(
                    (line.score, line.pv.len()),
                    (Score::Centipawns(value), 1),
                    "{name} {depth} {fen}"
                );
                assert_eq!(line.wdl.win, if value > 0 { 1000 } else { line.wdl.win }, "{name}");
                if value > 0 {
                    let outcome = go(search.as_mut(), &game, limits(Vec::new()));
                    assert_eq!(outcome.best, Some(mv), "{name} {depth} {fen}");
                }
            }
        }
    }
}

#[test]
fn mate_by_the_capture_that_leads_into_a_table_is_mate() {
    let game = game("7k/Q5n1/6K1/8/8/8/8/8 w - - 0 1");
    for (name, mut search) in every(&settings(tables())) {
        let outcome = go(search.as_mut(), &game, to_depth(&name, 1));
        assert_eq!(
            (best(&outcome, &game).as_str(), outcome.lines[0].score),
            ("a7g7", Score::Mate(1)),
            "{name}"
        );
    }
}

/// The only mate in two begins with a capture into the tables, which know only that it wins.
#[test]
fn the_limit_mate_finds_a_mate_in_spite_of_the_tables() {
    let game = game("3R4/5K2/7k/3n4/8/8/8/8 w - - 0 1");
    for (name, mut search) in every(&settings(tables())) {
        if name.starts_with("puct") {
            continue; // It proves mates that it meets, but does not look for them.
        }
        for _ in 0..2 {
            let outcome = go(search.as_mut(), &game, Limits { mate: Some(2), ..Limits::default() });
            assert_eq!(
                (best(&outcome, &game).as_str(), outcome.lines[0].score),
                ("d8d5", Score::Mate(2)),
                "{name}"
            );
            // The next search uses the tables again.
            let outcome = go(search.as_mut(), &game, to_depth(&name, 2));
            assert_eq!(outcome.lines[0].score, Score::Centipawns(TABLE_WIN - 1), "{name}");
        }
    }
}

#[test]
fn a_known_root_has_its_score_and_its_moves() {
    let settings = settings(tables());
    let cases = [
        // A queen wins; the defender loses; the pawn can be stopped; it can be stopped by one move.
        ("8/8/8/4k3/8/8/8/KQ6 w - - 0 1", TABLE_WIN, None),
        ("8/8/8/4k3/8/8/8/KQ6 b - - 0 1", -TABLE_WIN, None),
        ("8/4k3/8/8/8/8/4P3/4K3 b - - 4 9", 0, None),
        ("4k3/8/3KP3/8/8/8/8/8 b - - 0 1", 0, Some("e8d8")),
    ];
    for (fen, value, only) in cases {
        let value: i32 = value;
        let game = game(fen);
        for (name, mut search) in every(&settings) {
            for depth in 1..=2 {
                let limits = Limits { depth: Some(depth), nodes: Some(200), ..Limits::default() };
                let mut reported = Vec::new();
                let outcome = search
                    .search(&game, &limits, &Control::default(), &mut |info| {
                        reported.push(info.score)
                    })
                    .unwrap();
                let of = |score: &Score| match *score {
                    Score::Centipawns(found) => found,
                    Score::Mate(moves) => value.abs().max(1) * moves.signum(),
                };
                let scores: Vec<i32> = outcome.lines.iter().map(|line| of(&line.score)).collect();
                assert!(
                    !scores.is_empty() && scores.iter().all(|&found| found == value),
                    "{name} {fen} {scores:?}"
                );
                assert!(
                    reported.iter().all(|score| of(score) == value),
                    "{name} {fen} {reported:?}"
                );
                if let Some(only) = only {
                    assert_eq!(best(&outcome, &game), only, "{name}");
                }
            }
        }
    }
}

#[test]
fn tables_can_be_added_and_removed() {
    let with = settings(tables());
    let game = game("8/8/2k5/8/8/8/6n1/K5Q1 w - - 0 1");
    for (name, mut search) in every(&settings(None)) {
        let limits = to_depth(&name, 2);
        let mut value = |settings: &Settings| {
            search.configure(settings);
            match go(search.as_mut(), &game, limits.clone()).lines[0].score {
                Score::Centipawns(value) => value,
                Score::Mate(_) => panic!("{name}"),
            }
        };
        assert!(value(&settings(None)).abs() <= LARGEST_VALUE, "{name}");
        assert!(value(&with) > LARGEST_VALUE, "{name}");
        assert!(value(&settings(None)).abs() <= LARGEST_VALUE, "{name}");
    }
}

#[test]
fn search_moves_override_the_tables() {
    let settings = settings(tables());
    let game = game("4k3/8/3KP3/8/8/8/8/8 b - - 0 1");
    let losing = board::parse_uci(game.position(), "e8f8").unwrap();
    for (name, mut search) in every(&settings) {
        let limits = Limits { nodes: Some(50), search_moves: vec![losing], ..Limits::default() };
        assert_eq!(go(search.as_mut(), &game, limits).best, Some(losing), "{name}");
    }
}

/// A mock network wins too.
#[test]
fn every_search_plays_won_endings_to_mate() {
    let tables = tables();
    let judge = tables.clone().unwrap();
    let starts = [
        "8/8/8/4k3/8/8/8/KQ6 w - - 0 1",
        "8/8/3k4/8/8/2R5/8/K7 w - - 0 1",
        "8/8/8/2k5/8/8/2PK4/8 w - - 0 1",
        "7k/8/8/8/8/1K6/1P6/8 w - - 0 1",
    ];
    let mut dice = SplitMix64::new(3);
    for fen in starts {
        let start = game(fen);
        assert_eq!(judge.winner(start.position()), Some(Some(Color::White)));
        for (name, mut search) in every(&settings(tables.clone())) {
            let mut game = start.clone();
            while game.end().is_none() {
                let mv = if game.position().turn() == Color::White {
                    let limits = Limits { nodes: Some(30), depth: Some(2), ..Limits::default() };
                    go(search.as_mut(), &game, limits).best.unwrap()
                } else {
                    let moves = game.position().legal_moves();
                    moves[dice.below(moves.len())]
                };
                game.play(mv);
            }
            assert_eq!(
                game.end(),
                Some(GameEnd::Checkmate { winner: Color::White }),
                "{name} {fen}"
            );
        }
    }
}
