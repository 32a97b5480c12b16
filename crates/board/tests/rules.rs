//! The rules that end games and the text forms of moves, case by case.

use board::{
    BoardError, CastlingMode, Checks, Color, Game, GameEnd, Position, Role, SplitMix64, Square,
    parse_san, parse_uci, san_line,
    testing::{random_positions, small_position},
    to_san, to_uci,
};

fn standard(fen: &str) -> Position {
    Position::from_fen(fen, CastlingMode::Standard).expect(fen)
}

fn chess960(fen: &str) -> Position {
    Position::from_fen(fen, CastlingMode::Chess960).expect(fen)
}

fn play(game: &mut Game, line: &str) {
    for text in line.split_whitespace() {
        let mv = parse_san(game.position(), text).expect(text);
        game.play(mv);
    }
}

fn after(fen: &str, line: &str) -> Game {
    let mut game = Game::new(standard(fen));
    play(&mut game, line);
    game
}

const START: &str = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1";

#[test]
fn third_occurrence_ends_the_game() {
    let mut game = after(START, "Nf3 Nf6 Ng1 Ng8");
    assert_eq!((game.occurrences(), game.end()), (2, None));
    play(&mut game, "Nc3 Nc6 Nb1 Nb8");
    assert_eq!((game.occurrences(), game.end()), (3, Some(GameEnd::Repetition)));
    play(&mut game, "e4");
    assert_eq!((game.occurrences(), game.end()), (1, None));
}

#[test]
fn a_lost_castling_right_makes_another_position() {
    let game = after(START, "e4 e5 Ke2 Ke7 Ke1 Ke8 Ke2 Ke7 Ke1 Ke8");
    assert_eq!(game.occurrences(), 2, "the position after 1. e4 e5 still had castling rights");
}

#[test]
fn a_possible_en_passant_capture_makes_another_position() {
    // d2d4 next to a black pawn on e4: exd3 is possible the first time only.
    let possible = after("4k3/8/8/8/4p3/8/3P4/4K3 w - - 0 1", "d4 Ke7 Kf1 Ke8 Ke1");
    assert_eq!(possible.occurrences(), 1);
    // The capture would leave the king in check from the rook: the position counts as the same.
    let pinned = after("8/8/8/8/R3p2k/8/3P4/4K3 w - - 0 1", "d4 Kh5 Kf1 Kh4 Ke1");
    assert_eq!(pinned.occurrences(), 2);
    assert_eq!(after("8/8/8/8/R3p2k/8/3P4/4K3 w - - 0 1", "d4").position().en_passant(), None);
    let open = after("4k3/8/8/8/4p3/8/3P4/4K3 w - - 0 1", "d4");
    assert_eq!(open.position().en_passant(), Some(Square::D3));
}

#[test]
fn a_halfmove_clock_longer_than_the_history_is_no_trouble() {
    let game = after("4k3/8/8/8/8/8/8/R3K3 w - - 60 80", "Ra2 Kd8 Ra1 Ke8");
    assert_eq!(game.occurrences(), 2);
    assert_eq!(game.position().halfmove_clock(), 64);
}

#[test]
fn fifty_moves() {
    let mut game = after("4k3/8/8/8/8/8/8/R3K3 w - - 98 80", "Ra2");
    assert_eq!(game.end(), None);
    play(&mut game, "Kd8");
    assert_eq!(game.end(), Some(GameEnd::FiftyMoves));
    let capture = after("4k3/8/8/8/8/8/r7/R3K3 w - - 99 80", "Rxa2");
    assert_eq!((capture.position().halfmove_clock(), capture.end()), (0, None));
}

#[test]
fn mate_comes_before_fifty_moves() {
    let mated = after("k7/8/1K6/8/8/8/8/7R w - - 99 90", "Rh8#");
    assert_eq!(mated.end(), Some(GameEnd::Checkmate { winner: Color::White }));
    assert_eq!(mated.position().halfmove_clock(), 100);
}

