//! One zero-window pass: is the root worth at least the separator?
//!
//! A best-first search over the whole tree at once. Open positions (frames) wait in the pool; one step takes the most
//! urgent, opens the next move of each until K positions need the network, evaluates those together, and backs the
//! results up. A frame closes when its value reaches its separator or its moves are exhausted; whatever was open only
//! for its sake is dropped. Positions reached by several ways at the same depth are one frame.

use std::collections::HashMap;

use board::{Move, Position};
use eval::{Batch, EvalError, Evaluator};

use super::{
    PLY,
    frame::{Edge, FrameRef, Frames, Link, State},
    pool::{Pool, Ticket},
    selectivity::{Selectivity, Wish},
};
use crate::{
    memory::{Bounds, Memory, NO_MOVE},
    quiet::forcing_moves,
    score::{INFINITY, MATE, MATE_BOUND, Value, child_separator, from_child, from_evaluation},
};

/// Depth under which proven mates are stored: they hold at any depth.
const PROVEN: i16 = i16::MAX;

/// Speculation of opening a leaf's next capture before the last one is known.
const LEAF_SPECULATION: u8 = 2;

/// Whether and when a pass must end early.
pub(super) trait Deadline {
    /// Asked every few positions and before every batch.
    fn is_over(&mut self) -> bool;
    /// Evaluations that may still be made.
    fn evaluations_left(&self) -> u64;
    /// Some were made.
    fn spend(&mut self, evaluations: u64);
}

/// How a pass ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PassEnd {
    /// Bounds on the root's value, on one side of the separator, and the best move if it is at or above.
    Decided(Bounds),
    /// Time, evaluations or memory ran out.
    Interrupted,
}

/// The root of a pass.
#[derive(Clone, Debug)]
pub(super) struct Root<'a> {
    pub position: &'a Position,
    /// The moves to consider, with their place in generation order; a subset of the legal ones.
    pub moves: &'a [(Move, u8)],
    /// Are these all legal moves? Only then are the bounds those of the position.
    pub complete: bool,
    /// Keys of the positions before the root, oldest first.
    pub history: &'a [u64],
    pub depth: i16,
}

/// The bounds of a child on their way to a parent.
struct News {
    parent: Link,
    /// `None` where no frame was needed.
    child: Option<FrameRef>,
    lower: Value,
    upper: Value,
}

/// What a batch is asked for and by whom.
struct Pending {
    frame: FrameRef,
}

/// The working state of passes; memory is used again from one to the next.
pub(super) struct Searcher {
    frames: Frames,
    /// Open frames by (key, depth, separator).
    open: HashMap<u64, FrameRef, std::hash::BuildHasherDefault<KeyHasher>>,
    pool: Pool,
    pending: Vec<Pending>,
    news: Vec<News>,
    batch: Batch,
    /// Open frames from which on the deepest go first, and twice which none is opened.
    frame_limit: usize,
    /// How late moves are treated.
    pub selectivity: Selectivity,
    /// Use mates that were proven at another depth: more than a search of this depth could see.
    pub any_proof: bool,
    /// Deepest ply seen since the last [`Searcher::reset_statistics`].
    pub deepest: u32,
    /// Batches and the evaluations in them since then.
    pub batches: u64,
    pub evaluations: u64,
}

impl std::fmt::Debug for Searcher {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Searcher").field("open", &self.frames.open_count()).finish_non_exhaustive()
    }
}

/// Keys are random already.
#[derive(Clone, Copy, Default)]
struct KeyHasher(u64);

impl std::hash::Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0.rotate_left(8)) ^ u64::from(byte);
        }
    }
    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}

fn frame_key(key: u64, depth: i16, separator: Value) -> u64 {
    let question = u64::from(depth as u16) << 32 | u64::from(separator as u32);
    key ^ (question.wrapping_mul(0x9e37_79b9_7f4a_7c15)).rotate_left(17)
}

/// The key under which bounds are remembered: near the fifty-move limit a position is a different one at each clock.
pub(super) fn memory_key(position: &Position) -> u64 {
    let clock = position.halfmove_clock();
    if clock < 70 {
        position.key()
    } else {
        position.key() ^ u64::from(clock).wrapping_mul(0xd6e8_feb8_6659_fd93)
    }
}

/// What became of a move that was opened.
enum Opened {
    /// Known at once: bounds for the side to move after it.
    Known(Value, Value),
    /// A frame works on it.
    Frame(FrameRef),
    /// No memory for another frame.
    Full,
}

