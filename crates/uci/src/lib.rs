//! UCI, the protocol between chess engines and the programs that use them, in both directions:
//! [`run`] offers our search as an engine, [`client`] drives other engines as child processes.

pub mod client;
mod command;
mod go;
mod lines;
mod options;
mod response;
mod session;

pub use command::{Command, CommandError, PositionCommand};
pub use go::Go;
pub use options::option_lines;
pub use response::{best_move_line, info_line, per_second};
pub use session::{EngineFactory, Identity, Pause, run, run_with_pause};
