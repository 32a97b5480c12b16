//! Prints what is read from files of games, one JSON object a game: `scripts/judge_games.py` compares
//! it with python-chess.
//!
//!     cargo run --release -p batch-first-games --example read_games -- FILE…

use std::{
    error::Error,
    io::{self, Write},
    path::PathBuf,
};

use board::Score;
use games::{FileEntry, PgnGame, read_files};
use serde_json::{Value, json};

fn main() -> Result<(), Box<dyn Error>> {
    let files: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let mut out = io::BufWriter::new(io::stdout().lock());
    for entry in read_files(&files) {
        let object = match entry? {
            FileEntry::Game(game) => object(&game),
            FileEntry::Position(game) => json!({ "fen": game.start().fen() }),
            FileEntry::LeftOutGame(game) => json!({ "left_out": game.reason }),
            FileEntry::LeftOutLine => json!({ "left_out": "" }),
        };
        writeln!(out, "{object}")?;
    }
    Ok(())
}

fn object(game: &PgnGame) -> Value {
    let mut position = game.game.start().clone();
    let mut moves = Vec::new();
    for &mv in game.game.moves() {
        moves.push(board::to_uci(&position, mv));
        position.play(mv);
    }
    let evaluations = game.evaluations.iter().map(|&(ply, score)| match score {
        Score::Centipawns(value) => json!([ply, value, null]),
        Score::Mate(moves) => json!([ply, null, moves]),
    });
    json!({
        "tags": game.tags,
        "fen": game.game.start().fen(),
        "moves": moves,
        "evaluations": evaluations.collect::<Vec<_>>(),
        "comments": game.comments,
        "nags": game.nags,
        "variations": game.variations,
        "unread": game.unread.as_ref().map(ToString::to_string),
    })
}
