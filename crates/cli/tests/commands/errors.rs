//! Bad input: one sentence and exit code 2.

use super::*;

/// Files that commands refuse, and a path for output.
struct BadFiles {
    _folder: tempfile::TempDir,
    garbage: String,
    empty: String,
    truncated: String,
    /// A network of Cockfish.
    cockfish: String,
    /// A network of ConvChess without some of its heads.
    incomplete: String,
    bad_epd: String,
    empty_pgn: String,
    out: String,
}

impl BadFiles {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let file = |name: &str, content: &[u8]| {
            std::fs::write(path(name), content).unwrap();
            path(name)
        };
        let network = |name: &str, description| {
            nets::Network::random(description, 1).unwrap().save(Path::new(&path(name))).unwrap();
            path(name)
        };
        let heads = &nets::HeadKind::SELECTORS[..4];
        Self {
            garbage: file("garbage.safetensors", b"not a network"),
            empty: file("empty.safetensors", b""),
            truncated: file("truncated.safetensors", &[9, 0, 0, 0, 0, 0, 0, 0, b'{', b'}']),
            cockfish: network(
                "cockfish.safetensors",
                nets::Description::cockfish(&nets::Cockfish::default()),
            ),
            incomplete: network(
                "incomplete.safetensors",
                nets::Description::convchess(&nets::ConvChess::default(), heads),
            ),
            bad_epd: file("bad.epd", b"4k3/8/8/8/8/8/8/4K3 w - -\nnonsense\n"),
            empty_pgn: file("empty.pgn", b""),
            out: path("out.pgn"),
            _folder: folder,
        }
    }
}

