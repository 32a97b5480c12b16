//! Games of PGN files, whole in memory: tags, moves, and all that people and programs wrote beside
//! them.

use std::io::{self, Read};

use board::{CastlingMode, Color, Game, Move, Position, Score};

use super::{
    decoded,
    problem::{GameWarning, LeftOut, LeftOutGame, Unread},
    texts::GameTexts,
    variation::{Variation, VariationItem, one_line},
    walk::{GameStart, GameVisitor, walk},
};
use crate::evaluation::{CommentEvaluation, find_evaluation, is_possible_score};

/// A game of a PGN file.
#[derive(Clone, Debug, Default)]
pub struct PgnGame {
    /// The tags in order, without `FEN`, `SetUp`, and in Chess960 `Variant`.
    pub tags: Vec<(String, String)>,
    pub game: Game,
    /// Evaluations in comments (`[%eval 0.31]`, `[%eval #-3]`): plies played before, White's score.
    pub evaluations: Vec<(usize, Score)>,
    /// Comments without their evaluations: plies played before, text.
    pub comments: Vec<(usize, String)>,
    /// Numeric annotation glyphs (NAGs): plies played before, number (1 to 6: `!`, `?`, `!!`, `??`,
    /// `!?`, `?!`).
    pub nags: Vec<(usize, u16)>,
    /// Alternatives to the last move: plies played before, that move included.
    pub variations: Vec<(usize, Variation)>,
    /// The first text that was not understood; what follows it is not read.
    pub unread: Option<Unread>,
    /// That text and all that follows it, on one line.
    pub rest: String,
    /// What is odd about the game and does not end it.
    pub warnings: Vec<GameWarning>,
    /// Number of its first line in the file, from 1.
    pub line: u64,
}

impl PgnGame {
    /// The value of a tag.
    #[must_use]
    pub fn tag(&self, name: &str) -> Option<&str> {
        self.tags.iter().find(|(tag, _)| tag == name).map(|(_, value)| value.as_str())
    }
}

/// A game of a file, or its text where it is not read.
#[derive(Clone, Debug)]
pub enum ReadGame {
    Game(Box<PgnGame>),
    LeftOut(LeftOutGame),
}

