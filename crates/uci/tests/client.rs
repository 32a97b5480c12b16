//! Shell scripts that behave like faulty engines, one for each kind of fault.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::time::Duration;

use board::Game;
use uci::client::{ClientError, EngineProcess, EngineSpec, SearchRequest};

/// Longest wait for an engine that answers or ends.
const PATIENCE: Duration = Duration::from_secs(60);

/// Longest wait for an engine that never answers.
const SHORT_PATIENCE: Duration = Duration::from_millis(20);

/// An engine that shakes hands and then runs `on_go` (shell) on `go`.
fn scripted(on_go: &str) -> EngineSpec {
    let script = format!(
        r#"while read -r line; do
            case "$line" in
                uci) echo "id name scripted"; echo "option name Hash type spin default 1 min 1 max 9"; echo uciok;;
                isready) echo readyok;;
                go*) {on_go};;
                quit) exit 0;;
            esac
        done"#
    );
    EngineSpec {
        program: "/bin/sh".into(),
        arguments: vec!["-c".into(), script],
        ..EngineSpec::default()
    }
}

fn think(on_go: &str, patience: Duration) -> Result<uci::client::Answer, ClientError> {
    let mut engine = EngineProcess::start(&scripted(on_go), PATIENCE).unwrap();
    engine.think(&Game::default(), &SearchRequest::Nodes(1), patience)
}

#[test]
fn a_proper_engine() {
    let mut engine = EngineProcess::start(
        &scripted("echo info depth 1 score cp 20; echo bestmove e2e4 ponder e7e5"),
        PATIENCE,
    )
    .unwrap();
    assert_eq!(engine.name(), "scripted");
    assert!(engine.has_option("hash"));
    engine.new_game().unwrap();
    let answer = engine.think(&Game::default(), &SearchRequest::Depth(1), PATIENCE).unwrap();
    assert_eq!(answer.best.unwrap().to_uci(board::CastlingMode::Standard).to_string(), "e2e4");
    assert_eq!(answer.ponder.as_deref(), Some("e7e5"));
    assert_eq!(answer.score(), Some(board::Score::Centipawns(20)));
    assert!(matches!(engine.set_option("Contempt", "1"), Err(ClientError::NoOption { .. })));
    engine.quit();
}

#[test]
fn a_missing_program() {
    let spec = EngineSpec { program: "/nonexistent/engine".into(), ..EngineSpec::default() };
    assert!(matches!(EngineProcess::start(&spec, PATIENCE), Err(ClientError::Spawn { .. })));
}

#[test]
fn a_program_that_is_no_engine() {
    let silent = EngineSpec {
        program: "/bin/sleep".into(),
        arguments: vec!["20".into()],
        ..EngineSpec::default()
    };
    assert!(matches!(
        EngineProcess::start(&silent, SHORT_PATIENCE),
        Err(ClientError::NoHandshake { command: "uci", .. })
    ));
    let gone = EngineSpec { program: "/bin/true".into(), ..EngineSpec::default() };
    assert!(matches!(EngineProcess::start(&gone, PATIENCE), Err(ClientError::Crashed { .. })));
}

#[test]
fn a_crash() {
    let error = think("exit 3", PATIENCE).unwrap_err();
    assert!(matches!(&error, ClientError::Crashed { how, .. } if how.contains('3')), "{error}");
    let error = think("kill -SEGV $$", PATIENCE).unwrap_err();
    assert!(
        matches!(&error, ClientError::Crashed { how, .. } if how.contains("signal")),
        "{error}"
    );
}

#[test]
fn a_closed_output() {
    let error = think("exec >&-; sleep 20", PATIENCE).unwrap_err();
    assert!(matches!(&error, ClientError::ClosedOutput { .. }), "{error}");
}

#[test]
fn a_stall() {
    assert!(matches!(think("sleep 20", SHORT_PATIENCE), Err(ClientError::Stalled { .. })));
}

#[test]
fn a_flood() {
    for flood in ["exec yes info depth 1 score cp 1", "yes | tr -d '\\n'"] {
        let mut engine = EngineProcess::start(&scripted(flood), PATIENCE).unwrap();
        let error = engine
            .think(&Game::default(), &SearchRequest::Nodes(1), Duration::from_secs(300))
            .unwrap_err();
        assert!(matches!(error, ClientError::Flooded { .. }), "{flood}: {error}");
    }
}

#[test]
fn a_little_noise_is_a_stall() {
    let noisy = "for i in 1 2 3 4 5 6 7 8 9; do echo info depth $i score cp 1; done; sleep 20";
    assert!(matches!(think(noisy, SHORT_PATIENCE), Err(ClientError::Stalled { .. })));
}

#[test]
fn illegal_moves() {
    for answer in ["e2e5", "e7e5", "0000", "(none)", "", "Nf3", "e2e4q"] {
        let error = think(&format!("echo 'bestmove {answer}'"), PATIENCE).unwrap_err();
        assert!(matches!(error, ClientError::IllegalMove { .. }), "{answer}: {error}");
    }
}
