//! Runs a match: the games of its schedule, several at once, with players that stay alive between
//! games.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use board::{Color, Game, Tablebases};

use crate::{
    Adjudicator, Fault, GameRecord, PlayedGame, Player, PlayerSpec, Results, Rules, ScheduledGame,
    SprtRun, StartError, Termination, TournamentFormat,
    game::play_game,
    pgn::PgnDetails,
    schedule::{pairings, schedule},
    summary::{MatchDescription, Summary},
};

/// The settings of a match.
#[derive(Clone, Debug)]
pub struct MatchSettings {
    /// At least two.
    pub players: Vec<PlayerSpec>,
    pub format: TournamentFormat,
    /// Number of games of each pairing.
    pub games: usize,
    pub rules: Rules,
    pub tables: Option<Arc<Tablebases>>,
    /// At least one. Each round of two games a pairing takes the next opening, and after the last
    /// one the first again.
    pub openings: Vec<Game>,
    /// Games at once.
    pub jobs: usize,
    /// Longest wait for the handshake of an engine.
    pub start_timeout: Duration,
    /// True if the PGN has thinking times. Without them deterministic players give the same text in
    /// every run.
    pub times: bool,
}

/// An error that prevents a match.
#[derive(Debug, thiserror::Error)]
pub enum MatchError {
    /// A player cannot be started.
    #[error(transparent)]
    Start(#[from] StartError),
    #[error("a match needs at least two players")]
    NoPlayers,
    #[error("a match needs at least one opening")]
    NoOpening,
    #[error("a thread could not be started: {0}")]
    Thread(#[from] std::io::Error),
}

/// A match whose players were started once.
#[derive(Debug)]
pub struct Match {
    settings: MatchSettings,
    names: Vec<String>,
    scheduled_games: Vec<ScheduledGame>,
}

impl Match {
    /// Prepares a match. Every player is started once to get its name.
    ///
    /// # Errors
    /// A player cannot be started, or players or openings are missing.
    pub fn new(settings: MatchSettings) -> Result<Self, MatchError> {
        if settings.players.len() < 2 {
            return Err(MatchError::NoPlayers);
        }
        if settings.openings.is_empty() {
            return Err(MatchError::NoOpening);
        }
        let mut names: Vec<String> = Vec::new();
        for spec in &settings.players {
            let (player, name) = spec.start(settings.start_timeout)?;
            player.close();
            let mut unique = name.clone();
            let mut count = 1;
            while names.contains(&unique) {
                count += 1;
                unique = format!("{name} ({count})");
            }
            names.push(unique);
        }
        let scheduled_games =
            schedule(&pairings(settings.players.len(), settings.format), settings.games);
        Ok(Self { settings, names, scheduled_games })
    }

    /// The names of the players, made unique.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Number of games of the whole match.
    #[must_use]
    pub fn games(&self) -> usize {
        self.scheduled_games.len()
    }

    /// All games in the order in which they begin.
    #[must_use]
    pub fn schedule(&self) -> &[ScheduledGame] {
        &self.scheduled_games
    }

    /// The settings that decide the games, one a line. An interrupted match is resumed only if they
    /// are equal. The numbers of games and of games at once are not among them.
    #[must_use]
    pub fn identity(&self) -> Vec<String> {
        let settings = &self.settings;
        let mut openings = DefaultHasher::new();
        for opening in &settings.openings {
            (opening.start().fen(), opening.position().key(), opening.moves().len())
                .hash(&mut openings);
        }
        let count = settings.openings.len();
        let mut lines = vec![
            format!("{:?}", settings.format),
            format!("{count} openings {:016x}", openings.finish()),
            format!("{:?}, {:?}", settings.rules, settings.tables),
        ];
        for (name, player) in self.names.iter().zip(&settings.players) {
            lines.push(format!("{name}: {}", player.identity));
        }
        lines
    }

    /// The statistics of the match.
    #[must_use]
    pub fn summary(&self, results: &Results, sprt: Option<SprtRun>) -> Summary {
        let limits: Vec<String> =
            self.settings.players.iter().map(|player| player.control.to_string()).collect();
        let description = MatchDescription {
            names: &self.names,
            limits: &limits,
            openings: &self.settings.openings,
        };
        let title = match self.names.as_slice() {
            [first, second] => format!("{first} against {second}"),
            names => format!("A match of {} players", names.len()),
        };
        Summary::new(title, &description, results, sprt)
    }

    /// Plays the games that `results` does not have yet. `report` gets each game when it ends, in
    /// any order, together with all results. Setting `stop` ends the match: running games are
    /// aborted at their next move.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn run(
        &self,
        results: Results,
        stop: &AtomicBool,
        report: &mut dyn FnMut(&GameRecord, &Results),
    ) -> Result<Results, MatchError> {
        self.play(&self.scheduled_games, results, stop, report)
    }

    /// As [`Match::run`], with a given list of games.
    ///
    /// # Errors
    /// As [`Match::run`].
    pub fn play(
        &self,
        scheduled_games: &[ScheduledGame],
        mut results: Results,
        stop: &AtomicBool,
        report: &mut dyn FnMut(&GameRecord, &Results),
    ) -> Result<Results, MatchError> {
        let open: Vec<ScheduledGame> = scheduled_games
            .iter()
            .copied()
            .filter(|scheduled| !results.contains(scheduled.number))
            .collect();
        let next = AtomicUsize::new(0);
        let (sender, finished) = crossbeam_channel::unbounded();
        thread::scope(|scope| -> Result<(), MatchError> {
            for number in 0..self.settings.jobs.clamp(1, open.len().max(1)) {
                let (next, open, sender) = (&next, open.as_slice(), sender.clone());
                let work = move || {
                    let mut thread = MatchThread { chess_match: self, running: HashMap::new() };
                    while !stop.load(Ordering::Relaxed) {
                        let Some(&scheduled) = open.get(next.fetch_add(1, Ordering::Relaxed))
                        else {
                            break;
                        };
                        let Some(game) = thread.play(scheduled, stop) else { break };
                        if sender.send(game).is_err() {
                            break;
                        }
                    }
                    thread.close();
                };
                let thread = thread::Builder::new().name(format!("match-{number}"));
                // If a thread cannot be started, the others stop, as the match ends with an error.
                thread
                    .spawn_scoped(scope, work)
                    .inspect_err(|_| stop.store(true, Ordering::Relaxed))?;
            }
            drop(sender);
            for game in &finished {
                results.add(game.clone());
                report(&game, &results);
            }
            Ok(())
        })?;
        Ok(results)
    }
}

/// Largest number of idle players that one thread keeps running.
const MAX_IDLE_PLAYERS: usize = 8;

/// One thread of a match with its running players, by index.
struct MatchThread<'a> {
    chess_match: &'a Match,
    running: HashMap<usize, Box<dyn Player>>,
}

