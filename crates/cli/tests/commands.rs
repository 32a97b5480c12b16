//! The program as its users meet it: exit codes, messages and output.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::{path::Path, process::Output};

use assert_cmd::Command;

fn program(arguments: &[&str]) -> Command {
    let mut command = Command::cargo_bin("batch-first").unwrap();
    command.args(arguments).env_remove("RUST_LOG").env("LC_ALL", "C.UTF-8");
    command.timeout(std::time::Duration::from_secs(60));
    command
}

fn run(arguments: &[&str]) -> Output {
    program(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// What differs from run to run is replaced.
fn stable(text: &str) -> String {
    text.lines()
        .map(|line| {
            if line.starts_with("network ") { "(the network)".to_owned() } else { line.to_owned() }
        })
        .collect::<Vec<_>>()
        .join("\n")
}

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

/// On AVX2 what eight-bit integers leave is most; there the doctor once took it for a fault.
#[test]
fn the_doctor_finds_nothing_wrong() {
    for (path, network) in
        [("auto", "large"), ("avx2", "large"), ("avx2", "fast"), ("portable", "fast")]
    {
        let mut doctor = program(&["doctor", "--threads", "1", "--net", network]);
        if path != "auto" {
            doctor.env("BATCH_FIRST_CPU", path);
        }
        let output = doctor.output().unwrap();
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        if out.contains(&format!("{path:<8} f32   no:")) {
            continue; // Not on this processor.
        }
        assert!(
            output.status.success() && out.contains(": right"),
            "{path}, {network}: {out}{err}"
        );
    }
}

/// What the machine has and lacks is wanted most where nothing fits.
#[test]
fn the_doctor_speaks_before_it_fails() {
    let output = program(&["doctor"]).env("BATCH_FIRST_CPU", "abacus").output().unwrap();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(!output.status.success() && err.contains("abacus"), "{err}");
    assert!(out.contains("Code paths") && out.contains("portable f32   runs here"), "{out}");
}

#[test]
fn bad_input_is_one_sentence_and_exit_code_2() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let garbage = file("garbage.safetensors", b"not a network");
    let empty = file("empty.safetensors", b"");
    let cockfish = folder.path().join("cockfish.safetensors");
    nets::Network::random(nets::Description::cockfish(&nets::Cockfish::default()), 1)
        .unwrap()
        .save(&cockfish)
        .unwrap();
    let cockfish = cockfish.to_str().unwrap().to_owned();
    let incomplete = folder.path().join("incomplete.safetensors");
    let description =
        nets::Description::convchess(&nets::ConvChess::default(), &nets::HeadKind::SELECTORS[..4]);
    nets::Network::random(description, 1).unwrap().save(&incomplete).unwrap();
    let incomplete = incomplete.to_str().unwrap().to_owned();
    let truncated = file("truncated.safetensors", &[9, 0, 0, 0, 0, 0, 0, 0, b'{', b'}']);
    let bad_epd = file("bad.epd", b"4k3/8/8/8/8/8/8/4K3 w - -\nnonsense\n");
    let empty_pgn = file("empty.pgn", b"");
    let out = folder.path().join("out.pgn").to_str().unwrap().to_owned();
    let cases: &[&[&str]] = &[
        &["frobnicate"],
        &["analyze", "--fen"],
        &["analyze", "--fen", ""],
        &["analyze", "--fen", "nonsense"],
        &["analyze", "--fen", "8/8/8/8/8/8/8/8 w - - 0 1"],
        &["analyze", "--fen", "kk6/8/8/8/8/8/8/K7 w - - 0 1"],
        &["analyze", "--fen", "4k3/8/8/8/8/8/8/4K3 w KQkq - 0 1"],
        &["analyze", "--fen", "4k2R/8/8/8/8/8/8/4K3 w - - 0 1"],
        &["analyze", "--fen", "P3k3/8/8/8/8/8/8/4K3 w - - 0 1"],
        &["analyze", "--fen", "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR x KQkq - 0 1"],
        &["analyze", "--fen", "\u{2654}/8 w - -"],
        &["analyze", "--moves", "e2e5"],
        &["analyze", "--moves", "e2e4 e7e5 Ke3"],
        &["analyze", "--moves", "hello"],
        &["analyze", "--nodes", "many"],
        &["analyze", "--nodes", "-1"],
        &["analyze", "--depth", "99999999999999999999"],
        &["analyze", "--movetime", "soon"],
        &["analyze", "--movetime", "-5s"],
        &["analyze", "--multipv", "0"],
        &["analyze", "--multipv", "257"],
        &["analyze", "--threads", "0"],
        &["analyze", "--hash", "0"],
        &["analyze", "--batch", "1000000"],
        &["analyze", "--net", "/nonexistent/net.safetensors"],
        &["analyze", "--net", "/"],
        &["analyze", "--net", &garbage],
        &["analyze", "--net", &empty],
        &["analyze", "--net", &truncated],
        &["uci", "--net", "/nonexistent/net.safetensors"],
        &["uci", "--net", &garbage],
        &["doctor", "--net", &garbage],
        &["uci", "--system", "sunfish"],
        &["uci", "--net", &incomplete],
        &["uci", "--system", "convchess", "--net", &cockfish],
        &["uci", "--system", "convchess", "--search", "puct"],
        &["uci", "--system", "batch-first", "--net", &cockfish],
        &["uci", "--net", &cockfish, "--search", "puct"],
        &["analyze", "--system", "convchess", "--net", &incomplete],
        &["analyze", "--system", "convchess", "--device", "vulkan:0"],
        &["bench", "eval", "--net", &incomplete, "--both"],
        &["analyze", "--system", "cockfish", "--net", &incomplete],
        &["analyze", "--system", "batch-first", "--net", &cockfish],
        &["match", "--compare", &incomplete, "internal", "--nodes", "1"],
        &["match", "--compare", "internal; System=sunfish", "internal", "--nodes", "1"],
        &["match", "--system", "batch-first", "--compare", &cockfish, "internal", "--nodes", "1"],
        &["ladder", "--engine", &incomplete, "--nodes", "1"],
        &["analyze", "--syzygy", "/nonexistent", "--nodes", "1"],
        &["analyze", "--syzygy", "src", "--nodes", "1"],
        &["uci", "--syzygy", "src"],
        &["uci", "--book", "/nonexistent/book.bin"],
        &["uci", "--book", &truncated],
        &["match", "--compare", "internal; OwnBook=true", "internal", "--nodes", "1"],
        &["match", "--compare", "internal; SyzygyPath=src", "internal", "--nodes", "1"],
        &["analyze", "--bogus"],
        &["analyze", "unexpected"],
        &["analyze", &bad_epd],
        &["analyze", "/nonexistent.pgn", "--out", &out],
        &["analyze", &bad_epd, "--out", "/nonexistent/out.pgn"],
        &["analyze", &bad_epd, "--out", &out, "--json"],
        &["analyze", &bad_epd, "--out", &out, "--fen", "4k3/8/8/8/8/8/8/4K3 w - - 0 1"],
        &["analyze", &bad_epd, "--out", &out, "--nodes", "0"],
        &["analyze", &bad_epd, "--out", &out, "--from", "0"],
        &["analyze", &bad_epd, "--out", &out, "--from", "9", "--to", "8"],
        &["analyze", &bad_epd, "--out", &out, "--threshold", "-1"],
        &["analyze", &bad_epd, "--out", &out, "--system", "convchess"],
        &["analyze", &bad_epd, "--out", &out, "--chess960"],
        &["analyze", &bad_epd, "--out", &out, "--patience", "5s"],
        &["analyze", "--out", &out],
        &["analyze", "--nodes", "1", "--from", "2"],
        &["analyze", "--nodes", "1", "--threshold", "2"],
        &["match"],
        &["match", "--engine", "self", "--nodes", "1"],
        &["match", "--engine", "self", "--engine", "self"],
        &["match", "--engine", "self", "--engine", "/nonexistent/engine", "--nodes", "1"],
        &["match", "--engine", "self", "--engine", "self; NoSuchOption=1", "--nodes", "1"],
        &["match", "--engine", "self", "--engine", "self; Hash", "--nodes", "1"],
        &["match", "--engine", "self", "--engine", "/bin/true", "--nodes", "1"],
        &["match", "--engine", "self", "--engine", "self", "--nodes", "1", "--depth", "1"],
        &["match", "--engine", "self", "--engine", "self", "--nodes", "1", "--games", "0"],
        &["match", "--engine", "self", "--engine", "\"self", "--nodes", "1"],
        &["match", "--engine", "self", "--engine", "self", "--nodes", "1", "--alpha", "0.1"],
        &["match", "--engine", "self", "--engine", "self", "--nodes", "1", "--opening-plies", "2"],
        &["match", "--engine", "self", "--engine", "self", "--clock", "ten"],
        &["match", "--engine", "self", "--engine", "self", "--nodes", "1", "--openings", &bad_epd],
        &[
            "match",
            "--engine",
            "self",
            "--engine",
            "self",
            "--nodes",
            "1",
            "--openings",
            &empty_pgn,
        ],
        &[
            "match",
            "--engine",
            "self",
            "--engine",
            "self",
            "--nodes",
            "1",
            "--openings",
            "/nonexistent.epd",
        ],
        &["label"],
        &["label", "--out", "/nonexistent/out.pgn", "--engine", "self"],
        &["label", "--out", &out, "--engine", "/nonexistent/engine"],
        &["label", "--out", &out, "--engine", "self", "/nonexistent.pgn"],
        &["label", "--out", &out, "--engine", "self", "--random-moves", "2"],
        &["label", "--out", &out, "--engine", "self", &bad_epd, "--games", "2"],
    ];
    for arguments in cases {
        let output = run(arguments);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
        assert_eq!(message.lines().count(), 1, "{arguments:?}: {message}");
        assert!(message.starts_with("error: ") && message.len() > 20, "{arguments:?}: {message}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
}

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
fn messages() {
    let folder = tempfile::tempdir().unwrap();
    let net = folder.path().join("x.safetensors");
    std::fs::write(&net, "not a network").unwrap();
    let mut all = String::new();
    for arguments in [
        &["analyze", "--fen", "nonsense"][..],
        &["analyze", "--moves", "e4 e5 Ke3"],
        &["analyze", "--multipv", "0"],
        &["analyze", "--movetime", "soon"],
        &["analyze", "--net", net.to_str().unwrap()],
        &["frobnicate"],
        &["match", "--engine", "self", "--engine", "nobody-has-this", "--nodes", "1"],
    ] {
        let message =
            text(&run(arguments).stderr).replace(folder.path().to_str().unwrap(), "FOLDER");
        all.push_str(&format!(
            "$ {}\n{message}",
            arguments.join(" ").replace(folder.path().to_str().unwrap(), "FOLDER")
        ));
    }
    insta::assert_snapshot!(all);
}

#[test]
fn help_and_version() {
    for arguments in [&["--help"][..], &["--version"], &["analyze", "--help"], &["match", "--help"]]
    {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(0));
        assert!(!output.stdout.is_empty() && output.stderr.is_empty());
    }
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
fn what_is_left_out_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let games = folder.path().join("games.pgn");
    std::fs::write(&games, "[Variant \"Atomic\"]\n\n1. e4 *\n\n[White \"A\"]\n\n1. e4 e5 *\n")
        .unwrap();
    let out = folder.path().join("out.pgn");
    let paths = [games, out].map(|path| path.to_str().unwrap().to_owned());
    let output = run(&["analyze", &paths[0], "--out", &paths[1], "--nodes", "1"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("game 1 is left out"), "{}", text(&output.stderr));
}

#[test]
fn a_closed_output_is_no_crash() {
    let network = concat!(env!("CARGO_MANIFEST_DIR"), "/../../networks/batch-first.safetensors");
    for arguments in [&["analyze", "--movetime", "10s"][..], &["net", "info", network]] {
        let mut child = std::process::Command::new(assert_cmd::cargo::cargo_bin("batch-first"))
            .args(arguments)
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert_eq!(text(&output.stderr), "", "{arguments:?}");
    }
}

#[test]
fn without_a_command_it_speaks_uci() {
    let output = program(&[])
        .write_stdin("uci\nisready\nposition startpos\ngo nodes 1\nquit\n")
        .output()
        .unwrap();
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0));
    assert!(said.starts_with("id name Batch First "), "{said}");
    assert!(said.contains("uciok\n") && said.contains("readyok\n"), "{said}");
    assert!(said.lines().last().unwrap().starts_with("bestmove "), "{said}");
}

#[test]
fn a_match_against_itself() {
    let folder = tempfile::tempdir().unwrap();
    let pgn = folder.path().join("match.pgn");
    let output = run(&[
        "match",
        "--engine",
        "self; name=one",
        "--engine",
        "self; name=two; Batch=8",
        "--games",
        "4",
        "--nodes",
        "30",
        "--max-plies",
        "20",
        "--jobs",
        "2",
        "--strict",
        "--pgn",
        pgn.to_str().unwrap(),
    ]);
    let shown = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{shown}{}", text(&output.stderr));
    assert_eq!(shown.lines().count(), 8, "{shown}");
    assert!(shown.contains("faults: 0 by the first engine, 0 by the second"), "{shown}");
    let games = std::fs::read_to_string(pgn).unwrap();
    assert_eq!(games.matches("[White \"one\"]").count(), 2);
    assert_eq!(games.matches("[White \"two\"]").count(), 2);
}

#[test]
fn strict_matches_blame_the_engine_at_fault() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("engine.sh");
    // Shakes hands, then does what its argument says when told to move.
    std::fs::write(
        &script,
        "while read -r line; do case \"$line\" in uci) echo uciok;; isready) echo readyok;; go*) eval \"$1\";; \
         quit) exit 0;; esac; done",
    )
    .unwrap();
    for (on_go, fault) in [
        ("exit 7", "crash"),
        ("echo bestmove e1e8", "illegal move"),
        ("sleep 0.4; echo bestmove e1e8", "illegal move"),
    ] {
        let action = folder.path().join("action.sh");
        std::fs::write(&action, on_go).unwrap();
        let engine =
            format!("/bin/sh {} .${{IFS}}{}; name=bad", script.display(), action.display());
        let output = run(&[
            "match",
            "--engine",
            "self; name=good",
            "--engine",
            &engine,
            "--games",
            "2",
            "--nodes",
            "5",
            "--strict",
        ]);
        let shown = text(&output.stdout);
        assert_eq!(output.status.code(), Some(1), "{shown}{}", text(&output.stderr));
        assert_eq!(shown.matches(&format!("{fault} by ")).count(), 2, "{shown}");
        assert!(shown.contains("result: +2 =0 -0"), "{shown}");
        assert!(shown.contains("faults: 0 by the first engine, 2 by the second"), "{shown}");
    }
}