impl ReadGame {
    /// The game, if it is read.
    #[must_use]
    pub fn into_game(self) -> Option<PgnGame> {
        match self {
            Self::Game(game) => Some(*game),
            Self::LeftOut(_) => None,
        }
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

/// The games of a PGN one by one. What is odd about a game is logged, and so is where it was cut
/// off or why it is left out.
pub fn read_pgn<R: Read>(input: R) -> impl Iterator<Item = io::Result<ReadGame>> {
    let mut texts = GameTexts::new(input);
    let mut ready = std::collections::VecDeque::new();
    std::iter::from_fn(move || {
        while ready.is_empty() {
            match texts.next()? {
                Ok(text) => {
                    let mut builder = GameBuilder::default();
                    walk(&text, &mut builder);
                    ready.extend(builder.done);
                }
                Err(error) => return Some(Err(error)),
            }
        }
        ready.pop_front().map(Ok)
    })
}

#[derive(Default)]
struct GameBuilder {
    game: PgnGame,
    done: Vec<ReadGame>,
}

impl GameBuilder {
    fn ply(&self) -> usize {
        self.game.game.moves().len()
    }
}

impl GameVisitor for GameBuilder {
    const READS_VARIATIONS: bool = true;

    fn leave_out(&mut self, text: &[u8], line: u64, reason: LeftOut) {
        tracing::warn!("the game at line {line} is left out: {reason}");
        self.done.push(ReadGame::LeftOut(LeftOutGame {
            text: decoded(text),
            reason: reason.to_string(),
            is_variant: matches!(reason, LeftOut::Variant(_)),
            line,
        }));
    }

    fn begin(&mut self, start: GameStart<'_>) {
        // The position says these; of another name for standard chess it does not know.
        let is_chess960 = start.position.castling_mode() == CastlingMode::Chess960;
        let of_start = |name: &str| match name.to_ascii_lowercase().as_str() {
            "fen" | "setup" => true,
            "variant" => is_chess960,
            _ => false,
        };
        self.game = PgnGame {
            tags: start.tags.iter().filter(|(name, _)| !of_start(name)).collect(),
            game: Game::new(start.position.clone()),
            line: start.line,
            ..PgnGame::default()
        };
    }

    fn play(&mut self, mv: Move, _: &Position) {
        self.game.game.play(mv);
    }

    fn comment(&mut self, text: &[u8], position: &Position) {
        let ply = self.ply();
        let (score, rest) = split_evaluation(&decoded(text), position);
        self.game.evaluations.extend(score.map(|score| (ply, score)));
        let rest = one_line(&rest);
        if !rest.is_empty() {
            self.game.comments.push((ply, rest));
        }
    }

    fn nag(&mut self, nag: u16) {
        self.game.nags.push((self.ply(), nag));
    }

    fn variation(&mut self, variation: Variation) {
        let ply = self.ply();
        if variation.has_moves() {
            return self.game.variations.push((ply, variation));
        }
        for item in variation.items {
            match item {
                VariationItem::Nag(nag) => self.game.nags.push((ply, nag)),
                VariationItem::Comment(text) => self.game.comments.push((ply, text)),
                VariationItem::Move(_) | VariationItem::Variation(_) => {}
            }
        }
    }

    fn warn(&mut self, warning: GameWarning) {
        tracing::warn!("in the game at line {}: {warning}", self.game.line);
        self.game.warnings.push(warning);
    }

    fn end(&mut self, result: Option<&str>, unread: Option<(Unread, &[u8])>) {
        let mut game = std::mem::take(&mut self.game);
        if let Some((unread, rest)) = unread {
            tracing::warn!("the game at line {} is cut off: {unread}", game.line);
            game.rest = one_line(&decoded(rest));
            game.unread = Some(unread);
        }
        if let Some(result) = result {
            match game.tags.iter_mut().find(|(name, _)| name == "Result") {
                Some((_, value)) => value.replace_range(.., result),
                None => game.tags.push(("Result".to_owned(), result.to_owned())),
            }
        }
        self.done.push(ReadGame::Game(Box::new(game)));
    }
}

/// White's score in a comment, and the comment without it; one that cannot be read, or be right,
/// stays.
fn split_evaluation(comment: &str, position: &Position) -> (Option<Score>, String) {
    match find_evaluation(comment.as_bytes()) {
        Some(CommentEvaluation { at, score: Some(score) })
            if is_possible_score(score, position) =>
        {
            (Some(score), format!("{}{}", &comment[..at.start], &comment[at.end..]))
        }
        _ => (None, comment.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::UnreadKind;

    /// The games of a text, and the reasons of those that are left out.
    fn read(pgn: &[u8]) -> (Vec<PgnGame>, Vec<String>) {
        let (mut games, mut reasons) = (Vec::new(), Vec::new());
        for game in read_pgn(pgn) {
            match game.unwrap() {
                ReadGame::Game(game) => games.push(*game),
                ReadGame::LeftOut(game) => reasons.push(game.reason),
            }
        }
        (games, reasons)
    }

    fn only(pgn: &str) -> PgnGame {
        let (mut games, reasons) = read(pgn.as_bytes());
        assert_eq!((games.len(), &reasons[..]), (1, &[][..]), "{pgn}");
        games.remove(0)
    }

    /// The main line in SAN.
    fn moves(game: &PgnGame) -> String {
        let mut position = game.game.start().clone();
        let mut words = Vec::new();
        for &mv in game.game.moves() {
            words.push(board::to_san(&position, mv));
            position.play(mv);
        }
        words.join(" ")
    }

    #[test]
    fn usual_other_notations_are_read_and_nothing_is_skipped() {
        use UnreadKind::{
            BehindResult, IllegalMove, NotUnderstood, UnendingComment, UnendingVariation,
            WrongNumber,
        };
        for (pgn, expected, unread) in [
            ("1. e4 e5 2. Nf3 Nc6 *", "e4 e5 Nf3 Nc6", None),
            ("1.e2-e4 e7e5 2.Ng1-f3 nb8c6 *", "e4 e5 Nf3 Nc6", None),
            ("1. e4! e5?! 2. \u{2658}f3!? Nc6+- *", "e4 e5 Nf3 Nc6", None),
            ("e4 e5 Nf3 Nc6 Bc4 Bc5 0-0 d6", "e4 e5 Nf3 Nc6 Bc4 Bc5 O-O d6", None),
            ("1. e4 e6 2. e5 d5 3. exd6 e.p. cxd6 *", "e4 e6 e5 d5 exd6 cxd6", None),
            ("1. e4 e6 2. e5 d5 3. exd6e.p. *", "e4 e6 e5 d5 exd6", None),
            ("1. e4 (1. d4 (1. c4) d5) e5 *", "e4 e5", None),
            ("1. e4 (=) e5 $10 = *", "e4 e5", None),
            ("1. e4 {a} {b} e5 ; c\n2. Nf3 *", "e4 e5 Nf3", None),
            ("1. e4\n\n1... e5\n\n2. Nf3 *", "e4 e5 Nf3", None),
            ("% note\n1. e4\n% note\ne5 *", "e4 e5", None),
            ("1. e4 e5 2. Ke7 Nf6 *", "e4 e5", Some((IllegalMove, "Ke7", 2))),
            ("1. e4 e5 2. foo Nf6 *", "e4 e5", Some((NotUnderstood, "foo", 2))),
            ("1. e4 -- 2. d4 *", "e4", Some((NotUnderstood, "--", 1))),
            ("1. e4 [%eval 0.3] e5 *", "e4", Some((NotUnderstood, "[%eval", 1))),
            ("1. e4 <x> e5 *", "e4", Some((NotUnderstood, "<x>", 1))),
            ("1. e4 ) e5 *", "e4", Some((NotUnderstood, ")", 1))),
            ("1. e4 } e5 *", "e4", Some((NotUnderstood, "}", 1))),
            ("1. e4 e5 { never", "e4 e5", Some((UnendingComment, "", 2))),
            ("1. e4 (1. d4 d5 e5 *", "e4", Some((UnendingVariation, "", 1))),
            ("1. e4 e5 1-0 2. Nf3 *", "e4 e5", Some((BehindResult, "2", 2))),
            ("1. e4 e5 Black resigns", "e4 e5", Some((NotUnderstood, "Black", 2))),
            ("1. e4 2. d5 *", "e4", Some((WrongNumber, "2", 1))),
            ("1. e4 37 e5", "e4", Some((WrongNumber, "37", 1))),
            ("1. e4 mate e5", "e4", Some((NotUnderstood, "mate", 1))),
            ("1. e4 e5 1-0 0-1", "e4 e5", Some((BehindResult, "0-1", 2))),
            ("1. f3 e5 2. g4 Qh4 # 0-1", "f3 e5 g4 Qh4#", None),
            ("1. e4 e5 2. Bc4 Bc5 3. Nf3 Nf6 4. 00 d6", "e4 e5 Bc4 Bc5 Nf3 Nf6 O-O d6", None),
            ("1. e4 1. e5 2. Nf3", "e4 e5 Nf3", None),
            ("[Event \"a\"] [Site \"b\"] 1. e4 e5 1-0", "e4 e5", None),
            ("[Event \"a\"]\n[Result \"1-0\"] 1. e4 e5 1-0", "e4 e5", None),
            ("[Event \"a\"]\n{ note\nmore }\n[White \"a\"]\n\n1. e4 e5 *", "e4 e5", None),
            ("[Event \"long\nname\"]\n[White \"a\"]\n\n1. e4 e5 *", "e4 e5", None),
            ("1. e4 $99999 e5", "e4", Some((NotUnderstood, "$99999", 1))),
        ] {
            let game = only(pgn);
            assert_eq!(moves(&game), expected, "{pgn}");
            let unread = unread.map(|(kind, text, number)| Unread::new(kind, text, number));
            assert_eq!(game.unread, unread, "{pgn}");
        }
    }

    #[test]
    fn games_that_cannot_be_used_are_left_out_with_a_reason() {
        for (pgn, reason) in [
            ("[FEN \"nonsense\"]\n\n1. e4 *", "`nonsense` is not a FEN"),
            ("[FEN \"4k3/8/8/8/8/8/4P3/4K3 w - - 0 1]\n\n1. e4 *", "it decides the start position"),
            ("[Variant \"Antichess\"]\n\n1. e4 *", "the variant `Antichess` is not played here"),
            ("[Variant Antichess]\n\n1. e4 *", "it decides the start position"),
            (
                "[Event \"a\"] [FEN \"4k3/8/8/8/8/8/4P3/4K3 w - - 0 1]\n\n1. e4 *",
                "it decides the start",
            ),
            ("[Event \"a\"] [fen 4k3/8/8 w - - 0 1]\n\n1. e4 *", "it decides the start position"),
            ("[FEN \"a\"]\n[FEN \"b\"]\n\n1. e4 *", "the tag FEN has two values"),
            ("[variant \"Atomic\"]\n\n1. e4 *", "the variant `Atomic` is not played here"),
            ("[SetUp \"1\"]\n\n1. e4 *", "there is no FEN"),
            ("<html>\n<p>1. e4\n", "is not a game"),
            ("{ only a comment }", "is not a game"),
            ("hello", "is not a game"),
            ("1-0", "is not a game"),
            ("\u{0}\u{1}\u{2}", "is not a game"),
            ("[", "is not a game"),
        ] {
            let (games, reasons) = read(pgn.as_bytes());
            assert!(games.is_empty() && reasons.len() == 1, "{pgn}: {games:?} {reasons:?}");
            assert!(reasons[0].contains(reason), "{pgn}: {}", reasons[0]);
        }
        let kept = |variant: &str| only(&format!("[Variant \"{variant}\"]\n\n1. e4 e5 *"));
        for variant in ["Standard", "From Position", "Chess960"] {
            assert_eq!(kept(variant).game.moves().len(), 2);
        }
    }

    #[test]
    fn games_without_tags_are_told_apart() {
        for (pgn, expected) in [
            ("1. e4 e5 1-0\n\n1. d4 d5 *", vec![2, 2]),
            ("1. e4 e5 1-0\n1. d4 d5 *", vec![2, 2]),
            ("1. e4 e5 2. Nf3 Nc6\n1. d4 d5 2. c4", vec![4, 3]),
            ("1. e4 Ke5 2. d4\n\n1. d4 d5 *", vec![1, 2]),
            ("1. e4 e5 1-0 foo\n\n1. d4 d5 0-1\n\n1. c4 *", vec![2, 2, 1]),
            ("1. e4 e5\n\n1. d4 *", vec![2, 1]),
            ("1. e4 {a} 1-0 {b}\n\n1. d4 d5 2. c4 *\n", vec![1, 3]),
            ("[FEN \"4k3/8/8/8/8/8/8/4K2R w K - 0 1\"]\n\n1. O-O *\n\n1. e4 e5", vec![1, 2]),
            ("", vec![]),
            ("\n \n", vec![]),
        ] {
            let lengths: Vec<usize> =
                read(pgn.as_bytes()).0.iter().map(|game| game.game.moves().len()).collect();
            assert_eq!(lengths, expected, "{pgn}");
        }
    }

    #[test]
    fn the_rest_of_a_broken_game_ends_where_another_begins() {
        let (games, _) = read(b"1. e4 Ke5 2. d4 { why }\n\n1. d4 foo *\n");
        let rests: Vec<&str> = games.iter().map(|game| game.rest.as_str()).collect();
        assert_eq!(rests, ["Ke5 2. d4 { why }", "foo *"]);
    }

    #[test]
    fn results_are_one_for_all_commands() {
        for (pgn, expected) in [
            ("1. e4 e5 1-0", Some("1-0")),
            ("[Result \"*\"]\n\n1. e4 1/2-1/2", Some("1/2-1/2")),
            ("[Result \"0-1\"]\n\n1. e4 1-0", Some("0-1")),
            ("[Result \"0-1\"]\n\n1. e4 *", Some("0-1")),
            ("1. e4 \u{bd}-\u{bd}", Some("1/2-1/2")),
            ("[Result \"1-0 forfeit\"]\n\n1. e4 1-0", Some("1-0")),
            ("[Result \"?\"]\n\n1. e4 0-1", Some("0-1")),
            ("[Result \"1/2\"]\n\n1. e4 *", Some("1/2-1/2")),
            ("[Result \"1-0 \"]\n\n1. e4 *", Some("1-0")),
            ("1. e4 *", None),
        ] {
            assert_eq!(only(pgn).tag("Result"), expected, "{pgn}");
        }
    }

    #[test]
    fn names_in_latin_1_are_read() {
        let pgn = b"[White \"M\xfcller\"]\n[Black \"M\xc3\xb6ller\"]\n\n1. e4 { sch\xf6n } *";
        let (games, _) = read(pgn);
        let game = &games[0];
        assert_eq!(
            (game.tag("White"), game.tag("Black")),
            (Some("M\u{fc}ller"), Some("M\u{f6}ller"))
        );
        assert_eq!(game.comments, [(1, "sch\u{f6}n".to_owned())]);
    }

    #[test]
    fn tags_with_quotes_keep_their_game_whole() {
        let game = only(
            "[FEN \"4k3/8/8/8/8/8/4P3/4K3 w - - 0 1\"]\n[White \"Joe \"Iron\" Pawn\"]\n[Site \"broken]\n\
             [Result \"1-0\"]\n\n1. Kd2 Kd7 1-0",
        );
        assert_eq!((game.tag("White"), game.game.moves().len()), (Some("Joe \"Iron\" Pawn"), 2));
        assert_eq!((game.tag("Site"), game.tag("Result")), (None, Some("1-0")));
    }

    #[test]
    fn evaluations_comments_and_glyphs_are_read() {
        let game = only(
            "{ [%eval 0.2] } 1. e4 $1 { [%eval -0.31,22] [%clk 1:00] } e5?! { nothing } 2. Nf3\u{b1} { [%eval #3] } *",
        );
        let pawns = Score::Centipawns;
        assert_eq!(game.evaluations, [(0, pawns(20)), (1, pawns(-31)), (3, Score::Mate(3))]);
        assert_eq!(game.comments, [(1, "[%clk 1:00]".to_owned()), (2, "nothing".to_owned())]);
        assert_eq!(game.nags, [(1, 1), (2, 6), (3, 16)]);
        let impossible = only("1. e4 { [%eval #0] } e5 { [%eval #-0] } *");
        assert_eq!(impossible.evaluations, []);
        let words = "word ".repeat(30_000);
        let game = only(&format!("1. e4 {{ {words}[%eval 1.5] end }} *"));
        assert_eq!(game.comments, [(1, format!("{words}end"))]);
        assert_eq!(game.evaluations, [(1, pawns(150))]);
    }

    /// A variation as text.
    fn text(variation: &Variation) -> String {
        let items = variation.items.iter().map(|item| match item {
            VariationItem::Move(san) => san.clone(),
            VariationItem::Nag(nag) => format!("${nag}"),
            VariationItem::Comment(comment) => format!("{{{comment}}}"),
            VariationItem::Variation(nested) => format!("({})", text(nested)),
        });
        items.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn variations_are_kept() {
        for (pgn, expected) in [
            ("1. e4 (1. d4) e5", vec!["1 d4"]),
            ("1. e4 (1. d4 d5 2.c2-c4!? {sharp}) e5", vec!["1 d4 d5 c4 $5 {sharp}"]),
            ("1. e4 (1. d4 (1. c4 e5) (1. b3) 1... d5) e5", vec!["1 d4 (c4 e5) (b3) d5"]),
            ("1. e4 (1. d4) (1. c4) e5 (1... c5)", vec!["1 d4", "1 c4", "2 c5"]),
            ("1. e4 (1. d4 -- 2. e4) e5", vec!["1 d4 -- e4"]),
            ("1. e4 ({before} 1. Z0?! d5) e5", vec!["1 {before} -- $6 d5"]),
            ("1. e4 (1. d4 d4 2. c4 (x) {y}) e5", vec!["1 d4 {d4 2. c4 (x) {y}}"]),
            ("1. e4 (1. d4 1-0) e5", vec!["1 d4 {1-0}"]),
            ("1. e4 (=) e5", vec![]),
            ("1. e4 () e5", vec![]),
            ("1. e4 ((1. d4)) e5", vec![]),
        ] {
            let game = only(pgn);
            let read: Vec<String> = game
                .variations
                .iter()
                .map(|(ply, variation)| format!("{ply} {}", text(variation)))
                .collect();
            assert_eq!(read, expected, "{pgn}");
            assert!(moves(&game).ends_with("e5") && game.unread.is_none(), "{pgn}");
        }
        let asides = only("1. e4 (=) e5 ({why}) ((1. c4))");
        assert_eq!((asides.nags, asides.variations.len()), (vec![(1, 10)], 0));
        assert_eq!(asides.comments, [(2, "why".to_owned()), (2, "(1. c4)".to_owned())]);
        let deep = format!("1. e4 {}{} e5", "(1. d4 ".repeat(100_000), ")".repeat(100_000));
        assert_eq!(moves(&only(&deep)), "e4 e5");
    }
}
