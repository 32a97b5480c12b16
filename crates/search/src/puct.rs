//! PUCT, the tree search of AlphaZero and Lc0, on the same network: a baseline for the K-best-first
//! search.
//!
//! Each playout selects moves from the root by value, prior and visits, expands a new position, and
//! averages its value into all positions above (Rosin 2011; Silver et al. 2017). The constants and
//! the first-play urgency are Lc0's. For batches of K, playouts in flight count as visits without a
//! value (virtual visits), as in Lc0, so that the next one selects other moves. Proven mates, draws
//! and results of endgame tables are backed up exactly (an MCTS solver).

mod tree;

use board::{Game, Move, Position};
use eval::{EvalError, Evaluator};
use nets::{Calibration, MoveScores};

use crate::{
    Bound, Control, Limits, Outcome, Search, SearchInfo, Settings,
    evaluations::{Evaluations, Stop},
    quiet::exchange,
    rules,
    score::{MATE, MATE_BOUND, Value, to_score, wdl},
    time::TimeManager,
};
use tree::{Descent, Tree};

/// Softmax temperature of the policy's priors.
const POLICY_TEMPERATURE: f32 = 1.36;

/// Centipawns that stand for one unit of a policy's logarithm where move scores are centipawns.
const CENTIPAWNS_A_NAT: f32 = 60.0;

/// Playouts without a new evaluation after which a search ends.
const MOST_IDLE: u32 = 20_000;

/// PUCT over an evaluator.
#[derive(Debug)]
pub struct Puct {
    evaluations: Evaluations,
    calibration: Calibration,
    settings: Settings,
    /// The tree of the last search, freed at the start of the next one.
    tree: Option<Tree>,
}

/// A leaf that waits for its evaluation.
struct Waiting {
    descent: Descent,
    position: Position,
}

/// Playouts after which a search with the limit `mate` ends.
const MOST_FOR_A_MATE: u64 = 1_000_000;

/// Bytes that a leaf takes while it waits, and in the tree.
const LEAF_BYTES: usize = 4096;

/// Bytes for evaluations, bytes for the tree.
fn shares(settings: &Settings) -> (usize, usize) {
    let bytes = settings.hash_mib.max(1) << 20;
    (bytes / 2, bytes / 2)
}

impl Puct {
    /// A search over an evaluator; `calibration` says what move scores mean and turns values into
    /// chances.
    #[must_use]
    pub fn new(
        evaluator: Box<dyn Evaluator>,
        calibration: &Calibration,
        settings: &Settings,
    ) -> Self {
        Self {
            evaluations: Evaluations::new(evaluator, calibration, shares(settings).0),
            calibration: calibration.clone(),
            settings: settings.clone(),
            tree: None,
        }
    }

    /// Expected result for the mover, from -1 to 1.
    fn expectation(&self, value: Value) -> f32 {
        let chances = wdl(&self.calibration, value);
        (f32::from(chances.win) - f32::from(chances.loss)) / 1000.0
    }

