//! Cockfish's search (2026): alpha-beta to a fixed depth over a value network, with one cache of
//! positions that lasts from move to move. The leaves below a position are evaluated together, as
//! one batch of siblings. Its name in options is `minimax`.
//!
//! The value at depth d equals that of plain minimax at depth d. Iterative deepening meets limits
//! of time and nodes. In the published search leaves take the static evaluation; the setting
//! `quiet_leaves` adds quiescence ([`crate::quiet`]).

use std::cmp::Reverse;

use board::{Game, Move, Position};
use eval::{EvalError, Evaluator};
use nets::Calibration;

use crate::{
    Control, Limits, Outcome, Search, SearchInfo, Settings,
    cache::NO_MOVE,
    depth_first::{DepthFirst, SearchStack, child_window, if_any, root_moves},
    evaluations::{Evaluations, Stop},
    quiet::{exchange, forcing_moves},
    score::{INFINITY, Value, from_child},
    selectivity::PLY,
    time::TimeManager,
    transposition::TranspositionTable,
};

/// Cockfish's alpha-beta over the value head of an evaluator. The evaluations and the transposition
/// table of its [`SearchStack`] are the cache of positions.
#[derive(Debug)]
pub struct CockfishSearch {
    stack: SearchStack,
}

/// Least number of siblings evaluated together where the user sets no batch size: the weights of a
/// dense layer (megabytes) are read once for all of them.
const SIBLINGS: usize = 8;

/// Bytes for values, entries of the transposition table.
fn shares(settings: &Settings) -> (usize, usize) {
    let bytes = settings.hash_mib.max(1) << 20;
    (bytes / 2, bytes / 2 / TranspositionTable::ENTRY)
}

impl CockfishSearch {
    /// A search over an evaluator with a value head; `calibration` gives win, draw and loss.
    #[must_use]
    pub fn new(
        evaluator: Box<dyn Evaluator>,
        calibration: &Calibration,
        settings: &Settings,
    ) -> Self {
        let (bytes, entries) = shares(settings);
        let evaluations = Evaluations::of_values(evaluator, bytes);
        Self { stack: SearchStack::new(evaluations, calibration, settings, entries) }
    }

    /// Largest number of siblings evaluated together.
    fn width(&self) -> usize {
        let wanted = self.stack.settings.batch;
        let least = if wanted == 0 { self.stack.evaluations.width(SIBLINGS) } else { 1 };
        self.stack.evaluations.width(wanted).max(least)
    }

    /// The value of a position for its mover within a window, fail-soft; `depth` in plies.
    fn value(
        &mut self,
        position: &Position,
        depth: u32,
        (alpha, beta): (Value, Value),
        ply: usize,
        timer: &mut TimeManager<'_>,
    ) -> Result<Value, Stop> {
        self.stack.visit(ply, timer)?;
        if let Some(value) = self.stack.ruled(position) {
            return Ok(value);
        }
        if depth == 0 {
            return self.leaf(position, (alpha, beta), ply, timer);
        }
        let stored_depth = depth as i16 * PLY;
        let known = self.stack.known(position);
        if let Some(entry) = known
            && entry.depth == stored_depth
            && let Some(value) = self.stack.settled(&entry, (alpha, beta))
        {
            return Ok(value);
        }
        let moves = position.legal_moves();
        let first = known.map_or(NO_MOVE, |entry| entry.best);
        let mut children: Vec<(usize, Position)> =
            moves.iter().enumerate().map(|(index, &mv)| (index, position.after(mv))).collect();
        children.sort_by_cached_key(|(index, after)| {
            let score = self.order_score(position, moves[*index], after);
            (*index != usize::from(first), Reverse(score))
        });
        self.stack.step_to(position);
        let (best, chosen) = self.best_of(&children, depth - 1, (alpha, beta), ply, timer)?;
        self.stack.step_back();
        self.stack.keep(position, stored_depth, best, (alpha, beta), chosen);
        Ok(best)
    }

    /// Score of a move for the order: minus the static evaluation of the position after it if that
    /// is known, else the exchange, with quiet moves last.
    fn order_score(&self, position: &Position, mv: Move, after: &Position) -> Value {
        match self.stack.evaluations.known_value(after) {
            Some(value) => -value,
            None => {
                exchange(position, mv) - 1000 * i32::from(!mv.is_capture() && !mv.is_promotion())
            }
        }
    }

