//! The search against plain negamax, and against mates that are known.

mod batches;
mod limits;
mod selective;
mod threads;

use std::{collections::HashMap, time::Duration};

use board::{
    CastlingMode, Game, Move, Position, Score, SplitMix64, testing::small_position, to_uci,
};
use eval::{Answered, Batch, EvalError, Evaluator, Mock, Stream};
use nets::{Calibration, MoveScores};

use super::{
    keys::cache_key,
    pass::{Context, PassEnd, Root},
    *,
};
use crate::{
    Bound, View,
    plain::{Plain, mates_in, plain_without_quiet},
    score::{child_bound, to_score},
    selectivity::PLY,
};

fn kbest(seed: u64, batch: usize, multipv: usize) -> KBest {
    as_it_plays(seed, batch, multipv).exact()
}

/// With selectivity, over an evaluator that likes batches of 64.
fn as_it_plays(seed: u64, batch: usize, multipv: usize) -> KBest {
    over(Mock::new(seed), seed, batch, multipv)
}

fn over(evaluator: Mock, seed: u64, batch: usize, multipv: usize) -> KBest {
    // Odd seeds: the move scores are a policy.
    let (evaluator, move_scores) = if seed % 2 == 1 {
        (evaluator.with_policy(), MoveScores::Policy)
    } else {
        (evaluator, MoveScores::Centipawns)
    };
    let bins = vec![20.0, 60.0, 150.0, 300.0];
    let calibration = Calibration { bins, move_scores, ..Calibration::default() };
    let settings = Settings { batch, multipv, hash_mib: 16, ..Settings::default() };
    KBest::new(Box::new(evaluator), &calibration, &settings)
}

fn lines_of(search: &mut KBest, game: &Game, depth: u32) -> Vec<SearchInfo> {
    let limits = Limits { depth: Some(depth), ..Limits::default() };
    search.search(game, &limits, &Control::default(), &mut |_| {}).unwrap().lines
}

/// Every root move's value, so also the set of best moves, equals plain negamax, whatever K is.
fn compare(positions: std::ops::Range<u64>, depths: std::ops::RangeInclusive<u32>, pieces: usize) {
    std::thread::scope(|scope| {
        let half = (positions.start + positions.end) / 2;
        for part in [positions.start..half, half..positions.end] {
            let depths = depths.clone();
            scope.spawn(move || {
                for seed in part {
                    let position = small_position(&mut SplitMix64::new(seed), pieces);
                    let game = Game::new(position.clone());
                    let mut plain = Plain::new(seed);
                    for depth in depths.clone() {
                        let expected = plain.root(&position, depth);
                        // K, the evaluator's preferred batch, batches in flight, threads, dear moves.
                        let ways = [
                            (1, 64, 1, 1, false),
                            (8, 64, 1, 1, false),
                            (64, 64, 1, 1, false),
                            (1024, 64, 1, 1, false),
                            (64, 8, 1, 1, false),
                            (8, 8, 2, 1, false),
                            (0, 1, 9, 1, false),
                            (0, 1, 1, 3, false),
                            (1, 1, 1, 1, true),
                            (0, 1, 1, 3, true),
                        ];
                        for (batch, preferred, in_flight, threads, dear) in ways {
                            let mock = Mock::new(seed).preferring(preferred).keeping(in_flight);
                            let mock = mock.with_threads(threads);
                            let mock = if dear { mock.with_dear_moves() } else { mock };
                            let mut search = over(mock, seed, batch, usize::MAX).exact();
                            let found: HashMap<String, Score> = lines_of(&mut search, &game, depth)
                                .iter()
                                .map(|line| (to_uci(&position, line.pv[0]), line.score))
                                .collect();
                            let expected: HashMap<String, Score> =
                                expected.iter().map(|(mv, &value)| (mv.clone(), to_score(value))).collect();
                            let differing: Vec<_> = expected
                                .iter()
                                .filter(|&(mv, score)| found.get(mv) != Some(score))
                                .map(|(mv, score)| (mv, found.get(mv), score))
                                .collect();
                            assert!(
                                differing.is_empty() && found.len() == expected.len(),
                                "{} depth {depth} K {batch}, {preferred} preferred, {in_flight} in flight, {threads} threads: (move, found, \
                                 expected) {differing:?}",
                                position.fen()
                            );
                        }
                    }
                }
            });
        }
    });
}

