//! Conversations with the engine loop, around a search whose every answer is known.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod support;

use support::Conversation;

#[test]
fn a_short_game() {
    let mut engine = Conversation::start();
    engine.send("uci");
    engine.expect("uciok");
    engine.ask("debug on");
    engine.send("ucinewgame");
    engine.send("position startpos moves e2e4 d7d5");
    engine.send("go depth 2");
    engine.expect("bestmove");
    engine.ask("setoption name MultiPV value 2");
    engine.send("setoption name UCI_ShowWDL value true");
    engine.send("go nodes 40");
    engine.expect("bestmove");
    engine.send("quit");
    engine.close();
    insta::assert_snapshot!(engine.transcript());
}

#[test]
fn complaints_are_sentences() {
    let mut engine = Conversation::start();
    engine.ask("");
    for line in [
        "hello",
        "setoption",
        "setoption name",
        "setoption name Hash",
        "setoption name Hash value 0",
        "setoption name Hash value -4",
        "setoption name Hash value 99999999999999999999",
        "setoption name Threads value two",
        "setoption name Ponder value yes",
        "setoption name Contempt value 10",
        "setoption name WeightsFile value bad.safetensors",
        "setoption name WeightsFile value <embedded>",
        "position",
        "position fen",
        "position fen nonsense",
        "position fen 8/8/8/8/8/8/8/8 w - - 0 1",
        "position fen rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNRR w KQkq - 0 1",
        "position fen k7/8/8/8/8/8/8/K6R b - - 0 1 moves a8b8 h1h8 b8b9 b8b7",
        "position startpos moves e2e4 e2e4 e7e5",
        "ponderhit",
        "stop",
        "debug",
        "debug maybe",
        "register later",
        "d",
        "help",
        "position fen 7k/5KQ1/8/8/8/8/8/8 b - - 0 1",
        "eval",
    ] {
        engine.ask(line);
    }
    insta::assert_snapshot!(engine.transcript());
    engine.close();
}

#[test]
fn eval_is_the_networks_own_before_and_after_a_search() {
    let mut engine = Conversation::start();
    engine.ask("setoption name Device value cpu");
    engine.ask("setoption name WeightsFile value fast");
    engine.send("position fen rnb1kbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1");
    let before = engine.ask("eval");
    let [line] = &before[..] else { panic!("{before:?}") };
    let words: Vec<&str> = line.split_whitespace().collect();
    let score: i32 = words[4].parse().unwrap();
    assert!(line.starts_with("info string eval cp ") && score > 300, "a queen ahead: {line}");
    engine.send("go depth 3");
    engine.expect("bestmove");
    assert_eq!(engine.ask("eval"), before);
    engine.ask("setoption name System value convchess");
    engine.ask("setoption name WeightsFile value ../../networks/convchess.safetensors");
    let without_value = engine.ask("eval");
    assert_eq!(without_value, ["info string the network has no value of the position"]);
}

#[test]
fn an_available_device_is_used_and_a_missing_one_refused() {
    let mut engine = Conversation::start();
    assert_eq!(engine.ask(""), ["info string material, 1 threads"]);
    let answers = engine.ask("setoption name Device value vulkan:0");
    assert_eq!(answers, ["info string material, 1 threads on vulkan:0"]);
    let answers = engine.ask("setoption name Device value cuda:0").join("\n");
    assert!(
        answers.contains("there is no device cuda:0") && answers.contains("of its own choice"),
        "{answers}"
    );
    assert!(
        engine.ask("setoption name Device value vulkan:0").len() == 1,
        "it still can be chosen"
    );
    engine.close();

    // A missing device that is set first leaves the engine with its default device.
    let mut engine = Conversation::start();
    let answers = engine.ask("setoption name Device value cuda:0").join("\n");
    assert!(
        answers.contains("there is no device cuda:0") && answers.contains("material, 1 threads"),
        "{answers}"
    );
    engine.close();
}