    /// The largest value of a position's children, searched in this order, and the index of the
    /// move behind it if the value is above alpha. The position itself is the last of the path.
    fn best_of(
        &mut self,
        children: &[(usize, Position)],
        depth: u32,
        (alpha, beta): (Value, Value),
        ply: usize,
        timer: &mut TimeManager<'_>,
    ) -> Result<(Value, u8), Stop> {
        let (mut best, mut chosen) = (-INFINITY, NO_MOVE);
        let width = if depth == 0 { self.width() } else { 1 };
        for siblings in children.chunks(width) {
            if depth == 0 {
                self.learn(siblings.iter().map(|(_, after)| after), timer)?;
            }
            for (index, after) in siblings {
                let window = (alpha.max(best), beta);
                let value =
                    from_child(self.value(after, depth, child_window(window), ply + 1, timer)?);
                if value > best {
                    best = value;
                    if value > alpha {
                        chosen = *index as u8;
                    }
                }
                if best >= beta {
                    return Ok((best, chosen));
                }
            }
        }
        Ok((best, chosen))
    }

    /// Evaluates together those siblings that need an evaluation.
    fn learn<'a>(
        &mut self,
        siblings: impl Iterator<Item = &'a Position>,
        timer: &mut TimeManager<'_>,
    ) -> Result<(), Stop> {
        let quiet = self.stack.settings.quiet_leaves;
        let unresolved: Vec<&Position> = siblings
            .filter(|at| !(quiet && at.is_check()) && self.stack.ruled(at).is_none())
            .collect();
        self.stack.evaluations.learn_values(&unresolved, timer)
    }

    /// The value of a leaf: its static evaluation, or with `quiet_leaves` a quiescence search.
    fn leaf(
        &mut self,
        position: &Position,
        (alpha, beta): (Value, Value),
        ply: usize,
        timer: &mut TimeManager<'_>,
    ) -> Result<Value, Stop> {
        if !self.stack.settings.quiet_leaves {
            return self.stack.evaluations.value(position, timer);
        }
        let mut best = if position.is_check() {
            -INFINITY
        } else {
            self.stack.evaluations.value(position, timer)?
        };
        if best >= beta {
            return Ok(best);
        }
        let children: Vec<Position> =
            forcing_moves(position).iter().map(|&mv| position.after(mv)).collect();
        let width = self.width();
        for siblings in children.chunks(width) {
            let open: Vec<&Position> =
                siblings.iter().filter(|after| self.stack.ended(after).is_none()).collect();
            self.learn(open.into_iter(), timer)?;
            for after in siblings {
                self.stack.visit(ply + 1, timer)?;
                let value = match self.stack.ended(after) {
                    Some(value) => value,
                    None => {
                        self.leaf(after, child_window((alpha.max(best), beta)), ply + 1, timer)?
                    }
                };
                best = best.max(from_child(value));
                if best >= beta {
                    return Ok(best);
                }
            }
        }
        Ok(best)
    }
}

impl DepthFirst for CockfishSearch {
    fn stack(&mut self) -> &mut SearchStack {
        &mut self.stack
    }

    fn resolve(
        &mut self,
        position: &Position,
        moves: &mut [Move],
        depth: u32,
        _guess: Option<Value>,
        timer: &mut TimeManager<'_>,
    ) -> Result<Value, (Stop, Option<Value>)> {
        let mut best = -INFINITY;
        if depth == 1 {
            let width = self.width();
            for siblings in moves.chunks(width) {
                let siblings: Vec<Position> =
                    siblings.iter().map(|&mv| position.after(mv)).collect();
                self.learn(siblings.iter(), timer).map_err(|stop| (stop, None))?;
            }
        }
        for place in 0..moves.len() {
            let after = position.after(moves[place]);
            let window = child_window((best, INFINITY));
            match self.value(&after, depth - 1, window, 1, timer) {
                Ok(value) => {
                    let value = from_child(value);
                    if value > best {
                        best = value;
                        moves[..=place].rotate_right(1);
                    }
                }
                Err(stop) => return Err((stop, if_any(best))),
            }
        }
        Ok(best)
    }
}

impl Search for CockfishSearch {
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
        let moves = root_moves(position, limits);
        self.deepen(game, moves, limits, &mut timer, report)
    }

    fn configure(&mut self, settings: &Settings) {
        if settings.quiet_leaves != self.stack.settings.quiet_leaves {
            self.stack.table.clear();
        }
        if settings.hash_mib != self.stack.settings.hash_mib {
            let (bytes, entries) = shares(settings);
            self.stack.table = TranspositionTable::new(1);
            self.stack.evaluations.resize_values(bytes);
            self.stack.table = TranspositionTable::new(entries);
        }
        self.stack.configure(settings);
    }

    fn clear(&mut self) {
        self.stack.clear();
    }
}

#[cfg(test)]
mod tests;
