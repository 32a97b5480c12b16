//! Moves as people and older programs write them: whatever names exactly one legal move is that
//! move, and nothing else is guessed.

use shakmaty::{CastlingSide, File, Move, Rank, Role, Square};

use crate::Position;

/// What a text is.
pub(crate) enum Loose {
    Move(Move),
    /// A move, but none that is legal, or several.
    NotLegal,
    NoMove,
}

/// Longer texts are no moves.
const LONGEST: usize = 16;

/// What a text says of a move.
struct Wanted {
    /// `None`: any piece.
    role: Option<Role>,
    file: Option<File>,
    rank: Option<Rank>,
    to: Square,
    promotion: Option<Role>,
}

/// Reads long algebraic notation, figurines, pieces in lower case, and other ways to write
/// captures, promotions and castling.
pub(crate) fn loose_move(position: &Position, text: &str) -> Loose {
    if text.len() > 4 * LONGEST {
        return Loose::NoMove;
    }
    let plain: String = text.chars().filter_map(plain_letter).collect();
    let plain = without_en_passant_mark(&plain);
    if let Some(side) = castling(plain) {
        let mut moves = position.legal_moves().into_iter();
        return moves
            .find(|mv| mv.castling_side() == Some(side))
            .map_or(Loose::NotLegal, Loose::Move);
    }
    let bare: String = plain
        .chars()
        .filter(|letter| !matches!(letter, 'x' | ':' | '-' | '=' | '/' | '(' | ')'))
        .collect();
    let readings = [as_written(&bare), as_bishop(&bare)];
    let mut is_move = false;
    for wanted in readings.into_iter().flatten() {
        is_move = true;
        if let Some(mv) = only_match(position, &wanted) {
            return Loose::Move(mv);
        }
    }
    if is_move { Loose::NotLegal } else { Loose::NoMove }
}

/// Figurines become letters; pawns' become nothing.
fn plain_letter(letter: char) -> Option<char> {
    match letter {
        '\u{2654}' | '\u{265a}' => Some('K'),
        '\u{2655}' | '\u{265b}' => Some('Q'),
        '\u{2656}' | '\u{265c}' => Some('R'),
        '\u{2657}' | '\u{265d}' => Some('B'),
        '\u{2658}' | '\u{265e}' => Some('N'),
        // The last one asks a figurine to be shown as text or picture.
        '\u{2659}' | '\u{265f}' | '\u{fe0e}' | '\u{fe0f}' => None,
        // Dashes and the multiplication sign.
        '\u{2010}'..='\u{2015}' | '\u{2212}' => Some('-'),
        '\u{d7}' => Some('x'),
        letter => Some(letter),
    }
}

fn without_en_passant_mark(text: &str) -> &str {
    ["e.p.", "e.p", "(ep)", "ep"]
        .iter()
        .find_map(|mark| text.strip_suffix(mark))
        .unwrap_or(text)
        .trim_end()
}

/// The side of castling written with letters O or zeros, with or without hyphens.
fn castling(text: &str) -> Option<CastlingSide> {
    let rounds = text.chars().filter(|letter| matches!(letter, 'O' | 'o' | '0')).count();
    if !text.chars().all(|letter| matches!(letter, 'O' | 'o' | '0' | '-')) {
        return None;
    }
    match rounds {
        2 => Some(CastlingSide::KingSide),
        3 => Some(CastlingSide::QueenSide),
        _ => None,
    }
}

fn as_written(text: &str) -> Option<Wanted> {
    let first = text.chars().next()?;
    match first {
        'P' => wanted(Some(Role::Pawn), &text[1..]),
        'K' | 'Q' | 'R' | 'B' | 'N' | 'k' | 'q' | 'r' | 'n' => {
            wanted(Role::from_char(first.to_ascii_lowercase()), &text[1..])
        }
        _ => wanted(None, text),
    }
}

/// A leading `b` may be a bishop where no pawn move fits.
fn as_bishop(text: &str) -> Option<Wanted> {
    text.strip_prefix('b').and_then(|rest| wanted(Some(Role::Bishop), rest))
}

/// `rest` is what follows the piece: parts of the square it comes from, the square it goes to, and
/// a promotion.
fn wanted(role: Option<Role>, rest: &str) -> Option<Wanted> {
    let mut letters: Vec<char> = rest.chars().collect();
    let promotion = match letters.last() {
        Some(&last) if last.is_ascii_alphabetic() && letters.len() > 2 => {
            letters.pop();
            let role = Role::from_char(last.to_ascii_lowercase());
            Some(role.filter(|role| !matches!(role, Role::Pawn | Role::King))?)
        }
        _ => None,
    };
    let rank = Rank::from_char(letters.pop()?)?;
    let to = Square::from_coords(File::from_char(letters.pop()?)?, rank);
    let (file, rank) = match letters[..] {
        [] => (None, None),
        [one] => (File::from_char(one), Rank::from_char(one)),
        [file, rank] => (Some(File::from_char(file)?), Some(Rank::from_char(rank)?)),
        _ => return None,
    };
    if letters.len() == 1 && file.is_none() && rank.is_none() {
        return None;
    }
    // Without a letter it is a pawn's move, unless both squares are named.
    let role = role.or((letters.len() < 2).then_some(Role::Pawn));
    Some(Wanted { role, file, rank, to, promotion })
}

