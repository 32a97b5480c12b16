//! A match: many games between two engines, several at once, colours changed within each pair of games.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use board::{Color, Game};
use uci::client::{ClientError, Engine, EngineSpec};

use crate::{
    EloEstimate, Ending, PlayedGame, Rules, Tally, TimeControl,
    elo::estimate,
    game::{Fault, play_game},
};

/// Everything that a match needs.
#[derive(Clone, Debug)]
pub struct MatchSettings {
    /// First and second engine.
    pub engines: [EngineSpec; 2],
    pub games: usize,
    pub control: TimeControl,
    pub rules: Rules,
    /// At least one; game `n` begins with opening `n / 2`, from the first again when they run out.
    pub openings: Vec<Game>,
    /// Games at once.
    pub jobs: usize,
    /// Longest wait for an engine to get ready.
    pub start_patience: Duration,
}

/// A finished game of a match.
#[derive(Clone, Debug)]
pub struct MatchGame {
    /// From 0.
    pub number: usize,
    /// Which engine (0 or 1) had White.
    pub white: usize,
    /// White's and Black's names.
    pub names: [String; 2],
    pub played: PlayedGame,
}

impl MatchGame {
    /// Half points of the first engine: 2 a win, 1 a draw, 0 a loss.
    #[must_use]
    pub fn half_points(&self) -> u8 {
        match self.played.winner {
            None => 1,
            Some(Color::White) => {
                if self.white == 0 {
                    2
                } else {
                    0
                }
            }
            Some(Color::Black) => {
                if self.white == 1 {
                    2
                } else {
                    0
                }
            }
        }
    }

    /// The engine (0 or 1) that lost by a fault, and how.
    #[must_use]
    pub fn fault(&self) -> Option<(usize, &Fault)> {
        match &self.played.ending {
            Ending::Fault { side, fault } => {
                Some((if side.is_white() { self.white } else { 1 - self.white }, fault))
            }
            _ => None,
        }
    }
}

/// The score so far.
#[derive(Clone, Debug, Default)]
pub struct MatchScore {
    pub tally: Tally,
    /// Faults of the first and the second engine.
    pub faults: [usize; 2],
    /// Half points of each finished game, by number.
    games: Vec<Option<u8>>,
}

impl MatchScore {
    /// Counts a game.
    pub fn add(&mut self, game: &MatchGame) {
        self.tally.add(game.half_points());
        if let Some((engine, _)) = game.fault() {
            self.faults[engine] += 1;
        }
        if self.games.len() <= game.number {
            self.games.resize(game.number + 1, None);
        }
        self.games[game.number] = Some(game.half_points());
    }

    /// The Elo difference of the first engine: from pairs of games where both are finished and from single games
    /// for the rest, `None` without games.
    #[must_use]
    pub fn elo(&self) -> Option<EloEstimate> {
        let mut scores = Vec::new();
        for pair in self.games.chunks(2) {
            match pair {
                [Some(first), Some(second)] => {
                    let score = f64::from(first + second) / 4.0;
                    scores.extend([score, score]);
                }
                _ => scores.extend(pair.iter().flatten().map(|&half| f64::from(half) / 2.0)),
            }
        }
        let pairs: Vec<f64> =
            scores.chunks(2).map(|unit| unit.iter().sum::<f64>() / unit.len() as f64).collect();
        // Few games: pairs alone would say too little about how much they vary.
        if pairs.len() < 10 { estimate(&scores) } else { estimate(&pairs) }
    }
}

