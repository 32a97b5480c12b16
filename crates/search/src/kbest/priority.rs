//! How urgent the next move of a node is.
//!
//! The priority of a move is its place in the queue: 0 first. It sums up, from the root down, the
//! priority costs of the moves that would have to fail before this one is needed. A priority cost
//! is minus the natural logarithm of a chance, so the sum stands for a product: the chance that
//! the evaluation will be needed.

use super::node::{FORCING, Node};
use crate::score::Value;

/// Priorities for each unit of the natural logarithm of a chance.
const PRIORITIES_PER_UNIT: f32 = 12.0;

/// The last priority; `u8::MAX` says that there is none.
pub(super) const LAST_PRIORITY: u8 = u8::MAX - 1;

/// Chances below 2 % that a move is not needed round to priority 0, and what has priority 0 is
/// evaluated even where no batch has a free place for it. That wastes 1.3 % of the evaluations;
/// twice this cost would waste 4.1 % (docs/experiments/2026-11-cost-of-batches.md).
const SMALLEST_COST: f32 = 0.02;

/// The priority that a priority cost adds up to.
pub(super) fn priority_of_cost(priority_cost: f32) -> u8 {
    if priority_cost < SMALLEST_COST {
        return 0;
    }
    // `as` saturates.
    ((priority_cost * PRIORITIES_PER_UNIT + 0.5) as u8).max(1)
}

impl Node {
    /// What the moves that are being searched add to the priority of the next one.
    pub(super) fn next_move_priority(&self) -> u8 {
        priority_of_cost(self.priority_cost)
    }

    /// What a move adds to [`Node::priority_cost`] while it is being searched: minus the logarithm
    /// of its chance to miss the bound once those before it have. `value` is the position's own
    /// evaluation; `reached_before` says whether the move reached the bound when it was last
    /// searched to a smaller depth, if that is known.
    ///
    /// Logistic regressions over moves that were searched one at a time in positions of games
    /// (docs/experiments/2026-11-queue-order.md).
    pub(super) fn priority_cost_of(
        &self,
        place: usize,
        value: Option<Value>,
        reached_before: Option<bool>,
    ) -> f32 {
        let Some(score) = self.ordered.get(place).map(|ordered| ordered.score()) else {
            return 0.0;
        };
        let above = value.map_or(0.0, |value| (value - self.bound) as f32 / 100.0).clamp(-5.0, 5.0);
        let first = f32::from(u8::from(place == 0));
        let logit = match (score, self.depth) {
            // A leaf in check has no static evaluation.
            (FORCING, 0) if self.check => -1.4 + 2.7 * first,
            (FORCING, 0) => -0.83 + 0.63 * above + 0.69 * first,
            (FORCING, _) => -1.93 + 0.73 * above + 0.64 * first,
            (score, _) => {
                let before = match reached_before {
                    Some(true) => 1.65,
                    Some(false) => -1.59,
                    None => 0.0,
                };
                0.57 + 1.0 * above + 0.85 * f32::from(score) / 100.0 + 1.31 * first + before
            }
        };
        logit.exp().ln_1p()
    }

    /// What a null move adds to [`Node::priority_cost`] while it is being searched: it misses the
    /// bound the more rarely the further the static evaluation `value` lies above it.
    pub(super) fn priority_cost_of_null_move(&self, value: Value) -> f32 {
        let above = ((value - self.bound) as f32 / 100.0).clamp(0.0, 5.0);
        (0.5 + above).exp().ln_1p()
    }
}

#[cfg(test)]
mod tests {
    use board::Position;

    use super::*;
    use crate::kbest::{arena::Arena, node::OrderedMove};

    #[test]
    fn a_second_move_is_less_urgent_while_a_good_first_one_is_searched() {
        let mut nodes = Arena::default();
        let id = nodes.add(Position::default(), false, 0, 32, 0, 1);
        let node = nodes.get_mut(id).unwrap();
        // Chances of 60 %, 30 % and 5 %.
        node.ordered = (0..)
            .zip([-51, -120, -300])
            .map(|(index, score)| OrderedMove::new(index, score, false))
            .collect();
        assert_eq!(node.next_move_priority(), 0, "the first move is needed");
        let priority_costs =
            [-500, 0, 300].map(|value| node.priority_cost_of(0, Some(value), None));
        assert!(
            priority_of_cost(priority_costs[0]) == 1 && priority_costs.is_sorted(),
            "{priority_costs:?}"
        );
        assert_eq!(
            priority_of_cost(node.priority_cost_of(0, Some(-500), Some(false))),
            0,
            "the first move misses the bound, as it did before"
        );
        let priority_costs = [0, 1, 2].map(|place| node.priority_cost_of(place, Some(0), None));
        assert!(priority_costs.is_sorted_by(|one, other| one > other), "{priority_costs:?}");
        let priority_costs =
            [Some(false), None, Some(true)].map(|before| node.priority_cost_of(0, Some(0), before));
        assert!(priority_costs.is_sorted_by(|one, other| one < other), "{priority_costs:?}");
    }

    #[test]
    fn only_a_small_cost_has_the_first_priority() {
        assert_eq!([0.0, 0.019, 0.021, 0.1, 0.5, 1.0].map(priority_of_cost), [0, 0, 1, 1, 6, 12]);
        assert_eq!(priority_of_cost(1000.0), u8::MAX);
    }

    /// A leaf that declines captures, one in check, and a razored position, which hardly ever
    /// reaches its bound.
    #[test]
    fn forcing_moves_have_costs() {
        let mut nodes = Arena::default();
        let position = Position::default();
        let priority_costs = [(0, false), (0, true), (16, false)].map(|(depth, check)| {
            let id = nodes.add(position.clone(), check, 0, depth, 0, 1);
            let node = nodes.get_mut(id).unwrap();
            node.ordered = vec![OrderedMove::new(0, FORCING, false)];
            node.priority_cost_of(0, Some(-100), None)
        });
        assert!(
            priority_costs[1] > priority_costs[0]
                && priority_costs[0] > priority_costs[2]
                && priority_costs[2] > 0.0,
            "{priority_costs:?}"
        );
    }
}
