//! One zero-window pass: is the root worth at least the bound?
//!
//! A best-first search over the whole tree at once. Open positions (nodes) wait in the queue; one
//! step takes the most urgent one after the other and opens its next move, until K positions need
//! the network, evaluates those together, and backs the results up. A node closes when its value
//! reaches its bound or its moves are exhausted; whatever was open only for its sake is
//! dropped. A position reached by several ways at the same depth and bound is one node.

use std::{collections::HashMap, sync::Arc, time::Duration};

use board::{Move, Position, Tablebases};
use eval::{EvalError, Evaluator, Stream};
use nets::{Calibration, MoveScores};

use super::{
    dispatch::InFlight,
    node::{Arena, Link, NodeId},
    queue::{NodeQueue, Order},
};
use crate::{
    cache::{Bounds, NO_MOVE, SearchCache},
    score::{INFINITY, MATE_BOUND, Value, from_child_with_penalty},
    selectivity::{PLY, Selectivity},
    view::View,
};

/// Depth under which proven mates are stored: they hold at any depth.
pub(super) const PROVEN: i16 = i16::MAX;

/// Up to this level of the queue work is likely enough to be needed (no doubt on the way from the
/// root above one in 50) to be worth an evaluation that costs as much as any other.
const CERTAIN_PRIORITY: usize = 0;

/// Whether and when a pass must end early.
pub(super) trait Deadline {
    /// Asked every few positions and before every batch.
    fn is_over(&mut self) -> bool;
    /// Evaluations that may still be made.
    fn evaluations_left(&self) -> u64;
    /// Evaluations that a batch may have without passing the time.
    fn affordable(&self) -> u64;
    /// Some are asked for.
    fn send(&mut self, evaluations: u64);
    /// Some were answered.
    fn receive(&mut self, evaluations: u64);
    /// Does somebody ask for a view of the inside?
    fn wants_view(&self) -> bool {
        false
    }
    /// What was asked for; `elapsed` is still to be filled in.
    fn show(&mut self, _view: View) {}
}

/// What a pass works with.
pub(super) struct Context<'a> {
    pub cache: &'a mut SearchCache,
    pub evaluator: &'a mut dyn Evaluator,
    pub timer: &'a mut dyn Deadline,
}

/// How a pass ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PassEnd {
    /// Bounds on the root's value, on one side of the bound, and the best move; below it the
    /// one that came closest.
    Decided(Bounds),
    /// Time, evaluations or memory ran out.
    Interrupted,
}

/// The root of a pass.
#[derive(Clone, Debug)]
pub(super) struct Root<'a> {
    pub position: &'a Position,
    /// The moves to consider, with their place in generation order; a subset of the legal ones.
    pub moves: &'a [(Move, u8)],
    /// Are these all legal moves? Only then are the bounds those of the position.
    pub complete: bool,
    /// Keys of the positions before the root, oldest first.
    pub history: &'a [u64],
    pub depth: i16,
    /// No larger depth will be asked for.
    pub last_depth: i16,
}

impl Root<'_> {
    /// The key under which its bounds are remembered.
    pub(super) fn key(&self) -> u64 {
        cache_key(self.position)
    }
}

/// The bounds of a child on their way to a parent.
pub(super) struct BackupEvent {
    pub parent: Link,
    /// `None` where no node was needed.
    pub child: Option<NodeId>,
    pub lower: Value,
    pub upper: Value,
}

/// What the network is asked about a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    Value,
    Moves,
}

/// A question of the next batch, and whose it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    pub node: NodeId,
    pub ask: Ask,
}

