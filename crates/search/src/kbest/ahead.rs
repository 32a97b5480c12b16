//! Questions ahead: what fills a batch beside the certain work of one question.
//!
//! One zero-window question has some ten positions at a time that are likelier than not to be
//! needed; a device wants hundreds. The next questions are known before the answer is: the bounds
//! near this one, because the driver closes in on the value from both sides, at this depth and at
//! the next ones. They are further roots of the same queue, each with a priority of its own, and
//! what they find is in the cache when they are asked. Priorities change during a pass: a move
//! that was expanded in case another one fails is certain once that one has failed.

use nets::MoveScores;

use super::{
    TOLERANCE,
    node::{NodeId, State},
    pass::{Context, Root, Searcher},
    priority::{LAST_PRIORITY, priority_of_cost},
    queue::Order,
};
use crate::score::{LARGEST_VALUE, Value};

/// Questions ahead on each side of the bound that is asked.
const NEIGHBOURS: Value = 2;

/// Priority of a question for each step that its bound is away from the one that is asked. This
/// and [`DEEPER`] were found by trial (docs/experiments/2026-11-queue-order.md).
const NEIGHBOUR: u8 = 4;

/// Priority of a question for each step that it is deeper than the one that is asked.
const DEEPER: u8 = 8;

/// Steps of depth that questions go ahead.
const STEPS: i16 = 4;

/// One question fills an evaluator that prefers fewer positions at once.
const FEWEST_AT_ONCE: usize = 4;

/// Least number of evaluations between two reprioritisations: one of a few hundred nodes takes the
/// time of an evaluation.
const EVALUATIONS_BETWEEN_REPRIORITISING: u64 = 32;

/// Slots for each evaluation since the last reprioritisation, which visits all of them.
const NODES_PER_EVALUATION: u64 = 8;

impl Searcher {
    /// Does one question have too little work for `at_once` positions at a time?
    pub(super) fn asks_ahead(&self, at_once: usize) -> bool {
        let has_priority_costs =
            self.rules.order == Order::Need && self.move_scores == MoveScores::Policy;
        has_priority_costs && at_once >= FEWEST_AT_ONCE
    }

    /// Are there enough evaluations since the last reprioritisation?
    pub(super) fn is_to_reprioritise(&self) -> bool {
        let positions = self.nodes.slot_count() as u64;
        self.evaluations
            >= self.reprioritised_at
                + EVALUATIONS_BETWEEN_REPRIORITISING.max(positions / NODES_PER_EVALUATION)
    }

    /// Adds a root to the pass.
    pub(super) fn add_root(
        &mut self,
        root: &Root<'_>,
        depth: i16,
        bound: Value,
        priority: u8,
    ) -> NodeId {
        let check = root.position.is_check();
        let root_node = self.nodes.add(root.position.clone(), check, root.key(), depth, bound, 0);
        if let Some(node) = self.nodes.get_mut(root_node) {
            node.priority = priority;
        }
        self.roots.push((root_node, priority));
        root_node
    }

    /// Adds the questions that will most likely follow the one about this bound.
    pub(super) fn add_questions_ahead(
        &mut self,
        root: &Root<'_>,
        bound: Value,
        context: &Context<'_, '_>,
    ) {
        // With few evaluations left the deeper questions will not be asked. (The hard limit of a
        // clock lies far behind the soft one, so it does not count as few.)
        let left = context.timer.evaluations_left().min(context.timer.affordable());
        let steps = if left > self.evaluations / 2 { STEPS } else { 0 };
        let deepening = self.rules.selectivity.deepening;
        let questions =
            (0..=steps).flat_map(|step| (-NEIGHBOURS..=NEIGHBOURS).map(move |away| (step, away)));
        for (step, away) in questions.filter(|&question| question != (0, 0)) {
            let (depth, bound) = (root.depth + step * deepening, bound + away * (TOLERANCE + 1));
            let priority = DEEPER * step as u8 + NEIGHBOUR * away.unsigned_abs() as u8;
            let is_known = root.has_all_moves
                && context
                    .cache
                    .bounds(root.key(), depth)
                    .is_some_and(|known| known.lower >= bound || known.upper < bound);
            let is_asked = depth <= root.last_depth && bound.abs() <= LARGEST_VALUE;
            if is_asked && !is_known {
                let root_node = self.add_root(root, depth, bound, priority);
                self.order_moves(root, root_node, context.cache);
            }
        }
    }

    /// Drops all questions ahead: the memory is for the question that is asked.
    pub(super) fn drop_questions_ahead(&mut self) {
        for (root_node, _) in self.roots.split_off(1.min(self.roots.len())) {
            self.drop_node(root_node);
        }
    }

