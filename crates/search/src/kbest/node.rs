//! Open positions of one zero-window pass, in a slab whose slots are used again.

use board::{Move, Position};

use super::{opponent::ReplyPenalty, queue::QueueEntry};
use crate::{
    cache::NO_MOVE,
    score::{INFINITY, Value},
};

/// Levels of the queue for each unit of the natural logarithm of a chance.
const PRIORITIES_PER_UNIT: f32 = 12.0;

/// No position is further back: `u8::MAX` says that there is no level.
pub(super) const LAST_PRIORITY: u8 = u8::MAX - 1;

/// A smaller doubt is none: what it leaves at level 0 is evaluated although it costs as much as any
/// other. That wastes 1.3 % of the evaluations, twice as large a doubt 4.1 % (docs/2-search.md).
const SMALLEST_COST: f32 = 0.02;

/// Levels of the queue for minus the logarithm of a chance.
pub(super) fn priority_of_cost(priority_cost: f32) -> u8 {
    if priority_cost < SMALLEST_COST {
        return 0;
    }
    // `as` saturates.
    ((priority_cost * PRIORITIES_PER_UNIT + 0.5) as u8).max(1)
}

/// The score of moves that are looked at because they are forcing.
pub(super) const FORCING: i16 = i16::MAX;

/// A slot number and the life it meant: outdated references are recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NodeId {
    pub slot: u32,
    pub life: u32,
}

/// A parent, and which of its moves leads here.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub node: NodeId,
    /// Place in generation order.
    pub edge: u8,
    /// Is the move searched to less than its full depth?
    pub reduced: bool,
    /// [`Edge::penalty`].
    pub penalty: u8,
    /// What the move, while it is being searched, adds to [`Node::priority_cost`].
    pub priority_cost: f32,
}

/// One move of an open position.
#[derive(Clone, Copy, Debug)]
pub(super) struct Edge {
    pub mv: Move,
    /// Place in generation order.
    pub index: u8,
    /// Centipawns for the mover after the move, as the move head sees it, or hundredths of the
    /// logarithm of the move's chance (a policy); [`FORCING`] where only forcing moves are looked
    /// at.
    pub score: i16,
    /// What the move counts less than it is worth, in centipawns: the opponent may not find it.
    pub penalty: u8,
}

/// A move's score and its place in generation order in one number: the smallest is opened first.
/// There are thirty in a position, most of which are never opened, so what else an [`Edge`] has is
/// found when somebody wants it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct OrderedMove(u32);

impl OrderedMove {
    /// The move that `is_first`, then falling scores, then generation order.
    pub(super) fn new(index: u8, score: i16, is_first: bool) -> Self {
        let falling = (i32::from(i16::MAX) - i32::from(score)) as u32;
        Self(u32::from(!is_first) << 24 | falling << 8 | u32::from(index))
    }

    /// Place in generation order.
    pub(super) fn index(self) -> u8 {
        self.0 as u8
    }

    pub(super) fn score(self) -> i16 {
        (i32::from(i16::MAX) - i32::from((self.0 >> 8) as u16)) as i16
    }
}

/// What an open position waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The slot is free.
    Free,
    /// Its move scores or its value are being evaluated.
    Evaluation,
    /// Its next move may be opened.
    Open,
}

/// A position whose value is being compared with a bound.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub state: State,
    pub life: u32,
    pub position: Position,
    /// Is its mover in check?
    pub check: bool,
    /// Its legal moves in generation order; empty until somebody needed them.
    legal: Vec<Move>,
    /// Key in memory.
    pub key: u64,
    /// Remaining depth in parts of a ply; 0: a leaf that resolves forcing moves.
    pub depth: i16,
    pub bound: Value,
    pub ply: u16,
    /// The root's move that leads here, in generation order; [`NO_MOVE`] at the root.
    pub root_edge: u8,
    /// Level of the queue that its first move has, by the doubts on the way from the root;
    /// `u8::MAX`: not known yet.
    pub priority: u8,
    /// Proven: the value is at least this.
    pub lower: Value,
    /// The value through the moves resolved so far is at most this.
    pub upper: Value,
    /// Place in generation order of the move behind `lower`.
    pub best: u8,
    /// The same of the one with the largest upper bound so far: the move to try first next time.
    pub best_by_upper: u8,
    /// Its moves in the order in which they are opened; [`Node::generate_moves`] comes first.
    pub ordered: Vec<OrderedMove>,
    /// What its moves count less than they are worth.
    pub penalties: ReplyPenalty,
    /// Place in the order of the next move to open.
    pub next: usize,
    /// Minus the logarithm of the chance that all moves that are being searched miss the bound,
    /// and the next is needed; without meaning where moves have scores in centipawns.
    pub priority_cost: f32,
    /// Places in the order of moves whose reduced search reached the bound: to be searched to
    /// full depth.
    pub re_search: Vec<u8>,
    /// Open children.
    pub children: Vec<NodeId>,
    /// Open parents; the first one is the path on which repetitions are looked for.
    pub parents: Vec<Link>,
    /// Stamp of the queue entry that is valid.
    pub entry: u32,
    /// Speculation level of that queue entry; `u8::MAX`: none in the queue.
    pub queued_priority: u8,
}

