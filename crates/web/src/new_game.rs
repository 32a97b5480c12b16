//! How a game begins: the page's request for a new game, and positions and games from its text.

use board::{CastlingMode, Color, FenWarning, Game, Position, ReadFen, parse_uci};
use games::PgnGame;
use serde::Deserialize;

use crate::{
    ApiError, EngineLevel, Engines, GameState, Opponent,
    analysis::{odd, only_game},
    error::sentence,
    game_state::MAX_PLIES,
};

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
    /// Threads of the engine; where it is missing, the engine evaluates with all others.
    #[serde(default)]
    pub threads: Option<usize>,
    /// Initial time and increment of both sides, in milliseconds.
    #[serde(default)]
    pub clock: Option<(u64, u64)>,
    /// The position to start from.
    #[serde(default)]
    pub fen: Option<String>,
    /// A game to continue from its last position.
    #[serde(default)]
    pub pgn: Option<String>,
    #[serde(default)]
    pub chess960: bool,
    /// Number of a Chess960 start position, 0 to 959; random where it is missing. Not used with a
    /// FEN or PGN.
    #[serde(default)]
    pub chess960_number: Option<u16>,
}

/// Why a request for a game is refused, and the field of the request that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedGame {
    /// Name of the field; empty where no field is wrong.
    pub field: &'static str,
    pub error: ApiError,
}

impl From<ApiError> for RefusedGame {
    fn from(error: ApiError) -> Self {
        Self { field: "", error }
    }
}

/// Names the field that an error is about.
fn at(field: &'static str) -> impl FnOnce(ApiError) -> RefusedGame {
    move |error| RefusedGame { field, error }
}

impl NewGameRequest {
    /// The requested game.
    ///
    /// `random` decides a random side and start position. `engines` are the opponents of this server.
    ///
    /// # Errors
    /// The opponent is not available, or a side, level, clock or position is not allowed.
    pub fn into_game(self, random: u64, engines: &Engines) -> Result<GameState, RefusedGame> {
        let unknown = |_| ApiError(format!("There is no opponent {:.20}.", self.system));
        let opponent: Opponent = self.system.parse().map_err(unknown).map_err(at("system"))?;
        let network_name = engines.network(opponent).map_err(at("system"))?.name.clone();
        self.check_threads(engines.max_threads()).map_err(at("threads"))?;
        self.level.check(self.clock.is_some()).map_err(at("level"))?;
        self.check_clock().map_err(at("clock"))?;
        let engine_side = self.engine_side(random).map_err(at("side"))?;
        let game = self.game(random)?;
        if game.end().is_some() {
            let error = ApiError::new("The game is over in that position.");
            return Err(at(self.start_field())(error));
        }
        let mut state =
            GameState::new(opponent, network_name, self.level, engine_side, self.clock, game);
        state.threads = self.threads;
        Ok(state)
    }

    fn check_threads(&self, most: usize) -> Result<(), ApiError> {
        match self.threads {
            Some(_) if most == 0 => {
                Err(ApiError::new("The engine does not run on the processor here."))
            }
            Some(threads) if !(1..=most).contains(&threads) => {
                Err(ApiError(format!("The engine has 1 to {most} threads here.")))
            }
            _ => Ok(()),
        }
    }

    /// The field that the start position comes from.
    fn start_field(&self) -> &'static str {
        match (&self.pgn, &self.fen) {
            (Some(_), _) => "pgn",
            (None, Some(_)) => "fen",
            (None, None) => "chess960_number",
        }
    }

    fn check_clock(&self) -> Result<(), ApiError> {
        if let Some((initial, increment)) = self.clock
            && !((1_000..=MAX_INITIAL).contains(&initial) && increment <= MAX_INCREMENT)
        {
            return Err(ApiError::new(
                "A clock has 1 second to 3 hours, and at most a minute more a move.",
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
                "{other:.20} is not a side. Choose white, black or random."
            ))),
        }
    }

    /// What was corrected in the position to play from.
    pub fn correction(&self) -> Option<String> {
        if let Some(pgn) = &self.pgn {
            let odd = odd(&read_pgn(pgn).ok()?);
            return (!odd.is_empty()).then(|| odd.join(" "));
        }
        correction(self.fen.as_deref()?.trim(), self.chess960)
    }

    /// The moves before the game begins: a PGN comes before a FEN, a FEN before a Chess960 number.
    fn game(&self, random: u64) -> Result<Game, RefusedGame> {
        if let Some(pgn) = &self.pgn {
            return parse_pgn(pgn).map_err(at("pgn"));
        }
        if let Some(fen) = &self.fen {
            let start = parse_position(fen.trim(), self.chess960).map_err(at("fen"))?;
            return Ok(Game::new(start));
        }
        if !self.chess960 {
            return Ok(Game::default());
        }
        let number = self.chess960_number.unwrap_or((random >> 1) as u16 % 960);
        Position::chess960(number)
            .map(Game::new)
            .ok_or_else(|| ApiError::new("Chess960 starting positions have the numbers 0 to 959."))
            .map_err(at("chess960_number"))
    }
}

/// A position from the page's FEN.
///
/// # Errors
/// The FEN is too long, or is not a legal position.
pub fn parse_position(fen: &str, chess960: bool) -> Result<Position, ApiError> {
    read_position(fen, chess960).map(|read| read.position)
}

/// What was corrected in the page's FEN.
pub fn correction(fen: &str, chess960: bool) -> Option<String> {
    let warning = read_position(fen, chess960).ok()?.warning?;
    let hint = match warning {
        FenWarning::Chess960Rights { .. } => " Choose Chess960 castling to keep them.",
        FenWarning::RightsDropped { .. } => "",
    };
    Some(sentence(&warning.to_string()) + hint)
}

fn read_position(fen: &str, chess960: bool) -> Result<ReadFen, ApiError> {
    let invalid = |why: &str| ApiError(format!("That is not a valid FEN: {why}."));
    if fen.trim().is_empty() {
        return Err(invalid("it is empty"));
    }
    if fen.len() > MAX_FEN {
        return Err(invalid(&format!("it has more than {MAX_FEN} characters")));
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

/// The only game of a PGN, whose size is checked first.
fn read_pgn(pgn: &str) -> Result<PgnGame, ApiError> {
    if pgn.len() > MAX_PGN {
        return Err(ApiError::new(format!("A PGN has at most {} KiB here.", MAX_PGN / 1024)));
    }
    only_game(pgn)
}

fn parse_pgn(pgn: &str) -> Result<Game, ApiError> {
    let game = read_pgn(pgn)?.game;
    refuse_if_full(&game)?;
    Ok(game)
}

fn refuse_if_full(game: &Game) -> Result<(), ApiError> {
    if game.moves().len() >= MAX_PLIES {
        return Err(ApiError(format!("A game has at most {MAX_PLIES} plies here.")));
    }
    Ok(())
}