#[test]
fn equals_plain_negamax_on_500_small_positions() {
    compare(0..500, 1..=3, 4);
}

#[test]
fn equals_plain_negamax_at_depth_4() {
    compare(0..500, 4..=4, 2);
}

/// With one line only, the value is the largest and the move one of the best.
#[test]
fn one_line_finds_the_value_and_a_best_move() {
    for seed in 0..200 {
        let position = small_position(&mut SplitMix64::new(seed), 5);
        let game = Game::new(position.clone());
        let expected = Plain::new(seed).root(&position, 3);
        let best = expected.values().copied().max().unwrap();
        for batch in [1, 64] {
            let lines = lines_of(&mut kbest(seed, batch, 1), &game, 3);
            assert_eq!(lines[0].score, to_score(best), "{}", position.fen());
            assert_eq!(expected[&to_uci(&position, lines[0].pv[0])], best, "{}", position.fen());
        }
    }
}

/// Unlikely replies have a penalty where a move is to be played, exactly as in negamax with the
/// same penalties; in an analysis they have none, also right after such a search.
#[test]
fn unlikely_replies_have_a_penalty_where_a_move_is_to_be_played() {
    for seed in (1..200).step_by(2) {
        let position = small_position(&mut SplitMix64::new(seed), 4);
        let game = Game::new(position.clone());
        let mut search = kbest(seed, 8, usize::MAX);
        let settings = Settings { opponent_errors: 40, ..search.settings.clone() };
        search.configure(&settings);
        let depth = Limits { depth: Some(3), ..Limits::default() };
        let playing = Limits { nodes: Some(1 << 40), ..depth.clone() };
        let analysing = Limits { analysis: true, ..playing.clone() };
        for (limits, errors) in [(playing, 40), (depth, 0), (analysing, 0)] {
            let expected = Plain { errors, ..Plain::new(seed) }.root(&position, 3);
            let lines =
                search.search(&game, &limits, &Control::default(), &mut |_| {}).unwrap().lines;
            assert_eq!(lines.len(), expected.len());
            for line in lines {
                let mv = to_uci(&position, line.pv[0]);
                assert_eq!(
                    line.score,
                    to_score(expected[&mv]),
                    "{} {mv}, errors {errors}",
                    position.fen()
                );
            }
        }
    }
}

#[test]
fn every_mate_in_one_two_and_three_is_found() {
    let mut dice = SplitMix64::new(2018);
    let mut found = [0; 4];
    while found[1] < 40 || found[2] < 40 || found[3] < 15 {
        let position = small_position(&mut dice, 4);
        let Some(moves) = (1..=3).find(|&moves| mates_in(&position, moves)) else { continue };
        if found[moves as usize] >= 40 {
            continue;
        }
        found[moves as usize] += 1;
        let game = Game::new(position.clone());
        for batch in [1, 32] {
            let line = &lines_of(&mut kbest(1, batch, 1), &game, 2 * moves - 1)[0];
            assert_eq!(line.score, Score::Mate(moves as i32), "{}", position.fen());
            assert_eq!(line.bound, Bound::Exact);
        }
        // With the limit `mate` the selective search finds it too, also after another search.
        let mut search = as_it_plays(1, 8, 1);
        lines_of(&mut search, &game, 2);
        let limits = Limits { mate: Some(moves), ..Limits::default() };
        let outcome = search.search(&game, &limits, &Control::default(), &mut |_| {}).unwrap();
        assert_eq!(outcome.lines[0].score, Score::Mate(moves as i32), "{}", position.fen());
    }
}

