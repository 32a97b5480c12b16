//! Errors of the server and of its visitors' requests, each one sentence.

use std::{net::SocketAddr, path::PathBuf};

use board::BoardError;

/// The page cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum WebError {
    #[error("cannot listen on {address}: {source} (choose another with --listen)")]
    Listen { address: SocketAddr, source: std::io::Error },
    #[error("cannot use the games in `{path}`: {source}")]
    Store { path: PathBuf, source: rusqlite::Error },
    #[error(
        "the games in `{path}` were written by a newer version (format {found}, known is {known})"
    )]
    Newer { path: PathBuf, found: i64, known: i64 },
    #[error("serving failed: {0}")]
    Serve(std::io::Error),
    #[error(transparent)]
    Engine(#[from] engine::EngineError),
    #[error(
        "cannot read the folder of Maia networks `{path}`: {source} (choose another with --maia)"
    )]
    MaiaFolder { path: PathBuf, source: std::io::Error },
    #[error("{0}; replace this file, or take it out of the folder of --maia")]
    MaiaFile(engine::EngineError),
    #[error("the system gave no random numbers: {0}")]
    Random(String),
}

/// A visitor's request failed; the page shows the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ApiError(pub String);

impl ApiError {
    /// An error with this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// A move cannot be made; sentences begin with a capital letter.
    pub(crate) fn not_legal(mv: &str) -> Self {
        let subject = if mv.starts_with(char::is_uppercase) { "" } else { "The move " };
        Self(format!("{subject}{mv:.20} is not legal here."))
    }

    /// An error with the text of a library.
    pub(crate) fn sentence(text: &str) -> Self {
        Self(sentence(text))
    }
}

/// A text of a library as a sentence of the page, without the marks that the command line puts around
/// names.
pub(crate) fn sentence(text: &str) -> String {
    let text = text.replace('`', "");
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", letters.as_str())
}

impl From<rusqlite::Error> for ApiError {
    fn from(error: rusqlite::Error) -> Self {
        Self(format!("The file of games cannot be used: {error}."))
    }
}

impl From<BoardError> for ApiError {
    fn from(error: BoardError) -> Self {
        Self(match error {
            BoardError::FenSyntax { reason, .. } => format!("That is not a valid FEN: {reason}."),
            BoardError::FenPosition { reason, .. } => {
                format!("That position is not possible: {reason}.")
            }
            BoardError::MoveSyntax { text } => {
                format!("That is not a move: {text:.20}. Moves are written like Nf3 or g1f3.")
            }
            BoardError::IllegalMove { text, .. } => return Self::not_legal(&text),
        })
    }
}
