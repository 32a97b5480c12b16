//! Writes games as PGN: tags, moves, comments, glyphs (NAGs) and variations.

use std::fmt::Write as _;

use board::{CastlingMode, Color, Move, Position, Score};

use crate::{Variation, VariationItem};

/// Writes one game: tags in order, then moves with comments, glyphs and variations.
#[derive(Debug)]
pub struct PgnWriter {
    text: String,
    position: Position,
    column: usize,
    result: &'static str,
    number_needed: bool,
    /// True if the next word begins a variation.
    opens: bool,
}

impl PgnWriter {
    /// Begins a game; `FEN` and `Variant` tags are added where `start` needs them. `winner` is
    /// `None` for an unknown result and `Some(None)` for a draw.
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
        Self { text, position: start.clone(), column: 0, result, number_needed: true, opens: false }
    }

    /// Adds a move, which must be legal, and a comment after it.
    pub fn play(&mut self, mv: Move, comment: Option<&str>) {
        self.number(self.position.ply());
        self.word(&board::to_san(&self.position, mv));
        self.number_needed = false;
        if let Some(comment) = comment {
            self.comment(comment);
        }
        self.position.play(mv);
    }

    /// Adds a numeric annotation glyph (NAG) to the last move: 1 to 6 are `!`, `?`, `!!`, `??`,
    /// `!?` and `?!`.
    pub fn nag(&mut self, nag: u16) {
        self.word(&format!("${nag}"));
    }

    /// Adds an alternative to the last move, from the position `before` it, with a comment on its
    /// first and one on its last move. `moves` are not empty.
    pub fn line(&mut self, before: &Position, moves: &[Move], first: &str, last: Option<&str>) {
        let main_line = std::mem::replace(&mut self.position, before.clone());
        self.open();
        self.comment(first);
        moves.iter().for_each(|&mv| self.play(mv, None));
        if let Some(comment) = last {
            self.comment(comment);
        }
        self.close();
        self.position = main_line;
    }

    /// Adds alternatives to the last move as they were read.
    pub fn variation(&mut self, variation: &Variation) {
        self.nested(variation, self.position.ply().saturating_sub(1));
    }

    /// A variation whose first move is at `ply`.
    fn nested(&mut self, variation: &Variation, mut ply: u32) {
        self.open();
        for item in &variation.items {
            match item {
                VariationItem::Move(san) => {
                    self.number(ply);
                    self.word(san);
                    self.number_needed = false;
                    ply += 1;
                }
                VariationItem::Nag(nag) => self.nag(*nag),
                VariationItem::Comment(comment) => self.comment(comment),
                VariationItem::Variation(nested) => self.nested(nested, ply.saturating_sub(1)),
            }
        }
        self.close();
    }

    fn open(&mut self) {
        self.opens = true;
        self.number_needed = true;
    }

    fn close(&mut self) {
        self.text.push(')');
        self.column += 1;
        self.number_needed = true;
    }

    /// The number before a move at `ply`, where one is needed.
    fn number(&mut self, ply: u32) {
        let number = ply / 2 + 1;
        if ply.is_multiple_of(2) {
            self.word(&format!("{number}."));
        } else if self.number_needed {
            self.word(&format!("{number}..."));
        }
    }

    /// Adds a comment.
    pub fn comment(&mut self, comment: &str) {
        self.number_needed = true;
        // A closing brace would end the comment.
        self.word(&format!("{{ {} }}", comment.replace('{', "(").replace('}', ")")));
    }

    /// Adds a word and wraps lines at 100 columns.
    fn word(&mut self, word: &str) {
        const WIDTH: usize = 100;
        let bracketed = format!("({word}");
        let word = if std::mem::take(&mut self.opens) { &bracketed } else { word };
        if self.column > 0 {
            let wraps = self.column + 1 + word.len() > WIDTH;
            self.text.push(if wraps { '\n' } else { ' ' });
            self.column = if wraps { 0 } else { self.column + 1 };
        }
        self.text.push_str(word);
        self.column += word.len();
    }

    /// The text of the game, with an empty line after it.
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

