//! How a node gets its moves, in which order they are expanded, and how a move becomes a child.

use nets::MoveScores;

use super::{
    backup::BackupEvent,
    enter::{Candidate, Expansion},
    keys::{cache_key_after, with_clock},
    node::{Edge, FORCING, Link, NULL_MOVE, Node, NodeId, OrderedMove, State},
    opponent::ReplyPenalty,
    pass::{Root, Searcher},
    priority::LAST_PRIORITY,
    queue::{Order, QueueEntry},
    requests::{Ask, Request},
    treatment::{MoveTreatment, classify_next_move},
};
use crate::{
    cache::SearchCache,
    history,
    score::{INFINITY, Value, child_bound, child_bound_with_penalty},
    selectivity::PLY,
};

/// Moves whose positions are looked up in the cache before the first one is expanded. Making a move
/// costs a hundredth of an evaluation, and a position has some thirty.
const PROBED_MOVES: usize = 6;

/// The log-chance of a move with its history, in hundredths: at most nearly certain.
fn with_history(score: i16, more: i32) -> i16 {
    /// A chance of 95 %.
    const MOST: i16 = -5;
    let score_with = (i32::from(score) + more).min(score.max(MOST).into());
    score_with.max(i16::MIN.into()) as i16
}

/// The move that a node expands next.
struct NextMove {
    /// Its place in the node's order.
    place: usize,
    edge: Edge,
    treatment: MoveTreatment,
    /// Did its reduced search reach the bound?
    is_re_search: bool,
}

impl Searcher {
    /// Orders a node's moves by their scores, or requests these. The best move of an earlier pass
    /// comes first. Except at the root, a move whose position is known to decide the question comes
    /// before it: finding that costs no evaluation (enhanced transposition cutoffs, Plaat 1996).
    pub(super) fn order_moves(&mut self, root: &Root<'_>, id: NodeId, cache: &SearchCache) {
        let Some(node) = self.nodes.get_mut(id) else { return };
        node.generate_moves();
        let scores = &mut self.scores;
        if !cache.read_scores(node.position.key(), node.legal().len(), scores) {
            self.pending.push(Request { node: id, ask: Ask::Moves });
            return;
        }
        let is_root = node.ply == 0;
        let first = cache.best_move(node.key);
        node.penalties =
            ReplyPenalty::at(node.ply.into(), node.depth == 0, self.rules.opponent_errors, scores);
        // An opponent that may miss replies misses those that the policy finds unlikely.
        let may_err = self.rules.opponent_errors > 0 && node.ply % 2 == 1;
        let most = if self.move_scores == MoveScores::Policy && node.depth > 0 && !may_err {
            self.rules.selectivity.history
        } else {
            0
        };
        let Node { ordered, legal, position, .. } = node;
        ordered.clear();
        ordered.extend(scores.iter().zip(&*legal).enumerate().map({
            let history = self.history.of(position);
            move |(index, (&score, &mv))| {
                let (index, more) = (index as u8, history(mv) * most / history::MOST);
                OrderedMove::new(index, with_history(score, more), index == first)
            }
        }));
        if is_root && !root.has_all_moves {
            node.ordered.retain(|ordered| {
                root.moves.iter().any(|&(_, allowed)| allowed == ordered.index())
            });
        }
        node.ordered.sort_unstable();
        if !is_root
            && let Some(place) = self.transposition_cutoff(id, cache)
            && let Some(node) = self.nodes.get_mut(id)
        {
            node.ordered[..=place].rotate_right(1);
        }
        self.prefetch_next_move(id, cache);
        self.make_ready(id);
    }

    /// Lets the processor fetch what the cache knows of the position after a node's next move: when
    /// the move is made it would wait for that.
    pub(super) fn prefetch_next_move(&self, id: NodeId, cache: &SearchCache) {
        if let Some(node) = self.nodes.get(id)
            && node.re_search.is_empty()
            && let Some(edge) = node.edge(node.next)
        {
            let key = node.position.key_after(edge.mv);
            cache.prefetch_value(key);
            cache.prefetch_bounds(with_clock(key, node.position.halfmove_clock_after(edge.mv)));
            // Leaves order no moves by their scores.
            if node.depth > PLY {
                cache.prefetch_scores(key);
            }
        }
    }

    /// The place of the first move, among those that are probed, whose position is known to make
    /// the node reach its bound.
    fn transposition_cutoff(&self, id: NodeId, cache: &SearchCache) -> Option<usize> {
        let node = self.nodes.get(id)?;
        let depth = (node.depth - PLY).max(0);
        let deeper = self.rules.deeper_answers.then_some(depth);
        let reaches = |edge: &Edge, key: u64| {
            let bound = child_bound_with_penalty(node.bound, edge.penalty.into());
            cache.answer(key, depth, deeper, |known| known.upper < bound).is_some()
        };
        // All are fetched before the first lookup: the processor then waits once.
        let mut keys = [0; PROBED_MOVES];
        let edges = (0..PROBED_MOVES).map_while(|place| node.edge(place));
        for (key, edge) in keys.iter_mut().zip(edges.clone()) {
            *key = cache_key_after(&node.position, edge.mv);
            cache.prefetch_bounds(*key);
        }
        edges.zip(keys).position(|(edge, key)| reaches(&edge, key))
    }