impl Searcher {
    /// `boundaries` of the bins; `bytes` bound the frames.
    pub(super) fn new(boundaries: &[f32], bytes: usize) -> Self {
        Self {
            frames: Frames::default(),
            open: HashMap::default(),
            pool: Pool::new(boundaries),
            pending: Vec::new(),
            news: Vec::new(),
            batch: Batch::default(),
            frame_limit: (bytes / 2 / Frames::TYPICAL_BYTES).max(64),
            selectivity: Selectivity::default(),
            any_proof: true,
            deepest: 0,
            batches: 0,
            evaluations: 0,
        }
    }

    pub(super) fn reset_statistics(&mut self) {
        (self.deepest, self.batches, self.evaluations) = (0, 0, 0);
    }

    /// Compares the root's value with `separator`, evaluating up to `width` positions together.
    pub(super) fn pass(
        &mut self,
        root: &Root<'_>,
        separator: Value,
        width: usize,
        memory: &mut Memory,
        evaluator: &mut dyn Evaluator,
        deadline: &mut dyn Deadline,
    ) -> Result<PassEnd, EvalError> {
        self.frames.clear();
        self.open.clear();
        self.pool.clear();
        self.pending.clear();
        let key = memory_key(root.position);
        let top = self.frames.add(root.position.clone(), key, root.depth, separator, 0);
        let mut end = None;
        self.start(root, top, memory);
        let mut turns = 0_u32;
        loop {
            // Collect.
            let width = (width as u64).min(deadline.evaluations_left()).max(1) as usize;
            while self.pending.len() < width && end.is_none() {
                turns = turns.wrapping_add(1);
                if turns.is_multiple_of(64) && deadline.is_over() {
                    return Ok(PassEnd::Interrupted);
                }
                let crowded = self.frames.open_count() > self.frame_limit;
                let ticket = if crowded { self.pool.pop_deepest() } else { self.pool.pop() };
                let Some(ticket) = ticket else { break };
                if !self.open_next(root, ticket, memory) {
                    return Ok(PassEnd::Interrupted);
                }
                end = self.back_up(root, top, memory);
            }
            if let Some(bounds) = end {
                return Ok(PassEnd::Decided(bounds));
            }
            // Evaluate.
            let frames = &self.frames;
            self.pending.retain(|pending| frames.get(pending.frame).is_some());
            if self.pending.is_empty() {
                if self.pool.len() == 0 {
                    return Ok(PassEnd::Interrupted); // Cannot be: an open root has open work.
                }
                continue;
            }
            if deadline.evaluations_left() < self.pending.len() as u64 || deadline.is_over() {
                return Ok(PassEnd::Interrupted);
            }
            self.evaluate(root, memory, evaluator)?;
            deadline.spend(self.evaluations_of_last_batch());
            end = self.back_up(root, top, memory);
            if let Some(bounds) = end {
                return Ok(PassEnd::Decided(bounds));
            }
        }
    }

    fn evaluations_of_last_batch(&self) -> u64 {
        self.batch.len() as u64
    }

    /// Lets the root begin.
    fn start(&mut self, root: &Root<'_>, top: FrameRef, memory: &Memory) {
        match memory.scores(root.position.key(), root.position.legal_moves().len()) {
            Some(scores) => {
                let edges = root
                    .moves
                    .iter()
                    .map(|&(mv, index)| Edge { mv, index, score: scores[usize::from(index)] })
                    .collect();
                self.set_edges(top, edges, memory.best_move(memory_key(root.position)));
            }
            None => self.pending.push(Pending { frame: top }),
        }
    }

    /// Orders the moves of a frame and puts it into the pool.
    fn set_edges(&mut self, reference: FrameRef, mut edges: Vec<Edge>, first: u8) {
        let Some(frame) = self.frames.get_mut(reference) else { return };
        if frame.depth > 0 {
            edges.sort_by_key(|edge| (edge.index != first, std::cmp::Reverse(edge.score)));
        }
        frame.edges = edges;
        frame.state = State::Open;
        self.enqueue(reference, 0);
    }

    /// Puts a ticket for the frame's next move into the pool.
    fn enqueue(&mut self, reference: FrameRef, extra: u8) {
        let Some(frame) = self.frames.get_mut(reference) else { return };
        if !frame.has_moves() {
            return;
        }
        let level = frame.speculation.saturating_add(extra);
        if frame.ticket_level <= level {
            return; // Already waiting at least as far in front.
        }
        frame.ticket = frame.ticket.wrapping_add(1);
        frame.ticket_level = level;
        let ticket = Ticket { frame: reference.slot, stamp: frame.ticket, ply: frame.ply };
        self.pool.push(ticket, level);
    }