/// Each command, `common` with one of the cases, is refused in one sentence with exit code 2.
fn assert_refused(common: &[&str], cases: &[&[&str]]) {
    for case in cases {
        let arguments = [common, case].concat();
        let output = run(&arguments);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
        assert_eq!(message.lines().count(), 1, "{arguments:?}: {message}");
        assert!(message.starts_with("error: ") && message.len() > 20, "{arguments:?}: {message}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
}

#[test]
fn bad_positions_are_refused() {
    assert_refused(
        &["analyze", "--fen"],
        &[
            &[],
            &[""],
            &["nonsense"],
            &["8/8/8/8/8/8/8/8 w - - 0 1"],
            &["kk6/8/8/8/8/8/8/K7 w - - 0 1"],
            &["4k2R/8/8/8/8/8/8/4K3 w - - 0 1"],
            &["P3k3/8/8/8/8/8/8/4K3 w - - 0 1"],
            &["rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR x KQkq - 0 1"],
            &["\u{2654}/8 w - -"],
        ],
    );
    assert_refused(&["analyze", "--moves"], &[&["e2e5"], &["e2e4 e7e5 Ke3"], &["hello"]]);
}

#[test]
fn castling_rights_that_the_pieces_do_not_have_are_dropped_with_a_warning() {
    let king_moved = "r3k2r/8/8/8/8/8/8/R4K1R w KQkq - 2 3";
    for (fen, flag, hint) in [
        ("4k3/8/8/8/8/8/8/4K3 w KQkq - 0 1", None, Some("not where it must be")),
        (king_moved, None, Some("--chess960")),
        (king_moved, Some("--chess960"), None),
    ] {
        let arguments = ["analyze", "--nodes", "1", "--json", "--fen", fen];
        let output = program(&arguments).args(flag).output().unwrap();
        let message = text(&output.stderr);
        assert!(output.status.success(), "{fen}: {message}");
        match hint {
            Some(hint) => assert!(message.contains(hint), "{fen}: {message}"),
            None => assert!(!message.contains("castling"), "{fen}: {message}"),
        }
    }
}

#[test]
fn bad_limits_and_flags_are_refused() {
    assert_refused(&[], &[&["frobnicate"]]);
    assert_refused(
        &["analyze"],
        &[
            &["--nodes", "many"],
            &["--nodes", "-1"],
            &["--depth", "99999999999999999999"],
            &["--movetime", "soon"],
            &["--movetime", "-5s"],
            &["--multipv", "0"],
            &["--multipv", "257"],
            &["--threads", "0"],
            &["--hash", "0"],
            &["--batch", "1000000"],
            &["--search", "another"],
            &["--bogus"],
            &["unexpected"],
        ],
    );
}

#[test]
fn unusable_networks_tables_and_books_are_refused() {
    let BadFiles { garbage, empty, truncated, .. } = &BadFiles::new();
    assert_refused(
        &["analyze", "--net"],
        &[&["/nonexistent/net.safetensors"], &["/"], &[garbage], &[empty], &[truncated]],
    );
    assert_refused(&["doctor"], &[&["--net", garbage]]);
    assert_refused(&["analyze", "--nodes", "1", "--syzygy"], &[&["/nonexistent"], &["src"]]);
    assert_refused(
        &["uci"],
        &[
            &["--net", "/nonexistent/net.safetensors"],
            &["--net", garbage],
            &["--syzygy", "src"],
            &["--book", "/nonexistent/book.bin"],
            &["--book", truncated],
        ],
    );
}

#[test]
fn networks_of_another_system_or_search_are_refused() {
    let BadFiles { cockfish, incomplete, .. } = &BadFiles::new();
    assert_refused(
        &["uci"],
        &[
            &["--system", "sunfish"],
            &["--net", incomplete],
            &["--system", "convchess", "--net", cockfish],
            &["--system", "convchess", "--search", "puct"],
            &["--system", "batch-first", "--net", cockfish],
            &["--net", cockfish, "--search", "puct"],
        ],
    );
    assert_refused(
        &["analyze", "--system"],
        &[
            &["convchess", "--net", incomplete],
            &["convchess", "--device", "vulkan:0"],
            &["cockfish", "--net", incomplete],
            &["batch-first", "--net", cockfish],
        ],
    );
    assert_refused(&["bench", "eval"], &[&["--net", incomplete, "--both"]]);
    assert_refused(&["ladder"], &[&["--engine", incomplete, "--nodes", "1"]]);
    assert_refused(
        &["match", "--nodes", "1"],
        &[
            &["--compare", incomplete, "internal"],
            &["--compare", "internal; System=sunfish", "internal"],
            &["--system", "batch-first", "--compare", cockfish, "internal"],
            &["--compare", "internal; OwnBook=true", "internal"],
            &["--compare", "internal; SyzygyPath=src", "internal"],
        ],
    );
}

#[test]
fn bad_files_of_games_are_refused() {
    let BadFiles { bad_epd, out, .. } = &BadFiles::new();
    assert_refused(&["bench", "eval", "--positions"], &[&[bad_epd], &["/nonexistent.epd"]]);
    assert_refused(
        &["analyze"],
        &[
            &[bad_epd],
            &["/nonexistent.pgn", "--out", out],
            &[bad_epd, "--out", "/nonexistent/out.pgn"],
            &["--out", out],
            &["--nodes", "1", "--from", "2"],
            &["--nodes", "1", "--threshold", "2"],
        ],
    );
    assert_refused(
        &["analyze", bad_epd, "--out", out],
        &[
            &["--json"],
            &["--fen", "4k3/8/8/8/8/8/8/4K3 w - - 0 1"],
            &["--nodes", "0"],
            &["--from", "0"],
            &["--from", "9", "--to", "8"],
            &["--threshold", "-1"],
            &["--system", "convchess"],
            &["--chess960"],
            &["--patience", "5s"],
        ],
    );
}

#[test]
fn bad_matches_are_refused() {
    let BadFiles { bad_epd, empty_pgn, .. } = &BadFiles::new();
    assert_refused(&["match"], &[&[], &["--engine", "self", "--nodes", "1"]]);
    assert_refused(
        &["match", "--nodes", "1", "--engine", "self", "--engine"],
        &[
            &["/nonexistent/engine"],
            &["self; NoSuchOption=1"],
            &["self; Hash"],
            &["/bin/true"],
            &["\"self"],
        ],
    );
    assert_refused(
        &["match", "--engine", "self", "--engine", "self"],
        &[
            &[],
            &["--clock", "ten"],
            &["--nodes", "1", "--depth", "1"],
            &["--nodes", "1", "--games", "0"],
            &["--nodes", "1", "--alpha", "0.1"],
            &["--nodes", "1", "--opening-plies", "2"],
            &["--nodes", "1", "--openings", bad_epd],
            &["--nodes", "1", "--openings", empty_pgn],
            &["--nodes", "1", "--openings", "/nonexistent.epd"],
        ],
    );
}

#[test]
fn bad_label_runs_are_refused() {
    let BadFiles { bad_epd, out, .. } = &BadFiles::new();
    assert_refused(
        &["label"],
        &[
            &[],
            &["--out", "/nonexistent/out.pgn", "--engine", "self"],
            &["--out", out, "--engine", "/nonexistent/engine"],
            &["--out", out, "--engine", "self", "/nonexistent.pgn"],
            &["--out", out, "--engine", "self", "--random-moves", "2"],
            &["--out", out, "--engine", "self", bad_epd, "--games", "2"],
            &["--out", out, "--engine", "self", "--trees", "--share", "1.5"],
            &["--out", out, "--engine", "self", "--share", "0.5"],
            &["--out", out, "--engine", "self", "--trees", "stockfish; nodes=5"],
            &["--out", out, "--engine", "self", "--trees", "internal; movetime=1s"],
            &["--out", out, "--engine", "self", "--trees", "internal; System=convchess; nodes=5"],
        ],
    );
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
    assert!(
        text(&output.stderr).contains("the game at line 1 is left out"),
        "{}",
        text(&output.stderr)
    );
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
