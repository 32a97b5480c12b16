//! Cockfish's search (2026): minimax to a fixed depth with alpha-beta, over a value network, and one cache of positions
//! that lasts from move to move. The leaves below a position are evaluated together, in one batch of siblings.
//!
//! The value at depth d is exactly that of plain minimax at depth d; time and node limits are met by deepening step by
//! step. Published are leaves that are taken at the network's word; `quiet_leaves` adds the leaf rule of [`crate::quiet`].

use std::cmp::Reverse;

use board::{Game, Move, Position};
use eval::{EvalError, Evaluator};
use nets::Calibration;

use crate::{
    Bound, Control, Limits, Outcome, Score, Search, SearchInfo, Settings,
    evaluations::{Evaluations, Stop},
    memory::NO_MOVE,
    quiet::{exchange, forcing_moves},
    rules,
    score::{INFINITY, Value, child_separator, from_child, to_score, wdl},
    selectivity::PLY,
    table::Table,
    time::Watch,
};

/// Minimax over the value head of an evaluator.
#[derive(Debug)]
pub struct Minimax {
    /// Together with `table` the cache of positions.
    evaluations: Evaluations,
    calibration: Calibration,
    settings: Settings,
    table: Table,
    /// Keys of the positions from the start of the game to the one at hand.
    path: Vec<u64>,
    /// Where in the path the root stands.
    root_at: usize,
    deepest: u32,
    /// Positions looked at in this search, evaluated or not.
    visits: u64,
    most_visits: u64,
}

/// Where evaluations are limited, so many positions may be looked at for each: what is known costs none.
const VISITS: u64 = 100;

/// So many siblings at least are evaluated together where no size is asked for: the megabytes of a dense layer are read
/// once for all of them.
const SIBLINGS: usize = 8;

/// A window for the mover seen by the other side.
fn turned((alpha, beta): (Value, Value)) -> (Value, Value) {
    (child_separator(beta) - 1, child_separator(alpha + 1))
}

/// Bytes for values, entries of the table.
fn shares(settings: &Settings) -> (usize, usize) {
    let bytes = settings.hash_mib.max(1) << 20;
    (bytes / 2, bytes / 2 / Table::ENTRY)
}

impl Minimax {
    /// Siblings evaluated together at most.
    fn width(&self) -> usize {
        let wanted = self.settings.batch;
        let least = if wanted == 0 { self.evaluations.width(SIBLINGS) } else { 1 };
        self.evaluations.width(wanted).max(least)
    }

    /// A search over an evaluator with a value head; `calibration` gives win, draw and loss.
    #[must_use]
    pub fn new(evaluator: Box<dyn Evaluator>, calibration: &Calibration, settings: &Settings) -> Self {
        let (bytes, entries) = shares(settings);
        Self {
            evaluations: Evaluations::of_values(evaluator, bytes),
            calibration: calibration.clone(),
            settings: settings.clone(),
            table: Table::new(entries),
            path: Vec::new(),
            root_at: 0,
            deepest: 0,
            visits: 0,
            most_visits: u64::MAX,
        }
    }

    fn is_repetition(&self, position: &Position) -> bool {
        let (game, way) = self.path.split_at(self.root_at);
        rules::is_repetition(position, way.iter().rev().copied(), game)
    }

    /// The value without an evaluation, where the rules give it.
    fn ruled(&self, position: &Position) -> Option<Value> {
        rules::ended(position).or_else(|| self.is_repetition(position).then_some(0))
    }

    fn visit(&mut self, ply: usize, watch: &mut Watch<'_>) -> Result<(), Stop> {
        self.deepest = self.deepest.max(ply as u32);
        self.visits += 1;
        // What is known costs no evaluation, and can still go on for ever.
        let is_over = self.visits > self.most_visits || self.visits.is_multiple_of(64) && watch.is_over();
        if is_over { Err(Stop::Over) } else { Ok(()) }
    }

