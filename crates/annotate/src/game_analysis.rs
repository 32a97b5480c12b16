//! The analysis of one game: every position is searched, and each move is judged by the scores
//! before and after it.

use board::{Color, Game, Move, Position, Score};
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
        let mut analyser = GameAnalyser::new(source, settings);
        search.clear();
        while !analyser.is_done() {
            analyser.search_next(search, control)?;
            if control.is_stopped() {
                return Ok(None);
            }
        }
        Ok(Some(analyser.into_analysis()))
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

/// An analysis of a game under way, one position after another, the last first: between two
/// positions it can pause, show what it has, or end early.
#[derive(Debug)]
pub struct GameAnalyser {
    analysis: GameAnalysis,
    limits: Limits,
    /// Every position, the start first.
    boards: Vec<Position>,
    /// The positions that are left, as plies; they are searched from the end.
    left: std::ops::RangeInclusive<usize>,
}

impl GameAnalyser {
    /// An analysis of `source` in which no position is searched yet.
    #[must_use]
    pub fn new(source: PgnGame, settings: &AnalysisSettings) -> Self {
        let mut boards = vec![source.game.start().clone()];
        for &mv in source.game.moves() {
            boards.push(boards[boards.len() - 1].after(mv));
        }
        let plies = source.game.moves().len();
        // Judging the first move needs the score of the position before it.
        let first = settings.from.saturating_sub(1).min(plies);
        let last = settings.to.min(plies);
        let (positions, scores) = (vec![None; plies + 1], vec![None; plies + 1]);
        Self {
            analysis: GameAnalysis { source, positions, scores },
            limits: settings.limits(),
            boards,
            left: first..=last,
        }
    }

