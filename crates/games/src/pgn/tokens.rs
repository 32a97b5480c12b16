//! The tokens of the text behind the tags of a game.

use std::borrow::Cow;

use board::Position;

/// A token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// The text inside braces, or behind a semicolon to the end of the line.
    Comment(&'a [u8]),
    /// A brace is not closed before the game ends.
    UnendingComment,
    /// `$n`, or a symbol for it.
    Nag(u16),
    Open,
    Close,
    /// A move number and how many points follow it: one for White, three for Black.
    Number {
        number: u32,
        points: usize,
    },
    Result(&'static str),
    /// A move, or anything else.
    Word(Cow<'a, str>),
    EmptyLine,
}

/// The results of the standard.
pub(super) fn is_result(word: &[u8]) -> bool {
    result(word).is_some_and(|result| result.as_bytes() == word)
}

/// A result in its usual form.
pub(super) fn result(word: &[u8]) -> Option<&'static str> {
    /// No spelling is longer, in bytes.
    const LONGEST: usize = 16;
    let plain = |word: &[u8]| {
        Some(match word {
            b"1-0" | b"1:0" => "1-0",
            b"0-1" | b"0:1" => "0-1",
            b"1/2-1/2" | b"1/2" | b"1/2:1/2" => "1/2-1/2",
            b"*" => "*",
            _ => return None,
        })
    };
    if word.is_ascii() || word.len() > LONGEST {
        return plain(word);
    }
    // En dashes, and a half in Latin-1 or UTF-8.
    plain(super::decoded(word).replace('\u{2013}', "-").replace('\u{bd}', "1/2").as_bytes())
}

/// Symbols for glyphs (the standard's numbers), the longest first.
const SYMBOLS: [(&str, u16); 27] = [
    ("+/-", 16),
    ("-/+", 17),
    ("+/=", 14),
    ("=/+", 15),
    ("+--", 20),
    ("--+", 21),
    ("!!", 3),
    ("??", 4),
    ("!?", 5),
    ("?!", 6),
    ("+-", 18),
    ("-+", 19),
    ("+=", 14),
    ("=+", 15),
    ("!", 1),
    ("?", 2),
    ("=", 10),
    ("\u{b1}", 16),
    ("\u{2213}", 17),
    ("\u{2a72}", 14),
    ("\u{2a71}", 15),
    ("\u{221e}", 13),
    ("\u{25a1}", 7),
    ("TN", 146),
    ("N", 146),
    ("\u{2a00}", 22),
    ("~", 13),
];

/// The glyph of a symbol that stands alone.
fn symbol(word: &str) -> Option<u16> {
    // Almost all words are moves, which begin with another letter.
    if word.starts_with(|first: char| first.is_ascii_alphanumeric() && !matches!(first, 'N' | 'T'))
    {
        return None;
    }
    SYMBOLS.iter().find(|(text, _)| *text == word).map(|&(_, nag)| nag)
}

/// A word without the last symbol at its end, and the symbol's glyph.
fn without_symbol(word: &str) -> Option<(&str, u16)> {
    // Almost all words are moves, which end in a digit.
    if word.ends_with(|last: char| last.is_ascii_alphanumeric()) {
        return None;
    }
    SYMBOLS
        .iter()
        .filter(|(text, _)| !text.ends_with('N'))
        .find_map(|&(text, nag)| Some((word.strip_suffix(text)?, nag)))
        .filter(|(rest, _)| !rest.is_empty())
}

/// A move without the symbols and marks at its end, and the glyphs of the symbols.
pub(super) fn without_symbols(word: &str) -> (&str, Vec<u16>) {
    /// No move is longer, in bytes.
    const LONGEST: usize = 64;
    let (mut bare, mut nags) = (word, Vec::new());
    if word.len() > LONGEST {
        return (bare, nags);
    }
    loop {
        if let Some((rest, nag)) = without_symbol(bare) {
            nags.insert(0, nag);
            bare = rest;
            continue;
        }
        // In `Qxf7!+` the symbol comes before the mark.
        let unmarked = bare.trim_end_matches(['+', '#']);
        if unmarked.len() == bare.len() || !unmarked.ends_with(['!', '?']) {
            return (bare, nags);
        }
        bare = unmarked;
    }
}

/// Does a word beside a move say what is true of the position after it: check, mate, or that a pawn
/// was taken in passing?
pub(super) fn is_mark(word: &str, position: &Position) -> bool {
    match word {
        "+" | "++" | "ch" | "ch." | "\u{2020}" => position.is_check(),
        "#" | "mate" => position.is_check() && !position.has_legal_moves(),
        _ => matches!(word, "e.p." | "e.p" | "ep" | "ep."),
    }
}

/// The tokens of a text.
#[derive(Clone)]
pub(super) struct Tokens<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Tokens<'a> {
    /// The tokens of a game's text behind its tags.
    pub(super) fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0 }
    }

    /// The text behind the last token.
    pub(super) fn rest(&self) -> &'a [u8] {
        &self.text[self.at.min(self.text.len())..]
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// Passes blanks and escaped lines; true where an empty line was among them.
    fn skip_blanks(&mut self) -> bool {
        let mut lines = 0;
        loop {
            let rest = self.rest();
            match rest {
                [b'\n', b'%', ..] => {
                    self.at += 1;
                    self.skip_line();
                }
                [b'\n', ..] => {
                    lines += 1;
                    self.at += 1;
                }
                [b'%', ..] if self.at == 0 => {
                    self.skip_line();
                }
                [byte, ..] if byte.is_ascii_whitespace() || *byte == 0x0b => self.at += 1,
                _ => match length_of_blank(rest) {
                    0 => return lines > 1,
                    length => self.at += length,
                },
            }
        }
    }

    /// Goes to the end of the line and returns what was there.
    fn skip_line(&mut self) -> &'a [u8] {
        let rest = self.rest();
        let length = rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    fn comment(&mut self) -> Token<'a> {
        let rest = self.rest();
        match rest.iter().position(|&byte| byte == b'}') {
            Some(end) => {
                self.at += end + 1;
                Token::Comment(&rest[..end])
            }
            None => {
                self.at = self.text.len();
                Token::UnendingComment
            }
        }
    }

    /// `$12`; a number too large for a glyph is a word.
    fn nag(&mut self) -> Token<'a> {
        let rest = self.rest();
        let length = 1 + rest[1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += length;
        let text = String::from_utf8_lossy(&rest[..length]);
        text[1..].parse().map_or_else(|_| Token::Word(text.clone()), Token::Nag)
    }

    fn word(&mut self) -> Token<'a> {
        let rest = self.rest();
        let mut length = word_length(rest);
        if result(&rest[..length]).is_none()
            && let Some(token) = self.number(rest)
        {
            return token;
        }
        // `a8(Q)` is one word.
        if let [b'(', piece, b')', ..] = rest[length..]
            && matches!(piece, b'Q' | b'R' | b'B' | b'N' | b'q' | b'r' | b'b' | b'n')
        {
            length += 3;
        }
        // Never stand still, whatever the byte.
        length = length.max(1);
        self.at += length;
        let word = &rest[..length];
        if let Some(result) = result(word) {
            return Token::Result(result);
        }
        let word = std::str::from_utf8(word)
            .map_or_else(|_| Cow::Owned(super::decoded(word)), Cow::Borrowed);
        symbol(&word).map_or(Token::Word(word), Token::Nag)
    }

    /// A move number with its points, also without a blank before the move: `12.Nf3`, `12...Nf6`.
    fn number(&mut self, rest: &[u8]) -> Option<Token<'a>> {
        const ELLIPSIS: &[u8] = "\u{2026}".as_bytes();
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let mut points = 0;
        let mut length = digits;
        loop {
            if rest[length..].starts_with(b".") {
                (points, length) = (points + 1, length + 1);
            } else if rest[length..].starts_with(ELLIPSIS) {
                (points, length) = (points + 3, length + ELLIPSIS.len());
            } else {
                break;
            }
        }
        // Castling without hyphens is not a number.
        if matches!(&rest[..length], b"00" | b"000") {
            return None;
        }
        let is_whole = length == word_length(rest);
        let behind = &rest[length..];
        // `0.3` is not a move number; `5.0-0` is castling.
        if behind.first().is_some_and(u8::is_ascii_digit) && !behind.starts_with(b"0-0") {
            return None;
        }
        if length == 0 || points == 0 && !is_whole {
            return None;
        }
        self.at += length;
        let number = std::str::from_utf8(&rest[..digits]).ok()?.parse().unwrap_or(0);
        Some(Token::Number { number, points })
    }
}

