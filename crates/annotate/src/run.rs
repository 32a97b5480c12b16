//! A run over files: several games at once, written in order, resumable.

use std::{path::PathBuf, time::Duration};

use games::{Item, Output, PgnGame, Worker, in_order, items};
use search::{Control, Limits, Search, Settings};
use serde::{Deserialize, Serialize};

use crate::{AnnotateError, Review, json::json_line, pgn::pgn};

/// What is wanted of an analysis.
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
    pub analysis: Analysis,
}

/// What is done with each game.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Analysis {
    /// Evaluations a position.
    pub nodes: Option<u64>,
    /// Time a position.
    pub movetime: Option<Duration>,
    /// Depth of each search, in plies.
    pub depth: Option<u32>,
    /// Positions that one search has evaluated together; 0: as the search and a single evaluator
    /// like it. Batches also come from many searches.
    pub batch: usize,
    /// Memory of one search, in MiB.
    pub hash_mib: usize,
    /// The first move that is judged, in plies from 1.
    pub from: usize,
    /// The last move that is judged, in plies from 1.
    pub to: usize,
    /// Lines a position.
    pub multipv: usize,
    /// Moves that lost at least so many percent of winning chances are commented.
    pub threshold: f64,
    /// What analyses: program, network and search, for the `Annotator` tag and to tell runs apart.
    pub engine: String,
}

/// How far a run is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnnotateProgress {
    /// Games in the output.
    pub games: u64,
    /// Positions searched.
    pub positions: u64,
}

impl Analysis {
    fn effort(&self) -> String {
        let nodes = self.nodes.map(|nodes| format!("{nodes} evaluations"));
        let time = self.movetime.map(|time| format!("{} ms", time.as_millis()));
        let depth = self.depth.map(|depth| format!("depth {depth}"));
        nodes.into_iter().chain(time).chain(depth).collect::<Vec<_>>().join(", ")
    }

    /// Of each search.
    pub(crate) fn settings(&self) -> Settings {
        Settings {
            batch: self.batch,
            hash_mib: self.hash_mib,
            multipv: self.multipv,
            move_overhead: Duration::ZERO,
            ..Settings::default()
        }
    }

    /// Of the search of each position.
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
    /// What decides the content of the output.
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
            format!("threshold {}", analysis.threshold),
        ]
    }

    /// The games of the files in order; a position is a game without moves.
    pub(crate) fn games(&self) -> impl Iterator<Item = Result<PgnGame, AnnotateError>> + Send + '_ {
        items(&self.files).map(|item| {
            Ok(match item? {
                Item::Game(game) => game,
                Item::Position(game) => PgnGame { game, ..PgnGame::default() },
            })
        })
    }
}

/// The outputs of a run, games in order.
pub(crate) struct Outputs {
    pgn: Output,
    json: Option<Output>,
    /// Games in both. After a crash between the two files one may be a game ahead.
    games: u64,
}

impl Outputs {
    pub(crate) fn open(settings: &AnnotateSettings) -> Result<Self, AnnotateError> {
        let pgn = Output::open(&settings.output, settings.run())?;
        let json = match &settings.json {
            Some(path) => Some(Output::open(path, settings.run())?),
            None => None,
        };
        let games = json.as_ref().map_or(pgn.games(), |json| json.games().min(pgn.games()));
        Ok(Self { pgn, json, games })
    }

    /// Tell these outputs from others.
    #[cfg(feature = "queue")]
    pub(crate) fn ids(&self) -> (u64, Option<u64>) {
        (self.pgn.id(), self.json.as_ref().map(Output::id))
    }

    pub(crate) fn progress(&self) -> AnnotateProgress {
        AnnotateProgress { games: self.games, positions: self.pgn.positions() }
    }

    /// Adds the next game.
    pub(crate) fn add(&mut self, done: &Annotated) -> Result<(), AnnotateError> {
        if self.games >= self.pgn.games() {
            self.pgn.add(&done.pgn, done.positions)?;
        }
        if let Some(json) = self.json.as_mut().filter(|json| self.games >= json.games()) {
            json.add(&done.json, done.positions)?;
        }
        self.games += 1;
        Ok(())
    }
}

/// Analyses until the files end or `control` stops it; `report` is called at the beginning and
/// after each game written. Games that are being searched when it is stopped are left out and
/// searched by the next run. `search` gives each of the jobs its search, over evaluators that they
/// share.
///
/// # Errors
/// Input or output cannot be used, or an evaluation failed.
pub fn annotate(
    settings: &AnnotateSettings,
    search: &(dyn Fn(&Settings) -> Box<dyn Search> + Sync),
    control: &Control,
    report: &mut dyn FnMut(&AnnotateProgress),
) -> Result<AnnotateProgress, AnnotateError> {
    let mut outputs = Outputs::open(settings)?;
    report(&outputs.progress());
    let first = outputs.progress().games;
    let worker = || Annotator { settings, search: search(&settings.analysis.settings()), control };
    in_order(
        settings.jobs,
        first,
        settings.games(),
        &|| control.is_stopped(),
        worker,
        &mut |done: Annotated| {
            outputs.add(&done)?;
            report(&outputs.progress());
            Ok::<(), AnnotateError>(())
        },
    )?;
    Ok(outputs.progress())
}

/// A game's texts.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Annotated {
    pub(crate) pgn: String,
    /// Empty where it was not asked for.
    pub(crate) json: String,
    pub(crate) positions: u64,
}

impl Annotated {
    /// Analyses a game. Nothing if it is stopped before the end.
    ///
    /// # Errors
    /// A position could not be evaluated.
    pub(crate) fn of(
        game: PgnGame,
        number: u64,
        search: &mut dyn Search,
        analysis: &Analysis,
        json: bool,
        control: &Control,
    ) -> Result<Option<Self>, AnnotateError> {
        let review = Review::of(game, search, analysis, control)
            .map_err(|source| AnnotateError::Evaluation { game: number + 1, source })?;
        let annotator = format!("{}, {} a position", analysis.engine, analysis.effort());
        Ok(review.map(|review| Self {
            pgn: pgn(&review, &annotator, analysis.threshold),
            json: if json { json_line(&review, number) } else { String::new() },
            positions: review.positions(),
        }))
    }
}

/// A thread with its search.
struct Annotator<'a> {
    settings: &'a AnnotateSettings,
    search: Box<dyn Search>,
    control: &'a Control,
}

impl Worker<PgnGame, Annotated, AnnotateError> for Annotator<'_> {
    fn work(&mut self, number: u64, game: PgnGame) -> Result<Option<Annotated>, AnnotateError> {
        let Self { settings, search, control } = self;
        Annotated::of(
            game,
            number,
            search.as_mut(),
            &settings.analysis,
            settings.json.is_some(),
            control,
        )
    }
}