#[test]
fn an_unlikely_reply_that_draws_is_seen() {
    // After the white knight's second return, the black knight's return repeats the position for
    // the third time.
    let mut game = Game::default();
    for text in ["g1f3", "g8f6", "f3g1", "f6g8", "g1f3", "g8f6"] {
        let mv = board::parse_uci(game.position(), text).unwrap();
        game.play(mv);
    }
    for seed in (1..40).step_by(2) {
        let lines = lines_of(&mut as_it_plays(seed, 8, 256), &game, 4);
        let back = lines.iter().find(|line| to_uci(game.position(), line.pv[0]) == "f3g1").unwrap();
        assert!(
            back.score.order() <= Score::Centipawns(0).order(),
            "seed {seed}: {:?}",
            back.score
        );
    }
}

/// Only taking the pawn draws; every other reply is worth the same to a search that asks whether
/// White wins.
#[test]
fn the_reply_of_a_drawn_line_draws() {
    let position =
        Position::from_fen("1k6/8/P7/8/8/8/8/7K w - - 0 1", CastlingMode::Standard).unwrap();
    let advance = board::parse_uci(&position, "a6a7").unwrap();
    let game = Game::new(position);
    let mut drawn = 0;
    for seed in 0..40 {
        let limits = Limits { depth: Some(4), search_moves: vec![advance], ..Limits::default() };
        let mut search = as_it_plays(seed, 1, 1);
        let found = search.search(&game, &limits, &Control::default(), &mut |_| {}).unwrap();
        let line = &found.lines[0];
        if line.score == Score::Centipawns(0) {
            drawn += 1;
            let reply = to_uci(&game.position().after(advance), line.pv[1]);
            assert_eq!(reply, "b8a7", "seed {seed}");
        }
    }
    assert!(drawn >= 20, "{drawn} lines are drawn");
}

#[test]
fn a_third_repetition_is_a_draw() {
    // Only a repetition saves Black; White is a queen up.
    let position =
        Position::from_fen("7k/8/8/8/8/8/2Q5/K7 w - - 0 1", CastlingMode::Standard).unwrap();
    let mut game = Game::new(position);
    for text in ["c2c1", "h8g8", "c1c2", "g8h8", "c2c1", "h8g8", "c1c2"] {
        let mv = board::parse_uci(game.position(), text).unwrap();
        game.play(mv);
    }
    // Black to move: g8h8 would be the third occurrence of the start.
    let limits = Limits { depth: Some(1), ..Limits::default() };
    let mut search = kbest(5, 1, usize::MAX);
    let outcome = search.search(&game, &limits, &Control::default(), &mut |_| {}).unwrap();
    let repeated =
        outcome.lines.iter().find(|line| to_uci(game.position(), line.pv[0]) == "g8h8").unwrap();
    assert_eq!(repeated.score, Score::Centipawns(0));
}

/// An evaluator: -1000 where Black is to move, 0 where White is.
struct ForWhite(Mock);

impl Evaluator for ForWhite {
    fn submit(&mut self, batch: Batch) -> Result<(), EvalError> {
        self.0.submit(batch)
    }
    fn wait(&mut self) -> Result<Answered, EvalError> {
        let mut answered = self.0.wait()?;
        for (query, value) in answered.batch.queries.iter().zip(&mut answered.scores.values) {
            *value = if query.turn.is_white() { 0.0 } else { -1000.0 };
        }
        Ok(answered)
    }
    fn in_flight(&self) -> usize {
        self.0.in_flight()
    }
    fn preferred_batch(&self) -> usize {
        self.0.preferred_batch()
    }
    fn largest_batch(&self) -> usize {
        self.0.largest_batch()
    }
    fn describe(&self) -> String {
        self.0.describe()
    }
}

/// Delta pruning prunes captures that cannot reach the bound, but not one that mates.
#[test]
fn delta_pruning_keeps_captures_that_mate() {
    let fen = "6k1/1b3ppp/8/6q1/8/8/5PPP/R4RK1 w - - 0 1";
    let game = Game::new(Position::from_fen(fen, CastlingMode::Standard).unwrap());
    for depth in 1..=2 {
        let settings = Settings { multipv: usize::MAX, ..Settings::default() };
        let mut search =
            KBest::new(Box::new(ForWhite(Mock::new(1))), &Calibration::default(), &settings);
        let lines = lines_of(&mut search, &game, depth);
        let mut mated = 0;
        for line in &lines {
            let after = game.position().after(line.pv[0]);
            let mates = |mv| {
                let last = after.after(mv);
                last.is_check() && !last.has_legal_moves()
            };
            let is_mated = after.legal_moves().into_iter().any(mates);
            assert_eq!(
                line.score == Score::Mate(-1),
                is_mated,
                "{} at depth {depth}",
                to_uci(game.position(), line.pv[0])
            );
            mated += usize::from(is_mated);
        }
        assert!(mated > 5 && mated < lines.len());
    }
}

