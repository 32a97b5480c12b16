//! Alpha-beta, the search that most engines have, on the same network: what the K-best-first search is measured against.
//!
//! Iterative deepening, principal variation search (Marsland 1982) with a transposition table, quiescence by the leaf
//! rule of [`crate::quiet`], and the same selectivity as the default search. One position is evaluated at a time.

use board::{Game, Move, Position};
use eval::{EvalError, Evaluator};
use nets::Calibration;

use crate::{
    Bound, Control, Limits, Outcome, Search, SearchInfo, Settings,
    evaluations::{Evaluations, Stop},
    memory::NO_MOVE,
    quiet::{exchange, forcing_moves, forcing_moves_and_checks},
    rules,
    score::{INFINITY, MATE_BOUND, Value, child_separator, from_child, to_score, wdl},
    selectivity::{PLY, Selectivity, Verdict},
    table::{Entry, Table},
    time::Watch,
};

/// Half the width of the first window around the last depth's value, centipawns.
const ASPIRATION: Value = 25;

/// Alpha-beta over an evaluator.
#[derive(Debug)]
pub struct AlphaBeta {
    evaluations: Evaluations,
    calibration: Calibration,
    settings: Settings,
    table: Table,
    selectivity: Selectivity,
    /// Keys of the positions from the start of the game to the one at hand.
    path: Vec<u64>,
    /// Where in the path the root stands.
    root_at: usize,
    deepest: u32,
    /// Positions looked at, evaluated or not.
    visits: u64,
}

/// Bytes for evaluations, entries of the table.
fn shares(settings: &Settings) -> (usize, usize) {
    let bytes = settings.hash_mib.max(1) << 20;
    (bytes / 4 * 3, bytes / 4 / Table::ENTRY)
}

impl AlphaBeta {
    /// A search over an evaluator; `calibration` says what move scores mean and gives win, draw and loss.
    #[must_use]
    pub fn new(evaluator: Box<dyn Evaluator>, calibration: &Calibration, settings: &Settings) -> Self {
        let (bytes, entries) = shares(settings);
        Self {
            evaluations: Evaluations::new(evaluator, calibration, bytes),
            calibration: calibration.clone(),
            settings: settings.clone(),
            table: Table::new(entries),
            selectivity: Selectivity::default(),
            path: Vec::new(),
            deepest: 0,
            root_at: 0,
            visits: 0,
        }
    }

    /// For comparison with plain negamax of the same depth: no move is reduced or skipped.
    #[must_use]
    pub fn exact(mut self) -> Self {
        self.selectivity = Selectivity::NONE;
        self
    }

    /// Has the position occurred since the root, or twice with the game before it?
    fn is_repetition(&self, position: &Position) -> bool {
        let (game, way) = self.path.split_at(self.root_at);
        rules::is_repetition(position, way.iter().rev().copied(), game)
    }

    /// Looks at the limits now and then: what is known costs no evaluation, and can still go on for ever.
    fn go_on(&mut self, watch: &mut Watch<'_>) -> Result<(), Stop> {
        self.visits += 1;
        if self.visits.is_multiple_of(64) && watch.is_over() { Err(Stop::Over) } else { Ok(()) }
    }

    /// The value of a position within a window, fail-soft; `depth` in parts of a ply.
    fn value(
        &mut self,
        position: &Position,
        depth: i16,
        (alpha, beta): (Value, Value),
        ply: usize,
        watch: &mut Watch<'_>,
    ) -> Result<Value, Stop> {
        self.go_on(watch)?;
        self.deepest = self.deepest.max(ply as u32);
        if let Some(value) = rules::ended(position) {
            return Ok(value);
        }
        if self.is_repetition(position) {
            return Ok(0);
        }
        let (moves, check) = (position.legal_moves(), position.is_check());
        if depth <= 0 {
            return self.leaf(position, (alpha, beta), ply, watch);
        }
        // Near the fifty-move limit a position is another one at each clock.
        let key = position.key();
        let remember = position.halfmove_clock() < 70;
        let known = self.table.probe(key).filter(|_| remember);
        let zero_window = beta - alpha == 1;
        let is_exact = self.selectivity == Selectivity::NONE;
        let fits = |entry: &Entry| entry.depth == depth || entry.depth > depth && !is_exact;
        if let Some(entry) = known.filter(|entry| fits(entry) && self.table.is_of_this_search(entry)) {
            let value = Value::from(entry.value);
            match entry.bound {
                Bound::Exact => return Ok(value),
                Bound::Lower if value >= beta => return Ok(value),
                Bound::Upper if value <= alpha => return Ok(value),
                _ => {}
            }
        }
        let mut best = -INFINITY;
        if zero_window && self.selectivity.asks_value(depth, beta, check) {
            let value = self.evaluations.value(position, watch)?;
            match self.selectivity.verdict(depth, beta, check, value) {
                Verdict::Reaches(lower) => return Ok(lower),
                Verdict::Misses(upper) => {
                    let found = self.forcing(position, depth, (alpha, beta), ply, watch)?;
                    return Ok(found.max(upper.min(alpha)));
                }
                Verdict::Open => {}
            }
        }
        let scores = self.evaluations.scores(position, watch)?;
        let first = known.map_or(NO_MOVE, |entry| entry.best);
        let mut order: Vec<usize> = (0..moves.len()).collect();
        order.sort_by_key(|&index| (index != usize::from(first), std::cmp::Reverse(scores[index])));

        let (mut raised, mut chosen) = (alpha, NO_MOVE);
        self.path.push(key);
        for (place, &index) in order.iter().enumerate() {
            let after = position.after(moves[index]);
            let late = self.selectivity.is_late(position, moves[index], place, false) && !after.is_check();
            let separator = raised + 1;
            if late
                && self.selectivity.is_hopeless(
                    scores[index],
                    depth,
                    separator,
                    self.evaluations.move_scores(),
                )
            {
                best = best.max(raised);
                continue;
            }
            let reduction = if late { self.selectivity.reduction(depth, place) } else { 0 };
            let value = self.child(&after, depth - PLY, reduction, (raised, beta), place == 0, ply, watch)?;
            if value > best {
                best = value;
                if value > raised {
                    raised = value;
                    chosen = index as u8;
                }
            }
            if raised >= beta {
                break;
            }
        }
        self.path.pop();
        if remember {
            let bound = if best >= beta {
                Bound::Lower
            } else if best > alpha {
                Bound::Exact
            } else {
                Bound::Upper
            };
            self.table.store(key, depth, best, bound, chosen);
        }
        Ok(best)
    }