#[test]
fn other_options_count_beside_one_that_is_refused() {
    let lines = |engine: &mut Conversation| {
        engine.send("go depth 1");
        engine.expect("bestmove").iter().filter(|line| line.starts_with("info depth")).count()
    };
    let mut engine = Conversation::start();
    engine.ask("");
    engine.send("setoption name Device value cuda:0");
    engine.send("setoption name MultiPV value 3");
    assert_eq!(lines(&mut engine), 3, "set with the refused one");
    engine.send("setoption name MultiPV value 2");
    assert_eq!(lines(&mut engine), 2, "set after it");
    engine.send("setoption name MultiPV value 1");
    engine.send("setoption name Device value auto");
    assert_eq!(lines(&mut engine), 1, "and once it is taken back");
    let answers = engine.ask("setoption name Device value cuda:0").join("\n");
    assert!(answers.contains("there is no device cuda:0"), "tried again: {answers}");
}

#[test]
fn a_search_that_fails_beside_a_refused_option_is_built_anew() {
    let mut engine = Conversation::start();
    engine.ask("setoption name Device value cuda:0");
    engine.send("position fen 4k3/8/8/8/8/8/4P3/4K3 w - - 66 90");
    engine.send("go depth 3");
    engine.expect("bestmove");
    engine.send("position startpos");
    engine.send("go depth 1");
    let answers = engine.expect("bestmove");
    assert!(answers.iter().any(|line| line.starts_with("info depth 1")), "{answers:?}");
}

#[test]
fn strange_limits_are_answered() {
    let mut engine = Conversation::start();
    engine.ask("");
    for line in [
        "go depth 0",
        "go depth -1",
        "go nodes 0",
        "go nodes 1",
        "go movetime 0",
        "go movetime -100",
        "go movetime soon",
        "go movetime",
        "go wtime 0 btime 0",
        "go wtime -50 btime -50 winc 0 binc 0",
        "go wtime 0 btime 0 movestogo 0",
        "go btime 0",
        "go winc 100 binc 100",
        "go depth 99999999999999999999 nodes 20",
        "go mate 0 depth 1",
        "go mate -3 depth 1",
        "go searchmoves a2a3 depth 1",
        "go searchmoves e2e5 depth 1",
        "go depth 1 turbo",
        "go depth 1 depth 1",
    ] {
        engine.send(line);
        engine.expect("bestmove");
    }
    insta::assert_snapshot!(engine.transcript());
    engine.close();
}

#[test]
fn the_end_of_a_game_has_no_move() {
    let mut engine = Conversation::start();
    for fen in ["7k/5KQ1/8/8/8/8/8/8 b - - 0 1", "7k/5K2/6Q1/8/8/8/8/8 b - - 0 1"] {
        engine.send(&format!("position fen {fen}"));
        engine.send("go movetime 100");
        engine.expect("bestmove");
    }
    insta::assert_snapshot!(engine.transcript());
    engine.close();
}

#[test]
fn an_illegal_move_keeps_the_last_legal_position() {
    let mut engine = Conversation::start();
    engine.ask("position startpos moves e2e4 e7e5 e4e5 g8f6");
    let shown = engine.ask("d");
    assert!(
        shown.iter().any(|line| line.contains("rnbqkbnr/pppp1ppp/8/4p3/4P3/8/PPPP1PPP/RNBQKBNR w"))
    );
    engine.ask("position fen 8/8/8 w");
    assert!(engine.ask("d") == shown, "a bad FEN changes nothing");
}

#[test]
fn chess960_castles_onto_the_rook() {
    let mut engine = Conversation::start();
    let fen = "1r2k1r1/5pp1/8/8/8/8/5PP1/1R2K1R1 w GBgb - 0 1";
    let refused = engine.ask(&format!("position fen {fen}"));
    assert_eq!(refused.len(), 2, "{refused:?}");
    engine.ask("setoption name UCI_Chess960 value true");
    assert_eq!(engine.ask(&format!("position fen {fen} moves e1g1")), Vec::<String>::new());
    engine.send("go perft 1");
    let answers = engine.expect("Nodes searched");
    assert!(answers.iter().any(|line| line.starts_with("e8b8: ")), "{answers:?}");
    assert!(answers.iter().any(|line| line.starts_with("e8g8: ")), "{answers:?}");
}

