//! A run: engine processes side by side, games written in order.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use crossbeam_channel::{Receiver, Sender};
use uci::client::{ClientError, Engine, EngineSpec};

use crate::{
    LabelError, SelfPlay, Source, Work,
    annotate::{Labelled, annotate},
    output::Output,
    source::work,
};

/// Everything that a run needs.
#[derive(Clone, Debug)]
pub struct LabelSettings {
    pub engine: EngineSpec,
    /// Nodes a position.
    pub nodes: u64,
    pub source: Source,
    /// Engine processes.
    pub jobs: usize,
    /// PGN; a file `….progress` beside it makes the run resumable.
    pub output: PathBuf,
    /// Longest wait for one evaluation.
    pub patience: Duration,
}

/// How far a run is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LabelProgress {
    /// Games in the output.
    pub games: u64,
    /// Games to be made in all, where that is known.
    pub of: Option<u64>,
    /// Positions evaluated.
    pub positions: u64,
}

impl LabelSettings {
    /// What decides the content of the output.
    fn run(&self) -> Vec<String> {
        let engine = &self.engine;
        let mut run = vec![
            format!("engine {} {}", engine.program.display(), engine.arguments.join(" ")),
            format!("nodes {}", self.nodes),
        ];
        run.push(match &self.source {
            Source::Files(files) => {
                let files: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
                format!("files {}", files.join(", "))
            }
            // More games may be added later.
            Source::SelfPlay { settings, .. } => {
                format!("self-play {}", serde_json::to_string(settings).unwrap_or_default())
            }
        });
        run.extend(engine.options.iter().map(|(name, value)| format!("option {name} {value}")));
        run
    }

    fn self_play(&self) -> Option<&SelfPlay> {
        match &self.source {
            Source::SelfPlay { settings, .. } => Some(settings),
            Source::Files(_) => None,
        }
    }
}

/// Labels until the source or the patience of whoever sets `stop` ends; `report` is called at
/// the beginning and after each game written.
/// Games that are being labelled when `stop` is set are left out and made again by the next run.
///
/// # Errors
/// Input, output or engine cannot be used.
pub fn label(
    settings: &LabelSettings,
    stop: &AtomicBool,
    report: &mut dyn FnMut(&LabelProgress),
) -> Result<LabelProgress, LabelError> {
    let mut output = Output::open(&settings.output, settings.run())?;
    let of = match &settings.source {
        Source::SelfPlay { games, .. } => Some(*games),
        Source::Files(_) => None,
    };
    let first = output.games();
    let mut progress = LabelProgress { games: first, of, positions: output.positions() };
    report(&progress);
    let halt = AtomicBool::new(false);
    let stopped = || stop.load(Ordering::Relaxed) || halt.load(Ordering::Relaxed);
    let jobs = settings.jobs.max(1);
    thread::scope(|scope| {
        let (give, take) = crossbeam_channel::bounded(jobs);
        let (finish, finished) = crossbeam_channel::bounded(jobs);
        for job in 0..jobs {
            let (take, finish, stopped) = (take.clone(), finish.clone(), &stopped);
            thread::Builder::new()
                .name(format!("label-{job}"))
                .spawn_scoped(scope, move || work_off(settings, &take, &finish, stopped))
                .map_err(LabelError::Thread)?;
        }
        drop(take);
        let (give_error, stopped) = (finish, &stopped);
        thread::Builder::new()
            .name("label-input".to_owned())
            .spawn_scoped(scope, move || {
                for (number, work) in (0..).zip(work(&settings.source)) {
                    if stopped() {
                        return;
                    }
                    match work {
                        Ok(_) if number < first => {}
                        Ok(work) => {
                            if give.send((number, work)).is_err() {
                                return;
                            }
                        }
                        Err(error) => return drop(give_error.send((number, Err(error)))),
                    }
                }
            })
            .map_err(LabelError::Thread)?;
        let mut waiting = BTreeMap::new();
        let (mut result, mut input) = (Ok(()), Ok(()));
        for (number, outcome) in &finished {
            match outcome {
                // After an error the threads only have to come to their end.
                _ if result.is_err() => {}
                Ok(labelled) => {
                    waiting.insert(number, labelled);
                    result = write_ready(&mut output, &mut waiting, &mut progress, report);
                }
                // What was read before is still labelled.
                Err(error @ LabelError::Read { .. }) => input = Err(error),
                Err(error) => result = Err(error),
            }
            if result.is_err() {
                halt.store(true, Ordering::Relaxed);
            }
        }
        result.and(input)
    })?;
    Ok(progress)
}

/// Writes the games that are next in order.
fn write_ready(
    output: &mut Output,
    waiting: &mut BTreeMap<u64, Labelled>,
    progress: &mut LabelProgress,
    report: &mut dyn FnMut(&LabelProgress),
) -> Result<(), LabelError> {
    while let Some(labelled) = waiting.remove(&output.games()) {
        output.add(&labelled.pgn, labelled.positions)?;
        progress.games = output.games();
        progress.positions = output.positions();
        report(progress);
    }
    Ok(())
}

type Finished = (u64, Result<Labelled, LabelError>);

fn work_off(
    settings: &LabelSettings,
    take: &Receiver<(u64, Work)>,
    finish: &Sender<Finished>,
    stopped: &(dyn Fn() -> bool + Sync),
) {
    let mut engine = None;
    for (number, work) in take {
        if stopped() {
            break;
        }
        let labelled = match label_one(&mut engine, settings, &work, number) {
            // Once more with a fresh process: a crash may have been the machine's.
            Err(_) if !stopped() => {
                engine = None;
                label_one(&mut engine, settings, &work, number)
            }
            labelled => labelled,
        };
        if finish.send((number, labelled.map_err(LabelError::from))).is_err() {
            break;
        }
    }
    if let Some(engine) = engine {
        engine.quit();
    }
}

fn label_one(
    engine: &mut Option<Engine>,
    settings: &LabelSettings,
    work: &Work,
    number: u64,
) -> Result<Labelled, ClientError> {
    let engine = match engine {
        Some(engine) => engine,
        None => {
            /// Longest wait for an engine to get ready.
            const START: Duration = Duration::from_secs(20);
            let mut fresh = Engine::start(&settings.engine, START)?;
            // Without these the same nodes need not give the same move.
            for (option, value) in [("Threads", "1"), ("Hash", "16")] {
                let given = settings.engine.options.iter().any(|(name, _)| name.eq_ignore_ascii_case(option));
                if !given && fresh.has_option(option) {
                    fresh.set_option(option, value)?;
                }
            }
            engine.insert(fresh)
        }
    };
    annotate(engine, work, number, settings.nodes, settings.self_play(), settings.patience)
}
