//! The lines of tags above a game: `[White "Name"]`. Only what has this form is a tag; a bracket in
//! a comment or a move is none.

use super::decoded;

/// A tag at the beginning of a line, and what follows it on the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TagLine<'a> {
    pub name: &'a [u8],
    /// As written, with its escapes.
    pub value: &'a [u8],
    pub rest: &'a [u8],
}

/// Reads a tag. A value may hold quotes that are not escaped: it ends at the first quote before a
/// bracket behind which another tag begins, or else at the last one if a bracket ends the line, or
/// else at the first one before any bracket.
pub(super) fn tag_line(line: &[u8]) -> Option<TagLine<'_>> {
    let (name, quoted) = name_and_rest(line)?;
    let value = quoted.trim_ascii_start().strip_prefix(b"\"")?;
    let behind = |at: usize| {
        let rest = value[at + 1..].trim_ascii_start().strip_prefix(b"]")?;
        (value[at] == b'"').then_some(rest)
    };
    let before_a_tag =
        |at: &usize| behind(*at).is_some_and(|rest| begins_tag(rest.trim_ascii_start()));
    let ends = || 0..value.len();
    let end = ends()
        .find(before_a_tag)
        .or_else(|| last_quote(value))
        .or_else(|| ends().find(|&at| !is_escaped(value, at) && behind(at).is_some()))?;
    Some(TagLine { name, value: &value[..end], rest: behind(end)? })
}

/// The place of the last quote, if a bracket ends the line behind it.
fn last_quote(value: &[u8]) -> Option<usize> {
    let inside = value.trim_ascii_end().strip_suffix(b"]")?.trim_ascii_end();
    inside.ends_with(b"\"").then(|| inside.len() - 1)
}

/// Does an odd number of backslashes stand before this place?
fn is_escaped(text: &[u8], at: usize) -> bool {
    text[..at].iter().rev().take_while(|&&byte| byte == b'\\').count() % 2 == 1
}

/// `[Name` and a quote.
fn begins_tag(text: &[u8]) -> bool {
    name_and_rest(text).is_some_and(|(_, rest)| rest.trim_ascii_start().starts_with(b"\""))
}

/// The name behind the bracket that begins a line, and what follows it. Files that were joined may
/// have a byte order mark there.
pub(super) fn name_and_rest(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let line = line.trim_ascii_start();
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
    let text = line.strip_prefix(b"[")?.trim_ascii_start();
    let is_of_name = |byte: &u8| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'+' | b'#' | b'=' | b'-')
    };
    let length = text.iter().take_while(|byte| is_of_name(byte)).count();
    let begins_well = text.first().is_some_and(u8::is_ascii_alphanumeric);
    let (name, rest) = text.split_at(length);
    begins_well.then(|| (name, rest.strip_prefix(b":").unwrap_or(rest)))
}

/// Does a tag that was broken by the end of its line end with this one?
pub(super) fn ends_broken_tag(line: &[u8]) -> bool {
    let line = line.trim_ascii();
    line.ends_with(b"\"]") && !line.starts_with(b"[")
}

/// Of a longer line, in bytes, a part at a time is looked at.
const LONGEST_LINE: usize = 1 << 14;

/// What stands above the moves of a game: tags and comments.
#[derive(Default)]
pub(super) struct TagSection<'a> {
    pub tags: Tags<'a>,
    /// Texts that begin like a tag and are none.
    pub broken: Vec<&'a [u8]>,
    /// The texts of comments.
    pub comments: Vec<&'a [u8]>,
    /// Length of the section, in bytes.
    pub length: usize,
}

impl<'a> TagSection<'a> {
    pub fn read(text: &'a [u8]) -> Self {
        let mut section = Self::default();
        while let Some(length) = section.read_item(text) {
            section.length += length;
        }
        section
    }

    /// Reads a blank, an escaped line, a comment or a tag; returns its length, or `None` where the
    /// moves begin.
    fn read_item(&mut self, text: &'a [u8]) -> Option<usize> {
        let rest = &text[self.length..];
        let begins_line = self.length == 0 || text[self.length - 1] == b'\n';
        let begin = &rest[..rest.len().min(LONGEST_LINE)];
        let line = begin.split_inclusive(|&byte| byte == b'\n').next()?;
        match rest[0] {
            b'%' if begins_line => Some(line.len()),
            b';' => {
                self.comments.push(&line[1..]);
                Some(line.len())
            }
            b'{' => {
                let end = rest.iter().position(|&byte| byte == b'}')?;
                self.comments.push(&rest[1..end]);
                Some(end + 1)
            }
            b'[' => self.read_tag(rest, line),
            byte if byte.is_ascii_whitespace() => Some(1),
            _ if rest.starts_with(b"\xef\xbb\xbf") => Some(3),
            _ => None,
        }
    }