    /// Opens the next move of the frame behind a ticket. False when there is no memory for it.
    fn open_next(&mut self, root: &Root<'_>, ticket: Ticket, memory: &Memory) -> bool {
        let reference = self.frames.reference(ticket.frame);
        let Some(frame) = self.frames.get_mut(reference) else { return true };
        if frame.ticket != ticket.stamp || frame.state != State::Open {
            return true;
        }
        let level = frame.ticket_level;
        frame.ticket_level = u8::MAX;
        let (place, full) = match frame.verify.pop() {
            Some(place) => (usize::from(place), true),
            None => (frame.next, false),
        };
        let Some(&edge) = frame.edges.get(place) else { return true };
        if !full {
            frame.next += 1;
        }
        let wish = if full { Wish::Full } else { self.selectivity.wish(frame, place) };
        let (opened, reduced) = self.open_move(root, reference, edge, wish, level, memory);
        match opened {
            Opened::Known(lower, upper) => {
                let parent = Link { frame: reference, edge: edge.index, reduced };
                self.news.push(News { parent, child: None, lower, upper });
            }
            Opened::Frame(child) => {
                if let Some(frame) = self.frames.get_mut(child) {
                    frame.parents.push(Link { frame: reference, edge: edge.index, reduced });
                }
                let Some(frame) = self.frames.get_mut(reference) else { return true };
                frame.children.push(child);
                let step = match frame.edges.get(frame.next) {
                    Some(next) => self.pool.speculation(f32::from(next.score) - frame.separator as f32),
                    None => 0,
                };
                // One of a leaf's captures mostly settles it.
                let step = if frame.depth == 0 { LEAF_SPECULATION } else { step };
                self.enqueue(reference, step);
            }
            Opened::Full => return false,
        }
        true
    }

    /// Rules and memory first; a frame where they do not decide.
    fn open_move(
        &mut self,
        root: &Root<'_>,
        parent: FrameRef,
        edge: Edge,
        wish: Wish,
        level: u8,
        memory: &Memory,
    ) -> (Opened, bool) {
        let Some(frame) = self.frames.get(parent) else { return (Opened::Known(-INFINITY, INFINITY), false) };
        let position = frame.position.after(edge.mv);
        let separator = child_separator(frame.separator);
        let wish = if wish != Wish::Full && position.is_check() { Wish::Full } else { wish };
        let depth = match wish {
            Wish::Skip => return (Opened::Known(separator, INFINITY), false),
            Wish::Full => frame.depth - PLY,
            Wish::Reduced(plies) => frame.depth - PLY * (1 + plies),
        };
        let reduced = wish != Wish::Full;
        (self.open_position(root, parent, position, depth.max(0), separator, level, memory), reduced)
    }

    /// As [`Searcher::open_move`], once the move is made.
    #[allow(clippy::too_many_arguments)]
    fn open_position(
        &mut self,
        root: &Root<'_>,
        parent: FrameRef,
        position: Position,
        depth: i16,
        separator: Value,
        level: u8,
        memory: &Memory,
    ) -> Opened {
        let Some(frame) = self.frames.get(parent) else { return Opened::Known(-INFINITY, INFINITY) };
        let quiet = frame.depth == 0;
        let ply = frame.ply + 1;
        self.deepest = self.deepest.max(u32::from(ply));
        if position.is_insufficient_material() {
            return Opened::Known(0, 0);
        }
        if !quiet && self.is_repetition(root, parent, &position) {
            return Opened::Known(0, 0);
        }
        let key = memory_key(&position);
        if let Some(known) = memory.bounds(key, depth)
            && (known.lower >= separator || known.upper < separator)
        {
            return Opened::Known(known.lower, known.upper);
        }
        if self.any_proof
            && let Some(known) = memory.bounds(key, PROVEN)
            && (known.lower >= separator || known.upper < separator)
        {
            return Opened::Known(known.lower, known.upper);
        }
        if let Some(&child) = self.open.get(&frame_key(key, depth, separator))
            && let Some(frame) = self.frames.get_mut(child)
        {
            if level < frame.speculation {
                frame.speculation = level;
                self.enqueue(child, 0);
            }
            return Opened::Frame(child);
        }
        let value = memory.value(position.key());
        if depth == 0
            && position.halfmove_clock() < 100
            && let Some(value) = value
            && value >= separator
        {
            return Opened::Known(value, INFINITY);
        }
        let moves = position.legal_moves();
        if moves.is_empty() {
            let value = if position.is_check() { -MATE } else { 0 };
            return Opened::Known(value, value);
        }
        if position.halfmove_clock() >= 100 {
            return Opened::Known(0, 0);
        }
        let check = position.is_check();
        let forcing =
            if depth == 0 && (check || value.is_some()) { Some(forcing_moves(&position)) } else { None };
        if let (Some(forcing), Some(value), false) = (&forcing, value, check)
            && forcing.is_empty()
        {
            return Opened::Known(value, value);
        }
        if self.frames.open_count() >= 2 * self.frame_limit {
            return Opened::Full;
        }
        let child = self.frames.add(position, key, depth, separator, ply);
        self.open.insert(frame_key(key, depth, separator), child);
        if let Some(frame) = self.frames.get_mut(child) {
            frame.speculation = level;
        }
        if depth > 0 {
            let position_key = self.frames.get(child).map_or(0, |frame| frame.position.key());
            match memory.scores(position_key, moves.len()) {
                Some(scores) => {
                    let edges = (0_u8..)
                        .zip(moves.iter().zip(scores))
                        .map(|(index, (&mv, &score))| Edge { mv, index, score })
                        .collect();
                    self.set_edges(child, edges, memory.best_move(key));
                }
                None => self.pending.push(Pending { frame: child }),
            }
        } else if let Some(forcing) = forcing {
            self.begin_leaf(child, &forcing, if check { None } else { value });
        } else {
            self.pending.push(Pending { frame: child });
        }
        Opened::Frame(child)
    }

