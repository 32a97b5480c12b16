//! The Batch First search: iterative deepening over zero-window passes, each a best-first search of
//! the whole tree.
//!
//! Evaluations and bounds stay in a memory of fixed size, so a new pass, depth or move of the game
//! walks quickly through what is known and evaluates only what is not. After another move bounds
//! only order moves.

mod ahead;
mod dispatch;
mod driver;
mod expand;
mod node;
pub(crate) mod opponent;
mod pass;
mod queue;
#[cfg(test)]
mod tests;

use board::{Game, Move, Position, Score};
use eval::{Batch, EvalError, Evaluator};
use nets::{Calibration, MoveScores};

use crate::{
    Bound, Control, Limits, Outcome, Search, SearchInfo, Settings,
    cache::{Bounds, NO_MOVE, SearchCache},
    limits::LARGEST_DEPTH,
    quiet::{exchange, forcing_among},
    rules::ended,
    score::{MATE, MATE_BOUND, Value, child_bound_with_penalty, to_score, wdl},
    selectivity::{PLY, Selectivity},
    time::{TO_BEGIN_A_PLY, TO_BEGIN_HALF_A_PLY, TimeManager},
    view::View,
};
use driver::Driver;
use opponent::ReplyPenalty;
use pass::{Context, Deadline, PassEnd, Root, Searcher, cache_key};
use queue::Order;

/// Distance of two scores, in centipawns, below which they are the same to a game.
const TOLERANCE: Value = 8;

impl Deadline for TimeManager<'_> {
    fn is_over(&mut self) -> bool {
        TimeManager::is_over(self)
    }
    fn evaluations_left(&self) -> u64 {
        TimeManager::evaluations_left(self)
    }
    fn send(&mut self, evaluations: u64) {
        TimeManager::send(self, evaluations);
    }
    fn receive(&mut self, evaluations: u64) {
        TimeManager::receive(self, evaluations);
    }
    fn affordable(&self) -> u64 {
        TimeManager::affordable(self)
    }
    fn wants_view(&self) -> bool {
        self.control().wants_view()
    }
    fn show(&mut self, view: View) {
        self.control().show(View { elapsed: self.elapsed(), ..view });
    }
}

/// The default search of Batch First.
pub struct KBest {
    evaluator: Box<dyn Evaluator>,
    calibration: Calibration,
    settings: Settings,
    cache: SearchCache,
    searcher: Searcher,
    /// The game whose bounds are in memory: its keys, the current one last.
    known_game: Vec<u64>,
    tolerance: Value,
}

impl std::fmt::Debug for KBest {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("KBest")
            .field("evaluator", &self.evaluator.describe())
            .finish_non_exhaustive()
    }
}

/// What one depth found out about one line.
#[derive(Clone, Debug)]
struct Line {
    mv: Move,
    index: u8,
    lower: Value,
    upper: Value,
    pv: Vec<Move>,
    /// Did the depth come to its end?
    complete: bool,
}

impl KBest {
    /// A search over an evaluator; `calibration` gives the bins and the win, draw and loss chances.
    #[must_use]
    pub fn new(
        evaluator: Box<dyn Evaluator>,
        calibration: &Calibration,
        settings: &Settings,
    ) -> Self {
        let (cache, nodes) = Self::cache_shares(settings);
        Self {
            searcher: Searcher::new(calibration, nodes),
            cache: SearchCache::new(cache),
            evaluator,
            calibration: calibration.clone(),
            settings: settings.clone(),
            known_game: Vec::new(),
            tolerance: TOLERANCE,
        }
    }

    /// For comparison with plain negamax of the same depth: scores are resolved to the centipawn,
    /// no move is reduced or skipped, and what a deeper search has found is not used.
    #[must_use]
    pub fn exact(mut self) -> Self {
        self.tolerance = 0;
        self.searcher.deeper_answers = false;
        self.searcher.selectivity = Selectivity::NONE;
        self
    }

