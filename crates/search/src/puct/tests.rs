//! PUCT finds mates, counts its evaluations, and ends.

use board::{Score, SplitMix64, testing::small_position};
use eval::Mock;

use super::*;
use crate::plain::{Impartial, mates_in};

fn puct(batch: usize, move_scores: MoveScores) -> Puct {
    let calibration = Calibration { move_scores, ..Calibration::default() };
    let settings = Settings { batch, hash_mib: 16, ..Settings::default() };
    Puct::new(Box::new(Impartial(Mock::new(5))), &calibration, &settings)
}

#[test]
fn short_mates_are_proven() {
    let mut dice = SplitMix64::new(11);
    let mut found = [0; 3];
    while found[1] < 20 || found[2] < 20 {
        let position = small_position(&mut dice, 4);
        let Some(moves) = (1..=2).find(|&moves| mates_in(&position, moves)) else { continue };
        found[moves as usize] += 1;
        for batch in [1, 16] {
            let limits = Limits { nodes: Some(20_000), mate: Some(moves), ..Limits::default() };
            let outcome = puct(batch, MoveScores::Policy)
                .search(&Game::new(position.clone()), &limits, &Control::default(), &mut |_| {})
                .unwrap();
            let score = outcome.lines[0].score;
            // Proven, if not by the shortest way.
            assert!(matches!(score, Score::Mate(1..)), "{}: {score:?}", position.fen());
        }
    }
}

#[test]
fn evaluations_are_counted_exactly_whatever_the_batch() {
    for batch in [1, 7, 256] {
        for (move_scores, each) in [(MoveScores::Policy, 1), (MoveScores::Centipawns, 2)] {
            let limits = Limits { nodes: Some(3001), ..Limits::default() };
            let outcome = puct(batch, move_scores)
                .search(&Game::default(), &limits, &Control::default(), &mut |_| {})
                .unwrap();
            assert!(
                outcome.nodes <= 3001 && outcome.nodes + each > 3001,
                "{batch}: {}",
                outcome.nodes
            );
            assert!(outcome.best.is_some());
        }
    }
}

#[test]
fn a_drawn_position_ends_the_search() {
    // One ply before the fifty-move limit, and no mate: every move draws.
    let fen = "8/8/8/8/8/2k5/8/2K4R w - - 99 80";
    let position = Position::from_fen(fen, board::CastlingMode::Standard).unwrap();
    let limits = Limits { nodes: Some(50_000), ..Limits::default() };
    let outcome = puct(4, MoveScores::Policy)
        .search(&Game::new(position), &limits, &Control::default(), &mut |_| {})
        .unwrap();
    assert!(outcome.best.is_some() && outcome.nodes < 100, "{}", outcome.nodes);
    assert_eq!(outcome.lines[0].score, Score::Centipawns(0));
}

#[test]
fn a_move_without_visits_has_no_line() {
    let calibration = Calibration { move_scores: MoveScores::Policy, ..Calibration::default() };
    let settings = Settings { hash_mib: 16, multipv: 20, ..Settings::default() };
    let mut search = Puct::new(Box::new(Impartial(Mock::new(5))), &calibration, &settings);
    for (nodes, most) in [(1, 1), (6, 5)] {
        let limits = Limits { nodes: Some(nodes), ..Limits::default() };
        let outcome =
            search.search(&Game::default(), &limits, &Control::default(), &mut |_| {}).unwrap();
        assert!(
            (1..=most).contains(&outcome.lines.len()),
            "{nodes}: {} lines",
            outcome.lines.len()
        );
    }
}
