//! The openings of matches: built-in balanced positions, or a file of positions or games.

use std::collections::HashSet;

use board::{Game, Score};

use games::{PgnGame, ReadGame, is_epd_comment, parse_epd};

/// Positions after varied first moves that Stockfish evaluates as balanced. The first line of the
/// file has the command that made it.
const BALANCED: &str = include_str!("openings.epd");

/// Main lines of common openings, about four moves deep; none is lost for either side.
const MAIN_LINES: [&str; 24] = [
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

/// A file of openings that cannot be used; each message is one sentence.
#[derive(Debug, thiserror::Error)]
pub enum OpeningError {
    #[error("line {line} of the openings: {reason}")]
    Line { line: usize, reason: board::BoardError },
    #[error("the openings hold neither a position nor a game")]
    Empty,
    #[error("the openings are not a readable PGN: {0}")]
    Pgn(std::io::Error),
    #[error("the openings, the game at line {line}: {reason}")]
    Game { line: u64, reason: String },
}

/// The built-in balanced positions, more than 500: the default openings of a match.
#[must_use]
pub fn balanced() -> Vec<Game> {
    // A test checks that the file can be read.
    from_epd(BALANCED).unwrap_or_default()
}

/// Selects balanced positions after `plies` plies of games with evaluations: at most `within`
/// centipawns for either side, the side to move not in check, no position twice. Each is an EPD
/// line with the evaluation (`ce`, in centipawns) for the side to move.
#[must_use]
pub fn select_balanced(
    games: impl Iterator<Item = PgnGame>,
    plies: usize,
    within: i32,
) -> Vec<String> {
    let mut seen = HashSet::new();
    let mut lines = Vec::new();
    for found in games {
        let evaluation = found.evaluations.iter().find(|(ply, _)| *ply == plies);
        let Some((_, Score::Centipawns(white))) = evaluation else { continue };
        let mut position = found.game.start().clone();
        found.game.moves().iter().take(plies).for_each(|&mv| position.play(mv));
        if white.abs() <= within && !position.is_check() && seen.insert(position.key()) {
            let mover = if position.turn().is_white() { *white } else { -*white };
            let fen = position.fen();
            let fields: Vec<&str> = fen.split(' ').take(4).collect();
            lines.push(format!("{} ce {mover};", fields.join(" ")));
        }
    }
    lines
}

/// Main lines of common openings.
#[must_use]
pub fn main_lines() -> Vec<Game> {
    MAIN_LINES
        .iter()
        .map(|line| {
            let mut game = Game::default();
            // A bad move ends the line; a test plays every line to its end.
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
/// A line is not a position, or there is none.
pub fn from_epd(text: &str) -> Result<Vec<Game>, OpeningError> {
    let mut games = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if is_epd_comment(line.as_bytes()) {
            continue;
        }
        let read =
            parse_epd(line).map_err(|reason| OpeningError::Line { line: index + 1, reason })?;
        if let Some(warning) = read.warning {
            tracing::warn!("in line {} of the openings {warning}", index + 1);
        }
        games.push(Game::new(read.position));
    }
    if games.is_empty() { Err(OpeningError::Empty) } else { Ok(games) }
}

/// The games of a PGN, cut after `plies` plies.
///
/// # Errors
/// The text is not a readable PGN, has no game, or a game that is not understood that far.
pub fn from_pgn(text: &[u8], plies: usize) -> Result<Vec<Game>, OpeningError> {
    let mut read = Vec::new();
    for game in games::read_pgn(text) {
        let (line, reason) = match game.map_err(OpeningError::Pgn)? {
            ReadGame::Game(game) => match game.unread {
                Some(unread) if game.game.moves().len() < plies => (game.line, unread.to_string()),
                _ => {
                    read.push(game.game);
                    continue;
                }
            },
            ReadGame::LeftOut(game) => (game.line, game.reason),
        };
        return Err(OpeningError::Game { line, reason });
    }
    let games: Vec<Game> = read
        .into_iter()
        .map(|game| {
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
    fn the_main_lines_are_legal_and_different() {
        let games = main_lines();
        for (game, line) in games.iter().zip(MAIN_LINES) {
            assert_eq!(game.moves().len(), line.split(' ').count(), "{line}");
        }
        let mut keys: Vec<u64> = games.iter().map(|game| game.position().key()).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), MAIN_LINES.len());
    }

    #[test]
    fn the_balanced_positions_are_many_and_different() {
        let games = balanced();
        assert!(games.len() >= 500, "{}", games.len());
        let keys: HashSet<u64> = games.iter().map(|game| game.position().key()).collect();
        assert_eq!(keys.len(), games.len());
        assert!(games.iter().all(|game| game.end().is_none()));
    }

    #[test]
    fn only_balanced_positions_are_selected() {
        let pgn = "1. e4 e5 { [%eval 0.20] } *\n\n1. d4 d5 { [%eval 0.31] } *\n\n\
                   1. e4 e5 { [%eval 0.20] } *\n\n1. c4 { [%eval 0.0] } e5 *\n\n1. Nf3 d5 { [%eval -0.25] } *\n\n";
        let games = games::read_pgn(pgn.as_bytes()).filter_map(|game| game.unwrap().into_game());
        let lines = select_balanced(games, 2, 25);
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert_eq!(lines[0], "rnbqkbnr/pppp1ppp/8/4p3/4P3/8/PPPP1PPP/RNBQKBNR w KQkq - ce 20;");
        assert!(lines[1].ends_with(" ce -25;"), "{lines:?}");
        assert_eq!(from_epd(&lines.join("\n")).unwrap().len(), 2);
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
        let games =
            from_pgn(b"[White \"a\"]\n\n1. e4 {x} e5 (1... c5) 2. Nf3 *\n\n1. d4 *\n", 2).unwrap();
        assert_eq!(games.iter().map(|game| game.moves().len()).collect::<Vec<_>>(), [2, 1]);
        assert!(matches!(from_pgn(b"", 2), Err(OpeningError::Empty)));
    }
}
