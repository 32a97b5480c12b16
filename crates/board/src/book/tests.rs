use std::{fs, io::Cursor};

use crate::to_uci;

use super::*;

const FOLDER: &str = "tests/book";

fn position(fen: &str) -> Position {
    Position::from_fen(fen, CastlingMode::Standard).unwrap()
}

fn small() -> Vec<u8> {
    fs::read(format!("{FOLDER}/small.bin")).unwrap()
}

fn book(bytes: Vec<u8>) -> Result<Book, BookError> {
    Book::of(Cursor::new(bytes), "x.bin".to_owned())
}

#[test]
fn keys_are_those_that_polyglot_published() {
    let published = [
        ("", 0x463b_9618_1691_fc9c),
        ("e2e4", 0x823c_9b50_fd11_4196),
        ("e2e4 d7d5", 0x0756_b944_61c5_0fb0),
        ("e2e4 d7d5 e4e5", 0x662f_afb9_65db_29d4),
        ("e2e4 d7d5 e4e5 f7f5", 0x22a4_8b5a_8e47_ff78),
        ("e2e4 d7d5 e4e5 f7f5 e1e2", 0x652a_607c_a3f2_42c1),
        ("e2e4 d7d5 e4e5 f7f5 e1e2 e8f7", 0x00fd_d303_c946_bdd9),
        ("a2a4 b7b5 h2h4 b5b4 c2c4", 0x3c81_23ea_7b06_7637),
        ("a2a4 b7b5 h2h4 b5b4 c2c4 b4c3 a1a3", 0x5c3f_9b82_9b27_9560),
    ];
    for (moves, key) in published {
        let mut position = Position::default();
        for text in moves.split_whitespace() {
            let mv = crate::parse_uci(&position, text).unwrap();
            position.play(mv);
        }
        assert_eq!(Book::key(&position), key, "{moves}");
    }
}

#[test]
fn keys_are_those_of_python_chess_where_en_passant_is_not_legal_too() {
    let lines = fs::read_to_string(format!("{FOLDER}/keys.txt")).unwrap();
    let mut illegal = 0;
    for line in lines.lines() {
        let (key, fen) = line.split_once(' ').unwrap();
        let position = position(fen);
        assert_eq!(format!("{:016x}", Book::key(&position)), key, "{fen}");
        illegal += usize::from(Book::key(&position) != position.key());
    }
    assert!(illegal >= 10, "{illegal} positions tell pseudo-legal from legal");
}

#[test]
fn moves_are_those_that_python_chess_reads() {
    let book = Book::open(Path::new("tests/book/small.bin")).unwrap();
    let lines = fs::read_to_string(format!("{FOLDER}/small.txt")).unwrap();
    assert_eq!(lines.lines().count(), 5);
    for line in lines.lines() {
        let (fen, expected) = line.split_once(" : ").unwrap();
        let position = position(fen);
        let found: Vec<String> = book
            .moves(&position)
            .unwrap()
            .into_iter()
            .map(|(mv, weight)| format!("{} {weight}", to_uci(&position, mv)))
            .collect();
        assert_eq!(found.join(" "), expected, "{fen}");
    }
    let elsewhere = position("8/8/8/4k3/8/8/8/KQ6 w - - 0 1");
    assert_eq!(book.moves(&elsewhere).unwrap(), []);
    assert_eq!(book.choose(&elsewhere, 7).unwrap(), None);
    let chess960 = Position::chess960(518).unwrap();
    assert_eq!(chess960.fen(), Position::default().fen());
    assert_eq!(book.moves(&chess960).unwrap(), [], "books know standard chess only");
}

#[test]
fn moves_are_chosen_as_often_as_their_weights_say() {
    let book = book(small()).unwrap();
    let start = Position::default();
    const THROWS: u64 = 600;
    let mut counts = std::collections::BTreeMap::new();
    for throw in 0..THROWS {
        let step = u64::MAX / THROWS;
        let dice = step * throw + step / 2;
        let mv = book.choose(&start, dice).unwrap().unwrap();
        *counts.entry(to_uci(&start, mv)).or_insert(0) += 1;
    }
    // Weights 30, 20, 10, and 0 for a2a3.
    let expected =
        [("c2c4", 100), ("d2d4", 200), ("e2e4", 300)].map(|(mv, count)| (mv.to_owned(), count));
    assert_eq!(counts.into_iter().collect::<Vec<_>>(), expected);
    let first = book.moves(&start).unwrap()[0].0;
    assert_eq!(book.choose(&start, 0).unwrap(), Some(first));
    assert!(book.choose(&start, u64::MAX).unwrap().is_some());
}

#[test]
fn castling_as_two_squares_of_the_king_is_understood() {
    let position = position("4k3/8/8/8/8/8/8/R3K3 w Q - 0 1");
    for target in [Square::A1, Square::C1] {
        let mut bytes = Book::key(&position).to_be_bytes().to_vec();
        bytes.extend((u16::from(Square::E1) << 6 | u16::from(target)).to_be_bytes());
        bytes.extend([0, 1, 0, 0, 0, 0]);
        let (mv, _) = book(bytes).unwrap().moves(&position).unwrap()[0];
        assert!(mv.is_castle(), "{target}");
    }
}

#[test]
fn what_is_no_book_is_refused_in_a_sentence() {
    for length in [0, 1, 15, 17, 175] {
        let text = book(small()[..length].to_vec()).unwrap_err().to_string();
        assert!(text.contains("`x.bin`") && text.contains(&format!(" {length} bytes")), "{text}");
    }
    let mut swapped = small();
    let (first, second) = swapped.split_at_mut(16 * 6);
    first[..16].swap_with_slice(&mut second[..16]);
    assert!(matches!(book(swapped), Err(BookError::Order { entry: 2, .. })));
    assert!(matches!(Book::open(Path::new("tests/book")), Err(BookError::Read { .. })));
    let missing = Book::open(Path::new("tests/book/missing.bin")).unwrap_err().to_string();
    assert!(missing.contains("`tests/book/missing.bin`"), "{missing}");
}

#[test]
fn a_large_book_out_of_order_is_noticed_where_it_is_read() {
    // Only the ends of a book of this size are looked at when it is opened.
    let mut bytes = small();
    bytes.rotate_left(16 * 5);
    let damaged = Book {
        name: "x.bin".to_owned(),
        entries: 11,
        source: Mutex::new(Box::new(Cursor::new(bytes))),
    };
    let found: Vec<_> = (0..=255_u64)
        .map(|high| damaged.first(high << 56))
        .filter(|first| first.is_err())
        .collect();
    assert!(!found.is_empty());
    let shortened = Book {
        name: "x.bin".to_owned(),
        entries: 11,
        source: Mutex::new(Box::new(Cursor::new(Vec::new()))),
    };
    assert!(matches!(shortened.moves(&Position::default()), Err(BookError::Read { .. })));
}

#[test]
fn damaged_moves_are_errors_and_nothing_panics() {
    let start = Position::default();
    let mut illegal = 0;
    for at in 0..small().len() {
        for bit in 0..8 {
            let mut bytes = small();
            bytes[at] ^= 1 << bit;
            let Ok(book) = book(bytes) else { continue };
            match book.choose(&start, 1 << 63) {
                Err(error @ BookError::Illegal { .. }) => {
                    illegal += 1;
                    assert!(error.to_string().contains("`x.bin`"));
                }
                Ok(Some(mv)) => assert!(start.legal_moves().contains(&mv)),
                other => assert!(other.is_ok_and(|mv| mv.is_none())),
            }
        }
    }
    assert!(illegal > 20, "{illegal}");
}
