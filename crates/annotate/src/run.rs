//! A run over files: several games at once, written in order, resumable.

use std::path::PathBuf;

use games::{Item, Output, PgnGame, Worker, in_order, items};
use search::{Control, Limits, Search};

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
    /// For each position.
    pub limits: Limits,
    /// The first move that is judged, in plies from 1.
    pub from: usize,
    /// The last move that is judged, in plies from 1.
    pub to: usize,
    /// Lines a position, as the searches are set.
    pub multipv: usize,
    /// Moves that lost at least so many percent of winning chances are commented.
    pub threshold: f64,
    /// What analyses: network and system, for the `Annotator` tag and to tell runs apart.
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

impl AnnotateSettings {
    fn effort(&self) -> String {
        let limits = &self.limits;
        let nodes = limits.nodes.map(|nodes| format!("{nodes} evaluations"));
        let time = limits.movetime.map(|time| format!("{} ms", time.as_millis()));
        let depth = limits.depth.map(|depth| format!("depth {depth}"));
        nodes.into_iter().chain(time).chain(depth).collect::<Vec<_>>().join(", ")
    }

    /// What decides the content of the output.
    fn run(&self) -> Vec<String> {
        let files: Vec<String> = self.files.iter().map(|file| file.display().to_string()).collect();
        vec![
            format!("files {}", files.join(", ")),
            format!("engine {}", self.engine),
            format!("effort {}", self.effort()),
            format!("moves {} to {}", self.from, self.to),
            format!("lines {}", self.multipv),
            format!("threshold {}", self.threshold),
        ]
    }
}

/// Analyses until the files end or `control` stops it; `report` is called at the beginning and after each game written.
/// Games that are being searched when it is stopped are left out and searched by the next run. `search` gives each of the
/// jobs its search, over evaluators that they share.
///
/// # Errors
/// Input or output cannot be used, or an evaluation failed.
pub fn annotate(
    settings: &AnnotateSettings,
    search: &(dyn Fn() -> Box<dyn Search> + Sync),
    control: &Control,
    report: &mut dyn FnMut(&AnnotateProgress),
) -> Result<AnnotateProgress, AnnotateError> {
    let mut output = Output::open(&settings.output, settings.run())?;
    let mut json = match &settings.json {
        Some(path) => Some(Output::open(path, settings.run())?),
        None => None,
    };
    // After a crash between the two files one may be a game ahead.
    let mut written = json.as_ref().map_or(output.games(), |json| json.games().min(output.games()));
    let mut progress = AnnotateProgress { games: written, positions: output.positions() };
    report(&progress);
    let games = items(&settings.files).map(|item| {
        Ok(match item? {
            Item::Game(game) => game,
            Item::Position(game) => PgnGame { game, ..PgnGame::default() },
        })
    });
    let worker = || Annotator { settings, search: search(), control };
    in_order(settings.jobs, written, games, &|| control.is_stopped(), worker, &mut |done: Annotated| {
        if written >= output.games() {
            output.add(&done.pgn, done.positions)?;
        }
        if let Some(json) = json.as_mut().filter(|json| written >= json.games()) {
            json.add(&done.json, done.positions)?;
        }
        written += 1;
        progress = AnnotateProgress { games: written, positions: output.positions() };
        report(&progress);
        Ok::<(), AnnotateError>(())
    })?;
    Ok(progress)
}

/// A game's texts.
struct Annotated {
    pgn: String,
    json: String,
    positions: u64,
}

/// A thread with its search.
struct Annotator<'a> {
    settings: &'a AnnotateSettings,
    search: Box<dyn Search>,
    control: &'a Control,
}

impl Worker<PgnGame, Annotated, AnnotateError> for Annotator<'_> {
    fn work(&mut self, number: u64, game: PgnGame) -> Result<Option<Annotated>, AnnotateError> {
        let settings = self.settings;
        let review = Review::of(game, self.search.as_mut(), settings, self.control)
            .map_err(|source| AnnotateError::Evaluation { game: number + 1, source })?;
        Ok(review.map(|review| Annotated {
            pgn: pgn(
                &review,
                &format!("{}, {} a position", settings.engine, settings.effort()),
                settings.threshold,
            ),
            json: if settings.json.is_some() { json_line(&review, number) } else { String::new() },
            positions: review.positions(),
        }))
    }
}
