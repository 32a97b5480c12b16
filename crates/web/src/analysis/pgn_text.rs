//! PGN from the page and to it. What is not understood is said with its place and a hint; nothing
//! is left out in silence.

use games::{PgnGame, PgnWriter, ReadGame, UnreadKind, parse_result, read_pgn};
use serde::Deserialize;
use serde_json::{Value, json};

use super::game_tree::{GameTree, said};
use crate::{ApiError, error::sentence};

/// Longest PGN for the analysis, in bytes.
pub const MAX_PGN: usize = 1 << 20;
/// The most games of a PGN that are listed.
const MAX_GAMES: usize = 2_000;

/// The tags that every PGN has, in this order, and their values where nothing is known.
const ROSTER: [(&str, &str); 6] = [
    ("Event", "?"),
    ("Site", "?"),
    ("Date", "????.??.??"),
    ("Round", "?"),
    ("White", "?"),
    ("Black", "?"),
];

/// The page's request to read a PGN.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadPgnRequest {
    /// The page's number of the request; the answer carries it.
    pub tag: u32,
    pub text: String,
    /// Number of the wanted game, from 0; without it the games are listed, and a game that is alone
    /// is sent.
    #[serde(default)]
    pub game: Option<usize>,
}

impl ReadPgnRequest {
    /// The games of the text, and the one that is wanted as a tree.
    ///
    /// # Errors
    /// The text is too long or holds no game that can be read; a sentence that says where and why.
    pub fn answer(&self) -> Result<Value, ApiError> {
        if self.text.len() > MAX_PGN {
            return Err(ApiError::new(format!(
                "The PGN has {} KiB, and the page reads {} KiB at once. “batch-first analyze FILE” \
                 analyses files of any size.",
                self.text.len().div_ceil(1024),
                MAX_PGN / 1024
            )));
        }
        let games = read_pgn(self.text.as_bytes());
        let mut list = Vec::new();
        let mut first = None;
        for (number, read) in games.take(MAX_GAMES).enumerate() {
            let read = read
                .map_err(|error| ApiError::sentence(&format!("the PGN cannot be read: {error}")))?;
            if self.game == Some(number) {
                return self.game(read);
            }
            list.push(entry(&read));
            if first.is_none() && matches!(read, ReadGame::Game(_)) {
                first = Some(read);
            }
        }
        match (first, list.len()) {
            (_, 0) => Err(ApiError::new("There is no game in the text.")),
            (None, _) => Err(ApiError(reason(&list[0]))),
            (Some(game), 1) => self.game(game),
            _ => Ok(json!({ "games": list })),
        }
    }

    /// One game, and what was left out of it.
    fn game(&self, read: ReadGame) -> Result<Value, ApiError> {
        let game = whole(read)?;
        let mut notes = odd(&game);
        notes.extend(cut_off(&game));
        Ok(json!({ "tree": GameTree::from_pgn(&game)?, "notes": notes }))
    }
}

/// The only game of a text, read to its end.
///
/// # Errors
/// The text holds no game, several, or one that is not understood to its end; a sentence that says
/// where and why.
pub fn only_game(text: &str) -> Result<PgnGame, ApiError> {
    let mut games = read_pgn(text.as_bytes()).map(|read| {
        read.map_err(|error| ApiError::sentence(&format!("the PGN cannot be read: {error}")))
    });
    let first = games.next().ok_or_else(|| ApiError::new("There is no game in the text."))??;
    let game = whole(first)?;
    if let Some(why) = why_cut(&game) {
        return Err(ApiError::sentence(&format!("the PGN cannot be used: {why}")));
    }
    match games.next() {
        None => Ok(game),
        Some(next) => {
            whole(next?)?;
            Err(ApiError::new("The PGN has several games: keep only one of them."))
        }
    }
}

/// A game that was not left out.
fn whole(read: ReadGame) -> Result<PgnGame, ApiError> {
    match read {
        ReadGame::Game(game) => Ok(*game),
        ReadGame::LeftOut(_) => Err(ApiError(reason(&entry(&read)))),
    }
}

/// What is odd about a game and does not end it, in sentences.
pub fn odd(game: &PgnGame) -> Vec<String> {
    game.warnings.iter().map(|warning| sentence(&warning.to_string())).collect()
}

