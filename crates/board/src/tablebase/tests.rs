use std::{fs, iter};

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use shakmaty::{CastlingMode, Role, Setup, Square};

use super::*;

fn tables() -> Tablebases {
    Tablebases::open(Path::new("tests/tables")).unwrap()
}

fn position(fen: &str) -> Position {
    Position::from_fen(fen, CastlingMode::Standard).unwrap()
}

fn root(fen: &str) -> RootMoves {
    tables().root(&Game::new(position(fen))).unwrap()
}

#[test]
fn three_pieces_are_known() {
    let tables = tables();
    let winner = |fen| tables.winner(&position(fen));
    assert_eq!(winner("8/8/8/4k3/8/8/8/KQ6 w - - 0 1"), Some(Some(Color::White)));
    assert_eq!(winner("8/8/8/4K3/8/8/8/kq6 w - - 0 1"), Some(Some(Color::Black)));
    assert_eq!(winner("8/8/8/4k3/8/8/8/KB6 w - - 0 1"), Some(None));
    assert_eq!(winner("8/8/8/8/8/8/1k6/1Q5K b - - 0 1"), Some(None), "the queen is lost");
    assert_eq!(tables.hits(), 4);
    assert_eq!(winner("8/8/8/4k3/8/8/8/KQ6 w - - 1 1"), None, "moves count already");
    assert_eq!(winner("8/8/8/4k3/8/8/8/4K2R w K - 0 1"), None, "castling");
    assert_eq!(winner("8/8/8/4k3/8/8/1P6/KQ6 w - - 0 1"), None, "too many pieces");
    assert_eq!(tables.hits(), 4);
}

#[test]
fn a_folder_without_tables_costs_only_itself() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(Tablebases::open(folder.path()), Err(TablebaseError::Empty { .. })));
    let missing = folder.path().join("missing");
    assert!(matches!(Tablebases::open(&missing), Err(TablebaseError::Read { .. })));
    let both = env::join_paths([Path::new("tests/tables"), &missing]).unwrap();
    let tables = Tablebases::open(Path::new(&both)).unwrap();
    assert_eq!(tables.winner(&position("8/8/8/4k3/8/8/8/KQ6 w - - 0 1")), Some(Some(Color::White)));
    assert!(tables.unusable().len() == 1 && tables.unusable()[0].to_string().contains("missing`"));
}

#[test]
fn tables_may_lie_in_several_folders() {
    let [one, other] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    for (folder, name) in [(&one, "KQvK.rtbw"), (&other, "KRvK.rtbw")] {
        fs::copy(format!("tests/tables/{name}"), folder.path().join(name)).unwrap();
    }
    let both = env::join_paths([one.path(), other.path()]).unwrap();
    let tables = Tablebases::open(Path::new(&both)).unwrap();
    for fen in ["8/8/8/4k3/8/8/8/KQ6 w - - 0 1", "8/8/8/4k3/8/8/8/KR6 w - - 0 1"] {
        assert_eq!(tables.winner(&position(fen)), Some(Some(Color::White)));
    }
}

#[test]
fn a_damaged_table_says_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let sound = fs::read("tests/tables/KQvK.rtbw").unwrap();
    for at in 0..sound.len() {
        let mut bytes = sound.clone();
        bytes[at] ^= 0xff;
        let path = folder.path().join("KQvK.rtbw");
        fs::write(&path, &bytes).unwrap();
        // Any answer is right, a panic is not.
        let game = Game::new(position("8/8/8/4k3/8/8/8/KQ6 w - - 0 1"));
        let tables = Tablebases::open(folder.path()).unwrap();
        let _ = (tables.winner(game.position()), tables.root(&game));
    }
}

#[test]
fn moves_that_keep_the_result_are_left() {
    // The rook is attacked: it has to go, and not where it is lost.
    let kept = root("8/8/8/8/8/2k5/1R6/7K w - - 0 1");
    assert_eq!(kept.winner, Some(Color::White));
    assert!(kept.moves.iter().all(|mv| mv.role() == Role::Rook), "{:?}", kept.moves);
    // One of the two steps back holds.
    let held = root("4k3/8/3KP3/8/8/8/8/8 b - - 0 1");
    assert_eq!((held.moves.len(), held.moves[0].to(), held.winner), (1, Square::D8, None));
    // All moves of a lost game lose alike.
    let fen = "8/8/8/4k3/8/8/8/KQ6 b - - 0 1";
    let lost = root(fen);
    assert_eq!(lost.moves, position(fen).legal_moves().to_vec());
    assert_eq!(lost.winner, Some(Color::White));
    // Mate is a win at the end of fifty moves too.
    let mate = root("7k/8/6K1/8/8/8/8/1R6 w - - 99 90");
    assert_eq!((mate.moves.len(), mate.winner), (1, Some(Color::White)));
    assert_eq!(tables().root(&Game::new(position("8/8/8/4k3/8/8/8/4K2R w K - 0 1"))), None);
    assert_eq!(
        tables().root(&Game::new(position("7k/6Q1/6K1/8/8/8/8/8 b - - 0 1"))),
        None,
        "no move"
    );
}

