//! Games into PGN, with what the engines said in comments.

use std::fmt::Write as _;

use board::{CastlingMode, Color, GameEnd, Position};
use search::Score;

use crate::{Ending, PlayedGame};

/// A game's text form: tags in order, then a comment a move.
#[derive(Debug)]
pub struct PgnText {
    text: String,
    position: Position,
    column: usize,
    result: &'static str,
    number_needed: bool,
}

impl PgnText {
    /// Begins a game; `FEN` and `Variant` tags are added where `start` needs them.
    #[must_use]
    pub fn new(start: &Position, tags: &[(&str, String)], winner: Option<Option<Color>>) -> Self {
        let result = match winner {
            None => "*",
            Some(None) => "1/2-1/2",
            Some(Some(Color::White)) => "1-0",
            Some(Some(Color::Black)) => "0-1",
        };
        let mut text = String::new();
        let mut tag = |name: &str, value: &str| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "[{name} \"{}\"]", escaped(value));
        };
        tags.iter().for_each(|(name, value)| tag(name, value));
        tag("Result", result);
        if start.castling_mode() == CastlingMode::Chess960 {
            tag("Variant", "Chess960");
        }
        if *start != Position::default() || start.castling_mode() == CastlingMode::Chess960 {
            tag("SetUp", "1");
            tag("FEN", &start.fen());
        }
        text.push('\n');
        Self { text, position: start.clone(), column: 0, result, number_needed: true }
    }

    /// Adds a move, which must be legal, and a comment after it.
    pub fn play(&mut self, mv: board::Move, comment: Option<&str>) {
        let number = self.position.ply() / 2 + 1;
        if self.position.turn().is_white() {
            self.word(&format!("{number}."));
        } else if self.number_needed {
            self.word(&format!("{number}..."));
        }
        self.word(&board::to_san(&self.position, mv));
        self.number_needed = comment.is_some();
        if let Some(comment) = comment {
            self.comment(comment);
        }
        self.position.play(mv);
    }

    /// Adds a comment.
    pub fn comment(&mut self, comment: &str) {
        // A closing brace would end the comment.
        self.word(&format!("{{ {} }}", comment.replace(['{', '}'], "")));
    }

    fn word(&mut self, word: &str) {
        const WIDTH: usize = 100;
        if self.column > 0 {
            let wraps = self.column + 1 + word.len() > WIDTH;
            self.text.push(if wraps { '\n' } else { ' ' });
            self.column = if wraps { 0 } else { self.column + 1 };
        }
        self.text.push_str(word);
        self.column += word.len();
    }

    /// The whole game, an empty line after it.
    #[must_use]
    pub fn finish(mut self) -> String {
        let result = self.result;
        self.word(result);
        self.text.push_str("\n\n");
        self.text
    }
}

/// A tag value on one line, with quotes and backslashes escaped.
fn escaped(value: &str) -> String {
    let line: String = value.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    line.replace('\\', "\\\\").replace('"', "\\\"")
}

/// A score as PGN comments have it: pawns, or `#` and moves to mate, from White's side.
#[must_use]
pub fn white_score(score: Score, mover: Color) -> String {
    let sign = if mover.is_white() { 1 } else { -1 };
    match score {
        Score::Centipawns(value) => {
            let value = i64::from(value) * sign;
            format!("{}{}.{:02}", if value < 0 { "-" } else { "" }, value.abs() / 100, value.abs() % 100)
        }
        // Mated now: the sign is all there is.
        Score::Mate(0) => if sign > 0 { "#-0" } else { "#0" }.to_owned(),
        Score::Mate(moves) => format!("#{}", i64::from(moves) * sign),
    }
}

/// What the PGN of a match game says beside the game.
#[derive(Clone, Debug)]
pub struct GameText<'a> {
    /// The pair and the game of the pair, as in `12.2`.
    pub round: String,
    pub white: &'a str,
    pub black: &'a str,
    /// Thinking times too.
    pub times: bool,
}

