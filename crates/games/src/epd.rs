//! Reads positions, one a line: FEN with four or six fields, or EPD with its operations. One reader
//! for analysis, training data and openings.

use board::{BoardError, FenWarning, Position};

/// A line of an EPD or FEN file.
#[derive(Clone, Debug)]
pub struct EpdLine {
    pub position: Position,
    /// Castling rights that were corrected.
    pub warning: Option<FenWarning>,
    /// Codes and operands in order, as in `("bm", "Nf3 e4")`, without quotes around the operand.
    pub operations: Vec<(String, String)>,
}

/// Reads a line: four fields, the two counters if they are there (as fields or as the operations
/// `hmvc` and `fmvn`), and operations. Castling rights decide whether it is a position of Chess960;
/// those that the pieces do not have are dropped with a warning.
///
/// # Errors
/// The line is not a legal position.
pub fn parse_epd(line: &str) -> Result<EpdLine, BoardError> {
    let (mut fields, rest) = split_fields(line);
    let operations: Vec<(String, String)> = split_operations(rest).map(operation).collect();
    if fields.len() == 4 {
        let counter = |code: &str| {
            let (_, operand) = operations.iter().find(|(name, _)| name == code)?;
            Some(operand.as_str()).filter(|text| is_counter(text))
        };
        let (clock, number) = (counter("hmvc"), counter("fmvn"));
        if clock.is_some() || number.is_some() {
            fields.extend([clock.unwrap_or("0"), number.unwrap_or("1")]);
        }
    }
    let read = Position::read_fen(&fields.join(" "), None)?;
    Ok(EpdLine { position: read.position, warning: read.warning, operations })
}

/// Is there nothing to read in this line?
#[must_use]
pub fn is_epd_comment(line: &[u8]) -> bool {
    matches!(line.trim_ascii().first(), None | Some(b'#'))
}

fn is_counter(field: &str) -> bool {
    !field.is_empty() && field.bytes().all(|byte| byte.is_ascii_digit())
}

/// Splits a line into the fields of its FEN and the rest.
fn split_fields(line: &str) -> (Vec<&str>, &str) {
    let mut rest = line;
    let mut fields = Vec::with_capacity(6);
    while fields.len() < 6 {
        let trimmed = rest.trim_start();
        let end = trimmed.find(char::is_whitespace).unwrap_or(trimmed.len());
        let field = trimmed[..end].trim_end_matches(';');
        if end == 0 || (fields.len() >= 4 && !is_counter(field)) {
            break;
        }
        fields.push(field);
        rest = &trimmed[end..];
    }
    (fields, rest)
}

/// Splits at semicolons outside double quotes.
fn split_operations(text: &str) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    text.split(move |character| {
        quoted ^= character == '"';
        character == ';' && !quoted
    })
    .map(str::trim)
    .filter(|operation| !operation.is_empty())
}

fn operation(text: &str) -> (String, String) {
    let (code, operand) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let operand = operand.trim();
    let bare = operand.strip_prefix('"').and_then(|operand| operand.strip_suffix('"'));
    (code.to_owned(), bare.unwrap_or(operand).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_counters_and_operations_are_read() {
        let board = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq";
        for (rest, fen, operations) in [
            ("-", "- 0 1", ""),
            ("- 3 9", "- 3 9", ""),
            ("- 3 9;", "- 3 9", ""),
            ("-;", "- 0 1", ""),
            ("- bm e4 d4; ce 30;", "- 0 1", "bm=e4 d4|ce=30"),
            ("- 3 9 bm e4; id \"a; b\";", "- 3 9", "bm=e4|id=a; b"),
            ("- hmvc 7; fmvn 21;", "- 7 21", "hmvc=7|fmvn=21"),
            ("- fmvn 21;", "- 0 21", "fmvn=21"),
            ("- 3 9 hmvc 7;", "- 3 9", "hmvc=7"),
            ("- hmvc x;", "- 0 1", "hmvc=x"),
            ("- noop", "- 0 1", "noop="),
            ("- bm  e4 ; ; ce\t-5", "- 0 1", "bm=e4|ce=-5"),
        ] {
            let read = parse_epd(&format!("{board} {rest}")).unwrap();
            assert_eq!(read.position.fen(), format!("{board} {fen}"), "{rest}");
            let read: Vec<String> =
                read.operations.iter().map(|(code, operand)| format!("{code}={operand}")).collect();
            assert_eq!(read.join("|"), operations, "{rest}");
        }
        for line in ["", "nonsense", "8/8/8/8/8/8/8/8 w - -", "1. e4 e5"] {
            assert!(parse_epd(line).is_err(), "{line}");
        }
    }
}