fn label(out: &Path, extra: &[&str]) -> Output {
    let arguments = ["label", "--engine", "self", "--nodes", "60", "--out", out.to_str().unwrap()];
    run(&[&arguments[..], extra].concat())
}

#[test]
fn labels_do_not_depend_on_jobs_or_interruptions() {
    let folder = tempfile::tempdir().unwrap();
    let [one, two, parts] =
        ["one.pgn", "two.pgn", "parts.pgn"].map(|name| folder.path().join(name));
    let common = ["--max-plies", "24", "--seed", "7"];
    let output = label(&one, &[&common[..], &["--games", "6", "--jobs", "1"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    label(&two, &[&common[..], &["--games", "6", "--jobs", "3"]].concat());
    label(&parts, &[&common[..], &["--games", "2"]].concat());
    // Half a game, as a crash leaves it.
    let mut broken = std::fs::read(&parts).unwrap();
    broken.extend_from_slice(b"[Event \"labelled");
    std::fs::write(&parts, broken).unwrap();
    label(&parts, &[&common[..], &["--games", "6"]].concat());
    let read = |path: &Path| std::fs::read_to_string(path).unwrap();
    assert_eq!(read(&one).matches("[Annotator ").count(), 6);
    assert!(read(&one).matches("[%eval ").count() > 60);
    assert!(read(&one) == read(&two), "the number of jobs changes nothing");
    assert!(read(&one) == read(&parts), "an interruption changes nothing");
    let other = label(&one, &["--games", "7", "--seed", "8"]);
    assert_eq!(other.status.code(), Some(2), "another seed is another run");
}

#[test]
fn files_are_labelled() {
    let folder = tempfile::tempdir().unwrap();
    let games = folder.path().join("games.pgn");
    std::fs::write(
        &games,
        "[White \"A\"]\n[Black \"B\"]\n[Result \"1-0\"]\n\n1. e4 {[%eval 9.9]} e5 2. Qh5 Nc6 3. Bc4 Nf6 4. Qxf7# 1-0\n\n1. d4 *\n",
    )
    .unwrap();
    let positions = folder.path().join("positions.epd");
    std::fs::write(
        &positions,
        "4k3/8/8/8/8/8/4P3/4K3 w - - id \"x\";\n\n4k3/8/8/8/8/8/4P3/4K3 b - - 3 9\n",
    )
    .unwrap();
    let out = folder.path().join("out.pgn");
    let output = label(&out, &[games.to_str().unwrap(), positions.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let labelled = std::fs::read_to_string(&out).unwrap();
    assert_eq!(labelled.matches("[Annotator ").count(), 4, "{labelled}");
    // 7 positions of the first game (mate has no evaluation), 2 of the second, 2 of each position.
    assert_eq!(labelled.matches("[%eval ").count(), 7 + 2 + 4, "{labelled}");
    assert!(labelled.contains("[White \"A\"]") && !labelled.contains("9.9"), "{labelled}");
    assert!(labelled.contains("Qxf7# 1-0"), "{labelled}");
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