impl Node {
    /// Finds the position's legal moves, once: a position that is evaluated is asked for them three
    /// times.
    pub(super) fn generate_moves(&mut self) {
        if self.legal.is_empty() {
            self.legal.extend_from_slice(&self.position.legal_moves());
        }
    }

    /// What [`Node::generate_moves`] has found.
    pub(super) fn legal(&self) -> &[Move] {
        &self.legal
    }

    /// Somebody has found them already; none: nobody has.
    pub(super) fn set_legal_moves(&mut self, moves: &[Move]) {
        self.legal.clear();
        self.legal.extend_from_slice(moves);
    }

    /// The move at a place of the order.
    pub(super) fn edge(&self, place: usize) -> Option<Edge> {
        let ordered = *self.ordered.get(place)?;
        let (index, score) = (ordered.index(), ordered.score());
        debug_assert!(usize::from(index) < self.legal.len(), "nobody has found the legal moves");
        let mv = *self.legal.get(usize::from(index))?;
        Some(Edge { mv, index, score, penalty: self.penalties.of(score) })
    }

    /// Is there a move to open?
    pub(super) fn has_moves(&self) -> bool {
        self.next < self.ordered.len() || !self.re_search.is_empty()
    }

    /// How doubtful it is that the next move will be needed, in levels of the queue.
    pub(super) fn next_move_priority(&self) -> u8 {
        priority_of_cost(self.priority_cost)
    }

    /// What a move adds to the doubt while it is being searched: minus the logarithm of its chance
    /// to miss the bound once those before it have. `value` is the position's own; `before` is
    /// whether the move reached the bound when it was last searched to a smaller depth, if it
    /// is known.
    ///
    /// Logistic regressions over moves that were searched one at a time in positions of games
    /// (docs/2-search.md).
    pub(super) fn priority_cost_of(
        &self,
        place: usize,
        value: Option<Value>,
        before: Option<bool>,
    ) -> f32 {
        let Some(score) = self.ordered.get(place).map(|ordered| ordered.score()) else {
            return 0.0;
        };
        let above = value.map_or(0.0, |value| (value - self.bound) as f32 / 100.0).clamp(-5.0, 5.0);
        let first = f32::from(u8::from(place == 0));
        let logit = match (score, self.depth) {
            // A leaf in check has no value of its own.
            (FORCING, 0) if self.check => -1.4 + 2.7 * first,
            (FORCING, 0) => -0.83 + 0.63 * above + 0.69 * first,
            (FORCING, _) => -1.93 + 0.73 * above + 0.64 * first,
            (score, _) => {
                let before = match before {
                    Some(true) => 1.65,
                    Some(false) => -1.59,
                    None => 0.0,
                };
                0.57 + 1.0 * above + 0.85 * f32::from(score) / 100.0 + 1.31 * first + before
            }
        };
        logit.exp().ln_1p()
    }

    /// The move behind the lower bound where that decides or is exact, else the one that came
    /// closest.
    pub(super) fn best_known(&self, lower: Value, upper: Value) -> u8 {
        if self.best != NO_MOVE && (lower >= self.bound || lower == upper) {
            self.best
        } else {
            self.best_by_upper
        }
    }
}

/// All nodes of a pass.
#[derive(Debug, Default)]
pub(super) struct Arena {
    slots: Vec<Node>,
    free: Vec<u32>,
}

impl Arena {
    /// Bytes that one node takes, moves and links included, for a usual number of moves.
    pub(super) const TYPICAL_NODE_BYTES: usize = size_of::<Node>()
        + 40 * (size_of::<OrderedMove>() + size_of::<Move>())
        + 6 * size_of::<NodeId>();