    /// Puts a node whose moves are in order into the queue.
    pub(super) fn make_ready(&mut self, id: NodeId) {
        let Some(node) = self.nodes.get_mut(id) else { return };
        node.state = State::Open;
        let extra = match self.rules.order {
            Order::Need => 0,
            Order::Decisiveness => self.queue.indecision(node.scores(), node.next),
        };
        self.push_node(id, extra);
    }

    /// Puts an entry for the node's next move into the queue; `extra` is added to the node's
    /// priority.
    pub(super) fn push_node(&mut self, id: NodeId, extra: u8) {
        let Some(node) = self.nodes.get_mut(id) else { return };
        if !node.has_moves() {
            return;
        }
        let priority = node.priority.saturating_add(extra).min(LAST_PRIORITY);
        if node.queued_priority <= priority {
            return; // An entry of at least this priority waits already.
        }
        node.latest_entry = node.latest_entry.wrapping_add(1);
        node.queued_priority = priority;
        let entry = QueueEntry { node: id.slot, stamp: node.latest_entry, ply: node.ply };
        self.queue.push(entry, priority);
    }

    /// Expands the next move of the node behind a queue entry. False when there is no memory for
    /// it.
    pub(super) fn expand_next(
        &mut self,
        root: &Root<'_>,
        entry: QueueEntry,
        cache: &SearchCache,
    ) -> bool {
        let id = self.nodes.id(entry.node);
        let Some(node) = self.nodes.get_mut(id) else { return true };
        if node.latest_entry != entry.stamp || node.state != State::Open {
            return true;
        }
        let priority = std::mem::replace(&mut node.queued_priority, u8::MAX);
        let value = self.known_value(id, cache);
        if let Some(has_memory) = self.expand_null_move(root, id, value, priority, cache) {
            return has_memory;
        }
        let Some(next) = self.next_move(id, value) else { return true };
        self.prefetch_next_move(id, cache);
        let (expansion, reduced) = self.expand_move(root, id, &next, value, priority, cache);
        let Edge { index, penalty, .. } = next.edge;
        let link = Link { node: id, edge: index, reduced, penalty, priority_cost: 0.0 };
        match expansion {
            Expansion::Known(lower, upper) => {
                self.backups.push(BackupEvent { parent: link, child: None, lower, upper });
            }
            Expansion::Node(child) => self.add_child(link, child, &next, value, cache),
            Expansion::OutOfMemory => {
                self.put_back(id, &next, priority);
                return false;
            }
        }
        true
    }

    /// Null-move pruning: a child after a null move, before the first move. `None` where it does
    /// not apply, else what [`Searcher::expand_next`] returns.
    fn expand_null_move(
        &mut self,
        root: &Root<'_>,
        id: NodeId,
        value: Option<Value>,
        priority: u8,
        cache: &SearchCache,
    ) -> Option<bool> {
        let node = self.nodes.get_mut(id)?;
        if std::mem::replace(&mut node.null_move_tried, true) || !node.may_pass() {
            return None;
        }
        let value = value?;
        let depth = self.rules.selectivity.null_move_depth(node.depth, node.bound, value)?;
        let (position, ply) = (node.position.after_null_move()?, node.ply + 1);
        let (root_edge, bound) = (node.root_edge, child_bound(node.bound));
        let priority_cost = node.priority_cost_of_null_move(value);
        let link = Link { node: id, edge: NULL_MOVE, reduced: false, penalty: 0, priority_cost };
        let candidate = Candidate { position, ply, depth, bound, priority, parent_value: None };
        match self.enter_position(root, id, candidate, cache) {
            Expansion::Known(lower, upper) => {
                let link = Link { priority_cost: 0.0, ..link };
                self.backups.push(BackupEvent { parent: link, child: None, lower, upper });
            }
            Expansion::Node(child) => self.link_child(link, child, root_edge, 0),
            Expansion::OutOfMemory => {
                let node = self.nodes.get_mut(id)?;
                node.null_move_tried = false;
                let extra = priority.saturating_sub(node.priority);
                self.push_node(id, extra);
                return Some(false);
            }
        }
        Some(true)
    }

    /// Takes the next move out of a node's order: first those to search again, then by
    /// [`classify_next_move`].
    fn next_move(&mut self, id: NodeId, value: Option<Value>) -> Option<NextMove> {
        let node = self.nodes.get_mut(id)?;
        if let Some(place) = node.re_search.pop() {
            let place = usize::from(place);
            let edge = node.edge(place)?;
            return Some(NextMove {
                place,
                edge,
                treatment: MoveTreatment::Full,
                is_re_search: true,
            });
        }
        let treatment = classify_next_move(&self.rules.selectivity, node, value, self.move_scores);
        let place = node.next;
        let edge = node.edge(place)?;
        node.next += 1;
        Some(NextMove { place, edge, treatment, is_re_search: false })
    }