    /// A leaf starts to resolve its forcing moves; `value` is what declining them is worth.
    fn begin_leaf(&mut self, leaf: FrameRef, forcing: &[Move], value: Option<Value>) {
        if let (Some(frame), Some(value)) = (self.frames.get_mut(leaf), value) {
            frame.lower = value;
            frame.upper = value;
        }
        let edges = (0_u8..).zip(forcing).map(|(index, &mv)| Edge { mv, index, score: 0 }).collect();
        self.set_edges(leaf, edges, NO_MOVE);
    }

    /// Has this position occurred on the way from the root, or twice before it?
    fn is_repetition(&self, root: &Root<'_>, parent: FrameRef, position: &Position) -> bool {
        let mut clock = position.halfmove_clock();
        let key = position.key();
        let mut earlier = 0;
        let mut at = Some(parent);
        let mut same_side = false;
        while clock > 0 {
            let Some(frame) = at.and_then(|reference| self.frames.get(reference)) else { break };
            if same_side && frame.position.key() == key {
                if frame.ply > 0 {
                    return true;
                }
                earlier += 1;
            }
            clock -= 1;
            same_side = !same_side;
            at = frame.parents.first().map(|link| link.frame);
        }
        earlier += root.history.iter().rev().take(clock as usize).filter(|&&past| past == key).count();
        earlier >= 2
    }

    /// Sends the pending frames to the evaluator and takes up its answers.
    fn evaluate(
        &mut self,
        root: &Root<'_>,
        memory: &mut Memory,
        evaluator: &mut dyn Evaluator,
    ) -> Result<(), EvalError> {
        let mut batch = std::mem::take(&mut self.batch);
        batch.clear();
        let pending = std::mem::take(&mut self.pending);
        for pending in &pending {
            let Some(frame) = self.frames.get(pending.frame) else { continue };
            if frame.depth > 0 {
                batch.push(&frame.position, false, &frame.position.legal_moves());
            } else {
                batch.push(&frame.position, true, &[]);
            }
        }
        self.batches += 1;
        self.evaluations += batch.len() as u64;
        let answered = evaluator.evaluate(batch)?;
        let scores = &answered.scores;
        for ((pending, query), &value) in pending.iter().zip(&answered.batch.queries).zip(&scores.values) {
            let Some(frame) = self.frames.get(pending.frame) else { continue };
            let (key, memory_key) = (frame.position.key(), frame.key);
            if frame.depth > 0 {
                let found = scores.moves[query.move_range()].iter().map(|&score| from_evaluation(score));
                memory.store_scores(key, found.clone());
                let first = memory.best_move(memory_key);
                let moves = frame.position.legal_moves();
                let is_root = frame.ply == 0;
                let edges = (0_u8..)
                    .zip(moves.iter().zip(found))
                    .filter(|&(index, _)| !is_root || root.moves.iter().any(|&(_, allowed)| allowed == index))
                    .map(|(index, (&mv, score))| Edge { mv, index, score: score as i16 })
                    .collect();
                self.set_edges(pending.frame, edges, first);
            } else {
                let value = from_evaluation(value);
                memory.store_value(key, value);
                let forcing =
                    if value >= frame.separator { None } else { Some(forcing_moves(&frame.position)) };
                self.begin_leaf(pending.frame, forcing.as_deref().unwrap_or(&[]), Some(value));
                if forcing.is_none_or(|moves| moves.is_empty()) {
                    let upper = if value >= self.separator_of(pending.frame) { INFINITY } else { value };
                    self.close(pending.frame, value, upper, memory, true);
                }
            }
        }
        self.pending = pending;
        self.pending.clear();
        self.batch = answered.batch;
        Ok(())
    }

