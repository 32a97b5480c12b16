//! One zero-window pass: is the root worth at least the bound?
//!
//! A pass is a best-first search over the whole tree at once. Open nodes wait in the queue. One
//! step takes the nodes of the best priority, expands the next move of each until K positions need
//! the network, evaluates those together, and backs the results up. A node closes when its value
//! reaches its bound or its moves are exhausted; what was open only for its sake is dropped. A
//! position that is reached by several ways at the same depth and bound is one node.

use std::{collections::HashMap, sync::Arc};

use board::{Move, Position, Tablebases};
use eval::{EvalError, Evaluator};
use nets::{Calibration, MoveScores};

use super::{
    arena::Arena,
    backup::BackupEvent,
    correction::Corrections,
    keys::{KeyHasher, cache_key},
    node::NodeId,
    queue::{NodeQueue, Order},
    requests::{InFlight, Request},
};
use crate::{
    cache::{Bounds, NO_MOVE, SearchCache},
    history::History,
    score::Value,
    selectivity::Selectivity,
    time::TimeManager,
    tuning::Tuning,
};

/// The depth under which proven mates are stored: they hold at any depth.
pub(super) const PROVEN: i16 = i16::MAX;

/// How passes treat positions and moves; set once for a search.
#[derive(Clone, Debug)]
pub(super) struct PassRules {
    /// Which moves are reduced or pruned, and where the static evaluation decides.
    pub selectivity: Selectivity,
    /// How much unlikely replies count less for the opponent
    /// ([`ReplyPenalty`](super::opponent::ReplyPenalty)), in centipawns; 0 for a perfect opponent
    /// and without a policy.
    pub opponent_errors: Value,
    /// Bounds found at a larger depth answer a question too, proven mates among them: they know
    /// more than a search of this depth could see.
    pub deeper_answers: bool,
    /// What the priorities of the queue mean.
    pub order: Order,
    /// [`crate::Settings::fill`].
    pub fill: usize,
    /// Leaves resolve captures before their value is trusted (quiescence).
    pub quiet_leaves: bool,
    /// Endgame tables, probed before a position is evaluated.
    pub tables: Option<Arc<Tablebases>>,
}

impl Default for PassRules {
    fn default() -> Self {
        Self {
            selectivity: Selectivity::kbest(&Tuning::default()),
            opponent_errors: 0,
            deeper_answers: true,
            order: Order::Need,
            fill: 0,
            quiet_leaves: true,
            tables: None,
        }
    }
}

/// What a pass works with.
pub(super) struct Context<'a, 'limits> {
    pub cache: &'a SearchCache,
    pub evaluator: &'a mut dyn Evaluator,
    pub timer: &'a mut TimeManager<'limits>,
}

/// How a pass ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PassEnd {
    /// Bounds on the root's value, both on one side of the bound that was asked, and the best move;
    /// if the value misses the bound, the move that came closest.
    Decided(Bounds),
    /// Time, evaluations or memory ran out.
    Interrupted,
}

/// The root of a pass.
#[derive(Clone, Debug)]
pub(super) struct Root<'a> {
    pub position: &'a Position,
    /// The moves to consider, with their index in generation order; a subset of the legal ones.
    pub moves: &'a [(Move, u8)],
    /// Are these all legal moves? Only then the bounds are those of the position.
    pub has_all_moves: bool,
    /// Keys of the positions before the root, oldest first.
    pub history: &'a [u64],
    /// In parts of a ply.
    pub depth: i16,
    /// No larger depth will be asked for.
    pub last_depth: i16,
}

impl Root<'_> {
    /// The key under which its bounds are stored.
    pub(super) fn key(&self) -> u64 {
        cache_key(self.position)
    }
}