    /// The search of 2018: bins by how decisive a move is, every move to full depth, leaves at the
    /// network's word. What it shares with today's is the memory, so that no evaluation is made
    /// twice and what is known to decide comes first, and the driver of the passes.
    #[must_use]
    pub fn classic(mut self) -> Self {
        self.searcher.order = Order::Decisiveness;
        self.searcher.quiet_leaves = false;
        self.searcher.deeper_answers = false;
        self.searcher.selectivity = Selectivity::NONE;
        self
    }

    /// MiB for memory, bytes for nodes.
    fn cache_shares(settings: &Settings) -> (usize, usize) {
        let mib = settings.hash_mib.max(1);
        let nodes = (mib << 20) / 8;
        ((mib - mib.div_ceil(8)).max(1), nodes)
    }

    fn width(&self) -> usize {
        let Settings { batch, fill, .. } = self.settings;
        let width =
            if batch == 0 { self.evaluator.preferred_stream().batch.max(fill) } else { batch };
        width.clamp(1, self.evaluator.largest_batch())
    }

    /// Bounds are for one history; after another one they only order moves.
    fn set_game(&mut self, game: &Game) {
        let mut keys = game.keys().to_vec();
        keys.push(game.position().key());
        if keys != self.known_game {
            self.cache.new_root();
            self.known_game = keys;
        }
    }

    /// What the network thinks of the root, before any search; asked if it is not known and an
    /// evaluation is left, also where no time is: a move by the policy is worth the moment that it
    /// takes.
    fn root_evaluation(
        &mut self,
        root: &Position,
        timer: &mut TimeManager<'_>,
    ) -> Result<Option<Value>, EvalError> {
        let known = self.cache.value(root.key());
        if known.is_some() || timer.control().is_stopped() || timer.evaluations_left() == 0 {
            return Ok(known);
        }
        let move_scores = self.calibration.move_scores;
        let moves =
            if move_scores == MoveScores::Policy { root.legal_moves() } else { Default::default() };
        let mut batch = Batch::default();
        batch.push(root, true, &moves);
        let scores = self.evaluator.evaluate(batch)?.scores;
        timer.spend(1);
        self.cache.store_answer(
            root.key(),
            scores.values.first().copied(),
            &scores.moves,
            move_scores,
        );
        Ok(self.cache.value(root.key()))
    }

    /// Value and best move of the root at one depth, by zero-window passes around `guess`; `rank`
    /// of the line, from 1.
    fn resolve(
        &mut self,
        root: &Root<'_>,
        rank: usize,
        guess: Value,
        timer: &mut TimeManager<'_>,
    ) -> Result<(Bounds, bool), EvalError> {
        let width = self.width();
        let known = if root.complete { self.cache.bounds(root.key(), root.depth) } else { None };
        let mut driver = Driver::new(known, guess, self.tolerance);
        while let Some(bound) = driver.bound() {
            self.searcher.line = (rank, driver.found);
            let mut context =
                Context { cache: &mut self.cache, evaluator: &mut self.evaluator, timer };
            let end = self.searcher.pass(root, bound, width, &mut context)?;
            if let PassEnd::Decided(bounds) = end {
                driver.take(bounds);
            }
            if end == PassEnd::Interrupted || driver.bound().is_some() && timer.is_over() {
                let best = if driver.has_proven_move() { driver.found.best } else { NO_MOVE };
                return Ok((Bounds { best, ..driver.found }, false));
            }
        }
        Ok((driver.found, driver.found.best != NO_MOVE))
    }