impl MatchThread<'_> {
    /// Plays a game; `None` if `stop` is set before the end.
    fn play(&mut self, scheduled: ScheduledGame, stop: &AtomicBool) -> Option<GameRecord> {
        let settings = &self.chess_match.settings;
        let sides = [scheduled.white, scheduled.black];
        if self.running.len() > MAX_IDLE_PLAYERS {
            let idle: Vec<usize> =
                self.running.keys().copied().filter(|index| !sides.contains(index)).collect();
            idle.into_iter()
                .filter_map(|index| self.running.remove(&index))
                .for_each(Player::close);
        }
        let number = scheduled.opening % settings.openings.len();
        let opening = &settings.openings[number];
        let [white, black] = sides.map(|index| self.ready(index));
        let played = match (white, black) {
            (Ok(mut white), Ok(mut black)) => {
                let adjudicator =
                    Adjudicator { rules: &settings.rules, tables: settings.tables.as_deref() };
                let controls = sides.map(|index| settings.players[index].control);
                let played =
                    play_game([&mut *white, &mut *black], opening, controls, adjudicator, stop);
                let at_fault = match &played {
                    Some(PlayedGame { termination: Termination::Fault { side, .. }, .. }) => {
                        Some(*side)
                    }
                    _ => None,
                };
                // The state of a player at fault is unknown, so it is replaced for the next game.
                for (index, side, player) in
                    [(scheduled.white, Color::White, white), (scheduled.black, Color::Black, black)]
                {
                    if at_fault != Some(side) {
                        self.running.insert(index, player);
                    }
                }
                played?
            }
            (Err(fault), black) => {
                self.running.extend(black.ok().map(|black| (scheduled.black, black)));
                unplayed(opening, Color::White, fault)
            }
            (Ok(white), Err(fault)) => {
                self.running.insert(scheduled.white, white);
                unplayed(opening, Color::Black, fault)
            }
        };
        let text = PgnDetails {
            round: format!("{}.{}", scheduled.number / 2 + 1, scheduled.number % 2 + 1),
            white: &self.chess_match.names[scheduled.white],
            black: &self.chess_match.names[scheduled.black],
            times: settings.times,
        };
        let pgn = crate::pgn::match_game(&text, &played);
        Some(GameRecord::new(scheduled, number, &played, pgn))
    }

    /// The player, prepared for a new game. It is started if it is not running or has died.
    fn ready(&mut self, index: usize) -> Result<Box<dyn Player>, Fault> {
        let settings = &self.chess_match.settings;
        if let Some(mut player) = self.running.remove(&index)
            && player.new_game().is_ok()
        {
            return Ok(player);
        }
        let (mut player, _) = settings.players[index].start(settings.start_timeout)?;
        player.new_game()?;
        Ok(player)
    }

    fn close(self) {
        self.running.into_values().for_each(Player::close);
    }
}

/// A game that a side lost by a fault before the first move.
fn unplayed(opening: &Game, side: Color, fault: Fault) -> PlayedGame {
    PlayedGame {
        game: opening.clone(),
        book_plies: opening.moves().len(),
        evaluations: Vec::new(),
        winner: Some(!side),
        termination: Termination::Fault { side, fault },
    }
}