#[test]
fn infinite_waits_for_stop() {
    let mut engine = Conversation::start();
    engine.send("go infinite depth 1");
    engine.expect("info depth 3");
    engine.expect_waiting();
    assert_eq!(engine.ask("setoption name Hash value 32"), Vec::<String>::new());
    engine.send("stop");
    assert_eq!(engine.expect("bestmove").len(), 1);
    assert_eq!(engine.ask("stop"), Vec::<String>::new());
}

#[test]
fn ponder_waits_for_the_hit() {
    let mut engine = Conversation::start();
    engine.send("go ponder wtime 1000 btime 1000");
    engine.expect("info depth 3");
    engine.expect_waiting();
    engine.send("ponderhit");
    engine.expect("bestmove");
    engine.send("go ponder depth 1");
    engine.expect("info depth 1");
    engine.expect_waiting();
    engine.send("stop");
    assert_eq!(engine.expect("bestmove").len(), 1);
}

#[test]
fn every_go_has_one_best_move() {
    let mut engine = Conversation::start();
    engine.send("go infinite");
    engine.expect("info depth 3");
    engine.send("position startpos moves e2e4");
    engine.send("go infinite");
    engine.send("go depth 1");
    for _ in 0..3 {
        engine.expect("bestmove");
    }
    assert_eq!(engine.ask(""), Vec::<String>::new(), "no fourth answer");
}

#[test]
fn perft_can_be_stopped() {
    let mut engine = Conversation::start();
    engine.send("go perft 3");
    assert_eq!(engine.expect("Nodes searched").last().unwrap(), "Nodes searched: 8902");
    engine.send("go perft 30");
    engine.send("stop");
    engine.expect("info string perft was stopped");
}

#[test]
fn the_end_of_input_stops_and_ends() {
    let mut engine = Conversation::start();
    engine.send("go infinite");
    engine.expect("info depth 3");
    let last = engine.close();
    assert!(last.last().is_some_and(|line| line.starts_with("bestmove")), "{last:?}");
}

#[test]
fn a_search_that_fails_still_moves() {
    let mut engine = Conversation::start();
    engine.send("position fen 4k3/8/8/8/8/8/4P3/4K3 w - - 66 90");
    engine.send("go depth 3");
    let answers = engine.expect("bestmove");
    assert!(
        answers.iter().any(|line| line.starts_with("info string error: the search failed")),
        "{answers:?}"
    );
    assert_ne!(answers.last().unwrap(), "bestmove 0000");
    engine.send("position startpos");
    engine.send("go depth 1");
    engine.expect("bestmove");
}

#[test]
fn arbitrary_bytes_do_not_end_the_session() {
    let mut engine = Conversation::start();
    engine.send_bytes(b"\0\0\0\n\xff\xfe\xfd\nposition fen \0\0\ngo\0depth\x001\n");
    engine.expect("bestmove");
    engine.send_bytes("position startpos moves ".as_bytes());
    engine.send_bytes("e2e4 ".repeat(300_000).as_bytes());
    engine.send_bytes(b"\n");
    assert!(engine.expect("info string")[0].contains("more than"));
    engine.send_bytes("x".repeat(900_000).as_bytes());
    engine.send_bytes("\r\n\u{2654}\u{202e} ucinewgame\u{2028}\n".as_bytes());
    engine.ask("");
    engine.send("go depth 1");
    engine.expect("bestmove");
    engine.send_bytes(b"quit without a line feed");
    engine.close();
}

const BOOK: &str = "../board/tests/book/small.bin";

