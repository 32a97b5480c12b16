//! Results on their way from children to parents: values are backed up, nodes close, and what was
//! open only for their sake is dropped.

use nets::MoveScores;

use super::{
    keys::question_key,
    node::{Link, NULL_MOVE, NodeId},
    pass::{PROVEN, Root, Searcher},
    queue::Order,
};
use crate::{
    cache::{Bounds, NO_MOVE, SearchCache},
    history::History,
    score::{INFINITY, MATE_BOUND, Value, from_child_with_penalty},
    selectivity::PLY,
};

/// The bounds of a child on their way to a parent.
pub(super) struct BackupEvent {
    pub parent: Link,
    /// The child that has closed; `None` where the move needed no node.
    pub child: Option<NodeId>,
    pub lower: Value,
    pub upper: Value,
}

impl Searcher {
    /// Works through the backup events, the latest first; the root's bounds once it closes.
    pub(super) fn back_up(
        &mut self,
        root: &Root<'_>,
        root_node: NodeId,
        cache: &SearchCache,
    ) -> Option<Bounds> {
        while let Some(BackupEvent { parent, child, lower, upper }) = self.backups.pop() {
            let Link { node: id, edge, reduced, penalty, priority_cost } = parent;
            let penalty = Value::from(penalty);
            let Some(node) = self.nodes.get_mut(id) else { continue };
            if let Some(child) = child {
                // Not earlier: a parent is exhausted when its last child's result has arrived.
                node.children.retain(|&other| other != child);
                node.priority_cost = (node.priority_cost - priority_cost).max(0.0);
            }
            let (at_least, at_most) =
                (from_child_with_penalty(upper, penalty), from_child_with_penalty(lower, penalty));
            if edge == NULL_MOVE {
                node.raise_by_null_move(at_least);
            } else if reduced && at_least >= node.bound && at_least <= MATE_BOUND {
                // The reduced search reached the bound: it is repeated at full depth.
                let place = node.ordered.iter().position(|ordered| ordered.index() == edge);
                node.re_search.extend(place.and_then(|place| u8::try_from(place).ok()));
                self.push_node(id, 0);
                continue;
            } else {
                node.raise(edge, at_least, at_most);
            }
            let reached = node.lower >= node.bound;
            let exhausted = !node.has_moves() && node.children.is_empty();
            if !reached && !exhausted {
                self.push_again(id);
                continue;
            }
            let (lower, upper) = (node.lower, if exhausted { node.upper } else { INFINITY });
            if id == root_node {
                let best = if node.best == NO_MOVE { node.best_by_upper } else { node.best };
                self.close(id, lower, upper, cache, root.has_all_moves);
                self.backups.clear();
                return Some(Bounds { lower, upper, best });
            }
            // The bounds of a question ahead are not the position's if some root moves are left
            // out.
            let store = root.has_all_moves || node.ply > 0;
            self.close(id, lower, upper, cache, store);
        }
        None
    }

    /// Puts a node that waits for its children back into the queue, for its next move.
    fn push_again(&mut self, id: NodeId) {
        let Some(node) = self.nodes.get(id) else { return };
        let extra = match (self.rules.order, self.move_scores) {
            (Order::Decisiveness, _) => self.queue.indecision(node.scores(), node.next),
            (Order::Need, MoveScores::Policy) => node.next_move_priority(),
            (Order::Need, MoveScores::Centipawns) => 0,
        };
        self.push_node(id, extra);
    }

    /// Stores a node's bounds, sends them to its parents, and drops what was open only for its
    /// sake.
    pub(super) fn close(
        &mut self,
        id: NodeId,
        lower: Value,
        upper: Value,
        cache: &SearchCache,
        store: bool,
    ) {
        let Some(node) = self.nodes.get_mut(id) else { return };
        let best = node.best_known(lower, upper);
        let (key, depth, bound) = (node.key, node.depth, node.bound);
        if depth > 0
            && !node.check
            && self.rules.selectivity.correction > 0
            && let Some(value) = cache.value(node.position.key())
        {
            self.corrections.learn(node.structures(), depth, value, (lower, upper), bound);
        }
        if lower >= bound {
            self.remember_cutoff(id);
        }
        let Some(node) = self.nodes.get_mut(id) else { return };
        let parents = std::mem::take(&mut node.parents);
        let children = std::mem::take(&mut node.children);
        if store {
            cache.store_bounds(key, depth, Bounds { lower, upper, best });
            // The best move of a leaf is the best of its forcing moves only.
            let found = Bounds { lower, upper, best: if depth == 0 { NO_MOVE } else { best } };
            if lower > MATE_BOUND {
                cache.store_bounds(key, PROVEN, Bounds { upper: INFINITY, ..found });
            } else if upper < -MATE_BOUND {
                cache.store_bounds(key, PROVEN, Bounds { lower: -INFINITY, ..found });
            }
        }
        self.open.remove(&question_key(key, depth, bound));
        for &parent in &parents {
            self.backups.push(BackupEvent { parent, child: Some(id), lower, upper });
        }
        if let Some(node) = self.nodes.get_mut(id) {
            node.parents = parents;
            node.children = children;
        }
        self.drop_node(id);
    }

    /// Takes the quiet move that made a node reach its bound into the history, and against it the
    /// moves that were tried as well.
    fn remember_cutoff(&mut self, id: NodeId) {
        let Some(node) = self.nodes.get(id) else { return };
        let Some(&cut) = node.legal().get(usize::from(node.best)) else { return };
        if self.rules.selectivity.history == 0 || node.depth == 0 || !History::is_quiet(cut) {
            return;
        }
        let tried = node.ordered.iter().take(node.next).map(|ordered| ordered.index());
        let others = tried.filter(|&index| index != node.best);
        let others = others.filter_map(|index| node.legal().get(usize::from(index)).copied());
        self.history.add(&node.position, cut, node.depth + PLY, others);
    }

    /// Frees a node and then every descendant that no open node needs any more.
    pub(super) fn drop_node(&mut self, id: NodeId) {
        let mut doomed = std::mem::take(&mut self.stack);
        doomed.push(id);
        while let Some(id) = doomed.pop() {
            let Some(node) = self.nodes.get_mut(id) else { continue };
            let mut children = std::mem::take(&mut node.children);
            let question = question_key(node.key, node.depth, node.bound);
            if self.open.get(&question) == Some(&id) {
                self.open.remove(&question);
            }
            self.nodes.release(id.slot);
            for child in children.drain(..) {
                if let Some(node) = self.nodes.get_mut(child) {
                    node.parents.retain(|link| link.node != id);
                    if node.parents.is_empty() {
                        doomed.push(child);
                    }
                }
            }
            self.nodes.keep_memory(id.slot, children);
        }
        self.stack = doomed;
    }
}