    /// The value of a position for its mover within a window, fail-soft; `depth` in plies.
    fn value(
        &mut self,
        position: &Position,
        depth: u32,
        (alpha, beta): (Value, Value),
        ply: usize,
        watch: &mut Watch<'_>,
    ) -> Result<Value, Stop> {
        self.visit(ply, watch)?;
        if let Some(value) = self.ruled(position) {
            return Ok(value);
        }
        if depth == 0 {
            return self.leaf(position, (alpha, beta), ply, watch);
        }
        let (key, stored_depth) = (position.key(), depth as i16 * PLY);
        // Near the fifty-move limit a position is another one at each clock.
        let remember = position.halfmove_clock() < 70;
        let known = self.table.probe(key).filter(|_| remember);
        if let Some(entry) = known
            && entry.depth == stored_depth
            && self.table.is_of_this_search(&entry)
        {
            let value = Value::from(entry.value);
            match entry.bound {
                Bound::Exact => return Ok(value),
                Bound::Lower if value >= beta => return Ok(value),
                Bound::Upper if value <= alpha => return Ok(value),
                _ => {}
            }
        }
        let moves = position.legal_moves();
        let first = known.map_or(NO_MOVE, |entry| entry.best);
        let mut children: Vec<(usize, Position)> =
            moves.iter().enumerate().map(|(index, &mv)| (index, position.after(mv))).collect();
        children.sort_by_cached_key(|(index, after)| {
            let hope = self.hope(position, moves[*index], after);
            (*index != usize::from(first), Reverse(hope))
        });
        self.path.push(key);
        let (best, chosen) = self.best_of(&children, depth - 1, (alpha, beta), ply, watch)?;
        self.path.pop();
        if remember {
            let bound = match best {
                best if best >= beta => Bound::Lower,
                best if best > alpha => Bound::Exact,
                _ => Bound::Upper,
            };
            self.table.store(key, stored_depth, best, bound, chosen);
        }
        Ok(best)
    }

    /// What to try first: moves into positions that the network is known to like, else captures.
    fn hope(&self, position: &Position, mv: Move, after: &Position) -> Value {
        match self.evaluations.known_value(after) {
            Some(value) => -value,
            None => exchange(position, mv) - 1000 * i32::from(!mv.is_capture() && !mv.is_promotion()),
        }
    }

