//! A finished game as it is remembered: who, how, and its PGN. One line of JSON each in the journal
//! of a match.

use board::Color;
use serde::{Deserialize, Serialize};

use crate::{PlayedGame, ScheduledGame, Termination};

/// A finished game.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GameRecord {
    /// From 0; `number / 2` is the pair of games with colours changed.
    pub number: usize,
    /// Indices of the players.
    pub white: usize,
    pub black: usize,
    /// Index of the opening in the match's list.
    pub opening: usize,
    /// White's half points: 2 a win, 1 a draw, 0 a loss.
    pub white_half_points: u8,
    /// In words.
    pub ending: String,
    pub fault: Option<FaultRecord>,
    pub plies: usize,
    /// Both sides' thinking time.
    pub seconds: f64,
    pub pgn: String,
}

/// Who lost by a fault, and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FaultRecord {
    /// Index of the player.
    pub player: usize,
    /// As [`crate::Fault::name`] says it.
    pub kind: String,
    /// One sentence.
    pub detail: String,
}

impl GameRecord {
    /// The record of a game; `opening` is the index in the list of openings.
    #[must_use]
    pub fn new(scheduled: ScheduledGame, opening: usize, played: &PlayedGame, pgn: String) -> Self {
        let fault = match &played.termination {
            Termination::Fault { side, fault } => Some(FaultRecord {
                player: if side.is_white() { scheduled.white } else { scheduled.black },
                kind: fault.name().to_owned(),
                detail: fault.describe(),
            }),
            _ => None,
        };
        Self {
            number: scheduled.number,
            white: scheduled.white,
            black: scheduled.black,
            opening,
            white_half_points: match played.winner {
                Some(Color::White) => 2,
                None => 1,
                Some(Color::Black) => 0,
            },
            ending: crate::pgn::describe(&played.termination),
            fault,
            plies: played.game.moves().len(),
            seconds: played
                .evaluations
                .iter()
                .map(|evaluation| evaluation.elapsed.as_secs_f64())
                .sum(),
            pgn,
        }
    }

    /// The pair of games that this one belongs to.
    #[must_use]
    pub fn pair(&self) -> usize {
        self.number / 2
    }

    /// Half points of a player, `None` where it did not play.
    #[must_use]
    pub fn half_points(&self, player: usize) -> Option<u8> {
        if player == self.white {
            Some(self.white_half_points)
        } else if player == self.black {
            Some(2 - self.white_half_points)
        } else {
            None
        }
    }

    /// The result as PGN has it.
    #[must_use]
    pub fn result(&self) -> &'static str {
        match self.white_half_points {
            2 => "1-0",
            1 => "1/2-1/2",
            _ => "0-1",
        }
    }
}
