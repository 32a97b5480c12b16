//! How a game begins: the page's request for a new game, and positions and games from its text.

use board::{CastlingMode, Color, Game, Position, ReadFen, parse_uci};
use games::ReadGame;
use serde::Deserialize;

use crate::{ApiError, EngineLevel, GameState, Opponent, game_state::MAX_PLIES};

/// Longest initial time: three hours, in milliseconds.
const MAX_INITIAL: u64 = 3 * 3_600_000;
/// Longest increment: one minute, in milliseconds.
const MAX_INCREMENT: u64 = 60_000;
/// Longest FEN, in bytes.
const MAX_FEN: usize = 128;
/// Longest PGN, in bytes.
const MAX_PGN: usize = 48 * 1024;

/// The page's request for a new game.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewGameRequest {
    /// Name of the opponent, a system or a Maia.
    pub system: String,
    /// The visitor's side: `white`, `black` or `random`.
    pub side: String,
    pub level: EngineLevel,
    /// Initial time and increment of both sides, in milliseconds.
    #[serde(default)]
    pub clock: Option<(u64, u64)>,
    #[serde(default)]
    pub fen: String,
    /// A game to continue from its last position.
    #[serde(default)]
    pub pgn: String,
    #[serde(default)]
    pub chess960: bool,
    /// Number of a Chess960 start position, 0 to 959; random where it is missing. Not used with a
    /// FEN or PGN.
    #[serde(default)]
    pub chess960_number: Option<u16>,
}

impl NewGameRequest {
    /// The requested game.
    ///
    /// `random` decides a random side and start position. `network_name` gives the name of an
    /// opponent's network.
    ///
    /// # Errors
    /// The opponent is not available, or a side, level, clock or position is not allowed.
    pub fn into_game(
        self,
        random: u64,
        network_name: impl Fn(Opponent) -> Result<String, ApiError>,
    ) -> Result<GameState, ApiError> {
        let opponent: Opponent = self.system.parse().map_err(ApiError)?;
        let network_name = network_name(opponent)?;
        self.check_limits()?;
        let engine_side = self.engine_side(random)?;
        let game = self.game(random)?;
        if game.end().is_some() {
            return Err(ApiError::new("the game is over in that position"));
        }
        Ok(GameState::new(opponent, network_name, self.level, engine_side, self.clock, game))
    }

    fn check_limits(&self) -> Result<(), ApiError> {
        if !self.level.is_allowed(self.clock.is_some()) {
            return Err(ApiError::new("that level is beyond the limits of this server"));
        }
        if let Some((initial, increment)) = self.clock
            && !((1_000..=MAX_INITIAL).contains(&initial) && increment <= MAX_INCREMENT)
        {
            return Err(ApiError::new(
                "a clock has 1 second to 3 hours, and at most a minute a move",
            ));
        }
        Ok(())
    }

    fn engine_side(&self, random: u64) -> Result<Color, ApiError> {
        match self.side.as_str() {
            "white" => Ok(Color::Black),
            "black" => Ok(Color::White),
            "random" => Ok(Color::from_white(random & 1 == 0)),
            other => Err(ApiError::new(format!(
                "`{other:.20}` is not a side; choose white, black or random"
            ))),
        }
    }

    /// What was corrected in the position to play from.
    pub fn correction(&self) -> Option<String> {
        let is_used = self.pgn.trim().is_empty() && !self.fen.trim().is_empty();
        is_used.then(|| correction(self.fen.trim(), self.chess960)).flatten()
    }

    /// The moves before the game begins: a PGN comes before a FEN, a FEN before a Chess960 number.
    fn game(&self, random: u64) -> Result<Game, ApiError> {
        if !self.pgn.trim().is_empty() {
            return parse_pgn(&self.pgn);
        }
        if !self.fen.trim().is_empty() {
            return Ok(Game::new(parse_position(self.fen.trim(), self.chess960)?));
        }
        if !self.chess960 {
            return Ok(Game::default());
        }
        let number = self.chess960_number.unwrap_or((random >> 1) as u16 % 960);
        Position::chess960(number)
            .map(Game::new)
            .ok_or_else(|| ApiError::new("Chess960 start positions have the numbers 0 to 959"))
    }
}

/// A position from the page's FEN.
///
/// # Errors
/// The FEN is too long, or is not a legal position.
pub fn parse_position(fen: &str, chess960: bool) -> Result<Position, ApiError> {
    read_position(fen, chess960).map(|read| read.position)
}

/// What was corrected in the page's FEN, as a sentence without its full stop.
pub fn correction(fen: &str, chess960: bool) -> Option<String> {
    read_position(fen, chess960).ok()?.warning.map(|warning| warning.to_string())
}

fn read_position(fen: &str, chess960: bool) -> Result<ReadFen, ApiError> {
    if fen.len() > MAX_FEN {
        return Err(ApiError::new(format!("a FEN has at most {MAX_FEN} characters")));
    }
    let mode = if chess960 { CastlingMode::Chess960 } else { CastlingMode::Standard };
    Ok(Position::read_fen(fen, Some(mode))?)
}

/// A game from its start position and moves in UCI notation.
///
/// # Errors
/// A move is not legal, or there are too many.
pub fn parse_game<'a>(
    start: Position,
    moves: impl IntoIterator<Item = &'a str>,
) -> Result<Game, ApiError> {
    let mut game = Game::new(start);
    for uci in moves {
        refuse_if_full(&game)?;
        let mv = parse_uci(game.position(), uci)?;
        game.play(mv);
    }
    Ok(game)
}

/// The first game of a PGN.
fn parse_pgn(pgn: &str) -> Result<Game, ApiError> {
    if pgn.len() > MAX_PGN {
        return Err(ApiError::new(format!("a PGN has at most {} KiB here", MAX_PGN / 1024)));
    }
    let first = games::read_pgn(pgn.as_bytes()).next();
    let read = first
        .transpose()
        .map_err(|error| ApiError::new(format!("the PGN cannot be read: {error}")))?
        .ok_or_else(|| ApiError::new("the PGN holds no game"))?;
    let game = match read {
        ReadGame::Game(game) => *game,
        ReadGame::LeftOut(game) => {
            return Err(ApiError::new(format!("in the PGN {}", game.reason)));
        }
    };
    if let Some(unread) = game.unread {
        return Err(ApiError::new(format!("in the PGN {unread}")));
    }
    let game = game.game;
    refuse_if_full(&game)?;
    Ok(game)
}

fn refuse_if_full(game: &Game) -> Result<(), ApiError> {
    if game.moves().len() >= MAX_PLIES {
        return Err(ApiError::new(format!("a game has at most {MAX_PLIES} plies here")));
    }
    Ok(())
}
