//! Parses a line from a user interface into a typed command. Any text gives a command or an error
//! of one sentence, never a panic.

use board::shortened;

use crate::go::{self, Go};

/// A line from the user interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    Uci,
    Debug(bool),
    IsReady,
    /// The name as written, inner white space made single.
    SetOption {
        name: String,
        value: Option<String>,
    },
    Register,
    NewGame,
    Position(PositionCommand),
    Go(Go),
    Stop,
    PonderHit,
    Quit,
    /// `d`: show the position (not part of the protocol, as those below).
    Display,
    /// `eval`: show what the network says of the position.
    Eval,
    /// `bench`: count and time searches.
    Bench,
    /// `help`: name the commands.
    Help,
}

/// Where a game begins and the moves played from there, not yet checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PositionCommand {
    /// `None`: the start position.
    pub fen: Option<String>,
    pub moves: Vec<String>,
}

/// Why a line is not a command; each is one sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    #[error("unknown command: {0}")]
    Unknown(String),
    #[error("`debug` wants `on` or `off`")]
    Debug,
    #[error("`setoption` wants `name NAME` and, but for buttons, `value VALUE`")]
    SetOption,
    #[error("`position` wants `startpos` or `fen FEN`, then perhaps `moves MOVE...`")]
    Position,
}

pub(crate) const KNOWN: [&str; 15] = [
    "uci",
    "debug",
    "isready",
    "setoption",
    "register",
    "ucinewgame",
    "position",
    "go",
    "stop",
    "ponderhit",
    "quit",
    "d",
    "eval",
    "bench",
    "help",
];

impl Command {
    /// Reads a line; `None` for an empty one. As the protocol asks, unknown words before a command
    /// are skipped.
    ///
    /// # Errors
    /// No word of the line is a command, or the command lacks what it needs.
    pub fn parse(line: &str) -> Result<Option<Self>, CommandError> {
        let words: Vec<&str> = line.split(is_blank).filter(|word| !word.is_empty()).collect();
        if words.is_empty() {
            return Ok(None);
        }
        let Some(start) = words.iter().position(|word| KNOWN.contains(word)) else {
            return Err(CommandError::Unknown(shortened(&words.join(" "))));
        };
        let rest = &words[start + 1..];
        let command = match words[start] {
            "uci" => Self::Uci,
            "debug" => match rest.first() {
                Some(&"on") => Self::Debug(true),
                Some(&"off") => Self::Debug(false),
                _ => return Err(CommandError::Debug),
            },
            "isready" => Self::IsReady,
            "setoption" => set_option(rest, line)?,
            "register" => Self::Register,
            "ucinewgame" => Self::NewGame,
            "position" => Self::Position(position(rest)?),
            "go" => Self::Go(go::parse(rest)),
            "stop" => Self::Stop,
            "ponderhit" => Self::PonderHit,
            "quit" => Self::Quit,
            "eval" => Self::Eval,
            "bench" => Self::Bench,
            "help" => Self::Help,
            _ => Self::Display,
        };
        Ok(Some(command))
    }
}

/// Reads what follows `setoption`. Blanks inside a value are part of it: paths have them.
fn set_option(words: &[&str], line: &str) -> Result<Command, CommandError> {
    if words.first() != Some(&"name") {
        return Err(CommandError::SetOption);
    }
    let words = &words[1..];
    let value_at = words.iter().position(|&word| word == "value");
    let name = words[..value_at.unwrap_or(words.len())].join(" ");
    if name.is_empty() {
        return Err(CommandError::SetOption);
    }
    let value = value_at.map(|at| {
        // The words are parts of the line, so the end of `value` is a place in it.
        let word = words[at];
        let end = word.as_ptr() as usize + word.len() - line.as_ptr() as usize;
        line[end..].trim_matches(is_blank).to_owned()
    });
    Ok(Command::SetOption { name, value })
}

fn is_blank(letter: char) -> bool {
    letter.is_whitespace() || letter.is_control()
}

fn position(words: &[&str]) -> Result<PositionCommand, CommandError> {
    let moves_at = words.iter().position(|&word| word == "moves");
    let (start, moves) = match moves_at {
        Some(at) => (&words[..at], &words[at + 1..]),
        None => (words, &words[..0]),
    };
    let fen = match start {
        ["startpos"] => None,
        ["fen", fen @ ..] if !fen.is_empty() => Some(fen.join(" ")),
        _ => return Err(CommandError::Position),
    };
    Ok(PositionCommand { fen, moves: moves.iter().map(|&mv| mv.to_owned()).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn commands_are_parsed() {
        let parse = |line| Command::parse(line);
        assert_eq!(parse("  "), Ok(None));
        assert_eq!(parse("\tuci \r"), Ok(Some(Command::Uci)));
        assert_eq!(parse("joho debug on"), Ok(Some(Command::Debug(true))));
        assert_eq!(
            parse("setoption name Move  Overhead value 20"),
            Ok(Some(Command::SetOption { name: "Move Overhead".into(), value: Some("20".into()) }))
        );
        for (value, kept) in [
            (" /two  blanks/b.bin", "/two  blanks/b.bin"),
            ("  /a\tb \r", "/a\tb"),
            ("", ""),
            (" a value  b", "a value  b"),
            (" \u{fc}  \u{e9}", "\u{fc}  \u{e9}"),
        ] {
            let line = format!("setoption  name  BookFile   value{value}");
            let (name, value) = ("BookFile".into(), Some(kept.into()));
            assert_eq!(
                Command::parse(&line),
                Ok(Some(Command::SetOption { name, value })),
                "{line:?}"
            );
        }
        assert_eq!(
            parse("setoption name Clear Hash"),
            Ok(Some(Command::SetOption { name: "Clear Hash".into(), value: None }))
        );
        assert_eq!(
            parse("position startpos moves e2e4"),
            Ok(Some(Command::Position(PositionCommand { fen: None, moves: vec!["e2e4".into()] })))
        );
        assert_eq!(
            parse("position fen 8/8/8/8/8/8/4K2k/8 w - - 0 1"),
            Ok(Some(Command::Position(PositionCommand {
                fen: Some("8/8/8/8/8/8/4K2k/8 w - - 0 1".into()),
                moves: vec![]
            })))
        );
        for bad in ["position", "position fen", "position fen moves e2e4", "position startpos e2e4"]
        {
            assert_eq!(parse(bad), Err(CommandError::Position), "{bad}");
        }
        for bad in ["setoption", "setoption name", "setoption value 3", "setoption name value 3"] {
            assert_eq!(parse(bad), Err(CommandError::SetOption), "{bad}");
        }
        assert_eq!(parse("hello there"), Err(CommandError::Unknown("hello there".into())));
        assert!(
            matches!(parse(&"x".repeat(1 << 20)), Err(CommandError::Unknown(text)) if text.len() < 100)
        );
    }

    proptest! {
        #[test]
        fn any_text_is_answered(line in any::<String>()) {
            let _ = Command::parse(&line);
        }

        #[test]
        fn any_known_words_are_answered(words in prop::collection::vec(
            prop::sample::select(vec![
                "go", "position", "fen", "startpos", "moves", "setoption", "name", "value", "depth", "nodes",
                "movetime", "wtime", "btime", "winc", "binc", "movestogo", "infinite", "ponder", "mate",
                "searchmoves", "perft", "-1", "0", "99999999999999999999999", "e2e4", "debug", "\0", "é", "1.5",
            ]), 0..12))
        {
            let _ = Command::parse(&words.join(" "));
        }
    }
}
