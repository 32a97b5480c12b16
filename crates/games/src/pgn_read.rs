//! Reads games from PGN: tags, start positions, main-line moves, and the evaluations in comments.

use std::{
    io::{self, Read},
    ops::ControlFlow,
};

use board::{Color, Game, Position, Score};
use pgn_reader::{Nag, Outcome, RawComment, RawTag, Reader, SanPlus, Skip, Visitor};

use crate::{
    castling_mode_of_variant,
    evaluation::{CommentEvaluation, find_evaluation},
};

/// A game of a PGN file.
#[derive(Clone, Debug, Default)]
pub struct PgnGame {
    /// The tags in order, without `FEN`, `SetUp` and `Variant`.
    pub tags: Vec<(String, String)>,
    pub game: Game,
    /// Evaluations in comments (`[%eval 0.31]`, `[%eval #-3]`): plies played before, White's score.
    pub evaluations: Vec<(usize, Score)>,
    /// Comments without their evaluations: plies played before, text.
    pub comments: Vec<(usize, String)>,
    /// Numeric annotation glyphs (NAGs): plies played before, number (1 to 6: `!`, `?`, `!!`, `??`,
    /// `!?`, `?!`).
    pub nags: Vec<(usize, u8)>,
    /// The first illegal move; the moves after it are not read.
    pub illegal: Option<String>,
}

impl PgnGame {
    /// The value of a tag.
    #[must_use]
    pub fn tag(&self, name: &str) -> Option<&str> {
        self.tags.iter().find(|(tag, _)| tag == name).map(|(_, value)| value.as_str())
    }
}

/// The winner of a PGN result: `Some(None)` for a draw, `None` for `*` and other text.
#[must_use]
pub fn parse_result(result: &str) -> Option<Option<Color>> {
    match result {
        "1-0" => Some(Some(Color::White)),
        "0-1" => Some(Some(Color::Black)),
        "1/2-1/2" => Some(None),
        _ => None,
    }
}

/// The games of a PGN one by one, each up to its first illegal move. Games of other variants and
/// from illegal positions are logged and skipped.
pub fn read_pgn<R: Read>(input: R) -> impl Iterator<Item = io::Result<PgnGame>> {
    let mut reader = Reader::new(input);
    let mut number = 0_u64;
    std::iter::from_fn(move || {
        loop {
            number += 1;
            match reader.read_game(&mut GameVisitor) {
                Ok(Some(Ok(game))) => return Some(Ok(game)),
                Ok(Some(Err(reason))) => tracing::warn!("game {number} is left out: {reason}"),
                Ok(None) => return None,
                Err(error) => return Some(Err(error)),
            }
        }
    })
}

struct GameVisitor;

#[derive(Default)]
struct StartTags {
    fen: Option<String>,
    variant: Option<String>,
    others: Vec<(String, String)>,
}

struct Movetext {
    tags: Vec<(String, String)>,
    game: Game,
    evaluations: Vec<(usize, Score)>,
    comments: Vec<(usize, String)>,
    nags: Vec<(usize, u8)>,
    illegal: Option<String>,
    /// The first parts of a comment whose end has not been read yet.
    comment: Vec<u8>,
}

impl Visitor for GameVisitor {
    type Tags = StartTags;
    type Movetext = Movetext;
    /// `Err` holds the reason why the game is skipped.
    type Output = Result<PgnGame, String>;

    fn begin_tags(&mut self) -> ControlFlow<Self::Output, StartTags> {
        ControlFlow::Continue(StartTags::default())
    }

    fn tag(
        &mut self,
        tags: &mut StartTags,
        name: &[u8],
        value: RawTag<'_>,
    ) -> ControlFlow<Self::Output> {
        let value = text(&value.decode());
        match name {
            b"FEN" => tags.fen = Some(value),
            b"Variant" => tags.variant = Some(value),
            b"SetUp" => {}
            _ => tags.others.push((text(name), value)),
        }
        ControlFlow::Continue(())
    }

