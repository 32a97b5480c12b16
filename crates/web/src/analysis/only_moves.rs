//! The only good moves of an analysed game: where a mistake was made, the position is searched again
//! with two lines, and the best move may be much better than the second.

use annotate::{AnalysisSettings, GameAnalysis, Judgment, win_percent};
use board::{Game, Move, Score, to_uci};
use eval::EvalError;
use search::{Control, Limits, Search};

/// A move is the only good one if the second best loses this many percent of winning chances more.
const ONLY_MOVE_GAP: f64 = 10.0;

/// The search for the only good moves, one mistake after another.
pub struct OnlyMoves {
    pub analysis: GameAnalysis,
    /// The game up to the next position to search.
    game: Game,
    /// Plies of the mistakes that are left, the last one first.
    left: Vec<usize>,
    limits: Limits,
    /// The only good moves so far, in UCI notation, with the plies before them.
    pub found: Vec<(usize, String)>,
}

impl OnlyMoves {
    /// The mistakes of a game, of which none is searched yet.
    pub fn new(analysis: GameAnalysis, settings: &AnalysisSettings) -> Self {
        let plies = analysis.source.game.moves().len();
        let is_mistake = |&ply: &usize| analysis.judgment(ply) >= Some(Judgment::Mistake);
        let left = (0..plies).rev().filter(is_mistake).collect();
        let nodes = settings.nodes.map(|nodes| 2 * nodes);
        let limits = Limits { nodes, analysis: true, ..Limits::default() };
        let game = Game::new(analysis.source.game.start().clone());
        Self { analysis, game, left, limits, found: Vec::new() }
    }

    /// Is every mistake searched?
    pub fn is_done(&self) -> bool {
        self.left.is_empty()
    }

    /// Searches the next mistake with `two_lines`. If `control` stops the search, what it has found
    /// by then counts.
    ///
    /// # Errors
    /// The position could not be evaluated.
    pub fn search_next(
        &mut self,
        two_lines: &mut dyn Search,
        control: &Control,
    ) -> Result<(), EvalError> {
        let Some(ply) = self.left.pop() else { return Ok(()) };
        let moves = self.analysis.source.game.moves();
        for &mv in &moves[self.game.moves().len()..ply] {
            self.game.play(mv);
        }
        let outcome = two_lines.search(&self.game, &self.limits, control, &mut |_| {})?;
        let lines: Vec<(Score, Move)> =
            outcome.lines.iter().filter_map(|line| Some((line.score, *line.pv.first()?))).collect();
        if let [(best, only), (second, _)] = lines[..]
            && win_percent(best) - win_percent(second) >= ONLY_MOVE_GAP
            && only != moves[ply]
        {
            self.found.push((ply, to_uci(self.game.position(), only)));
        }
        Ok(())
    }
}