    fn separator_of(&self, reference: FrameRef) -> Value {
        self.frames.get(reference).map_or(INFINITY, |frame| frame.separator)
    }

    /// Works through the news; the root's bounds once it closes.
    fn back_up(&mut self, root: &Root<'_>, top: FrameRef, memory: &mut Memory) -> Option<Bounds> {
        while let Some(News { parent: Link { frame: reference, edge, reduced }, child, lower, upper }) =
            self.news.pop()
        {
            let Some(frame) = self.frames.get_mut(reference) else { continue };
            if let Some(child) = child {
                // Only now: a parent is exhausted when its last child's result has arrived.
                frame.children.retain(|&other| other != child);
            }
            let (at_least, at_most) = (from_child(upper), from_child(lower));
            if reduced && at_least >= frame.separator && at_least <= MATE_BOUND {
                // Better than a late move should be: look again at full depth.
                let place = frame.edges.iter().position(|other| other.index == edge);
                frame.verify.extend(place.and_then(|place| u8::try_from(place).ok()));
                self.enqueue(reference, 0);
                continue;
            }
            if at_least > frame.lower {
                frame.lower = at_least;
                frame.best = edge;
            }
            if at_most > frame.upper || frame.hopeful == NO_MOVE {
                frame.upper = frame.upper.max(at_most);
                frame.hopeful = edge;
            }
            let reached = frame.lower >= frame.separator;
            let exhausted = !frame.has_moves() && frame.children.is_empty();
            if reached || exhausted {
                let (lower, upper) = (frame.lower, if exhausted { frame.upper } else { INFINITY });
                if reference == top {
                    let best = if frame.best == NO_MOVE { frame.hopeful } else { frame.best };
                    let bounds = Bounds { lower, upper, best };
                    self.close(reference, lower, upper, memory, root.complete);
                    self.news.clear();
                    return Some(bounds);
                }
                self.close(reference, lower, upper, memory, true);
            } else {
                self.enqueue(reference, 0);
            }
        }
        None
    }

    /// Remembers the bounds, tells the parents, drops what was open for this frame's sake.
    fn close(&mut self, reference: FrameRef, lower: Value, upper: Value, memory: &mut Memory, store: bool) {
        let Some(frame) = self.frames.get_mut(reference) else { return };
        let best = frame.best_known(lower, upper);
        let (key, depth, separator) = (frame.key, frame.depth, frame.separator);
        let parents = std::mem::take(&mut frame.parents);
        let children = std::mem::take(&mut frame.children);
        if store {
            let found = Bounds { lower, upper, best };
            memory.store_bounds(key, depth, found);
            if lower > MATE_BOUND {
                memory.store_bounds(key, PROVEN, Bounds { upper: INFINITY, ..found });
            } else if upper < -MATE_BOUND {
                memory.store_bounds(key, PROVEN, Bounds { lower: -INFINITY, ..found });
            }
        }
        self.open.remove(&frame_key(key, depth, separator));
        for &parent in &parents {
            self.news.push(News { parent, child: Some(reference), lower, upper });
        }
        if let Some(frame) = self.frames.get_mut(reference) {
            frame.parents = parents;
            frame.children = children;
        }
        self.drop_frame(reference);
    }

    /// Frees a frame and, one after the other, the descendants that no open frame needs any more.
    fn drop_frame(&mut self, reference: FrameRef) {
        let mut doomed = vec![reference];
        while let Some(reference) = doomed.pop() {
            let Some(frame) = self.frames.get_mut(reference) else { continue };
            let children = std::mem::take(&mut frame.children);
            let question = frame_key(frame.key, frame.depth, frame.separator);
            if self.open.get(&question) == Some(&reference) {
                self.open.remove(&question);
            }
            self.frames.release(reference.slot);
            for child in children {
                if let Some(frame) = self.frames.get_mut(child) {
                    frame.parents.retain(|link| link.frame != reference);
                    if frame.parents.is_empty() {
                        doomed.push(child);
                    }
                }
            }
        }
    }
}
