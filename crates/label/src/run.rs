//! A run: engine processes side by side, games written in order.

use std::{
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use games::{Item, Output, Worker, in_order, items};
use uci::client::{ClientError, Engine, EngineSpec};

use crate::{
    LabelError, SelfPlay, Work,
    annotate::{Labelled, annotate},
};

/// The inputs of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// PGN and EPD/FEN files, plain or compressed, one after the other.
    Files(Vec<PathBuf>),
    /// Games of the engine against itself.
    SelfPlay { settings: SelfPlay, games: u64 },
}

impl Source {
    /// The work of this source in order.
    fn work(&self) -> Box<dyn Iterator<Item = Result<Work, LabelError>> + Send + '_> {
        match self {
            Self::SelfPlay { games, .. } => {
                Box::new((0..*games).map(|number| Ok(Work::SelfPlay { number })))
            }
            Self::Files(files) => Box::new(items(files).map(|item| {
                Ok(match item? {
                    Item::Game(game) => Work::Game(game),
                    Item::Position(game) => Work::Position(game),
                })
            })),
        }
    }
}

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
                let files: Vec<String> =
                    files.iter().map(|file| file.display().to_string()).collect();
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
    let result = in_order(
        settings.jobs,
        first,
        settings.source.work(),
        &|| stop.load(Ordering::Relaxed),
        || Labeller { settings, stop, engine: None },
        &mut |labelled: Labelled| {
            output.add(&labelled.pgn, labelled.positions)?;
            progress.games = output.games();
            progress.positions = output.positions();
            report(&progress);
            Ok(())
        },
    );
    result.map(|()| progress)
}

/// A thread with its engine.
struct Labeller<'a> {
    settings: &'a LabelSettings,
    stop: &'a AtomicBool,
    engine: Option<Engine>,
}

impl Worker<Work, Labelled, LabelError> for Labeller<'_> {
    fn work(&mut self, number: u64, work: Work) -> Result<Option<Labelled>, LabelError> {
        let labelled = match label_one(&mut self.engine, self.settings, &work, number) {
            // Once more with a fresh process: a crash may have been the machine's.
            Err(_) if !self.stop.load(Ordering::Relaxed) => {
                self.engine = None;
                label_one(&mut self.engine, self.settings, &work, number)
            }
            labelled => labelled,
        };
        Ok(Some(labelled?))
    }

    fn end(self) {
        if let Some(engine) = self.engine {
            engine.quit();
        }
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
            // Without the first two the same nodes need not give the same move; the last asks for
            // what a position is worth, whoever errs.
            for (option, value) in [("Threads", "1"), ("Hash", "16"), ("UCI_AnalyseMode", "true")] {
                let given = settings
                    .engine
                    .options
                    .iter()
                    .any(|(name, _)| name.eq_ignore_ascii_case(option));
                if !given && fresh.has_option(option) {
                    fresh.set_option(option, value)?;
                }
            }
            engine.insert(fresh)
        }
    };
    annotate(engine, work, number, settings.nodes, settings.self_play(), settings.patience)
}
