//! Opening books from outside: legal moves, or an error.

#![no_main]

use std::io::Cursor;

use board::{Book, CastlingMode, Position};
use libfuzzer_sys::fuzz_target;

/// The start, castling on both sides, promotions, en passant.
const FENS: [&str; 4] = [
    "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1",
    "r3k2r/8/8/8/8/8/8/R3K2R b KQkq - 0 1",
    "1n5k/P7/8/8/8/8/p7/1N5K w - - 0 1",
    "4k3/8/8/3pP3/8/8/8/4K3 w - d6 0 1",
];

// The first byte chooses the position. Half of the inputs are given its key, or no entry would ever
// be for it.
fuzz_target!(|data: &[u8]| {
    let Some((&kind, rest)) = data.split_first() else { return };
    let fen = FENS[usize::from(kind >> 1) % FENS.len()];
    let position = Position::from_fen(fen, CastlingMode::Standard).expect("a legal position");
    let mut bytes = rest.to_vec();
    if kind % 2 == 0 {
        for entry in bytes.chunks_exact_mut(16) {
            entry[..8].copy_from_slice(&Book::key(&position).to_be_bytes());
        }
    }
    let Ok(book) = Book::of(Cursor::new(bytes), "fuzz".to_owned()) else { return };
    if let (Ok(moves), Ok(chosen)) = (book.moves(&position), book.choose(&position, 1 << 63)) {
        assert!(moves.iter().all(|(mv, weight)| *weight > 0 && position.legal_moves().contains(mv)));
        assert_eq!(chosen.is_none(), moves.is_empty());
    }
});