#[test]
fn stalemate_and_mate() {
    let stalemate = Game::new(standard("7k/5Q2/6K1/8/8/8/8/8 b - - 0 1"));
    assert_eq!(stalemate.end(), Some(GameEnd::Stalemate));
    let mate = after(START, "f3 e5 g4 Qh4#");
    assert_eq!(mate.end(), Some(GameEnd::Checkmate { winner: Color::Black }));
}

#[test]
fn insufficient_material() {
    for (pieces, insufficient) in [
        ("4k3/8/8/8/8/8/8/4K3", true),
        ("4k3/8/8/8/8/8/8/4KN2", true),
        ("4kb2/8/8/8/8/8/8/4K3", true),
        // Bishops of one colour only, however many.
        ("4kb2/8/8/8/8/8/8/2B1K3", true),
        ("4k1b1/8/8/8/8/8/8/2B1K3", false),
        // Possible to mate by the opponent's help, so not insufficient.
        ("4kn2/8/8/8/8/8/8/4KN2", false),
        ("4k3/8/8/8/8/8/8/4KNN1", false),
        ("4k3/8/8/8/8/8/P7/4K3", false),
        ("4k3/8/8/8/8/8/8/R3K3", false),
    ] {
        for turn in ["w", "b"] {
            let position = standard(&format!("{pieces} {turn} - - 0 1"));
            assert_eq!(position.is_insufficient_material(), insufficient, "{pieces}");
            assert_eq!(
                Game::new(position).end() == Some(GameEnd::InsufficientMaterial),
                insufficient
            );
        }
    }
}

#[test]
fn castling_in_every_notation() {
    let fen = "r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 0 1";
    let (plain, fischer) = (standard(fen), chess960(fen));
    for position in [&plain, &fischer] {
        for (texts, rook) in [(["e1g1", "e1h1"], Square::H1), (["e1c1", "e1a1"], Square::A1)] {
            for text in texts {
                let mv = parse_uci(position, text).expect(text);
                assert!(mv.is_castle() && mv.to() == rook, "{text}");
            }
        }
        for text in ["O-O", "0-0", "O-O+", "0-0!"] {
            assert_eq!(parse_san(position, text), parse_uci(position, "e1h1"), "{text}");
        }
        assert_eq!(parse_san(position, "0-0-0"), parse_uci(position, "e1a1"));
    }
    let castle = parse_uci(&plain, "e1g1").expect("legal");
    assert_eq!(to_uci(&plain, castle), "e1g1");
    assert_eq!(to_uci(&fischer, castle), "e1h1");
    assert_eq!(to_san(&plain, castle), "O-O");
}

/// In Chess960 a king's step and castling may have the same target; only the notation tells them
/// apart.
#[test]
fn chess960_castling_beside_a_king_move() {
    let position = chess960("4k3/8/8/8/8/8/8/5K1R w H - 0 1");
    let castle = parse_uci(&position, "f1h1").expect("castling");
    let step = parse_uci(&position, "f1g1").expect("a king move");
    assert!(castle.is_castle() && !step.is_castle());
    assert_eq!(
        (to_san(&position, castle), to_san(&position, step)),
        ("O-O".to_owned(), "Kg1".to_owned())
    );
    let (castled, stepped) = (position.after(castle), position.after(step));
    assert_eq!(castled.board().king_of(Color::White), stepped.board().king_of(Color::White));
    assert_eq!(castled.board().role_at(Square::F1), Some(Role::Rook));
    assert_eq!(castled.castling_rights(), board::Bitboard::EMPTY);
    // A castling in which the king stays where it is.
    let stays = chess960("4k3/8/8/8/8/8/8/6KR w H - 0 1");
    let castle = parse_uci(&stays, "g1h1").expect("castling");
    assert_eq!(stays.after(castle).board().role_at(Square::F1), Some(Role::Rook));
}