/// A game in the list: names, result and length, or why it is left out.
fn entry(read: &ReadGame) -> Value {
    match read {
        ReadGame::Game(game) => {
            let tag = |name| game.tag(name).unwrap_or("?");
            json!({ "white": tag("White"), "black": tag("Black"), "result": game.tag("Result").unwrap_or("*"),
                "date": tag("Date"), "event": tag("Event"), "plies": game.game.moves().len(),
                "line": game.line, "is_cut": game.unread.is_some() })
        }
        ReadGame::LeftOut(game) => {
            json!({ "line": game.line, "error": sentence(&format!("line {}: {}{}", game.line, game.reason, hint(&game.text))) })
        }
    }
}

/// Why a listed game is left out.
fn reason(entry: &Value) -> String {
    entry["error"].as_str().unwrap_or_default().to_owned()
}

/// Where a game was cut off, and why.
fn why_cut(game: &PgnGame) -> Option<String> {
    let unread = game.unread.as_ref()?;
    let piece_hint = match unread.kind {
        UnreadKind::NotUnderstood | UnreadKind::IllegalMove => hint(&unread.text),
        _ => "",
    };
    Some(format!("{unread}{piece_hint}"))
}

/// Where a game was cut off, and why, in sentences.
fn cut_off(game: &PgnGame) -> Option<String> {
    let why = why_cut(game)?;
    let mut rest: String = game.rest.chars().take(120).collect();
    if rest.len() < game.rest.len() {
        rest.push('…');
    }
    let rest = if rest.is_empty() { String::new() } else { format!(" Not read: {rest}") };
    let cut = sentence(&format!("the game is read up to here only: {why}"));
    Some(cut + &rest)
}

/// What the writer of a text that is not understood may have meant; begins with `; `.
fn hint(text: &str) -> &'static str {
    let text = text.trim();
    let begins = |prefix: &str| {
        text.get(..prefix.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(prefix))
    };
    if ["http://", "https://", "www.", "lichess.org/", "chess.com/"].into_iter().any(begins) {
        return "; it is a link, and this page fetches nothing: copy the game's PGN there";
    }
    let mut words =
        text.split_whitespace().filter(|word| !word.starts_with(|c: char| c.is_ascii_digit()));
    if words.any(has_foreign_piece) {
        return "; pieces have English letters in PGN: K, Q, R, B, N (not S, L, T, D or others)";
    }
    let has_side = text.contains(" w") || text.contains(" b");
    if text.split('/').count() == 8 && has_side {
        return "; it looks like a FEN: put it into the field for a position";
    }
    ""
}

/// Does a word look like a move of a piece whose letter is not English: `Sf3`, `Lxb5`, `Cf3`?
fn has_foreign_piece(word: &str) -> bool {
    let mut letters = word.chars();
    let is_foreign =
        letters.next().is_some_and(|first| first.is_uppercase() && !"KQRBNO".contains(first));
    let rest = letters.as_str().trim_start_matches('x').as_bytes();
    let is_square = |at: usize| {
        matches!((rest.get(at), rest.get(at + 1)), (Some(b'a'..=b'h'), Some(b'1'..=b'8')))
    };
    is_foreign && (is_square(0) || is_square(1) || is_square(2))
}

/// A game as PGN, with the tags that every PGN has.
pub fn write_pgn(game: &PgnGame) -> String {
    let winner = game.tag("Result").and_then(parse_result);
    let known = |name: &str| game.tag(name).filter(|value| !value.is_empty());
    let roster = ROSTER.map(|(name, unknown)| (name, known(name).unwrap_or(unknown).to_owned()));
    let is_other = |name: &str| name != "Result" && ROSTER.iter().all(|(tag, _)| *tag != name);
    let others = game.tags.iter().filter(|(name, _)| is_other(name));
    let others = others.map(|(name, value)| (name.as_str(), value.clone()));
    let tags: Vec<(&str, String)> = roster.into_iter().chain(others).collect();
    let mut writer = PgnWriter::new(game.game.start(), &tags, winner);
    add_remarks(&mut writer, game, 0);
    for (ply, &mv) in (1..).zip(game.game.moves()) {
        writer.play(mv, None);
        add_remarks(&mut writer, game, ply);
        let here = game.variations.iter().filter(|(behind, _)| *behind == ply);
        here.for_each(|(_, variation)| writer.variation(variation));
    }
    writer.finish()
}

