//! The parts that depth-first searches share: the path from the root, a transposition table, and
//! iterative deepening that reports lines. Each search has its own way to search a node.

use std::cmp::Reverse;

use board::{Game, Move, Position, Score};
use eval::EvalError;
use nets::{Calibration, MoveScores};

use crate::{
    Bound, Limits, Outcome, SearchInfo, Settings,
    evaluations::{Evaluations, Stop},
    quiet::exchange,
    rules,
    score::{INFINITY, Value, child_bound, to_score, wdl},
    time::{TO_BEGIN_A_PLY, TimeManager},
    transposition::{Entry, TranspositionTable},
};

/// The evaluations and the transposition table of a depth-first search, and its path from the root.
#[derive(Debug)]
pub(crate) struct SearchStack {
    pub evaluations: Evaluations,
    pub settings: Settings,
    pub table: TranspositionTable,
    calibration: Calibration,
    /// Keys of the positions from the start of the game to the parent of the current position.
    path: Vec<u64>,
    /// Index of the root in the path.
    root_at: usize,
    deepest: u32,
}

impl SearchStack {
    /// `calibration` gives win, draw and loss chances; `entries`: size of the transposition table.
    pub(crate) fn new(
        evaluations: Evaluations,
        calibration: &Calibration,
        settings: &Settings,
        entries: usize,
    ) -> Self {
        Self {
            evaluations,
            settings: settings.clone(),
            table: TranspositionTable::new(entries),
            calibration: calibration.clone(),
            path: Vec::new(),
            root_at: 0,
            deepest: 0,
        }
    }

    /// Forgets everything learned.
    pub(crate) fn clear(&mut self) {
        self.evaluations.clear();
        self.table.clear();
    }

    /// Takes new settings. Other endgame tables clear the transposition table.
    pub(crate) fn configure(&mut self, settings: &Settings) {
        if settings.tables != self.settings.tables {
            self.table.clear();
        }
        self.settings = settings.clone();
    }

    /// Begins a search of a game's current position.
    pub(crate) fn start(&mut self, game: &Game) {
        self.table.new_search();
        self.deepest = 0;
        self.path = game.keys().to_vec();
        self.root_at = self.path.len();
    }

    /// Makes the root the last position of the path.
    fn return_to(&mut self, root: &Position) {
        self.path.truncate(self.root_at);
        self.step_to(root);
    }

    /// Adds a position to the path before its children are searched.
    pub(crate) fn step_to(&mut self, position: &Position) {
        self.path.push(position.key());
    }

    /// Takes the last position from the path after its children are searched.
    pub(crate) fn step_back(&mut self) {
        self.path.pop();
    }

    /// Counts a position `ply` plies below the root.
    pub(crate) fn visit(&mut self, ply: usize, timer: &mut TimeManager<'_>) -> Result<(), Stop> {
        self.deepest = self.deepest.max(ply as u32);
        if timer.is_over_at_step() { Err(Stop::Over) } else { Ok(()) }
    }

    /// The value by the rules of chess or the endgame tables, repetitions apart.
    pub(crate) fn ended(&self, position: &Position) -> Option<Value> {
        rules::ended(position, self.settings.tables.as_deref())
    }

    /// As [`SearchStack::ended`], repetitions included ([`SearchStack::is_repetition_here`]).
    pub(crate) fn ruled(&self, position: &Position) -> Option<Value> {
        self.ended(position).or_else(|| self.is_repetition_here(position).then_some(0))
    }

    /// Has the position occurred since the root, or twice in the game before it?
    pub(crate) fn is_repetition_here(&self, position: &Position) -> bool {
        let (game, way) = self.path.split_at(self.root_at);
        rules::is_repetition(position, way.iter().rev().copied(), game)
    }

    /// The transposition table's entry of a position; none near the fifty-move limit, where the
    /// value depends on the clock.
    pub(crate) fn known(&self, position: &Position) -> Option<Entry> {
        self.table.probe(position.key()).filter(|_| is_kept(position))
    }

    /// The value that an entry gives within a window, if the entry is of this search.
    pub(crate) fn settled(&self, entry: &Entry, (alpha, beta): (Value, Value)) -> Option<Value> {
        let value = Value::from(entry.value);
        let settles = self.table.is_of_this_search(entry)
            && match entry.bound {
                Bound::Exact => true,
                Bound::Lower => value >= beta,
                Bound::Upper => value <= alpha,
            };
        settles.then_some(value)
    }

    /// Stores the result of a search within a window; `depth` in parts of a ply, `chosen`: index of
    /// the best move in generation order.
    pub(crate) fn keep(
        &mut self,
        position: &Position,
        depth: i16,
        value: Value,
        (alpha, beta): (Value, Value),
        chosen: u8,
    ) {
        if !is_kept(position) {
            return;
        }
        let bound = match value {
            value if value >= beta => Bound::Lower,
            value if value > alpha => Bound::Exact,
            _ => Bound::Upper,
        };
        self.table.store(position.key(), depth, value, bound, chosen);
    }