    /// Computes the priorities and queue entries of all open nodes again, from the roots down.
    pub(super) fn reprioritise(&mut self) {
        self.reprioritised_at = self.evaluations;
        self.queue.clear();
        self.nodes.forget_priorities();
        let mut work = std::mem::take(&mut self.stack);
        for &(root_node, priority) in &self.roots {
            if let Some(node) = self.nodes.get_mut(root_node) {
                node.priority = priority;
                work.push(root_node);
            }
        }
        while let Some(reference) = work.pop() {
            let Some(node) = self.nodes.get_mut(reference) else { continue };
            let (state, priority, is_re_searching) =
                (node.state, node.priority, !node.re_search.is_empty());
            let children = std::mem::take(&mut node.children);
            let mut priority_cost = 0.0;
            for &child in &children {
                let Some(node) = self.nodes.get_mut(child) else { continue };
                let Some(link) = node.parents.iter().find(|link| link.node == reference) else {
                    continue;
                };
                let here =
                    priority.saturating_add(priority_of_cost(priority_cost)).min(LAST_PRIORITY);
                priority_cost += link.priority_cost;
                if here < node.priority {
                    node.priority = here;
                    work.push(child);
                }
            }
            if let Some(node) = self.nodes.get_mut(reference) {
                (node.children, node.priority_cost) = (children, priority_cost);
            }
            if state == State::Open {
                self.push_node(
                    reference,
                    if is_re_searching { 0 } else { priority_of_cost(priority_cost) },
                );
            }
        }
        self.stack = work;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use board::Position;
    use eval::Mock;
    use nets::Calibration;

    use super::*;
    use crate::{
        Control, Limits,
        cache::{Bounds, SearchCache},
        kbest::node::{Link, OrderedMove},
        selectivity::PLY,
        time::TimeManager,
    };

    #[test]
    fn next_come_the_neighbours_here_and_at_the_next_depths() {
        let calibration = Calibration { move_scores: MoveScores::Policy, ..Calibration::default() };
        let position = Position::default();
        let (depth, last_depth) = (2 * PLY, 3 * PLY);
        let root = Root {
            position: &position,
            moves: &[],
            has_all_moves: true,
            history: &[],
            depth,
            last_depth,
        };
        let cache = SearchCache::new(1);
        let asked = |cache: &SearchCache, nodes: u64| {
            let mut searcher = Searcher::new(&calibration, 1 << 20);
            searcher.evaluations = 100;
            let (control, limits) =
                (Control::default(), Limits { nodes: Some(nodes), ..Limits::default() });
            let mut timer = TimeManager::new(&limits, Duration::ZERO, &control);
            let context = Context { cache, evaluator: &mut Mock::new(1), timer: &mut timer };
            searcher.add_questions_ahead(&root, 50, &context);
            let question = |&(root_node, priority): &(NodeId, u8)| {
                let node = searcher.nodes.get(root_node)?;
                Some((node.depth, node.bound, priority))
            };
            searcher.roots.iter().filter_map(question).collect::<Vec<_>>()
        };
        let around = |step: u8| {
            let at = |bound, away: u8| {
                (depth + i16::from(step) * PLY / 2, bound, DEEPER * step + NEIGHBOUR * away)
            };
            [at(32, 2), at(41, 1), at(50, 0), at(59, 1), at(68, 2)]
        };
        let [below, neighbour_below, _, neighbour_above, above] = around(0);
        let here = vec![below, neighbour_below, neighbour_above, above];
        let deeper = [here.clone(), around(1).to_vec(), around(2).to_vec()].concat();
        assert_eq!(asked(&cache, 1_000), deeper, "none after the last depth");
        assert_eq!(asked(&cache, 50), here, "no evaluations for another depth");
        cache.store_bounds(root.key(), depth, Bounds { lower: 45, upper: 1_000, best: 1 });
        assert_eq!(asked(&cache, 50), [neighbour_above, above], "the others are answered");
    }

    #[test]
    fn a_priority_cost_ends_when_its_move_is_closed() {
        let calibration = Calibration { move_scores: MoveScores::Policy, ..Calibration::default() };
        let mut searcher = Searcher::new(&calibration, 1 << 20);
        let position = Position::default();
        let (depth, last_depth) = (2 * PLY, 9 * PLY);
        let root = Root {
            position: &position,
            moves: &[],
            has_all_moves: true,
            history: &[],
            depth,
            last_depth,
        };
        let root_node = searcher.add_root(&root, depth, 0, 6);
        let mut open = |parents: &[(NodeId, f32)]| {
            let child = searcher.nodes.add(position.clone(), false, 1, PLY, 0, 1);
            for (index, &(node, priority_cost)) in (0..).zip(parents) {
                let link = Link { node, edge: index, reduced: false, penalty: 0, priority_cost };
                searcher.nodes.get_mut(child).unwrap().parents.push(link);
                searcher.nodes.get_mut(node).unwrap().children.push(child);
            }
            let node = searcher.nodes.get_mut(child).unwrap();
            node.generate_moves();
            node.ordered.push(OrderedMove::new(0, 0, false));
            searcher.make_ready(child);
            child
        };
        let first = open(&[(root_node, 1.0)]);
        let second = open(&[(root_node, 0.5)]);
        let third = open(&[(root_node, 100.0)]);
        // Needed if the first is, or the third.
        let both = open(&[(third, 0.5), (first, 0.5)]);
        let last = open(&[(root_node, 0.5)]);
        let at = |searcher: &Searcher| {
            [first, second, third, both, last].map(|child| {
                let node = searcher.nodes.get(child)?;
                // A node with a move to expand is in the queue.
                let extra = priority_of_cost(node.children.len() as f32 * 0.5);
                assert_eq!(
                    node.queued_priority,
                    node.priority.saturating_add(extra).min(LAST_PRIORITY)
                );
                Some(node.priority)
            })
        };
        searcher.reprioritise();
        assert_eq!(at(&searcher), [Some(6), Some(18), Some(24), Some(6), Some(LAST_PRIORITY)]);
        searcher.nodes.get_mut(root_node).unwrap().children.remove(0);
        searcher.drop_node(first);
        searcher.reprioritise();
        assert_eq!(at(&searcher), [None, Some(6), Some(12), Some(12), Some(LAST_PRIORITY)]);
    }
}
