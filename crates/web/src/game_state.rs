//! A visitor's game against an engine: its settings, moves, clocks and result, and how it is
//! stored.

mod shown;

use std::time::Duration;

use board::{CastlingMode, Color, Game, GameEnd, Move, to_uci};
use search::{Clock, Limits};

use crate::{
    ApiError, EngineLevel, Opponent, StoredGame, StoredMove,
    new_game::{parse_game, parse_position},
};

pub use shown::{color_name, destinations, final_square, moves_and_fens};

/// Plies after which a game is drawn.
pub const MAX_PLIES: usize = 1_200;

/// The result in PGN notation (`1-0`, `0-1`, `1/2-1/2`), and its reason in words.
pub type GameResult = (String, String);

/// A game in progress, or a finished one.
#[derive(Clone, Debug)]
pub struct GameState {
    pub opponent: Opponent,
    pub network_name: String,
    pub level: EngineLevel,
    /// Threads of the engine's own evaluator; `None`: the evaluator that all searches share.
    pub threads: Option<usize>,
    pub engine_side: Color,
    /// Initial time and increment of both sides, in milliseconds.
    pub time_control: Option<(u64, u64)>,
    /// Milliseconds that the side to move had used when the game was last closed.
    pub spent: u64,
    pub result: Option<GameResult>,
    /// UTC, as in `2026-11-21T12:00:00Z`; empty for a game that was not stored yet.
    pub begun: String,
    game: Game,
    /// White's and Black's clocks after each move, in milliseconds.
    clocks: Vec<Option<(u64, u64)>>,
}

impl GameState {
    /// A new game; the moves that `game` has already cost no time.
    #[must_use]
    pub fn new(
        opponent: Opponent,
        network_name: String,
        level: EngineLevel,
        engine_side: Color,
        time_control: Option<(u64, u64)>,
        game: Game,
    ) -> Self {
        let clocks = vec![time_control.map(|(initial, _)| (initial, initial)); game.moves().len()];
        Self {
            opponent,
            network_name,
            level,
            threads: None,
            engine_side,
            time_control,
            spent: 0,
            result: None,
            begun: String::new(),
            game,
            clocks,
        }
    }

    /// A game from the store.
    ///
    /// # Errors
    /// The stored game is damaged.
    pub fn from_stored(stored: &StoredGame) -> Result<Self, ApiError> {
        let damaged =
            |error: String| ApiError::sentence(&format!("The stored game is damaged: {error}"));
        let start = parse_position(&stored.start, stored.chess960)?;
        let game = parse_game(start, stored.moves.iter().map(|mv| mv.uci.as_str()))?;
        Ok(Self {
            opponent: stored.system.parse().map_err(damaged)?,
            network_name: stored.engine.clone(),
            level: serde_json::from_str(&stored.level)
                .map_err(|error| damaged(error.to_string()))?,
            threads: stored.threads,
            engine_side: Color::from_white(stored.engine_white),
            time_control: stored.clock,
            spent: stored.spent,
            result: stored.result.clone(),
            begun: stored.begun.clone(),
            game,
            clocks: stored.moves.iter().map(|mv| mv.clocks).collect(),
        })
    }

    /// The game as it is stored.
    #[must_use]
    pub fn to_stored(&self) -> StoredGame {
        let mut position = self.game.start().clone();
        let moves = self.game.moves().iter().zip(&self.clocks).map(|(&mv, &clocks)| {
            let uci = to_uci(&position, mv);
            position.play(mv);
            StoredMove { uci, clocks }
        });
        let moves = moves.collect();
        StoredGame {
            system: self.opponent.name(),
            engine: self.network_name.clone(),
            // A level is a name and a number: its serialisation cannot fail.
            level: serde_json::to_string(&self.level).unwrap_or_default(),
            threads: self.threads,
            engine_white: self.engine_side.is_white(),
            start: self.game.start().fen(),
            chess960: self.is_chess960(),
            clock: self.time_control,
            spent: self.spent,
            result: self.result.clone(),
            moves,
            begun: self.begun.clone(),
        }
    }

    /// The moves so far.
    #[must_use]
    pub fn game(&self) -> &Game {
        &self.game
    }

    fn is_chess960(&self) -> bool {
        self.game.start().castling_mode() == CastlingMode::Chess960
    }

    /// Whether the game is not over and the engine is to move.
    #[must_use]
    pub fn awaits_engine(&self) -> bool {
        self.result.is_none() && self.game.position().turn() == self.engine_side
    }

