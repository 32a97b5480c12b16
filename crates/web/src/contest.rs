//! A visitor's game against an engine: what was agreed, the moves and clocks, and how it is written
//! down and shown.

use board::{CastlingMode, Color, Game, GameEnd, Move, Position, parse_uci, to_san, to_uci};
use games::PgnWriter;
use nets::System;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::{Level, Refusal, StoredGame, StoredMove};

/// Plies after which a game is drawn.
const MOST_PLIES: usize = 1_200;
/// Milliseconds: three hours, a minute.
const MOST_INITIAL: u64 = 3 * 3_600_000;
const MOST_INCREMENT: u64 = 60_000;
/// Bytes of a FEN and of a PGN.
pub const LONGEST_FEN: usize = 128;
pub const LONGEST_PGN: usize = 48 * 1024;

/// What a visitor asks for to begin a game.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Proposal {
    pub system: String,
    /// `white`, `black` or `random`.
    pub side: String,
    pub level: Level,
    /// Milliseconds: initial time and increment of both sides.
    #[serde(default)]
    pub clock: Option<(u64, u64)>,
    #[serde(default)]
    pub fen: String,
    /// A game to go on with, from its last position.
    #[serde(default)]
    pub pgn: String,
    #[serde(default)]
    pub chess960: bool,
    /// Number of a Chess960 array; drawn by lot where there is none, nor a FEN or PGN.
    #[serde(default)]
    pub array: Option<u16>,
}

/// A game that is played or was.
#[derive(Clone, Debug)]
pub struct Contest {
    pub system: System,
    pub engine_name: String,
    pub level: Level,
    /// The engine's side.
    pub engine: Color,
    /// Initial time and increment, milliseconds.
    pub clock: Option<(u64, u64)>,
    /// Milliseconds that the side to move had used when the game was last left.
    pub spent: u64,
    pub result: Option<(String, String)>,
    pub begun: String,
    game: Game,
    /// White's and Black's clocks after each move, milliseconds.
    clocks: Vec<Option<(u64, u64)>>,
}

/// The castling mode that a flag stands for.
pub fn castling_mode(chess960: bool) -> CastlingMode {
    if chess960 { CastlingMode::Chess960 } else { CastlingMode::Standard }
}

/// A position from a visitor's text.
///
/// # Errors
/// It is too long or no position.
pub fn position_of(fen: &str, chess960: bool) -> Result<Position, Refusal> {
    if fen.len() > LONGEST_FEN {
        return Err(Refusal::new(format!("a FEN has at most {LONGEST_FEN} characters")));
    }
    Ok(Position::from_fen(fen, castling_mode(chess960))?)
}

/// A game from a start position and moves in UCI notation.
///
/// # Errors
/// A move is not legal, or there are too many.
pub fn game_of<'a>(
    start: Position,
    moves: impl IntoIterator<Item = &'a str>,
) -> Result<Game, Refusal> {
    let mut game = Game::new(start);
    for uci in moves {
        if game.moves().len() >= MOST_PLIES {
            return Err(Refusal::new(format!("a game has at most {MOST_PLIES} plies here")));
        }
        let mv = parse_uci(game.position(), uci)?;
        game.play(mv);
    }
    Ok(game)
}

/// The first game of a visitor's PGN.
fn game_of_pgn(pgn: &str) -> Result<Game, Refusal> {
    if pgn.len() > LONGEST_PGN {
        return Err(Refusal::new(format!("a PGN has at most {} KiB here", LONGEST_PGN / 1024)));
    }
    let first = games::read_pgn(pgn.as_bytes()).next();
    let game = first
        .transpose()
        .map_err(|error| Refusal::new(format!("the PGN cannot be read: {error}")))?
        .ok_or_else(|| Refusal::new("the PGN holds no game"))?;
    if let Some(illegal) = game.illegal {
        let number = game.game.moves().len() / 2 + 1;
        return Err(Refusal::new(format!("the PGN's move {number}, {illegal}, is not legal")));
    }
    if game.game.moves().len() >= MOST_PLIES {
        return Err(Refusal::new(format!("a game has at most {MOST_PLIES} plies here")));
    }
    Ok(game.game)
}