/// The glyphs, the evaluation and the comments after `ply` plies.
fn add_remarks(writer: &mut PgnWriter, game: &PgnGame, ply: usize) {
    game.nags.iter().filter(|(at, _)| *at == ply).for_each(|&(_, nag)| writer.nag(nag));
    let score = game.evaluations.iter().find(|(at, _)| *at == ply).map(|&(_, score)| score);
    let comments = game.comments.iter().filter(|(at, _)| *at == ply);
    let comments: Vec<&str> = comments.map(|(_, text)| text.as_str()).collect();
    let text = said(score, &comments.join(" "));
    if !text.is_empty() {
        writer.comment(text.trim_end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::game_state::MAX_PLIES;

    fn read(text: &str) -> Result<Value, ApiError> {
        ReadPgnRequest { tag: 0, text: text.to_owned(), game: None }.answer()
    }

    /// Reads a PGN of one game, turns it into a tree and writes it again.
    fn through_the_page(text: &str) -> String {
        let answer = read(text).unwrap();
        let tree: GameTree = serde_json::from_value(answer["tree"].clone()).unwrap();
        write_pgn(&tree.into_pgn().unwrap())
    }

    fn moves(pgn: &str) -> &str {
        pgn.split("\n\n").nth(1).unwrap()
    }

    #[test]
    fn variations_comments_and_glyphs_survive_the_page() {
        for (pgn, expected) in [
            ("1. e4 e5 2. Nf3 *", "1. e4 e5 2. Nf3 *"),
            (
                "{first} 1. e4! {[%eval 0.31] good} (1. d4 d5 (1... Nf6 2. c4) 2. c4 $14) ({or} 1. c4 {[%eval -0.1] [%clk 0:01]}) e5 *",
                "{ first } 1. e4 $1 { [%eval 0.31] good } (1. d4 d5 (1... Nf6 2. c4) 2. c4 $14) ({ or } 1. c4 { [%eval -0.10] [%clk 0:01] }) 1... e5 *",
            ),
            // The same first move twice is one variation with a branch.
            (
                "1. e4 (1. d4 d5) (1. d4 Nf6 2. c4) e5 *",
                "1. e4 (1. d4 d5 (1... Nf6 2. c4)) 1... e5 *",
            ),
            // A visitor's line is not marked as ours, which the next analysis would replace.
            (
                "1. e4 (1. d4 d5) ({Batch First} 1. d4 Nf6) e5 *",
                "1. e4 (1. d4 d5 (1... Nf6)) 1... e5 *",
            ),
            (
                "1. e4 ({Batch First} 1. d4 Nf6) (1. d4 d5) e5 *",
                "1. e4 (1. d4 Nf6 (1... d5)) 1... e5 *",
            ),
            ("1. e4 (1. d4 -- 2. e4 {quick}) e5 *", "1. e4 (1. d4 { -- e4 quick }) 1... e5 *"),
            ("1. e4 e5 2. Ke2 {[%eval #-3]} 0-1", "1. e4 e5 2. Ke2 { [%eval #-3] } 0-1"),
        ] {
            let written = through_the_page(pgn);
            assert_eq!(moves(&written).replace('\n', " "), expected, "{pgn}");
            assert_eq!(through_the_page(&written), written);
        }
    }

    #[test]
    fn tags_and_other_start_positions_survive_the_page() {
        let pgn = "[White \"Joe \"Iron\" Pawn\"]\n[Black \"<b>&\\\\\"]\n[Result \"1-0\"]\n[Opening \"x\"]\n\
                   [Variant \"Chess960\"]\n[FEN \"4k2r/8/8/8/8/8/8/4K2R w Hh - 2 9\"]\n\n9. O-O 1-0";
        let written = through_the_page(pgn);
        for line in [
            "[White \"Joe \\\"Iron\\\" Pawn\"]",
            "[Black \"<b>&\\\\\"]",
            "[Opening \"x\"]",
            "[Result \"1-0\"]",
            "[Variant \"Chess960\"]",
            "[FEN \"4k2r/8/8/8/8/8/8/4K2R w Kk - 2 9\"]",
        ] {
            assert!(written.lines().any(|found| found == line), "{line}: {written}");
        }
        assert_eq!(through_the_page(&written), written);
    }

    #[test]
    fn what_is_not_read_is_said_with_its_place() {
        for (text, words) in [
            ("", "no game"),
            ("hello world", "hello world is not a game"),
            ("https://lichess.org/abcdefgh", "it is a link"),
            ("1. Sf3 Sf6 2. Lb5", "English letters"),
            (&"x".repeat(MAX_PGN + 1), "1025 KiB"),
            ("[FEN \"x\"]\n\n1. e4", "Line 1: x is not a FEN"),
            ("rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1", "looks like a FEN"),
        ] {
            let error = read(text).unwrap_err().0;
            assert!(error.contains(words), "{text:.20}: {error}");
            let is_sentence = error.starts_with(char::is_uppercase) && error.ends_with('.');
            assert!(is_sentence && !error.contains('`'), "{error}");
        }
        for (text, words) in [
            ("1. e4 e5 2. Sf3 Sc6", "move 2, Sf3 is not a move; pieces have English letters"),
            ("1. e4 e5 2. Ke3", "Ke3, is not legal"),
            ("1. e4 e5 {never", "a comment does not end"),
            ("1. e4 (1. d4 d4) e5", "A variation is cut off"),
            ("[White x]\n[Black \"y\"]\n\n1. e4", "is not a tag"),
        ] {
            let answer = read(text).unwrap();
            let notes = answer["notes"].to_string();
            assert!(
                notes.contains(words) || notes.replace("\\\"", "\"").contains(words),
                "{text}: {notes}"
            );
        }
        // Blanks that do not break are blanks.
        assert_eq!(read("1.\u{a0}e4\u{a0}e5\u{a0}*").unwrap()["notes"], json!([]));
    }

    #[test]
    fn very_many_comments_are_read_in_a_moment() {
        let comments = "{a} ".repeat(100_000);
        let began = std::time::Instant::now();
        for text in [
            format!("1. e4 ({comments}1. d4) e5 *"),
            format!("1. e4 ({comments}1. d4 d5) {comments}e5 *"),
        ] {
            let answer = read(&text).unwrap();
            let nodes = answer["tree"]["nodes"].as_array().unwrap();
            let d4 = nodes.iter().find(|node| node["san"] == "d4").unwrap();
            assert_eq!(d4["before"].as_str().unwrap().len(), 2 * 100_000 - 1);
        }
        // It takes a fraction of a second; joined one by one, the comments take minutes.
        assert!(began.elapsed().as_secs() < 20, "{:?}", began.elapsed());
    }

    #[test]
    fn games_longer_than_the_board_allows_are_refused_and_long_variations_cut() {
        let knights =
            |plies: usize| ["Nf3 ", "Nf6 ", "Ng1 ", "Ng8 "].into_iter().cycle().take(plies);
        let main: String = knights(MAX_PLIES + 1).collect();
        assert!(read(&main).unwrap_err().0.contains("at most 1200 plies"));
        let variation: String = knights(MAX_PLIES + 2).collect();
        let answer = read(&format!("e4 ({variation}) e5 *")).unwrap();
        let nodes = answer["tree"]["nodes"].as_array().unwrap();
        assert_eq!(nodes.len(), 1 + 2 + MAX_PLIES);
        let last = nodes.iter().find(|node| !node["comment"].is_null()).unwrap();
        assert_eq!(last["comment"], json!("Nf3 Nf6"));
        // What was read can be written.
        let tree: GameTree = serde_json::from_value(answer["tree"].clone()).unwrap();
        tree.into_pgn().unwrap();
    }

    #[test]
    fn several_games_are_listed_and_one_is_chosen() {
        let text = "[White \"A\"]\n[Black \"B\"]\n\n1. e4 *\n\n[White \"C\"]\n\n1. d4 d5 *\n\n[Variant \"Atomic\"]\n\n1. e4 *\n";
        let list = read(text).unwrap()["games"].clone();
        assert_eq!((&list[0]["white"], &list[1]["plies"]), (&json!("A"), &json!(2)));
        assert!(list[2]["error"].as_str().unwrap().contains("Atomic"));
        let second =
            ReadPgnRequest { tag: 0, text: text.to_owned(), game: Some(1) }.answer().unwrap();
        assert_eq!(second["tree"]["nodes"][2]["san"], json!("d5"));
    }
}
