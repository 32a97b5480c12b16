//! Bad input: one sentence, exit code 2, nothing half-written.

use super::*;

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
