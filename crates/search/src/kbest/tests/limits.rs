//! What ends a search: a stop, and a limit of evaluations where none are made.

use super::*;

#[test]
fn an_infinite_search_ends_when_it_is_stopped() {
    let control = Control::default();
    let limits = Limits { infinite: true, depth: Some(1), ..Limits::default() };
    let stopper = control.clone();
    let started = std::time::Instant::now();
    let thread = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(60));
        stopper.stop();
    });
    let outcome = kbest(1, 1, 1).search(&Game::default(), &limits, &control, &mut |_| {}).unwrap();
    assert!(started.elapsed() >= Duration::from_millis(60));
    assert!(outcome.best.is_some());
    thread.join().unwrap();
}

/// Where every position was known, no evaluation ended a search: it went on for minutes.
#[test]
fn a_limit_of_evaluations_ends_a_search_of_known_positions() {
    let blocked = "8/8/4k3/1p1p1p1p/1P1P1P1P/4K3/8/8 w - - 0 100";
    let game = Game::new(Position::from_fen(blocked, CastlingMode::Standard).unwrap());
    let limits = Limits { nodes: Some(2_000), ..Limits::default() };
    for batch in [1, 64] {
        let mut search = kbest(1, batch, 1);
        for _ in 0..2 {
            let outcome = search.search(&game, &limits, &Control::default(), &mut |_| {}).unwrap();
            let depth = outcome.lines[0].depth;
            assert!(outcome.nodes < 2_000 && depth < 30, "{} to depth {depth}", outcome.nodes);
        }
    }
}
