//! Labels one game: the engine evaluates each position of a given game, or plays a game against
//! itself.

use std::time::Duration;

use board::{Game, GameEnd, Move, Score};
use games::{PgnGame, PgnWriter, parse_result, white_score_text};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use uci::client::{ClientError, EngineProcess, SearchRequest};

/// How games of self-play are varied. The JSON of this type is part of the progress file.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SelfPlaySettings {
    pub seed: u64,
    /// Smallest and largest number of random legal moves at the beginning of a game, after the
    /// start position or a main line of the built-in openings.
    pub random_plies: (usize, usize),
    /// Share of the games that begin with a main line, from 0 to 1.
    pub book_share: f64,
    /// Chance of a random legal move in place of the engine's best one later in the game, 0 to 1.
    pub random_moves: f64,
    /// Length at which a game is ended, in plies.
    pub max_plies: usize,
    /// A game ends when one side has been ahead by this many centipawns for eight plies.
    pub decided: i32,
}

impl Default for SelfPlaySettings {
    fn default() -> Self {
        Self {
            seed: 1,
            random_plies: (2, 10),
            book_share: 0.3,
            random_moves: 0.05,
            max_plies: 240,
            decided: 1500,
        }
    }
}

/// The job that makes one game of the output.
#[derive(Clone, Debug)]
pub enum LabelJob {
    /// All positions of a game of a file are evaluated.
    Game(PgnGame),
    /// A position and the position after the engine's best move are evaluated.
    Position(Game),
    /// The engine plays a game against itself. `number` selects its random stream.
    SelfPlay { number: u64 },
}

/// A labelled game as PGN.
#[derive(Clone, Debug)]
pub(crate) struct LabelledGame {
    pub(crate) pgn: String,
    pub(crate) positions: u64,
}

/// A game must be decided for this many plies to be ended.
const DECIDED_PLIES: usize = 8;

/// Labels one game, after `ucinewgame`, with `nodes` nodes a position. `timeout` is the longest
/// wait for one evaluation.
///
/// # Errors
/// The engine failed.
pub(crate) fn label_game(
    engine: &mut EngineProcess,
    job: &LabelJob,
    number: u64,
    nodes: u64,
    self_play: Option<&SelfPlaySettings>,
    timeout: Duration,
) -> Result<LabelledGame, ClientError> {
    engine.new_game()?;
    let mut labeller =
        GameLabeller { engine, request: SearchRequest::Nodes(nodes), timeout, positions: 0 };
    let defaults = SelfPlaySettings::default();
    let (game, labels, source_tags) = match job {
        LabelJob::Game(source) => {
            let (game, labels) = labeller.replay(&source.game)?;
            (game, labels, source.tags.clone())
        }
        LabelJob::Position(start) => {
            let (game, labels) = labeller.one_move(start)?;
            (game, labels, Vec::new())
        }
        LabelJob::SelfPlay { number } => {
            let (game, labels) = labeller.play(self_play.unwrap_or(&defaults), *number)?;
            (game, labels, Vec::new())
        }
    };
    let positions = labeller.positions;
    let annotator = format!("{}, {nodes} nodes a position", engine.name());
    let pgn = to_pgn(&game, &labels, source_tags, number, &annotator, engine.name());
    Ok(LabelledGame { pgn, positions })
}

/// One score a position for the side to move, the start position first; `None` where the game is
/// over and at the random moves of the beginning.
type Labels = Vec<Option<Score>>;

struct GameLabeller<'a> {
    engine: &'a mut EngineProcess,
    request: SearchRequest,
    timeout: Duration,
    positions: u64,
}

impl GameLabeller<'_> {
    /// The engine's score for the side to move and its best move; `None` without legal moves.
    fn evaluate(&mut self, game: &Game) -> Result<(Option<Score>, Option<Move>), ClientError> {
        if game.position().legal_moves().is_empty() {
            return Ok((None, None));
        }
        let answer = self.engine.think(game, &self.request, self.timeout)?;
        self.positions += 1;
        Ok((answer.score(), answer.best))
    }

    /// Evaluates all positions of a game.
    fn replay(&mut self, source: &Game) -> Result<(Game, Labels), ClientError> {
        let mut game = Game::new(source.start().clone());
        let mut labels = vec![self.evaluate(&game)?.0];
        for &mv in source.moves() {
            game.play(mv);
            labels.push(self.evaluate(&game)?.0);
        }
        Ok((game, labels))
    }

    /// Evaluates a position and the one after the best move.
    fn one_move(&mut self, start: &Game) -> Result<(Game, Labels), ClientError> {
        let mut game = start.clone();
        let (score, best) = self.evaluate(&game)?;
        let mut labels = vec![score];
        if let Some(best) = best {
            game.play(best);
            labels.push(self.evaluate(&game)?.0);
        }
        Ok((game, labels))
    }

    /// Plays a game of the engine against itself.
    fn play(
        &mut self,
        settings: &SelfPlaySettings,
        number: u64,
    ) -> Result<(Game, Labels), ClientError> {
        // Each game has its own stream of the one seed.
        let mut random = ChaCha8Rng::seed_from_u64(settings.seed);
        random.set_stream(number);
        let mut game = opening(settings, &mut random);
        let mut labels: Labels = vec![None; game.moves().len()];
        loop {
            let (score, best) = self.evaluate(&game)?;
            labels.push(score);
            let over = game.end().is_some() || game.moves().len() >= settings.max_plies;
            let Some(best) = best.filter(|_| !over && !is_decided(&labels, settings.decided))
            else {
                break;
            };
            let mv = if random.random_bool(settings.random_moves) {
                random_move(&game, &mut random).unwrap_or(best)
            } else {
                best
            };
            game.play(mv);
        }
        Ok((game, labels))
    }
}

