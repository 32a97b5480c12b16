//! Alpha-beta on the same network, as a baseline for the K-best-first search.
//!
//! It has iterative deepening with aspiration windows, principal variation search (Marsland 1982)
//! with a transposition table, quiescence search ([`crate::quiet`]) and the rules of
//! [`Selectivity::alphabeta`]. It lacks enhanced transposition cutoffs, depths of half a ply and the
//! opponent model of the default search. One position is evaluated at a time. Where the network
//! scores no moves, exchanges and the history heuristic (Schaeffer 1983) order them.

mod pruning;

use std::cmp::Reverse;

use board::{Game, Move, Position};
use eval::{EvalError, Evaluator};
use nets::Calibration;

use crate::{
    Control, Limits, Outcome, Search, SearchInfo, Settings,
    cache::NO_MOVE,
    depth_first::{DepthFirst, SearchStack, child_window, if_any, root_moves},
    evaluations::{Evaluations, Stop},
    history::History,
    quiet::{forcing_moves, forcing_moves_and_checks},
    score::{INFINITY, MATE_BOUND, Value, from_child},
    selectivity::{PLY, Selectivity},
    time::TimeManager,
    transposition::TranspositionTable,
};

/// Half the width of the first aspiration window, centipawns.
const ASPIRATION: Value = 25;

/// Alpha-beta over an evaluator.
#[derive(Debug)]
pub struct AlphaBeta {
    stack: SearchStack,
    selectivity: Selectivity,
    /// Orders moves where the network does not.
    history: Option<History>,
    /// Static evaluations on the path, by distance from the root; `None` in check or not known.
    static_values: Vec<Option<Value>>,
    /// Does a null move lead to the position that is searched next?
    after_null_move: bool,
}

/// How the position after a move is searched.
#[derive(Clone, Copy, Debug)]
struct ChildSearch {
    /// Full depth, in parts of a ply.
    depth: i16,
    /// Late-move reduction of the move's first search, in parts of a ply.
    reduction: i16,
    /// Is it the first move? It is searched with the whole window.
    is_first: bool,
}

/// Bytes for evaluations, entries of the transposition table.
fn shares(settings: &Settings) -> (usize, usize) {
    let bytes = settings.hash_mib.max(1) << 20;
    (bytes / 4 * 3, bytes / 4 / TranspositionTable::ENTRY)
}

impl AlphaBeta {
    /// A search over an evaluator; `calibration` says what move scores mean and gives win, draw and
    /// loss.
    #[must_use]
    pub fn new(
        evaluator: Box<dyn Evaluator>,
        calibration: &Calibration,
        settings: &Settings,
    ) -> Self {
        let (bytes, entries) = shares(settings);
        let evaluations = Evaluations::new(evaluator, calibration, bytes);
        Self {
            stack: SearchStack::new(evaluations, calibration, settings, entries),
            selectivity: Selectivity::alphabeta(&settings.tuning),
            history: None,
            static_values: Vec::new(),
            after_null_move: false,
        }
    }

    /// A search over an evaluator without move scores.
    #[must_use]
    pub fn of_values(
        evaluator: Box<dyn Evaluator>,
        calibration: &Calibration,
        settings: &Settings,
    ) -> Self {
        let (bytes, entries) = shares(settings);
        let evaluations = Evaluations::of_values(evaluator, bytes);
        Self {
            stack: SearchStack::new(evaluations, calibration, settings, entries),
            selectivity: Selectivity::alphabeta(&settings.tuning),
            history: Some(History::default()),
            static_values: Vec::new(),
            after_null_move: false,
        }
    }

    /// Scores that order the legal moves, in generation order: those of the network, or exchanges
    /// and history.
    fn scores(
        &mut self,
        position: &Position,
        timer: &mut TimeManager<'_>,
    ) -> Result<Vec<i16>, Stop> {
        match &self.history {
            None => self.stack.evaluations.scores(position, timer),
            Some(history) => {
                Ok(position.legal_moves().iter().map(|&mv| history.score(position, mv)).collect())
            }
        }
    }

