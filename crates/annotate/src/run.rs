//! A run over files: several games are searched at once and written in order, and an interrupted
//! run is resumed.

use std::{path::PathBuf, time::Duration};

use games::{
    FileEntry, PgnGame, ResumableOutput, Worker, content_identity, process_in_order, read_files,
};
use search::{Control, Limits, Search, Settings};
use serde::{Deserialize, Serialize};

use crate::{
    AnnotateError, GameAnalysis,
    json::json_line,
    kept::{remove_old_analysis, strip},
    pgn::pgn,
};

/// The settings of a run.
#[derive(Clone, Debug)]
pub struct AnnotateSettings {
    /// PGN and EPD files, plain or compressed.
    pub files: Vec<PathBuf>,
    /// Annotated PGN; a file `….progress` beside it makes the run resumable.
    pub output: PathBuf,
    /// One JSON object a game, resumable in the same way.
    pub json: Option<PathBuf>,
    /// Games searched at once.
    pub jobs: usize,
    pub analysis: AnalysisSettings,
}

/// How each game is analysed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AnalysisSettings {
    /// Evaluations a position.
    pub nodes: Option<u64>,
    /// Time a position.
    pub movetime: Option<Duration>,
    /// Depth of each search, in plies.
    pub depth: Option<u32>,
    /// Batch size of one search, in positions; 0 takes the default of the search for a single
    /// evaluator. Evaluators also join the batches of several searches.
    pub batch: usize,
    /// Memory of one search, in MiB.
    pub hash_mib: usize,
    /// The first judged move, in plies from 1.
    pub from: usize,
    /// The last judged move, in plies from 1.
    pub to: usize,
    /// Principal variations a position.
    pub multipv: usize,
    /// Bad moves that lost at least this many percent of winning chances get the better lines.
    pub threshold: f64,
    /// Drop variations, glyphs and annotators of the input.
    pub strip: bool,
    /// Program, network and search, for the `Annotator` tag and to tell runs apart.
    pub engine: String,
}

/// The progress of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnnotateProgress {
    /// Games in the output.
    pub games: u64,
    /// Positions searched.
    pub positions: u64,
    /// Games whose text was not understood to its end.
    pub broken: u64,
}

impl AnalysisSettings {
    fn effort(&self) -> String {
        let nodes = self.nodes.map(|nodes| format!("{nodes} evaluations"));
        let time = self.movetime.map(|time| format!("{} ms", time.as_millis()));
        let depth = self.depth.map(|depth| format!("depth {depth}"));
        nodes.into_iter().chain(time).chain(depth).collect::<Vec<_>>().join(", ")
    }

    /// The settings of each search.
    pub(crate) fn settings(&self) -> Settings {
        Settings {
            batch: self.batch,
            hash_mib: self.hash_mib,
            multipv: self.multipv,
            move_overhead: Duration::ZERO,
            ..Settings::default()
        }
    }

    /// The limits of the search of each position.
    pub(crate) fn limits(&self) -> Limits {
        Limits {
            nodes: self.nodes,
            movetime: self.movetime,
            depth: self.depth,
            analysis: true,
            ..Limits::default()
        }
    }
}

impl AnnotateSettings {
    /// The settings that decide the content of the output, one a line.
    pub(crate) fn run(&self) -> Vec<String> {
        let analysis = &self.analysis;
        let files: Vec<String> = self.files.iter().map(|file| file.display().to_string()).collect();
        vec![
            format!("files {}", files.join(", ")),
            format!("engine {}", analysis.engine),
            format!("effort {}", analysis.effort()),
            format!("batch {}, hash {}", analysis.batch, analysis.hash_mib),
            format!("moves {} to {}", analysis.from, analysis.to),
            format!("lines {}", analysis.multipv),
            format!(
                "threshold {}{}",
                analysis.threshold,
                if analysis.strip { ", strip" } else { "" }
            ),
        ]
    }

    /// The games of the files in order; a position is a game without moves.
    pub(crate) fn items(&self) -> impl Iterator<Item = Result<Item, AnnotateError>> + Send + '_ {
        let prepared = |mut game: PgnGame| {
            remove_old_analysis(&mut game);
            if self.analysis.strip {
                strip(&mut game);
            }
            Item::Game(Box::new(game))
        };
        read_files(&self.files).map(move |entry| {
            Ok(match entry? {
                FileEntry::Game(game) => prepared(game),
                FileEntry::Position(game) => prepared(PgnGame { game, ..PgnGame::default() }),
                FileEntry::LeftOutGame(game) => Item::Unchanged(AnnotatedGame {
                    pgn: format!("{}\n\n", game.text.trim_end()),
                    is_broken: !game.is_variant,
                    ..AnnotatedGame::default()
                }),
                FileEntry::LeftOutLine => {
                    Item::Unchanged(AnnotatedGame { is_broken: true, ..AnnotatedGame::default() })
                }
            })
        })
    }
}