    fn begin_movetext(&mut self, tags: StartTags) -> ControlFlow<Self::Output, Movetext> {
        let Some(mode) = castling_mode_of_variant(tags.variant.as_deref()) else {
            let variant: String = tags.variant.unwrap_or_default().chars().take(40).collect();
            return ControlFlow::Break(Err(format!("the variant `{variant}` is not played here")));
        };
        let start = match tags.fen {
            Some(fen) => match Position::read_fen(&fen, mode) {
                Ok(read) => {
                    if let Some(warning) = read.warning {
                        tracing::warn!("in the start position of a game {warning}");
                    }
                    read.position
                }
                Err(error) => return ControlFlow::Break(Err(error.to_string())),
            },
            None => Position::default(),
        };
        ControlFlow::Continue(Movetext {
            tags: tags.others,
            game: Game::new(start),
            evaluations: Vec::new(),
            comments: Vec::new(),
            nags: Vec::new(),
            illegal: None,
            comment: Vec::new(),
        })
    }

    fn san(&mut self, movetext: &mut Movetext, san: SanPlus) -> ControlFlow<Self::Output> {
        if movetext.illegal.is_none() {
            match san.san.to_move(movetext.game.position().chess()) {
                Ok(mv) => movetext.game.play(mv),
                Err(_) => movetext.illegal = Some(san.to_string()),
            }
        }
        ControlFlow::Continue(())
    }

    fn partial_comment(
        &mut self,
        movetext: &mut Movetext,
        comment: RawComment<'_>,
    ) -> ControlFlow<Self::Output> {
        movetext.comment.extend_from_slice(comment.as_bytes());
        ControlFlow::Continue(())
    }

    fn comment(
        &mut self,
        movetext: &mut Movetext,
        comment: RawComment<'_>,
    ) -> ControlFlow<Self::Output> {
        let mut whole = std::mem::take(&mut movetext.comment);
        whole.extend_from_slice(comment.as_bytes());
        if movetext.illegal.is_some() {
            return ControlFlow::Continue(());
        }
        let text = text(&whole);
        let ply = movetext.game.moves().len();
        let (evaluation, rest) = split_evaluation(&text);
        // Nobody is mated while there are moves.
        let is_possible = |score: &Score| {
            *score != Score::Mate(0) || movetext.game.position().legal_moves().is_empty()
        };
        let evaluation = evaluation.filter(is_possible);
        movetext.evaluations.extend(evaluation.map(|score| (ply, score)));
        let rest = rest.split_whitespace().collect::<Vec<_>>().join(" ");
        if !rest.is_empty() {
            movetext.comments.push((ply, rest));
        }
        ControlFlow::Continue(())
    }

    fn nag(&mut self, movetext: &mut Movetext, nag: Nag) -> ControlFlow<Self::Output> {
        if movetext.illegal.is_none() {
            movetext.nags.push((movetext.game.moves().len(), nag.0));
        }
        ControlFlow::Continue(())
    }

    fn begin_variation(&mut self, _: &mut Movetext) -> ControlFlow<Self::Output, Skip> {
        ControlFlow::Continue(Skip(true))
    }

    fn outcome(&mut self, movetext: &mut Movetext, outcome: Outcome) -> ControlFlow<Self::Output> {
        // The result behind the moves fills in a missing or unknown tag.
        if outcome.is_known() {
            let tag = movetext.tags.iter_mut().find(|(name, _)| name == "Result");
            match tag {
                Some((_, result)) if result == "*" => *result = outcome.to_string(),
                Some(_) => {}
                None => movetext.tags.push(("Result".to_owned(), outcome.to_string())),
            }
        }
        ControlFlow::Continue(())
    }

    fn end_game(&mut self, movetext: Movetext) -> Self::Output {
        let Movetext { tags, game, evaluations, comments, nags, illegal, comment: _ } = movetext;
        Ok(PgnGame { tags, game, evaluations, comments, nags, illegal })
    }
}

/// Decodes UTF-8; other bytes are Latin-1, the character set of the PGN standard.
fn text(bytes: &[u8]) -> String {
    let latin = |_| bytes.iter().map(|&byte| char::from(byte)).collect();
    std::str::from_utf8(bytes).map_or_else(latin, str::to_owned)
}

