//! Cuts a text into games, without reading their moves: a chunk of a large file can then be read by
//! any thread.

use std::io::{self, BufRead, BufReader, Read};

use super::{
    tags::{TagLine, ends_broken_tag, name_and_rest, tag_line},
    tokens::is_result,
};

/// A game that is longer, in bytes, is cut off, so that memory stays bounded.
pub(super) const LONGEST_GAME: usize = 1 << 24;

/// Most games are shorter, in bytes.
const TYPICAL_GAME: usize = 1 << 13;

/// The text of a game, or of several games without tags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GameText {
    pub text: Vec<u8>,
    /// Its first line, from 1.
    pub line: u64,
}

/// The texts of games, one by one. A game begins at a tag behind moves, or behind an empty line
/// that follows a result; what a comment holds begins nothing, unless it holds an empty line and
/// then the tag `Event`: that is a comment which somebody forgot to close.
#[derive(Debug)]
pub struct GameTexts<R> {
    input: BufReader<R>,
    /// The first line of the next game.
    next: Vec<u8>,
    /// Number of lines read so far.
    lines: u64,
}

impl<R: Read> GameTexts<R> {
    pub fn new(input: R) -> Self {
        Self { input: BufReader::with_capacity(1 << 16, input), next: Vec::new(), lines: 0 }
    }

    fn read_game(&mut self) -> io::Result<Option<GameText>> {
        let mut text = std::mem::take(&mut self.next);
        let line = self.lines.max(1);
        let mut scan = LineScan::default();
        if !text.is_empty() {
            scan.begins_game(&text);
        }
        let mut is_empty = text.trim_ascii().is_empty();
        let mut first = line;
        loop {
            let start = text.len();
            let most = (LONGEST_GAME + 1) as u64;
            let length = self.input.by_ref().take(most).read_until(b'\n', &mut text)?;
            if length == 0 {
                return Ok((!is_empty).then_some(GameText { text, line: first }));
            }
            self.lines += 1;
            if scan.begins_game(&text[start..]) {
                self.next = Vec::with_capacity(TYPICAL_GAME);
                self.next.extend_from_slice(&text[start..]);
                text.truncate(start);
                return Ok(Some(GameText { text, line: first }));
            }
            if is_empty {
                is_empty = text.trim_ascii().is_empty();
                first = self.lines;
            }
            if is_empty {
                text.clear();
            }
            if text.len() >= LONGEST_GAME {
                text.truncate(LONGEST_GAME);
                // What is cut off ends in the middle of anything; the next tag begins a game.
                if text.last() != Some(&b'\n') {
                    text.pop();
                    text.push(b'\n');
                }
                scan.is_cut_off = true;
            }
        }
    }
}

impl<R: Read> Iterator for GameTexts<R> {
    type Item = io::Result<GameText>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read_game().transpose()
    }
}

/// What the lines of a game so far say of the next one.
#[derive(Default)]
struct LineScan {
    in_comment: bool,
    after_empty_line: bool,
    after_broken_tag: bool,
    /// Something other than tags and comments has been read.
    has_moves: bool,
    /// The last line with moves ends in a result.
    has_ended: bool,
    is_cut_off: bool,
    first_tag: Vec<u8>,
}

impl LineScan {
    /// Does a game begin with this line? If not, the line becomes part of the game.
    fn begins_game(&mut self, line: &[u8]) -> bool {
        let trimmed = line.trim_ascii();
        let after_empty_line = std::mem::replace(&mut self.after_empty_line, trimmed.is_empty());
        let after_broken_tag = std::mem::take(&mut self.after_broken_tag);
        let Some(&first) = trimmed.first() else { return false };
        let tag = if first == b'[' || first == 0xef { tag_line(line) } else { None };
        if let Some(tag) = tag
            && self.begins_with(tag, after_empty_line)
        {
            return true;
        }
        if self.in_comment {
            self.read_moves(line);
        } else if let Some(tag) = tag {
            if self.first_tag.is_empty() {
                self.first_tag.extend_from_slice(tag.name);
            }
            self.read_behind_tag(tag.rest);
        } else if self.has_ended && after_empty_line && !matches!(first, b'{' | b';') {
            return true;
        } else if first == b'[' && !self.has_moves && name_and_rest(line).is_some() {
            self.after_broken_tag = true;
        } else if line[0] != b'%' && !(after_broken_tag && ends_broken_tag(line)) {
            self.read_moves(line);
        }
        false
    }

    /// Does this tag begin another game?
    fn begins_with(&self, tag: TagLine<'_>, after_empty_line: bool) -> bool {
        if self.is_cut_off {
            return true;
        }
        if self.in_comment {
            return after_empty_line && tag.name == b"Event" && tag.rest.trim_ascii().is_empty();
        }
        self.has_moves || after_empty_line && self.first_tag == tag.name
    }

    /// Reads what follows a tag on its line: other tags, or moves.
    fn read_behind_tag(&mut self, mut rest: &[u8]) {
        while let Some(tag) = tag_line(rest) {
            rest = tag.rest;
        }
        if !rest.trim_ascii_start().starts_with(b"[") {
            self.read_moves(rest);
        }
    }