/// A game of the input.
pub(crate) enum Item {
    /// To be analysed; without what an earlier analysis wrote.
    Game(Box<PgnGame>),
    /// It cannot be analysed and passes through as it is.
    Unchanged(AnnotatedGame),
}

/// The output files of a run; games are added in order.
pub(crate) struct OutputFiles {
    pgn: ResumableOutput,
    json: Option<ResumableOutput>,
    /// Games in both files. After a crash between the two writes one file may be a game ahead.
    games: u64,
}

impl OutputFiles {
    pub(crate) fn open(settings: &AnnotateSettings) -> Result<Self, AnnotateError> {
        let input = Some(content_identity(&settings.files)?);
        let pgn = ResumableOutput::open(&settings.output, settings.run(), input.clone())?;
        let json = match &settings.json {
            Some(path) => Some(ResumableOutput::open(path, settings.run(), input)?),
            None => None,
        };
        let games = json.as_ref().map_or(pgn.games(), |json| json.games().min(pgn.games()));
        Ok(Self { pgn, json, games })
    }

    /// Identifies these outputs in all their runs.
    #[cfg(feature = "queue")]
    pub(crate) fn ids(&self) -> (u64, Option<u64>) {
        (self.pgn.id(), self.json.as_ref().map(ResumableOutput::id))
    }

    pub(crate) fn progress(&self) -> AnnotateProgress {
        let Self { pgn, games, .. } = self;
        AnnotateProgress { games: *games, positions: pgn.positions(), broken: pgn.broken() }
    }

    /// Adds the next game.
    pub(crate) fn add(&mut self, done: &AnnotatedGame) -> Result<(), AnnotateError> {
        if self.games >= self.pgn.games() {
            self.pgn.add(&done.pgn, done.positions, done.is_broken)?;
        }
        if let Some(json) = self.json.as_mut().filter(|json| self.games >= json.games()) {
            json.add(&done.json, done.positions, done.is_broken)?;
        }
        self.games += 1;
        Ok(())
    }
}

/// Analyses the games of the files until they end or `control` stops the run. `report` is called at
/// the beginning and after each game written. A game whose search is stopped is left out and
/// searched by the next run. `search` makes one search a job; the searches share their evaluators.
///
/// # Errors
/// Input or output cannot be used, or an evaluation failed.
pub fn annotate(
    settings: &AnnotateSettings,
    search: &(dyn Fn(&Settings) -> Box<dyn Search> + Sync),
    control: &Control,
    report: &mut dyn FnMut(&AnnotateProgress),
) -> Result<AnnotateProgress, AnnotateError> {
    let mut outputs = OutputFiles::open(settings)?;
    report(&outputs.progress());
    let first = outputs.progress().games;
    let worker =
        || AnnotateWorker { settings, search: search(&settings.analysis.settings()), control };
    process_in_order(
        settings.jobs,
        first,
        settings.items(),
        &|| control.is_stopped(),
        worker,
        &mut |done: AnnotatedGame| {
            outputs.add(&done)?;
            report(&outputs.progress());
            Ok::<(), AnnotateError>(())
        },
    )?;
    Ok(outputs.progress())
}

/// The texts of an analysed game.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct AnnotatedGame {
    pub(crate) pgn: String,
    /// Empty unless JSON is written.
    pub(crate) json: String,
    pub(crate) positions: u64,
    /// The game's text was not understood to its end.
    pub(crate) is_broken: bool,
}

impl AnnotatedGame {
    /// Analyses a game; `None` if `control` stops it before the end. `number` counts from 0.
    ///
    /// # Errors
    /// A position could not be evaluated.
    pub(crate) fn analyse(
        game: PgnGame,
        number: u64,
        search: &mut dyn Search,
        settings: &AnalysisSettings,
        json: bool,
        control: &Control,
    ) -> Result<Option<Self>, AnnotateError> {
        let analysis = GameAnalysis::analyse(game, search, settings, control)
            .map_err(|source| AnnotateError::Evaluation { game: number + 1, source })?;
        let annotator = format!("{}, {} a position", settings.engine, settings.effort());
        Ok(analysis.map(|analysis| Self {
            pgn: pgn(&analysis, &annotator, settings.threshold),
            json: if json { json_line(&analysis, number) } else { String::new() },
            positions: analysis.searched_positions(),
            is_broken: analysis.source.unread.is_some(),
        }))
    }
}

/// A thread of a run with its search.
struct AnnotateWorker<'a> {
    settings: &'a AnnotateSettings,
    search: Box<dyn Search>,
    control: &'a Control,
}

impl Worker<Item, AnnotatedGame, AnnotateError> for AnnotateWorker<'_> {
    fn work(&mut self, number: u64, item: Item) -> Result<Option<AnnotatedGame>, AnnotateError> {
        let Self { settings, search, control } = self;
        let game = match item {
            Item::Game(game) => *game,
            Item::Unchanged(done) => return Ok(Some(done)),
        };
        AnnotatedGame::analyse(
            game,
            number,
            search.as_mut(),
            &settings.analysis,
            settings.json.is_some(),
            control,
        )
    }
}