    /// The best moves of the transposition table after `first`, up to `plies` in all.
    fn principal_variation(&self, root: &Position, first: Move, plies: u32) -> Vec<Move> {
        let mut line = vec![first];
        let mut position = root.after(first);
        while (line.len() as u32) < plies
            && let Some(entry) = self.table.probe(position.key())
            && let Some(&mv) = position.legal_moves().get(usize::from(entry.best))
        {
            line.push(mv);
            position.play(mv);
        }
        line
    }
}

/// Is the fifty-move clock too low to change the value?
fn is_kept(position: &Position) -> bool {
    position.halfmove_clock() < 70
}

/// A search that resolves the root at one depth after another.
pub(crate) trait DepthFirst {
    fn stack(&mut self) -> &mut SearchStack;

    /// Searches `moves` at a depth in plies, around `guess` if there is one; returns the value of
    /// the best and moves it to the front. When a limit stops it, the error holds the value of the
    /// move in front if this depth has proven one.
    fn resolve(
        &mut self,
        root: &Position,
        moves: &mut [Move],
        depth: u32,
        guess: Option<Value>,
        timer: &mut TimeManager<'_>,
    ) -> Result<Value, (Stop, Option<Value>)>;

    /// Iterative deepening over these moves of the game's current position, the most promising
    /// first.
    fn deepen(
        &mut self,
        game: &Game,
        mut moves: Vec<Move>,
        limits: &Limits,
        timer: &mut TimeManager<'_>,
        report: &mut dyn FnMut(&SearchInfo),
    ) -> Result<Outcome, EvalError> {
        let root = game.position();
        let wanted = self.stack().settings.multipv.clamp(1, moves.len().max(1));
        let mut lines: Vec<SearchInfo> = Vec::new();
        'depths: for depth in 1..=limits.last_depth() {
            if moves.is_empty() || depth > 1 && timer.is_late(TO_BEGIN_A_PLY) {
                break;
            }
            let mut found: Vec<SearchInfo> = Vec::new();
            for rank in 0..wanted {
                let guess = lines.get(rank).and_then(|line| match line.score {
                    Score::Centipawns(value) => Some(value),
                    Score::Mate(_) => None,
                });
                self.stack().return_to(root);
                let (value, bound) =
                    match self.resolve(root, &mut moves[rank..], depth, guess, timer) {
                        Ok(value) => (value, Bound::Exact),
                        Err((Stop::Failed(error), _)) => return Err(error),
                        // The move in front is one that the interrupted depth has proven to be
                        // better.
                        Err((Stop::Over, Some(value))) if rank == 0 && wanted == 1 => {
                            (value, Bound::Lower)
                        }
                        Err((Stop::Over, _)) => break 'depths,
                    };
                let stack = self.stack();
                found.push(SearchInfo {
                    depth,
                    seldepth: stack.deepest.max(depth),
                    multipv: rank + 1,
                    score: to_score(value),
                    bound,
                    wdl: wdl(&stack.calibration, value),
                    moves_left: None,
                    nodes: timer.nodes(),
                    elapsed: timer.elapsed(),
                    hashfull: stack.table.fill_per_mille(),
                    pv: stack.principal_variation(root, moves[rank], depth),
                });
            }
            // Reductions can make a later line the better one.
            found.sort_by_key(|line| Reverse(line.score.order()));
            for (place, line) in found.iter_mut().enumerate() {
                line.multipv = place + 1;
                moves[place] = line.pv[0];
                report(line);
            }
            let interrupted = found.iter().any(|line| line.bound != Bound::Exact);
            lines = found;
            if let Some(SearchInfo { score: Score::Centipawns(value), pv, .. }) = lines.first() {
                timer.note_depth(pv[0], *value, None);
            }
            let only_move =
                root.legal_moves().len() == 1 && limits.clock.is_some() && !timer.must_wait();
            if interrupted || only_move || is_decided(&lines, wanted, depth, limits) {
                break;
            }
        }
        if lines.is_empty()
            && let Some(line) = self.stack().likeliest(root, &moves, timer)?
        {
            report(&line);
            lines.push(line);
        }
        timer.wait();
        Ok(Outcome {
            best: lines.first().map(|line| line.pv[0]).or(moves.first().copied()),
            ponder: lines.first().and_then(|line| line.pv.get(1).copied()),
            nodes: timer.nodes(),
            lines,
        })
    }
}

