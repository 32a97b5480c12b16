//! Which positions are evaluated, how many in a batch, and none twice.

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use super::*;

#[test]
fn node_limits_are_exact() {
    for nodes in [0, 1, 2, 7, 100, 1000, 3001] {
        for batch in [1, 8, 256] {
            let limits = Limits { nodes: Some(nodes), ..Limits::default() };
            let ahead = over(Mock::new(3).keeping(2), 3, batch, 1);
            let one_by_one = over(Mock::new(3).preferring(1).keeping(9), 3, 0, 1);
            let apart = over(Mock::new(3).preferring(1).with_dear_moves(), 3, batch, 1);
            let plain = [kbest(3, batch, 1), as_it_plays(3, batch, 1)];
            for mut search in plain.into_iter().chain([ahead, one_by_one, apart]) {
                let outcome = search
                    .search(&Game::default(), &limits, &Control::default(), &mut |_| {})
                    .unwrap();
                // The move is chosen by one evaluation at least.
                assert_eq!(outcome.nodes, nodes.max(1), "K {batch}");
                assert!(outcome.best.is_some());
            }
        }
    }
}

/// Where moves are dear they are asked for later, for few positions, and that changes nothing else.
#[test]
fn leaves_ask_for_dear_moves_only_where_they_are_needed() {
    let (mut asked, mut evaluations) = ([0; 2], [0; 2]);
    for seed in (1..40).step_by(2) {
        let game = Game::new(small_position(&mut SplitMix64::new(seed), 8));
        let lines = [false, true].map(|are_dear| {
            let mock = Mock::new(seed).preferring(1).with_policy();
            let mock = if are_dear { mock.with_dear_moves() } else { mock };
            let counting = Counting::over(mock);
            let moves = Arc::clone(&counting.moves);
            let settings = Settings { batch: 1, hash_mib: 16, ..Settings::default() };
            let calibration =
                Calibration { move_scores: MoveScores::Policy, ..Calibration::default() };
            let mut search = KBest::new(Box::new(counting), &calibration, &settings);
            let lines = lines_of(&mut search, &game, 6);
            asked[usize::from(are_dear)] += moves.load(Ordering::Relaxed);
            evaluations[usize::from(are_dear)] += lines[0].nodes;
            lines.into_iter().map(|line| (line.score, line.pv)).collect::<Vec<_>>()
        });
        assert_eq!(lines[0], lines[1], "{seed}");
    }
    assert!(2 * asked[1] < asked[0], "positions whose moves were asked for: {asked:?}");
    // Scores that the cache lost are asked for again; that counts only together with the value.
    assert!(evaluations[1] <= evaluations[0], "{evaluations:?}");
    assert!(evaluations[1] * 100 > evaluations[0] * 99, "{evaluations:?}");
}

/// A search that may not begin chooses by the policy, though it knows the value already.
#[test]
fn a_move_without_search_is_the_policys() {
    for seed in (1..40).step_by(2) {
        let game = Game::new(small_position(&mut SplitMix64::new(seed), 8));
        let limits = Limits { movetime: Some(Duration::ZERO), ..Limits::default() };
        let [fresh, knows_value] = [false, true].map(|knows_value| {
            let mock = Mock::new(seed).preferring(1).with_dear_moves();
            let mut search = over(mock, seed, 1, 1);
            if knows_value {
                search.cache.store_value(game.position().key(), 10);
            }
            search.search(&game, &limits, &Control::default(), &mut |_| {}).unwrap().best
        });
        assert_eq!(fresh, knows_value, "{seed}");
    }
}

/// Beyond the evaluator's preferred batch only certain work is evaluated, so larger batches cost
/// few further evaluations.
#[test]
fn uncertain_work_waits_beyond_the_preferred_batch() {
    let spent = |preferred: usize, batch: usize, fill: usize| {
        let mut all = 0;
        for seed in (1..60).step_by(2) {
            let game = Game::new(small_position(&mut SplitMix64::new(seed), 8));
            let mut search = over(Mock::new(seed).preferring(preferred), seed, batch, 1);
            search.settings.fill = fill;
            all += lines_of(&mut search, &game, 5)[0].nodes;
        }
        all as f64
    };
    let (single, sure, full) = (spent(1, 1, 0), spent(1, 64, 0), spent(64, 64, 0));
    assert!(sure < 1.4 * single && full > 1.3 * sure, "{single} {sure} {full}");
    // With an explicit batch size or fill it does not wait.
    assert_eq!([spent(1, 64, 64), spent(1, 0, 64), spent(64, 64, 1)], [full, full, sure]);
}

