//! Everything that can go wrong while serving, each in one sentence.

use std::{net::SocketAddr, path::PathBuf};

/// The page cannot be served, or a visitor's wish cannot be met.
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
    Engine(#[from] eval::EvalError),
    #[error("the system's random numbers are not to be had: {0}")]
    Random(String),
}

/// Why a visitor's wish is refused, in words that the page shows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(pub String);

impl Refusal {
    /// A refusal with these words.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl From<rusqlite::Error> for Refusal {
    fn from(error: rusqlite::Error) -> Self {
        Self(format!("the file of games cannot be used: {error}"))
    }
}

impl From<board::BoardError> for Refusal {
    fn from(error: board::BoardError) -> Self {
        Self(error.to_string())
    }
}
