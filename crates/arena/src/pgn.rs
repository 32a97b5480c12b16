//! Games into PGN, with what the engines said in comments.

use board::GameEnd;
use games::{PgnText, white_score};

use crate::{Ending, PlayedGame};

/// What the PGN of a match game says beside the game.
#[derive(Clone, Debug)]
pub struct GameText<'a> {
    /// The pair and the game of the pair, as in `12.2`.
    pub round: String,
    pub white: &'a str,
    pub black: &'a str,
    /// Thinking times too.
    pub times: bool,
}

/// A match game with tags for players and the way it ended; each move has the mover's evaluation
/// (in pawns, from White's side), depth and time in a comment, `0.31/7 0.12s`.
#[must_use]
pub fn match_game(about: &GameText<'_>, played: &PlayedGame) -> String {
    let mut tags = vec![
        ("Event", "Batch First match".to_owned()),
        ("Round", about.round.clone()),
        ("White", about.white.to_owned()),
        ("Black", about.black.to_owned()),
        ("PlyCount", played.game.moves().len().to_string()),
        ("Termination", termination(&played.ending).to_owned()),
    ];
    if let Ending::Fault { side, fault } = &played.ending {
        tags.push(("Fault", format!("{side}: {}: {}", fault.name(), fault.describe())));
    }
    let mut text = PgnText::new(played.game.start(), &tags, Some(played.winner));
    let mut turn = played.game.start().turn();
    for (ply, &mv) in played.game.moves().iter().enumerate() {
        let comment = if ply < played.book_plies {
            Some("book".to_owned())
        } else {
            played.notes.get(ply - played.book_plies).map(|note| {
                let score = note.score.map_or("?".to_owned(), |score| white_score(score, turn));
                let depth = note.depth.map_or("?".to_owned(), |depth| depth.to_string());
                if about.times {
                    format!("{score}/{depth} {:.2}s", note.elapsed.as_secs_f64())
                } else {
                    format!("{score}/{depth}")
                }
            })
        };
        text.play(mv, comment.as_deref());
        turn = !turn;
    }
    text.comment(&describe(&played.ending));
    text.finish()
}

/// The PGN `Termination` tag.
fn termination(ending: &Ending) -> &'static str {
    match ending {
        Ending::Rule(_) => "normal",
        Ending::Adjudicated | Ending::Tablebase | Ending::TooLong => "adjudication",
        Ending::Fault { fault: crate::Fault::TimeForfeit(_), .. } => "time forfeit",
        Ending::Fault { fault: crate::Fault::IllegalMove(_), .. } => "rules infraction",
        Ending::Fault { .. } => "abandoned",
    }
}

/// The end of a game in words.
#[must_use]
pub fn describe(ending: &Ending) -> String {
    match ending {
        Ending::Rule(GameEnd::Checkmate { .. }) => "checkmate".to_owned(),
        Ending::Rule(GameEnd::Stalemate) => "stalemate".to_owned(),
        Ending::Rule(GameEnd::InsufficientMaterial) => "insufficient material".to_owned(),
        Ending::Rule(GameEnd::Repetition) => "threefold repetition".to_owned(),
        Ending::Rule(GameEnd::FiftyMoves) => "fifty-move rule".to_owned(),
        Ending::Adjudicated => "adjudicated: both engines agree".to_owned(),
        Ending::Tablebase => "adjudicated: endgame tables".to_owned(),
        Ending::TooLong => "adjudicated: too long".to_owned(),
        Ending::Fault { side, fault } => format!("{} by {side}", fault.name()),
    }
}
