//! Match games as PGN, with the evaluations of the engines in comments.

use board::{GameEnd, Score};
use games::PgnWriter;

use crate::{PlayedGame, Termination};

/// The facts in the PGN of a match game that are not part of the game.
#[derive(Clone, Debug)]
pub struct PgnDetails<'a> {
    /// The number of the pair and of the game in the pair, as in `12.2`.
    pub round: String,
    pub white: &'a str,
    pub black: &'a str,
    /// True if comments include thinking times.
    pub times: bool,
}

/// The PGN of a match game, with tags for the players and the termination. The comment of each move
/// has the mover's evaluation, depth and time in cutechess's form, from the mover's side: pawns as
/// in `+0.31/7 0.12s`, or moves to mate as in `-M3/7 0.12s`.
#[must_use]
pub fn match_game(details: &PgnDetails<'_>, played: &PlayedGame) -> String {
    let mut tags = vec![
        ("Event", "Batch First match".to_owned()),
        ("Round", details.round.clone()),
        ("White", details.white.to_owned()),
        ("Black", details.black.to_owned()),
        ("PlyCount", played.game.moves().len().to_string()),
        ("Termination", termination_tag(&played.termination).to_owned()),
    ];
    if let Termination::Fault { side, fault } = &played.termination {
        tags.push(("Fault", format!("{side}: {}: {}", fault.name(), fault.describe())));
    }
    let mut text = PgnWriter::new(played.game.start(), &tags, Some(played.winner));
    for (ply, &mv) in played.game.moves().iter().enumerate() {
        let comment = if ply < played.book_plies {
            Some("book".to_owned())
        } else {
            played.evaluations.get(ply - played.book_plies).map(|evaluation| {
                let score = evaluation.score.map_or("?".to_owned(), score_text);
                let depth = evaluation.depth.map_or("?".to_owned(), |depth| depth.to_string());
                if details.times {
                    format!("{score}/{depth} {:.2}s", evaluation.elapsed.as_secs_f64())
                } else {
                    format!("{score}/{depth}")
                }
            })
        };
        text.play(mv, comment.as_deref());
    }
    text.comment(&describe(&played.termination));
    text.finish()
}

fn score_text(score: Score) -> String {
    match score {
        Score::Centipawns(0) => "0.00".to_owned(),
        Score::Centipawns(value) => format!("{:+.2}", f64::from(value) / 100.0),
        Score::Mate(moves) => {
            format!("{}M{}", if moves > 0 { '+' } else { '-' }, moves.unsigned_abs())
        }
    }
}

/// The PGN `Termination` tag.
fn termination_tag(termination: &Termination) -> &'static str {
    match termination {
        Termination::GameEnd(_) => "normal",
        Termination::Adjudicated | Termination::Tablebase | Termination::PlyLimit => "adjudication",
        Termination::Fault { fault: crate::Fault::TimeForfeit(_), .. } => "time forfeit",
        Termination::Fault { fault: crate::Fault::IllegalMove(_), .. } => "rules infraction",
        Termination::Fault { .. } => "abandoned",
    }
}

/// The termination of a game in words.
#[must_use]
pub fn describe(termination: &Termination) -> String {
    match termination {
        Termination::GameEnd(GameEnd::Checkmate { .. }) => "checkmate".to_owned(),
        Termination::GameEnd(GameEnd::Stalemate) => "stalemate".to_owned(),
        Termination::GameEnd(GameEnd::InsufficientMaterial) => "insufficient material".to_owned(),
        Termination::GameEnd(GameEnd::Repetition) => "threefold repetition".to_owned(),
        Termination::GameEnd(GameEnd::FiftyMoves) => "fifty-move rule".to_owned(),
        Termination::Adjudicated => "adjudicated: both engines agree".to_owned(),
        Termination::Tablebase => "adjudicated: endgame tables".to_owned(),
        Termination::PlyLimit => "adjudicated: too long".to_owned(),
        Termination::Fault { side, fault } => format!("{} by {side}", fault.name()),
    }
}
