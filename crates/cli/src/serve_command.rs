//! `batch-first serve`: serves the page to browsers.

use std::{
    env,
    io::{self, Write},
    net::SocketAddr,
    path::{Path, PathBuf},
};

use anyhow::{Context, ensure};
use engine::{EngineOptions, embedded, fitting, load};
use eval::{Devices, Precision, cpu::CpuPath};
use nets::{Network, System};
use web::{LabFolders, Opponent, Options, Server, TimeSource, load_maias, random_secret};

use crate::{engine_args::processors, interrupt};

/// Play, analyse and watch training in a browser, at http://127.0.0.1:8080 by default.
///
/// Only this machine has access, unless --listen or --name opens the page to others; then visitors
/// need the token in the printed link.
#[derive(Debug, clap::Args)]
pub struct ServeArgs {
    /// Address and port; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// Token that every visitor needs (default: none if only this machine has access, otherwise a
    /// random one).
    #[arg(long, value_name = "TEXT")]
    token: Option<String>,
    /// A host name of the page besides localhost and plain addresses; may be repeated.
    #[arg(long, value_name = "HOST")]
    name: Vec<String>,
    /// File that keeps the games (default: batch-first/games.sqlite in the user's data folder).
    #[arg(long, value_name = "FILE")]
    games: Option<PathBuf>,
    /// A network that replaces the usual one of its system, a file, `large` or `fast`;
    /// may be repeated.
    #[arg(long, value_name = "FILE")]
    net: Vec<PathBuf>,
    /// Folder of Maia networks, files such as `maia-1500.pb.gz`: human-like opponents, one a rating.
    #[arg(long, value_name = "FOLDER")]
    maia: Option<PathBuf>,
    /// Folder of training runs to show (default: `runs`, if it exists).
    #[arg(long, value_name = "FOLDER")]
    runs: Option<PathBuf>,
    /// Folder of match folders to show, as `match --out` and `ladder --out` make them.
    #[arg(long, value_name = "FOLDER")]
    matches: Option<PathBuf>,
    /// Searches at once; further searches wait.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=64))]
    searches: u64,
    /// Threads of the evaluator that all searches share (default: all processors).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=256))]
    threads: Option<u64>,
    /// Where networks are evaluated: auto, cpu, cuda:N or vulkan:N, several with commas (`doctor`
    /// lists what is here).
    #[arg(long, value_name = "NAME", default_value_t)]
    device: Devices,
    /// Code path on the processor: amx, avx512, avx2, neon or portable (default: the fastest here).
    #[arg(long, value_name = "PATH")]
    cpu: Option<CpuPath>,
    /// Number format: bf16, f32 or int8 on the processor, f16, bf16 or f32 on GPUs (default: the
    /// fastest good one).
    #[arg(long, value_name = "FORMAT")]
    precision: Option<Precision>,
}

/// Serves until Ctrl-C.
///
/// # Errors
/// The address, a network, a folder or the file of games cannot be used.
pub fn run(args: ServeArgs) -> anyhow::Result<()> {
    let token = access_token(&args)?;
    let games = args.games.map_or_else(default_games, Ok)?;
    for folder in args.runs.iter().chain(&args.matches) {
        ensure!(folder.is_dir(), "`{}` is not a folder", folder.display());
    }
    let runs = args.runs.or_else(|| Some(PathBuf::from("runs")).filter(|runs| runs.is_dir()));
    let engine = EngineOptions {
        devices: args.device,
        threads: args.threads.map_or_else(processors, |threads| threads as usize),
        precision: args.precision,
        path: args.cpu,
        ..EngineOptions::default()
    };
    let networks = networks(&args.net, args.maia.as_deref(), &engine)?;
    if let Some(folder) = games.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make `{}`", folder.display()))?;
    }
    let options = Options {
        listen: args.listen,
        token: token.clone(),
        names: args.name,
        games: Some(games),
        networks,
        engine,
        search_slots: args.searches as usize,
        lab: LabFolders { runs, matches: args.matches },
        time: TimeSource::System,
    };
    let end = interrupt::notification()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("no threads")?;
    let served = runtime.block_on(async {
        let server = Server::bind(options).await?;
        let address = server.address()?;
        let query = token.map_or_else(String::new, |token| format!("?token={token}"));
        let mut output = io::stdout().lock();
        writeln!(output, "http://{address}/{query}")?;
        output.flush()?;
        drop(output);
        server.run(async move { end.notified().await }).await;
        anyhow::Ok(())
    });
    // Running searches are dropped: every move is stored when it is made.
    runtime.shutdown_background();
    served
}

/// The token that visitors need: the given one, none for a local page, otherwise a random one.
fn access_token(args: &ServeArgs) -> anyhow::Result<Option<String>> {
    // A page with a name is behind a proxy, which other machines can reach.
    let is_local = args.listen.ip().is_loopback() && args.name.is_empty();
    match &args.token {
        Some(token) => {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.~".contains(c);
            ensure!(
                token.len() >= 8 && token.chars().all(is_plain),
                "--token needs at least 8 letters, digits or -_.~"
            );
            Ok(Some(token.clone()))
        }
        None if is_local => Ok(None),
        None => Ok(Some(random_secret()?)),
    }
}

/// Every system with its network: the given file, or the one in the program (Batch First's fits the
/// machine). Then Batch First on `large` where it has another, and the Maias of a folder.
fn networks(
    files: &[PathBuf],
    maia: Option<&Path>,
    options: &EngineOptions,
) -> anyhow::Result<Vec<(Opponent, Network)>> {
    let mut all = Vec::new();
    for system in System::ALL {
        all.push((Opponent::System(system), fitting(system, options)?));
    }
    for path in files {
        let network = load(path)?;
        let system = Opponent::System(System::of(&network.description));
        all.iter_mut()
            .filter(|(other, _)| *other == system)
            .for_each(|(_, known)| *known = network.clone());
    }
    let large = embedded(System::BatchFirst)?;
    if all.iter().all(|(_, network)| network.name != large.name) {
        all.push((Opponent::Large, large));
    }
    if let Some(folder) = maia {
        let maias = load_maias(folder)?;
        if maias.is_empty() {
            tracing::warn!("`{}` holds no file such as maia-1500.pb.gz", folder.display());
        }
        all.extend(maias);
    }
    Ok(all)
}

/// `$XDG_DATA_HOME/batch-first/games.sqlite`, or below `~/.local/share`.
fn default_games() -> anyhow::Result<PathBuf> {
    let home = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let data = home("XDG_DATA_HOME").or_else(|| Some(home("HOME")?.join(".local/share")));
    let data = data.context("there is no home folder to keep games in; say where with --games")?;
    Ok(data.join("batch-first").join("games.sqlite"))
}
