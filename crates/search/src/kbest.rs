//! K-best-first search: iterative deepening over zero-window passes, each a best-first search of
//! the whole tree.
//!
//! Evaluations and bounds stay in a cache of fixed size, so a new pass, depth or move of the game
//! passes quickly through cached positions and evaluates only the rest. Bounds hold for one game
//! history; after another move they only order moves.
//!
//! | module | what it does |
//! |---|---|
//! | [`deepening`] | one depth after the other, and the lines that are reported |
//! | [`driver`] | which bounds the passes of one depth ask |
//! | [`pass`] | the state and the rules of a pass |
//! | [`dispatch`] | the loop of a pass: fill a batch, send it, receive answers |
//! | [`queue`], [`priority`] | which node comes next |
//! | [`expand`], [`treatment`] | a node's next move becomes a child, or is reduced or pruned |
//! | [`evaluated`] | a node's static evaluation settles it or chooses its moves |
//! | [`backup`] | results go from children to parents, nodes close |
//! | [`ahead`] | questions that will follow fill large batches |
//! | [`node`], [`arena`], [`keys`] | nodes and where they live |
//! | [`threads`] | several threads that share the cache |
//! | [`opponent`] | unlikely replies count less |
//! | [`pv`] | the principal variation |

mod ahead;
mod arena;
mod backup;
mod correction;
mod deepening;
mod dispatch;
mod driver;
mod enter;
mod evaluated;
mod expand;
mod keys;
mod node;
pub(crate) mod opponent;
mod pass;
mod priority;
mod pv;
mod queue;
mod requests;
#[cfg(test)]
mod tests;
mod threads;
mod treatment;

use std::sync::{Arc, atomic::AtomicU64};

use board::{Game, Move, Position};
use eval::{EvalError, Evaluator};
use nets::{Calibration, MoveScores};

use crate::{
    Control, Limits, Outcome, Search, SearchInfo, Settings,
    cache::SearchCache,
    score::Value,
    selectivity::{PLY, Selectivity},
    time::TimeManager,
};
use pass::Searcher;
use queue::Order;
use threads::{Crew, HelpersTask, Progress};

/// Scores that differ by no more than this, in centipawns, count as equal.
const TOLERANCE: Value = 8;

/// The default search of Batch First.
pub struct KBest {
    evaluator: Box<dyn Evaluator>,
    calibration: Calibration,
    settings: Settings,
    cache: Arc<SearchCache>,
    searcher: Searcher,
    /// Several threads, if the evaluator has several.
    crew: Crew,
    progress: Arc<Progress>,
    /// The game whose bounds are in the cache: its keys, the current one last.
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

impl KBest {
    /// A search over an evaluator; `calibration` gives the bins and the win, draw and loss chances.
    #[must_use]
    pub fn new(
        evaluator: Box<dyn Evaluator>,
        calibration: &Calibration,
        settings: &Settings,
    ) -> Self {
        let (cache, nodes) = Self::cache_shares(settings);
        let crew = Crew::new(evaluator.apart(), calibration, nodes);
        let mut searcher = Searcher::new(calibration, nodes / crew.threads());
        searcher.rules.selectivity = Selectivity::kbest(&settings.tuning);
        Self {
            searcher,
            cache: Arc::new(SearchCache::new(cache)),
            crew,
            progress: Arc::default(),
            evaluator,
            calibration: calibration.clone(),
            settings: settings.clone(),
            known_game: Vec::new(),
            tolerance: TOLERANCE,
        }
    }

    /// For comparison with plain negamax of the same depth: scores are resolved to the centipawn,
    /// no move is reduced or pruned, and bounds of a larger depth are not used.
    #[must_use]
    pub fn exact(mut self) -> Self {
        self.tolerance = 0;
        self.searcher.rules.deeper_answers = false;
        self.searcher.rules.selectivity = Selectivity::NONE;
        self
    }

    /// The search of 2018: bins by how decisive a move is, every move to full depth, leaves take
    /// the static evaluation. It shares with the default search the cache, so that no evaluation is
    /// made twice and a move that is known to decide comes first, and the driver of the passes.
    #[must_use]
    pub fn classic(mut self) -> Self {
        self.crew = Crew::default();
        let rules = &mut self.searcher.rules;
        rules.order = Order::Decisiveness;
        rules.quiet_leaves = false;
        rules.deeper_answers = false;
        rules.selectivity = Selectivity::NONE;
        self
    }

    /// MiB for the cache, bytes for nodes.
    fn cache_shares(settings: &Settings) -> (usize, usize) {
        let mib = settings.hash_mib.max(1);
        let nodes = (mib << 20) / 8;
        ((mib - mib.div_ceil(8)).max(1), nodes)
    }

    /// Do several threads search? With a number of evaluations or a batch size they do not: such
    /// searches are the same with any number of threads.
    fn uses_threads(&self, limits: &Limits) -> bool {
        let is_counted = limits.nodes.is_some() || limits.mate.is_some();
        let Settings { batch, fill, .. } = self.settings;
        self.crew.threads() > 1 && !is_counted && batch == 0 && fill == 0
    }