impl Proposal {
    /// The game that is asked for; `chance` decides what is left to chance.
    ///
    /// # Errors
    /// Something in it is not to be had, in words.
    pub fn accept(
        self,
        chance: u64,
        engine_name: impl Fn(System) -> Option<String>,
    ) -> Result<Contest, Refusal> {
        let system: System = self.system.parse().map_err(Refusal)?;
        let engine_name = engine_name(system)
            .ok_or_else(|| Refusal::new(format!("{system} does not play here")))?;
        if !self.level.is_allowed(self.clock.is_some()) {
            return Err(Refusal::new("that level is beyond what an engine may spend here"));
        }
        if let Some((initial, increment)) = self.clock
            && !((1_000..=MOST_INITIAL).contains(&initial) && increment <= MOST_INCREMENT)
        {
            return Err(Refusal::new(
                "a clock has 1 second to 3 hours, and at most a minute a move",
            ));
        }
        let engine = match self.side.as_str() {
            "white" => Color::Black,
            "black" => Color::White,
            "random" => Color::from_white(chance & 1 == 0),
            other => {
                let known = "there are white, black and random";
                return Err(Refusal::new(format!("`{other:.20}` is no side; {known}")));
            }
        };
        let game = if !self.pgn.trim().is_empty() {
            game_of_pgn(&self.pgn)?
        } else if !self.fen.trim().is_empty() {
            Game::new(position_of(self.fen.trim(), self.chess960)?)
        } else if self.chess960 {
            let array = self.array.unwrap_or((chance >> 1) as u16 % 960);
            let start = Position::chess960(array)
                .ok_or_else(|| Refusal::new("Chess960 has the arrays 0 to 959"))?;
            Game::new(start)
        } else {
            Game::default()
        };
        if game.end().is_some() {
            return Err(Refusal::new("the game is over in that position"));
        }
        let clocks = vec![self.clock.map(|(initial, _)| (initial, initial)); game.moves().len()];
        Ok(Contest {
            system,
            engine_name,
            level: self.level,
            engine,
            clock: self.clock,
            spent: 0,
            result: None,
            begun: String::new(),
            game,
            clocks,
        })
    }
}

impl Contest {
    /// The game that was stored.
    ///
    /// # Errors
    /// The file was changed by other hands.
    pub fn from_stored(stored: &StoredGame) -> Result<Self, Refusal> {
        let damaged = |error: String| Refusal(format!("the stored game is damaged: {error}"));
        let start = Position::from_fen(&stored.start, castling_mode(stored.chess960))?;
        let game = game_of(start, stored.moves.iter().map(|mv| mv.uci.as_str()))?;
        Ok(Self {
            system: stored.system.parse().map_err(damaged)?,
            engine_name: stored.engine.clone(),
            level: serde_json::from_str(&stored.level)
                .map_err(|error| damaged(error.to_string()))?,
            engine: Color::from_white(stored.engine_white),
            clock: stored.clock,
            spent: stored.spent,
            result: stored.result.clone(),
            begun: stored.begun.clone(),
            game,
            clocks: stored.moves.iter().map(|mv| mv.clocks).collect(),
        })
    }

    /// As it is stored.
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
            system: self.system.name().to_owned(),
            engine: self.engine_name.clone(),
            // A level is a name and a number: it can always be written.
            level: serde_json::to_string(&self.level).unwrap_or_default(),
            engine_white: self.engine.is_white(),
            start: self.game.start().fen(),
            chess960: self.game.start().castling_mode() == CastlingMode::Chess960,
            clock: self.clock,
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

    /// Is it the engine's turn, in a game that goes on?
    #[must_use]
    pub fn awaits_engine(&self) -> bool {
        self.result.is_none() && self.game.position().turn() == self.engine
    }

