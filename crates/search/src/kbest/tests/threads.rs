//! Several threads: they end with the first one, keep to the limits, and report their errors.

use std::{
    thread,
    time::{Duration, Instant},
};

use super::*;

fn with_threads(seed: u64, threads: usize) -> KBest {
    over(Mock::new(seed).with_threads(threads), seed, 0, 1)
}

#[test]
fn evaluations_of_all_threads_are_counted() {
    let game = Game::default();
    let limits = Limits { depth: Some(7), ..Limits::default() };
    let mut counts = Vec::new();
    for threads in [1, 3] {
        let mut search = with_threads(1, threads);
        let mut last = 0;
        let outcome = search
            .search(&game, &limits, &Control::default(), &mut |info| {
                assert!(info.nodes >= last, "{} after {last}", info.nodes);
                last = info.nodes;
            })
            .unwrap();
        assert_eq!(outcome.lines[0].depth, 7);
        assert!(outcome.nodes >= last);
        counts.push((outcome.nodes, search.searcher.evaluations + 1));
    }
    let [(alone, own), (together, first)] = counts[..] else { unreachable!() };
    assert_eq!(alone, own, "one thread counts its own and the root's");
    assert!(together > first, "{together} of all, {first} of the first thread");
}

#[test]
fn a_number_of_evaluations_means_the_same_search_with_any_number_of_threads() {
    let limits = Limits { nodes: Some(2_000), ..Limits::default() };
    let found = [1, 4].map(|threads| {
        let mut lines = Vec::new();
        let mut search = with_threads(1, threads);
        search.configure(&Settings { batch: 1, ..search.settings.clone() });
        search
            .search(&Game::default(), &limits, &Control::default(), &mut |info| {
                lines.push((info.depth, info.score, info.nodes, info.pv.clone()));
            })
            .unwrap();
        lines
    });
    assert_eq!(found[0], found[1]);
}

#[test]
fn all_threads_stop_at_once_whatever_changes_in_between() {
    let mut random = SplitMix64::new(3);
    let mut search = with_threads(1, 4);
    for round in 0..60_u64 {
        let game = Game::new(small_position(&mut random, 6));
        let control = Control::default();
        let stopper = control.clone();
        let (infinite, ponder) = (round % 3 == 0, round % 3 == 1);
        let movetime = (round % 3 == 2).then_some(Duration::from_millis(10));
        let limits = Limits { infinite, ponder, movetime, ..Limits::default() };
        let stop = thread::spawn(move || {
            thread::sleep(Duration::from_millis(10));
            if ponder && round % 2 == 0 {
                stopper.ponder_hit();
            }
            thread::sleep(Duration::from_millis(2));
            stopper.stop();
            Instant::now()
        });
        let outcome = search.search(&game, &limits, &control, &mut |_| {}).unwrap();
        let ended = Instant::now();
        let stopped = stop.join().unwrap();
        assert!(ended < stopped + Duration::from_secs(5));
        let legal = game.position().legal_moves();
        assert_eq!(outcome.best.is_some(), !legal.is_empty());
        assert!(outcome.best.is_none_or(|best| legal.contains(&best)));
        match round % 5 {
            0 => search.clear(),
            1 => search.configure(&Settings {
                hash_mib: 1 + round as usize % 8,
                ..search.settings.clone()
            }),
            _ => {}
        }
    }
}

#[test]
fn only_allowed_moves_are_searched_by_any_thread() {
    let game = Game::default();
    let allowed = game.position().legal_moves()[5];
    let limits = Limits { depth: Some(5), search_moves: vec![allowed], ..Limits::default() };
    let mut search = with_threads(1, 3);
    let outcome = search.search(&game, &limits, &Control::default(), &mut |_| {}).unwrap();
    assert_eq!(outcome.best, Some(allowed));
}

/// Another thread has claimed these positions and never evaluates them.
#[test]
fn claimed_positions_are_evaluated_in_the_end() {
    let game = Game::default();
    let score = |is_claimed: bool, node_limit: usize| {
        let mut search = over(Mock::new(2), 2, 1, 1).exact();
        search.searcher.has_company = true;
        search.searcher.node_limit = node_limit;
        for mv in game.position().legal_moves() {
            let after = game.position().after(mv);
            for reply in after.legal_moves() {
                assert!(!is_claimed || search.cache.claim(after.after(reply).key()));
            }
            assert!(!is_claimed || search.cache.claim(after.key()));
        }
        lines_of(&mut search, &game, 3)[0].score
    };
    let expected = score(false, 10_000);
    assert_eq!(score(true, 10_000), expected);
    assert_eq!(score(true, 24), expected, "with hardly any memory for nodes");
}

/// An evaluator whose parts fail after so many batches.
struct Failing(Mock, usize);

impl Evaluator for Failing {
    fn submit(&mut self, batch: Batch) -> Result<(), EvalError> {
        if self.1 == 0 {
            return Err(EvalError::Device("it failed".to_owned()));
        }
        self.1 -= 1;
        self.0.submit(batch)
    }
    fn wait(&mut self) -> Result<Answered, EvalError> {
        self.0.wait()
    }
    fn in_flight(&self) -> usize {
        self.0.in_flight()
    }
    fn preferred_batch(&self) -> usize {
        1
    }
    fn largest_batch(&self) -> usize {
        1
    }
    fn describe(&self) -> String {
        String::new()
    }
    fn apart(&self) -> Vec<Box<dyn Evaluator>> {
        // The first thread's never fails.
        let part = |left| -> Box<dyn Evaluator> { Box::new(Self(Mock::new(1), left)) };
        vec![part(usize::MAX), part(100)]
    }
}

#[test]
fn the_error_of_a_helper_is_the_search_s() {
    let evaluator = Box::new(Failing(Mock::new(1), usize::MAX));
    let settings = Settings { hash_mib: 16, ..Settings::default() };
    let mut search = KBest::new(evaluator, &Calibration::default(), &settings);
    let limits = Limits { depth: Some(8), ..Limits::default() };
    let error = search.search(&Game::default(), &limits, &Control::default(), &mut |_| {});
    assert!(error.unwrap_err().to_string().contains("it failed"));
}
