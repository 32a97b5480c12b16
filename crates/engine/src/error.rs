//! Why no engine can be built; each message is one sentence.

use std::path::PathBuf;

use eval::{Devices, EvalError};
use nets::{NetError, System};

#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error(transparent)]
    Network(#[from] NetError),
    #[error(transparent)]
    Evaluator(#[from] EvalError),
    #[error("the program is damaged: {0}")]
    Damaged(NetError),
    #[error("`{}` is a network of the system {found}, not {wanted}", path.display())]
    OtherSystem { path: PathBuf, found: System, wanted: System },
    #[error("{system} plays without a search; {search} is one of the other systems")]
    NoSearch { system: System, search: &'static str },
    #[error(
        "the search {search} wants a network that scores moves, and {network} does not; there are {others}"
    )]
    NoMoveScores { search: &'static str, network: String, others: String },
    #[error(
        "the system {system} is asked for one position at a time and runs on the processor; leave the device {devices} away"
    )]
    NoDevice { system: System, devices: Devices },
    #[error(
        "the system {system} says which move is likely, not what a position is worth; choose another with --system"
    )]
    NoValues { system: System },
}
