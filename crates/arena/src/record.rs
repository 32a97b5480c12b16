//! The record of a finished game: players, result, termination and PGN. It is one line of JSON in
//! the journal of a match.

use board::Color;
use serde::{Deserialize, Serialize};

use crate::{PlayedGame, ScheduledGame, Termination};

/// The record of a finished game; the names of its fields are part of the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GameRecord {
    /// Number of the game, from 0; `number / 2` is the number of its pair.
    pub number: usize,
    /// Indices of the players.
    pub white: usize,
    pub black: usize,
    /// Index of the opening in the match's list.
    pub opening: usize,
    /// White's half points: 2 for a win, 1 for a draw, 0 for a loss.
    pub white_half_points: u8,
    /// The termination in words.
    pub ending: String,
    pub fault: Option<FaultRecord>,
    pub plies: usize,
    /// Thinking time of both sides, in seconds.
    pub seconds: f64,
    pub pgn: String,
}

/// The fault by which a player lost a game.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FaultRecord {
    /// Index of the player.
    pub player: usize,
    /// The kind, as in [`crate::Fault::name`].
    pub kind: String,
    /// The fault as a sentence.
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

    /// The number of the pair that this game belongs to.
    #[must_use]
    pub fn pair(&self) -> usize {
        self.number / 2
    }

    /// The half points of a player; `None` if it did not play.
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

    /// The result as in PGN.
    #[must_use]
    pub fn result(&self) -> &'static str {
        match self.white_half_points {
            2 => "1-0",
            1 => "1/2-1/2",
            _ => "0-1",
        }
    }
}
