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

/// Reads a tag. A value may hold quotes that are not escaped: it ends at the last quote before a
/// bracket that ends the line or stands before another tag.
pub(super) fn tag_line(line: &[u8]) -> Option<TagLine<'_>> {
    let (name, quoted) = name_and_rest(line)?;
    let value = quoted.trim_ascii_start().strip_prefix(b"\"")?;
    let end = line_end_of_value(value);
    let first_end = (0..value.len()).find(|&at| {
        value[at] == b'"'
            && value[at + 1..]
                .trim_ascii_start()
                .strip_prefix(b"]")
                .is_some_and(|rest| begins_tag(rest.trim_ascii_start()))
    });
    let end = first_end.or(end)?;
    let rest = value[end + 1..].trim_ascii_start().strip_prefix(b"]").unwrap_or_default();
    Some(TagLine { name, value: &value[..end], rest })
}

/// The place of the last quote, if a bracket ends the line behind it.
fn line_end_of_value(value: &[u8]) -> Option<usize> {
    let inside = value.trim_ascii_end().strip_suffix(b"]")?.trim_ascii_end();
    inside.ends_with(b"\"").then(|| inside.len() - 1)
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
        byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'+' | b'#' | b'=' | b':' | b'-')
    };
    let length = text.iter().take_while(|byte| is_of_name(byte)).count();
    let begins_well = text.first().is_some_and(u8::is_ascii_alphanumeric);
    begins_well.then(|| text.split_at(length))
}

/// The tags of a game, in order, as they are written.
#[derive(Clone, Debug, Default)]
pub struct Tags<'a> {
    pub(super) list: Vec<(&'a [u8], &'a [u8])>,
}

impl<'a> Tags<'a> {
    /// The value of a tag, without its escapes; the first one counts.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<String> {
        let (_, value) = self.list.iter().find(|(tag, _)| *tag == name.as_bytes())?;
        Some(unescaped(value))
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
            (r#"[White "A"] 1. e4"#, None),
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