    /// A side's clock after the last move, in milliseconds.
    #[must_use]
    pub fn left(&self, side: Color) -> Option<u64> {
        let (initial, _) = self.time_control?;
        let (white, black) = self.clocks.last().copied().flatten().unwrap_or((initial, initial));
        Some(if side.is_white() { white } else { black })
    }

    /// Limits of the engine's next search: its level, and its clock where there is one.
    #[must_use]
    pub fn limits(&self) -> Limits {
        let clock = self.time_control.zip(self.left(self.engine_side)).map(
            |((_, increment), remaining)| Clock {
                remaining: Duration::from_millis(remaining.saturating_sub(self.spent)),
                increment: Duration::from_millis(increment),
                moves_to_go: None,
            },
        );
        Limits { clock, ..self.level.limits() }
    }

    /// The record of a move after `used` milliseconds: the move with the clocks, and the result if it
    /// ends the game.
    #[must_use]
    pub fn prepare(&self, mv: Move, used: u64) -> (StoredMove, Option<GameResult>) {
        let mover = self.game.position().turn();
        let clocks = self.time_control.and_then(|(_, increment)| {
            let own = self.left(mover)?.saturating_sub(used) + increment;
            let other = self.left(!mover)?;
            Some(if mover.is_white() { (own, other) } else { (other, own) })
        });
        let mut next = self.game.clone();
        next.play(mv);
        (StoredMove { uci: to_uci(self.game.position(), mv), clocks }, result_of(&next))
    }

    /// Plays a move after its record from [`GameState::prepare`] is stored.
    pub fn play(&mut self, mv: Move, stored: &StoredMove, result: Option<GameResult>) {
        self.game.play(mv);
        self.clocks.push(stored.clocks);
        self.spent = 0;
        self.result = result;
    }

    /// Plies that remain after a take-back: those before the visitor's last move. `None` if the
    /// visitor has not moved.
    #[must_use]
    pub fn ply_to_take_back(&self) -> Option<usize> {
        let first = self.game.start().turn();
        let is_visitors =
            |ply: &usize| (if ply.is_multiple_of(2) { first } else { !first }) != self.engine_side;
        (0..self.game.moves().len()).rev().find(is_visitors)
    }

    /// Removes the moves from `ply` on, and the result.
    pub fn truncate(&mut self, ply: usize) {
        let mut game = Game::new(self.game.start().clone());
        self.game.moves().iter().take(ply).for_each(|&mv| game.play(mv));
        self.game = game;
        self.clocks.truncate(ply);
        self.spent = 0;
        self.result = None;
    }

    /// The result when a side's time is up: a draw if the other side could never mate.
    #[must_use]
    pub fn lost_on_time(&self, loser: Color) -> GameResult {
        match self.game.position().winner_on_time(loser) {
            None => ("1/2-1/2".to_owned(), "time out, but nothing to mate with".to_owned()),
            Some(winner) => {
                (win(winner).to_owned(), format!("{} ran out of time", color_name(loser)))
            }
        }
    }

    /// The result when the visitor resigns.
    #[must_use]
    pub fn resigned(&self) -> GameResult {
        let reason = format!("{} resigned", color_name(!self.engine_side));
        (win(self.engine_side).to_owned(), reason)
    }

    /// The result when the engine takes the visitor's draw offer.
    #[must_use]
    pub fn draw_agreed(&self) -> GameResult {
        ("1/2-1/2".to_owned(), "draw by agreement".to_owned())
    }
}

/// The result in PGN notation when `winner` wins.
fn win(winner: Color) -> &'static str {
    if winner.is_white() { "1-0" } else { "0-1" }
}

/// The result where the rules end a game. Draws by repetition and the fifty-move rule need no
/// claim.
fn result_of(game: &Game) -> Option<GameResult> {
    let draw = |why: &str| ("1/2-1/2".to_owned(), why.to_owned());
    Some(match game.end() {
        Some(GameEnd::Checkmate { winner }) => (win(winner).to_owned(), "checkmate".to_owned()),
        Some(GameEnd::Stalemate) => draw("stalemate"),
        Some(GameEnd::InsufficientMaterial) => draw("insufficient material"),
        Some(GameEnd::Repetition) => draw("threefold repetition"),
        Some(GameEnd::FiftyMoves) => draw("fifty-move rule"),
        None if game.moves().len() >= MAX_PLIES => draw("too long"),
        None => return None,
    })
}