    /// As [`KBest::think`], with the help of other threads.
    fn think_together(
        &mut self,
        game: &Game,
        limits: &Limits,
        timer: &mut TimeManager<'_>,
        report: &mut dyn FnMut(&SearchInfo),
    ) -> Result<Outcome, EvalError> {
        let evaluations = Arc::new(AtomicU64::new(0));
        timer.count_together(&evaluations);
        let mut crew = std::mem::take(&mut self.crew);
        let moves = allowed_moves(game.position(), limits);
        let (rules, cache) = (self.searcher.rules.clone(), Arc::clone(&self.cache));
        let progress = Arc::clone(&self.progress);
        let task = HelpersTask {
            game,
            moves: &moves,
            rules: &rules,
            cache: &cache,
            progress: &progress,
            evaluations: &evaluations,
            tolerance: self.tolerance,
            last_depth: limits.last_depth() as i16 * PLY,
        };
        progress.begin(PLY, self.cache.value(game.position().key()));
        let swap = |own: &mut Box<dyn Evaluator>, crew: &mut Crew| {
            if let Some(evaluator) = &mut crew.evaluator {
                std::mem::swap(own, evaluator);
            }
        };
        swap(&mut self.evaluator, &mut crew);
        self.cache.release_all();
        self.searcher.has_company = true;
        let outcome = crew.help(&task, || self.think(game, limits, timer, report));
        self.searcher.has_company = false;
        swap(&mut self.evaluator, &mut crew);
        self.crew = crew;
        outcome?
    }

    /// Makes a new, empty cache.
    fn replace_cache(&mut self) {
        // The old cache is freed before: together they would exceed the limit.
        self.cache = Arc::new(SearchCache::new(1));
        let (cache, _) = Self::cache_shares(&self.settings);
        self.cache = Arc::new(SearchCache::new(cache));
    }

    fn width(&self) -> usize {
        let Settings { batch, fill, .. } = self.settings;
        let width =
            if batch == 0 { self.evaluator.preferred_stream().batch.max(fill) } else { batch };
        width.clamp(1, self.evaluator.largest_batch())
    }

    /// Makes a game the one that bounds hold for; those of another history only order moves.
    fn set_game(&mut self, game: &Game) {
        let mut keys = game.keys().to_vec();
        keys.push(game.position().key());
        if keys != self.known_game {
            self.cache.new_root();
            self.known_game = keys;
        }
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
        let rules = &mut self.searcher.rules;
        rules.tables.clone_from(&self.settings.tables);
        rules.fill = self.settings.fill;
        // The search of 2018 has no model of the opponent.
        let may_err = rules.order == Order::Need
            && self.calibration.move_scores == MoveScores::Policy
            && limits.is_move_to_play();
        let errors = if may_err { self.settings.opponent_errors } else { 0 };
        if rules.opponent_errors != errors {
            // Bounds with other penalties only order moves.
            rules.opponent_errors = errors;
            self.known_game.clear();
        }
        self.set_game(game);
        let selectivity = self.searcher.rules.selectivity;
        if limits.mate.is_some() && selectivity != Selectivity::NONE {
            // A mate does not depend on evaluations, so nothing is pruned, and bounds that pruning
            // found do not count.
            self.searcher.rules.selectivity = Selectivity::NONE;
            self.cache.new_root();
            self.cache.forget_leaves();
            self.known_game.clear();
        }
        let outcome = if self.uses_threads(limits) {
            self.think_together(game, limits, &mut timer, report)
        } else {
            self.think(game, limits, &mut timer, report)
        };
        self.searcher.rules.selectivity = selectivity;
        outcome
    }

    fn configure(&mut self, settings: &Settings) {
        if settings.hash_mib != self.settings.hash_mib {
            self.settings.hash_mib = settings.hash_mib;
            self.replace_cache();
            let (_, nodes) = Self::cache_shares(settings);
            let nodes = nodes / self.crew.threads();
            self.searcher.limit_memory(nodes);
            self.crew.limit_memory(nodes);
            self.known_game.clear();
        }
        if settings.tables != self.settings.tables {
            // Bounds found with other tables only order moves; those of leaves would hold for every
            // root.
            self.cache.forget_leaves();
            self.known_game.clear();
        }
        let selectivity = &mut self.searcher.rules.selectivity;
        if settings.tuning != self.settings.tuning && *selectivity != Selectivity::NONE {
            *selectivity = Selectivity::kbest(&settings.tuning);
            self.clear();
        }
        self.settings = settings.clone();
    }

    fn clear(&mut self) {
        // Between searches nobody else holds the cache, so it is cleared in place.
        match Arc::get_mut(&mut self.cache) {
            Some(cache) => cache.clear(),
            None => self.replace_cache(),
        }
        self.searcher.forget();
        self.crew.clear();
        self.known_game.clear();
    }
}

/// The moves that the limits allow, with their index in generation order.
fn allowed_moves(position: &Position, limits: &Limits) -> Vec<(Move, u8)> {
    (0_u8..=u8::MAX)
        .zip(position.legal_moves())
        .map(|(index, mv)| (mv, index))
        .filter(|(mv, _)| limits.allows(*mv))
        .collect()
}
