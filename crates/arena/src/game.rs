//! One game between two players: who moves, whose clock runs, how it ends and who is to blame.

use std::{
    fmt,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use board::{Color, Game, GameEnd, Score, Tablebases};
use uci::client::{ClientError, Task};

use crate::Player;

/// How long a player may think.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeControl {
    Nodes(u64),
    Depth(u32),
    MoveTime(Duration),
    Clock { base: Duration, increment: Duration },
}

impl fmt::Display for TimeControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nodes(nodes) => write!(f, "{nodes} nodes"),
            Self::Depth(depth) => write!(f, "depth {depth}"),
            Self::MoveTime(time) => write!(f, "{} ms a move", time.as_millis()),
            Self::Clock { base, increment } => {
                write!(f, "{} s + {} s a move", base.as_secs_f64(), increment.as_secs_f64())
            }
        }
    }
}

/// When a game ends before the rules of chess end it, and what is a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// A game of this many plies after its opening is a draw.
    pub max_plies: usize,
    /// Both engines see |score| of at least this many centipawns, with the same sign, for
    /// `win_plies` plies in a row: won. 0: never.
    pub win_centipawns: i32,
    pub win_plies: usize,
    /// Both engines see |score| of at most this for `draw_plies` plies in a row, from
    /// `draw_from_ply` on: drawn. Negative: never.
    pub draw_centipawns: i32,
    pub draw_plies: usize,
    pub draw_from_ply: usize,
    /// Time over the limit that is forgiven.
    pub margin: Duration,
    /// Time over limit and margin after which an engine that has not moved has stalled.
    pub stall: Duration,
    /// How long a search by nodes or depth may take before it is over its limit.
    pub untimed: Duration,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            max_plies: 400,
            win_centipawns: 1000,
            win_plies: 8,
            draw_centipawns: 8,
            draw_plies: 16,
            draw_from_ply: 80,
            margin: Duration::from_millis(100),
            stall: Duration::from_secs(10),
            untimed: Duration::from_secs(60),
        }
    }
}

impl Rules {
    /// Games are played until the rules of chess (or the number of plies) end them.
    #[must_use]
    pub fn without_adjudication(self) -> Self {
        Self { win_centipawns: 0, draw_centipawns: -1, ..self }
    }
}

/// What ends a game before the rules of chess do.
#[derive(Clone, Copy, Debug)]
pub struct Adjudicator<'a> {
    pub rules: &'a Rules,
    pub tables: Option<&'a Tablebases>,
}

/// What an engine did wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The process ended.
    Crash(String),
    /// The process runs on without an output.
    ClosedOutput(String),
    /// Output without end, and no move.
    Flood(String),
    /// No move in time, nor for a long time after it.
    Stall(String),
    IllegalMove(String),
    /// The move came too late by this much.
    TimeForfeit(Duration),
}

impl Fault {
    /// One word, for tables and PGN.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Crash(_) => "crash",
            Self::ClosedOutput(_) => "closed output",
            Self::Flood(_) => "flood",
            Self::Stall(_) => "stall",
            Self::IllegalMove(_) => "illegal move",
            Self::TimeForfeit(_) => "time forfeit",
        }
    }

    /// One sentence.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Crash(text)
            | Self::ClosedOutput(text)
            | Self::Flood(text)
            | Self::Stall(text)
            | Self::IllegalMove(text) => text.clone(),
            Self::TimeForfeit(late) => format!("the move came {} ms too late", late.as_millis()),
        }
    }
}

impl From<ClientError> for Fault {
    fn from(error: ClientError) -> Self {
        let text = error.to_string();
        match error {
            ClientError::Stalled { .. } | ClientError::NoHandshake { .. } => Self::Stall(text),
            ClientError::IllegalMove { .. } => Self::IllegalMove(text),
            ClientError::ClosedOutput { .. } => Self::ClosedOutput(text),
            ClientError::Flooded { .. } => Self::Flood(text),
            ClientError::Crashed { .. }
            | ClientError::Spawn { .. }
            | ClientError::NoOption { .. } => Self::Crash(text),
        }
    }
}

/// Why a game ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Termination {
    /// By the rules of chess.
    GameEnd(GameEnd),
    /// Both engines agreed for long enough.
    Adjudicated,
    /// Endgame tables know the result.
    Tablebase,
    /// Too many plies.
    PlyLimit,
    /// This side lost by a fault.
    Fault { side: Color, fault: Fault },
}

/// What an engine said about a move that it played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MoveEvaluation {
    /// From the mover's side.
    pub score: Option<Score>,
    pub depth: Option<u32>,
    pub elapsed: Duration,
}