    /// Undoes [`Searcher::next_move`].
    fn put_back(&mut self, id: NodeId, next: &NextMove, priority: u8) {
        let Some(node) = self.nodes.get_mut(id) else { return };
        if next.is_re_search {
            node.re_search.extend(u8::try_from(next.place));
        } else {
            node.next = next.place;
        }
        let extra = priority.saturating_sub(node.priority);
        self.push_node(id, extra);
    }

    /// Links a child with the node that expanded a move to it, and puts the node back into the
    /// queue for its next move. `value` is the node's own evaluation, if known.
    fn add_child(
        &mut self,
        mut link: Link,
        child: NodeId,
        next: &NextMove,
        value: Option<Value>,
        cache: &SearchCache,
    ) {
        let (Some(node), Some(other)) = (self.nodes.get(link.node), self.nodes.get(child)) else {
            return;
        };
        let child_reached = cache.reached_before(other.key, other.depth, other.bound);
        let reached_before = child_reached.map(|reached| !reached);
        link.priority_cost = node.priority_cost_of(next.place, value, reached_before);
        let root_edge = if node.ply > 0 { node.root_edge } else { link.edge };
        // A move that is searched again is needed before the moves behind it.
        let at = if next.is_re_search { 0 } else { node.children.len() };
        self.link_child(link, child, root_edge, at);
    }

    /// Links a child, `at` this place among the children of the node `link` names, and puts that
    /// node back into the queue.
    fn link_child(&mut self, link: Link, child: NodeId, root_edge: u8, at: usize) {
        if let Some(other) = self.nodes.get_mut(child) {
            if other.parents.is_empty() {
                other.root_edge = root_edge;
                other.after_null_move = link.edge == NULL_MOVE;
            }
            other.parents.push(link);
        }
        let Some(node) = self.nodes.get_mut(link.node) else { return };
        node.children.insert(at, child);
        node.priority_cost += link.priority_cost;
        let extra = self.priority_step(link.node);
        self.push_node(link.node, extra);
    }

    /// What the moves that are being searched add to the priority of a node's next move.
    fn priority_step(&self, id: NodeId) -> u8 {
        let Some(node) = self.nodes.get(id) else { return 0 };
        let Some(score) = node.ordered.get(node.next).map(|next| next.score()) else { return 0 };
        match (self.rules.order, self.move_scores) {
            (Order::Decisiveness, _) => self.queue.indecision(node.scores(), node.next),
            (Order::Need, MoveScores::Centipawns) if score != FORCING => {
                self.queue.priority(f32::from(score) - node.bound as f32)
            }
            (Order::Need, _) => node.next_move_priority(),
        }
    }

    /// Makes a move, unless it is pruned; whether it is searched to less than full depth. `value`
    /// is the node's own evaluation, if known.
    fn expand_move(
        &mut self,
        root: &Root<'_>,
        parent: NodeId,
        next: &NextMove,
        value: Option<Value>,
        priority: u8,
        cache: &SearchCache,
    ) -> (Expansion, bool) {
        let Some(node) = self.nodes.get(parent) else {
            return (Expansion::Known(-INFINITY, INFINITY), false);
        };
        let bound = child_bound_with_penalty(node.bound, next.edge.penalty.into());
        let pruned = Expansion::Known(bound, INFINITY);
        // A reply that pruning would leave out may still be a third repetition, and so a draw. That
        // is looked at for replies to root moves only: further down, a later search is closer to
        // it.
        let may_draw = node.ply == 1;
        let mut treatment = next.treatment;
        if treatment == MoveTreatment::Pruned && !may_draw {
            return (pruned, false);
        }
        let position = node.position.after(next.edge.mv);
        if treatment != MoveTreatment::Full
            && may_draw
            && self.is_repetition(root, parent, &position)
        {
            treatment = MoveTreatment::Full;
        }
        let depth = match treatment {
            MoveTreatment::Pruned => return (pruned, false),
            MoveTreatment::Full => {
                let rules = &self.rules.selectivity;
                node.depth - PLY
                    + rules.extension(node.depth, &node.position, next.edge.mv, &position)
            }
            MoveTreatment::Reduced(less) => node.depth - PLY - less,
        };
        let ply = node.ply + 1;
        let parent_value = value.filter(|_| node.depth > 0).map(|value| -value);
        let depth = depth.max(0);
        let candidate = Candidate { position, ply, depth, bound, priority, parent_value };
        (self.enter_position(root, parent, candidate, cache), treatment != MoveTreatment::Full)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn history_makes_no_move_certain() {
        assert_eq!(with_history(-300, 120), -180);
        assert_eq!(with_history(-300, -120), -420);
        assert_eq!(with_history(-50, 120), -5);
        assert_eq!(with_history(-2, 120), -2, "it was likelier");
        assert_eq!(with_history(i16::MIN, -120), i16::MIN);
    }
}
