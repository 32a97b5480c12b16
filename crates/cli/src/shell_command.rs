//! `batch-first completions` and `batch-first man`: what packages of the program install for shells.

use std::{io, path::PathBuf};

use anyhow::Context;
use clap::CommandFactory;

/// Print the completions of a shell.
///
/// For bash: `batch-first completions bash > ~/.local/share/bash-completion/completions/batch-first`
#[derive(Debug, clap::Args)]
pub struct CompletionsArgs {
    shell: clap_complete::Shell,
}

/// Write the manual pages, one for each command, into a folder.
#[derive(Debug, clap::Args)]
pub struct ManArgs {
    /// Folder for the pages, such as ~/.local/share/man/man1.
    folder: PathBuf,
}

/// Prints completions.
///
/// # Errors
/// Standard output cannot be written.
pub fn completions(args: &CompletionsArgs) -> anyhow::Result<()> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut crate::Cli::command(), "batch-first", &mut text);
    io::Write::write_all(&mut io::stdout(), &text)?;
    Ok(())
}

/// Writes manual pages.
///
/// # Errors
/// The folder cannot be made or written.
pub fn man(args: &ManArgs) -> anyhow::Result<()> {
    let folder = args.folder.display();
    std::fs::create_dir_all(&args.folder)
        .and_then(|()| clap_mangen::generate_to(crate::Cli::command(), &args.folder))
        .with_context(|| format!("cannot write manual pages into `{folder}`"))
}