/// The working state of passes; memory is used again from one to the next.
pub(super) struct Searcher {
    pub(super) nodes: Arena,
    /// The roots of the pass and their priorities: first the question that is asked, then
    /// those ahead.
    pub(super) roots: Vec<(NodeId, u8)>,
    /// Evaluations when [`Searcher::reprioritise`] was last done.
    pub(super) reprioritised_at: u64,
    /// Open nodes by (key, depth, bound).
    pub(super) open: HashMap<u64, NodeId, std::hash::BuildHasherDefault<KeyHasher>>,
    pub(super) queue: NodeQueue,
    pub(super) pending: Vec<Pending>,
    pub(super) backups: Vec<BackupEvent>,
    /// Working memory for the places of forcing moves.
    pub(super) forcing: Vec<u8>,
    /// Empty; memory for walks through the open nodes.
    pub(super) stack: Vec<NodeId>,
    pub(super) in_flight: InFlight,
    /// Open nodes from which on the deepest go first, and twice which none is opened.
    pub(super) node_limit: usize,
    /// How late moves are treated.
    pub selectivity: Selectivity,
    /// What unlikely replies count less for the opponent: [`ReplyPenalty`](super::opponent::Costs); 0 for
    /// a perfect one, and without a policy.
    pub opponent_errors: Value,
    /// Use what was found at a larger depth, proven mates too: more than a search of this depth
    /// could see.
    pub deeper_answers: bool,
    /// What the bins of the queue mean.
    pub order: Order,
    /// [`crate::Settings::fill`].
    pub fill: usize,
    /// Do leaves answer captures before their value is trusted?
    pub quiet_leaves: bool,
    /// Endgame tables, asked before anything is evaluated.
    pub tables: Option<Arc<Tablebases>>,
    /// What the network says of moves. A policy comes with the value: both are asked for at once.
    pub(super) move_scores: MoveScores,
    /// Deepest ply seen since the last [`Searcher::reset_statistics`].
    pub deepest: u32,
    /// Batches and the evaluations in them since then.
    pub batches: u64,
    pub evaluations: u64,
    /// Of those, by the root's move, in generation order, that led there.
    pub(super) spent: [u64; 256],
    /// Evaluations of the batch that was sent last.
    pub(super) last_batch: usize,
    /// Rank and bounds of the line that is being searched, for those who watch.
    pub line: (usize, Bounds),
}

impl std::fmt::Debug for Searcher {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Searcher")
            .field("open", &self.nodes.open_count())
            .finish_non_exhaustive()
    }
}

/// Keys are random already.
#[derive(Clone, Copy, Default)]
pub(super) struct KeyHasher(u64);

impl std::hash::Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0.rotate_left(8)) ^ u64::from(byte);
        }
    }
    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}

pub(super) fn question_key(key: u64, depth: i16, bound: Value) -> u64 {
    let question = u64::from(depth as u16) << 32 | u64::from(bound as u32);
    key ^ (question.wrapping_mul(0x9e37_79b9_7f4a_7c15)).rotate_left(17)
}

/// The key under which bounds are remembered: near the fifty-move limit a position is a different
/// one at each clock.
pub(super) fn cache_key(position: &Position) -> u64 {
    let clock = position.halfmove_clock();
    if clock < 70 {
        position.key()
    } else {
        position.key() ^ u64::from(clock).wrapping_mul(0xd6e8_feb8_6659_fd93)
    }
}

impl Searcher {
    /// `calibration` gives the bins and the meaning of move scores; `bytes` bound the nodes.
    pub(super) fn new(calibration: &Calibration, bytes: usize) -> Self {
        Self {
            nodes: Arena::default(),
            roots: Vec::new(),
            reprioritised_at: 0,
            open: HashMap::default(),
            queue: NodeQueue::new(calibration),
            pending: Vec::new(),
            backups: Vec::new(),
            forcing: Vec::new(),
            stack: Vec::new(),
            in_flight: InFlight::default(),
            node_limit: (bytes / 2 / Arena::TYPICAL_NODE_BYTES).max(64),
            selectivity: Selectivity::default(),
            opponent_errors: 0,
            deeper_answers: true,
            order: Order::Need,
            fill: 0,
            quiet_leaves: true,
            tables: None,
            move_scores: calibration.move_scores,
            deepest: 0,
            batches: 0,
            evaluations: 0,
            spent: [0; 256],
            last_batch: 0,
            line: (1, Bounds::default()),
        }
    }

    pub(super) fn reset_statistics(&mut self) {
        (self.deepest, self.batches, self.evaluations) = (0, 0, 0);
        self.spent.fill(0);
    }

    /// The part of the evaluations below the root since [`Searcher::reset_statistics`] that one of
    /// its moves, in generation order, has had.
    pub(super) fn share_of(&self, index: u8) -> Option<f64> {
        let all: u64 = self.spent[..usize::from(NO_MOVE)].iter().sum();
        (all > 0).then(|| self.spent[usize::from(index)] as f64 / all as f64)
    }

    /// Compares the root's value with `bound`, evaluating up to `width` positions together: as
    /// many as the evaluator likes, whatever they are, and beyond that those that will most likely
    /// be needed.
    pub(super) fn pass(
        &mut self,
        root: &Root<'_>,
        bound: Value,
        width: usize,
        context: &mut Context<'_>,
    ) -> Result<PassEnd, EvalError> {
        let end = self.compare(root, bound, width, context);
        let end = end.and_then(|end| self.drain(context).map(|()| end));
        if end.is_err() {
            self.abort(context.evaluator);
        }
        end
    }

