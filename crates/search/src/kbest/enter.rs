//! A position becomes a node of the tree, unless the rules of chess, the endgame tables, the search
//! cache or its static evaluation answer the question first.

use board::Position;

use super::{
    correction::Structures,
    keys::{cache_key, question_key},
    node::NodeId,
    pass::{PROVEN, Root, Searcher},
    queue::Order,
};
use crate::{
    cache::{Bounds, SearchCache},
    rules,
    score::{INFINITY, MATE, Value, from_winner},
    selectivity::StaticVerdict,
};

/// What expanding a move came to.
pub(super) enum Expansion {
    /// No node is needed: bounds for the side to move after the move.
    Known(Value, Value),
    /// A node resolves the move.
    Node(NodeId),
    /// There is no memory for another node.
    OutOfMemory,
}

/// A position that is about to become a node.
pub(super) struct Candidate {
    pub position: Position,
    /// Distance from the root.
    pub ply: u16,
    pub depth: i16,
    pub bound: Value,
    pub priority: u8,
    /// See [`Node::parent_value`](super::node::Node::parent_value).
    pub parent_value: Option<Value>,
}

impl Searcher {
    /// The value of a child that the rules of chess or the endgame tables give, repetitions
    /// included. Leaves do not look for repetitions.
    fn value_by_rule(
        &self,
        root: &Root<'_>,
        parent: NodeId,
        is_leaf: bool,
        position: &Position,
    ) -> Option<Value> {
        if position.is_insufficient_material()
            || !is_leaf && self.is_repetition(root, parent, position)
        {
            return Some(0);
        }
        let winner = self.rules.tables.as_ref()?.winner(position)?;
        // A capture may give mate, which is worth more than a win by tables.
        position.has_legal_moves().then(|| from_winner(winner, position.turn()))
    }

    /// Makes a position that a move leads to a node, unless something decides the question first.
    pub(super) fn enter_position(
        &mut self,
        root: &Root<'_>,
        parent: NodeId,
        candidate: Candidate,
        cache: &SearchCache,
    ) -> Expansion {
        let Some(node) = self.nodes.get(parent) else {
            return Expansion::Known(-INFINITY, INFINITY);
        };
        let from_leaf = node.depth == 0;
        self.deepest = self.deepest.max(u32::from(candidate.ply));
        let Candidate { ref position, depth, bound, priority, parent_value, .. } = candidate;
        if let Some(value) = self.value_by_rule(root, parent, from_leaf, position) {
            return Expansion::Known(value, value);
        }
        let key = cache_key(position);
        // Read before the bounds: the processor then waits for both at once.
        let known_value = self.known_value_of(position, cache);
        let decides = |known: &Bounds| known.lower >= bound || known.upper < bound;
        // Bounds of leaves hold for every root, so they must not come from a search, which saw the
        // repetitions of one game.
        let deeper = self.rules.deeper_answers.then_some(if from_leaf { PROVEN } else { depth });
        if let Some(known) = cache.answer(key, depth, deeper, decides) {
            return Expansion::Known(known.lower, known.upper);
        }
        if let Some(&child) = self.open.get(&question_key(key, depth, bound))
            && let Some(node) = self.nodes.get_mut(child)
        {
            if priority < node.priority {
                node.priority = priority;
                self.push_node(child, 0);
            }
            return Expansion::Node(child);
        }
        let check = position.is_check();
        if position.halfmove_clock() < 100
            && let Some((value, _)) = known_value
            && let rules = &self.rules.selectivity
            && let value = rules.mixed(value, parent_value)
            // The value of two plies before is not at hand: taken as not improving.
            && let StaticVerdict::FailsHigh(lower) =
                rules.static_verdict(depth, bound, check, value, || false)
        {
            return Expansion::Known(lower, INFINITY);
        }
        self.add_node(root, candidate, check, known_value, cache)
    }

    /// Makes a position a node that no bound in the cache decides; `known_value`: its evaluation
    /// and structures, if known.
    fn add_node(
        &mut self,
        root: &Root<'_>,
        candidate: Candidate,
        check: bool,
        known_value: Option<(Value, Structures)>,
        cache: &SearchCache,
    ) -> Expansion {
        let Candidate { position, ply, depth, bound, priority, parent_value } = candidate;
        // A position that was evaluated has legal moves, unless two positions share a key.
        if known_value.is_none() && !position.has_legal_moves() {
            let value = if check { -MATE } else { 0 };
            return Expansion::Known(value, value);
        }
        if position.halfmove_clock() >= 100 {
            return Expansion::Known(0, 0);
        }
        if self.nodes.open_count() >= 2 * self.node_limit {
            return Expansion::OutOfMemory;
        }
        let key = cache_key(&position);
        let child = self.nodes.add(position, check, key, depth, bound, ply);
        if let Some(node) = self.nodes.get_mut(child) {
            node.structures = known_value.map(|(_, structures)| structures);
            node.parent_value = parent_value;
            if self.rules.order == Order::Need {
                node.priority = priority;
            }
        }
        let value = known_value.map(|(value, _)| value);
        if let Some((lower, upper)) = self.begin_node(root, child, value, cache) {
            self.drop_node(child);
            return Expansion::Known(lower, upper);
        }
        self.open.insert(question_key(key, depth, bound), child);
        Expansion::Node(child)
    }

    /// Has this position occurred on the way from the root, or twice before it?
    pub(super) fn is_repetition(
        &self,
        root: &Root<'_>,
        parent: NodeId,
        position: &Position,
    ) -> bool {
        let mut at = self.nodes.get(parent);
        let way = std::iter::from_fn(|| {
            let node = at?;
            at = node.parents.first().and_then(|link| self.nodes.get(link.node));
            Some(node.position.key())
        });
        rules::is_repetition(position, way, root.history)
    }
}