/// The working state of passes; its memory is used again from one pass to the next.
pub(super) struct Searcher {
    pub(super) rules: PassRules,
    pub(super) corrections: Corrections,
    pub(super) history: History,
    pub(super) nodes: Arena,
    /// The roots of the pass and their priorities: first the question that is asked, then the
    /// questions ahead.
    pub(super) roots: Vec<(NodeId, u8)>,
    /// The number of evaluations at the last [`Searcher::reprioritise`].
    pub(super) reprioritised_at: u64,
    /// Open nodes by the key of their question (position, depth, bound).
    pub(super) open: HashMap<u64, NodeId, std::hash::BuildHasherDefault<KeyHasher>>,
    pub(super) queue: NodeQueue,
    /// Requests for the next batch.
    pub(super) pending: Vec<Request>,
    pub(super) backups: Vec<BackupEvent>,
    /// Working memory for the scores of a node's moves.
    pub(super) scores: Vec<i16>,
    /// Working memory for the indices of forcing moves.
    pub(super) forcing: Vec<u8>,
    /// Empty between uses; working memory for walks through the open nodes.
    pub(super) stack: Vec<NodeId>,
    pub(super) in_flight: InFlight,
    /// Soft limit of open nodes: above it the deepest nodes are popped first; above twice it no
    /// node is added.
    pub(super) node_limit: usize,
    /// Do other threads work on the same cache? Then a position that one of them evaluates waits.
    pub(super) has_company: bool,
    /// What the network says of moves. A policy comes with the value, unless moves are dear.
    pub(super) move_scores: MoveScores,
    /// Are values asked for without the policy, where that is not needed? See
    /// [`Stream::moves_are_dear`](eval::Stream).
    pub(super) moves_are_dear: bool,
    /// Deepest ply seen since the last [`Searcher::reset_statistics`].
    pub deepest: u32,
    /// Batches since the last [`Searcher::reset_statistics`].
    pub batches: u64,
    /// Evaluations since the last [`Searcher::reset_statistics`]; moves that are asked for after the
    /// value are none of their own.
    pub evaluations: u64,
    /// Requests by the root's move, in generation order, that led to them.
    pub(super) spent: [u64; 256],
    /// Requests of the batch that was sent last.
    pub(super) last_batch: usize,
    /// Rank and bounds of the line that is being searched, for a [`crate::View`].
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

impl Searcher {
    /// `calibration` gives the bins and the meaning of move scores; `bytes` limit the memory of
    /// nodes.
    pub(super) fn new(calibration: &Calibration, bytes: usize) -> Self {
        Self {
            rules: PassRules::default(),
            corrections: Corrections::default(),
            history: History::default(),
            nodes: Arena::default(),
            roots: Vec::new(),
            reprioritised_at: 0,
            open: HashMap::default(),
            queue: NodeQueue::new(calibration),
            pending: Vec::new(),
            backups: Vec::new(),
            scores: Vec::new(),
            forcing: Vec::new(),
            stack: Vec::new(),
            in_flight: InFlight::default(),
            node_limit: Self::node_limit(bytes),
            has_company: false,
            move_scores: calibration.move_scores,
            moves_are_dear: false,
            deepest: 0,
            batches: 0,
            evaluations: 0,
            spent: [0; 256],
            last_batch: 0,
            line: (1, Bounds::default()),
        }
    }

    /// Limits the memory of nodes to so many bytes, and frees what nodes had.
    pub(super) fn limit_memory(&mut self, bytes: usize) {
        self.nodes = Arena::default();
        self.open = HashMap::default();
        self.node_limit = Self::node_limit(bytes);
    }

    /// Forgets what was learned in a game.
    pub(super) fn forget(&mut self) {
        self.corrections.clear();
        self.history.clear();
    }

    /// How many nodes may be open in so many bytes.
    fn node_limit(bytes: usize) -> usize {
        (bytes / 2 / Arena::TYPICAL_NODE_BYTES).max(64)
    }

    pub(super) fn reset_statistics(&mut self) {
        (self.deepest, self.batches, self.evaluations) = (0, 0, 0);
        self.spent.fill(0);
    }

    /// The share of the evaluations below the root since [`Searcher::reset_statistics`] that went
    /// to one of its moves, given in generation order.
    pub(super) fn share_of(&self, index: u8) -> Option<f64> {
        let all: u64 = self.spent[..usize::from(NO_MOVE)].iter().sum();
        (all > 0).then(|| self.spent[usize::from(index)] as f64 / all as f64)
    }

    /// Compares the root's value with `bound`, evaluating up to `width` positions together: as
    /// many as the evaluator prefers in any case, beyond that those that will most likely be
    /// needed.
    pub(super) fn pass(
        &mut self,
        root: &Root<'_>,
        bound: Value,
        width: usize,
        context: &mut Context<'_, '_>,
    ) -> Result<PassEnd, EvalError> {
        let end = self.run_pass(root, bound, width, context);
        let end = end.and_then(|end| self.drain(context).map(|()| end));
        if end.is_err() {
            self.abort(context.evaluator);
        }
        end
    }

    /// Clears what an earlier pass left and asks the question of this one; its root.
    pub(super) fn begin_pass(
        &mut self,
        root: &Root<'_>,
        bound: Value,
        cache: &SearchCache,
    ) -> NodeId {
        self.nodes.clear();
        self.open.clear();
        self.queue.clear();
        self.pending.clear();
        self.in_flight.forget_waiting();
        self.roots.clear();
        let root_node = self.add_root(root, root.depth, bound, 0);
        self.order_moves(root, root_node, cache);
        root_node
    }
}
