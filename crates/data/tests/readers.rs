//! Whose side a value is from, which move it belongs to, and what is made of bad input.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Write;
use std::ops::ControlFlow;
use std::path::Path;

use board::{Color, to_uci};
use data::{
    DataError, Format, GameFilter, GameResult, MATE_LABEL, NO_LABEL, ParsedChunk, Record, SkipKind,
    mate_label, read_file,
};
use proptest::prelude::*;

/// All pieces of a file put together.
fn read(path: &Path, threads: usize) -> Result<(ParsedChunk, Option<Format>), DataError> {
    let mut all = ParsedChunk::default();
    let facts = read_file(path, threads, &GameFilter::default(), |piece, _| {
        all.records.extend(
            piece.records.iter().map(|record| Record { game: record.game + all.games, ..*record }),
        );
        all.games += piece.games;
        all.whole += piece.whole;
        all.broken += piece.broken;
        all.left_out += piece.left_out;
        all.positions += piece.positions;
        all.skipped.merge(&piece.skipped);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok((all, facts.format))
}

fn read_text(name: &str, text: impl AsRef<[u8]>) -> ParsedChunk {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    std::fs::write(&path, text).unwrap();
    read(&path, 1).unwrap().0
}

fn played(record: &Record) -> Option<String> {
    let turn = if record.white_to_move { Color::White } else { Color::Black };
    let position = record.squares.position(turn)?;
    nets::move_of_index(&position, record.played).map(|mv| to_uci(&position, mv))
}

#[test]
fn values_are_turned_to_the_mover() {
    let parsed = read_text(
        "game.pgn",
        "[Result \"1-0\"]\n\n{ [%eval 0.30] } 1. e4 { [%eval 0.25] } 1... f6?! { [%eval 1.10] } 2. d4 { [%eval 1.05] } 1-0\n",
    );
    let values: Vec<_> = parsed
        .records
        .iter()
        .map(|record| (record.white_to_move, record.value, record.played_value))
        .collect();
    assert_eq!(
        values,
        [(true, 30, 25), (false, -25, -110), (true, 110, 105), (false, -105, NO_LABEL)],
        "(white to move, value, played value)"
    );
    assert_eq!(
        parsed.records.iter().map(played).collect::<Vec<_>>(),
        [Some("e2e4".to_owned()), Some("f7f6".to_owned()), Some("d2d4".to_owned()), None]
    );
    let results: Vec<_> = parsed.records.iter().map(|record| record.result).collect();
    assert_eq!(results, [GameResult::Win, GameResult::Loss, GameResult::Win, GameResult::Loss]);
    assert_eq!(parsed.records.iter().map(|record| record.ply).collect::<Vec<_>>(), [0, 1, 2, 3]);
}

#[test]
fn black_may_begin_and_mates_are_ordered() {
    let parsed = read_text(
        "game.pgn",
        "[FEN \"7k/8/5K2/6Q1/8/8/8/8 b - - 12 40\"]\n\n{ [%eval #2] } 40... Kh7 { [%eval #1] } 41. Qg7# 1-0\n",
    );
    let values: Vec<_> =
        parsed.records.iter().map(|record| (record.value, record.played_value)).collect();
    assert_eq!(values, [(mate_label(-2), mate_label(-1)), (mate_label(1), -mate_label(0))]);
    assert!(mate_label(-2) > mate_label(-1) && mate_label(1) > mate_label(2));
    assert!(!parsed.records[0].white_to_move);
    assert_eq!((parsed.records[0].ply, parsed.records[0].halfmove_clock), (79, 12));
    assert_eq!(parsed.skipped.count(SkipKind::GameOver), 1);
    assert_eq!(parsed.positions, 3);
}

#[test]
fn black_mates_are_negative_for_white() {
    let parsed = read_text("game.pgn", "1. f3 e5 2. g4 { [%eval #-1] } Qh4# 0-1\n");
    let last = parsed.records.last().unwrap();
    assert_eq!(
        (last.white_to_move, last.value, last.played_value),
        (false, mate_label(1), -mate_label(0))
    );
    assert_eq!(last.result, GameResult::Win);
    // The move before it allows the mate.
    assert_eq!(parsed.records[2].played_value, mate_label(-1));
}

#[test]
fn a_stalemate_is_worth_nothing() {
    let parsed = read_text(
        "game.pgn",
        "[FEN \"7k/8/5K2/8/6Q1/8/8/8 w - - 0 1\"]\n\n1. Qg6 { [%eval 5.00] } 1/2-1/2\n",
    );
    assert_eq!(parsed.records.len(), 1);
    assert_eq!((parsed.records[0].value, parsed.records[0].played_value), (NO_LABEL, 0));
}

#[test]
fn variations_glyphs_and_other_comments_do_not_confuse() {
    let parsed = read_text(
        "game.pgn",
        "1. e4 $1 { best by test } { [%eval 0.20,18] [%clk 0:10:00] } (1. d4 { [%eval -9.00] } d5 (1... f5 {[%eval 3]})) \
         1... e5! {[%clk 1:00]} 2. Nf3!? {[%csl Ga1] [%eval -0.07]} ; [%eval 8.00]\n2... Nc6 *\n",
    );
    let values: Vec<_> =
        parsed.records.iter().map(|record| (record.value, record.played_value)).collect();
    assert_eq!(
        values,
        [(NO_LABEL, 20), (-20, NO_LABEL), (NO_LABEL, -7), (7, NO_LABEL), (NO_LABEL, NO_LABEL)]
    );
    assert!(parsed.skipped.0.is_empty());
}

#[test]
fn an_unreadable_evaluation_is_counted_and_others_stay() {
    let parsed = read_text(
        "game.pgn",
        "1. e4 { [%eval oops] } e5 { [%eval 1e400] } 2. f4 { [%eval -0.5] } *\n",
    );
    assert_eq!(parsed.skipped.count(SkipKind::BadEvaluation), 2);
    assert_eq!(parsed.records[3].value, 50);
    // Out of range, but a number.
    let parsed = read_text("game.pgn", "1. e4 { [%eval 99999.00] } *\n");
    assert_eq!(parsed.records[1].value, 1 - MATE_LABEL);
}

#[test]
fn an_illegal_move_ends_its_game_only() {
    let parsed = read_text(
        "games.pgn",
        "[White \"a\"]\n\n1. e4 { [%eval 0.3] } Ke4 { [%eval 9] } 2. d4 *\n\n[White \"b\"]\n\n1. d4 { [%eval 0.1] } *\n",
    );
    assert_eq!((parsed.games, parsed.skipped.count(SkipKind::IllegalMove)), (2, 1));
    let values: Vec<_> = parsed.records.iter().map(|record| (record.game, record.value)).collect();
    assert_eq!(values, [(0, NO_LABEL), (0, -30), (1, NO_LABEL), (1, -10)]);
}

#[test]
fn null_moves_bad_starts_and_other_variants_are_skipped() {
    let parsed = read_text(
        "games.pgn",
        "[FEN \"8/8/8/8/8/8/8/8 w - - 0 1\"]\n\n1. e4 { [%eval 1] } *\n\n\
         [Variant \"Crazyhouse\"]\n\n1. e4 { [%eval 1] } *\n\n\
         [Variant \"wild/standard\"]\n\n1. -- { [%eval 1] } *\n",
    );
    assert_eq!(parsed.games, 3);
    assert_eq!(parsed.skipped.count(SkipKind::BadStart), 1);
    assert_eq!(parsed.skipped.count(SkipKind::Variant), 1);
    assert_eq!(parsed.skipped.count(SkipKind::BadSyntax), 1);
    assert!(parsed.records.iter().all(|record| record.value == NO_LABEL));
}

#[test]
fn chess960_castles() {
    let parsed = read_text(
        "game.pgn",
        "[Variant \"Chess960\"]\n[FEN \"4k3/8/8/8/8/8/8/1RK4R w HB - 0 1\"]\n\n1. O-O { [%eval 2.5] } *\n",
    );
    assert_eq!(parsed.records.len(), 2);
    assert_eq!(played(&parsed.records[0]).unwrap(), "c1h1");
    assert_eq!(parsed.records[1].value, -250);
}

#[test]
fn evaluations_of_the_players_own_side_are_dropped() {
    let moves = ["Nf3", "Nf6", "Ng1", "Ng8"];
    let game = |sign: [&str; 2]| {
        (0..10).fold(String::new(), |text, ply| {
            format!("{text}{} {{ [%eval {}1.{ply}] }} ", moves[ply % 4], sign[ply % 2])
        })
    };
    let whites = read_text("game.pgn", game(["", ""]) + "*\n");
    assert_eq!(whites.records[1].value, -100);
    assert_eq!(whites.skipped.count(SkipKind::PlayersSide), 0);
    let players = read_text("game.pgn", game(["", "-"]) + "*\n");
    assert_eq!(players.skipped.count(SkipKind::PlayersSide), 1);
    assert!(
        players
            .records
            .iter()
            .all(|record| record.value == NO_LABEL && record.played_value == NO_LABEL)
    );
}

#[test]
fn lichess_lines_use_the_deepest_evaluation() {
    let parsed = read_text(
        "evals.jsonl",
        concat!(
            r#"{"fen":"rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq -","evals":["#,
            r#"{"pvs":[{"cp":90,"line":"a7a6"}],"knodes":9,"depth":10},"#,
            r#"{"pvs":[{"cp":30,"line":"e7e5 g1f3"},{"cp":40,"line":"c7c5"}],"knodes":5,"depth":30},"#,
            r#"{"pvs":[{"cp":35,"line":"d7d5"}],"knodes":4,"depth":30}]}"#,
            "\n\n",
            r#"{"fen":"7k/8/5K2/6Q1/8/8/8/8 w - -","evals":[{"pvs":[{"mate":1,"line":"g5g7"}],"knodes":1,"depth":99}]}"#,
            "\n",
            r#"{"fen":"7k/8/5K2/6Q1/8/8/8/8 b - -","evals":[{"pvs":[{"mate":2,"line":"h8h7"}],"knodes":1,"depth":99}]}"#,
            "\n",
            r#"{"fen":"r3k2r/8/8/8/8/8/8/R3K2R w KQkq -","evals":[{"pvs":[{"cp":0,"line":"e1h1 e8a8"}]}]}"#,
            "\n",
        ),
    );
    assert!(parsed.skipped.0.is_empty());
    let found: Vec<_> = parsed
        .records
        .iter()
        .map(|record| (record.value, record.played_value, played(record).unwrap()))
        .collect();
    assert_eq!(
        found,
        [
            (-30, -30, "e7e5".to_owned()),
            (mate_label(1), -mate_label(0), "g5g7".to_owned()),
            (mate_label(-2), mate_label(-2), "h8h7".to_owned()),
            (0, 0, "e1g1".to_owned()),
        ]
    );
    assert_eq!(parsed.records.iter().map(|record| record.game).collect::<Vec<_>>(), [0, 1, 2, 3]);
}

#[test]
fn bad_lichess_lines_are_counted_by_kind() {
    let parsed = read_text(
        "evals.jsonl",
        concat!(
            "{\"fen\":\n",
            "[]\n",
            "{\"fen\":\"8/8/8/8/8/8/8/8 w - -\",\"evals\":[]}\n",
            "{\"fen\":\"7k/8/5K2/6Q1/8/8/8/8 w - -\",\"evals\":[]}\n",
            "{\"fen\":\"7k/8/5K2/6Q1/8/8/8/8 w - -\",\"evals\":[{\"pvs\":[{\"line\":\"g5g7\"}]}]}\n",
            "{\"fen\":\"7k/8/5K2/6Q1/8/8/8/8 w - -\",\"evals\":[{\"pvs\":[{\"cp\":1,\"line\":\"g5a2\"}]}]}\n",
            "{\"fen\":\"7k/6Q1/5K2/8/8/8/8/8 b - -\",\"evals\":[{\"pvs\":[{\"mate\":0}]}]}\n",
            "{\"fen\":\"7k/8/5K2/6Q1/8/8/8/8 w - -\",\"evals\":[{\"pvs\":[{\"cp\":-2147483648,\"line\":\"g5a5\"}]}]}\n",
            "{\"fen\":\"7k/8/5K2/6Q1/8/8/8/8 w - -\",\"evals\":[{\"pvs\":[{\"cp\":7}]}]}",
        ),
    );
    let counts: Vec<_> = parsed.skipped.0.into_iter().collect();
    assert_eq!(
        counts,
        [
            (SkipKind::IllegalMove, 1),
            (SkipKind::BadJson, 2),
            (SkipKind::BadPosition, 1),
            (SkipKind::GameOver, 1),
            (SkipKind::Unlabelled, 2),
        ]
    );
    assert_eq!(parsed.games, 9);
    assert_eq!(
        parsed.records.iter().map(|record| record.value).collect::<Vec<_>>(),
        [1 - MATE_LABEL, 7]
    );
    assert_eq!(parsed.records[1].played_value, NO_LABEL);
}

#[test]
fn epd_operations_are_the_movers() {
    let parsed = read_text(
        "list.epd",
        "# a list\n\
         rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq - c0 \"ce 99; bm x\"; ce -25; bm e5 c5; id \"one\";\n\
         rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq - 0 1\n\
         7k/8/5K2/6Q1/8/8/8/8 w - - bm Qg7#; dm 1;\n\
         7k/8/5K2/6Q1/8/8/8/8 w - - bm Qa1; ce x;\n\
         7k/6Q1/5K2/8/8/8/8/8 b - -\n\
         not a position\n",
    );
    let found: Vec<_> = parsed
        .records
        .iter()
        .map(|record| (record.value, record.played_value, played(record)))
        .collect();
    assert_eq!(
        found,
        [
            (-25, -25, Some("e7e5".to_owned())),
            (NO_LABEL, NO_LABEL, None),
            (mate_label(1), -mate_label(0), Some("g5g7".to_owned())),
            (NO_LABEL, NO_LABEL, None),
        ]
    );
    let counts: Vec<_> = parsed.skipped.0.into_iter().collect();
    assert_eq!(
        counts,
        [
            (SkipKind::IllegalMove, 1),
            (SkipKind::BadEvaluation, 1),
            (SkipKind::BadPosition, 1),
            (SkipKind::GameOver, 1)
        ]
    );
    assert_eq!(parsed.games, 6);
}

/// Games that differ, with a few lines of comment each.
/// Games and plies that analysis, labelling and openings read.
fn read_by_others(path: &Path) -> (u32, u32, u64) {
    let (mut read, mut left_out, mut plies) = (0, 0, 0);
    for entry in games::read_files(&[path.to_owned()]) {
        match entry.unwrap() {
            games::FileEntry::Game(game) => {
                (read, plies) = (read + 1, plies + game.game.moves().len() as u64)
            }
            games::FileEntry::Position(_) => read += 1,
            games::FileEntry::LeftOutGame(_) | games::FileEntry::LeftOutLine => left_out += 1,
        }
    }
    (read, left_out, plies)
}

#[test]
fn every_command_reads_the_same() {
    let start = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq -";
    let start960 = "bqnbrkrn/pppppppp/8/8/8/8/PPPPPPPP/BQNBRKRN w KQkq - 0 1";
    for (name, text, expected) in [
        ("a.pgn", "1. e4 e5 *".to_owned(), (1, 0, 2)),
        ("a.pgn", "\u{feff}[Event \"a\"]\r\n\r\n1. e4 e5 *\r\n".to_owned(), (1, 0, 2)),
        (
            "a.pgn",
            "[Event \"a\"]\r\r1. e4 e5 *\r\r[Event \"b\"]\r\r1. d4 *\r".to_owned(),
            (2, 0, 3),
        ),
        ("a.pgn", "1. e4 e5 *\n\n1. d4 d5 2. c4 *".to_owned(), (2, 0, 5)),
        ("a.pgn", "1. Ng1-f3 { [%eval 0.1] } e7e5 2. foo d4 *".to_owned(), (1, 0, 2)),
        (
            "a.pgn",
            "[Event \"a\"]\n\n1. e4 { open\n\n[Event \"b\"]\n\n1. d4 d5 *".to_owned(),
            (2, 0, 3),
        ),
        ("a.pgn", "[White \"Joe \"Iron\" Pawn\"]\n\n1. e4 e5 *".to_owned(), (1, 0, 2)),
        (
            "a.pgn",
            "[Variant \"Atomic\"]\n\n1. e4 *\n\n[Event \"b\"]\n\n1. d4 *".to_owned(),
            (1, 1, 1),
        ),
        ("a.pgn", format!("[FEN \"{start960}\"]\n\n1. O-O d5 *"), (1, 0, 2)),
        (
            "a.pgn",
            format!("[Variant \"From Position\"]\n[FEN \"{start960}\"]\n\n1. O-O d5 *"),
            (1, 0, 2),
        ),
        ("a.pgn", "[FEN \"x\"]\n\n1. e4 *".to_owned(), (0, 1, 0)),
        ("a.epd", format!("\u{feff}{start} ce 12;\r{start960}\r\nnonsense\n# note\n"), (2, 1, 0)),
        ("a.fen", format!("{start} hmvc 3; fmvn 9; id \"\u{e9}\";"), (1, 0, 0)),
        ("a", format!("{start} bm e4;\n\n{start} bm d4;"), (2, 0, 0)),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        std::fs::write(&path, &text).unwrap();
        let (parsed, _) = read(&path, 1).unwrap();
        // Each game has a position more than moves.
        let plies = parsed.positions - u64::from(parsed.whole + parsed.broken);
        assert_eq!((parsed.whole + parsed.broken, parsed.left_out, plies), expected, "{text}");
        assert_eq!(read_by_others(&path), expected, "{text}");
    }
}

#[test]
fn lines_of_json_are_read_or_counted() {
    let fen = "7k/8/5K2/6Q1/8/8/8/8 w - -";
    for (evals, expected) in [
        (r#"[{"pvs":[{"cp":50,"line":"g5a5"}]}]"#, Some((50, true))),
        (r#"[{"pvs":[{"cp":50.0,"line":"g5a5 h8g8"}],"depth":3}]"#, Some((50, true))),
        (
            r#"[{"pvs":[{"cp":1}],"depth":9},{"pvs":[{"cp":2,"line":"g5a5"}],"depth":3}]"#,
            Some((2, true)),
        ),
        (r#"[{"pvs":[],"depth":9},{"pvs":[{"cp":2}],"depth":3}]"#, Some((2, false))),
        (
            r#"[{"pvs":[{"cp":1}],"depth":9},{"pvs":[{"cp":2,"line":" "}],"depth":30}]"#,
            Some((2, false)),
        ),
        (r#"[{"pvs":[{"mate":2,"line":"g5g7"}]}]"#, Some((mate_label(2), true))),
        (r#"[{"pvs":[{"mate":0,"line":"g5g7"}]}]"#, None),
        (r#"[{"pvs":[{"cp":5,"line":"g5b2"}]}]"#, None),
        (r#"[{"pvs":[{"cp":"5"}]}]"#, None),
        (r#"[]"#, None),
        (r#"[{"pvs":[{"line":"g5a5"}]}]"#, None),
        (r#"[{"pvs":[{"cp":1e999}]}]"#, None),
    ] {
        let parsed = read_text("a.jsonl", format!("{{\"fen\":\"{fen}\",\"evals\":{evals}}}\n"));
        let read = parsed.records.first().map(|record| (record.value, record.played != u16::MAX));
        assert_eq!(read, expected, "{evals}");
        assert_eq!(
            (parsed.whole, parsed.left_out),
            if expected.is_some() { (1, 0) } else { (0, 1) }
        );
    }
}

fn many_games(count: usize) -> String {
    let openings = [
        "e4 {P} e5 {Q} Nf3 {R} Nc6 {S}",
        "d4 {P} d5 {Q} c4 {R} e6 {S}",
        "c4 {P} Nf6 {Q} Nc3 {R} g6 {S}",
    ];
    (0..count).fold(String::new(), |mut text, number| {
        let mut moves = openings[number % 3].to_owned();
        for (mark, offset) in [("{P}", 0), ("{Q}", 1), ("{R}", 2), ("{S}", 3)] {
            let value =
                format!("{{ [%eval {:.2}]\n[%emt 1.0] }}", (number % 50 + offset) as f64 / 100.0);
            moves = moves.replace(mark, &value);
        }
        text += &format!("[Event \"{number}\"]\n[Result \"1/2-1/2\"]\n\n{moves} 1/2-1/2\n\n");
        text
    })
}

#[test]
fn compression_and_threads_make_no_difference() {
    let dir = tempfile::tempdir().unwrap();
    let text = many_games(8000);
    assert!(text.len() > 1_000_000, "several pieces");
    let plain = dir.path().join("games.pgn");
    std::fs::write(&plain, &text).unwrap();
    let (expected, format) = read(&plain, 1).unwrap();
    assert_eq!((expected.games, expected.records.len(), format), (8000, 40_000, Some(Format::Pgn)));
    assert!(expected.skipped.0.is_empty());
    let games: Vec<u32> = expected.records.iter().map(|record| record.game).collect();
    assert!(games.iter().zip(0..).all(|(&game, at): (&u32, u32)| game == at / 5));

    // Two frames or members each: such files are common.
    let (first, second) = text.as_bytes().split_at(text.len() / 2 + 13);
    let zstd = [zstd::encode_all(first, 1).unwrap(), zstd::encode_all(second, 1).unwrap()].concat();
    let gzip = [first, second].map(|half| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(half).unwrap();
        encoder.finish().unwrap()
    });
    let bzip2 = [first, second].map(|half| {
        let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
        encoder.write_all(half).unwrap();
        encoder.finish().unwrap()
    });
    // The last has no name that says anything.
    for (name, bytes) in [
        ("games.pgn.zst", zstd),
        ("games.pgn.gz", gzip.concat()),
        ("games.pgn.bz2", bzip2.concat()),
        ("games", gzip.concat()),
    ] {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        for threads in [1, 3] {
            assert!(
                read(&path, threads).unwrap() == (expected.clone(), Some(Format::Pgn)),
                "{name}, {threads} threads"
            );
        }
    }
    let windows = dir.path().join("windows.pgn");
    std::fs::write(&windows, text.replace('\n', "\r\n")).unwrap();
    assert!(read(&windows, 2).unwrap().0.records == expected.records, "line ends of Windows");
}

#[test]
fn a_cut_archive_is_an_error_that_names_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("games.pgn.zst");
    let bytes = zstd::encode_all(many_games(3000).as_bytes(), 1).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    let error = read(&path, 2).unwrap_err().to_string();
    assert!(error.contains("games.pgn.zst"), "{error}");
    assert!(read(&dir.path().join("none.pgn"), 1).is_err());
}

#[test]
fn text_without_any_boundary_is_read_too() {
    // No blank line, no tag: one endless game, and a comment that is never closed.
    let endless = "Nf3 Nf6 Ng1 Ng8 ".repeat(40_000);
    assert_eq!(read_text("game.pgn", &endless).records.len(), 160_001);
    let parsed =
        read_text("game.pgn", format!("1. e4 {{ [%eval 0.2] }} e5 {{ {}", "a ".repeat(400_000)));
    assert_eq!(parsed.skipped.count(SkipKind::BadSyntax), 1);
    assert_eq!(parsed.records[1].value, -20);
}

#[test]
fn a_reader_may_stop_early() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("games.pgn");
    std::fs::write(&path, many_games(8000)).unwrap();
    let all =
        read_file(&path, 2, &GameFilter::default(), |_, _| Ok(ControlFlow::Continue(()))).unwrap();
    let mut pieces = 0;
    let some = read_file(&path, 2, &GameFilter::default(), |_, _| {
        pieces += 1;
        Ok(ControlFlow::Break(()))
    })
    .unwrap();
    assert_eq!((pieces, &some.sha256, some.bytes), (1, &all.sha256, all.bytes));
}

#[test]
fn formats_are_told_by_their_text() {
    for (text, format) in [
        ("[Event \"x\"]\n", Format::Pgn),
        ("1. e4 e5\n", Format::Pgn),
        ("{\"fen\":\"x\"}\n", Format::LichessEvaluations),
        ("{ a comment } 1. e4\n", Format::Pgn),
        ("\u{feff}\n8/8/8/8/8/4k3/8/4K2R w K -\n", Format::Epd),
        ("[Site \"https://a/b/c/d/e/f/g/h\"]\n", Format::Pgn),
    ] {
        assert_eq!(Format::of_text(text.as_bytes()), format, "{text:?}");
    }
    for (name, format) in [
        ("a.pgn", Some(Format::Pgn)),
        ("a.PGN.bz2", Some(Format::Pgn)),
        ("lichess_db_eval.jsonl.zst", Some(Format::LichessEvaluations)),
        ("a.epd", Some(Format::Epd)),
        ("a.zst", None),
        ("a", None),
    ] {
        assert_eq!(Format::of_name(Path::new(name)), format, "{name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn no_bytes_make_a_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400), kind in 0..4_usize) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(["x.pgn", "x.jsonl", "x.epd", "x"][kind]);
        std::fs::write(&path, bytes).unwrap();
        if let Ok((parsed, _)) = read(&path, 1) {
            prop_assert_eq!(parsed.whole + parsed.broken + parsed.left_out, parsed.games);
        }
    }

    #[test]
    fn no_damaged_text_makes_a_reader_panic(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
        kind in 0..3_usize,
    ) {
        let mut text = [
            many_games(4),
            "{\"fen\":\"7k/8/5K2/6Q1/8/8/8/8 w - -\",\"evals\":[{\"pvs\":[{\"cp\":1,\"line\":\"g5a5\"}]}]}\n".repeat(4),
            "7k/8/5K2/6Q1/8/8/8/8 w - - 3 4 ce 12; bm Qg7; id \"x\";\n".repeat(4),
        ][kind].clone().into_bytes();
        for (at, byte) in changes {
            let at = at.index(text.len());
            text[at] = byte;
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(["x.pgn", "x.jsonl", "x.epd"][kind]);
        std::fs::write(&path, text).unwrap();
        let (parsed, _) = read(&path, 1).unwrap();
        prop_assert!(parsed.records.len() as u64 <= parsed.positions);
        prop_assert_eq!(parsed.whole + parsed.broken + parsed.left_out, parsed.games);
    }
}
