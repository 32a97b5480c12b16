//! The analysis of one game: every position is searched, and each move is judged by the scores
//! before and after it.

use board::{Game, Move, Position, Score};
use eval::EvalError;
use games::PgnGame;
use search::{Control, Limits, Search};

use crate::{
    AnalysisSettings,
    accuracy::{Judgment, loss, score_of_end},
};

/// The result of the search of one position.
#[derive(Clone, Debug)]
pub struct PositionAnalysis {
    /// The principal variations, the best first; not empty.
    pub lines: Vec<PrincipalVariation>,
    /// Positions that were evaluated for this.
    pub evaluations: u64,
    /// Depth of the first line, in plies.
    pub depth: u32,
}

/// A best line of play from a position.
#[derive(Clone, Debug)]
pub struct PrincipalVariation {
    /// From White's side.
    pub score: Score,
    /// Not empty.
    pub moves: Vec<Move>,
}

/// A game with the analysis of its positions.
#[derive(Clone, Debug)]
pub struct GameAnalysis {
    pub source: PgnGame,
    /// One entry a position, the start first; `None` where the game is over or the position is
    /// outside the analysed plies.
    pub positions: Vec<Option<PositionAnalysis>>,
    /// White's score of each position that was searched or that ends the game.
    pub scores: Vec<Option<Score>>,
}

impl GameAnalysis {
    /// Searches the positions of a game, the last first. `None` if `control` stops the search
    /// before the end.
    ///
    /// # Errors
    /// A position could not be evaluated.
    pub fn analyse(
        source: PgnGame,
        search: &mut dyn Search,
        settings: &AnalysisSettings,
        control: &Control,
    ) -> Result<Option<Self>, EvalError> {
        search.clear();
        let mut boards = vec![source.game.start().clone()];
        for &mv in source.game.moves() {
            boards.push(boards[boards.len() - 1].after(mv));
        }
        let plies = source.game.moves().len();
        // Judging the first move needs the score of the position before it.
        let first = settings.from.saturating_sub(1).min(plies);
        let last = settings.to.min(plies);
        let mut positions = vec![None; plies + 1];
        let mut scores = vec![None; plies + 1];
        for ply in (first..=last).rev() {
            let game = game_at(&boards, source.game.moves(), ply);
            if game.position().legal_moves().is_empty() {
                scores[ply] = game.end().map(score_of_end);
                continue;
            }
            let found = analyse_position(&game, search, &settings.limits(), control)?;
            if control.is_stopped() {
                return Ok(None);
            }
            scores[ply] = found.as_ref().map(|found| found.lines[0].score);
            positions[ply] = found;
        }
        Ok(Some(Self { source, positions, scores }))
    }

    /// Number of positions that were searched.
    #[must_use]
    pub fn searched_positions(&self) -> u64 {
        self.positions.iter().flatten().count() as u64
    }

    /// Loss of the mover's winning chances by the move at `ply` (from 0), in percent; `None` where
    /// a score is missing. The best move of the search loses nothing.
    #[must_use]
    pub fn loss(&self, ply: usize) -> Option<f64> {
        let (before, after) = (self.scores[ply]?, self.scores[ply + 1]?);
        let best = self.positions[ply].as_ref()?.lines[0].moves[0];
        let white = self.source.game.start().turn().is_white() == ply.is_multiple_of(2);
        Some(if best == self.source.game.moves()[ply] { 0.0 } else { loss(before, after, white) })
    }

    /// The judgment on the move at `ply`, if it was bad.
    #[must_use]
    pub fn judgment(&self, ply: usize) -> Option<Judgment> {
        Judgment::from_loss(self.loss(ply)?)
    }
}

/// The game up to a position. It begins where a repetition cannot reach further back, so that its
/// length is bounded.
fn game_at(boards: &[Position], moves: &[Move], ply: usize) -> Game {
    /// Twice the plies of the fifty-move rule.
    const REACH: usize = 200;
    let back = (boards[ply].halfmove_clock() as usize).min(ply).min(REACH);
    let mut game = Game::new(boards[ply - back].clone());
    moves[ply - back..ply].iter().for_each(|&mv| game.play(mv));
    game
}

fn analyse_position(
    game: &Game,
    search: &mut dyn Search,
    limits: &Limits,
    control: &Control,
) -> Result<Option<PositionAnalysis>, EvalError> {
    let outcome = search.search(game, limits, control, &mut |_| {})?;
    let white = game.position().turn().is_white();
    let turned = |score| match score {
        score if white => score,
        Score::Centipawns(value) => Score::Centipawns(-value),
        Score::Mate(moves) => Score::Mate(-moves),
    };
    let depth = outcome.lines.first().map_or(0, |line| line.depth);
    let lines: Vec<PrincipalVariation> = outcome
        .lines
        .into_iter()
        .filter(|line| !line.pv.is_empty())
        .map(|line| PrincipalVariation { score: turned(line.score), moves: line.pv })
        .collect();
    Ok((!lines.is_empty()).then_some(PositionAnalysis { lines, evaluations: outcome.nodes, depth }))
}
