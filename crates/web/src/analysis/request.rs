//! The page's request for an analysis, and the checked task.

use board::Game;
use nets::System;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    ApiError, Engines, Opponent,
    game_state::{color_name, destinations, moves_and_fens},
    new_game::{correction, parse_game, parse_position},
};

/// The most principal variations.
const MAX_LINES: usize = 5;
/// The largest batch, in positions.
const MAX_BATCH: usize = 256;

/// The page's request: a position and settings of the search.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnalysisRequest {
    /// The page's number of the request; every answer carries it.
    pub tag: u32,
    /// FEN of the start position.
    pub start: String,
    #[serde(default)]
    pub chess960: bool,
    /// Moves from the start position, in UCI notation.
    #[serde(default)]
    pub moves: Vec<String>,
    pub system: String,
    /// Number of principal variations.
    #[serde(default = "one")]
    pub lines: usize,
    /// Positions evaluated together; 0: the evaluator's preferred batch size.
    #[serde(default)]
    pub batch: usize,
}

fn one() -> usize {
    1
}

/// A checked request.
#[derive(Clone, Debug)]
pub struct AnalysisTask {
    pub tag: u32,
    /// What was corrected in the position.
    pub correction: Option<String>,
    pub game: Game,
    pub system: System,
    pub lines: usize,
    pub batch: usize,
}

/// Settings that a search is built for: system, number of lines, batch size.
pub type SearchKey = (System, usize, usize);

impl AnalysisRequest {
    /// Checks the request.
    ///
    /// # Errors
    /// The position, a move, the system or a number is not allowed.
    pub fn check(self, engines: &Engines) -> Result<AnalysisTask, ApiError> {
        let system: System = self.system.parse().map_err(ApiError)?;
        engines.network(Opponent::System(system))?;
        if !(1..=MAX_LINES).contains(&self.lines) || self.batch > MAX_BATCH {
            return Err(ApiError::new(format!(
                "there are 1 to {MAX_LINES} lines, and batches of at most {MAX_BATCH}"
            )));
        }
        let start = parse_position(&self.start, self.chess960)?;
        let game = parse_game(start, self.moves.iter().map(String::as_str))?;
        Ok(AnalysisTask {
            tag: self.tag,
            correction: correction(&self.start, self.chess960),
            game,
            system,
            lines: self.lines,
            batch: self.batch,
        })
    }
}

impl AnalysisTask {
    /// The position for the board, as JSON.
    #[must_use]
    pub fn position_json(&self) -> Value {
        let position = self.game.position();
        let (moves, fens) = moves_and_fens(&self.game);
        let sans: Vec<String> = moves.into_iter().map(|(_, san)| san).collect();
        json!({
            "type": "position",
            "tag": self.tag,
            "fen": position.fen(),
            "fens": fens,
            "sans": sans,
            "turn": color_name(position.turn()).to_lowercase(),
            "check": position.is_check(),
            "destinations": destinations(position),
            "over": self.game.end().is_some(),
            "correction": self.correction,
        })
    }

    /// Settings of the search.
    #[must_use]
    pub fn key(&self) -> SearchKey {
        (self.system, self.lines, self.batch)
    }
}