/// A random start whose game is not over.
fn opening(settings: &SelfPlaySettings, random: &mut ChaCha8Rng) -> Game {
    let book = arena::main_lines();
    loop {
        let mut game = Game::default();
        if random.random_bool(settings.book_share) {
            game = book[random.random_range(0..book.len())].clone();
        }
        let (least, most) = settings.random_plies;
        for _ in 0..random.random_range(least..=most.max(least)) {
            if let Some(mv) = random_move(&game, random) {
                game.play(mv);
            }
        }
        if game.end().is_none() {
            return game;
        }
    }
}

fn random_move(game: &Game, random: &mut ChaCha8Rng) -> Option<Move> {
    let moves = game.position().legal_moves();
    (!moves.is_empty()).then(|| moves[random.random_range(0..moves.len())])
}

/// True if one side has been ahead by `limit` centipawns in each of the last [`DECIDED_PLIES`].
fn is_decided(labels: &Labels, limit: i32) -> bool {
    let recent = labels.len().checked_sub(DECIDED_PLIES).map(|from| &labels[from..]);
    let is_ahead = |side: i32| {
        recent.is_some_and(|recent| {
            recent.iter().all(|label| match label {
                Some(Score::Centipawns(value)) => side.saturating_mul(*value) >= limit,
                // Mate scores are rare and valuable training data: the game is played to its end.
                _ => false,
            })
        })
    };
    is_ahead(1) || is_ahead(-1)
}

fn to_pgn(
    game: &Game,
    labels: &Labels,
    mut tags: Vec<(String, String)>,
    number: u64,
    annotator: &str,
    player: &str,
) -> String {
    let winner =
        match tags.iter().find(|(name, _)| name == "Result").map(|(_, value)| value.as_str()) {
            Some(result) => parse_result(result),
            None => game.end().map(|end| match end {
                GameEnd::Checkmate { winner } => Some(winner),
                _ => None,
            }),
        };
    tags.retain(|(name, _)| name != "Result" && name != "Annotator");
    if tags.is_empty() {
        let add = [
            ("Event", "labelled by another engine".to_owned()),
            ("Round", (number + 1).to_string()),
            ("White", player.to_owned()),
            ("Black", player.to_owned()),
        ];
        tags.extend(add.map(|(name, value)| (name.to_owned(), value)));
    }
    tags.push(("Annotator".to_owned(), annotator.to_owned()));
    let tags: Vec<(&str, String)> =
        tags.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
    let mut text = PgnWriter::new(game.start(), &tags, winner);
    let mut turn = game.start().turn();
    let comment = |label: Option<Score>, turn| {
        label.map(|score| format!("[%eval {}]", white_score_text(score, turn)))
    };
    let mut labels = labels.iter().copied();
    if let Some(comment) = comment(labels.next().flatten(), turn) {
        text.comment(&comment);
    }
    for &mv in game.moves() {
        turn = !turn;
        text.play(mv, comment(labels.next().flatten(), turn).as_deref());
    }
    text.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_game_is_decided_when_one_side_stays_far_ahead() {
        let labels =
            |values: [i32; 10]| values.map(|value| Some(Score::Centipawns(value))).to_vec();
        assert!(is_decided(&labels([0, 0, 600, 600, 600, 600, 600, 600, 600, 900]), 600));
        assert!(is_decided(&labels([0, 0, -600, -600, -600, -600, -600, -600, -600, -900]), 600));
        assert!(!is_decided(&labels([600, 600, 600, 600, 600, 599, 600, 600, 600, 600]), 600));
        assert!(
            !is_decided(&labels([0, 0, 600, 600, 600, -600, 600, 600, 600, 600]), 600),
            "the lead changed sides"
        );
        assert!(!is_decided(&vec![Some(Score::Mate(3)); 10], 600));
    }
}