#[test]
fn a_book_plays_where_a_move_is_wanted() {
    let mut engine = Conversation::start();
    engine.ask("");
    assert_eq!(engine.ask(&format!("setoption name BookFile value {BOOK}")).len(), 0);
    let plays = |engine: &mut Conversation, line: &str| {
        engine.send(line);
        if line.contains("infinite") {
            engine.expect("info depth 3");
            engine.send("stop");
        } else if line.contains("ponder") {
            engine.send("ponderhit");
        }
        let answers = engine.expect("bestmove");
        let book = answers.iter().any(|line| line == "info string book");
        assert!(!book || answers.len() == 2, "no thinking: {answers:?}");
        let moves = ["bestmove e2e4", "bestmove d2d4", "bestmove c2c4"];
        assert!(!book || moves.contains(&answers[1].as_str()), "{answers:?}");
        book
    };
    assert!(!plays(&mut engine, "go nodes 40"), "not asked for");
    assert_eq!(engine.ask("setoption name OwnBook value true").len(), 0);
    for go in [
        "go nodes 40",
        "go movetime 50",
        "go wtime 1000 btime 1000",
        "go wtime 1000 btime 1000 depth 3",
    ] {
        assert!(plays(&mut engine, go), "{go}");
    }
    for go in [
        "go depth 2",
        "go infinite nodes 400",
        "go nodes 40 searchmoves e2e4",
        "go nodes 40 mate 1",
        "go ponder wtime 1000 btime 1000",
    ] {
        assert!(!plays(&mut engine, go), "{go}");
    }
    engine.send("setoption name UCI_AnalyseMode value true");
    assert!(!plays(&mut engine, "go movetime 50"), "an analysis");
    engine.send("setoption name UCI_AnalyseMode value false");
    assert!(plays(&mut engine, "go movetime 50"));
    engine.send("position startpos moves h2h4");
    assert!(!plays(&mut engine, "go nodes 40"), "not in the book");
    engine.send("setoption name UCI_Chess960 value true");
    engine.send("position startpos");
    assert!(!plays(&mut engine, "go nodes 40"), "Chess960");
}

#[test]
fn an_unusable_book_is_reported_and_the_search_continues() {
    let mut engine = Conversation::start();
    engine.ask("setoption name OwnBook value true");
    let complaints = engine.ask("setoption name BookFile value Cargo.toml");
    assert!(
        complaints.len() == 1 && complaints[0].starts_with("info string `Cargo.toml` is no"),
        "{complaints:?}"
    );
    engine.send("go nodes 40");
    assert!(engine.expect("bestmove").iter().any(|line| line.starts_with("info depth")));
    // The key is that of the start position, the move that of a rook from a1 to a8.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("damaged.bin");
    let key = board::Book::key(&board::Position::default()).to_be_bytes();
    std::fs::write(&path, [&key[..], &[0, 56, 0, 1, 0, 0, 0, 0]].concat()).unwrap();
    assert_eq!(engine.ask(&format!("setoption name BookFile value {}", path.display())).len(), 0);
    engine.send("go nodes 40");
    let answers = engine.expect("bestmove");
    let named = |line: &String| line.contains("damaged.bin") && line.contains("a1a8");
    assert!(
        answers.iter().any(named) && answers.iter().any(|line| line.starts_with("info depth")),
        "{answers:?}"
    );
}

#[test]
fn table_hits_are_shown_where_there_are_tables() {
    let mut engine = Conversation::start();
    engine.send("go depth 1");
    assert!(!engine.expect("bestmove").concat().contains("tbhits"));
    let complaints = engine.ask("setoption name SyzygyPath value missing");
    assert!(complaints.len() == 1 && complaints[0].contains("`missing`"), "{complaints:?}");
    assert_eq!(engine.ask("setoption name SyzygyPath value ../board/tests/tables").len(), 0);
    let complaints = engine.ask("setoption name SyzygyPath value missing:../board/tests/tables");
    assert!(complaints.len() == 1 && complaints[0].contains("`missing`"), "{complaints:?}");
    engine.send("go depth 1");
    assert!(engine.expect("bestmove").concat().contains(" tbhits 0 pv "));
}