    fn read_moves(&mut self, line: &[u8]) {
        let mut rest = line;
        let mut is_to_the_end = true;
        loop {
            if self.in_comment {
                let Some(end) = rest.iter().position(|&byte| byte == b'}') else { break };
                self.in_comment = false;
                rest = &rest[end + 1..];
            }
            let comment = rest.iter().position(|&byte| matches!(byte, b'{' | b';'));
            let moves = &rest[..comment.unwrap_or(rest.len())];
            self.has_moves |= !moves.trim_ascii().is_empty();
            match comment {
                Some(at) if rest[at] == b'{' => {
                    self.in_comment = true;
                    rest = &rest[at + 1..];
                }
                Some(_) => {
                    is_to_the_end = false;
                    break;
                }
                None => break,
            }
        }
        let last = rest.trim_ascii_end().rsplit(u8::is_ascii_whitespace).next();
        self.has_ended = !self.in_comment && is_to_the_end && last.is_some_and(is_result);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(pgn: &str) -> Vec<(u64, String)> {
        GameTexts::new(pgn.as_bytes())
            .map(|game| game.unwrap())
            .map(|game| (game.line, String::from_utf8(game.text).unwrap().trim().to_owned()))
            .collect()
    }

    #[test]
    fn games_are_cut_where_they_begin() {
        let games = |pgn: &str| texts(pgn).len();
        for (pgn, expected) in [
            ("", 0),
            ("\n\n  \n", 0),
            ("1. e4 e5 *", 1),
            ("[Event \"a\"]\n\n1. e4 *\n\n[Event \"b\"]\n\n1. d4 *\n", 2),
            ("[Event \"a\"]\n1. e4 *\n[Event \"b\"]\n1. d4 *\n", 2),
            ("[Event \"a\"]\n\n[Event \"b\"]\n\n1. d4 *\n", 2),
            ("[Event \"a\"]\n\n[Site \"b\"]\n\n1. d4 *\n", 1),
            ("[Event \"a\"]\n\n1. e4 { note\n[Another idea, x]\n} e5 *\n", 1),
            ("[Event \"a\"]\n\n1. e4 { note\n[Event \"b\"]\n} e5 *\n", 1),
            ("[Event \"a\"]\n\n1. e4 { open\n\n[Event \"b\"]\n\n1. d4 *\n", 2),
            ("[Event \"a\"]\n\n1. e4 ; {\n e5 *\n\n[Event \"b\"]\n\n1. d4 {;} *\n", 2),
            ("[Event \"a\"]\n\n1. e4 e5\n\n2. Nf3 Nc6 *\n", 1),
            ("1. e4 *\n\n1. d4 *\n\n1. c4 {x} 1-0\n\n1. Nf3", 4),
            ("1. e4 {1-0\n\n} e5 *\n\n\n{end}\n", 1),
            ("[Event \"a\"]\n% [Event \"b\"]\n; [Event \"c\"]\n\n1. e4 *\n", 1),
            ("[White \"a {b\"]\n\n1. e4 *\n\n[White \"c;\"]\n\n1. e4 *\n", 2),
            ("[Event \"a\"]\n[Site \"unclosed]\n[White \"b\"]\n\n1. e4 *\n", 1),
            ("[Event \"long\nname\"]\n[White \"b\"]\n\n1. e4 *\n", 1),
            ("[Event \"a\"]\n{ note }\n[White \"b\"]\n\n1. e4 *\n", 1),
            ("{ head }\n[Event \"a\"]\n\n1. e4 *\n", 1),
            ("[Event \"a\"] 1. e4 *\n[Event \"b\"] 1. d4 *\n", 2),
            ("[Event \"a\"] [Site \"b\"] 1. e4 *\n\n[Event \"b\"]\n\n1. d4 *\n", 2),
            ("[Event \"a\"]\n\n1. e4 { a\n\n[Diagram \"b\"]\n} e5 *\n", 1),
        ] {
            assert_eq!(games(pgn), expected, "{pgn}");
        }
        let lines: Vec<u64> = texts("\n\n[Event \"a\"]\n\n1. e4 *\n\n[Event \"b\"]\n\n1. d4 *\n")
            .into_iter()
            .map(|(line, _)| line)
            .collect();
        assert_eq!(lines, [3, 7]);
    }

    #[test]
    fn a_game_without_end_is_cut_off() {
        let long = format!(
            "[Event \"a\"]\n\n1. e4 {{ {} }} *\n\n[Event \"b\"]\n\n1. d4 *\n",
            "word ".repeat(LONGEST_GAME / 4)
        );
        let games = texts(&long);
        assert_eq!((games.len(), games[1].1.as_str()), (2, "[Event \"b\"]\n\n1. d4 *"));
        assert!(games[0].1.len() >= LONGEST_GAME - 5);
        // Cut texts put together are cut at the same places.
        let joined: String = GameTexts::new(long.as_bytes())
            .map(|game| String::from_utf8(game.unwrap().text).unwrap())
            .collect();
        assert_eq!(texts(&joined).len(), 2);
        assert_eq!(texts(&"x".repeat(3 * LONGEST_GAME)).len(), 1);
    }
}