    /// Milliseconds left for a side, as of the last move.
    #[must_use]
    pub fn left(&self, side: Color) -> Option<u64> {
        let (initial, _) = self.clock?;
        let (white, black) = self.clocks.last().copied().flatten().unwrap_or((initial, initial));
        Some(if side.is_white() { white } else { black })
    }

    /// What the position after `mv` would be stored as: the move after `used` milliseconds, and the
    /// result if it ends the game.
    #[must_use]
    pub fn prepare(&self, mv: Move, used: u64) -> (StoredMove, Option<(String, String)>) {
        let mover = self.game.position().turn();
        let clocks = self.clock.and_then(|(_, increment)| {
            let own = self.left(mover)?.saturating_sub(used) + increment;
            let other = self.left(!mover)?;
            Some(if mover.is_white() { (own, other) } else { (other, own) })
        });
        let mut next = self.game.clone();
        next.play(mv);
        (StoredMove { uci: to_uci(self.game.position(), mv), clocks }, result_of(&next))
    }

    /// Plays what [`Contest::prepare`] prepared, once it is stored.
    pub fn play(&mut self, mv: Move, stored: &StoredMove, result: Option<(String, String)>) {
        self.game.play(mv);
        self.clocks.push(stored.clocks);
        self.spent = 0;
        self.result = result;
    }

    /// The ply to which a take-back leads: before the visitor's last move; `None` where there is
    /// none.
    #[must_use]
    pub fn ply_to_take_back(&self) -> Option<usize> {
        let first = self.game.start().turn();
        let is_visitors =
            |ply: &usize| (if ply.is_multiple_of(2) { first } else { !first }) != self.engine;
        (0..self.game.moves().len()).rev().find(is_visitors)
    }

    /// Forgets the moves from `ply` on.
    pub fn truncate(&mut self, ply: usize) {
        let mut game = Game::new(self.game.start().clone());
        self.game.moves().iter().take(ply).for_each(|&mv| game.play(mv));
        self.game = game;
        self.clocks.truncate(ply);
        self.spent = 0;
        self.result = None;
    }

    /// The result when a side's time is up: a draw where the other could never mate.
    #[must_use]
    pub fn lost_on_time(&self, loser: Color) -> (String, String) {
        if !self.game.position().can_mate(!loser) {
            return ("1/2-1/2".to_owned(), "time out, but nothing to mate with".to_owned());
        }
        (win(!loser).to_owned(), format!("{} ran out of time", name(loser)))
    }

    /// The result when the visitor gives up.
    #[must_use]
    pub fn resigned(&self) -> (String, String) {
        (win(self.engine).to_owned(), format!("{} resigned", name(!self.engine)))
    }

    /// For the page; `running`: milliseconds that the side to move has used already, where its
    /// clock runs.
    #[must_use]
    pub fn show(
        &self,
        id: i64,
        running: Option<u64>,
        thinking: &str,
        notice: Option<&str>,
    ) -> Value {
        let position = self.game.position();
        let mover = position.turn();
        let used = running.unwrap_or(self.spent);
        let left = |side: Color| {
            self.left(side).map(|left| if side == mover { left.saturating_sub(used) } else { left })
        };
        let mut at = self.game.start().clone();
        let mut fens = vec![at.fen()];
        let moves: Vec<Value> = self
            .game
            .moves()
            .iter()
            .map(|&mv| {
                let shown = json!({ "uci": to_uci(&at, mv), "san": to_san(&at, mv) });
                at.play(mv);
                fens.push(at.fen());
                shown
            })
            .collect();
        let over = self.result.is_some();
        json!({
            "type": "game",
            "id": id,
            "begun": self.begun,
            "system": self.system.name(),
            "engine": self.engine_name,
            "level": self.level,
            "level_text": self.level.describe(),
            "side": name(!self.engine).to_lowercase(),
            "chess960": position.castling_mode() == CastlingMode::Chess960,
            "moves": moves,
            "fens": fens,
            "turn": name(mover).to_lowercase(),
            "check": position.is_check(),
            "destinations": if over { json!({}) } else { destinations(position) },
            "result": self.result,
            "clock": self.clock.map(|(initial, increment)| json!({
                "initial": initial,
                "increment": increment,
                "white": left(Color::White),
                "black": left(Color::Black),
                "running": (!over && running.is_some()).then(|| name(mover).to_lowercase()),
            })),
            "thinking": thinking,
            "notice": notice,
        })
    }