/// White's score in a comment, and the comment without it; one that cannot be read stays.
fn split_evaluation(comment: &str) -> (Option<Score>, String) {
    match find_evaluation(comment.as_bytes()) {
        Some(CommentEvaluation { at, score: Some(score) }) => {
            (Some(score), format!("{}{}", &comment[..at.start], &comment[at.end..]))
        }
        _ => (None, comment.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_games_are_skipped_or_cut() {
        let pgn = b"[FEN \"nonsense\"]\n\n1. e4 *\n\n1. e4 e5 2. Ke7 Nf6 *\n\n[FEN \"4k3/8/8/8/8/8/8/4K2R w K - 0 1\"]\n\n1. O-O *\n";
        let lengths: Vec<usize> =
            read_pgn(&pgn[..]).map(|game| game.unwrap().game.moves().len()).collect();
        assert_eq!(lengths, [2, 1]);
    }

    #[test]
    fn games_of_other_variants_are_skipped() {
        let of = |variant: &str| {
            format!("[Event \"{variant}\"]\n[Variant \"{variant}\"]\n\n1. e4 e5 *\n\n")
        };
        let pgn =
            ["Standard", "Crazyhouse", "From Position", "Chess960", "Antichess"].map(of).concat();
        let kept: Vec<_> = read_pgn(pgn.as_bytes())
            .map(|game| game.unwrap().tag("Event").unwrap().to_owned())
            .collect();
        assert_eq!(kept, ["Standard", "From Position", "Chess960"]);
    }

    #[test]
    fn results_behind_the_moves_are_read() {
        let of = |pgn: &str| {
            let game = read_pgn(pgn.as_bytes()).next().unwrap().unwrap();
            game.tag("Result").map(str::to_owned)
        };
        assert_eq!(of("1. e4 e5 1-0").as_deref(), Some("1-0"));
        assert_eq!(of("[Result \"*\"]\n\n1. e4 1/2-1/2").as_deref(), Some("1/2-1/2"));
        assert_eq!(
            of("[Result \"0-1\"]\n\n1. e4 1-0").as_deref(),
            Some("0-1"),
            "the tag wins over the result behind the moves"
        );
        assert_eq!(of("1. e4 *"), None);
    }

    #[test]
    fn names_in_latin_1_are_read() {
        let pgn = b"[White \"M\xfcller\"]\n[Black \"M\xc3\xb6ller\"]\n\n1. e4 { sch\xf6n } *";
        let game = read_pgn(&pgn[..]).next().unwrap().unwrap();
        assert_eq!(
            (game.tag("White"), game.tag("Black")),
            (Some("M\u{fc}ller"), Some("M\u{f6}ller"))
        );
        assert_eq!(game.comments, [(1, "sch\u{f6}n".to_owned())]);
    }

    #[test]
    fn long_comments_are_read_whole() {
        let words = "word ".repeat(300);
        let pgn = format!("1. e4 {{ {words}[%eval 1.5] end }} *");
        let game = read_pgn(pgn.as_bytes()).next().unwrap().unwrap();
        assert_eq!(game.comments, [(1, format!("{words}end"))]);
        assert_eq!(game.evaluations, [(1, Score::Centipawns(150))]);
    }

    #[test]
    fn evaluations_are_read() {
        let pgn =
            b"{ [%eval 0.2] } 1. e4 { [%eval -0.31,22] [%clk 1:00] } e5 { nothing } 2. Nf3 { [%eval #3] } *";
        let impossible = read_pgn(&b"1. e4 { [%eval #0] } e5 { [%eval #-0] } *"[..]);
        assert_eq!(impossible.last().unwrap().unwrap().evaluations, []);
        let game = read_pgn(&pgn[..]).next().unwrap().unwrap();
        let pawns = Score::Centipawns;
        assert_eq!(game.evaluations, [(0, pawns(20)), (1, pawns(-31)), (3, Score::Mate(3))]);
        assert_eq!(game.comments, [(1, "[%clk 1:00]".to_owned()), (2, "nothing".to_owned())]);
    }
}
