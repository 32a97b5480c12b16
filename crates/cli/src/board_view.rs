//! A position and a score as text for people, in Unicode or ASCII.

use board::{Color, File, Move, Piece, Position, Rank, Role, Score, Square};
use nets::Wdl;

/// The characters that the terminal can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charset {
    Unicode,
    Ascii,
}

impl Charset {
    /// Unicode unless the locale names another encoding.
    #[must_use]
    pub fn of_locale() -> Self {
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
            .iter()
            .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
        match locale {
            Some(locale) if !locale.to_ascii_lowercase().replace('-', "").contains("utf8") => {
                Self::Ascii
            }
            _ => Self::Unicode,
        }
    }

    fn piece(self, piece: Piece) -> char {
        match self {
            Self::Ascii => piece.char(),
            Self::Unicode => {
                let first = match piece.color {
                    Color::White => '♔',
                    Color::Black => '♚',
                };
                let offset = match piece.role {
                    Role::King => 0,
                    Role::Queen => 1,
                    Role::Rook => 2,
                    Role::Bishop => 3,
                    Role::Knight => 4,
                    Role::Pawn => 5,
                };
                char::from_u32(first as u32 + offset).unwrap_or('?')
            }
        }
    }
}

/// The board from White's side with coordinates, then the side to move.
#[must_use]
pub fn diagram(position: &Position, charset: Charset) -> String {
    let mut text = String::new();
    let empty = match charset {
        Charset::Unicode => '·',
        Charset::Ascii => '.',
    };
    for rank in Rank::ALL.into_iter().rev() {
        text.push_str(&format!("  {}", rank.char()));
        for file in File::ALL {
            let piece = position.board().piece_at(Square::from_coords(file, rank));
            text.push(' ');
            text.push(piece.map_or(empty, |piece| charset.piece(piece)));
        }
        text.push('\n');
    }
    text.push_str("    a b c d e f g h\n");
    text.push_str(if position.turn().is_white() {
        "    White to move\n"
    } else {
        "    Black to move\n"
    });
    text
}

/// A score from White's side, in pawns: `+0.34`, `#5`, `#-2`.
#[must_use]
pub fn white_score(score: Score, mover: Color) -> String {
    match score {
        Score::Centipawns(value) => {
            let value = i64::from(value) * if mover.is_white() { 1 } else { -1 };
            let sign = if value < 0 { '-' } else { '+' };
            format!("{sign}{}.{:02}", value.abs() / 100, value.abs() % 100)
        }
        Score::Mate(_) => games::white_score_text(score, mover),
    }
}

/// Chances of White: a bar of win, draw and loss `width` characters long.
#[must_use]
pub fn chances_bar(wdl: Wdl, charset: Charset, width: usize) -> String {
    let [win, draw, loss] = match charset {
        Charset::Unicode => ['█', '▒', '░'],
        Charset::Ascii => ['#', '=', '.'],
    };
    // The ends are rounded, so that the three parts always fill the width.
    let end = |per_mille: u16| (usize::from(per_mille) * width + 500) / 1000;
    let (win_end, draw_end) = (end(wdl.win), end(wdl.win + wdl.draw).min(width));
    (0..width)
        .map(|at| {
            if at < win_end {
                win
            } else if at < draw_end {
                draw
            } else {
                loss
            }
        })
        .collect()
}

/// The mover's chances, turned to White's side.
#[must_use]
pub fn white_chances(wdl: Wdl, mover: Color) -> Wdl {
    match mover {
        Color::White => wdl,
        Color::Black => Wdl { win: wdl.loss, draw: wdl.draw, loss: wdl.win },
    }
}

/// At most `plies` moves of a line in SAN.
#[must_use]
pub fn san_line(position: &Position, line: &[Move], plies: usize) -> String {
    let shown = board::san_line(position, &line[..line.len().min(plies)]);
    if line.len() > plies { format!("{shown} ...") } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_fill_their_width() {
        let bar = |win, draw, loss| chances_bar(Wdl { win, draw, loss }, Charset::Ascii, 10);
        assert_eq!(bar(1000, 0, 0), "##########");
        assert_eq!(bar(0, 1000, 0), "==========");
        assert_eq!(bar(0, 0, 1000), "..........");
        assert_eq!(bar(333, 333, 334), "###====...");
    }

    #[test]
    fn scores_are_from_whites_side() {
        assert_eq!(white_score(Score::Centipawns(34), Color::White), "+0.34");
        assert_eq!(white_score(Score::Centipawns(34), Color::Black), "-0.34");
        assert_eq!(white_score(Score::Mate(5), Color::Black), "#-5");
    }

    #[test]
    fn diagrams_show_every_piece() {
        insta::assert_snapshot!(diagram(&Position::default(), Charset::Unicode));
        insta::assert_snapshot!(diagram(&Position::default(), Charset::Ascii));
    }
}