    /// For comparison with plain negamax of the same depth: no move is reduced or pruned.
    #[must_use]
    pub fn exact(mut self) -> Self {
        self.selectivity = Selectivity::NONE;
        self
    }

    /// The value of a position within a window, fail-soft; `depth` in parts of a ply.
    fn value(
        &mut self,
        position: &Position,
        depth: i16,
        (alpha, beta): (Value, Value),
        ply: usize,
        timer: &mut TimeManager<'_>,
    ) -> Result<Value, Stop> {
        let after_null_move = std::mem::take(&mut self.after_null_move);
        self.stack.visit(ply, timer)?;
        if let Some(value) = self.stack.ruled(position) {
            return Ok(value);
        }
        if depth <= 0 {
            return self.leaf(position, (alpha, beta), ply, timer);
        }
        let known = self.stack.known(position);
        let is_exact = self.selectivity == Selectivity::NONE;
        if let Some(entry) = known
            && (entry.depth == depth || entry.depth > depth && !is_exact)
            && let Some(value) = self.stack.settled(&entry, (alpha, beta))
        {
            return Ok(value);
        }
        let first = known.map_or(NO_MOVE, |entry| entry.best);
        let static_value = self.static_value(position, (alpha, beta), ply, timer)?;
        if beta - alpha == 1
            && let Some(value) = static_value
        {
            if let Some(value) =
                self.settle_by_value(position, depth, value, (alpha, beta), ply, timer)?
            {
                return Ok(value);
            }
            if !after_null_move
                && let Some(value) = self.null_move(position, depth, value, beta, ply, timer)?
            {
                self.stack.keep(position, depth, value, (alpha, beta), NO_MOVE);
                return Ok(value);
            }
        }
        self.moves(position, depth, first, (alpha, beta), ply, timer)
    }

    /// The value of a node by its moves, within a window; `first`: index of the move to search first,
    /// in generation order.
    fn moves(
        &mut self,
        position: &Position,
        depth: i16,
        first: u8,
        (alpha, beta): (Value, Value),
        ply: usize,
        timer: &mut TimeManager<'_>,
    ) -> Result<Value, Stop> {
        let (moves, check) = (position.legal_moves(), position.is_check());
        let mut best = -INFINITY;
        let scores = self.scores(position, timer)?;
        let mut order: Vec<usize> = (0..moves.len()).collect();
        order.sort_by_key(|&index| (index != usize::from(first), Reverse(scores[index])));

        let (mut raised, mut chosen) = (alpha, NO_MOVE);
        self.stack.step_to(position);
        for (place, &index) in order.iter().enumerate() {
            let after = position.after(moves[index]);
            let late = self.selectivity.is_late(position, check, moves[index], place, false)
                && !after.is_check();
            if late && self.prunes_late_move(&after, scores[index], depth, raised + 1, ply) {
                best = best.max(raised);
                continue;
            }
            let search = ChildSearch {
                depth: depth - PLY,
                reduction: if late { self.reduction(depth, place, scores[index]) } else { 0 },
                is_first: place == 0,
            };
            let value = self.child(&after, search, (raised, beta), ply, timer)?;
            if value > best {
                best = value;
                if value > raised {
                    raised = value;
                    chosen = index as u8;
                }
            }
            if raised >= beta {
                if let Some(history) = &mut self.history {
                    history.add(
                        position,
                        moves[index],
                        depth,
                        order[..place].iter().map(|&tried| moves[tried]),
                    );
                }
                break;
            }
        }
        self.stack.step_back();
        self.stack.keep(position, depth, best, (alpha, beta), chosen);
        Ok(best)
    }