    fn read_tag(&mut self, rest: &'a [u8], line: &'a [u8]) -> Option<usize> {
        if let Some(tag) = tag_line(line) {
            self.tags.list.push((tag.name, tag.value));
            return Some(line.len() - tag.rest.len());
        }
        name_and_rest(line)?;
        self.broken.push(line);
        let next = rest[line.len()..].split_inclusive(|&byte| byte == b'\n').next();
        Some(line.len() + next.filter(|next| ends_broken_tag(next)).map_or(0, <[u8]>::len))
    }
}

/// The tags of a game, in order, as they are written.
#[derive(Clone, Debug, Default)]
pub struct Tags<'a> {
    pub(super) list: Vec<(&'a [u8], &'a [u8])>,
}

impl<'a> Tags<'a> {
    /// The value of a tag, without its escapes; the first one counts. Names are compared without
    /// regard to upper and lower case.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<String> {
        self.all(name).next()
    }

    /// All values of a tag.
    pub(super) fn all(&self, name: &str) -> impl Iterator<Item = String> {
        let called = move |tag: &[u8]| tag.eq_ignore_ascii_case(name.as_bytes());
        self.list.iter().filter(move |(tag, _)| called(tag)).map(|(_, value)| unescaped(value))
    }

    /// Names and values in order, without escapes.
    pub fn iter(&self) -> impl Iterator<Item = (String, String)> + '_ {
        self.list.iter().map(|(name, value)| (decoded(name), unescaped(value)))
    }
}

fn unescaped(value: &[u8]) -> String {
    let value = decoded(value);
    if !value.contains('\\') {
        return value;
    }
    let mut text = String::with_capacity(value.len());
    let mut letters = value.chars();
    while let Some(letter) = letters.next() {
        match (letter, letters.as_str().chars().next()) {
            ('\\', Some(escaped @ ('"' | '\\'))) => {
                text.push(escaped);
                letters.next();
            }
            _ => text.push(letter),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tags_are_tags() {
        for (line, expected) in [
            (r#"[White "A"]"#, Some(("White", "A", ""))),
            (r#"  [White   "A" ]  "#, Some(("White", "A", ""))),
            (r#"[White"A"]"#, Some(("White", "A", ""))),
            (r#"[ White "A"]"#, Some(("White", "A", ""))),
            (r#"[White "Joe "Iron" Pawn"]"#, Some(("White", r#"Joe "Iron" Pawn"#, ""))),
            (r#"[White "say \"a\" \\"]"#, Some(("White", r#"say "a" \"#, ""))),
            (r#"[Site "C:\games"]"#, Some(("Site", r"C:\games", ""))),
            (r#"[White ""]"#, Some(("White", "", ""))),
            (r#"[White "]"]"#, Some(("White", "]", ""))),
            (r#"[White "A"] [Black "B"]"#, Some(("White", "A", r#" [Black "B"]"#))),
            ("\u{feff}[Event \"A\"]", Some(("Event", "A", ""))),
            (r#"[Another idea, "x"]"#, None),
            ("[Another idea, x]", None),
            ("[%eval 0.3]", None),
            (r#"[White "A""#, None),
            (r#"[White "A"] 1. e4"#, Some(("White", "A", " 1. e4"))),
            (r#"[White "a \"] b"] 1. e4"#, Some(("White", r#"a "] b"#, " 1. e4"))),
            (r#"[FEN: "A"]"#, Some(("FEN", "A", ""))),
            (r#"[White 'A']"#, None),
            (r#"[White A]"#, None),
            (r#"["A"]"#, None),
            (r#"White "A"]"#, None),
            ("[", None),
            ("", None),
        ] {
            let read = tag_line(line.as_bytes());
            let read = read.map(|tag| {
                (decoded(tag.name), unescaped(tag.value), decoded(tag.rest).trim_end().to_owned())
            });
            let expected = expected
                .map(|(name, value, rest)| (name.to_owned(), value.to_owned(), rest.to_owned()));
            assert_eq!(read, expected, "{line}");
        }
    }
}
