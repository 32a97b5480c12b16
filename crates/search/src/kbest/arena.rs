//! Where the nodes of a pass live.

use board::{Move, Position};

use super::{
    node::{Node, NodeId, OrderedMove, State},
    opponent::ReplyPenalty,
    queue::QueueEntry,
};
use crate::{
    cache::NO_MOVE,
    score::{INFINITY, Value},
};

/// All nodes of a pass, in slots that are used again.
#[derive(Debug, Default)]
pub(super) struct Arena {
    slots: Vec<Node>,
    free: Vec<u32>,
}

impl Arena {
    /// Bytes of one node, moves and links included, for a usual number of moves.
    pub(super) const TYPICAL_NODE_BYTES: usize = size_of::<Node>()
        + 40 * (size_of::<OrderedMove>() + size_of::<Move>())
        + 6 * size_of::<NodeId>();

    pub(super) fn open_count(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(super) fn clear(&mut self) {
        if self.open_count() == 0 {
            return;
        }
        for slot in 0..self.slots.len() {
            if self.slots[slot].state != State::Free {
                self.release(slot as u32);
            }
        }
    }

    /// The node of this id, if it still lives.
    pub(super) fn get(&self, id: NodeId) -> Option<&Node> {
        self.slots
            .get(id.slot as usize)
            .filter(|node| node.life == id.life && node.state != State::Free)
    }

    /// As [`Arena::get`], to change the node.
    pub(super) fn get_mut(&mut self, id: NodeId) -> Option<&mut Node> {
        self.slots
            .get_mut(id.slot as usize)
            .filter(|node| node.life == id.life && node.state != State::Free)
    }

    /// The id of the node that lives in a slot now.
    pub(super) fn id(&self, slot: u32) -> NodeId {
        NodeId { slot, life: self.slots[slot as usize].life }
    }

    /// Is this the latest queue entry of an open node?
    pub(super) fn is_valid(&self, entry: &QueueEntry) -> bool {
        let node = self.slots.get(entry.node as usize);
        node.is_some_and(|node| node.state == State::Open && node.latest_entry == entry.stamp)
    }

    /// A new node that waits for evaluation.
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
                structures: None,
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
                parent_value: None,
                after_null_move: false,
                null_move_tried: false,
                children: Vec::new(),
                parents: Vec::new(),
                latest_entry: 0,
                queued_priority: u8::MAX,
            });
            (self.slots.len() - 1) as u32
        });
        let node = &mut self.slots[slot as usize];
        node.state = State::Evaluation;
        node.position = position;
        node.check = check;
        node.structures = None;
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
        node.parent_value = None;
        (node.after_null_move, node.null_move_tried) = (false, false);
        node.queued_priority = u8::MAX;
        self.id(slot)
    }

    /// Slots, in use or free.
    pub(super) fn slot_count(&self) -> usize {
        self.slots.len()
    }

    /// Takes its priority and its queue entry from every node.
    pub(super) fn forget_priorities(&mut self) {
        for node in &mut self.slots {
            (node.priority, node.queued_priority) = (u8::MAX, u8::MAX);
        }
    }

    /// Gives a free slot the memory of an empty list of children.
    pub(super) fn keep_memory(&mut self, slot: u32, children: Vec<NodeId>) {
        self.slots[slot as usize].children = children;
    }

    /// Frees a slot; its lists keep their memory.
    pub(super) fn release(&mut self, slot: u32) {
        let node = &mut self.slots[slot as usize];
        node.state = State::Free;
        node.life = node.life.wrapping_add(1);
        node.latest_entry = node.latest_entry.wrapping_add(1);
        node.legal.clear();
        node.ordered.clear();
        node.re_search.clear();
        node.children.clear();
        node.parents.clear();
        self.free.push(slot);
    }
}