    /// What a move is worth to its mover: zero window and reduced first, then as far as that makes doubtful.
    #[allow(clippy::too_many_arguments)]
    fn child(
        &mut self,
        after: &Position,
        depth: i16,
        reduction: i16,
        (alpha, beta): (Value, Value),
        first: bool,
        ply: usize,
        watch: &mut Watch<'_>,
    ) -> Result<Value, Stop> {
        let window = |low: Value, high: Value| (child_separator(high) - 1, child_separator(low + 1));
        let mut search = |depth: i16, low, high| {
            self.value(after, depth.max(0), window(low, high), ply + 1, watch).map(from_child)
        };
        if first {
            return search(depth, alpha, beta);
        }
        let mut value = search(depth - PLY * reduction, alpha, alpha + 1)?;
        if value > alpha && reduction > 0 {
            value = search(depth, alpha, alpha + 1)?;
        }
        if value > alpha && value < beta {
            value = search(depth, alpha, beta)?;
        }
        Ok(value)
    }

    /// A position far below the separator: only captures, promotions and checks can lift it.
    fn forcing(
        &mut self,
        position: &Position,
        depth: i16,
        (alpha, beta): (Value, Value),
        ply: usize,
        watch: &mut Watch<'_>,
    ) -> Result<Value, Stop> {
        let mut best = -INFINITY;
        self.path.push(position.key());
        for mv in forcing_moves_and_checks(position) {
            let window = (alpha.max(best), beta);
            best = best.max(self.child(&position.after(mv), depth - PLY, 0, window, true, ply, watch)?);
            if best >= beta {
                break;
            }
        }
        self.path.pop();
        Ok(best)
    }

    /// The leaf rule: see [`crate::quiet`].
    fn leaf(
        &mut self,
        position: &Position,
        (alpha, beta): (Value, Value),
        ply: usize,
        watch: &mut Watch<'_>,
    ) -> Result<Value, Stop> {
        self.go_on(watch)?;
        self.deepest = self.deepest.max(ply as u32);
        if let Some(value) = rules::ended(position) {
            return Ok(value);
        }
        let mut best =
            if position.is_check() { -INFINITY } else { self.evaluations.value(position, watch)? };
        for mv in forcing_moves(position) {
            if best >= beta {
                break;
            }
            let low = alpha.max(best);
            let window = (child_separator(beta) - 1, child_separator(low + 1));
            best = best.max(from_child(self.leaf(&position.after(mv), window, ply + 1, watch)?));
        }
        Ok(best)
    }

    /// The root at one depth: the value of the best of `moves` within a window. The best move so far stands in front.
    fn root(
        &mut self,
        position: &Position,
        moves: &mut [Move],
        depth: i16,
        (alpha, beta): (Value, Value),
        watch: &mut Watch<'_>,
    ) -> Result<Value, (Stop, Value)> {
        let (mut raised, mut best) = (alpha, -INFINITY);
        self.path.push(position.key());
        for place in 0..moves.len() {
            let after = position.after(moves[place]);
            let late = self.selectivity.is_late(position, moves[place], place, true) && !after.is_check();
            let reduction = if late { self.selectivity.reduction(depth, place) } else { 0 };
            match self.child(&after, depth - PLY, reduction, (raised, beta), place == 0, 0, watch) {
                Ok(value) => {
                    if value > raised || place == 0 {
                        moves[..=place].rotate_right(1);
                    }
                    best = best.max(value);
                    raised = raised.max(value);
                }
                Err(stop) => {
                    // A value that does not reach the window says nothing of the move.
                    return Err((stop, if raised > alpha { raised } else { -INFINITY }));
                }
            }
            if raised >= beta {
                break;
            }
        }
        self.path.pop();
        Ok(best)
    }

