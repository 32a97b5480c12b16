//! A game for the eyes: as the page shows it, and as PGN.

use board::{CastlingMode, Color, File, Game, Move, Position, Square, to_san, to_uci};
use games::PgnWriter;
use nets::System;
use serde_json::{Map, Value, json};

use super::GameState;
use crate::Opponent;

impl GameState {
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
            "threads": self.threads,
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
            Opponent::System(System::ConvChess) => "ConvChess".to_owned(),
            Opponent::System(System::Cockfish) => format!("Cockfish, {}", self.level_text()),
            Opponent::System(System::BatchFirst) | Opponent::Large => {
                let level = self.level_text();
                match self.network_name.as_str() {
                    "batch-first" => format!("Batch First (large, {level})"),
                    "batch-first-fast" => format!("Batch First (fast, {level})"),
                    other => format!("Batch First ({other}, {level})"),
                }
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
