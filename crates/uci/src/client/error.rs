//! The faults of another engine. Each kind has its own variant, so that a match assigns the fault to
//! the right side.

use std::{path::PathBuf, time::Duration};

/// A fault of another engine.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The program cannot be started.
    #[error("cannot start the engine `{program}`: {source}")]
    Spawn { program: PathBuf, source: std::io::Error },
    /// No `uciok` or `readyok` in time.
    #[error("the engine `{engine}` did not answer `{command}` within {} ms", .patience.as_millis())]
    NoHandshake { engine: String, command: &'static str, patience: Duration },
    /// The process ended.
    #[error("the engine `{engine}` ended ({how})")]
    Crashed { engine: String, how: String },
    /// The process still runs but has closed its output.
    #[error("the engine `{engine}` closed its output")]
    ClosedOutput { engine: String },
    /// More output than a search needs, and no `bestmove`.
    #[error("the engine `{engine}` wrote {mebibytes} MiB without giving a move")]
    Flooded { engine: String, mebibytes: u64 },
    /// No `bestmove` in time; the process still runs.
    #[error("the engine `{engine}` gave no move within {} ms", .patience.as_millis())]
    Stalled { engine: String, patience: Duration },
    /// The `bestmove` is not a legal move.
    #[error("the engine `{engine}` answered the illegal move `{answer}` in `{fen}`")]
    IllegalMove { engine: String, answer: String, fen: String },
    /// The engine declares no such option.
    #[error("the engine `{engine}` has no option `{option}`")]
    NoOption { engine: String, option: String },
    /// The engine announced other values for the option.
    #[error("the engine `{engine}`: option {refusal}")]
    BadValue { engine: String, refusal: String },
}