    /// Best moves through the table.
    fn principal_variation(&self, root: &Position, first: Move, plies: u32) -> Vec<Move> {
        let mut line = vec![first];
        let mut position = root.after(first);
        while (line.len() as u32) < plies {
            let Some(entry) = self.table.probe(position.key()) else { break };
            let Some(&mv) = position.legal_moves().get(usize::from(entry.best)) else { break };
            line.push(mv);
            position.play(mv);
        }
        line
    }

    /// Resolves the root, in a window around the last value that widens where it was wrong.
    fn resolve(
        &mut self,
        position: &Position,
        moves: &mut [Move],
        depth: i16,
        guess: Option<Value>,
        watch: &mut Watch<'_>,
    ) -> Result<Value, (Stop, Value)> {
        let (mut alpha, mut beta) = match guess {
            Some(guess) if depth > 2 * PLY && guess.abs() < MATE_BOUND => {
                (guess - ASPIRATION, guess + ASPIRATION)
            }
            _ => (-INFINITY, INFINITY),
        };
        let mut step = 4 * ASPIRATION;
        // What the move in front is worth at least, by a window that it went beyond.
        let mut proven = -INFINITY;
        loop {
            let value = self
                .root(position, moves, depth, (alpha, beta), watch)
                .map_err(|(stop, value)| (stop, value.max(proven)))?;
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
        let mut watch = Watch::new(limits, self.settings.move_overhead, control);
        let position = game.position();
        self.table.new_search();
        self.deepest = 0;
        self.path = game.keys().to_vec();
        self.root_at = self.path.len();
        let all = position.legal_moves();
        let mut moves: Vec<Move> = all.iter().copied().filter(|&mv| limits.allows(mv)).collect();
        moves.sort_by_key(|&mv| std::cmp::Reverse(exchange(position, mv)));
        match self.evaluations.scores(position, &mut watch) {
            Ok(scores) if !all.is_empty() => {
                let score = |mv: &Move| all.iter().position(|other| other == mv).map(|index| scores[index]);
                moves.sort_by_key(|mv| std::cmp::Reverse(score(mv)));
            }
            Err(Stop::Failed(error)) => return Err(error),
            _ => {}
        }
        let wanted = self.settings.multipv.clamp(1, moves.len().max(1));
        let selectivity = self.selectivity;
        if limits.mate.is_some() {
            self.selectivity = Selectivity::NONE;
        }
        let mut lines: Vec<SearchInfo> = Vec::new();
        'depths: for depth in 1..=limits.last_depth() {
            if moves.is_empty() || depth > 1 && watch.is_late() {
                break;
            }
            let mut found: Vec<SearchInfo> = Vec::new();
            for rank in 0..wanted {
                let guess = lines.get(rank).and_then(|line| match line.score {
                    crate::Score::Centipawns(value) => Some(value),
                    crate::Score::Mate(_) => None,
                });
                let result =
                    self.resolve(position, &mut moves[rank..], depth as i16 * PLY, guess, &mut watch);
                let (value, whole) = match result {
                    Ok(value) => (value, true),
                    Err((Stop::Failed(error), _)) => {
                        self.selectivity = selectivity;
                        return Err(error);
                    }
                    Err((Stop::Over, value)) => (value, false),
                };
                // What an interrupted depth has proven better than the last one's move stands in front.
                if !whole && (value == -INFINITY || rank > 0 || wanted > 1) {
                    break 'depths;
                }
                let bound = if whole { Bound::Exact } else { Bound::Lower };
                let info = SearchInfo {
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
                };
                found.push(info);
                if !whole {
                    report(&found[0]);
                    lines = found;
                    break 'depths;
                }
            }
            // Reductions can make a later line the better one.
            found.sort_by_key(|line| std::cmp::Reverse(line.score.order()));
            for (place, line) in found.iter_mut().enumerate() {
                line.multipv = place + 1;
                moves[place] = line.pv[0];
                report(line);
            }
            lines = found;
            let decided = lines.first().is_some_and(|line| match line.score {
                crate::Score::Mate(moves) => {
                    limits.mate.is_some_and(|wanted| moves > 0 && moves as u32 <= wanted)
                        || wanted == 1 && 2 * moves.unsigned_abs() <= depth + 1
                }
                crate::Score::Centipawns(_) => false,
            });
            if decided || all.len() == 1 && limits.clock.is_some() && !watch.must_wait() {
                break;
            }
        }
        self.selectivity = selectivity;
        watch.wait();
        Ok(Outcome {
            best: lines.first().map(|line| line.pv[0]).or(moves.first().copied()),
            ponder: lines.first().and_then(|line| line.pv.get(1).copied()),
            nodes: watch.nodes(),
            lines,
        })
    }

    fn configure(&mut self, settings: &Settings) {
        if settings.hash_mib != self.settings.hash_mib {
            let (bytes, entries) = shares(settings);
            self.table = Table::new(1);
            self.evaluations.resize(bytes);
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