/// Why a match could not be played.
#[derive(Debug, thiserror::Error)]
pub enum MatchError {
    /// An engine could not be started even once.
    #[error(transparent)]
    Engine(#[from] ClientError),
    #[error("a match needs at least one opening")]
    NoOpening,
    #[error("a thread could not be started: {0}")]
    Thread(#[from] std::io::Error),
}

/// Plays a match; `report` gets each game as it ends (in any order when several are played at once). Setting `stop`
/// ends the match before the next move of no game: running games are finished, none is begun.
///
/// # Errors
/// An engine cannot be started, or there is no opening.
pub fn run_match(
    settings: &MatchSettings,
    stop: &Arc<AtomicBool>,
    report: &mut dyn FnMut(&MatchGame, &MatchScore),
) -> Result<MatchScore, MatchError> {
    if settings.openings.is_empty() {
        return Err(MatchError::NoOpening);
    }
    let next = AtomicUsize::new(0);
    let (sender, finished) = crossbeam_channel::unbounded();
    let mut score = MatchScore::default();
    let mut failure = None;
    thread::scope(|scope| -> Result<(), MatchError> {
        for number in 0..settings.jobs.clamp(1, settings.games.max(1)) {
            let (next, sender) = (&next, sender.clone());
            thread::Builder::new()
                .name(format!("match-{number}"))
                .spawn_scoped(scope, move || play_games(settings, next, stop, &sender))?;
        }
        drop(sender);
        for result in &finished {
            match result {
                Ok(game) => {
                    score.add(&game);
                    report(&game, &score);
                }
                Err(error) => {
                    stop.store(true, Ordering::Relaxed);
                    failure.get_or_insert(error);
                }
            }
        }
        Ok(())
    })?;
    match failure {
        Some(error) => Err(error.into()),
        None => Ok(score),
    }
}

fn play_games(
    settings: &MatchSettings,
    next: &AtomicUsize,
    stop: &AtomicBool,
    finished: &crossbeam_channel::Sender<Result<MatchGame, ClientError>>,
) {
    let mut engines: [Option<Engine>; 2] = [None, None];
    let mut started_once = [false; 2];
    while !stop.load(Ordering::Relaxed) {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= settings.games {
            break;
        }
        // The engine that is second in the list has White in every other game.
        let white = number % 2;
        let mut crash = None;
        for index in 0..2 {
            match ready(&mut engines[index], &settings.engines[index], settings.start_patience) {
                Ok(()) => started_once[index] = true,
                Err(error) if started_once[index] => crash = Some((index, error)),
                Err(error) => {
                    let _ = finished.send(Err(error));
                    return;
                }
            }
        }
        let opening = &settings.openings[number / 2 % settings.openings.len()];
        let names = [white, 1 - white].map(|index| name(&engines[index], &settings.engines[index]));
        let played = match (crash, &mut engines) {
            (None, [Some(first), Some(second)]) => {
                let (white, black) = if white == 0 { (first, second) } else { (second, first) };
                play_game(white, black, opening, &settings.control, &settings.rules)
            }
            (crash, _) => {
                let (index, fault) = match crash {
                    Some((index, error)) => (index, error.into()),
                    None => (0, Fault::Crash("the engine is not running".to_owned())),
                };
                let side = if index == white { Color::White } else { Color::Black };
                PlayedGame {
                    game: opening.clone(),
                    book_plies: opening.moves().len(),
                    notes: Vec::new(),
                    winner: Some(!side),
                    ending: Ending::Fault { side, fault },
                }
            }
        };
        let game = MatchGame { number, white, names, played };
        if let Some((index, _)) = game.fault() {
            // Its state is unknown: a fresh process plays the next game.
            engines[index] = None;
        }
        if finished.send(Ok(game)).is_err() {
            return;
        }
    }
    engines.into_iter().flatten().for_each(Engine::quit);
}

/// Starts the engine or, when it runs, tells it of the new game; one that has died meanwhile is started once more.
fn ready(engine: &mut Option<Engine>, spec: &EngineSpec, patience: Duration) -> Result<(), ClientError> {
    if let Some(running) = engine {
        if running.new_game().is_ok() {
            return Ok(());
        }
        *engine = None;
    }
    let mut fresh = Engine::start(spec, patience)?;
    fresh.new_game()?;
    *engine = Some(fresh);
    Ok(())
}

fn name(engine: &Option<Engine>, spec: &EngineSpec) -> String {
    match engine {
        Some(engine) => engine.name().to_owned(),
        None => spec.name.clone().unwrap_or_else(|| spec.program.display().to_string()),
    }
}
