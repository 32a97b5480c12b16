//! A UCI engine for the tests of matches. It plays the first legal move; on the third move of a
//! process it commits the fault that its argument names.

use std::{
    io::{self, BufRead, Write},
    thread,
    time::Duration,
};

use board::{CastlingMode, Game, Position};

fn main() -> io::Result<()> {
    let fault = std::env::args().nth(1).unwrap_or_default();
    let mut game = Game::default();
    let mut moves_played = 0;
    for line in io::stdin().lock().lines() {
        let line = line?;
        let mut words = line.split_whitespace();
        match words.next() {
            Some("uci") => say(&format!("id name faulty {fault}\nuciok"))?,
            Some("isready") => say("readyok")?,
            Some("position") => game = position(&line),
            Some("go") => {
                moves_played += 1;
                if moves_played == 3 {
                    misbehave(&fault)?;
                }
                let position = game.position();
                let best = position.legal_moves().first().map(|&mv| board::to_uci(position, mv));
                say(&format!(
                    "info depth 1 score cp 0\nbestmove {}",
                    best.as_deref().unwrap_or("0000")
                ))?;
            }
            Some("quit") => break,
            _ => {}
        }
    }
    Ok(())
}

fn say(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")?;
    out.flush()
}

/// `position fen FEN [moves ...]`, as matches send it.
fn position(line: &str) -> Game {
    let text = line.trim_start_matches("position fen ");
    let (fen, moves) = text.split_once(" moves ").unwrap_or((text, ""));
    let start = Position::from_fen(fen, CastlingMode::Standard).unwrap_or_default();
    let mut game = Game::new(start);
    for word in moves.split_whitespace() {
        if let Ok(mv) = board::parse_uci(game.position(), word) {
            game.play(mv);
        }
    }
    game
}

fn misbehave(fault: &str) -> io::Result<()> {
    match fault {
        "crash" => std::process::exit(3),
        "hang" => loop {
            thread::sleep(Duration::from_secs(60));
        },
        "illegal" => say("bestmove e1e8")?,
        // Only a shell can close a standard output without unsafe code.
        #[cfg(unix)]
        "close" => {
            let mut shell = std::process::Command::new("/bin/sh");
            shell.args(["-c", "exec >&-; sleep 60"]);
            return Err(std::os::unix::process::CommandExt::exec(&mut shell));
        }
        "flood" => loop {
            say(&"info depth 1 score cp 1\n".repeat(1000))?;
        },
        "late" => thread::sleep(Duration::from_secs(3)),
        _ => {}
    }
    Ok(())
}
