//! Shares of the clock, pondering, and what ends a search.

use super::*;

#[test]
fn a_stable_move_takes_less_time_and_a_falling_value_more() {
    let moves = board::Position::default().legal_moves();
    let mut iterations = IterationStats::default();
    assert_eq!(iterations.factor(), 1.0);
    iterations.note(moves[0], 20, Some(0.5));
    let fresh = iterations.factor();
    (0..6).for_each(|_| iterations.note(moves[0], 25, Some(0.5)));
    let settled = iterations.factor();
    assert!(settled < 1.0 && fresh > 1.0, "{settled} {fresh}");
    iterations.note(moves[0], 25, Some(0.9));
    assert!(iterations.factor() < settled, "nothing else is looked at");
    iterations.note(moves[0], -40, Some(0.5));
    assert!(iterations.factor() > settled, "it is worth less than it seemed");
    iterations.note(moves[1], -40, Some(0.5));
    assert!(iterations.factor() >= fresh, "another move");
}

#[test]
fn the_clock_runs_from_the_ponder_hit_not_from_when_it_is_seen() {
    let control = Control::default();
    let time = Duration::from_millis(20);
    let limits = Limits { movetime: Some(time), ponder: true, ..Limits::default() };
    let mut timer = TimeManager::new(&limits, Duration::ZERO, &control);
    thread::sleep(time);
    assert!(!timer.is_over(), "the opponent thinks");
    control.ponder_hit();
    thread::sleep(time);
    assert!(timer.is_over());
}

#[test]
fn what_was_pondered_need_not_be_thought_again() {
    let control = Control::default();
    let clock = Clock {
        remaining: Duration::from_millis(2_800),
        increment: Duration::ZERO,
        moves_to_go: None,
    };
    let limits = Limits { clock: Some(clock), ponder: true, ..Limits::default() };
    let mut timer = TimeManager::new(&limits, Duration::ZERO, &control);
    assert!(!timer.is_late(1.0) && !timer.is_spent(), "the opponent thinks");
    thread::sleep(Duration::from_millis(110));
    assert!(!timer.is_late(1.0) && !timer.is_spent(), "the opponent still thinks");
    control.ponder_hit();
    assert!(timer.is_late(1.0) && timer.is_spent(), "a hundred milliseconds are usual here");
    assert!(timer.is_over(), "so the depth that was begun is not ended either");
}

#[test]
fn a_hit_is_answered_at_once_if_the_usual_time_was_pondered() {
    for (remaining, moves_to_go, increment, pondered, at_once) in [
        (2_800, None, 0, 115, true),
        (1_400, None, 0, 60, true),
        (560, None, 0, 40, true),
        (280, None, 0, 30, true),
        (100, Some(1), 0, 120, true),
        (1_000, Some(20), 0, 80, true),
        (28_000, None, 0, 0, false),
        (280_000, None, 0, 20, false),
        (2_800_000, None, 0, 50, false),
        (60_000, Some(2), 0, 50, false),
        (28_000, None, 10_000, 50, false),
    ] {
        let control = Control::default();
        let clock = Clock {
            remaining: Duration::from_millis(remaining),
            increment: Duration::from_millis(increment),
            moves_to_go,
        };
        let limits = Limits { clock: Some(clock), ponder: true, ..Limits::default() };
        let mut timer = TimeManager::new(&limits, Duration::ZERO, &control);
        thread::sleep(Duration::from_millis(pondered));
        assert!(!timer.is_over(), "the opponent thinks");
        control.ponder_hit();
        let (late, over) = (timer.is_late(1.0), timer.is_over());
        assert_eq!((late, over), (at_once, at_once), "{remaining} ms, {pondered} ms pondered");
    }
}

/// Where every position was known, a search of a bare endgame went on for minutes.
#[test]
fn steps_without_evaluations_end_a_search_with_a_limit() {
    let control = Control::default();
    let steps_until_over = |nodes| {
        let limits = Limits { nodes, ..Limits::default() };
        let mut timer = TimeManager::new(&limits, Duration::ZERO, &control);
        (1..1_000_000).find(|_| timer.is_over_at_step())
    };
    let steps = steps_until_over(Some(1_000)).unwrap();
    assert!((110_000..111_000).contains(&steps), "{steps}");
    assert_eq!(steps_until_over(Some(u64::MAX)), None);
    assert_eq!(steps_until_over(None), None);
}

#[test]
fn evaluations_in_flight_count_for_time_but_not_for_speed() {
    let control = Control::default();
    let limits = Limits { movetime: Some(Duration::from_secs(1)), ..Limits::default() };
    let mut timer = TimeManager::new(&limits, Duration::ZERO, &control);
    timer.send(10);
    assert_eq!(timer.affordable(), UNTIMED_BATCH - 10);
    thread::sleep(Duration::from_millis(5));
    timer.receive(10);
    assert!((1..=2_000).contains(&timer.affordable()));
    timer.send(1_000_000);
    assert_eq!(timer.affordable(), 0);
    assert_eq!(timer.nodes(), 1_000_010);
}

#[test]
fn a_move_never_takes_the_whole_clock() {
    for (overhead, remaining) in [10, 100, 1_000].into_iter().flat_map(|overhead| {
        let remaining = [0, 1, 5, 10, 11, 20, 100, 1_000, 2_000, 20_000, 60_000, 7_200_000];
        remaining.map(|remaining| (Duration::from_millis(overhead), remaining))
    }) {
        for increment in [0, 10, 1_000, 30_000] {
            for moves_to_go in [None, Some(0), Some(1), Some(2), Some(40), Some(u32::MAX)] {
                let clock = Clock {
                    remaining: Duration::from_millis(remaining),
                    increment: Duration::from_millis(increment),
                    moves_to_go,
                };
                let (soft, hard) = shares(clock, overhead);
                assert!(soft <= hard || hard.is_zero(), "{clock:?}: {soft:?} {hard:?}");
                assert!(
                    hard + overhead <= clock.remaining || hard.is_zero(),
                    "{clock:?}: {hard:?}"
                );
                assert!(
                    soft > Duration::ZERO || clock.remaining <= overhead,
                    "{clock:?}: no time at all"
                );
            }
        }
    }
}