    /// Follows the moves that bear out, by the bounds in memory, that the line is worth at least
    /// `lower`. The best move that memory names may be another pass's, with another question.
    fn principal_variation(
        &self,
        root: &Position,
        first: Move,
        depth: i16,
        lower: Value,
    ) -> Vec<Move> {
        let mut line = vec![first];
        let mut position = root.after(first);
        let mut seen = vec![root.key(), position.key()];
        // The first move reaches the bound if the reply misses that of the child, and so on.
        let mut question = Question { depth, bound: lower, reaches: true }.of_child(0);
        let mut answer = self.answer(&position, question);
        while let Some(bounds) = answer
            && line.len() < LARGEST_DEPTH as usize
        {
            let stands =
                || !position.is_check() && self.cache.value(position.key()) >= Some(bounds.lower);
            let leaf = question.depth == 0;
            if leaf && stands() {
                break; // Declining every capture is best.
            }
            let moves = position.legal_moves();
            let (mut places, mut scores) = (Vec::new(), None);
            if leaf {
                forcing_among(&position, position.is_check(), &moves, &mut places);
            } else {
                places.extend((0_u8..).zip(&moves).map(|(place, _)| place));
                scores = self.cache.scores(position.key(), moves.len());
            }
            let scores = scores.unwrap_or_default();
            let penalties =
                ReplyPenalty::at(line.len(), leaf, self.searcher.opponent_errors, scores);
            let penalty =
                |index: usize| scores.get(index).map_or(0, |&score| penalties.of(score).into());
            let named = Some(bounds.best).filter(|best| places.contains(best));
            let mut candidates = named.into_iter().chain(places).map(|index| {
                let index = usize::from(index);
                let mv = moves[index];
                (mv, position.after(mv), question.of_child(penalty(index)))
            });
            let next = candidates.clone().find_map(|(mv, next, question)| {
                if seen.contains(&next.key()) {
                    return question.is_borne_out(0, 0).then_some((mv, next, question, None));
                }
                if let Some(value) = ended(&next, self.settings.tables.as_deref()) {
                    return question
                        .is_borne_out(value, value)
                        .then_some((mv, next, question, None));
                }
                let bounds = self.answer(&next, question)?;
                Some((mv, next, question, Some(bounds)))
            });
            // Where every move misses the bound, any will do.
            let any = || {
                let (mv, next, question) = candidates.next()?;
                question.reaches.then_some((mv, next, question, None))
            };
            let Some((mv, next, its_question, its_answer)) = next.or_else(any) else { break };
            line.push(mv);
            seen.push(next.key());
            (position, question, answer) = (next, its_question, its_answer);
        }
        line
    }

    fn answer(&self, position: &Position, question: Question) -> Option<Bounds> {
        let answers = |bounds: &Bounds| question.is_borne_out(bounds.lower, bounds.upper);
        let deeper = self.searcher.deeper_answers.then_some(question.depth);
        self.cache.answer(cache_key(position), question.depth, deeper, answers)
    }

    fn info(&self, line: &Line, rank: usize, depth: u32, timer: &TimeManager<'_>) -> SearchInfo {
        let bound = if line.complete {
            Bound::Exact
        } else if line.lower > -MATE {
            Bound::Lower
        } else {
            Bound::Upper
        };
        let value = if bound == Bound::Upper { line.upper } else { line.lower };
        SearchInfo {
            depth,
            seldepth: self.searcher.deepest.max(depth),
            multipv: rank,
            score: to_score(value),
            bound,
            wdl: wdl(&self.calibration, value),
            nodes: timer.nodes(),
            elapsed: timer.elapsed(),
            hashfull: self.cache.fill_per_mille(),
            pv: line.pv.clone(),
        }
    }

    /// The move to make when nothing was searched: best by known move scores, else the best
    /// exchange.
    fn move_without_search(&self, position: &Position, moves: &[(Move, u8)]) -> Option<(Move, u8)> {
        let all = position.legal_moves();
        let scores = self.cache.scores(position.key(), all.len());
        moves.iter().copied().max_by_key(|(mv, index)| match scores {
            Some(scores) => i32::from(scores[usize::from(*index)]),
            None => exchange(position, *mv),
        })
    }
}