/// A score as in a PGN comment: pawns, or `#` and moves to mate, from White's side. `mover` is the
/// side that `score` is for.
#[must_use]
pub fn white_score_text(score: Score, mover: Color) -> String {
    let sign = if mover.is_white() { 1 } else { -1 };
    match score {
        Score::Centipawns(value) => {
            let value = i64::from(value) * sign;
            format!(
                "{}{}.{:02}",
                if value < 0 { "-" } else { "" },
                value.abs() / 100,
                value.abs() % 100
            )
        }
        // Checkmate on the board: only the sign tells who is mated.
        Score::Mate(0) => if sign > 0 { "#-0" } else { "#0" }.to_owned(),
        Score::Mate(moves) => format!("#{}", i64::from(moves) * sign),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_from_whites_side() {
        let text = |score, side| white_score_text(score, side);
        assert_eq!(text(Score::Centipawns(-5), Color::White), "-0.05");
        assert_eq!(text(Score::Centipawns(-123), Color::Black), "1.23");
        assert_eq!(text(Score::Centipawns(0), Color::Black), "0.00");
        assert_eq!(text(Score::Mate(3), Color::Black), "#-3");
        assert_eq!(text(Score::Centipawns(i32::MIN), Color::Black), "21474836.48");
    }

    #[test]
    fn a_game_reads_back() {
        let start =
            Position::from_fen("4k3/8/8/8/8/8/4P3/4K3 b - - 0 7", CastlingMode::Standard).unwrap();
        let mut text = PgnWriter::new(&start, &[("White", "a \"b\"\\".to_owned())], Some(None));
        let mut position = start.clone();
        for word in ["Kd7", "e4", "Ke6"] {
            let mv = board::parse_san(&position, word).unwrap();
            text.play(mv, (word == "e4").then_some("[%eval 1.0] }"));
            position.play(mv);
        }
        let text = text.finish();
        insta::assert_snapshot!(text);
        let game = crate::read_pgn(text.as_bytes()).next().unwrap().unwrap().into_game().unwrap();
        assert_eq!(game.game.position(), &position);
        assert_eq!(game.tag("White"), Some("a \"b\"\\"));
    }

    #[test]
    fn variations_are_written_as_they_were_read() {
        for (pgn, expected) in [
            (
                "1. e4 (1. d4 d5 2.c2-c4!? {sharp}) e5",
                "1. e4 (1. d4 d5 2. c4 $5 { sharp }) 1... e5 *",
            ),
            (
                "1. e4 e5 (1... c5 (1... e6 2. d4) 2. Nf3)",
                "1. e4 e5 (1... c5 (1... e6 2. d4) 2. Nf3) *",
            ),
            ("1. e4 ({why} 1. -- e5) e5", "1. e4 ({ why } 1. -- e5) 1... e5 *"),
            ("1. e4 () e5", "1. e4 e5 *"),
            ("1. e4 (1. d4 ({hm}) d5)", "1. e4 (1. d4 { hm } 1... d5) *"),
        ] {
            let game =
                crate::read_pgn(pgn.as_bytes()).next().unwrap().unwrap().into_game().unwrap();
            let write = |game: &crate::PgnGame| {
                let mut writer = PgnWriter::new(game.game.start(), &[], None);
                for (ply, &mv) in (1..).zip(game.game.moves()) {
                    writer.play(mv, None);
                    let here = game.variations.iter().filter(|(at, _)| *at == ply);
                    here.for_each(|(_, variation)| writer.variation(variation));
                }
                writer.finish()
            };
            let text = write(&game);
            assert_eq!(text.trim_end().lines().last(), Some(expected), "{pgn}");
            let again =
                crate::read_pgn(text.as_bytes()).next().unwrap().unwrap().into_game().unwrap();
            assert_eq!(write(&again), text, "{pgn}");
        }
    }
}
