//! A labelling run: several engine processes work at once, and the games are written in order.

use std::{
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
};

use games::{FileEntry, ResumableOutput, Worker, content_identity, process_in_order, read_files};

use crate::{
    LabelError, SelfPlaySettings, Teacher, TreeSettings,
    game::{LabelJob, LabelledGame, label_game},
    labeller::Labeller,
    trees::TreeSampler,
};

/// The inputs of a run.
#[derive(Clone, Debug)]
pub enum LabelSource {
    /// PGN and EPD/FEN files, plain or compressed, one after the other.
    Files(Vec<PathBuf>),
    /// Games of the engine against itself.
    SelfPlay { settings: SelfPlaySettings, games: u64 },
    /// Positions that a search evaluates while it plays against itself.
    Trees { settings: Box<TreeSettings>, games: u64 },
}

impl LabelSource {
    /// The jobs of this source in order.
    fn jobs(&self) -> Box<dyn Iterator<Item = Result<LabelJob<'_>, LabelError>> + Send + '_> {
        match self {
            Self::SelfPlay { settings, games } => {
                Box::new((0..*games).map(move |number| Ok(LabelJob::SelfPlay(settings, number))))
            }
            Self::Trees { settings, games } => {
                Box::new((0..*games).map(move |number| Ok(LabelJob::Trees(settings, number))))
            }
            Self::Files(files) => Box::new(read_files(files).map(|entry| {
                Ok(match entry? {
                    FileEntry::Game(game) => LabelJob::Game(game),
                    FileEntry::Position(game) => LabelJob::Position(game),
                    FileEntry::LeftOutGame(game) => {
                        LabelJob::LeftOut { is_broken: !game.is_variant }
                    }
                    FileEntry::LeftOutLine => LabelJob::LeftOut { is_broken: true },
                })
            })),
        }
    }
}

/// The settings of a run.
#[derive(Clone, Debug)]
pub struct LabelSettings {
    pub teacher: Teacher,
    pub source: LabelSource,
    /// Engine processes, or threads.
    pub jobs: usize,
    /// Annotated PGN; a file `….progress` beside it makes the run resumable.
    pub output: PathBuf,
}

/// The progress of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LabelProgress {
    /// Games in the output.
    pub games: u64,
    /// Number of games at the end of the run, where it is known.
    pub of: Option<u64>,
    /// Positions evaluated.
    pub positions: u64,
    /// Games whose text was not understood to its end.
    pub broken: u64,
}

impl LabelSettings {
    /// The settings that decide the content of the output, one a line.
    fn run(&self) -> Vec<String> {
        let (first, options) = self.teacher.identity();
        let mut run = first;
        run.push(match &self.source {
            LabelSource::Files(files) => {
                let files: Vec<String> =
                    files.iter().map(|file| file.display().to_string()).collect();
                format!("files {}", files.join(", "))
            }
            // The number of games is left out: a later run may add games.
            LabelSource::SelfPlay { settings, .. } => format!("self-play {}", as_json(settings)),
            LabelSource::Trees { settings, .. } => {
                let TreeSettings { identity, nodes, share, games, .. } = settings.as_ref();
                let games = as_json(games);
                format!("trees of {identity}, {nodes} evaluations a move, share {share}, {games}")
            }
        });
        run.extend(options);
        run
    }
}

fn as_json(settings: &SelfPlaySettings) -> String {
    serde_json::to_string(settings).unwrap_or_default()
}

/// Labels the games of the source until it ends or `stop` is set. `report` is called at the
/// beginning and after each game written. A game that is being labelled when `stop` is set is left
/// out, and the next run makes it again.
///
/// # Errors
/// Input, output or engine cannot be used.
pub fn label(
    settings: &LabelSettings,
    stop: &AtomicBool,
    report: &mut dyn FnMut(&LabelProgress),
) -> Result<LabelProgress, LabelError> {
    let input = match &settings.source {
        LabelSource::Files(files) => Some(content_identity(files)?),
        LabelSource::SelfPlay { .. } | LabelSource::Trees { .. } => None,
    };
    let mut output = ResumableOutput::open(&settings.output, settings.run(), input)?;
    let of = match &settings.source {
        LabelSource::SelfPlay { games, .. } | LabelSource::Trees { games, .. } => Some(*games),
        LabelSource::Files(_) => None,
    };
    let first = output.games();
    let mut progress =
        LabelProgress { games: first, of, positions: output.positions(), broken: output.broken() };
    report(&progress);
    let result = process_in_order(
        settings.jobs,
        first,
        settings.source.jobs(),
        &|| stop.load(Ordering::Relaxed),
        || LabelWorker { settings, stop, labeller: None, trees: None },
        &mut |labelled: LabelledGame| {
            output.add_soon(&labelled.pgn, labelled.positions, labelled.is_broken)?;
            progress.games = output.games();
            progress.positions = output.positions();
            progress.broken = output.broken();
            report(&progress);
            Ok(())
        },
    );
    output.flush()?;
    result.map(|()| progress)
}

/// A thread of a run with its engine.
struct LabelWorker<'a> {
    settings: &'a LabelSettings,
    stop: &'a AtomicBool,
    labeller: Option<Labeller<'a>>,
    trees: Option<TreeSampler>,
}

impl<'a> Worker<LabelJob<'a>, LabelledGame, LabelError> for LabelWorker<'a> {
    fn work(&mut self, number: u64, job: LabelJob<'a>) -> Result<Option<LabelledGame>, LabelError> {
        let labelled = match self.label(&job, number) {
            // A second try with a fresh process: the machine may have caused the crash.
            Err(LabelError::Engine(_)) if !self.stop.load(Ordering::Relaxed) => {
                self.labeller = None;
                self.label(&job, number)
            }
            labelled => labelled,
        };
        Ok(Some(labelled?))
    }

    fn end(self) {
        if let Some(labeller) = self.labeller {
            labeller.end();
        }
    }
}

impl<'a> LabelWorker<'a> {
    fn label(&mut self, job: &LabelJob<'_>, number: u64) -> Result<LabelledGame, LabelError> {
        let labeller = match &mut self.labeller {
            Some(labeller) => labeller,
            None => self.labeller.insert(self.settings.teacher.labeller()?),
        };
        label_game(labeller, &mut self.trees, job, number)
    }
}
