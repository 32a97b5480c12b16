//! Alpha-beta against plain negamax, and against known mates.

use board::{Game, Score, SplitMix64, testing::small_position, to_uci};
use eval::Mock;
use nets::MoveScores;

use super::*;
use crate::{
    plain::{Plain, mates_in},
    score::to_score,
};

fn alphabeta(seed: u64) -> AlphaBeta {
    // Odd seeds: the move scores are a policy.
    let move_scores = if seed % 2 == 1 { MoveScores::Policy } else { MoveScores::Centipawns };
    let calibration = Calibration { move_scores, ..Calibration::default() };
    let settings = Settings { hash_mib: 16, ..Settings::default() };
    AlphaBeta::new(Box::new(Mock::new(seed)), &calibration, &settings)
}

#[test]
fn value_and_best_move_equal_plain_negamax() {
    for seed in 0..120 {
        let position = small_position(&mut SplitMix64::new(seed), 5);
        let game = Game::new(position.clone());
        let mut plain = Plain::new(seed);
        for depth in 1..=3 {
            let expected = plain.root(&position, depth);
            let best = expected.values().copied().max().unwrap();
            let limits = Limits { depth: Some(depth), ..Limits::default() };
            let mut search = alphabeta(seed).exact();
            let outcome = search.search(&game, &limits, &Control::default(), &mut |_| {}).unwrap();
            // A mate ends the search at the depth that proves it.
            assert_eq!(outcome.lines[0].score, to_score(best), "{} depth {depth}", position.fen());
            let chosen = to_uci(&position, outcome.best.unwrap());
            assert_eq!(expected[&chosen], best, "{} depth {depth}", position.fen());
        }
    }
}

#[test]
fn evaluations_are_counted_exactly_and_lines_are_several() {
    let settings = Settings { hash_mib: 16, multipv: 3, ..Settings::default() };
    let mut search = AlphaBeta::new(Box::new(Mock::new(3)), &Calibration::default(), &settings);
    let limits = Limits { nodes: Some(3000), ..Limits::default() };
    let outcome =
        search.search(&Game::default(), &limits, &Control::default(), &mut |_| {}).unwrap();
    assert_eq!((outcome.nodes, outcome.lines.len()), (3000, 3));
    let firsts: Vec<Move> = outcome.lines.iter().map(|line| line.pv[0]).collect();
    assert!(firsts[0] != firsts[1] && firsts[1] != firsts[2] && firsts[0] != firsts[2]);
}

/// A value that a null move or a margin gave proves no mate: an announced mate is one.
#[test]
fn announced_mates_are_mates() {
    let (mut random, mut found) = (SplitMix64::new(1989), 0);
    while found < 60 {
        let position = small_position(&mut random, 5);
        let game = Game::new(position.clone());
        let limits = Limits { depth: Some(4), ..Limits::default() };
        let mut search = alphabeta(2 * found + 1);
        let outcome = search.search(&game, &limits, &Control::default(), &mut |_| {}).unwrap();
        if let Score::Mate(moves @ 1..=3) = outcome.lines[0].score {
            found += 1;
            let is_mate = (1..=moves as u32).any(|moves| mates_in(&position, moves));
            assert!(is_mate, "{} mate in {moves}", position.fen());
        }
    }
}

#[test]
fn a_side_without_pieces_does_not_pass() {
    let null_move = |fen: &str| {
        let position = Position::from_fen(fen, board::CastlingMode::Standard).unwrap();
        let mut search = alphabeta(1);
        let (limits, control) = (Limits::default(), Control::default());
        search.stack.start(&Game::new(position.clone()));
        let mut timer = TimeManager::new(&limits, search.stack.settings.move_overhead, &control);
        let found = search.null_move(&position, 2 * PLY, 5000, -5000, 1, &mut timer);
        found.ok().flatten().is_some()
    };
    assert!(!null_move("4k3/8/8/8/8/8/4P3/4K3 w - - 0 1"), "a pawn endgame");
    assert!(!null_move("4k3/8/8/8/8/8/4r3/R3K2R w - - 0 1"), "in check");
    assert!(null_move("4k3/8/8/8/8/8/r7/4K2R w - - 0 1"));
    assert!(null_move("4k3/8/8/8/8/8/r7/R3K2R w - - 0 1"));
}