/// Checks every bound in the cache against plain negamax.
fn check_memory(search: &KBest, plain: &mut Plain, position: &Position, depth: u32) {
    if depth > 0 {
        for mv in position.legal_moves() {
            check_memory(search, plain, &position.after(mv), depth - 1);
        }
    }
    for at in 0..=depth {
        if let Some(bounds) = search.cache.bounds(cache_key(position), at as i16 * PLY) {
            let value = plain.value(position, at, &mut vec![]);
            assert!(
                bounds.lower <= value && value <= bounds.upper,
                "{} at depth {at}: {bounds:?}, but {value}",
                position.fen()
            );
        }
    }
}

#[test]
fn every_bound_in_the_cache_holds() {
    for seed in 0..60 {
        let position = small_position(&mut SplitMix64::new(seed), 2);
        let mut plain = Plain::new(seed);
        for batch in [1, 64] {
            let mut search = kbest(seed, batch, 1);
            lines_of(&mut search, &Game::new(position.clone()), 3);
            check_memory(&search, &mut plain, &position, 3);
        }
    }
}

#[test]
fn a_view_is_made_on_request_and_changes_nothing() {
    let limits = Limits { nodes: Some(3_000), ..Limits::default() };
    let mut search = as_it_plays(1, 16, 2);
    let control = Control::default();
    let unwatched = search.search(&Game::default(), &limits, &control, &mut |_| {}).unwrap();
    assert!(control.take_view().is_none(), "no view was asked for");

    let mut search = as_it_plays(1, 16, 2);
    let mut views = Vec::new();
    control.ask_for_view();
    let watched = search
        .search(&Game::default(), &limits, &control, &mut |_| {
            views.extend(control.take_view());
            control.ask_for_view();
        })
        .unwrap();
    assert_eq!((watched.best, watched.nodes), (unwatched.best, unwatched.nodes));
    assert!(views.len() >= 2);
    for view in &views {
        assert!(view.lower <= view.upper && (1..=2).contains(&view.line), "{view:?}");
        assert!((1..=view.width).contains(&view.batch) && view.width <= 16, "{view:?}");
        assert!(view.evaluations <= 16 * view.batches && view.evaluations <= 3_000, "{view:?}");
    }
    let entries = |view: &View| view.bins.iter().flatten().sum::<u32>();
    assert!(views.iter().any(|view| view.open > 1 && entries(view) > 0));
    assert!(views.is_sorted_by_key(|view| view.evaluations));
}

#[test]
fn the_search_of_2018_equals_plain_minimax() {
    for seed in 0..40 {
        let position = small_position(&mut SplitMix64::new(seed), 5);
        for depth in 1..=3 {
            for batch in [1, 8, 1024] {
                let expected = plain_without_quiet(&mut Mock::new(seed), &position, depth);
                // It has no opponent model, even where a move is to be played.
                for nodes in [None, Some(1 << 40)] {
                    let mut search = kbest(seed, batch, 1).classic();
                    search.configure(&Settings { opponent_errors: 40, ..search.settings.clone() });
                    let limits = Limits { depth: Some(depth), nodes, ..Limits::default() };
                    let game = Game::new(position.clone());
                    let outcome =
                        search.search(&game, &limits, &Control::default(), &mut |_| {}).unwrap();
                    let score = outcome.lines[0].score;
                    assert_eq!(
                        score,
                        to_score(expected),
                        "{} depth {depth}, K = {batch}",
                        position.fen()
                    );
                }
            }
        }
    }
}
