//! Engines with faults: each fault is named and blamed on its engine, and costs it the game only.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::{path::PathBuf, sync::atomic::AtomicBool, time::Duration};

use arena::{
    Match, MatchSettings, PlayerKind, PlayerSpec, Results, Rules, TimeControl, TournamentFormat,
};
use uci::client::EngineSpec;

/// The example `faulty_engine`, which cargo builds with the tests.
fn program() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().parent().unwrap().join("examples").join("faulty_engine")
}

fn player(fault: &str, control: TimeControl) -> PlayerSpec {
    let spec = EngineSpec {
        program: program(),
        arguments: vec![fault.to_owned()],
        ..EngineSpec::default()
    };
    PlayerSpec { name: None, kind: PlayerKind::Engine(spec), control, identity: fault.to_owned() }
}

fn play(players: Vec<PlayerSpec>, rules: Rules) -> (Vec<String>, Results) {
    let settings = MatchSettings {
        players,
        format: TournamentFormat::Gauntlet,
        games: 2,
        rules,
        tables: None,
        openings: arena::balanced(),
        jobs: 2,
        start_timeout: Duration::from_secs(60),
        times: false,
    };
    let arranged = Match::new(settings).unwrap();
    let mut reported = 0;
    let stop = AtomicBool::new(false);
    let results = arranged.run(Results::default(), &stop, &mut |_, _| reported += 1).unwrap();
    assert_eq!(results.len(), arranged.games());
    assert_eq!(reported, arranged.games());
    (arranged.names().to_vec(), results)
}

#[test]
fn every_fault_is_named() {
    let cases = [
        ("crash", "crash"),
        ("hang", "stall"),
        ("illegal", "illegal move"),
        ("close", "closed output"),
        ("flood", "flood"),
    ];
    let control = TimeControl::Nodes(1);
    let mut players = vec![player("proper", control)];
    players.extend(cases.iter().map(|(fault, _)| match *fault {
        // Its limit is the time that the test takes.
        "hang" => player(fault, TimeControl::MoveTime(Duration::from_secs(5))),
        fault => player(fault, control),
    }));
    let rules = Rules {
        max_plies: 20,
        untimed: Duration::from_secs(20),
        stall: Duration::ZERO,
        ..Rules::default().without_adjudication()
    };
    let (names, results) = play(players, rules);
    assert_eq!(results.faults(0).len(), 0, "the proper engine is never blamed");
    for (index, (fault, kind)) in (1..).zip(cases) {
        assert_eq!(names[index], format!("faulty {fault}"));
        let faults: Vec<(&str, usize)> = results.faults(index).into_iter().collect();
        assert_eq!(faults, [(kind, 2)]);
        assert_eq!(results.of(index).tally.losses, 2);
    }
    for game in results.games() {
        assert!(game.pgn.contains("[Fault \""), "{}", game.pgn);
        // After the opening each side plays two moves, and the opponent perhaps a third.
        let opening = arena::balanced()[game.opening].moves().len();
        assert!((opening + 4..=opening + 5).contains(&game.plies), "{}", game.pgn);
    }
}

#[test]
fn a_late_move_loses_the_game_only() {
    let slow = TimeControl::MoveTime(Duration::from_millis(1));
    let players = vec![player("proper", TimeControl::Nodes(1)), player("late", slow)];
    let rules = Rules {
        max_plies: 20,
        margin: Duration::from_millis(1500),
        stall: Duration::from_secs(60),
        ..Rules::default()
    };
    let (_, results) = play(players, rules);
    assert_eq!(results.faults(1).get("time forfeit"), Some(&2));
    assert_eq!(results.faults(0).len(), 0);
}
