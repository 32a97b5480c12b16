//! Reads lines of bounded length from a stream of arbitrary bytes, without panics.

use std::io::{self, BufRead};

/// Longest line that is kept, in bytes; a game of 100 000 moves fits.
pub(crate) const LONGEST_LINE: usize = 1 << 20;

/// One line without its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum InputLine {
    /// Bytes that are not UTF-8 are replaced.
    Text(String),
    /// More than the limit; its content is dropped.
    TooLong,
}

/// Reads the next line of at most `limit` bytes; `None` at the end. A last line without a line feed
/// counts.
///
/// # Errors
/// The stream failed.
pub(crate) fn next_line(input: &mut impl BufRead, limit: usize) -> io::Result<Option<InputLine>> {
    let mut bytes = Vec::new();
    let mut too_long = false;
    let mut any = false;
    loop {
        let available = match input.fill_buf() {
            Ok(available) => available,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if available.is_empty() {
            break;
        }
        any = true;
        let end = available.iter().position(|&byte| byte == b'\n');
        let part = &available[..end.unwrap_or(available.len())];
        if bytes.len() + part.len() > limit {
            too_long = true;
            bytes.clear();
        } else if !too_long {
            bytes.extend_from_slice(part);
        }
        let used = end.map_or(available.len(), |end| end + 1);
        input.consume(used);
        if end.is_some() {
            break;
        }
    }
    if !any {
        return Ok(None);
    }
    if too_long {
        return Ok(Some(InputLine::TooLong));
    }
    Ok(Some(InputLine::Text(String::from_utf8_lossy(&bytes).trim_end_matches('\r').to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8], limit: usize) -> Vec<InputLine> {
        let mut input = io::BufReader::with_capacity(3, bytes);
        std::iter::from_fn(|| next_line(&mut input, limit).unwrap()).collect()
    }

    #[test]
    fn lines_are_split_and_bounded() {
        let text = |text: &str| InputLine::Text(text.to_owned());
        assert_eq!(all(b"a\r\n\nlast", 10), [text("a"), text(""), text("last")]);
        assert_eq!(all(b"12345678901\nok\n", 10), [InputLine::TooLong, text("ok")]);
        assert_eq!(all(b"\xff\0x\n", 10), [text("\u{fffd}\0x")]);
        assert_eq!(all(b"", 10), []);
    }
}
