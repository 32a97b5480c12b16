//! Open positions of one zero-window pass, in a slab whose slots are used again.

use board::{Move, Position};

use super::pool::Ticket;
use crate::{
    memory::NO_MOVE,
    score::{INFINITY, Value},
};

/// A slot number and the life it meant: outdated references are recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameRef {
    pub slot: u32,
    pub life: u32,
}

/// A parent, and which of its moves leads here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub frame: FrameRef,
    /// Place in generation order.
    pub edge: u8,
    /// Is the move searched to less than its full depth?
    pub reduced: bool,
}

/// One move of an open position.
#[derive(Clone, Copy, Debug)]
pub(super) struct Edge {
    pub mv: Move,
    /// Place in generation order; at a leaf, among its forcing moves.
    pub index: u8,
    /// Centipawns for the mover after the move, as the move head sees it, or hundredths of the logarithm of the move's
    /// chance (a policy); `i16::MAX` where only forcing moves are looked at.
    pub score: i16,
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

/// A position whose value is being compared with a separator.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    pub state: State,
    pub life: u32,
    pub position: Position,
    /// Key in memory.
    pub key: u64,
    /// Remaining depth in parts of a ply; 0: a leaf that resolves forcing moves.
    pub depth: i16,
    pub separator: Value,
    pub ply: u16,
    pub speculation: u8,
    /// Proven: the value is at least this.
    pub lower: Value,
    /// The value through the moves resolved so far is at most this.
    pub upper: Value,
    /// Edge (by generation order) behind `lower`.
    pub best: u8,
    /// Edge with the largest upper bound so far: the move to try first next time.
    pub hopeful: u8,
    pub edges: Vec<Edge>,
    /// Next edge to open.
    pub next: usize,
    /// Places of edges whose reduced search reached the separator: to be searched to full depth.
    pub verify: Vec<u8>,
    /// Open children.
    pub children: Vec<FrameRef>,
    /// Open parents; the first one is the path on which repetitions are looked for.
    pub parents: Vec<Link>,
    /// Stamp of the ticket that is valid.
    pub ticket: u32,
    /// Speculation level of that ticket; `u8::MAX`: none in the pool.
    pub ticket_level: u8,
}

impl Frame {
    /// Is there a move to open?
    pub(super) fn has_moves(&self) -> bool {
        self.next < self.edges.len() || !self.verify.is_empty()
    }

    /// The move behind the lower bound where that decides or is exact, else the one that came closest.
    pub(super) fn best_known(&self, lower: Value, upper: Value) -> u8 {
        if self.best != NO_MOVE && (lower >= self.separator || lower == upper) {
            self.best
        } else {
            self.hopeful
        }
    }
}

/// All frames of a pass.
#[derive(Debug, Default)]
pub(super) struct Frames {
    slots: Vec<Frame>,
    free: Vec<u32>,
}

impl Frames {
    /// Bytes that one frame takes, edges and links included, for a usual number of moves.
    pub(super) const TYPICAL_BYTES: usize =
        size_of::<Frame>() + 40 * size_of::<Edge>() + 6 * size_of::<FrameRef>();

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

    /// The frame meant, if it still lives.
    pub(super) fn get(&self, reference: FrameRef) -> Option<&Frame> {
        self.slots
            .get(reference.slot as usize)
            .filter(|frame| frame.life == reference.life && frame.state != State::Free)
    }

    /// As [`Frames::get`], to change it.
    pub(super) fn get_mut(&mut self, reference: FrameRef) -> Option<&mut Frame> {
        self.slots
            .get_mut(reference.slot as usize)
            .filter(|frame| frame.life == reference.life && frame.state != State::Free)
    }

    /// The reference to what lives in a slot now.
    pub(super) fn reference(&self, slot: u32) -> FrameRef {
        FrameRef { slot, life: self.slots[slot as usize].life }
    }

    /// Is this the latest ticket of an open position?
    pub(super) fn is_valid(&self, ticket: &Ticket) -> bool {
        let frame = self.slots.get(ticket.frame as usize);
        frame.is_some_and(|frame| frame.state == State::Open && frame.ticket == ticket.stamp)
    }

    /// A fresh frame that waits for evaluation.
    pub(super) fn add(
        &mut self,
        position: Position,
        key: u64,
        depth: i16,
        separator: Value,
        ply: u16,
    ) -> FrameRef {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Frame {
                state: State::Free,
                life: 0,
                position: Position::default(),
                key: 0,
                depth: 0,
                separator: 0,
                ply: 0,
                speculation: 0,
                lower: -INFINITY,
                upper: -INFINITY,
                best: NO_MOVE,
                hopeful: NO_MOVE,
                edges: Vec::new(),
                next: 0,
                verify: Vec::new(),
                children: Vec::new(),
                parents: Vec::new(),
                ticket: 0,
                ticket_level: u8::MAX,
            });
            (self.slots.len() - 1) as u32
        });
        let frame = &mut self.slots[slot as usize];
        frame.state = State::Evaluation;
        frame.position = position;
        frame.key = key;
        frame.depth = depth;
        frame.separator = separator;
        frame.ply = ply;
        frame.speculation = 0;
        frame.lower = -INFINITY;
        frame.upper = -INFINITY;
        frame.best = NO_MOVE;
        frame.hopeful = NO_MOVE;
        frame.next = 0;
        frame.ticket_level = u8::MAX;
        self.reference(slot)
    }

    /// Frees a slot; its vectors keep their memory.
    pub(super) fn release(&mut self, slot: u32) {
        let frame = &mut self.slots[slot as usize];
        frame.state = State::Free;
        frame.life = frame.life.wrapping_add(1);
        frame.ticket = frame.ticket.wrapping_add(1);
        frame.edges.clear();
        frame.verify.clear();
        frame.children.clear();
        frame.parents.clear();
        self.free.push(slot);
    }
}