#[test]
fn patience_has_an_end() {
    let at = |clock: u32| root(&format!("8/8/8/4k3/8/8/8/KR6 w - - {clock} 60"));
    let free = at(0);
    assert!(free.moves.len() > 5 && free.winner == Some(Color::White));
    assert!(at(PATIENCE).moves.len() < free.moves.len());
    // Too far from mate for the rest of the fifty moves: a draw, but the nearest way is tried.
    let late = at(90);
    assert!(late.winner.is_none() && late.moves.len() < free.moves.len());
    // A repetition ends it as well.
    let mut game = Game::new(position("8/8/8/4k3/8/8/8/KR6 w - - 0 60"));
    for text in ["b1b2", "e5e4", "b2b1", "e4e5"] {
        let mv = crate::parse_uci(game.position(), text).unwrap();
        game.play(mv);
    }
    assert!(game.has_repeated() && game.position().halfmove_clock() < PATIENCE);
    assert_eq!(tables().root(&game).unwrap().moves, at(PATIENCE).moves);
}

/// White's king, one piece and Black's king, White to move, won for White.
fn won(tables: &Tablebases, role: Role, dice: &mut ChaCha8Rng) -> Position {
    loop {
        let mut setup = Setup::empty();
        for piece in
            [Role::King.of(Color::White), role.of(Color::White), Role::King.of(Color::Black)]
        {
            setup.board.set_piece_at(Square::new(dice.random_range(0..64)), piece);
        }
        if let Ok(position) = Position::from_setup(setup, CastlingMode::Standard)
            && tables.winner(&position) == Some(Some(Color::White))
        {
            return position;
        }
    }
}

/// The reply after which the winner has the longest way.
fn stubborn(tables: &Tablebases, game: &Game) -> Move {
    let length = |mv: &Move| {
        let after = game.position().after(*mv);
        tables.tables.probe_dtz(after.chess()).unwrap().ignore_rounding().0
    };
    // The winner is to move then: a draw has length 0, and the longest loss the largest number.
    let moves = game.position().legal_moves();
    assert!(moves.iter().all(|mv| length(mv) > 0), "{}: the win is gone", game.position().fen());
    moves.into_iter().max_by_key(length).unwrap()
}

#[test]
fn no_win_is_thrown_away_by_any_of_the_moves_left() {
    let tables = tables();
    let mut dice = ChaCha8Rng::seed_from_u64(4);
    let mut longest = 0;
    for number in 0..150 {
        let role = [Role::Queen, Role::Rook, Role::Pawn][number % 3];
        let mut game = Game::new(won(&tables, role, &mut dice));
        let fen = game.position().fen();
        let end = loop {
            if let Some(end) = game.end() {
                break end;
            }
            let moves = if game.position().turn() == Color::White {
                let kept = tables.root(&game).unwrap();
                assert_eq!(kept.winner, Some(Color::White), "{fen}");
                kept.moves
            } else if number % 2 == 0 {
                iter::once(stubborn(&tables, &game)).collect()
            } else {
                game.position().legal_moves().to_vec()
            };
            game.play(moves[dice.random_range(0..moves.len())]);
            longest = longest.max(game.position().halfmove_clock());
        };
        assert_eq!(end, GameEnd::Checkmate { winner: Color::White }, "{fen}");
    }
    assert!(longest > PATIENCE && longest <= PATIENCE + 34, "{longest} plies without progress");
}

#[test]
fn no_draw_is_thrown_away_by_any_of_the_moves_left() {
    let tables = tables();
    let mut dice = ChaCha8Rng::seed_from_u64(9);
    for _ in 0..40 {
        let mut game = Game::new(position("8/8/4k3/8/4P3/4K3/8/8 w - - 0 1"));
        while game.end().is_none() {
            let moves = if game.position().turn() == Color::White {
                game.position().legal_moves().to_vec()
            } else {
                let kept = tables.root(&game).unwrap();
                assert_eq!(kept.winner, None, "{}", game.position().fen());
                kept.moves
            };
            game.play(moves[dice.random_range(0..moves.len())]);
        }
        assert!(!matches!(game.end(), Some(GameEnd::Checkmate { .. })));
    }
}

#[test]
fn without_distances_the_result_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    fs::copy("tests/tables/KRvK.rtbw", folder.path().join("KRvK.rtbw")).unwrap();
    let without = Tablebases::open(folder.path()).unwrap();
    let game = Game::new(position("8/8/8/8/8/2k5/1R6/7K w - - 0 1"));
    assert_eq!(without.root(&game), tables().root(&game));
}
