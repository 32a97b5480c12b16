//! Iterative deepening: the root is resolved at one depth after the other, for as many lines as are
//! wanted, until a limit is reached.

use board::{Game, Move, Position, Score};
use eval::{Batch, EvalError};
use nets::MoveScores;

use super::{
    KBest, allowed_moves,
    pass::{Context, Root},
};
use crate::{
    Bound, Limits, Outcome, SearchInfo,
    cache::Bounds,
    quiet::exchange,
    score::{MATE, MATE_BOUND, Value, to_score, wdl},
    selectivity::PLY,
    time::{TO_BEGIN_A_PLY, TO_BEGIN_HALF_A_PLY, TimeManager},
};

/// What one depth found for one line.
#[derive(Clone, Debug)]
struct RootLine {
    mv: Move,
    /// Index of the move in generation order.
    index: u8,
    lower: Value,
    upper: Value,
    pv: Vec<Move>,
    /// Is the depth complete? Then the bounds differ by the driver's tolerance at most, and their
    /// lower one is reported as exact.
    complete: bool,
}

/// The task of a search.
struct Task<'a> {
    game: &'a Game,
    limits: &'a Limits,
    /// The moves to consider, with their index in generation order.
    allowed: Vec<(Move, u8)>,
    /// Number of lines.
    wanted: usize,
    /// The static evaluation of the root, if there is one.
    root_evaluation: Option<Value>,
    /// In parts of a ply.
    last_depth: i16,
}

impl KBest {
    /// Searches until a limit is reached and reports every line of every depth.
    pub(super) fn think(
        &mut self,
        game: &Game,
        limits: &Limits,
        timer: &mut TimeManager<'_>,
        report: &mut dyn FnMut(&SearchInfo),
    ) -> Result<Outcome, EvalError> {
        self.searcher.reset_statistics();
        let task = self.task(game, limits, timer)?;
        let mut lines: Vec<RootLine> = Vec::new();
        let mut depth_reached = 0;
        let deepening = self.searcher.rules.selectivity.deepening;
        let to_begin = if deepening < PLY { TO_BEGIN_HALF_A_PLY } else { TO_BEGIN_A_PLY };
        for depth in (PLY..=task.last_depth).step_by(deepening as usize) {
            let plies = (depth / PLY) as u32;
            if task.allowed.is_empty() || (depth > PLY && timer.is_late(to_begin)) {
                break;
            }
            self.progress.begin(depth, lines.first().map(|line| line.lower));
            let (found, interrupted) = self.lines_at(&task, depth, &lines, timer)?;
            if interrupted {
                if keep_interrupted(&mut lines, found, task.wanted)
                    && let Some(line) = lines.first()
                {
                    report(&self.info(line, 1, plies, timer));
                }
                break;
            }
            lines = found;
            depth_reached = plies;
            for (rank, line) in (1..).zip(&lines) {
                report(&self.info(line, rank, plies, timer));
            }
            let Some(first) = lines.first() else { break };
            if depth % PLY == 0 {
                timer.note_depth(first.mv, first.lower, self.searcher.share_of(first.index));
            }
            if is_decided(&task, &lines, plies) || task.has_only_move() && !timer.must_wait() {
                break;
            }
        }
        let position = game.position();
        if lines.is_empty()
            && let Some((mv, index)) = self.move_without_search(position, &task.allowed)
            && let Some(value) = task.root_evaluation
        {
            // Without a searched line, the move scores choose the move.
            let pv = vec![mv];
            lines.push(RootLine { mv, index, lower: value, upper: value, pv, complete: true });
            report(&self.info(&lines[0], 1, 0, timer));
        }
        timer.wait();
        let best = lines.first().map(|line| line.mv);
        let without_search = || self.move_without_search(position, &task.allowed);
        let best = best.or_else(|| without_search().map(|(mv, _)| mv));
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

    fn task<'a>(
        &mut self,
        game: &'a Game,
        limits: &'a Limits,
        timer: &mut TimeManager<'_>,
    ) -> Result<Task<'a>, EvalError> {
        let position = game.position();
        let allowed = allowed_moves(position, limits);
        let wanted = self.settings.multipv.clamp(1, allowed.len().max(1));
        let root_evaluation =
            if allowed.is_empty() { None } else { self.root_evaluation(position, timer)? };
        let last_depth = limits.last_depth() as i16 * PLY;
        Ok(Task { game, limits, allowed, wanted, root_evaluation, last_depth })
    }

    /// The lines at one depth, the best first, and whether a limit interrupted it; `before`: those
    /// of the depth before.
    fn lines_at(
        &mut self,
        task: &Task<'_>,
        depth: i16,
        before: &[RootLine],
        timer: &mut TimeManager<'_>,
    ) -> Result<(Vec<RootLine>, bool), EvalError> {
        let position = task.game.position();
        let mut found: Vec<RootLine> = Vec::new();
        for rank in 0..task.wanted {
            let moves: Vec<(Move, u8)> = task
                .allowed
                .iter()
                .copied()
                .filter(|(_, index)| found.iter().all(|line| line.index != *index))
                .collect();
            let root = Root {
                position,
                moves: &moves,
                has_all_moves: moves.len() == position.legal_moves().len(),
                history: task.game.keys(),
                depth,
                last_depth: task.last_depth,
            };
            let guess =
                before.get(rank).map_or(task.root_evaluation.unwrap_or(0), |line| line.lower);
            let width = self.width();
            let mut context =
                Context { cache: &self.cache, evaluator: &mut self.evaluator, timer: &mut *timer };
            let line = (rank + 1, guess);
            let (bounds, complete) =
                self.searcher.resolve(&root, line, self.tolerance, width, &mut context)?;
            if let Some(&(mv, index)) = moves.iter().find(|(_, index)| *index == bounds.best) {
                let Bounds { lower, upper, .. } = bounds;
                let pv = self.principal_variation(position, mv, root.depth, (lower, upper));
                found.push(RootLine { mv, index, lower, upper, pv, complete });
            }
            if !complete {
                return Ok((found, true));
            }
        }
        found.sort_by_key(|line| std::cmp::Reverse(line.lower));
        Ok((found, false))
    }

    /// The evaluation of the root before any search, made if it is not known and an evaluation is
    /// left, even if no time is: a move by the policy is worth the time of one evaluation.
    fn root_evaluation(
        &mut self,
        root: &Position,
        timer: &mut TimeManager<'_>,
    ) -> Result<Option<Value>, EvalError> {
        let move_scores = self.calibration.move_scores;
        let moves =
            if move_scores == MoveScores::Policy { root.legal_moves() } else { Default::default() };
        // Without this one evaluation a search that may not begin would have nothing to choose by.
        let has_moves = moves.is_empty() || self.cache.has_scores(root.key(), Some(moves.len()));
        if let Some(known) = self.cache.value(root.key())
            && has_moves
        {
            return Ok(Some(known));
        }
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

    fn info(
        &self,
        line: &RootLine,
        rank: usize,
        depth: u32,
        timer: &TimeManager<'_>,
    ) -> SearchInfo {
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
            moves_left: None,
            nodes: timer.nodes(),
            elapsed: timer.elapsed(),
            hashfull: self.cache.fill_per_mille(),
            pv: line.pv.clone(),
        }
    }

    /// The move to make when nothing was searched: the best by known move scores, else by exchange.
    fn move_without_search(&self, position: &Position, moves: &[(Move, u8)]) -> Option<(Move, u8)> {
        let all = position.legal_moves();
        let mut scores = Vec::new();
        self.cache.read_scores(position.key(), all.len(), &mut scores);
        let score = |&(mv, index): &(Move, u8)| {
            let score = scores.get(usize::from(index));
            score.map_or_else(|| exchange(position, mv), |&score| score.into())
        };
        moves.iter().copied().max_by_key(score)
    }
}