/// A finished game.
#[derive(Clone, Debug)]
pub struct PlayedGame {
    pub game: Game,
    /// Plies that the engines did not choose.
    pub book_plies: usize,
    /// One a ply after the book.
    pub evaluations: Vec<MoveEvaluation>,
    /// `None` for a draw.
    pub winner: Option<Color>,
    pub termination: Termination,
}

/// Plays a game from the end of `opening` between White and Black, each with its time control.
/// `None` when `stop` was set before the end.
pub fn play_game(
    players: [&mut dyn Player; 2],
    opening: &Game,
    controls: [TimeControl; 2],
    adjudicator: Adjudicator<'_>,
    stop: &AtomicBool,
) -> Option<PlayedGame> {
    let Adjudicator { rules, tables } = adjudicator;
    let [white, black] = players;
    let mut game = opening.clone();
    let book_plies = game.moves().len();
    let mut evaluations: Vec<MoveEvaluation> = Vec::new();
    let mut clocks = Clocks::new(controls);
    let (winner, termination) = loop {
        if let Some(end) = game.end() {
            let winner = match end {
                GameEnd::Checkmate { winner } => Some(winner),
                _ => None,
            };
            break (winner, Termination::GameEnd(end));
        }
        let turn = game.position().turn();
        if let Some(winner) = adjudicate(&evaluations, game.moves().len(), turn, rules) {
            break (winner, Termination::Adjudicated);
        }
        if let Some(winner) = tables.and_then(|tables| tables.winner(game.position())) {
            break (winner, Termination::Tablebase);
        }
        if game.moves().len() >= book_plies + rules.max_plies {
            break (None, Termination::PlyLimit);
        }
        if stop.load(Ordering::Relaxed) {
            return None;
        }
        let player: &mut dyn Player = if turn.is_white() { &mut *white } else { &mut *black };
        let fault = |fault| (Some(!turn), Termination::Fault { side: turn, fault });
        let patience = clocks.allowed(turn).unwrap_or(rules.untimed) + rules.margin + rules.stall;
        let thought = match player.think(&game, &clocks.task(turn), patience) {
            Ok(thought) => thought,
            Err(error) => break fault(error),
        };
        if let Some(late) = clocks.spend(turn, thought.elapsed, rules.margin) {
            break fault(Fault::TimeForfeit(late));
        }
        let Some(best) = thought.best else {
            break fault(Fault::IllegalMove("no move in a position with moves".to_owned()));
        };
        evaluations.push(MoveEvaluation {
            score: thought.score,
            depth: thought.depth,
            elapsed: thought.elapsed,
        });
        game.play(best);
    };
    Some(PlayedGame { game, book_plies, evaluations, winner, termination })
}

/// Controls and remaining times of White and Black.
struct Clocks {
    controls: [TimeControl; 2],
    remaining: [Duration; 2],
}

impl Clocks {
    fn new(controls: [TimeControl; 2]) -> Self {
        let remaining = controls.map(|control| match control {
            TimeControl::Clock { base, .. } => base,
            _ => Duration::ZERO,
        });
        Self { controls, remaining }
    }

    /// What the side to move is asked; it is shown the opponent's clock as its own where the
    /// opponent has none.
    fn task(&self, turn: Color) -> Task {
        let clock = |side: Color| match self.controls[index(side)] {
            TimeControl::Clock { increment, .. } => Some((self.remaining[index(side)], increment)),
            _ => None,
        };
        match self.controls[index(turn)] {
            TimeControl::Nodes(nodes) => Task::Nodes(nodes),
            TimeControl::Depth(depth) => Task::Depth(depth),
            TimeControl::MoveTime(time) => Task::MoveTime(time),
            TimeControl::Clock { increment, .. } => {
                let own = (self.remaining[index(turn)], increment);
                let (white, white_increment) = clock(Color::White).unwrap_or(own);
                let (black, black_increment) = clock(Color::Black).unwrap_or(own);
                Task::Clock { white, black, white_increment, black_increment }
            }
        }
    }

    /// The longest time that the side may take now.
    fn allowed(&self, side: Color) -> Option<Duration> {
        match self.controls[index(side)] {
            TimeControl::Nodes(_) | TimeControl::Depth(_) => None,
            TimeControl::MoveTime(time) => Some(time),
            TimeControl::Clock { .. } => Some(self.remaining[index(side)]),
        }
    }

    /// Takes a move's time off the clock; `Some(excess)` when it was more than allowed and
    /// forgiven.
    fn spend(&mut self, side: Color, elapsed: Duration, margin: Duration) -> Option<Duration> {
        let allowed = self.allowed(side)?;
        if elapsed > allowed + margin {
            return Some(elapsed - allowed);
        }
        if let TimeControl::Clock { increment, .. } = self.controls[index(side)] {
            self.remaining[index(side)] = allowed.saturating_sub(elapsed) + increment;
        }
        None
    }
}

fn index(side: Color) -> usize {
    usize::from(side.is_black())
}

