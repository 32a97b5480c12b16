//! Games out of PGN: tags, start positions and main-line moves, nothing else.

use std::{
    io::{self, Read},
    ops::ControlFlow,
};

use board::{CastlingMode, Game, Position};
use pgn_reader::{RawTag, Reader, SanPlus, Skip, Visitor};

/// A game as written in a PGN.
#[derive(Clone, Debug, Default)]
pub struct PgnGame {
    /// In order, without those that say where the game begins.
    pub tags: Vec<(String, String)>,
    pub game: Game,
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
                ControlFlow::Continue(Movetext { tags: tags.others, game: Game::new(start), broken: false })
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

    fn begin_variation(&mut self, _: &mut Movetext) -> ControlFlow<Self::Output, Skip> {
        ControlFlow::Continue(Skip(true))
    }

    fn end_game(&mut self, movetext: Movetext) -> Self::Output {
        Some(PgnGame { tags: movetext.tags, game: movetext.game })
    }
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
}