impl Search for KBest {
    fn search(
        &mut self,
        game: &Game,
        limits: &Limits,
        control: &Control,
        report: &mut dyn FnMut(&SearchInfo),
    ) -> Result<Outcome, EvalError> {
        let mut timer = TimeManager::new(limits, self.settings.move_overhead, control);
        self.searcher.tables.clone_from(&self.settings.tables);
        self.searcher.fill = self.settings.fill;
        // The search of 2018 knows of no errors.
        let may_err = self.searcher.order == Order::Need
            && self.calibration.move_scores == MoveScores::Policy
            && limits.is_move_to_play();
        let errors = if may_err { self.settings.opponent_errors } else { 0 };
        if self.searcher.opponent_errors != errors {
            // Bounds with other costs only order moves.
            self.searcher.opponent_errors = errors;
            self.known_game.clear();
        }
        self.set_game(game);
        let selectivity = self.searcher.selectivity;
        if limits.mate.is_some() && selectivity != Selectivity::NONE {
            // A mate in so many moves is one whatever the values say; bounds that selectivity found
            // do not count.
            self.searcher.selectivity = Selectivity::NONE;
            self.cache.new_root();
            self.cache.forget_leaves();
            self.known_game.clear();
        }
        let outcome = self.think(game, limits, &mut timer, report);
        self.searcher.selectivity = selectivity;
        outcome
    }

    fn configure(&mut self, settings: &Settings) {
        if settings.hash_mib != self.settings.hash_mib {
            // The old memory goes before the new one comes: together they would pass the limit.
            self.cache = SearchCache::new(1);
            let (cache, nodes) = Self::cache_shares(settings);
            self.cache = SearchCache::new(cache);
            let Searcher { selectivity, deeper_answers, order, quiet_leaves, .. } = self.searcher;
            self.searcher = Searcher::new(&self.calibration, nodes);
            (self.searcher.selectivity, self.searcher.deeper_answers) =
                (selectivity, deeper_answers);
            (self.searcher.order, self.searcher.quiet_leaves) = (order, quiet_leaves);
            self.known_game.clear();
        }
        if settings.tables != self.settings.tables {
            // Bounds found with other tables only order moves, and those of leaves would hold for
            // every root.
            self.cache.forget_leaves();
            self.known_game.clear();
        }
        self.settings = settings.clone();
    }

    fn clear(&mut self) {
        self.cache.clear();
        self.known_game.clear();
    }
}

/// What a line claims of one of its positions.
#[derive(Clone, Copy)]
struct Question {
    depth: i16,
    bound: Value,
    /// At least the bound, or less?
    reaches: bool,
}

impl Question {
    /// The same question after a move that counts `penalty` less than it is worth.
    fn of_child(self, penalty: Value) -> Self {
        let depth = (self.depth - PLY).max(0);
        Self { depth, bound: child_bound_with_penalty(self.bound, penalty), reaches: !self.reaches }
    }

    fn is_borne_out(self, lower: Value, upper: Value) -> bool {
        if self.reaches { lower >= self.bound } else { upper < self.bound }
    }
}