/// Counts repeated queries, those for moves, and batches in flight.
struct Counting {
    inner: Mock,
    seen: HashSet<(u64, bool, bool)>,
    again: Arc<AtomicUsize>,
    moves: Arc<AtomicUsize>,
    most_in_flight: Arc<AtomicUsize>,
    /// Number of waits, and the sum of the batches in flight at each.
    waits: Arc<AtomicUsize>,
    waiting: Arc<AtomicUsize>,
}

impl Counting {
    fn over(inner: Mock) -> Self {
        Self {
            inner,
            seen: HashSet::new(),
            again: Arc::default(),
            moves: Arc::default(),
            most_in_flight: Arc::default(),
            waits: Arc::default(),
            waiting: Arc::default(),
        }
    }
}

impl Evaluator for Counting {
    fn submit(&mut self, batch: Batch) -> Result<(), EvalError> {
        for query in &batch.queries {
            self.moves.fetch_add(usize::from(query.move_count > 0), Ordering::Relaxed);
            let question = (query.key, query.value, query.move_count > 0);
            if !self.seen.insert(question) {
                self.again.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.inner.submit(batch)?;
        self.most_in_flight.fetch_max(self.inner.in_flight(), Ordering::Relaxed);
        Ok(())
    }
    fn wait(&mut self) -> Result<Answered, EvalError> {
        self.waits.fetch_add(1, Ordering::Relaxed);
        self.waiting.fetch_add(self.inner.in_flight(), Ordering::Relaxed);
        self.inner.wait()
    }
    fn in_flight(&self) -> usize {
        self.inner.in_flight()
    }
    fn preferred_batch(&self) -> usize {
        self.inner.preferred_batch()
    }
    fn largest_batch(&self) -> usize {
        4096
    }
    fn preferred_stream(&self) -> Stream {
        self.inner.preferred_stream()
    }
    fn describe(&self) -> String {
        self.inner.describe()
    }
}

#[test]
fn an_evaluation_is_never_made_twice() {
    let game = Game::default();
    for (move_scores, preferred, in_flight) in [
        (MoveScores::Centipawns, 16, 1),
        (MoveScores::Policy, 16, 1),
        (MoveScores::Centipawns, 16, 2),
        (MoveScores::Policy, 16, 3),
        (MoveScores::Policy, 1, 9),
    ] {
        let calibration = Calibration { move_scores, ..Calibration::default() };
        let evaluator = Counting::over(Mock::new(9).preferring(preferred).keeping(in_flight));
        let [again, most_in_flight] = [&evaluator.again, &evaluator.most_in_flight].map(Arc::clone);
        let settings = Settings { hash_mib: 512, ..Settings::default() };
        let mut search = KBest::new(Box::new(evaluator), &calibration, &settings).exact();
        let limits = Limits { depth: Some(4), ..Limits::default() };
        let first = search.search(&game, &limits, &Control::default(), &mut |_| {}).unwrap();
        let second = search.search(&game, &limits, &Control::default(), &mut |_| {}).unwrap();
        // Except for positions that share a slot of the cache.
        let again = again.load(Ordering::Relaxed) as u64;
        assert!(first.nodes > 500 && again * 200 < first.nodes, "{again} of {}", first.nodes);
        assert_eq!(second.nodes, 0);
        assert_eq!(most_in_flight.load(Ordering::Relaxed), in_flight);
        assert_eq!(first.lines[0].score, second.lines[0].score);
        assert_eq!(first.best, second.best);
    }
}

/// With little memory and a large K the search continues with the nodes that fit.
#[test]
fn a_full_memory_does_not_end_the_search() {
    for (mock, move_scores) in
        [(Mock::new(2), MoveScores::Centipawns), (Mock::new(2).with_policy(), MoveScores::Policy)]
    {
        let settings = Settings { batch: 4096, hash_mib: 1, ..Settings::default() };
        let calibration = Calibration { move_scores, ..Calibration::default() };
        let mut search = KBest::new(Box::new(mock), &calibration, &settings);
        let limits = Limits { nodes: Some(20_000), ..Limits::default() };
        let outcome =
            search.search(&Game::default(), &limits, &Control::default(), &mut |_| {}).unwrap();
        assert_eq!(outcome.nodes, 20_000);
    }
}

/// Questions ahead take no memory from the one that is asked.
#[test]
fn with_hardly_any_memory_values_are_the_same() {
    for seed in (1..80).step_by(2) {
        let position = small_position(&mut SplitMix64::new(seed), 6);
        let expected = Plain::new(seed).root(&position, 3).into_values().max().unwrap();
        let mut search = kbest(seed, 64, 1);
        search.searcher.node_limit = 24;
        let lines = lines_of(&mut search, &Game::new(position.clone()), 3);
        assert_eq!(lines[0].score, to_score(expected), "{}", position.fen());
    }
}

/// Questions ahead fill batches that one question would not, so some questions are answered before
/// they are asked.
#[test]
fn questions_are_answered_ahead() {
    let (mut deeper, mut reprioritised_at) = (0, 0);
    for seed in (1..60).step_by(2) {
        let position = small_position(&mut SplitMix64::new(seed), 6);
        let mut search = as_it_plays(seed, 64, 1);
        let moves: Vec<(Move, u8)> = position.legal_moves().into_iter().zip(0..).collect();
        let (depth, last_depth) = (2 * PLY, 5 * PLY);
        let root = Root {
            position: &position,
            moves: &moves,
            has_all_moves: true,
            history: &[],
            depth,
            last_depth,
        };
        let control = Control::default();
        let mut timer = TimeManager::new(&Limits::default(), Duration::ZERO, &control);
        let (cache, evaluator) = (&mut search.cache, &mut search.evaluator);
        let mut context = Context { cache, evaluator, timer: &mut timer };
        let end = search.searcher.pass(&root, 0, 64, &mut context).unwrap();
        assert!(matches!(end, PassEnd::Decided(_)));
        let answered = |depth| search.cache.bounds(root.key(), depth);
        deeper += (depth + 1..=last_depth).filter(|&depth| answered(depth).is_some()).count();
        reprioritised_at += usize::from(search.searcher.reprioritised_at > 0);
    }
    assert!(deeper > 5 && reprioritised_at > 0, "{deeper} {reprioritised_at}");
}

#[test]
fn without_time_one_position_is_evaluated() {
    let limits = Limits { movetime: Some(std::time::Duration::ZERO), ..Limits::default() };
    let outcome = as_it_plays(3, 1, 1)
        .search(&Game::default(), &limits, &Control::default(), &mut |_| {})
        .unwrap();
    assert_eq!((outcome.nodes, outcome.lines.len()), (1, 1));
}

/// Nodes that wait for a key in flight do not hold up other requests: a position may be requested
/// at several depths and bounds.
#[test]
fn a_stream_of_single_positions_does_not_run_dry() {
    for seed in 0..4 {
        let evaluator = Counting::over(Mock::new(seed).with_policy().preferring(1).keeping(9));
        let [waits, waiting] = [&evaluator.waits, &evaluator.waiting].map(Arc::clone);
        let calibration = Calibration { move_scores: MoveScores::Policy, ..Calibration::default() };
        let mut search = KBest::new(Box::new(evaluator), &calibration, &Settings::default());
        let limits = Limits { nodes: Some(3_000), ..Limits::default() };
        search.search(&Game::default(), &limits, &Control::default(), &mut |_| {}).unwrap();
        let mean = waiting.load(Ordering::Relaxed) as f64 / waits.load(Ordering::Relaxed) as f64;
        assert!(mean > 8.4, "{mean} in flight on average");
    }
}