    /// The value of a move for its mover by principal variation search: a move behind the first one
    /// is searched with a zero window and reduced, then to full depth, then with the whole window,
    /// as far as its value asks for it.
    fn child(
        &mut self,
        after: &Position,
        ChildSearch { depth, reduction, is_first }: ChildSearch,
        (alpha, beta): (Value, Value),
        ply: usize,
        timer: &mut TimeManager<'_>,
    ) -> Result<Value, Stop> {
        let mut search = |depth: i16, low, high| {
            let window = child_window((low, high));
            self.value(after, depth.max(0), window, ply + 1, timer).map(from_child)
        };
        if is_first {
            return search(depth, alpha, beta);
        }
        let mut value = search(depth - reduction, alpha, alpha + 1)?;
        if value > alpha && reduction > 0 {
            value = search(depth, alpha, alpha + 1)?;
        }
        if value > alpha && value < beta {
            value = search(depth, alpha, beta)?;
        }
        Ok(value)
    }

    /// Razoring: a position far below the window is searched by captures, promotions and checks
    /// only; `upper` bounds its value without them.
    fn forcing(
        &mut self,
        position: &Position,
        depth: i16,
        (alpha, beta): (Value, Value),
        upper: Value,
        ply: usize,
        timer: &mut TimeManager<'_>,
    ) -> Result<Value, Stop> {
        let mut best = -INFINITY;
        let search = ChildSearch { depth: depth - PLY, reduction: 0, is_first: true };
        self.stack.step_to(position);
        for mv in forcing_moves_and_checks(position) {
            let (window, after) = ((alpha.max(best), beta), position.after(mv));
            best = best.max(match self.delta_prunes(position, mv, &after, upper, window.0 + 1) {
                Some(reach) => reach,
                None => self.child(&after, search, window, ply, timer)?,
            });
            if best >= beta {
                break;
            }
        }
        self.stack.step_back();
        Ok(best)
    }

    /// Quiescence search: see [`crate::quiet`].
    fn leaf(
        &mut self,
        position: &Position,
        (alpha, beta): (Value, Value),
        ply: usize,
        timer: &mut TimeManager<'_>,
    ) -> Result<Value, Stop> {
        self.stack.visit(ply, timer)?;
        if let Some(value) = self.stack.ended(position) {
            return Ok(value);
        }
        let check = position.is_check();
        let value =
            if check { -INFINITY } else { self.stack.evaluations.value(position, timer)? };
        let mut best = value;
        for mv in forcing_moves(position) {
            if best >= beta {
                break;
            }
            let (window, after) = ((alpha.max(best), beta), position.after(mv));
            let pruned = if check {
                None
            } else {
                self.delta_prunes(position, mv, &after, value, window.0 + 1)
            };
            best = best.max(match pruned {
                Some(reach) => reach,
                None => from_child(self.leaf(&after, child_window(window), ply + 1, timer)?),
            });
        }
        Ok(best)
    }

    /// The root at one depth: the value of the best of `moves` within a window. The best move so
    /// far stands in front.
    fn root(
        &mut self,
        position: &Position,
        moves: &mut [Move],
        depth: i16,
        (alpha, beta): (Value, Value),
        timer: &mut TimeManager<'_>,
    ) -> Result<Value, (Stop, Value)> {
        let (mut raised, mut best) = (alpha, -INFINITY);
        let check = position.is_check();
        for place in 0..moves.len() {
            let after = position.after(moves[place]);
            let late = self.selectivity.is_late(position, check, moves[place], place, true)
                && !after.is_check();
            let search = ChildSearch {
                depth: depth - PLY,
                // At the root every move counts as likely.
                reduction: if late { self.reduction(depth, place, 0) } else { 0 },
                is_first: place == 0,
            };
            match self.child(&after, search, (raised, beta), 0, timer) {
                Ok(value) => {
                    if value > raised || place == 0 {
                        moves[..=place].rotate_right(1);
                    }
                    best = best.max(value);
                    raised = raised.max(value);
                }
                Err(stop) => {
                    // A value at or below alpha proves nothing about the move.
                    return Err((stop, if raised > alpha { raised } else { -INFINITY }));
                }
            }
            if raised >= beta {
                break;
            }
        }
        Ok(best)
    }
}