/// The winner (`Some(None)`: a draw) where both engines have agreed for long enough. `turn` is to
/// move.
fn adjudicate(
    evaluations: &[MoveEvaluation],
    plies: usize,
    turn: Color,
    rules: &Rules,
) -> Option<Option<Color>> {
    let value = |evaluation: &MoveEvaluation| match evaluation.score? {
        // Whatever an engine writes, it has a negative.
        Score::Centipawns(value) => Some(value.max(-i32::MAX)),
        Score::Mate(moves) if moves > 0 => Some(i32::MAX),
        Score::Mate(_) => Some(-i32::MAX),
    };
    // The last plies from the side of the player to move: the last evaluation is the opponent's.
    let recent = |count: usize| -> Option<Vec<i32>> {
        let from = evaluations.len().checked_sub(count)?;
        let signs = [-1, 1];
        evaluations[from..]
            .iter()
            .rev()
            .enumerate()
            .map(|(back, evaluation)| Some(value(evaluation)? * signs[back % 2]))
            .collect()
    };
    if rules.win_centipawns > 0
        && let Some(values) = recent(rules.win_plies.max(2))
    {
        if values.iter().all(|&value| value >= rules.win_centipawns) {
            return Some(Some(turn));
        }
        if values.iter().all(|&value| value <= -rules.win_centipawns) {
            return Some(Some(!turn));
        }
    }
    if rules.draw_centipawns >= 0
        && plies >= rules.draw_from_ply
        && let Some(values) = recent(rules.draw_plies.max(2))
        && values.iter().all(|value| value.abs() <= rules.draw_centipawns)
    {
        return Some(None);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evaluations(values: &[i32]) -> Vec<MoveEvaluation> {
        values
            .iter()
            .map(|&value| MoveEvaluation {
                score: Some(Score::Centipawns(value)),
                depth: None,
                elapsed: Duration::ZERO,
            })
            .collect()
    }

    #[test]
    fn both_must_agree() {
        let rules = Rules { win_plies: 4, draw_plies: 4, draw_from_ply: 10, ..Rules::default() };
        let judge =
            |values: &[i32], plies| adjudicate(&evaluations(values), plies, Color::White, &rules);
        assert_eq!(judge(&[1200, -1500, 1200, -1500], 4), Some(Some(Color::White)));
        assert_eq!(judge(&[-1200, 1500, -1200, 1500], 4), Some(Some(Color::Black)));
        assert_eq!(judge(&[1200, -900, 1200, -1500], 4), None, "one side is not convinced");
        assert_eq!(judge(&[1200, 1500, 1200, 1500], 4), None, "both see themselves winning");
        assert_eq!(judge(&[1200, -1500, 1200], 4), None, "not for long enough");
        assert_eq!(judge(&[0, 5, -8, 0], 10), Some(None));
        assert_eq!(judge(&[0, 5, -8, 0], 9), None);
        assert_eq!(judge(&[0, 5, -9, 0], 10), None);
        let never = rules.without_adjudication();
        assert_eq!(
            adjudicate(&evaluations(&[1200, -1500, 1200, -1500]), 99, Color::White, &never),
            None
        );
        assert_eq!(adjudicate(&evaluations(&[0, 0, 0, 0]), 99, Color::White, &never), None);
    }

    #[test]
    fn a_clock_runs_down_and_gains_its_increment() {
        let second = Duration::from_secs(1);
        let control = TimeControl::Clock { base: second, increment: second / 10 };
        let mut clocks = Clocks::new([control; 2]);
        assert_eq!(clocks.spend(Color::White, second / 2, Duration::ZERO), None);
        assert_eq!(clocks.remaining, [second / 2 + second / 10, second]);
        assert_eq!(
            clocks.spend(Color::Black, second + second / 100, second / 50),
            None,
            "forgiven"
        );
        assert_eq!(clocks.remaining[1], second / 10);
        assert_eq!(clocks.spend(Color::Black, second, second / 50), Some(second - second / 10));
    }

    #[test]
    fn each_side_has_its_own_control() {
        let second = Duration::from_secs(1);
        let clock = TimeControl::Clock { base: second, increment: Duration::ZERO };
        let mut clocks = Clocks::new([TimeControl::Nodes(7), clock]);
        assert_eq!(clocks.task(Color::White), Task::Nodes(7));
        assert_eq!(clocks.spend(Color::White, 99 * second, Duration::ZERO), None);
        assert_eq!(clocks.spend(Color::Black, second / 4, Duration::ZERO), None);
        let left = second - second / 4;
        assert_eq!(
            clocks.task(Color::Black),
            Task::Clock {
                white: left,
                black: left,
                white_increment: Duration::ZERO,
                black_increment: Duration::ZERO
            }
        );
    }
}
