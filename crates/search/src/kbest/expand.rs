//! How a position comes into a pass: rules and memory first, then its value or its move scores,
//! then its moves.

use board::{Checks, Position};
use nets::MoveScores;

use super::{
    node::{Edge, FORCING, LAST_PRIORITY, Link, Node, NodeId, OrderedMove, State},
    opponent::ReplyPenalty,
    pass::{Ask, BackupEvent, PROVEN, Pending, Root, Searcher, cache_key, question_key},
    queue::{Order, QueueEntry},
};
use crate::{
    cache::{Bounds, NO_MOVE, SearchCache},
    quiet::{add_checks, exchange, forcing_among},
    rules,
    score::{
        INFINITY, MATE, Value, child_bound_with_penalty, from_child_with_penalty, from_winner,
    },
    selectivity::{PLY, Selectivity, StaticVerdict},
};

/// Moves in front of the order whose positions are looked up before one is opened. Making a move
/// costs a hundredth of an evaluation, and there are thirty.
const PROBED_MOVES: usize = 6;

/// What is to be done with a move, unless it gives check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MoveTreatment {
    /// Search to full depth.
    Full,
    /// Search to this many plies less.
    Reduced(i16),
    /// Take it to miss the bound.
    Pruned,
}

/// What is to be done with the move at this place of the node's order, unless it gives check;
/// `value` is the position's own, if known.
fn treatment(
    rules: &Selectivity,
    node: &Node,
    place: usize,
    edge: Edge,
    value: Option<Value>,
    scores: MoveScores,
) -> MoveTreatment {
    if node.depth == 0 || !rules.is_late(&node.position, node.check, edge.mv, place, node.ply == 0)
    {
        return MoveTreatment::Full;
    }
    if node.ply > 0 && rules.prunes_late_move(edge.score, node.depth, node.bound, value, scores) {
        return MoveTreatment::Pruned;
    }
    match rules.reduction(node.depth, place) {
        0 => MoveTreatment::Full,
        plies => MoveTreatment::Reduced(plies),
    }
}

/// What is to be done with the node's next move. Moves that are to be skipped are most of a
/// position's, so they are passed over at once. Not the last: what becomes of it may close the
/// node. Nor where a reply may draw by repetition. The node's lower bound and best move stay,
/// since a move that misses the bound says nothing of them, and so does its level: nothing new
/// is open.
fn classify_next_move(
    rules: &Selectivity,
    node: &mut Node,
    value: Option<Value>,
    scores: MoveScores,
) -> MoveTreatment {
    let (mut next, mut upper, mut best_by_upper) = (node.next, node.upper, node.best_by_upper);
    let mut checks = None;
    let mut found = MoveTreatment::Full;
    while let Some(edge) = node.edge(next) {
        found = treatment(rules, node, next, edge, value, scores);
        if found != MoveTreatment::Full
            && checks.get_or_insert_with(|| Checks::of(&node.position)).gives(edge.mv)
        {
            found = MoveTreatment::Full;
        }
        if found != MoveTreatment::Pruned || node.ply <= 1 || next + 1 == node.ordered.len() {
            break;
        }
        let penalty = edge.penalty.into();
        let at_most =
            from_child_with_penalty(child_bound_with_penalty(node.bound, penalty), penalty);
        if at_most > upper || best_by_upper == NO_MOVE {
            (upper, best_by_upper) = (upper.max(at_most), edge.index);
        }
        next += 1;
    }
    (node.next, node.upper, node.best_by_upper) = (next, upper, best_by_upper);
    found
}

/// What became of a move that was opened.
enum Expansion {
    /// Known at once: bounds for the side to move after it.
    Known(Value, Value),
    /// A node works on it.
    Node(NodeId),
    /// No memory for another node.
    Full,
}