/// The length of a blank beyond ASCII: spaces of many widths, zero among them, and a byte order mark.
fn length_of_blank(text: &[u8]) -> usize {
    match text {
        [0xc2, 0xa0, ..] => 2,
        [0xe2, 0x80, 0x80..=0x8b | 0xaf, ..] | [0xe3, 0x80, 0x80, ..] | [0xef, 0xbb, 0xbf, ..] => 3,
        _ => 0,
    }
}

/// The length of the word that begins a text.
fn word_length(text: &[u8]) -> usize {
    let ends = |at: usize| {
        let byte = text[at];
        byte.is_ascii_whitespace()
            || matches!(byte, b'{' | b'}' | b'(' | b')' | b';' | b'$')
            || byte >= 0x80 && length_of_blank(&text[at..]) > 0
    };
    (0..text.len()).find(|&at| ends(at)).unwrap_or(text.len())
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        let begins = self.at == 0;
        if self.skip_blanks() && !begins && self.at < self.text.len() {
            return Some(Token::EmptyLine);
        }
        let byte = self.peek()?;
        let single = |tokens: &mut Self, token| {
            tokens.at += 1;
            token
        };
        Some(match byte {
            b'{' => {
                self.at += 1;
                self.comment()
            }
            b';' => {
                self.at += 1;
                Token::Comment(self.skip_line())
            }
            b'(' => single(self, Token::Open),
            b')' => single(self, Token::Close),
            b'$' => self.nag(),
            _ => self.word(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_into_tokens() {
        let text = |pgn: &str| {
            let mut text = String::new();
            for token in Tokens::new(pgn.as_bytes()) {
                text += &match token {
                    Token::Comment(comment) => format!("{{{}}}", String::from_utf8_lossy(comment)),
                    Token::UnendingComment => "{...".to_owned(),
                    Token::Nag(nag) => format!("${nag}"),
                    Token::Open => "(".to_owned(),
                    Token::Close => ")".to_owned(),
                    Token::Number { number, points: 0 | 1 } => format!("{number}."),
                    Token::Number { number, .. } => format!("{number}..."),
                    Token::Result(result) => result.to_owned(),
                    Token::Word(word) => format!("`{word}`"),
                    Token::EmptyLine => "empty".to_owned(),
                };
                text.push(' ');
            }
            text.trim_end().to_owned()
        };
        for (pgn, expected) in [
            ("1. e4 e5 2.Nf3 Nc6 1-0", "1. `e4` `e5` 2. `Nf3` `Nc6` 1-0"),
            ("1.e4 1...e5 2 Nf3 2\u{2026}Nc6", "1. `e4` 1... `e5` 2. `Nf3` 2... `Nc6`"),
            ("5.0-0 5...0-0-0", "5. `0-0` 5... `0-0-0`"),
            ("1 . e4 ... e5 1/2-1/2", "1. 0. `e4` 0... `e5` 1/2-1/2"),
            ("e4!? {a} e5$2 (d5) ;b\nNf3", "`e4!?` {a} `e5` $2 ( `d5` ) {b} `Nf3`"),
            ("e4{a}e5(d5)", "`e4` {a} `e5` ( `d5` )"),
            ("a8(Q) a8=Q b8(x)", "`a8(Q)` `a8=Q` `b8` ( `x` )"),
            ("0-0 0-0-0 0-1 1:0", "`0-0` `0-0-0` 0-1 1-0"),
            ("\u{bd}-\u{bd} 1/2 * 1\u{2013}0", "1/2-1/2 1/2-1/2 * 1-0"),
            ("00 000 0-0 1", "`00` `000` `0-0` 1."),
            ("e4\u{2009}e5\u{3000}Nf3", "`e4` `e5` `Nf3`"),
            ("e4 !! e5 +- Nf3 \u{b1} N", "`e4` $3 `e5` $18 `Nf3` $16 $146"),
            ("e4\u{a0}e5\u{200b}Nf3 \u{feff}Nc6", "`e4` `e5` `Nf3` `Nc6`"),
            ("e4\n\ne5\n%note\n Nf3 %x\n\n", "`e4` empty `e5` `Nf3` `%x`"),
            ("%note\ne4", "`e4`"),
            ("e4 {never", "`e4` {..."),
            ("$70000 $ $255", "`$70000` `$` $255"),
            ("} ] [%eval 0.3]", "`}` `]` `[%eval` `0.3]`"),
            ("exd6e.p. \u{2658}f3", "`exd6e.p.` `\u{2658}f3`"),
        ] {
            assert_eq!(text(pgn), expected, "{pgn}");
        }
    }

    #[test]
    fn symbols_end_words() {
        for (word, bare, nags) in [
            ("Nf3+-", "Nf3", vec![18]),
            ("Rd1+/-", "Rd1", vec![16]),
            ("e4\u{b1}", "e4", vec![16]),
            ("d5=", "d5", vec![10]),
            ("e4!?", "e4", vec![5]),
            ("e4!", "e4", vec![1]),
            ("e4!+-", "e4", vec![1, 18]),
            ("Nf3!!!", "Nf3", vec![1, 3]),
            ("Qxf7!+", "Qxf7", vec![1]),
            ("Qxf7+!", "Qxf7+", vec![1]),
            ("Qxf7+", "Qxf7+", vec![]),
            ("Nf3", "Nf3", vec![]),
            ("!", "!", vec![]),
        ] {
            assert_eq!(without_symbols(word), (bare, nags), "{word}");
        }
    }
}
