//! Which moves of a node are searched, and how deep.

use board::Checks;
use nets::MoveScores;

use super::node::{Edge, Node};
use crate::{
    cache::NO_MOVE,
    score::{Value, child_bound_with_penalty, from_child_with_penalty},
    selectivity::Selectivity,
};

/// How a move is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MoveTreatment {
    /// To full depth.
    Full,
    /// To a depth smaller by this, in parts of a ply; again to full depth if it reaches the bound
    /// (late-move reduction).
    Reduced(i16),
    /// Not at all: it is taken to miss the bound (late-move pruning).
    Pruned,
}

/// The treatment of the move at this place of the node's order, unless it gives check; `limit` is
/// that of late-move pruning ([`Selectivity::late_pruning_limit`]).
fn treatment(
    rules: &Selectivity,
    node: &Node,
    place: usize,
    edge: Edge,
    limit: Option<i32>,
    scores: MoveScores,
) -> MoveTreatment {
    if node.depth == 0 || !rules.is_late(&node.position, node.check, edge.mv, place, node.ply == 0)
    {
        return MoveTreatment::Full;
    }
    if node.ply > 0 && limit.is_some_and(|limit| i32::from(edge.score) < limit) {
        return MoveTreatment::Pruned;
    }
    match rules.reduction(node.depth, place, edge.score, scores) {
        0 => MoveTreatment::Full,
        less => MoveTreatment::Reduced(less),
    }
}

/// The treatment of the node's next move; `value` is the position's own evaluation, if known.
///
/// Pruned moves are most of a position's, so a run of them is passed at once: `next` moves behind
/// them. Two kinds are not passed: the last move, whose result may close the node, and a reply
/// to the root's move, which may draw by repetition. Passing leaves the lower bound and the best
/// move as they are, because a move that misses the bound says nothing of them, and it leaves the
/// priority, because nothing new is open.
pub(super) fn classify_next_move(
    rules: &Selectivity,
    node: &mut Node,
    value: Option<Value>,
    scores: MoveScores,
) -> MoveTreatment {
    let (mut next, mut upper, mut best_by_upper) = (node.next, node.upper, node.best_by_upper);
    let limit = rules.late_pruning_limit(node.depth, node.bound, value, scores);
    let at_most =
        |penalty| from_child_with_penalty(child_bound_with_penalty(node.bound, penalty), penalty);
    let without_penalty = at_most(0);
    let mut checks = None;
    let mut found = MoveTreatment::Full;
    while let Some(edge) = node.edge(next) {
        found = treatment(rules, node, next, edge, limit, scores);
        if found != MoveTreatment::Full
            && checks.get_or_insert_with(|| Checks::of(&node.position)).gives(edge.mv)
        {
            found = MoveTreatment::Full;
        }
        if found != MoveTreatment::Pruned || node.ply <= 1 || next + 1 == node.ordered.len() {
            break;
        }
        let at_most = match edge.penalty {
            0 => without_penalty,
            penalty => at_most(penalty.into()),
        };
        if at_most > upper || best_by_upper == NO_MOVE {
            (upper, best_by_upper) = (upper.max(at_most), edge.index);
        }
        next += 1;
    }
    (node.next, node.upper, node.best_by_upper) = (next, upper, best_by_upper);
    found
}

#[cfg(test)]
mod tests {
    use board::{CastlingMode, Position};

    use super::*;
    use crate::{
        kbest::{arena::Arena, node::OrderedMove},
        score::INFINITY,
        selectivity::PLY,
        tuning::Tuning,
    };

    #[test]
    fn pruned_moves_are_passed_but_no_check_and_not_the_last() {
        let position =
            Position::from_fen("4k3/8/8/8/8/8/4P3/R3K3 w - - 0 1", CastlingMode::Standard).unwrap();
        let legal = position.legal_moves();
        let check = legal.iter().position(|&mv| position.gives_check(mv)).unwrap();
        let rules = Selectivity::kbest(&Tuning::default());
        let mut nodes = Arena::default();
        let mut passed = |ply, scores: &[i16], from| {
            let id = nodes.add(position.clone(), false, 0, 3 * PLY, 0, ply);
            let node = nodes.get_mut(id).unwrap();
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
            let treatment = classify_next_move(&rules, node, Some(0), MoveScores::Policy);
            (treatment, node.next, node.upper, node.best_by_upper == order[from] as u8)
        };
        let unlikely = [-50, -50, -50, -900];
        assert_eq!(
            passed(2, &unlikely, 0),
            (MoveTreatment::Full, 0, -INFINITY, false),
            "the first are searched"
        );
        let before_the_check = (MoveTreatment::Full, 5, -1, true);
        assert_eq!(passed(2, &unlikely, 3), before_the_check, "pruned moves miss the bound");
        assert_eq!(passed(2, &unlikely, 6), (MoveTreatment::Pruned, legal.len() - 1, -1, true));
        assert_eq!(
            passed(2, &[-50], 3),
            (MoveTreatment::Reduced(PLY), 3, -INFINITY, false),
            "likely moves are searched"
        );
        assert_eq!(
            passed(1, &unlikely, 3),
            (MoveTreatment::Pruned, 3, -INFINITY, false),
            "a reply may draw by repetition"
        );
    }
}