impl Searcher {
    /// Orders a position's moves by their scores, or asks for those. The best move of an earlier
    /// pass comes first, and before it one of the first moves whose position is known to decide the
    /// question, but at the root: looking it up costs no evaluation (enhanced transposition
    /// cutoffs, Plaat 1996).
    pub(super) fn ask_moves(&mut self, root: &Root<'_>, reference: NodeId, cache: &SearchCache) {
        let Some(node) = self.nodes.get_mut(reference) else { return };
        node.generate_moves();
        let Some(scores) = cache.scores(node.position.key(), node.legal().len()) else {
            self.pending.push(Pending { node: reference, ask: Ask::Moves });
            return;
        };
        let is_root = node.ply == 0;
        let first = cache.best_move(node.key);
        node.penalties =
            ReplyPenalty::at(node.ply.into(), node.depth == 0, self.opponent_errors, scores);
        node.ordered.clear();
        node.ordered.extend(
            (0_u8..)
                .zip(scores)
                .map(|(index, &score)| OrderedMove::new(index, score, index == first)),
        );
        if is_root && !root.complete {
            node.ordered.retain(|ordered| {
                root.moves.iter().any(|&(_, allowed)| allowed == ordered.index())
            });
        }
        node.ordered.sort_unstable();
        if !is_root
            && let Some(place) = self.transposition_cutoff(reference, cache)
            && let Some(node) = self.nodes.get_mut(reference)
        {
            node.ordered[..=place].rotate_right(1);
        }
        self.make_ready(reference);
    }

    /// The place of the first of the moves in front whose position is known to make this one reach
    /// its bound.
    fn transposition_cutoff(&self, reference: NodeId, cache: &SearchCache) -> Option<usize> {
        let node = self.nodes.get(reference)?;
        let depth = (node.depth - PLY).max(0);
        let deeper = self.deeper_answers.then_some(depth);
        let key_after = |edge: &Edge| cache_key(&node.position.after(edge.mv));
        let reaches = |edge: &Edge, key: u64| {
            let bound = child_bound_with_penalty(node.bound, edge.penalty.into());
            cache.answer(key, depth, deeper, |known| known.upper < bound).is_some()
        };
        let first = node.edge(0)?;
        if reaches(&first, key_after(&first)) {
            return Some(0);
        }
        // The others' keys before any of their answers: the processor then waits for all of these
        // at once.
        let mut keys = [0; PROBED_MOVES];
        let others = (1..PROBED_MOVES).map_while(|place| node.edge(place));
        keys.iter_mut().zip(others.clone()).for_each(|(key, edge)| *key = key_after(&edge));
        Some(1 + others.zip(keys).position(|(edge, key)| reaches(&edge, key))?)
    }

    /// A node whose moves are in order waits for its turn.
    pub(super) fn make_ready(&mut self, reference: NodeId) {
        let Some(node) = self.nodes.get_mut(reference) else { return };
        node.state = State::Open;
        let extra = match self.order {
            Order::Need => 0,
            Order::Decisiveness => self.queue.indecision(node),
        };
        self.push_node(reference, extra);
    }

    /// Puts a queue entry for the node's next move into the queue.
    pub(super) fn push_node(&mut self, reference: NodeId, extra: u8) {
        let Some(node) = self.nodes.get_mut(reference) else { return };
        if !node.has_moves() {
            return;
        }
        let priority = node.priority.saturating_add(extra).min(LAST_PRIORITY);
        if node.queued_priority <= priority {
            return; // Already waiting at least as far in front.
        }
        node.entry = node.entry.wrapping_add(1);
        node.queued_priority = priority;
        let entry = QueueEntry { node: reference.slot, stamp: node.entry, ply: node.ply };
        self.queue.push(entry, priority);
    }