    /// As [`Searcher::pass`], which takes back what this leaves in flight.
    fn compare(
        &mut self,
        root: &Root<'_>,
        bound: Value,
        width: usize,
        context: &mut Context<'_>,
    ) -> Result<PassEnd, EvalError> {
        self.nodes.clear();
        self.open.clear();
        self.queue.clear();
        self.pending.clear();
        self.roots.clear();
        let root_node = self.add_root(root, root.depth, bound, 0);
        let mut end = None;
        self.ask_moves(root, root_node, context.cache);
        let mut steps = 0_u32;
        let Stream { batch: liked, in_flight: most_in_flight } =
            context.evaluator.preferred_stream();
        let free = if self.fill == 0 { liked } else { self.fill };
        let asks_ahead = self.asks_ahead(free.min(width) * most_in_flight);
        if asks_ahead {
            self.add_questions_ahead(root, bound, context);
        }
        self.reprioritised_at = self.evaluations;
        loop {
            if asks_ahead && self.is_to_reprioritise() {
                self.reprioritise();
            }
            // Collect.
            let most = context.timer.evaluations_left().min(context.timer.affordable()).max(1);
            let width = (width as u64).min(most) as usize;
            while self.pending.len() < width && end.is_none() {
                steps = steps.wrapping_add(1);
                if steps.is_multiple_of(64) && context.timer.is_over() {
                    break;
                }
                let open = self.nodes.open_count();
                if self.queue.len() > 4 * open + 1024 {
                    let nodes = &self.nodes;
                    self.queue.retain(|entry| nodes.is_valid(entry));
                }
                let crowded = open > self.node_limit;
                if crowded {
                    self.drop_questions_ahead();
                }
                let is_speculative =
                    self.queue.next_priority().is_some_and(|priority| priority > CERTAIN_PRIORITY);
                if is_speculative && self.pending.len() >= free && self.order == Order::Need {
                    break; // It can wait for the answers to this batch.
                }
                let entry = if crowded { self.queue.pop_deepest() } else { self.queue.pop() };
                let Some(entry) = entry else { break };
                if !self.expand_next(root, entry, context.cache) {
                    if self.pending.is_empty() && self.in_flight.len() == 0 {
                        return Ok(PassEnd::Interrupted);
                    }
                    break; // No memory for another position: first those that there are.
                }
                end = self.back_up(root, root_node, context.cache);
            }
            if let Some(bounds) = end {
                return Ok(PassEnd::Decided(bounds));
            }
            // Evaluate.
            let nodes = &self.nodes;
            self.pending.retain(|pending| nodes.get(pending.node).is_some());
            let is_over = context.timer.is_over();
            if is_over && self.in_flight.len() == 0 {
                return Ok(PassEnd::Interrupted);
            }
            // A further batch is for a device that would wait otherwise: half of one would delay
            // the next.
            let fills_enough =
                self.in_flight.len() == 0 || self.pending.len() >= free.min(width).div_ceil(2);
            if !is_over && fills_enough && !self.pending.is_empty() {
                let sent = self.send(width, context)?;
                if sent > 0 && context.timer.wants_view() {
                    context.timer.show(self.view(root, bound, width));
                }
                if sent == 0 && self.queue.len() > 0
                    || sent > 0 && self.in_flight.len() < most_in_flight
                {
                    continue; // The tree works while the device does; what is in flight already is asked no second time.
                }
            }
            if self.in_flight.len() == 0 {
                if self.pending.is_empty() && self.queue.len() == 0 {
                    return Ok(PassEnd::Interrupted); // Cannot be: an open root has open work.
                }
                continue;
            }
            self.receive(root, context)?;
            end = self.back_up(root, root_node, context.cache);
            if let Some(bounds) = end {
                return Ok(PassEnd::Decided(bounds));
            }
        }
    }

    fn view(&self, root: &Root<'_>, bound: Value, width: usize) -> View {
        let (line, Bounds { lower, upper, .. }) = self.line;
        View {
            depth: (root.depth / PLY) as u32,
            line,
            lower,
            upper,
            bound,
            open: self.nodes.open_count(),
            bins: self.queue.counts(),
            batch: self.last_batch,
            width,
            batches: self.batches,
            evaluations: self.evaluations,
            elapsed: Duration::ZERO,
        }
    }

