//! The page's request for an analysis, and the checked task.

use board::{Game, GameEnd};
use nets::System;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    ApiError, Engines, Opponent,
    game_state::{color_name, destinations, moves_and_fens},
    new_game::{correction, parse_game, parse_position},
    openings::opening_name,
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
        let system: System = self
            .system
            .parse()
            .map_err(|_| ApiError(format!("There is no system {:.20}.", self.system)))?;
        engines.network(Opponent::System(system))?;
        if !(1..=MAX_LINES).contains(&self.lines) || self.batch > MAX_BATCH {
            return Err(ApiError::new(format!(
                "There are 1 to {MAX_LINES} lines, and batches of at most {MAX_BATCH}."
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
        json!({
            "type": "position",
            "tag": self.tag,
            "fen": position.fen(),
            "fens": fens,
            "moves": moves,
            "turn": color_name(position.turn()).to_lowercase(),
            "check": position.is_check(),
            "destinations": destinations(position),
            "openings": self.openings(fens.len()),
            "over": self.game.end().map(end_text),
            "is_last": !position.has_legal_moves(),
            "correction": self.correction,
        })
    }

    /// The name of the opening of each position, or an empty text.
    fn openings(&self, positions: usize) -> Vec<&'static str> {
        let mut position = self.game.start().clone();
        let mut names = Vec::with_capacity(positions);
        names.push(opening_name(&position).unwrap_or_default());
        for &mv in self.game.moves() {
            position.play(mv);
            names.push(opening_name(&position).unwrap_or_default());
        }
        names
    }

    /// Settings of the search.
    #[must_use]
    pub fn key(&self) -> SearchKey {
        (self.system, self.lines, self.batch)
    }
}

/// How a game has ended, for the page.
fn end_text(end: GameEnd) -> String {
    match end {
        GameEnd::Checkmate { winner } => format!("Checkmate: {} wins.", color_name(winner)),
        GameEnd::Stalemate => "Stalemate: a draw.".to_owned(),
        GameEnd::InsufficientMaterial => "A draw: neither side can mate.".to_owned(),
        GameEnd::Repetition => "A draw can be claimed: threefold repetition.".to_owned(),
        GameEnd::FiftyMoves => "A draw can be claimed: fifty moves.".to_owned(),
    }
}