/// A match game with tags for players and the way it ended; each move has the mover's evaluation (in pawns, from White's
/// side), depth and time in a comment, `0.31/7 0.12s`.
#[must_use]
pub fn match_game(about: &GameText<'_>, played: &PlayedGame) -> String {
    let mut tags = vec![
        ("Event", "Batch First match".to_owned()),
        ("Round", about.round.clone()),
        ("White", about.white.to_owned()),
        ("Black", about.black.to_owned()),
        ("PlyCount", played.game.moves().len().to_string()),
        ("Termination", termination(&played.ending).to_owned()),
    ];
    if let Ending::Fault { side, fault } = &played.ending {
        tags.push(("Fault", format!("{side}: {}: {}", fault.name(), fault.describe())));
    }
    let mut text = PgnText::new(played.game.start(), &tags, Some(played.winner));
    let mut turn = played.game.start().turn();
    for (ply, &mv) in played.game.moves().iter().enumerate() {
        let comment = if ply < played.book_plies {
            Some("book".to_owned())
        } else {
            played.notes.get(ply - played.book_plies).map(|note| {
                let score = note.score.map_or("?".to_owned(), |score| white_score(score, turn));
                let depth = note.depth.map_or("?".to_owned(), |depth| depth.to_string());
                if about.times {
                    format!("{score}/{depth} {:.2}s", note.elapsed.as_secs_f64())
                } else {
                    format!("{score}/{depth}")
                }
            })
        };
        text.play(mv, comment.as_deref());
        turn = !turn;
    }
    text.comment(&describe(&played.ending));
    text.finish()
}

/// The PGN `Termination` tag.
fn termination(ending: &Ending) -> &'static str {
    match ending {
        Ending::Rule(_) => "normal",
        Ending::Adjudicated | Ending::Tablebase | Ending::TooLong => "adjudication",
        Ending::Fault { fault: crate::Fault::TimeForfeit(_), .. } => "time forfeit",
        Ending::Fault { fault: crate::Fault::IllegalMove(_), .. } => "rules infraction",
        Ending::Fault { .. } => "abandoned",
    }
}

/// The end of a game in words.
#[must_use]
pub fn describe(ending: &Ending) -> String {
    match ending {
        Ending::Rule(GameEnd::Checkmate { .. }) => "checkmate".to_owned(),
        Ending::Rule(GameEnd::Stalemate) => "stalemate".to_owned(),
        Ending::Rule(GameEnd::InsufficientMaterial) => "insufficient material".to_owned(),
        Ending::Rule(GameEnd::Repetition) => "threefold repetition".to_owned(),
        Ending::Rule(GameEnd::FiftyMoves) => "fifty-move rule".to_owned(),
        Ending::Adjudicated => "adjudicated: both engines agree".to_owned(),
        Ending::Tablebase => "adjudicated: endgame tables".to_owned(),
        Ending::TooLong => "adjudicated: too long".to_owned(),
        Ending::Fault { side, fault } => format!("{} by {side}", fault.name()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_from_whites_side() {
        let text = |score, side| white_score(score, side);
        assert_eq!(text(Score::Centipawns(-5), Color::White), "-0.05");
        assert_eq!(text(Score::Centipawns(-123), Color::Black), "1.23");
        assert_eq!(text(Score::Centipawns(0), Color::Black), "0.00");
        assert_eq!(text(Score::Mate(3), Color::Black), "#-3");
        assert_eq!(text(Score::Centipawns(i32::MIN), Color::Black), "21474836.48");
    }

    #[test]
    fn a_game_reads_back() {
        let start = Position::from_fen("4k3/8/8/8/8/8/4P3/4K3 b - - 0 7", CastlingMode::Standard).unwrap();
        let mut text = PgnText::new(&start, &[("White", "a \"b\"\\".to_owned())], Some(None));
        let mut position = start.clone();
        for word in ["Kd7", "e4", "Ke6"] {
            let mv = board::parse_san(&position, word).unwrap();
            text.play(mv, (word == "e4").then_some("[%eval 1.0] }"));
            position.play(mv);
        }
        let text = text.finish();
        insta::assert_snapshot!(text);
        let game = crate::pgn_games::read(text.as_bytes()).next().unwrap().unwrap();
        assert_eq!(game.game.position(), &position);
        assert_eq!(game.tag("White"), Some("a \"b\"\\"));
    }
}
