//! Positions and files of games analysed, with and without a search.

use super::*;

#[test]
fn convchess_shows_the_chances_of_all_legal_moves_and_plays_without_a_search() {
    let arguments = ["analyze", "--system", "convchess", "--json", "--moves", "e4", "e5", "Nf3"];
    let output = run(&arguments);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let object: serde_json::Value = serde_json::from_str(&text(&output.stdout)).unwrap();
    let moves = object["moves"].as_array().unwrap();
    assert_eq!(moves.len(), 29);
    let chances: Vec<f64> = moves.iter().map(|row| row["chance"].as_f64().unwrap()).collect();
    assert!(
        (chances.iter().sum::<f64>() - 1.0).abs() < 1e-4 && chances.is_sorted_by(|a, b| a >= b)
    );
    // Master games leave no doubt here.
    assert!(["Nc6", "Nf6"].contains(&moves[0]["san"].as_str().unwrap()), "{object}");
    let shown = text(&run(&arguments[..3]).stdout);
    assert!(shown.contains("Best move: ") && shown.matches(" %").count() == 20, "{shown}");
    let over =
        run(&["analyze", "--system", "convchess", "--fen", "7k/6Q1/6K1/8/8/8/8/8 b - - 0 1"]);
    assert!(over.status.success() && text(&over.stdout).contains("Checkmate"));

    let commands = "setoption name MultiPV value 2\nposition startpos moves e2e4 e7e5 g1f3\ngo infinite\nstop\nquit\n";
    let output = program(&["uci", "--system", "convchess"]).write_stdin(commands).output().unwrap();
    let output = text(&output.stdout);
    let best = format!("bestmove {}", moves[0]["uci"].as_str().unwrap());
    assert!(output.lines().any(|line| line == best), "{output}");
    assert!(
        output
            .lines()
            .filter(|line| line.starts_with("info string") && line.ends_with('%'))
            .count()
            == 2
    );
}

/// The rounding of int8 is largest on AVX2, where the doctor once took it for a fault.
#[test]
fn a_system_is_chosen_by_name_or_by_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.safetensors");
    let mut network =
        nets::Network::random(nets::Description::cockfish(&nets::Cockfish::default()), 1).unwrap();
    network.name = "mine".to_owned();
    network.save(&file).unwrap();
    for system in [&["--system", "cockfish"][..], &["--net", file.to_str().unwrap()]] {
        let output = run(&[&["analyze", "--depth", "2", "--json"], system].concat());
        assert!(output.status.success(), "{system:?}: {}", text(&output.stderr));
        let mut info = program(&[&["uci"], system].concat());
        let transcript = info.write_stdin("go depth 1\nisready\n").output().unwrap();
        let transcript = text(&transcript.stdout);
        assert!(transcript.contains("bestmove "), "{transcript}");
    }
    // Over UCI the system is an option.
    let switched = program(&["uci"])
        .write_stdin("setoption name System value cockfish\nisready\ngo depth 1\n")
        .output()
        .unwrap();
    let switched = text(&switched.stdout);
    assert!(switched.contains("network cockfish") && switched.contains("bestmove "), "{switched}");
}

#[test]
fn the_end_of_a_game_is_said() {
    let mut shown = String::new();
    for fen in ["7k/5KQ1/8/8/8/8/8/8 b - - 0 1", "7k/5K2/6Q1/8/8/8/8/8 b - - 0 1"] {
        for flags in [&["--ascii"][..], &["--json"]] {
            let output = run(&[&["analyze", "--fen", fen][..], flags].concat());
            assert_eq!(output.status.code(), Some(0));
            let output = text(&output.stdout);
            let engine = output.find("\"engine\":\"").map(|start| {
                let start = start + "\"engine\":\"".len();
                output[start..start + output[start..].find('"').unwrap()].to_owned()
            });
            shown.push_str(&stable(
                &engine.map_or(output.clone(), |engine| output.replace(&engine, "(the network)")),
            ));
            shown.push('\n');
        }
    }
    insta::assert_snapshot!(shown);
}

#[test]
fn a_mate_is_found_and_shown() {
    let output = run(&[
        "analyze",
        "--fen",
        "6k1/5ppp/8/8/8/8/8/R5K1 w - - 0 1",
        "--nodes",
        "2000",
        "--ascii",
    ]);
    let shown = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(shown.contains("White to move"), "{shown}");
    assert!(shown.contains("Best move: Ra8#"), "{shown}");
    assert!(shown.contains("#1"), "{shown}");
}