    /// Opens the next move of the node behind a queue entry. False when there is no memory for it.
    pub(super) fn expand_next(
        &mut self,
        root: &Root<'_>,
        entry: QueueEntry,
        cache: &SearchCache,
    ) -> bool {
        let reference = self.nodes.reference(entry.node);
        let Some(node) = self.nodes.get_mut(reference) else { return true };
        if node.entry != entry.stamp || node.state != State::Open {
            return true;
        }
        let priority = node.queued_priority;
        node.queued_priority = u8::MAX;
        let value = cache.value(node.position.key());
        let re_searched = node.re_search.pop();
        let full = re_searched.is_some();
        let (place, treatment) = match re_searched {
            Some(place) => (usize::from(place), MoveTreatment::Full),
            None => {
                let treatment =
                    classify_next_move(&self.selectivity, node, value, self.move_scores);
                (node.next, treatment)
            }
        };
        let Some(edge) = node.edge(place) else { return true };
        if !full {
            node.next += 1;
        }
        let (expansion, reduced) =
            self.expand_move(root, reference, edge, treatment, priority, cache);
        match expansion {
            Expansion::Known(lower, upper) => {
                let parent = Link {
                    node: reference,
                    edge: edge.index,
                    reduced,
                    penalty: edge.penalty,
                    priority_cost: 0.0,
                };
                self.backups.push(BackupEvent { parent, child: None, lower, upper });
            }
            Expansion::Node(child) => {
                let (Some(node), Some(other)) = (self.nodes.get(reference), self.nodes.get(child))
                else {
                    return true;
                };
                let before = cache.reached_before(other.key, other.depth, other.bound);
                let priority_cost =
                    node.priority_cost_of(place, value, before.map(|reached| !reached));
                let root_edge = if node.ply > 0 { node.root_edge } else { edge.index };
                if let Some(node) = self.nodes.get_mut(child) {
                    if node.parents.is_empty() {
                        node.root_edge = root_edge;
                    }
                    let index = edge.index;
                    node.parents.push(Link {
                        node: reference,
                        edge: index,
                        reduced,
                        penalty: edge.penalty,
                        priority_cost,
                    });
                }
                let Some(node) = self.nodes.get_mut(reference) else { return true };
                // What is verified is needed before what came after it.
                let at = if full { 0 } else { node.children.len() };
                node.children.insert(at, child);
                node.priority_cost += priority_cost;
                let step = match node.ordered.get(node.next).map(|next| next.score()) {
                    Some(_) if self.order == Order::Decisiveness => self.queue.indecision(node),
                    Some(FORCING) => node.next_move_priority(),
                    Some(next) => match self.move_scores {
                        MoveScores::Centipawns => {
                            self.queue.priority(f32::from(next) - node.bound as f32)
                        }
                        MoveScores::Policy => node.next_move_priority(),
                    },
                    None => 0,
                };
                self.push_node(reference, step);
            }
            Expansion::Full => {
                let Some(node) = self.nodes.get_mut(reference) else { return false };
                if full {
                    node.re_search.extend(u8::try_from(place));
                } else {
                    node.next = place;
                }
                let extra = priority.saturating_sub(node.priority);
                self.push_node(reference, extra);
                return false;
            }
        }
        true
    }

    /// Rules and memory first; a node where they do not decide.
    fn expand_move(
        &mut self,
        root: &Root<'_>,
        parent: NodeId,
        edge: Edge,
        mut treatment: MoveTreatment,
        priority: u8,
        cache: &SearchCache,
    ) -> (Expansion, bool) {
        let Some(node) = self.nodes.get(parent) else {
            return (Expansion::Known(-INFINITY, INFINITY), false);
        };
        let bound = child_bound_with_penalty(node.bound, edge.penalty.into());
        // However unlikely a reply is, the game is drawn if it is the third time; further down that
        // is seen in time.
        let may_draw = node.ply == 1;
        if treatment == MoveTreatment::Pruned && !may_draw {
            return (Expansion::Known(bound, INFINITY), false);
        }
        let position = node.position.after(edge.mv);
        if treatment != MoveTreatment::Full
            && may_draw
            && self.is_repetition(root, parent, &position)
        {
            treatment = MoveTreatment::Full;
        }
        let depth = match treatment {
            MoveTreatment::Pruned => return (Expansion::Known(bound, INFINITY), false),
            MoveTreatment::Full => node.depth - PLY,
            MoveTreatment::Reduced(plies) => node.depth - PLY * (1 + plies),
        };
        let reduced = treatment != MoveTreatment::Full;
        (self.enter_position(root, parent, position, depth.max(0), bound, priority, cache), reduced)
    }

