//! Where games begin: a small built-in book of well-known lines, or a file of positions or games.

use board::{CastlingMode, Game, Position};

/// Main lines of common openings, four moves deep or so, none lost for either side.
const BUILT_IN: [&str; 24] = [
    "e4 e5 Nf3 Nc6 Bb5 a6 Ba4 Nf6",
    "e4 e5 Nf3 Nc6 Bc4 Bc5 c3 Nf6",
    "e4 e5 Nf3 Nf6 Nxe5 d6 Nf3 Nxe4",
    "e4 e5 Nf3 Nc6 d4 exd4 Nxd4 Bc5",
    "e4 e5 Nc3 Nf6 g3 d5 exd5 Nxd5",
    "e4 c5 Nf3 d6 d4 cxd4 Nxd4 Nf6 Nc3 a6",
    "e4 c5 Nf3 Nc6 d4 cxd4 Nxd4 g6",
    "e4 c5 Nc3 Nc6 g3 g6 Bg2 Bg7",
    "e4 c5 c3 d5 exd5 Qxd5 d4 Nf6",
    "e4 e6 d4 d5 Nc3 Bb4 e5 c5",
    "e4 e6 d4 d5 Nd2 Nf6 e5 Nfd7",
    "e4 c6 d4 d5 Nc3 dxe4 Nxe4 Bf5",
    "e4 c6 d4 d5 e5 Bf5 Nf3 e6",
    "e4 d5 exd5 Qxd5 Nc3 Qa5 d4 Nf6",
    "e4 d6 d4 Nf6 Nc3 g6 f4 Bg7",
    "d4 d5 c4 e6 Nc3 Nf6 Bg5 Be7",
    "d4 d5 c4 c6 Nf3 Nf6 Nc3 dxc4",
    "d4 d5 c4 dxc4 Nf3 Nf6 e3 e6",
    "d4 Nf6 c4 e6 Nc3 Bb4 e3 O-O",
    "d4 Nf6 c4 g6 Nc3 Bg7 e4 d6",
    "d4 Nf6 c4 g6 Nc3 d5 cxd5 Nxd5",
    "d4 f5 g3 Nf6 Bg2 e6 Nf3 Be7",
    "c4 e5 Nc3 Nf6 Nf3 Nc6 g3 d5",
    "Nf3 d5 g3 Nf6 Bg2 c6 O-O Bg4",
];

/// A file of openings that cannot be used; each is one sentence.
#[derive(Debug, thiserror::Error)]
pub enum OpeningError {
    #[error("line {line} of the openings: {reason}")]
    Line { line: usize, reason: board::BoardError },
    #[error("the openings hold neither a position nor a game")]
    Empty,
    #[error("the openings are not a readable PGN: {0}")]
    Pgn(std::io::Error),
}

/// The built-in book.
#[must_use]
pub fn built_in() -> Vec<Game> {
    BUILT_IN
        .iter()
        .map(|line| {
            let mut game = Game::default();
            // Stops at a bad move; a test plays every line to its end.
            for word in line.split(' ') {
                let Ok(mv) = board::parse_san(game.position(), word) else { break };
                game.play(mv);
            }
            game
        })
        .collect()
}

/// Positions, one EPD or FEN a line; empty lines and lines that begin with `#` are skipped.
///
/// # Errors
/// A line is no position, or there is none.
pub fn from_epd(text: &str) -> Result<Vec<Game>, OpeningError> {
    let mut games = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let position =
            position_of_epd(line).map_err(|reason| OpeningError::Line { line: index + 1, reason })?;
        games.push(Game::new(position));
    }
    if games.is_empty() { Err(OpeningError::Empty) } else { Ok(games) }
}

/// The position of an EPD or FEN line: four fields, two counters where they are there, operations ignored.
///
/// # Errors
/// The line is no position.
pub fn position_of_epd(line: &str) -> Result<Position, board::BoardError> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let is_number = |field: &&&str| field.bytes().all(|byte| byte.is_ascii_digit());
    let counters = fields.iter().skip(4).take(2).take_while(is_number).count();
    let fen = fields[..fields.len().min(4 + counters)].join(" ");
    Position::from_fen(&fen, CastlingMode::Standard)
}

/// The games of a PGN, cut after `plies` plies.
///
/// # Errors
/// The text is no PGN or holds no game.
pub fn from_pgn(text: &[u8], plies: usize) -> Result<Vec<Game>, OpeningError> {
    let games: Result<Vec<_>, _> = crate::pgn_games::read(text).collect();
    let games: Vec<Game> = games
        .map_err(OpeningError::Pgn)?
        .into_iter()
        .map(|found| {
            let game = found.game;
            let mut opening = Game::new(game.start().clone());
            game.moves().iter().take(plies).for_each(|&mv| opening.play(mv));
            opening
        })
        .filter(|opening| opening.end().is_none())
        .collect();
    if games.is_empty() { Err(OpeningError::Empty) } else { Ok(games) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_book_is_legal_and_varied() {
        let games = built_in();
        for (game, line) in games.iter().zip(BUILT_IN) {
            assert_eq!(game.moves().len(), line.split(' ').count(), "{line}");
        }
        let mut keys: Vec<u64> = games.iter().map(|game| game.position().key()).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), BUILT_IN.len());
    }

    #[test]
    fn positions_from_epd() {
        let text = "# two\n\n4k3/8/8/8/8/8/4P3/4K3 w - - bm e4; id \"a\";\n4k3/8/8/8/8/8/4P3/4K3 b - - 3 9\n";
        let games = from_epd(text).unwrap();
        assert_eq!(games.len(), 2);
        assert_eq!(games[1].position().halfmove_clock(), 3);
        assert!(matches!(from_epd("x"), Err(OpeningError::Line { line: 1, .. })));
        assert!(matches!(from_epd("\n"), Err(OpeningError::Empty)));
    }

    #[test]
    fn games_from_pgn() {
        let games = from_pgn(b"[White \"a\"]\n\n1. e4 {x} e5 (1... c5) 2. Nf3 *\n\n1. d4 *\n", 2).unwrap();
        assert_eq!(games.iter().map(|game| game.moves().len()).collect::<Vec<_>>(), [2, 1]);
        assert!(matches!(from_pgn(b"", 2), Err(OpeningError::Empty)));
    }
}