#[test]
fn json_is_one_object_a_line() {
    let output = run(&[
        "analyze",
        "--json",
        "--nodes",
        "300",
        "--multipv",
        "3",
        "--threads",
        "1",
        "--moves",
        "1. e4",
        "e7e5",
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let lines: Vec<serde_json::Value> =
        text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["type"], "position");
    assert_eq!(lines[0]["fen"], "rnbqkbnr/pppp1ppp/8/4p3/4P3/8/PPPP1PPP/RNBQKBNR w KQkq - 0 2");
    let result = lines.last().unwrap();
    assert_eq!(result["type"], "result");
    assert!(result["nodes"].as_u64().unwrap() <= 300);
    let best = result["lines"].as_array().unwrap();
    assert_eq!(best.len(), 3);
    for (index, line) in best.iter().enumerate() {
        assert_eq!(line["multipv"], index + 1);
        let wdl: u64 =
            line["wdl"].as_array().unwrap().iter().map(|part| part.as_u64().unwrap()).sum();
        assert_eq!(wdl, 1000);
        assert!(!line["pv"].as_array().unwrap().is_empty());
    }
    assert_eq!(result["best"], best[0]["pv"][0]);
    assert!(lines[1..lines.len() - 1].iter().all(|line| line["type"] == "info"));
}

#[test]
fn files_of_games_are_analysed() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let games = "[White \"A\"]\n[Black \"B\"]\n[Result \"1-0\"]\n\n\
                 1. e4 {old} e5 2. Qh5 Nc6 3. Bc4 Nf6 4. Qxf7# 1-0\n\n1. d4 *\n";
    std::fs::write(at("games.pgn"), games).unwrap();
    std::fs::write(at("more.epd"), "4k3/8/8/8/8/8/4P3/4K3 w - - id \"x\";\n").unwrap();
    let arguments = |jobs| {
        let paths = ["games.pgn", "more.epd", "out.pgn", "out.jsonl", "out.html"].map(at);
        let [games, more, out, json, report] = paths;
        let flags =
            ["--out", &out, "--jsonl", &json, "--report", &report, "--nodes", "50", "--jobs", jobs];
        [&["analyze", &games, &more][..], &flags[..]]
            .concat()
            .into_iter()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let go = |jobs| {
        let arguments = arguments(jobs);
        run(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let output = go("2");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("3 games, 10 positions"), "{}", text(&output.stdout));
    let read = |name: &str| std::fs::read_to_string(at(name)).unwrap();
    let annotated = read("out.pgn");
    // 7 positions of the first game (the mate has no evaluation), 2 of the second, 1 of the third.
    assert_eq!(annotated.matches("{ [%eval ").count(), 10, "{annotated}");
    assert!(annotated.contains(" Nf6 $4") && annotated.contains("Blunder."), "{annotated}");
    assert!(annotated.contains("old }") && annotated.contains("[WhiteAccuracy "), "{annotated}");
    assert_eq!(read("out.jsonl").lines().count(), 3);
    assert!(read("out.html").contains("3 games, 10 evaluated positions"));
    // Once more: there is nothing left to do.
    assert_eq!(go("1").status.code(), Some(0));
    assert_eq!(read("out.pgn"), annotated);
    // Half a game, as a crash leaves it, is cut off.
    std::fs::write(at("out.pgn"), format!("{annotated}[Event")).unwrap();
    assert_eq!(go("1").status.code(), Some(0));
    assert_eq!(read("out.pgn"), annotated);
}

/// A search that may not begin plays the likeliest move, and says what it thinks of it.
#[test]
fn without_evaluations_the_policy_chooses() {
    for search in ["kbest", "alphabeta", "puct"] {
        let arguments = ["uci", "--net", "fast", "--threads", "1", "--search", search];
        // The second search is cut off by the end of the input.
        let commands = "position startpos\ngo nodes 0\nposition startpos\ngo infinite\n";
        let answers = text(&program(&arguments).write_stdin(commands).output().unwrap().stdout);
        let best: Vec<&str> =
            answers.lines().filter(|line| line.starts_with("bestmove ")).collect();
        assert_eq!(best.len(), 2, "{search}: {answers}");
        for (line, best) in answers.split_inclusive("bestmove ").zip(best) {
            let mv = best.split(' ').nth(1).unwrap();
            assert!(["e2e4", "d2d4", "g1f3", "c2c4"].contains(&mv), "{search}: {answers}");
            assert!(
                line.contains("info depth") && line.contains(&format!(" pv {mv}")),
                "{search}: {answers}"
            );
        }
    }
}

#[test]
fn games_come_from_standard_input_and_go_to_standard_output() {
    let games = "[White \"A\"]\n\n1. e4 e5 *\n\n[White \"B\"]\n\n1. d4 Ke4 2. c4 *\n";
    let arguments = ["analyze", "-", "--out", "-", "--nodes", "1", "--net", "fast"];
    let output = program(&arguments).write_stdin(games).output().unwrap();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(err.contains("line 5 is cut off: move 1, `Ke4`, is not legal"), "{err}");
    assert!(
        err.contains("-: 2 games, 5 positions") && err.contains("one game was not understood"),
        "{err}"
    );
    assert!(out.starts_with("[White \"A\"]") && out.contains("Ke4 2. c4 *"), "{out}");
    assert_eq!(out.matches("[%eval").count(), 5, "{out}");
    let folder = tempfile::tempdir().unwrap();
    let shards = folder.path().join("shards");
    let arguments = ["data", "import", "-", "--unlabelled", "--out", shards.to_str().unwrap()];
    let output = program(&arguments).write_stdin(games).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let players = "[White \"A\"]\n[Black \"B\"]\n\n1. e4 1-0\n";
    let output = program(&["rate", "-"]).write_stdin(players).output().unwrap();
    assert!(text(&output.stdout).contains('A') && output.status.success());
}
