//! What the depth-first searches share: the way from the root, bounds in a table, and iterative
//! deepening that reports lines. How a node is searched is each one's own.

use board::{Game, Move, Position, Score};
use eval::EvalError;
use nets::Calibration;

use crate::{
    Bound, Limits, Outcome, SearchInfo, Settings,
    evaluations::{Evaluations, Stop},
    rules,
    score::{INFINITY, Value, to_score, wdl},
    time::{TO_BEGIN_A_PLY, TimeManager},
    transposition::{Entry, TranspositionTable},
};

/// Where evaluations are limited, so many positions may be looked at for each: what is known costs
/// none.
const VISITS: u64 = 100;

/// The memory of a depth-first search, and where it stands.
#[derive(Debug)]
pub(crate) struct SearchStack {
    pub evaluations: Evaluations,
    pub settings: Settings,
    pub table: TranspositionTable,
    calibration: Calibration,
    /// Keys of the positions from the start of the game to the one at hand.
    path: Vec<u64>,
    /// Where in the path the root stands.
    root_at: usize,
    deepest: u32,
    /// Positions looked at in this search, evaluated or not.
    visits: u64,
    most_visits: u64,
}

impl SearchStack {
    /// `calibration` gives win, draw and loss.
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
            visits: 0,
            most_visits: u64::MAX,
        }
    }

    /// Forgets everything learned.
    pub(crate) fn clear(&mut self) {
        self.evaluations.clear();
        self.table.clear();
    }

    /// New settings. What was found with other endgame tables is forgotten.
    pub(crate) fn configure(&mut self, settings: &Settings) {
        if settings.tables != self.settings.tables {
            self.table.clear();
        }
        self.settings = settings.clone();
    }

    /// Stands at the current position of a game.
    pub(crate) fn start(&mut self, game: &Game, limits: &Limits) {
        self.table.new_search();
        (self.deepest, self.visits) = (0, 0);
        self.most_visits =
            limits.nodes.map_or(u64::MAX, |nodes| VISITS.saturating_mul(nodes.saturating_add(100)));
        self.path = game.keys().to_vec();
        self.root_at = self.path.len();
    }

    /// Stands at the root.
    fn return_to(&mut self, root: &Position) {
        self.path.truncate(self.root_at);
        self.step_to(root);
    }

    /// The children of a position come next.
    pub(crate) fn step_to(&mut self, position: &Position) {
        self.path.push(position.key());
    }

    /// The last position's children are done.
    pub(crate) fn step_back(&mut self) {
        self.path.pop();
    }

    /// Counts a position `ply` plies below the root. Looks at the limits now and then: what is
    /// known costs no evaluation, and can still go on for ever.
    pub(crate) fn visit(&mut self, ply: usize, timer: &mut TimeManager<'_>) -> Result<(), Stop> {
        self.deepest = self.deepest.max(ply as u32);
        self.visits += 1;
        let is_over =
            self.visits > self.most_visits || self.visits.is_multiple_of(64) && timer.is_over();
        if is_over { Err(Stop::Over) } else { Ok(()) }
    }

    /// The value without an evaluation, where the rules or the endgame tables give it, repetitions
    /// apart.
    pub(crate) fn ended(&self, position: &Position) -> Option<Value> {
        rules::ended(position, self.settings.tables.as_deref())
    }

    /// The same, repetitions included: one of a position since the root, or the second one of the
    /// game before it.
    pub(crate) fn ruled(&self, position: &Position) -> Option<Value> {
        self.ended(position).or_else(|| self.is_repetition_here(position).then_some(0))
    }

    /// Has the position occurred since the root, or twice in the game before it?
    pub(crate) fn is_repetition_here(&self, position: &Position) -> bool {
        let (game, way) = self.path.split_at(self.root_at);
        rules::is_repetition(position, way.iter().rev().copied(), game)
    }

    /// What the table has on a position. Near the fifty-move limit a position is another one at
    /// each clock.
    pub(crate) fn known(&self, position: &Position) -> Option<Entry> {
        self.table.probe(position.key()).filter(|_| is_kept(position))
    }

    /// The value that an entry of this search gives within a window.
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

    /// Keeps what a search of a position within a window has found; `depth` in parts of a ply,
    /// `chosen` in generation order.
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

fn is_kept(position: &Position) -> bool {
    position.halfmove_clock() < 70
}

/// A search that resolves the root at one depth after another.
pub(crate) trait DepthFirst {
    fn stack(&mut self) -> &mut SearchStack;

    /// The value of the best of `moves` at a depth in plies, near `guess` if there is one; that
    /// move then stands in front. If it has to stop, the value of what was found better than the
    /// move in front, if anything was.
    fn resolve(
        &mut self,
        root: &Position,
        moves: &mut [Move],
        depth: u32,
        guess: Option<Value>,
        timer: &mut TimeManager<'_>,
    ) -> Result<Value, (Stop, Option<Value>)>;

    /// Iterative deepening over these moves of the game's current position, the most hopeful first.
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
                        // What an interrupted depth has proven better than the last one's move
                        // stands in front.
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
                    nodes: timer.nodes(),
                    elapsed: timer.elapsed(),
                    hashfull: stack.table.fill_per_mille(),
                    pv: stack.principal_variation(root, moves[rank], depth),
                });
            }
            // Reductions can make a later line the better one.
            found.sort_by_key(|line| std::cmp::Reverse(line.score.order()));
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
        timer.wait();
        Ok(Outcome {
            best: lines.first().map(|line| line.pv[0]).or(moves.first().copied()),
            ponder: lines.first().and_then(|line| line.pv.get(1).copied()),
            nodes: timer.nodes(),
            lines,
        })
    }
}

/// Is there a mate that no deeper search can better, or one as short as was asked for?
fn is_decided(lines: &[SearchInfo], wanted: usize, depth: u32, limits: &Limits) -> bool {
    lines.first().is_some_and(|line| match line.score {
        Score::Mate(moves) => {
            limits.mate.is_some_and(|wanted| moves > 0 && moves as u32 <= wanted)
                || wanted == 1 && 2 * moves.unsigned_abs() <= depth + 1
        }
        Score::Centipawns(_) => false,
    })
}

/// A value below everything, as no value.
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