#[test]
fn castling_rights_in_every_fen_dialect() {
    let classic = chess960("rk2r3/8/8/8/8/8/8/RK2R3 w KQkq - 0 1");
    let shredder = chess960("rk2r3/8/8/8/8/8/8/RK2R3 w EAea - 0 1");
    assert_eq!(classic, shredder);
    // X-FEN: the inner of two rooks needs its file.
    let inner = chess960("1k6/8/8/8/8/8/8/1K2R2R w E - 0 1");
    assert!(
        inner.castling_rights().contains(Square::E1)
            && !inner.castling_rights().contains(Square::H1)
    );
    assert_eq!(chess960(&inner.fen()), inner);
    // In standard chess these are no rights.
    assert_eq!(standard("rk2r3/8/8/8/8/8/8/RK2R3 w KQkq - 0 1").castling_rights().count(), 0);
}

#[test]
fn chess960_start_positions() {
    let standard_array = Position::chess960(518).expect("518");
    assert!(standard_array.fen().starts_with("rnbqkbnr/"));
    assert!(Position::chess960(0).expect("0").fen().starts_with("bbqnnrkr/"));
    assert!(Position::chess960(959).expect("959").fen().starts_with("rkrnnqbb/"));
    assert_eq!(Position::chess960(960), None);
    let different: std::collections::HashSet<u64> =
        (0..960).map(|number| Position::chess960(number).expect("below 960").key()).collect();
    assert_eq!(different.len(), 960);
}

#[test]
fn fens_of_four_to_six_fields() {
    let whole = standard("8/8/4k3/8/8/4K3/4P3/8 b - - 12 34");
    assert_eq!((whole.halfmove_clock(), whole.ply()), (12, 67));
    let endless =
        Position::from_fen("4k3/8/8/8/8/8/8/4K2R b - - 0 4294967295", CastlingMode::Standard);
    assert_eq!(endless.unwrap().ply(), u32::MAX);
    assert_eq!(standard("8/8/4k3/8/8/4K3/4P3/8 b - -"), whole);
    assert_eq!(standard("  8/8/4k3/8/8/4K3/4P3/8 b - - 12\n"), whole);
    // An en-passant square without a capture is dropped.
    let dropped = standard("rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq e3 0 1");
    assert_eq!(dropped.fen(), "rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq - 0 1");
}

#[test]
fn what_is_no_position_is_refused() {
    for fen in [
        "",
        "hello",
        "8/8/8/8/8/8/8 w - - 0 1",
        "8/8/8/8/8/8/8/8/8 w - - 0 1",
        "9/8/8/8/8/8/8/8 w - - 0 1",
    ] {
        let error = Position::from_fen(fen, CastlingMode::Standard).expect_err(fen);
        assert!(matches!(error, BoardError::FenSyntax { .. }), "{fen}: {error}");
    }
    for fen in [
        "8/8/8/8/8/8/8/8 w - - 0 1",
        "4k3/8/8/8/8/8/8/8 w - - 0 1",
        "4k3/8/8/8/8/8/8/2K1K3 w - - 0 1",
        "P3k3/8/8/8/8/8/8/4K3 w - - 0 1",
        "4k3/8/8/8/8/8/4R3/4K3 w - - 0 1",
        "QQQQQQQQ/QQQQQQQQ/8/8/4k3/8/8/4K3 w - - 0 1",
    ] {
        let error = Position::from_fen(fen, CastlingMode::Standard).expect_err(fen);
        assert!(matches!(error, BoardError::FenPosition { .. }), "{fen}: {error}");
        assert_eq!(error.to_string().lines().count(), 1);
    }
}