    /// As [`Searcher::expand_move`], once the move is made.
    #[allow(clippy::too_many_arguments)]
    fn enter_position(
        &mut self,
        root: &Root<'_>,
        parent: NodeId,
        position: Position,
        depth: i16,
        bound: Value,
        priority: u8,
        cache: &SearchCache,
    ) -> Expansion {
        let Some(node) = self.nodes.get(parent) else {
            return Expansion::Known(-INFINITY, INFINITY);
        };
        let is_leaf = node.depth == 0;
        let ply = node.ply + 1;
        self.deepest = self.deepest.max(u32::from(ply));
        if position.is_insufficient_material() {
            return Expansion::Known(0, 0);
        }
        if !is_leaf && self.is_repetition(root, parent, &position) {
            return Expansion::Known(0, 0);
        }
        // A capture may give mate, which is worth more than a win by tables.
        if let Some(tables) = &self.tables
            && let Some(winner) = tables.winner(&position)
            && !position.legal_moves().is_empty()
        {
            let value = from_winner(winner, position.turn());
            return Expansion::Known(value, value);
        }
        let key = cache_key(&position);
        // Before the answer: the processor then waits for both at once.
        let value = cache.value(position.key());
        let decides = |known: &Bounds| known.lower >= bound || known.upper < bound;
        // What a leaf learns holds for every root, so it must not come from a search, which saw one
        // game's repetitions.
        let deeper = self.deeper_answers.then_some(if is_leaf { PROVEN } else { depth });
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
            && let Some(value) = value
            && let StaticVerdict::FailsHigh(lower) =
                self.selectivity.static_verdict(depth, bound, check, value)
        {
            return Expansion::Known(lower, INFINITY);
        }
        // What was evaluated has moves, unless two positions share a key.
        let legal = if value.is_none() { position.legal_moves() } else { Default::default() };
        if value.is_none() && legal.is_empty() {
            let value = if check { -MATE } else { 0 };
            return Expansion::Known(value, value);
        }
        if position.halfmove_clock() >= 100 {
            return Expansion::Known(0, 0);
        }
        if self.nodes.open_count() >= 2 * self.node_limit {
            return Expansion::Full;
        }
        let child = self.nodes.add(position, check, key, depth, bound, ply);
        if let Some(node) = self.nodes.get_mut(child) {
            node.set_legal_moves(&legal);
            if self.order == Order::Need {
                node.priority = priority;
            }
        }
        if let Some((lower, upper)) = self.begin(root, child, value, cache) {
            self.drop_frame(child);
            return Expansion::Known(lower, upper);
        }
        self.open.insert(question_key(key, depth, bound), child);
        Expansion::Node(child)
    }

    /// Takes the first step on a position; its bounds where that settles it.
    pub(super) fn begin(
        &mut self,
        root: &Root<'_>,
        reference: NodeId,
        value: Option<Value>,
        cache: &SearchCache,
    ) -> Option<(Value, Value)> {
        let node = self.nodes.get(reference)?;
        // Loud leaves are taken at the network's word, in check too.
        let check = node.check && (node.depth > 0 || self.quiet_leaves);
        if node.depth == 0 && check {
            self.expand_forcing_moves(reference, (-INFINITY, -INFINITY));
            return None;
        }
        if !self.selectivity.evaluates_first(node.depth, node.bound, check) {
            self.ask_moves(root, reference, cache);
            return None;
        }
        let Some(value) = value else {
            self.pending.push(Pending { node: reference, ask: Ask::Value });
            return None;
        };
        self.apply_value(root, reference, value, cache)
    }

    /// Goes on with a position whose value is known; its bounds where that settles it.
    pub(super) fn apply_value(
        &mut self,
        root: &Root<'_>,
        reference: NodeId,
        value: Value,
        cache: &SearchCache,
    ) -> Option<(Value, Value)> {
        let node = self.nodes.get(reference)?;
        if node.depth == 0 && !self.quiet_leaves {
            return Some((value, value));
        }
        let (lower, upper) =
            match self.selectivity.static_verdict(node.depth, node.bound, false, value) {
                StaticVerdict::FailsHigh(lower) => return Some((lower, INFINITY)),
                StaticVerdict::Open => {
                    self.ask_moves(root, reference, cache);
                    return None;
                }
                // A leaf's mover may decline every capture.
                StaticVerdict::FailsLow(upper) => {
                    (if node.depth == 0 { value } else { -INFINITY }, upper)
                }
            };
        self.expand_forcing_moves(reference, (lower, upper))
    }