    /// Centipawns with this expected result.
    fn centipawns(&self, expectation: f32) -> Value {
        let (mut low, mut high) = (-3000, 3000);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.expectation(middle) < expectation {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Priors of all legal moves from their scores.
    fn priors(&self, scores: &[i16]) -> Vec<f32> {
        let unit = match self.evaluations.move_scores() {
            MoveScores::Policy => 100.0 * POLICY_TEMPERATURE,
            MoveScores::Centipawns => CENTIPAWNS_A_NAT * POLICY_TEMPERATURE,
        };
        let most = scores.iter().copied().max().unwrap_or(0);
        let weights: Vec<f32> = scores
            .iter()
            .map(|&score| ((f32::from(score) - f32::from(most)) / unit).exp())
            .collect();
        let sum: f32 = weights.iter().sum();
        weights.iter().map(|weight| weight / sum).collect()
    }

    /// Expands a leaf by its evaluation, from the cache if possible, and backs it up.
    fn open(
        &mut self,
        tree: &mut Tree,
        waiting: &Waiting,
        timer: &mut TimeManager<'_>,
    ) -> Result<(), Stop> {
        let scores = self.evaluations.scores(&waiting.position, timer)?;
        let value = self.evaluations.value(&waiting.position, timer)?;
        let priors = self.priors(&scores);
        tree.expand(&waiting.descent, &priors, self.expectation(value));
        Ok(())
    }

    /// Runs playouts until `width` leaves wait for the network, then evaluates and backs them up.
    /// False when the tree is full or decided, or no playout finds a new position.
    fn step(
        &mut self,
        tree: &mut Tree,
        game: &Game,
        width: usize,
        idle: &mut u32,
        timer: &mut TimeManager<'_>,
    ) -> Result<bool, Stop> {
        let mut waiting: Vec<Waiting> = Vec::new();
        // Playouts that met a waiting leaf stay in flight until the batch is sent, so that the next
        // one selects other moves.
        let mut collisions: Vec<Descent> = Vec::new();
        while waiting.len() < width {
            if *idle > MOST_IDLE || tree.is_full() || tree.is_decided() {
                break;
            }
            *idle += 1;
            if idle.is_multiple_of(64) && timer.is_over() {
                break;
            }
            let (descent, position, draw) = tree.descend(game);
            if draw {
                tree.back_up(&descent, 0.0);
                continue;
            }
            let Some(position) = position else {
                // A leaf that waits already, or a proven one.
                if descent.is_proven() {
                    tree.back_up_proven(&descent, |value| self.expectation(value));
                    continue;
                }
                collisions.push(descent);
                if collisions.len() >= width {
                    break;
                }
                continue;
            };
            if let Some(value) = rules::ended(&position, self.settings.tables.as_deref()) {
                tree.prove(&descent, value, |value| self.expectation(value));
                continue;
            }
            waiting.push(Waiting { descent, position });
        }
        for descent in &collisions {
            tree.give_back(descent);
        }
        if waiting.is_empty() {
            return Ok(!(*idle > MOST_IDLE || tree.is_full() || tree.is_decided()));
        }
        let most =
            (timer.evaluations_left() / self.evaluations.each()).min(timer.affordable()).max(1);
        for late in waiting.drain(most.min(waiting.len() as u64) as usize..) {
            tree.give_back(&late.descent);
        }
        let before = timer.nodes();
        let positions: Vec<&Position> = waiting.iter().map(|waiting| &waiting.position).collect();
        self.evaluations.learn(&positions, timer)?;
        if timer.nodes() > before {
            *idle = 0;
        }
        for leaf in &waiting {
            self.open(tree, leaf, timer)?;
        }
        Ok(true)
    }

    fn lines(&self, tree: &Tree, game: &Game, timer: &TimeManager<'_>) -> Vec<SearchInfo> {
        let (depth, deepest) = tree.depths();
        let mut moves = tree.best(usize::MAX);
        // A move without visits has no value; only the first move is reported in any case.
        let first = moves.first().map(|first| first.edge);
        moves.retain(|best| best.visits > 0 || Some(best.edge) == first);
        moves.truncate(self.settings.multipv.max(1));
        (1..)
            .zip(moves)
            .map(|(rank, best)| {
                let value = best.proven.unwrap_or_else(|| self.centipawns(best.expectation));
                SearchInfo {
                    depth,
                    seldepth: deepest,
                    multipv: rank,
                    score: to_score(value),
                    bound: Bound::Exact,
                    wdl: wdl(&self.calibration, value),
                    moves_left: None,
                    nodes: timer.nodes(),
                    elapsed: timer.elapsed(),
                    hashfull: tree.fill_per_mille(),
                    pv: tree.principal_variation(game.position(), best.edge),
                }
            })
            .collect()
    }
}

impl Search for Puct {
    fn search(
        &mut self,
        game: &Game,
        limits: &Limits,
        control: &Control,
        report: &mut dyn FnMut(&SearchInfo),
    ) -> Result<Outcome, EvalError> {
        let mut timer = TimeManager::new(limits, self.settings.move_overhead, control);
        let position = game.position();
        let moves: Vec<Move> = position.legal_moves().to_vec();
        let is_allowed = |mv: &Move| limits.allows(*mv);
        let allowed: Vec<bool> = moves.iter().map(is_allowed).collect();
        let worth = |mv: &Move| exchange(position, *mv);
        let fallback = moves.iter().copied().filter(is_allowed).max_by_key(worth);
        let mut lines = Vec::new();
        if fallback.is_some() {
            self.tree = None;
            let bytes = shares(&self.settings).1;
            let width = self.evaluations.width(self.settings.batch).min(bytes / 4 / LEAF_BYTES);
            let mut tree = Tree::new(bytes - width * LEAF_BYTES);
            let (mut idle, mut next_report) = (0, 1);
            let root = Waiting { descent: Descent::root(), position: position.clone() };
            let mut result = self.open(&mut tree, &root, &mut timer);
            let has_root = result.is_ok();
            if has_root {
                tree.restrict(&allowed);
                if limits.clock.is_some() && moves.len() == 1 && !timer.must_wait() {
                    result = Err(Stop::Over);
                }
            }
            while result.is_ok() {
                if timer.is_spent() || limits.mate.is_some() && tree.playouts() > MOST_FOR_A_MATE {
                    break;
                }
                match self.step(&mut tree, game, width, &mut idle, &mut timer) {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(stop) => result = Err(stop),
                }
                let (depth, _) = tree.depths();
                if limits.depth.is_some_and(|wanted| depth >= wanted) {
                    break;
                }
                if tree.playouts() >= next_report {
                    next_report = tree.playouts() * 2;
                    self.lines(&tree, game, &timer).iter().for_each(&mut *report);
                }
                if let Some(wanted) = limits.mate
                    && tree.best(1).first().and_then(|best| best.proven).is_some_and(|value| {
                        value > MATE_BOUND && i64::from(MATE - value) < 2 * i64::from(wanted)
                    })
                {
                    break;
                }
            }
            if let Err(Stop::Failed(error)) = result {
                return Err(error);
            }
            if has_root {
                lines = self.lines(&tree, game, &timer);
                lines.iter().for_each(&mut *report);
            }
            self.tree = Some(tree);
        }
        timer.wait();
        // For a search that ended before the root was evaluated completely.
        let scored = self.evaluations.known_scores(position).and_then(|scores| {
            let choices = moves.iter().zip(scores).filter(|(mv, _)| is_allowed(mv));
            choices.max_by_key(|&(_, score)| score).map(|(&mv, _)| mv)
        });
        Ok(Outcome {
            best: lines.first().and_then(|line| line.pv.first().copied()).or(scored).or(fallback),
            ponder: lines.first().and_then(|line| line.pv.get(1).copied()),
            nodes: timer.nodes(),
            lines,
        })
    }

    fn configure(&mut self, settings: &Settings) {
        if settings.hash_mib != self.settings.hash_mib {
            self.tree = None;
            self.evaluations.resize(shares(settings).0);
        }
        if settings.tables != self.settings.tables {
            // It holds results of the other tables.
            self.tree = None;
        }
        self.settings = settings.clone();
    }

    fn clear(&mut self) {
        self.tree = None;
        self.evaluations.clear();
    }
}

#[cfg(test)]
mod tests;