    /// Is every position searched?
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.left.is_empty()
    }

    /// Number of positions that are left.
    #[must_use]
    pub fn positions_left(&self) -> usize {
        self.left.clone().count()
    }

    /// White's score of each position so far, the start first.
    #[must_use]
    pub fn scores(&self) -> &[Option<Score>] {
        &self.analysis.scores
    }

    /// Searches the next position; if `control` stops the search, the position stays without a
    /// score.
    ///
    /// # Errors
    /// The position could not be evaluated.
    pub fn search_next(
        &mut self,
        search: &mut dyn Search,
        control: &Control,
    ) -> Result<(), EvalError> {
        let Some((ply, found)) = self.find_next(search, control)? else { return Ok(()) };
        if !control.is_stopped() {
            self.keep(ply, found);
        }
        Ok(())
    }

    /// Searches the next position; if `control` stops the search, what it has found by then counts.
    ///
    /// # Errors
    /// The position could not be evaluated.
    pub fn search_next_until_stopped(
        &mut self,
        search: &mut dyn Search,
        control: &Control,
    ) -> Result<(), EvalError> {
        if let Some((ply, found)) = self.find_next(search, control)? {
            self.keep(ply, found);
        }
        Ok(())
    }

    /// The next position, as its ply, and what a search finds there; `None` where the rules have
    /// ended the game, or no position is left.
    fn find_next(
        &mut self,
        search: &mut dyn Search,
        control: &Control,
    ) -> Result<Option<(usize, Option<PositionAnalysis>)>, EvalError> {
        let Some(ply) = self.left.next_back() else { return Ok(None) };
        let game = game_at(&self.boards, self.analysis.source.game.moves(), ply);
        if !game.position().has_legal_moves() {
            self.analysis.scores[ply] = game.end().map(score_of_end);
            return Ok(None);
        }
        Ok(Some((ply, analyse_position(&game, search, &self.limits, control)?)))
    }

    fn keep(&mut self, ply: usize, mut found: Option<PositionAnalysis>) {
        if let Some(found) = &mut found {
            self.see_played_move(ply, found);
        }
        self.analysis.scores[ply] = found.as_ref().map(|found| found.lines[0].score);
        self.analysis.positions[ply] = found;
    }

    /// What the search found cannot be worse for the mover than the move played, which the search
    /// of the next position has seen one ply deeper. Then that move is the best line. Without this a
    /// blunder whose refutation was played would look fine.
    fn see_played_move(&self, ply: usize, found: &mut PositionAnalysis) {
        let Some(&played) = self.analysis.source.game.moves().get(ply) else { return };
        let Some(after) = self.analysis.scores[ply + 1] else { return };
        let next = self.analysis.positions[ply + 1].as_ref();
        let turn = self.boards[ply].turn();
        let before = found.lines[0].score;
        let score = match for_side(after, turn) {
            // The mover mates, one move later as seen from here; a mate on the board is one in one.
            Score::Mate(moves) if moves > 0 && next.is_some() => Score::Mate(moves + 1),
            score => score,
        };
        // A mate that the search has seen is certain.
        if matches!(before, Score::Mate(_)) || score.order() <= for_side(before, turn).order() {
            return;
        }
        let known = found.lines.iter().position(|line| line.moves[0] == played);
        let end = known.unwrap_or(found.lines.len() - 1);
        found.lines[..=end].rotate_right(1);
        let rest = next.map_or(&[][..], |next| &next.lines[0].moves);
        let moves = std::iter::once(played).chain(rest.iter().copied()).collect();
        found.lines[0] = PrincipalVariation { score: for_side(score, turn), moves };
        found.depth = next.map_or(1, |next| next.depth + 1);
    }

    /// The game with what was found.
    #[must_use]
    pub fn into_analysis(self) -> GameAnalysis {
        self.analysis
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

/// White's score as that of a side, or a side's as White's.
fn for_side(score: Score, side: Color) -> Score {
    if side.is_white() { score } else { score.turned() }
}

fn analyse_position(
    game: &Game,
    search: &mut dyn Search,
    limits: &Limits,
    control: &Control,
) -> Result<Option<PositionAnalysis>, EvalError> {
    let outcome = search.search(game, limits, control, &mut |_| {})?;
    let turn = game.position().turn();
    let depth = outcome.lines.first().map_or(0, |line| line.depth);
    let lines: Vec<PrincipalVariation> = outcome
        .lines
        .into_iter()
        .filter(|line| !line.pv.is_empty())
        .map(|line| PrincipalVariation { score: for_side(line.score, turn), moves: line.pv })
        .collect();
    Ok((!lines.is_empty()).then_some(PositionAnalysis { lines, evaluations: outcome.nodes, depth }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `see_played_move` makes of a search of the position before `ply`, where that after it has
    /// the score `after`.
    fn seen(
        moves: &str,
        ply: usize,
        after: Score,
        found: &[(&str, Score)],
    ) -> Vec<(String, Score)> {
        let read = games::read_pgn(moves.as_bytes()).next().unwrap().unwrap();
        let source = read.into_game().unwrap();
        let settings = AnalysisSettings {
            nodes: Some(1),
            movetime: None,
            depth: None,
            batch: 1,
            hash_mib: 1,
            from: 1,
            to: usize::MAX,
            multipv: found.len(),
            threshold: 0.0,
            strip: false,
            engine: String::new(),
        };
        let mut analyser = GameAnalyser::new(source, &settings);
        let board = analyser.boards[ply].clone();
        analyser.analysis.scores[ply + 1] = Some(after);
        if analyser.boards[ply + 1].has_legal_moves() {
            let reply = analyser.boards[ply + 1].legal_moves()[0];
            let lines = vec![PrincipalVariation { score: after, moves: vec![reply] }];
            analyser.analysis.positions[ply + 1] =
                Some(PositionAnalysis { lines, evaluations: 1, depth: 1 });
        }
        let line = |&(text, score): &(&str, Score)| PrincipalVariation {
            score,
            moves: vec![board::parse_san(&board, text).unwrap()],
        };
        let lines = found.iter().map(line).collect();
        let mut found = PositionAnalysis { lines, evaluations: 1, depth: 1 };
        analyser.see_played_move(ply, &mut found);
        found.lines.iter().map(|line| (board::to_san(&board, line.moves[0]), line.score)).collect()
    }

    #[test]
    fn a_position_is_worth_at_least_what_the_move_played_was_worth() {
        use Score::{Centipawns, Mate};
        let game = "1. e4 e5 2. Nf3 *";
        // White's second move was better than the search thought; a second line moves down.
        let two = [("d4", Centipawns(10)), ("Nc3", Centipawns(0))];
        let expected = [("Nf3".to_owned(), Centipawns(40)), ("d4".to_owned(), Centipawns(10))];
        assert_eq!(seen(game, 2, Centipawns(40), &two), expected);
        // A worse one changes nothing; for Black the smaller score is the better one.
        let d4 = [("d4", Centipawns(10))];
        assert_eq!(seen(game, 2, Centipawns(-40), &d4), [("d4".to_owned(), Centipawns(10))]);
        let c5 = [("c5", Centipawns(10))];
        assert_eq!(seen(game, 1, Centipawns(40), &c5), [("c5".to_owned(), Centipawns(10))]);
        assert_eq!(seen(game, 1, Centipawns(-40), &c5), [("e5".to_owned(), Centipawns(-40))]);
        // A mate is one move longer before the move, unless the move itself mates.
        assert_eq!(seen(game, 2, Mate(3), &d4), [("Nf3".to_owned(), Mate(4))]);
        assert_eq!(seen(game, 1, Mate(-3), &c5), [("e5".to_owned(), Mate(-4))]);
        let mate = "1. f3 e5 2. g4 Qh4# 0-1";
        let d5 = [("d5", Centipawns(10))];
        assert_eq!(seen(mate, 3, Mate(-1), &d5), [("Qh4#".to_owned(), Mate(-1))]);
        // A mate that was found is certain; being mated is no better.
        let mated = [("d4", Mate(-2))];
        assert_eq!(seen(game, 2, Centipawns(40), &mated), [("d4".to_owned(), Mate(-2))]);
        assert_eq!(seen(game, 2, Mate(-2), &d4), [("d4".to_owned(), Centipawns(10))]);
    }
}