    /// As PGN.
    #[must_use]
    pub fn pgn(&self) -> String {
        let engine = format!(
            "Batch First ({}, {}, {})",
            self.system,
            self.engine_name,
            self.level.describe()
        );
        let (white, black) = if self.engine.is_white() {
            (engine, "Visitor".to_owned())
        } else {
            ("Visitor".to_owned(), engine)
        };
        let date = self.begun.get(..10).unwrap_or("????-??-??").replace('-', ".");
        let mut tags = vec![
            ("Event", "Game on the Batch First page".to_owned()),
            ("Site", "?".to_owned()),
            ("Date", date),
            ("Round", "-".to_owned()),
            ("White", white),
            ("Black", black),
        ];
        if let Some((initial, increment)) = self.clock {
            let seconds = |milliseconds: u64| milliseconds as f64 / 1000.0;
            tags.push(("TimeControl", format!("{}+{}", seconds(initial), seconds(increment))));
        }
        let winner = self.result.as_ref().map(|(result, _)| match result.as_str() {
            "1-0" => Some(Color::White),
            "0-1" => Some(Color::Black),
            _ => None,
        });
        let mut text = PgnWriter::new(self.game.start(), &tags, winner);
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
}

fn clock_comment(milliseconds: u64) -> String {
    let seconds = milliseconds / 1000;
    format!("[%clk {}:{:02}:{:02}]", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// As in `White`.
pub fn name(side: Color) -> &'static str {
    if side.is_white() { "White" } else { "Black" }
}

fn win(winner: Color) -> &'static str {
    if winner.is_white() { "1-0" } else { "0-1" }
}

/// Result and reason where the rules end a game; repetitions and fifty moves are claimed for the
/// players.
fn result_of(game: &Game) -> Option<(String, String)> {
    let draw = |why: &str| ("1/2-1/2".to_owned(), why.to_owned());
    Some(match game.end() {
        Some(GameEnd::Checkmate { winner }) => (win(winner).to_owned(), "checkmate".to_owned()),
        Some(GameEnd::Stalemate) => draw("stalemate"),
        Some(GameEnd::InsufficientMaterial) => draw("insufficient material"),
        Some(GameEnd::Repetition) => draw("threefold repetition"),
        Some(GameEnd::FiftyMoves) => draw("fifty-move rule"),
        None if game.moves().len() >= MOST_PLIES => draw("too long"),
        None => return None,
    })
}

/// From-square to its target squares. A castling king may be put on its rook and, in standard
/// chess, two squares on.
pub fn destinations(position: &Position) -> Value {
    let mut all: Map<String, Value> = Map::new();
    for mv in position.legal_moves() {
        let Some(from) = mv.from() else { continue };
        let mut targets = vec![mv.to()];
        if let Move::Castle { king, rook } = mv
            && position.castling_mode() == CastlingMode::Standard
        {
            let file = if rook > king { board::File::G } else { board::File::C };
            targets.push(board::Square::from_coords(file, king.rank()));
        }
        let entry = all.entry(from.to_string()).or_insert_with(|| json!([]));
        if let Value::Array(list) = entry {
            for target in targets {
                // The four promotions of a pawn are one target.
                let target = Value::from(target.to_string());
                if !list.contains(&target) {
                    list.push(target);
                }
            }
        }
    }
    Value::Object(all)
}