impl DepthFirst for AlphaBeta {
    fn stack(&mut self) -> &mut SearchStack {
        &mut self.stack
    }

    /// Aspiration windows: the first window lies around the last value; it is widened where the
    /// value lies outside.
    fn resolve(
        &mut self,
        position: &Position,
        moves: &mut [Move],
        depth: u32,
        guess: Option<Value>,
        timer: &mut TimeManager<'_>,
    ) -> Result<Value, (Stop, Option<Value>)> {
        self.static_values.clear();
        if self.selectivity != Selectivity::NONE {
            self.static_value(position, (-INFINITY, INFINITY), 0, timer)
                .map_err(|stop| (stop, None))?;
        }
        let depth = depth as i16 * PLY;
        let (mut alpha, mut beta) = match guess {
            Some(guess) if depth > 2 * PLY && guess.abs() < MATE_BOUND => {
                (guess - ASPIRATION, guess + ASPIRATION)
            }
            _ => (-INFINITY, INFINITY),
        };
        let mut step = 4 * ASPIRATION;
        // Lower bound on the move in front, from a window that failed high.
        let mut proven = -INFINITY;
        loop {
            let value = self
                .root(position, moves, depth, (alpha, beta), timer)
                .map_err(|(stop, value)| (stop, if_any(value.max(proven))))?;
            if value <= alpha && alpha > -INFINITY {
                alpha = (value - step).max(-INFINITY);
                proven = -INFINITY;
            } else if value >= beta && beta < INFINITY {
                beta = (value + step).min(INFINITY);
                proven = value;
            } else {
                return Ok(value);
            }
            step = if step > 1000 { 2 * INFINITY } else { 4 * step };
        }
    }
}

impl Search for AlphaBeta {
    fn search(
        &mut self,
        game: &Game,
        limits: &Limits,
        control: &Control,
        report: &mut dyn FnMut(&SearchInfo),
    ) -> Result<Outcome, EvalError> {
        let mut timer = TimeManager::new(limits, self.stack.settings.move_overhead, control);
        self.stack.start(game);
        let position = game.position();
        let all = position.legal_moves();
        let mut moves = root_moves(position, limits);
        if let Some(history) = &mut self.history {
            history.fade();
        }
        match self.scores(position, &mut timer) {
            Ok(scores) if !all.is_empty() => {
                let score =
                    |mv: &Move| all.iter().position(|other| other == mv).map(|index| scores[index]);
                moves.sort_by_key(|mv| Reverse(score(mv)));
            }
            Err(Stop::Failed(error)) => return Err(error),
            _ => {}
        }
        let selectivity = self.selectivity;
        if limits.mate.is_some() {
            self.selectivity = Selectivity::NONE;
        }
        let outcome = self.deepen(game, moves, limits, &mut timer, report);
        self.selectivity = selectivity;
        outcome
    }

    fn configure(&mut self, settings: &Settings) {
        if settings.hash_mib != self.stack.settings.hash_mib {
            let (bytes, entries) = shares(settings);
            self.stack.table = TranspositionTable::new(1);
            match self.history {
                None => self.stack.evaluations.resize(bytes),
                Some(_) => self.stack.evaluations.resize_values(bytes),
            }
            self.stack.table = TranspositionTable::new(entries);
        }
        if settings.tuning != self.stack.settings.tuning && self.selectivity != Selectivity::NONE {
            self.selectivity = Selectivity::alphabeta(&settings.tuning);
            self.clear();
        }
        self.stack.configure(settings);
    }

    fn clear(&mut self) {
        self.stack.clear();
        self.history = self.history.take().map(|_| History::default());
    }
}

#[cfg(test)]
mod tests;
