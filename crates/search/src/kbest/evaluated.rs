//! A node's first step: its static evaluation settles it, or says which of its moves are searched.
//!
//! Far above the bound the node is settled (reverse futility pruning); far below it only forcing
//! moves are searched (razoring, and quiescence search at leaves); between them all moves are.

use board::Position;

use super::{
    correction::Structures,
    node::{FORCING, Node, NodeId, OrderedMove},
    pass::{Root, Searcher},
    requests::{Ask, Request},
};
use crate::{
    cache::SearchCache,
    quiet::{add_checks, exchange, forcing_among},
    score::{INFINITY, Value},
    selectivity::StaticVerdict,
};

impl Searcher {
    /// A node's static evaluation, corrected by what searches found for its like.
    pub(super) fn corrected(&mut self, id: NodeId, value: Value) -> Option<Value> {
        let structures = self.nodes.get_mut(id)?.structures();
        Some(self.corrections.corrected(structures, value, self.rules.selectivity.correction))
    }

    /// The same, if the position has been evaluated.
    pub(super) fn known_value(&mut self, id: NodeId, cache: &SearchCache) -> Option<Value> {
        let value = cache.value(self.nodes.get(id)?.position.key())?;
        self.corrected(id, value)
    }

    /// The same of a position that is no node yet, and its structures.
    pub(super) fn known_value_of(
        &self,
        position: &Position,
        cache: &SearchCache,
    ) -> Option<(Value, Structures)> {
        let (value, structures) = (cache.value(position.key())?, Structures::of(position));
        let percent = self.rules.selectivity.correction;
        Some((self.corrections.corrected(structures, value, percent), structures))
    }

    /// Takes the first step on a node; its bounds where that settles it.
    pub(super) fn begin_node(
        &mut self,
        root: &Root<'_>,
        id: NodeId,
        value: Option<Value>,
        cache: &SearchCache,
    ) -> Option<(Value, Value)> {
        let node = self.nodes.get(id)?;
        // Leaves without quiescence take the static evaluation, in check too.
        let check = node.check && (node.depth > 0 || self.rules.quiet_leaves);
        if node.depth == 0 && check {
            self.order_forcing_moves(id, (-INFINITY, -INFINITY), cache);
            return None;
        }
        if !self.rules.selectivity.evaluates_first(node.depth, node.bound, check) {
            self.order_moves(root, id, cache);
            return None;
        }
        let Some(value) = value else {
            let ask = if self.moves_are_dear && self.needs_no_policy(node) {
                Ask::ValueAlone
            } else {
                Ask::Value
            };
            self.pending.push(Request { node: id, ask });
            return None;
        };
        self.apply_value(root, id, value, cache)
    }

    /// Will the node's value settle it, or leave forcing moves only? Sure at leaves; above them the
    /// parent's evaluation stands for the value, which is not known yet.
    fn needs_no_policy(&self, node: &Node) -> bool {
        node.depth == 0
            || node.parent_value.is_some_and(|value| {
                let rules = &self.rules.selectivity;
                rules.static_verdict(node.depth, node.bound, false, value, || false)
                    != StaticVerdict::Open
            })
    }

    /// Continues with a node whose static evaluation, corrected, is known; its bounds where that
    /// settles it.
    pub(super) fn apply_value(
        &mut self,
        root: &Root<'_>,
        id: NodeId,
        value: Value,
        cache: &SearchCache,
    ) -> Option<(Value, Value)> {
        let node = self.nodes.get(id)?;
        if node.depth == 0 && !self.rules.quiet_leaves {
            return Some((value, value));
        }
        let rules = &self.rules.selectivity;
        let value = rules.mixed(value, node.parent_value);
        // The value of two plies before is not at hand: taken as not improving.
        let (lower, upper) =
            match rules.static_verdict(node.depth, node.bound, false, value, || false) {
                StaticVerdict::FailsHigh(lower) => return Some((lower, INFINITY)),
                StaticVerdict::Open => {
                    self.order_moves(root, id, cache);
                    return None;
                }
                // The side to move at a leaf may decline every capture.
                StaticVerdict::FailsLow(upper) => {
                    (if node.depth == 0 { value } else { -INFINITY }, upper)
                }
            };
        self.order_forcing_moves(id, (lower, upper), cache)
    }

    /// Queues a node with its forcing moves only (quiescence at leaves, razoring above them);
    /// `bounds` are what declining them is worth. The node's bounds if no move is left.
    fn order_forcing_moves(
        &mut self,
        id: NodeId,
        bounds: (Value, Value),
        cache: &SearchCache,
    ) -> Option<(Value, Value)> {
        let node = self.nodes.get_mut(id)?;
        (node.lower, node.upper) = bounds;
        node.generate_moves();
        forcing_among(&node.position, node.check, node.legal(), &mut self.forcing);
        if node.depth > 0 {
            add_checks(&node.position, node.legal(), &mut self.forcing);
        }
        let (rules, tables) = (self.rules.selectivity, self.rules.tables.as_deref());
        node.ordered.clear();
        for &index in &self.forcing {
            let mv = node.legal()[usize::from(index)];
            let is_capture = mv.is_capture() || mv.is_promotion();
            if is_capture
                && !node.check
                && let Some(reach) =
                    rules.delta_prunes(bounds.1, exchange(&node.position, mv), node.bound)
            {
                // Delta pruning, unless the capture may mate, leaves too little to mate, or leads
                // into the tables.
                let after = node.position.after(mv);
                let decides = after.is_check()
                    || after.is_insufficient_material()
                    || tables.is_some_and(|tables| tables.winner(&after).is_some());
                if !decides {
                    node.upper = node.upper.max(reach);
                    continue;
                }
            }
            node.ordered.push(OrderedMove::new(index, FORCING, false));
        }
        let (bounds, is_settled) = ((node.lower, node.upper), node.ordered.is_empty());
        self.prefetch_next_move(id, cache);
        self.make_ready(id);
        is_settled.then_some(bounds)
    }
}