#[test]
fn what_is_no_move_is_refused() {
    let position = Position::default();
    for text in ["", "e2", "e2e9", "castle", "é2e4"] {
        assert!(matches!(parse_uci(&position, text), Err(BoardError::MoveSyntax { .. })), "{text}");
    }
    for text in ["e2e5", "e7e5", "e1g1", "e1h1", "0000", "e2e4q", "P@e4"] {
        assert!(
            matches!(parse_uci(&position, text), Err(BoardError::IllegalMove { .. })),
            "{text}"
        );
    }
    for text in ["Nd2", "O-O", "exd5", "--", "P@e4", "@e4"] {
        assert!(parse_san(&position, text).is_err(), "{text}");
    }
    let two = standard("4k3/8/8/8/8/8/4K3/N3N3 w - - 0 1");
    assert!(parse_san(&two, "Nc2").is_err(), "ambiguous");
    assert!(parse_san(&two, "Nac2").is_ok());
}

#[test]
fn lines_of_moves() {
    let game = after(START, "e4 e5 Nf3");
    assert_eq!(san_line(game.start(), game.moves()), "1. e4 e5 2. Nf3");
    let mut second = Game::new(game.start().clone());
    play(&mut second, "e4");
    let middle = second.position().clone();
    assert_eq!(san_line(&middle, &game.moves()[1..]), "1... e5 2. Nf3");
    assert_eq!(san_line(&middle, game.moves()), "", "stops before an illegal move");
}

/// Messages quote the refused text on one line and with a limited length.
#[test]
fn messages_stay_readable() {
    let long = format!("8/8\n{}", "é".repeat(100_000));
    let position = Position::default();
    for error in [
        Position::from_fen(&long, CastlingMode::Standard).expect_err("no FEN"),
        parse_uci(&position, &long).expect_err("no move"),
        parse_san(&position, &long).expect_err("no move"),
        parse_uci(&position, "e2e5").expect_err("illegal"),
    ] {
        let message = error.to_string();
        assert!(message.chars().count() < 300 && message.lines().count() == 1, "{message}");
    }
}

#[test]
fn positions_without_a_legal_move_are_told_from_the_others() {
    let mut random = SplitMix64::new(11);
    let small = (0..20_000).map(|index| small_position(&mut random, 2 + index % 6));
    let (mut ended, mut moving) = (0, 0);
    let mut judge = |position: &Position| {
        let has_moves = !position.legal_moves().is_empty();
        assert_eq!(position.has_legal_moves(), has_moves, "{}", position.fen());
        if has_moves { moving += 1 } else { ended += 1 }
    };
    // Their moves lead to mates and stalemates, which `small_position` leaves out.
    for position in small {
        judge(&position);
        position.legal_moves().into_iter().for_each(|mv| judge(&position.after(mv)));
    }
    random_positions(300, 120, 12).iter().for_each(&mut judge);
    for number in 0..960 {
        let mut position = Position::chess960(number).unwrap();
        for _ in 0..20 {
            let moves = position.legal_moves();
            let Some(&mv) = moves.get(random.below(moves.len().max(1))) else { break };
            position.play(mv);
            judge(&position);
        }
    }
    for fen in [
        "7k/5Q2/8/8/8/8/8/K7 b - - 0 1",        // stalemate
        "k7/1R6/K7/8/8/8/8/8 b - - 0 1",        // stalemate: the rook is protected
        "8/8/8/8/8/4p1k1/4P3/7K w - - 0 1",     // the king alone can move
        "4r2k/8/8/8/8/4R3/PP6/KN6 w - - 0 1",   // free pieces
        "k3r3/8/8/8/4R3/8/7p/4K2b w - - 0 1",   // a pinned rook has moves
        "k6b/8/8/8/3N4/1q6/8/K7 w - - 0 1",     // a pinned knight and a king without squares
        "k7/p1K5/P7/8/3Pp3/4P3/8/8 b - d3 0 1", // en passant alone
        "8/8/8/8/k2Pp2Q/8/8/4K3 b - d3 0 1",    // en passant would uncover a check
    ] {
        judge(&standard(fen));
    }
    assert!(ended > 100 && moving > 100_000, "{ended} {moving}");
}

