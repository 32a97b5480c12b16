//! One game between two players: it asks them for moves in turn, runs their clocks, and records the
//! result and the side at fault.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use board::{Color, Game, Score};

use crate::{Adjudicator, Fault, Player, Termination, TimeControl, time_control::Clocks};

/// The evaluation of a move by the engine that played it.
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
    /// Plies of the opening, which the engines did not choose.
    pub book_plies: usize,
    /// One entry a ply after the opening.
    pub evaluations: Vec<MoveEvaluation>,
    /// `None` for a draw.
    pub winner: Option<Color>,
    pub termination: Termination,
}

/// Plays a game from the end of `opening` between White and Black, each with its time control.
/// `None` if `stop` is set before the end.
pub fn play_game(
    players: [&mut dyn Player; 2],
    opening: &Game,
    controls: [TimeControl; 2],
    adjudicator: Adjudicator<'_>,
    stop: &AtomicBool,
) -> Option<PlayedGame> {
    let rules = adjudicator.rules;
    let [white, black] = players;
    let mut game = opening.clone();
    let book_plies = game.moves().len();
    let mut evaluations: Vec<MoveEvaluation> = Vec::new();
    let mut clocks = Clocks::new(controls);
    let (winner, termination) = loop {
        if let Some(result) = adjudicator.result(&game, book_plies, &evaluations) {
            break result;
        }
        if stop.load(Ordering::Relaxed) {
            return None;
        }
        let turn = game.position().turn();
        let player: &mut dyn Player = if turn.is_white() { &mut *white } else { &mut *black };
        let lost_by = |fault| (Some(!turn), Termination::Fault { side: turn, fault });
        let timeout = clocks.allowed(turn).unwrap_or(rules.untimed) + rules.margin + rules.stall;
        let reply = match player.think(&game, &clocks.request(turn), timeout) {
            Ok(reply) => reply,
            Err(fault) => break lost_by(fault),
        };
        if let Some(excess) = clocks.spend(turn, reply.elapsed, rules.margin) {
            let fault = Fault::TimeForfeit(excess);
            let winner = game.position().winner_on_time(turn);
            break (winner, Termination::Fault { side: turn, fault });
        }
        let Some(best) = reply.best else {
            break lost_by(Fault::IllegalMove("no move in a position with moves".to_owned()));
        };
        evaluations.push(MoveEvaluation {
            score: reply.score,
            depth: reply.depth,
            elapsed: reply.elapsed,
        });
        game.play(best);
    };
    Some(PlayedGame { game, book_plies, evaluations, winner, termination })
}