    /// Lets a position look at its forcing moves only; `bounds` are what declining them is worth.
    /// The bounds if there is none.
    fn expand_forcing_moves(
        &mut self,
        reference: NodeId,
        bounds: (Value, Value),
    ) -> Option<(Value, Value)> {
        let node = self.nodes.get_mut(reference)?;
        (node.lower, node.upper) = bounds;
        node.generate_moves();
        forcing_among(&node.position, node.check, node.legal(), &mut self.forcing);
        if node.depth > 0 {
            add_checks(&node.position, node.legal(), &mut self.forcing);
        }
        let (rules, tables) = (self.selectivity, self.tables.as_deref());
        node.ordered.clear();
        for &index in &self.forcing {
            let mv = node.legal()[usize::from(index)];
            let is_capture = mv.is_capture() || mv.is_promotion();
            if is_capture
                && !node.check
                && let Some(reach) =
                    rules.delta_prunes(bounds.1, exchange(&node.position, mv), node.bound)
            {
                // It may mate, or leave too little to mate, or what the tables know.
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
        self.make_ready(reference);
        is_settled.then_some(bounds)
    }

    /// Has this position occurred on the way from the root, or twice before it?
    fn is_repetition(&self, root: &Root<'_>, parent: NodeId, position: &Position) -> bool {
        let mut at = self.nodes.get(parent);
        let way = std::iter::from_fn(|| {
            let node = at?;
            at = node.parents.first().and_then(|link| self.nodes.get(link.node));
            Some(node.position.key())
        });
        rules::is_repetition(position, way, root.history)
    }
}

#[cfg(test)]
mod tests {
    use board::CastlingMode;

    use super::*;
    use crate::kbest::node::Arena;

    #[test]
    fn skipped_moves_are_passed_over_but_no_check_and_not_the_last() {
        let position =
            Position::from_fen("4k3/8/8/8/8/8/4P3/R3K3 w - - 0 1", CastlingMode::Standard).unwrap();
        let legal = position.legal_moves();
        let check = legal.iter().position(|&mv| position.gives_check(mv)).unwrap();
        let mut nodes = Arena::default();
        let mut passed = |ply, scores: &[i16], from| {
            let reference = nodes.add(position.clone(), false, 0, 3 * PLY, 0, ply);
            let node = nodes.get_mut(reference).unwrap();
            node.generate_moves();
            // The check comes sixth.
            let others = (0..legal.len()).filter(|&place| place != check);
            let mut order: Vec<usize> = others.collect();
            order.insert(5, check);
            let score = |place: usize| scores[place.min(scores.len() - 1)];
            node.ordered = order
                .iter()
                .enumerate()
                .map(|(place, &index)| OrderedMove::new(index as u8, score(place), false))
                .collect();
            node.next = from;
            let treatment =
                classify_next_move(&Selectivity::default(), node, Some(0), MoveScores::Policy);
            (treatment, node.next, node.upper, node.best_by_upper == order[from] as u8)
        };
        let unlikely = [-50, -50, -50, -900];
        assert_eq!(
            passed(2, &unlikely, 0),
            (MoveTreatment::Full, 0, -INFINITY, false),
            "the first are searched"
        );
        let before_the_check = (MoveTreatment::Full, 5, -1, true);
        assert_eq!(
            passed(2, &unlikely, 3),
            before_the_check,
            "what was passed misses the separator"
        );
        assert_eq!(passed(2, &unlikely, 6), (MoveTreatment::Pruned, legal.len() - 1, -1, true));
        assert_eq!(
            passed(2, &[-50], 3),
            (MoveTreatment::Reduced(1), 3, -INFINITY, false),
            "likely moves are searched"
        );
        assert_eq!(
            passed(1, &unlikely, 3),
            (MoveTreatment::Pruned, 3, -INFINITY, false),
            "a reply may draw by repetition"
        );
    }
}
