//! One game: what the search says of each of its positions, and what that says of its moves.

use board::{Game, Move, Position, Score};
use eval::EvalError;
use games::PgnGame;
use search::{Control, Limits, Search};

use crate::{
    Analysis,
    grade::{Mark, loss, score_of_end},
};

/// What the search says of a position.
#[derive(Clone, Debug)]
pub struct Look {
    /// The best lines, the best first; not empty.
    pub lines: Vec<Line>,
    /// Positions evaluated for this.
    pub evaluations: u64,
    pub depth: u32,
}

/// A line of moves from a position.
#[derive(Clone, Debug)]
pub struct Line {
    /// White's.
    pub score: Score,
    /// Not empty.
    pub moves: Vec<Move>,
}

/// A game with what was found.
#[derive(Clone, Debug)]
pub struct Review {
    pub source: PgnGame,
    /// One a position, the start first; nothing where the game is over or that was not looked at.
    pub looks: Vec<Option<Look>>,
    /// White's score of each position that was looked at or that ends the game.
    pub scores: Vec<Option<Score>>,
}

impl Review {
    /// Searches the positions of a game, the last first. Nothing if it is stopped before the end.
    ///
    /// # Errors
    /// A position could not be evaluated.
    pub fn of(
        source: PgnGame,
        search: &mut dyn Search,
        analysis: &Analysis,
        control: &Control,
    ) -> Result<Option<Self>, EvalError> {
        search.clear();
        let mut positions = vec![source.game.start().clone()];
        for &mv in source.game.moves() {
            positions.push(positions[positions.len() - 1].after(mv));
        }
        let plies = source.game.moves().len();
        // The first move that is judged needs the position before it.
        let first = analysis.from.saturating_sub(1).min(plies);
        let last = analysis.to.min(plies);
        let mut looks = vec![None; plies + 1];
        let mut scores = vec![None; plies + 1];
        for ply in (first..=last).rev() {
            let game = game_at(&positions, source.game.moves(), ply);
            if game.position().legal_moves().is_empty() {
                scores[ply] = game.end().map(score_of_end);
                continue;
            }
            let look = look(&game, search, &analysis.limits(), control)?;
            if control.is_stopped() {
                return Ok(None);
            }
            scores[ply] = look.as_ref().map(|look| look.lines[0].score);
            looks[ply] = look;
        }
        Ok(Some(Self { source, looks, scores }))
    }

    /// Positions that were searched.
    #[must_use]
    pub fn positions(&self) -> u64 {
        self.looks.iter().flatten().count() as u64
    }

    /// What the move at `ply` (from 0) lost of its mover's winning chances, in percent; nothing
    /// where a score is missing. The search's own choice loses nothing.
    #[must_use]
    pub fn loss(&self, ply: usize) -> Option<f64> {
        let (before, after) = (self.scores[ply]?, self.scores[ply + 1]?);
        let best = self.looks[ply].as_ref()?.lines[0].moves[0];
        let white = self.source.game.start().turn().is_white() == ply.is_multiple_of(2);
        Some(if best == self.source.game.moves()[ply] { 0.0 } else { loss(before, after, white) })
    }

    /// How bad the move at `ply` was, if it was bad.
    #[must_use]
    pub fn mark(&self, ply: usize) -> Option<Mark> {
        Mark::of(self.loss(ply)?)
    }
}

/// The game up to a position, as far back as a repetition can reach, so that it stays short however
/// long the game is.
fn game_at(positions: &[Position], moves: &[Move], ply: usize) -> Game {
    /// Twice the fifty moves of each side, in plies.
    const REACH: usize = 200;
    let back = (positions[ply].halfmove_clock() as usize).min(ply).min(REACH);
    let mut game = Game::new(positions[ply - back].clone());
    moves[ply - back..ply].iter().for_each(|&mv| game.play(mv));
    game
}

fn look(
    game: &Game,
    search: &mut dyn Search,
    limits: &Limits,
    control: &Control,
) -> Result<Option<Look>, EvalError> {
    let outcome = search.search(game, limits, control, &mut |_| {})?;
    let white = game.position().turn().is_white();
    let turned = |score| match score {
        score if white => score,
        Score::Centipawns(value) => Score::Centipawns(-value),
        Score::Mate(moves) => Score::Mate(-moves),
    };
    let depth = outcome.lines.first().map_or(0, |line| line.depth);
    let lines: Vec<Line> = outcome
        .lines
        .into_iter()
        .filter(|line| !line.pv.is_empty())
        .map(|line| Line { score: turned(line.score), moves: line.pv })
        .collect();
    Ok((!lines.is_empty()).then_some(Look { lines, evaluations: outcome.nodes, depth }))
}