impl KBest {
    fn think(
        &mut self,
        game: &Game,
        limits: &Limits,
        timer: &mut TimeManager<'_>,
        report: &mut dyn FnMut(&SearchInfo),
    ) -> Result<Outcome, EvalError> {
        self.searcher.reset_statistics();
        let position = game.position();
        let allowed: Vec<(Move, u8)> = (0_u8..=u8::MAX)
            .zip(position.legal_moves())
            .map(|(index, mv)| (mv, index))
            .filter(|(mv, _)| limits.allows(*mv))
            .collect();
        let mut lines: Vec<Line> = Vec::new();
        let mut depth_reached = 0;
        let wanted = self.settings.multipv.clamp(1, allowed.len().max(1));
        let root_evaluation =
            if allowed.is_empty() { None } else { self.root_evaluation(position, timer)? };
        let deepening = self.searcher.selectivity.deepening;
        let to_begin = if deepening < PLY { TO_BEGIN_HALF_A_PLY } else { TO_BEGIN_A_PLY };
        let last_depth = limits.last_depth() as i16 * PLY;
        for depth in (PLY..=last_depth).step_by(deepening as usize) {
            let plies = (depth / PLY) as u32;
            if allowed.is_empty() || (depth > PLY && timer.is_late(to_begin)) {
                break;
            }
            let mut found: Vec<Line> = Vec::new();
            let mut interrupted = false;
            for rank in 0..wanted {
                let moves: Vec<(Move, u8)> = allowed
                    .iter()
                    .copied()
                    .filter(|(_, index)| found.iter().all(|line| line.index != *index))
                    .collect();
                let root = Root {
                    position,
                    moves: &moves,
                    complete: moves.len() == position.legal_moves().len(),
                    history: game.keys(),
                    depth,
                    last_depth,
                };
                let guess = lines.get(rank).map_or(root_evaluation.unwrap_or(0), |line| line.lower);
                let (bounds, complete) = self.resolve(&root, rank + 1, guess, timer)?;
                interrupted |= !complete;
                if let Some(&(mv, index)) = moves.iter().find(|(_, index)| *index == bounds.best) {
                    let pv = self.principal_variation(position, mv, root.depth, bounds.lower);
                    found.push(Line {
                        mv,
                        index,
                        lower: bounds.lower,
                        upper: bounds.upper,
                        pv,
                        complete,
                    });
                }
                if interrupted {
                    break;
                }
            }
            if interrupted {
                // A move proven good at this depth is the one to play. Among several lines it would
                // stand beside scores of another depth: there the last whole depth has the word.
                if let Some(best) =
                    found.into_iter().next().filter(|_| wanted == 1 || lines.is_empty())
                {
                    lines.retain(|line| line.index != best.index);
                    lines.insert(0, best);
                    lines.truncate(wanted);
                    if let Some(line) = lines.first() {
                        report(&self.info(line, 1, plies, timer));
                    }
                }
                break;
            }
            found.sort_by_key(|line| std::cmp::Reverse(line.lower));
            lines = found;
            depth_reached = plies;
            for (rank, line) in (1..).zip(&lines) {
                report(&self.info(line, rank, plies, timer));
            }
            let Some(first) = lines.first() else { break };
            if depth % PLY == 0 {
                timer.note_depth(first.mv, first.lower, self.searcher.share_of(first.index));
            }
            let plies_to_mate = MATE - first.lower.abs();
            let decided = lines.len() == wanted
                && lines.iter().all(|line| line.lower.abs() > MATE_BOUND)
                && plies_to_mate <= plies as Value;
            let mate_found = limits.mate.is_some_and(
                |wanted| matches!(to_score(first.lower), Score::Mate(moves) if moves > 0 && moves as u32 <= wanted),
            );
            if decided
                || mate_found
                || (allowed.len() == 1 && limits.clock.is_some() && !timer.must_wait())
            {
                break;
            }
        }
        if lines.is_empty()
            && let Some((mv, index)) = self.move_without_search(position, &allowed)
            && let Some(value) = root_evaluation
        {
            // Better the network's word than none.
            lines.push(Line {
                mv,
                index,
                lower: value,
                upper: value,
                pv: vec![mv],
                complete: true,
            });
            report(&self.info(&lines[0], 1, 0, timer));
        }
        timer.wait();
        let best = lines.first().map(|line| line.mv);
        let best = best.or_else(|| self.move_without_search(position, &allowed).map(|(mv, _)| mv));
        Ok(Outcome {
            best,
            ponder: lines.first().and_then(|line| line.pv.get(1).copied()),
            nodes: timer.nodes(),
            lines: (1..)
                .zip(&lines)
                .map(|(rank, line)| self.info(line, rank, depth_reached, timer))
                .collect(),
        })
    }
}