impl SearchStack {
    /// The likeliest of `moves` as a line of depth 0, if the network has a policy.
    fn likeliest(
        &mut self,
        root: &Position,
        moves: &[Move],
        timer: &mut TimeManager<'_>,
    ) -> Result<Option<SearchInfo>, EvalError> {
        if self.evaluations.move_scores() != MoveScores::Policy || moves.is_empty() {
            return Ok(None);
        }
        let scores = match self.evaluations.scores(root, timer) {
            Ok(scores) => scores,
            Err(Stop::Over) => return Ok(None),
            Err(Stop::Failed(error)) => return Err(error),
        };
        let legal = root.legal_moves();
        let chances = legal.iter().zip(scores).filter(|(mv, _)| moves.contains(mv));
        let best = chances.max_by_key(|&(_, score)| score).map(|(&mv, _)| mv);
        let value = self.evaluations.known_value(root);
        Ok(best.zip(value).map(|(mv, value)| SearchInfo {
            depth: 0,
            seldepth: 0,
            multipv: 1,
            score: to_score(value),
            bound: Bound::Exact,
            wdl: wdl(&self.calibration, value),
            moves_left: None,
            nodes: timer.nodes(),
            elapsed: timer.elapsed(),
            hashfull: self.table.fill_per_mille(),
            pv: vec![mv],
        }))
    }
}

/// Is there a mate that no deeper search can shorten, or one within the limit `mate`?
fn is_decided(lines: &[SearchInfo], wanted: usize, depth: u32, limits: &Limits) -> bool {
    lines.first().is_some_and(|line| match line.score {
        Score::Mate(moves) => {
            limits.mate.is_some_and(|wanted| moves > 0 && moves as u32 <= wanted)
                || wanted == 1 && 2 * moves.unsigned_abs() <= depth + 1
        }
        Score::Centipawns(_) => false,
    })
}

/// A window for the mover as a window for the side to move after the move.
pub(crate) fn child_window((alpha, beta): (Value, Value)) -> (Value, Value) {
    (child_bound(beta) - 1, child_bound(alpha + 1))
}

/// The root moves that the limits allow, best exchange first.
pub(crate) fn root_moves(position: &Position, limits: &Limits) -> Vec<Move> {
    let mut moves: Vec<Move> =
        position.legal_moves().iter().copied().filter(|&mv| limits.allows(mv)).collect();
    moves.sort_by_key(|&mv| Reverse(exchange(position, mv)));
    moves
}

/// `None` for the value below all values.
pub(crate) fn if_any(value: Value) -> Option<Value> {
    (value > -INFINITY).then_some(value)
}

#[cfg(test)]
mod tests {
    use board::{SplitMix64, testing::small_position};
    use eval::Mock;

    use super::*;
    use crate::{AlphaBeta, CockfishSearch, Control, Search, plain::mates_in};

    fn both(settings: &Settings) -> [Box<dyn Search>; 2] {
        let settings = Settings { hash_mib: 16, ..settings.clone() };
        let calibration = Calibration::default();
        let alphabeta = AlphaBeta::new(Box::new(Mock::new(3)), &calibration, &settings).exact();
        let minimax = CockfishSearch::new(Box::new(Mock::new(3)), &calibration, &settings);
        [Box::new(alphabeta), Box::new(minimax)]
    }

    #[test]
    fn short_mates_are_found() {
        let mut dice = SplitMix64::new(7);
        let mut found = [0; 3];
        while found[1] < 15 || found[2] < 15 {
            let position = small_position(&mut dice, 4);
            let Some(moves) = (1..=2).find(|&moves| mates_in(&position, moves)) else { continue };
            found[moves as usize] += 1;
            let limits = Limits { depth: Some(2 * moves - 1), ..Limits::default() };
            let game = Game::new(position.clone());
            for mut search in both(&Settings::default()) {
                let outcome =
                    search.search(&game, &limits, &Control::default(), &mut |_| {}).unwrap();
                assert_eq!(outcome.lines[0].score, Score::Mate(moves as i32), "{}", position.fen());
            }
        }
    }

    #[test]
    fn lines_are_several_different_and_in_order() {
        for mut search in both(&Settings { multipv: 3, ..Settings::default() }) {
            let limits = Limits { depth: Some(3), ..Limits::default() };
            let outcome =
                search.search(&Game::default(), &limits, &Control::default(), &mut |_| {}).unwrap();
            let firsts: Vec<Move> = outcome.lines.iter().map(|line| line.pv[0]).collect();
            assert!(firsts.len() == 3 && firsts[0] != firsts[1]);
            assert!(firsts[1] != firsts[2] && firsts[0] != firsts[2]);
            assert!(outcome.lines.is_sorted_by(|a, b| a.score.order() >= b.score.order()));
            assert!(outcome.lines.iter().all(|line| line.depth == 3 && line.pv.len() == 3));
        }
    }
}
