//! Games out of PGN: tags, start positions and main-line moves, nothing else.

use std::{
    io::{self, Read},
    ops::ControlFlow,
};

use board::{CastlingMode, Game, Position};
use pgn_reader::{RawComment, RawTag, Reader, SanPlus, Skip, Visitor};

/// A game as written in a PGN.
#[derive(Clone, Debug, Default)]
pub struct PgnGame {
    /// In order, without those that say where the game begins.
    pub tags: Vec<(String, String)>,
    pub game: Game,
    /// Evaluations in comments (`[%eval 0.31]`): plies played before, White's centipawns; mates are left out.
    pub evaluations: Vec<(usize, i32)>,
}

impl PgnGame {
    /// The value of a tag.
    #[must_use]
    pub fn tag(&self, name: &str) -> Option<&str> {
        self.tags.iter().find(|(tag, _)| tag == name).map(|(_, value)| value.as_str())
    }
}

/// The games of a PGN one by one, each up to its first move that is not legal. Games from a position that cannot be
/// played are left out.
pub fn read<R: Read>(input: R) -> impl Iterator<Item = io::Result<PgnGame>> {
    let mut reader = Reader::new(input);
    std::iter::from_fn(move || {
        loop {
            match reader.read_game(&mut Moves) {
                Ok(Some(Some(game))) => return Some(Ok(game)),
                Ok(Some(None)) => {}
                Ok(None) => return None,
                Err(error) => return Some(Err(error)),
            }
        }
    })
}

struct Moves;

#[derive(Default)]
struct Tags {
    fen: Option<String>,
    chess960: bool,
    others: Vec<(String, String)>,
}

struct Movetext {
    tags: Vec<(String, String)>,
    game: Game,
    evaluations: Vec<(usize, i32)>,
    /// After an illegal move the rest is not read.
    broken: bool,
}

impl Visitor for Moves {
    type Tags = Tags;
    type Movetext = Movetext;
    type Output = Option<PgnGame>;

    fn begin_tags(&mut self) -> ControlFlow<Self::Output, Tags> {
        ControlFlow::Continue(Tags::default())
    }

    fn tag(&mut self, tags: &mut Tags, name: &[u8], value: RawTag<'_>) -> ControlFlow<Self::Output> {
        let value = value.decode_utf8_lossy();
        match name {
            b"FEN" => tags.fen = Some(value.into_owned()),
            b"Variant" => tags.chess960 = value.to_ascii_lowercase().contains("960"),
            b"SetUp" => {}
            _ => tags.others.push((String::from_utf8_lossy(name).into_owned(), value.into_owned())),
        }
        ControlFlow::Continue(())
    }

    fn begin_movetext(&mut self, tags: Tags) -> ControlFlow<Self::Output, Movetext> {
        let start = match tags.fen {
            Some(fen) => Position::from_fen(&fen, CastlingMode::from_chess960(tags.chess960)).ok(),
            None => Some(Position::default()),
        };
        match start {
            Some(start) => {
                let game = Game::new(start);
                let evaluations = Vec::new();
                ControlFlow::Continue(Movetext { tags: tags.others, game, evaluations, broken: false })
            }
            None => ControlFlow::Break(None),
        }
    }

    fn san(&mut self, movetext: &mut Movetext, san: SanPlus) -> ControlFlow<Self::Output> {
        if !movetext.broken {
            match san.san.to_move(movetext.game.position().chess()) {
                Ok(mv) => movetext.game.play(mv),
                Err(_) => movetext.broken = true,
            }
        }
        ControlFlow::Continue(())
    }

    fn comment(&mut self, movetext: &mut Movetext, comment: RawComment<'_>) -> ControlFlow<Self::Output> {
        if let Some(centipawns) = evaluation(comment.as_bytes())
            && !movetext.broken
        {
            movetext.evaluations.push((movetext.game.moves().len(), centipawns));
        }
        ControlFlow::Continue(())
    }

    fn begin_variation(&mut self, _: &mut Movetext) -> ControlFlow<Self::Output, Skip> {
        ControlFlow::Continue(Skip(true))
    }

    fn end_game(&mut self, movetext: Movetext) -> Self::Output {
        let Movetext { tags, game, evaluations, .. } = movetext;
        Some(PgnGame { tags, game, evaluations })
    }
}

/// White's centipawns in a comment with `[%eval 0.31]`.
fn evaluation(comment: &[u8]) -> Option<i32> {
    let comment = String::from_utf8_lossy(comment);
    let (_, rest) = comment.split_once("[%eval ")?;
    let number = rest.split([']', ',']).next()?.trim();
    let pawns: f64 = number.parse().ok().filter(|pawns: &f64| pawns.abs() < 1e5)?;
    Some((pawns * 100.0).round() as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_games_do_no_harm() {
        let pgn = b"[FEN \"nonsense\"]\n\n1. e4 *\n\n1. e4 e5 2. Ke7 Nf6 *\n\n[FEN \"4k3/8/8/8/8/8/8/4K2R w K - 0 1\"]\n\n1. O-O *\n";
        let lengths: Vec<usize> = read(&pgn[..]).map(|game| game.unwrap().game.moves().len()).collect();
        assert_eq!(lengths, [2, 1]);
    }

    #[test]
    fn evaluations_are_read() {
        let pgn = b"{ [%eval 0.2] } 1. e4 { [%eval -0.31,22] } e5 { nothing } 2. Nf3 { [%eval #3] } *";
        let game = read(&pgn[..]).next().unwrap().unwrap();
        assert_eq!(game.evaluations, [(0, 20), (1, -31)]);
    }
}