    /// The largest value of a position's children in this order, and which one it is if it is above the window's
    /// lower end. The position itself is the last of the path.
    fn best_of(
        &mut self,
        children: &[(usize, Position)],
        depth: u32,
        (alpha, beta): (Value, Value),
        ply: usize,
        watch: &mut Watch<'_>,
    ) -> Result<(Value, u8), Stop> {
        let (mut best, mut chosen) = (-INFINITY, NO_MOVE);
        let siblings = if depth == 0 { self.width() } else { 1 };
        for siblings in children.chunks(siblings) {
            if depth == 0 {
                self.learn(siblings.iter().map(|(_, after)| after), watch)?;
            }
            for (index, after) in siblings {
                let window = (alpha.max(best), beta);
                let value = from_child(self.value(after, depth, turned(window), ply + 1, watch)?);
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

    /// Evaluates siblings together, as far as they need it.
    fn learn<'a>(
        &mut self,
        siblings: impl Iterator<Item = &'a Position>,
        watch: &mut Watch<'_>,
    ) -> Result<(), Stop> {
        let quiet = self.settings.quiet_leaves;
        let needy: Vec<&Position> =
            siblings.filter(|at| !(quiet && at.is_check()) && self.ruled(at).is_none()).collect();
        self.evaluations.learn_values(&needy, watch)
    }

    /// A leaf that goes on: the network's word, or the best of it and of the captures.
    fn leaf(
        &mut self,
        position: &Position,
        (alpha, beta): (Value, Value),
        ply: usize,
        watch: &mut Watch<'_>,
    ) -> Result<Value, Stop> {
        if !self.settings.quiet_leaves {
            return self.evaluations.value(position, watch);
        }
        let mut best =
            if position.is_check() { -INFINITY } else { self.evaluations.value(position, watch)? };
        if best >= beta {
            return Ok(best);
        }
        let children: Vec<Position> = forcing_moves(position).iter().map(|&mv| position.after(mv)).collect();
        let width = self.width();
        for siblings in children.chunks(width) {
            let open = siblings.iter().filter(|after| rules::ended(after).is_none());
            self.learn(open, watch)?;
            for after in siblings {
                self.visit(ply + 1, watch)?;
                let value = match rules::ended(after) {
                    Some(value) => value,
                    None => self.leaf(after, turned((alpha.max(best), beta)), ply + 1, watch)?,
                };
                best = best.max(from_child(value));
                if best >= beta {
                    return Ok(best);
                }
            }
        }
        Ok(best)
    }

    /// The root at one depth: the value of the best of `moves`, which then stands in front. If it has to stop, the value
    /// of what was found better than the move in front, if anything was.
    fn root(
        &mut self,
        position: &Position,
        moves: &mut [Move],
        depth: u32,
        watch: &mut Watch<'_>,
    ) -> Result<Value, (Stop, Option<Value>)> {
        let mut best = -INFINITY;
        self.path.truncate(self.root_at);
        self.path.push(position.key());
        if depth == 1 {
            let width = self.width();
            for siblings in moves.chunks(width) {
                let siblings: Vec<Position> = siblings.iter().map(|&mv| position.after(mv)).collect();
                self.learn(siblings.iter(), watch).map_err(|stop| (stop, None))?;
            }
        }
        for place in 0..moves.len() {
            let after = position.after(moves[place]);
            let window = turned((best, INFINITY));
            match self.value(&after, depth - 1, window, 1, watch) {
                Ok(value) => {
                    let value = from_child(value);
                    if value > best {
                        best = value;
                        moves[..=place].rotate_right(1);
                    }
                }
                Err(stop) => return Err((stop, (best > -INFINITY).then_some(best))),
            }
        }
        Ok(best)
    }

    /// Best moves through the table.
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

impl Search for Minimax {
    fn search(
        &mut self,
        game: &Game,
        limits: &Limits,
        control: &Control,
        report: &mut dyn FnMut(&SearchInfo),
    ) -> Result<Outcome, EvalError> {
        let mut watch = Watch::new(limits, self.settings.move_overhead, control);
        let position = game.position();
        self.table.new_search();
        (self.deepest, self.visits) = (0, 0);
        self.most_visits =
            limits.nodes.map_or(u64::MAX, |nodes| VISITS.saturating_mul(nodes.saturating_add(100)));
        self.path = game.keys().to_vec();
        self.root_at = self.path.len();
        let all = position.legal_moves();
        let mut moves: Vec<Move> = all.iter().copied().filter(|&mv| limits.allows(mv)).collect();
        moves.sort_by_key(|&mv| Reverse(exchange(position, mv)));
        let wanted = self.settings.multipv.clamp(1, moves.len().max(1));
        let mut lines: Vec<SearchInfo> = Vec::new();
        'depths: for depth in 1..=limits.last_depth() {
            if moves.is_empty() || depth > 1 && watch.is_late() {
                break;
            }
            let mut found: Vec<SearchInfo> = Vec::new();
            for rank in 0..wanted {
                let (value, bound) = match self.root(position, &mut moves[rank..], depth, &mut watch) {
                    Ok(value) => (value, Bound::Exact),
                    Err((Stop::Failed(error), _)) => return Err(error),
                    // What an interrupted depth has found is as good as the last one's move: that came first.
                    Err((Stop::Over, Some(value))) if rank == 0 && wanted == 1 => (value, Bound::Lower),
                    Err((Stop::Over, _)) => break 'depths,
                };
                found.push(SearchInfo {
                    depth,
                    seldepth: self.deepest.max(depth),
                    multipv: rank + 1,
                    score: to_score(value),
                    bound,
                    wdl: wdl(&self.calibration, value),
                    nodes: watch.nodes(),
                    elapsed: watch.elapsed(),
                    hashfull: self.table.fill_per_mille(),
                    pv: self.principal_variation(position, moves[rank], depth),
                });
            }
            found.iter().for_each(&mut *report);
            let interrupted = found.iter().any(|line| line.bound != Bound::Exact);
            lines = found;
            let decided = lines.first().is_some_and(|line| match line.score {
                Score::Mate(moves) => {
                    limits.mate.is_some_and(|wanted| moves > 0 && moves as u32 <= wanted)
                        || wanted == 1 && 2 * moves.unsigned_abs() <= depth + 1
                }
                Score::Centipawns(_) => false,
            });
            if interrupted || decided || all.len() == 1 && limits.clock.is_some() && !watch.must_wait() {
                break;
            }
        }
        watch.wait();
        Ok(Outcome {
            best: lines.first().map(|line| line.pv[0]).or(moves.first().copied()),
            ponder: lines.first().and_then(|line| line.pv.get(1).copied()),
            nodes: watch.nodes(),
            lines,
        })
    }

    fn configure(&mut self, settings: &Settings) {
        if settings.quiet_leaves != self.settings.quiet_leaves {
            self.table.clear();
        }
        if settings.hash_mib != self.settings.hash_mib {
            let (bytes, entries) = shares(settings);
            self.table = Table::new(1);
            self.evaluations.resize_values(bytes);
            self.table = Table::new(entries);
        }
        self.settings = settings.clone();
    }

    fn clear(&mut self) {
        self.evaluations.clear();
        self.table.clear();
    }
}

#[cfg(test)]
mod tests;