/// The only legal move that fits. Castling may be written as the king's way, unless the king can go
/// there without castling.
fn only_match(position: &Position, wanted: &Wanted) -> Option<Move> {
    let moves = position.legal_moves();
    let fits = |mv: &&Move, to: Square| {
        let Some(from) = mv.from() else { return false };
        wanted.role.is_none_or(|role| role == mv.role())
            && wanted.file.is_none_or(|file| file == from.file())
            && wanted.rank.is_none_or(|rank| rank == from.rank())
            && to == wanted.to
            && mv.promotion() == wanted.promotion
    };
    let mut usual = moves.iter().filter(|mv| fits(mv, mv.to()));
    match (usual.next(), usual.next()) {
        (Some(&mv), None) => return Some(mv),
        (Some(_), Some(_)) => return None,
        (None, _) => {}
    }
    let way = |mv: &Move| mv.castling_side().map(|side| side.king_to(position.turn()));
    let mut castling = moves.iter().filter(|mv| way(mv).is_some_and(|to| fits(mv, to)));
    castling.next().copied()
}

#[cfg(test)]
mod tests {
    use shakmaty::CastlingMode;

    use crate::{Position, parse_san, to_san};

    /// What a text is read as, in SAN; the error's first words otherwise.
    fn read(fen: &str, text: &str) -> String {
        let position = Position::from_fen(fen, CastlingMode::Standard).unwrap();
        match parse_san(&position, text) {
            Ok(mv) => to_san(&position, mv),
            Err(crate::BoardError::IllegalMove { .. }) => "not legal".to_owned(),
            Err(_) => "no move".to_owned(),
        }
    }

    #[test]
    fn usual_other_notations_are_read() {
        let start = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1";
        let rich = "r3k2r/pPp1bppp/2n5/3pP3/2B1n3/5N2/PPP2PPP/R1BQK2R w KQkq d6 0 1";
        let two_knights = "4k3/8/8/8/8/2N5/8/4K1N1 w - - 0 1";
        let b_file = "4k3/8/8/8/2p5/1P6/8/4KB2 w - - 0 1";
        let no_pawn = "4k3/8/8/8/8/8/8/4KB2 w - - 0 1";
        for (fen, text, expected) in [
            (start, "Ng1-f3", "Nf3"),
            (start, "Ng1f3", "Nf3"),
            (start, "g1f3", "Nf3"),
            (start, "nf3", "Nf3"),
            (start, "\u{2658}f3", "Nf3"),
            (start, "\u{265e}\u{fe0e}f3!?", "Nf3"),
            (start, "e2-e4", "e4"),
            (start, "e2e4", "e4"),
            (start, "Pe4", "e4"),
            (start, "\u{2659}e4", "e4"),
            (rich, "exd6e.p.", "exd6"),
            (rich, "e5xd6 e.p.", "exd6"),
            (rich, "e5:d6ep", "exd6"),
            (rich, "ed6", "exd6"),
            (rich, "b8Q+", "b8=Q+"),
            (rich, "b8(N)", "b8=N"),
            (rich, "b7b8r", "b8=R+"),
            (rich, "b7xa8=q", "bxa8=Q+"),
            (rich, "bxa8Q", "bxa8=Q+"),
            (rich, "b7\u{d7}a8/Q", "bxa8=Q+"),
            (rich, "0-0", "O-O"),
            (rich, "o-o", "O-O"),
            (rich, "OO", "O-O"),
            (rich, "Ke1-g1", "O-O"),
            (rich, "e1g1", "O-O"),
            (rich, "bc4xd5", "Bxd5"),
            (two_knights, "Ng1e2", "Nge2"),
            (two_knights, "N1e2", "Nge2"),
            (two_knights, "Nce2", "Nce2"),
            (b_file, "bc4", "bxc4"),
            (no_pawn, "bc4", "Bc4"),
            (no_pawn, "Bf1\u{2013}c4", "Bc4"),
        ] {
            assert_eq!(read(fen, text), expected, "{text}");
        }
    }

    #[test]
    fn a_king_that_can_go_there_does_not_castle() {
        let fen = "4k3/8/8/8/8/8/8/R4KR1 w AG - 0 1";
        let position = Position::from_fen(fen, CastlingMode::Chess960).unwrap();
        for (text, expected) in [
            ("Kf1-e1", "Ke1"),
            ("f1e1", "Ke1"),
            ("Kf1-c1", "O-O-O"),
            ("Kf1xg1", "O-O"),
            ("Kf1-g1", "O-O"),
        ] {
            let mv = parse_san(&position, text).unwrap();
            assert_eq!(to_san(&position, mv), expected, "{text}");
        }
        let free =
            Position::from_fen("4k3/8/8/8/8/8/8/5K1R w H - 0 1", CastlingMode::Chess960).unwrap();
        let mv = parse_san(&free, "Kf1-g1").unwrap();
        assert_eq!(to_san(&free, mv), "Kg1");
    }

    #[test]
    fn nothing_is_guessed() {
        let start = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1";
        let rich = "r3k2r/pPp1bppp/2n5/3pP3/2B1n3/5N2/PPP2PPP/R1BQK2R w KQkq d6 0 1";
        let two_knights = "4k3/8/8/8/8/2N5/8/4K1N1 w - - 0 1";
        for (fen, text, expected) in [
            (two_knights, "Ne2", "not legal"),
            (rich, "b8", "not legal"),
            (rich, "b8=K", "no move"),
            (rich, "0-0-0", "not legal"),
            (start, "e5", "not legal"),
            (start, "Nf3xd4", "not legal"),
            (start, "hello", "no move"),
            (start, "", "no move"),
            (start, "e9", "no move"),
            (start, "\u{2658}", "no move"),
            (start, "--", "no move"),
            (start, "Z0", "no move"),
            (start, "1-0", "no move"),
        ] {
            assert_eq!(read(fen, text), expected, "{text}");
        }
    }
}
