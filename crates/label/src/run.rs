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
            let LabelledGame { pgn, positions, is_broken } = labelled;
            // Single positions come by the thousand; a game has cost time not to be lost.
            match positions {
                0..=2 => output.add_soon(&pgn, positions, is_broken)?,
                _ => output.add(&pgn, positions, is_broken)?,
            }
            progress.games = output.games();
            progress.positions = output.positions();
            progress.broken = output.broken();
            report(&progress);
            Ok(())
        },
    );
    result?;
    output.flush()?;
    Ok(progress)
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{StockfishNetwork, nnue::file_of};

    fn run(
        folder: &std::path::Path,
        network: u64,
        jobs: usize,
        out: &str,
    ) -> Result<u64, LabelError> {
        let file = folder.join(format!("{network}.nnue"));
        if !file.exists() {
            std::fs::write(&file, file_of(network)).unwrap();
        }
        let settings = LabelSettings {
            teacher: Teacher::Network(Arc::new(StockfishNetwork::open(&file)?)),
            source: LabelSource::Files(vec![folder.join("positions.fen")]),
            jobs,
            output: folder.join(out),
        };
        Ok(label(&settings, &AtomicBool::new(false), &mut |_| ())?.positions)
    }

    #[test]
    fn a_network_labels_for_any_number_of_threads_and_a_run_is_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let positions = [
            "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1",
            "r1bqk2r/pppp1ppp/2n2n2/2b1p3/2B1P3/2N2N2/PPPP1PPP/R1BQK2R w KQkq - 6 5",
            "7k/6pp/8/8/8/8/8/r5K1 w - - 0 1",
            "8/8/4k3/8/2p5/8/B2K4/8 b - - 0 1",
        ];
        std::fs::write(folder.path().join("positions.fen"), positions.join("\n")).unwrap();
        assert_eq!(run(folder.path(), 1, 1, "one.pgn").unwrap(), 4);
        assert_eq!(run(folder.path(), 1, 3, "three.pgn").unwrap(), 4);
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!(read("one.pgn"), read("three.pgn"));
        assert_eq!(read("one.pgn").matches("[%eval ").count(), 4);
        let error = run(folder.path(), 2, 1, "one.pgn").unwrap_err().to_string();
        assert!(error.contains("network "), "{error}");
    }
}