impl Task<'_> {
    /// Is a single move to be played under a clock? Then no search is needed.
    fn has_only_move(&self) -> bool {
        self.allowed.len() == 1 && self.limits.clock.is_some()
    }
}

/// Keeps the move that an interrupted depth has proven; true if there is one. With several lines it
/// would stand beside scores of another depth, so there the last complete depth counts.
fn keep_interrupted(lines: &mut Vec<RootLine>, found: Vec<RootLine>, wanted: usize) -> bool {
    let Some(best) = found.into_iter().next().filter(|_| wanted == 1 || lines.is_empty()) else {
        return false;
    };
    lines.retain(|line| line.index != best.index);
    lines.insert(0, best);
    lines.truncate(wanted);
    true
}

/// Do all lines end in mates that no deeper search can shorten, or is there a mate within the limit
/// `mate`?
fn is_decided(task: &Task<'_>, lines: &[RootLine], plies: u32) -> bool {
    let Some(first) = lines.first() else { return false };
    let plies_to_mate = MATE - first.lower.abs();
    let all_mate = lines.len() == task.wanted
        && lines.iter().all(|line| line.lower.abs() > MATE_BOUND)
        && plies_to_mate <= plies as Value;
    let is_short_mate = |wanted| match to_score(first.lower) {
        Score::Mate(moves) => moves > 0 && moves as u32 <= wanted,
        Score::Centipawns(_) => false,
    };
    all_mate || task.limits.mate.is_some_and(is_short_mate)
}
