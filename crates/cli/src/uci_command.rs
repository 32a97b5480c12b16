//! `batch-first uci`: the engine for chess programs.

use std::{io, path::PathBuf, sync::Arc};

use board::Book;
use engine::{EngineOptions, NamedOptions};
use uci::Identity;

use crate::engine_args::EngineArgs;

/// Speak UCI on standard input and output (the default without a command).
#[derive(Debug, Default, clap::Args)]
pub struct UciArgs {
    /// Opening book in Polyglot's format; its moves are played (`OwnBook`).
    #[arg(long, value_name = "FILE")]
    book: Option<PathBuf>,
    #[command(flatten)]
    engine: EngineArgs,
}

/// Speaks UCI until `quit` or the end of the input.
///
/// # Errors
/// The engine could not be started.
pub fn run(args: UciArgs) -> anyhow::Result<()> {
    let mut options = NamedOptions { engine: args.engine.options(1)?, ..NamedOptions::default() };
    if let Some(path) = &args.book {
        options.book = Some(Arc::new(Book::open(path)?));
        options.own_book = true;
    }
    if args.engine.net.is_some() || args.engine.system.is_some() {
        // A network or system of the command line is checked now, not at the first game.
        engine::choose(&options.engine)?;
    }
    let identity = Identity {
        name: format!("Batch First {}", env!("CARGO_PKG_VERSION")),
        author: env!("CARGO_PKG_AUTHORS").to_owned(),
    };
    let factory = Box::new(|options: &EngineOptions| {
        engine::build(options).map_err(|error| crate::sentence(&error.into()))
    });
    uci::run(io::stdin(), io::stdout(), factory, &identity, options)?;
    Ok(())
}
