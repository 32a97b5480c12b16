//! `batch-first worker`: analyses the games of a `batch-first analyze --queue`.

use crate::engine_args::EngineArgs;

/// Analyse games for `analyze --queue`, until Ctrl-C.
///
/// Any number of workers on any hosts may take games from the same NATS JetStream server. A worker
/// must have the same network as `analyze`; on another kind of processor scores can differ by a few
/// centipawns.
#[derive(Debug, clap::Args)]
pub struct WorkerArgs {
    /// The server, as in nats://host:4222.
    #[arg(long, value_name = "URL")]
    queue: String,
    /// Games searched at once (default: one a thread).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=4096))]
    jobs: Option<u64>,
    #[command(flatten)]
    engine: EngineArgs,
}

/// Runs the command.
///
/// # Errors
/// The queue cannot be reached or the network cannot be used.
#[cfg(feature = "queue")]
pub fn run(args: WorkerArgs) -> anyhow::Result<()> {
    use std::{
        io::{self, Write},
        time::Duration,
    };

    use annotate::queue::{QueueServer, WorkerProgress, run_worker};
    use anyhow::ensure;
    use engine::SharedEngine;
    use search::Control;

    use crate::{engine_args::processors, interrupt, progress_line::ProgressLine};

    let given = &args.engine;
    ensure!(
        given.batch.is_none() && given.hash.is_none(),
        "--batch and --hash are given where the games are handed out"
    );
    let options = given.options(processors())?;
    let engine = SharedEngine::for_files(&options)?;
    let jobs = args.jobs.map_or(options.threads, |jobs| jobs as usize);
    let control = Control::default();
    interrupt::stop_search(&control)?;
    let queue = QueueServer { url: args.queue, worker_timeout: Duration::from_secs(30) };
    let mut line = ProgressLine::new();
    let mut report = |progress: &WorkerProgress| {
        let (games, positions) = (progress.games, progress.positions);
        let rate = positions as f64 / line.seconds();
        line.show(|| format!("{games} games, {positions} positions, {rate:.0} a second"));
    };
    let search = |settings: &search::Settings| engine.search(settings);
    let end = run_worker(&queue, engine.name(), jobs, &search, &control, &mut report)?;
    line.finish();
    writeln!(io::stdout(), "{} games, {} positions", end.games, end.positions)?;
    Ok(())
}

/// Reports that the feature is missing.
///
/// # Errors
/// Always.
#[cfg(not(feature = "queue"))]
pub fn run(_: WorkerArgs) -> anyhow::Result<()> {
    anyhow::bail!("this program was built without the work queue; build it with `--features queue`")
}