    pub(super) fn open_count(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(super) fn clear(&mut self) {
        for slot in 0..self.slots.len() {
            if self.slots[slot].state != State::Free {
                self.release(slot as u32);
            }
        }
    }

    /// The node meant, if it still lives.
    pub(super) fn get(&self, reference: NodeId) -> Option<&Node> {
        self.slots
            .get(reference.slot as usize)
            .filter(|node| node.life == reference.life && node.state != State::Free)
    }

    /// As [`Nodes::get`], to change it.
    pub(super) fn get_mut(&mut self, reference: NodeId) -> Option<&mut Node> {
        self.slots
            .get_mut(reference.slot as usize)
            .filter(|node| node.life == reference.life && node.state != State::Free)
    }

    /// The reference to what lives in a slot now.
    pub(super) fn reference(&self, slot: u32) -> NodeId {
        NodeId { slot, life: self.slots[slot as usize].life }
    }

    /// Is this the latest queue entry of an open position?
    pub(super) fn is_valid(&self, entry: &QueueEntry) -> bool {
        let node = self.slots.get(entry.node as usize);
        node.is_some_and(|node| node.state == State::Open && node.entry == entry.stamp)
    }

    /// A fresh node that waits for evaluation.
    pub(super) fn add(
        &mut self,
        position: Position,
        check: bool,
        key: u64,
        depth: i16,
        bound: Value,
        ply: u16,
    ) -> NodeId {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Node {
                state: State::Free,
                life: 0,
                position: Position::default(),
                check: false,
                legal: Vec::new(),
                key: 0,
                depth: 0,
                bound: 0,
                ply: 0,
                root_edge: NO_MOVE,
                priority: 0,
                lower: -INFINITY,
                upper: -INFINITY,
                best: NO_MOVE,
                best_by_upper: NO_MOVE,
                ordered: Vec::new(),
                penalties: ReplyPenalty::default(),
                next: 0,
                priority_cost: 0.0,
                re_search: Vec::new(),
                children: Vec::new(),
                parents: Vec::new(),
                entry: 0,
                queued_priority: u8::MAX,
            });
            (self.slots.len() - 1) as u32
        });
        let node = &mut self.slots[slot as usize];
        node.state = State::Evaluation;
        node.position = position;
        node.check = check;
        node.key = key;
        node.depth = depth;
        node.bound = bound;
        node.ply = ply;
        node.root_edge = NO_MOVE;
        node.priority = 0;
        node.lower = -INFINITY;
        node.upper = -INFINITY;
        node.best = NO_MOVE;
        node.best_by_upper = NO_MOVE;
        node.penalties = ReplyPenalty::default();
        node.next = 0;
        node.priority_cost = 0.0;
        node.queued_priority = u8::MAX;
        self.reference(slot)
    }

    /// Positions for which there is memory, open or not.
    pub(super) fn slot_count(&self) -> usize {
        self.slots.len()
    }

    /// No position is in the queue, and none has a level.
    pub(super) fn forget_priorities(&mut self) {
        for node in &mut self.slots {
            (node.priority, node.queued_priority) = (u8::MAX, u8::MAX);
        }
    }

    /// Frees a slot; its vectors keep their memory.
    pub(super) fn release(&mut self, slot: u32) {
        let node = &mut self.slots[slot as usize];
        node.state = State::Free;
        node.life = node.life.wrapping_add(1);
        node.entry = node.entry.wrapping_add(1);
        node.legal.clear();
        node.ordered.clear();
        node.re_search.clear();
        node.children.clear();
        node.parents.clear();
        self.free.push(slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_move_is_in_doubt_while_a_good_first_one_is_searched() {
        let mut nodes = Arena::default();
        let reference = nodes.add(Position::default(), false, 0, 32, 0, 1);
        let node = nodes.get_mut(reference).unwrap();
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
            "hopeless, and so it was before"
        );
        let priority_costs = [0, 1, 2].map(|place| node.priority_cost_of(place, Some(0), None));
        assert!(priority_costs.is_sorted_by(|one, other| one > other), "{priority_costs:?}");
        let priority_costs =
            [Some(false), None, Some(true)].map(|before| node.priority_cost_of(0, Some(0), before));
        assert!(priority_costs.is_sorted_by(|one, other| one < other), "{priority_costs:?}");
    }

    #[test]
    fn the_first_move_then_falling_scores_then_generation_order() {
        let scores = [-5, FORCING, i16::MIN, -5, 7];
        let mut order: Vec<OrderedMove> = (0..)
            .zip(scores)
            .map(|(index, score)| OrderedMove::new(index, score, index == 2))
            .collect();
        for (ordered, score) in order.iter().zip(scores) {
            assert_eq!(ordered.score(), score);
        }
        order.sort_unstable();
        assert_eq!(
            order.iter().map(|ordered| ordered.index()).collect::<Vec<_>>(),
            [2, 1, 4, 0, 3]
        );
    }

    #[test]
    fn only_a_small_doubt_is_none() {
        assert_eq!([0.0, 0.019, 0.021, 0.1, 0.5, 1.0].map(priority_of_cost), [0, 0, 1, 1, 6, 12]);
        assert_eq!(priority_of_cost(1000.0), u8::MAX);
    }

    /// A leaf that declines captures, one in check, and a razored position, which hardly ever
    /// reaches its bound.
    #[test]
    fn forcing_moves_leave_doubt() {
        let mut nodes = Arena::default();
        let position = Position::default();
        let priority_costs = [(0, false), (0, true), (16, false)].map(|(depth, check)| {
            let reference = nodes.add(position.clone(), check, 0, depth, 0, 1);
            let node = nodes.get_mut(reference).unwrap();
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