#[test]
fn moves_that_give_check_are_known_before_they_are_played() {
    /// Checks seen: by castling, by en-passant captures, by promotions, by others.
    fn walk(position: &Position, plies: u32, seen: &mut [usize; 4]) {
        let checks = Checks::of(position);
        for mv in position.legal_moves() {
            let next = position.after(mv);
            assert_eq!(position.gives_check(mv), next.is_check(), "{} {mv}", position.fen());
            assert_eq!(checks.gives(mv), next.is_check(), "{} {mv}", position.fen());
            let kind = [mv.is_castle(), mv.is_en_passant(), mv.is_promotion(), true]
                .iter()
                .position(|&is| is);
            seen[kind.unwrap_or_default()] += usize::from(next.is_check());
            if plies > 1 {
                walk(&next, plies - 1, seen);
            }
        }
    }
    let mut seen = [0; 4];
    for fen in [
        "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
        "8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1",
        "r3k2r/Pppp1ppp/1b3nbN/nP6/BBP1P3/q4N2/Pp1P2PP/R2Q1RK1 w kq - 0 1",
        "n1n5/PPPk4/8/8/8/8/4Kppp/5N1N b - - 0 1",
        "5k2/8/8/8/8/8/8/4K2R w K - 0 1",
        "8/8/4k3/3pP3/8/8/B7/4K3 w - d6 0 1",
    ] {
        walk(&standard(fen), 3, &mut seen);
    }
    walk(&chess960("2rkr3/8/8/8/8/8/8/2RK1R2 w FCec - 0 1"), 3, &mut seen);
    assert!(seen.iter().all(|&checks| checks > 0), "{seen:?}");
}

#[test]
fn a_null_move_changes_the_side_to_move_only() {
    let position = standard("r3k2r/8/8/3pP3/8/8/8/R3K2R w KQkq d6 7 20");
    let after = position.after_null_move().unwrap();
    assert_eq!(after.fen(), "r3k2r/8/8/3pP3/8/8/8/R3K2R b KQkq - 0 20");
    assert_ne!(after.key(), position.key());
    assert!(standard("4k3/8/8/8/8/8/4r3/4K3 w - - 0 1").after_null_move().is_none());
    let freed = chess960("4k3/8/8/8/8/8/8/1R2K3 w Q - 0 1").after_null_move().unwrap();
    assert_eq!(freed.castling_mode(), CastlingMode::Chess960);
    assert_eq!(
        [START, "4k3/8/8/8/8/8/4P3/4K3 b - - 0 1"].map(|fen| standard(fen).piece_count()),
        [7, 0]
    );
}

/// Verdicts of python-chess (`has_insufficient_material`): who wins when the other side's time is over.
#[test]
fn time_is_lost_only_against_a_side_that_can_mate() {
    for (fen, winner) in [
        ("8/8/4k3/8/8/4K3/8/8 w - - 0 1", None),
        ("8/8/4k3/8/8/4K3/8/7Q w - - 0 1", None),
        ("8/8/4k3/8/8/4K3/8/7q w - - 0 1", Some(Color::Black)),
        ("8/8/4k3/8/8/4K3/7P/8 b - - 0 1", Some(Color::White)),
        ("8/8/4k3/8/8/4K3/7N/8 b - - 0 1", None),
        ("8/8/4k3/7p/8/4K3/7N/8 b - - 0 1", Some(Color::White)),
        ("8/8/4k3/7q/8/4K3/7N/8 b - - 0 1", None),
        ("8/8/4k3/7b/8/4K3/7B/8 b - - 0 1", Some(Color::White)),
        ("5b2/8/4k3/8/8/4K3/7B/8 b - - 0 1", None),
        ("8/8/4k3/8/8/4K3/6NN/8 b - - 0 1", Some(Color::White)),
        ("8/8/4k3/8/8/4K3/8/R7 b - - 0 1", Some(Color::White)),
    ] {
        let position = Position::from_fen(fen, CastlingMode::Standard).unwrap();
        assert_eq!(position.winner_on_time(position.turn()), winner, "{fen}");
    }
}