    /// Works through the news; the root's bounds once it closes.
    fn back_up(
        &mut self,
        root: &Root<'_>,
        root_node: NodeId,
        cache: &mut SearchCache,
    ) -> Option<Bounds> {
        while let Some(BackupEvent { parent, child, lower, upper }) = self.backups.pop() {
            let Link { node: reference, edge, reduced, penalty, priority_cost } = parent;
            let penalty = Value::from(penalty);
            let Some(node) = self.nodes.get_mut(reference) else { continue };
            if let Some(child) = child {
                // Only now: a parent is exhausted when its last child's result has arrived.
                node.children.retain(|&other| other != child);
                node.priority_cost = (node.priority_cost - priority_cost).max(0.0);
            }
            let (at_least, at_most) =
                (from_child_with_penalty(upper, penalty), from_child_with_penalty(lower, penalty));
            if reduced && at_least >= node.bound && at_least <= MATE_BOUND {
                // Better than a late move should be: look again at full depth.
                let place = node.ordered.iter().position(|ordered| ordered.index() == edge);
                node.re_search.extend(place.and_then(|place| u8::try_from(place).ok()));
                self.push_node(reference, 0);
                continue;
            }
            if at_least > node.lower {
                node.lower = at_least;
                node.best = edge;
            }
            if at_most > node.upper || node.best_by_upper == NO_MOVE {
                node.upper = node.upper.max(at_most);
                node.best_by_upper = edge;
            }
            let reached = node.lower >= node.bound;
            let exhausted = !node.has_moves() && node.children.is_empty();
            if reached || exhausted {
                let (lower, upper) = (node.lower, if exhausted { node.upper } else { INFINITY });
                if reference == root_node {
                    let best = if node.best == NO_MOVE { node.best_by_upper } else { node.best };
                    let bounds = Bounds { lower, upper, best };
                    self.close(reference, lower, upper, cache, root.complete);
                    self.backups.clear();
                    return Some(bounds);
                }
                // Not that of the root if it is one of the questions ahead, and not all moves are
                // searched.
                let store = root.complete || node.ply > 0;
                self.close(reference, lower, upper, cache, store);
            } else {
                let extra = match (self.order, self.move_scores) {
                    (Order::Decisiveness, _) => self.queue.indecision(node),
                    (Order::Need, MoveScores::Policy) => node.next_move_priority(),
                    (Order::Need, MoveScores::Centipawns) => 0,
                };
                self.push_node(reference, extra);
            }
        }
        None
    }

    /// Remembers the bounds, tells the parents, drops what was open for this node's sake.
    pub(super) fn close(
        &mut self,
        reference: NodeId,
        lower: Value,
        upper: Value,
        cache: &mut SearchCache,
        store: bool,
    ) {
        let Some(node) = self.nodes.get_mut(reference) else { return };
        let best = node.best_known(lower, upper);
        let (key, depth, bound) = (node.key, node.depth, node.bound);
        let parents = std::mem::take(&mut node.parents);
        let children = std::mem::take(&mut node.children);
        if store {
            cache.store_bounds(key, depth, Bounds { lower, upper, best });
            // A leaf counts its forcing moves only.
            let found = Bounds { lower, upper, best: if depth == 0 { NO_MOVE } else { best } };
            if lower > MATE_BOUND {
                cache.store_bounds(key, PROVEN, Bounds { upper: INFINITY, ..found });
            } else if upper < -MATE_BOUND {
                cache.store_bounds(key, PROVEN, Bounds { lower: -INFINITY, ..found });
            }
        }
        self.open.remove(&question_key(key, depth, bound));
        for &parent in &parents {
            self.backups.push(BackupEvent { parent, child: Some(reference), lower, upper });
        }
        if let Some(node) = self.nodes.get_mut(reference) {
            node.parents = parents;
            node.children = children;
        }
        self.drop_frame(reference);
    }

    /// Frees a node and, one after the other, the descendants that no open node needs any more.
    pub(super) fn drop_frame(&mut self, reference: NodeId) {
        let mut doomed = std::mem::take(&mut self.stack);
        doomed.push(reference);
        while let Some(reference) = doomed.pop() {
            let Some(node) = self.nodes.get_mut(reference) else { continue };
            let children = std::mem::take(&mut node.children);
            let question = question_key(node.key, node.depth, node.bound);
            if self.open.get(&question) == Some(&reference) {
                self.open.remove(&question);
            }
            self.nodes.release(reference.slot);
            for child in children {
                if let Some(node) = self.nodes.get_mut(child) {
                    node.parents.retain(|link| link.node != reference);
                    if node.parents.is_empty() {
                        doomed.push(child);
                    }
                }
            }
        }
        self.stack = doomed;
    }
}
