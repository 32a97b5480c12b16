//! Cockfish's search against plain minimax from the rules.

use board::{SplitMix64, testing::small_position, to_uci};
use eval::Mock;

use super::*;
use crate::{
    plain::{Plain, plain_without_quiet},
    score::to_score,
};

fn minimax(seed: u64, settings: Settings) -> CockfishSearch {
    CockfishSearch::new(
        Box::new(Mock::new(seed)),
        &Calibration::default(),
        &Settings { hash_mib: 16, ..settings },
    )
}

fn go(search: &mut CockfishSearch, position: &Position, limits: &Limits) -> Outcome {
    search.search(&Game::new(position.clone()), limits, &Control::default(), &mut |_| {}).unwrap()
}

#[test]
fn value_and_best_move_equal_plain_minimax() {
    for seed in 0..100 {
        let position = small_position(&mut SplitMix64::new(seed), 5);
        // From depth 5 on a position of the line may repeat.
        for depth in 1..=3 {
            for batch in [0, 1, 5] {
                let limits = Limits { depth: Some(depth), ..Limits::default() };
                let settings = Settings { batch, quiet_leaves: false, ..Settings::default() };
                let outcome = go(&mut minimax(seed, settings), &position, &limits);
                let mut evaluator = Mock::new(seed);
                let worth = |mv: Move| {
                    from_child(plain_without_quiet(&mut evaluator, &position.after(mv), depth - 1))
                };
                let values: Vec<Value> =
                    position.legal_moves().iter().copied().map(worth).collect();
                let best = values.iter().copied().max().unwrap();
                assert_eq!(
                    outcome.lines[0].score,
                    to_score(best),
                    "{} depth {depth}",
                    position.fen()
                );
                let chosen = position.legal_moves().iter().position(|&mv| Some(mv) == outcome.best);
                assert_eq!(values[chosen.unwrap()], best, "{} depth {depth}", position.fen());
            }
        }
    }
}

#[test]
fn quiet_leaves_equal_those_of_plain_minimax() {
    for seed in 0..100 {
        let position = small_position(&mut SplitMix64::new(seed), 5);
        let mut plain = Plain::new(seed);
        for depth in 1..=3 {
            let expected = plain.root(&position, depth);
            let best = expected.values().copied().max().unwrap();
            let limits = Limits { depth: Some(depth), ..Limits::default() };
            let outcome = go(&mut minimax(seed, Settings::default()), &position, &limits);
            assert_eq!(outcome.lines[0].score, to_score(best), "{} depth {depth}", position.fen());
            let chosen = to_uci(&position, outcome.best.unwrap());
            assert_eq!(expected[&chosen], best, "{} depth {depth}", position.fen());
        }
    }
}

#[test]
fn siblings_are_evaluated_together_and_no_position_twice() {
    let start = Position::default();
    let limits = Limits { depth: Some(1), ..Limits::default() };
    let settings = Settings { quiet_leaves: false, ..Settings::default() };
    let mut search = minimax(3, settings.clone());
    assert_eq!(go(&mut search, &start, &limits).nodes, 20);
    assert_eq!(go(&mut search, &start, &limits).nodes, 0, "the cache lasts");
    search.clear();
    assert_eq!(go(&mut search, &start, &limits).nodes, 20);

    // With all siblings known, minimax of two plies takes far fewer than 20 x 20 evaluations.
    let limits = Limits { depth: Some(2), ..Limits::default() };
    let narrow =
        go(&mut minimax(3, Settings { batch: 1, ..settings.clone() }), &start, &limits).nodes;
    let wide = go(&mut minimax(3, Settings { batch: 64, ..settings }), &start, &limits).nodes;
    assert_eq!(wide, 20 + 20 * 20, "a batch of all siblings cannot be cut short");
    assert!(narrow < 200, "{narrow}");
}
