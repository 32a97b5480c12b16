//! A visitor's game against an engine: its settings, moves, clocks and result, and how it is stored
//! and shown.

use std::time::Duration;

use board::{CastlingMode, Color, File, Game, GameEnd, Move, Position, Square, to_san, to_uci};
use games::PgnWriter;
use search::{Clock, Limits};
use serde_json::{Map, Value, json};

use crate::{
    ApiError, EngineLevel, Opponent, StoredGame, StoredMove,
    new_game::{parse_game, parse_position},
};

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
        let damaged = |error: String| ApiError(format!("The stored game is damaged: {error}."));
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

    /// The game as the page shows it.
    ///
    /// `running`: milliseconds that the side to move has used, where its clock runs. `thinking`:
    /// `no`, `waiting` or `yes`. `notice`: an error of the engine.
    #[must_use]
    pub fn to_json(
        &self,
        id: i64,
        running: Option<u64>,
        thinking: &str,
        notice: Option<&str>,
    ) -> Value {
        let position = self.game.position();
        let over = self.result.is_some();
        let (moves, fens) = moves_and_fens(&self.game);
        let moves: Vec<Value> =
            moves.into_iter().map(|(uci, san)| json!({ "uci": uci, "san": san })).collect();
        json!({
            "type": "game",
            "id": id,
            "begun": self.begun,
            "system": self.opponent.name(),
            "engine": self.network_name,
            "level": self.level,
            "level_text": self.level_text(),
            "side": color_name(!self.engine_side).to_lowercase(),
            "chess960": self.is_chess960(),
            "moves": moves,
            "fens": fens,
            "turn": color_name(position.turn()).to_lowercase(),
            "check": position.is_check(),
            "destinations": if over { json!({}) } else { destinations(position) },
            "result": self.result,
            "takeback": self.ply_to_take_back().is_some(),
            "clock": self.clock_json(running),
            "thinking": thinking,
            "notice": notice,
        })
    }

    /// The level and the threads in words.
    fn level_text(&self) -> String {
        let level = self.level.describe();
        match self.threads {
            None => level,
            Some(1) => format!("{level}, 1 thread"),
            Some(threads) => format!("{level}, {threads} threads"),
        }
    }

    /// Time control and present clocks, in milliseconds.
    fn clock_json(&self, running: Option<u64>) -> Option<Value> {
        let (initial, increment) = self.time_control?;
        let mover = self.game.position().turn();
        let used = running.unwrap_or(self.spent);
        let left = |side: Color| {
            self.left(side).map(|left| if side == mover { left.saturating_sub(used) } else { left })
        };
        let is_running = self.result.is_none() && running.is_some();
        Some(json!({
            "initial": initial,
            "increment": increment,
            "white": left(Color::White),
            "black": left(Color::Black),
            "running": is_running.then(|| color_name(mover).to_lowercase()),
        }))
    }

    /// The game as PGN, with the clocks as comments.
    #[must_use]
    pub fn to_pgn(&self) -> String {
        let winner = self.result.as_ref().map(|(result, _)| match result.as_str() {
            "1-0" => Some(Color::White),
            "0-1" => Some(Color::Black),
            _ => None,
        });
        let mut text = PgnWriter::new(self.game.start(), &self.pgn_tags(), winner);
        let mut mover = self.game.start().turn();
        for (&mv, clocks) in self.game.moves().iter().zip(&self.clocks) {
            let left = clocks.map(|(white, black)| if mover.is_white() { white } else { black });
            text.play(mv, left.map(clock_comment).as_deref());
            mover = !mover;
        }
        if let Some((_, ending)) = &self.result {
            text.comment(ending);
        }
        text.finish()
    }

    fn pgn_tags(&self) -> Vec<(&'static str, String)> {
        let engine = match self.opponent {
            Opponent::Maia(_) => self.opponent.to_string(),
            Opponent::System(_) | Opponent::Fast => {
                let (system, level) = (self.opponent.system(), self.level_text());
                format!("Batch First ({system}, {}, {level})", self.network_name)
            }
        };
        let visitor = "Visitor".to_owned();
        let (white, black) =
            if self.engine_side.is_white() { (engine, visitor) } else { (visitor, engine) };
        let date = self.begun.get(..10).unwrap_or("????-??-??").replace('-', ".");
        let mut tags = vec![
            ("Event", "Game on the Batch First page".to_owned()),
            ("Site", "?".to_owned()),
            ("Date", date),
            ("Round", "-".to_owned()),
            ("White", white),
            ("Black", black),
        ];
        if let Some((initial, increment)) = self.time_control {
            let seconds = |milliseconds: u64| milliseconds as f64 / 1000.0;
            tags.push(("TimeControl", format!("{}+{}", seconds(initial), seconds(increment))));
        }
        tags
    }
}

fn clock_comment(milliseconds: u64) -> String {
    let seconds = milliseconds / 1000;
    format!("[%clk {}:{:02}:{:02}]", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// `White` or `Black`.
pub fn color_name(side: Color) -> &'static str {
    if side.is_white() { "White" } else { "Black" }
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

/// A game's moves in UCI notation and SAN, and the FENs of its positions: one more than moves.
pub fn moves_and_fens(game: &Game) -> (Vec<(String, String)>, Vec<String>) {
    let mut position = game.start().clone();
    let mut moves = Vec::new();
    let mut fens = vec![position.fen()];
    for &mv in game.moves() {
        moves.push((to_uci(&position, mv), to_san(&position, mv)));
        position.play(mv);
        fens.push(position.fen());
    }
    (moves, fens)
}

/// Where the moving piece ends; the king's square for castling.
pub fn final_square(mv: Move) -> Square {
    match mv {
        Move::Castle { king, rook } => {
            let file = if rook > king { File::G } else { File::C };
            Square::from_coords(file, king.rank())
        }
        _ => mv.to(),
    }
}

/// The legal moves as a map from each from-square to its target squares. The target of castling is
/// the rook's square and, in standard chess, also the king's final square.
pub fn destinations(position: &Position) -> Value {
    let mut all: Map<String, Value> = Map::new();
    for mv in position.legal_moves() {
        let Some(from) = mv.from() else { continue };
        let mut targets = vec![mv.to()];
        if matches!(mv, Move::Castle { .. }) && position.castling_mode() == CastlingMode::Standard {
            targets.push(final_square(mv));
        }
        let entry = all.entry(from.to_string()).or_insert_with(|| json!([]));
        if let Value::Array(list) = entry {
            for target in targets {
                // The four promotions of a pawn have one target.
                let target = Value::from(target.to_string());
                if !list.contains(&target) {
                    list.push(target);
                }
            }
        }
    }
    Value::Object(all)
}
