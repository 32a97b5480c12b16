//! One zero-window pass: is the root worth at least the separator?
//!
//! A best-first search over the whole tree at once. Open positions (frames) wait in the pool; one
//! step takes the most urgent one after the other and opens its next move, until K positions need
//! the network, evaluates those together, and backs the results up. A frame closes when its value
//! reaches its separator or its moves are exhausted; whatever was open only for its sake is
//! dropped. A position reached by several ways at the same depth and separator is one frame.

use std::{collections::HashMap, sync::Arc, time::Duration};

use board::{Move, Position, Tablebases};
use eval::{EvalError, Evaluator, Stream};
use nets::{Calibration, MoveScores};

use super::{
    flight::Flights,
    frame::{FrameRef, Frames, Link},
    pool::{Order, Pool},
};
use crate::{
    memory::{Bounds, Memory, NO_MOVE},
    score::{INFINITY, MATE_BOUND, Value, from_child_less},
    selectivity::{PLY, Selectivity},
    view::View,
};

/// Depth under which proven mates are stored: they hold at any depth.
pub(super) const PROVEN: i16 = i16::MAX;

/// Up to this level of the pool work is likely enough to be needed (no doubt on the way from the
/// root above one in 50) to be worth an evaluation that costs as much as any other.
const SURE: usize = 0;

/// Whether and when a pass must end early.
pub(super) trait Deadline {
    /// Asked every few positions and before every batch.
    fn is_over(&mut self) -> bool;
    /// Evaluations that may still be made.
    fn evaluations_left(&self) -> u64;
    /// Evaluations that a batch may have without passing the time.
    fn affordable(&self) -> u64;
    /// Some are asked for.
    fn send(&mut self, evaluations: u64);
    /// Some were answered.
    fn receive(&mut self, evaluations: u64);
    /// Does somebody ask for a view of the inside?
    fn wants_view(&self) -> bool {
        false
    }
    /// What was asked for; `elapsed` is still to be filled in.
    fn show(&mut self, _view: View) {}
}

/// What a pass works with.
pub(super) struct Context<'a> {
    pub memory: &'a mut Memory,
    pub evaluator: &'a mut dyn Evaluator,
    pub deadline: &'a mut dyn Deadline,
}

/// How a pass ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PassEnd {
    /// Bounds on the root's value, on one side of the separator, and the best move; below it the
    /// one that came closest.
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
    /// No larger depth will be asked for.
    pub last_depth: i16,
}

impl Root<'_> {
    /// The key under which its bounds are remembered.
    pub(super) fn key(&self) -> u64 {
        memory_key(self.position)
    }
}

/// The bounds of a child on their way to a parent.
pub(super) struct News {
    pub parent: Link,
    /// `None` where no frame was needed.
    pub child: Option<FrameRef>,
    pub lower: Value,
    pub upper: Value,
}

/// What the network is asked about a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    Value,
    Moves,
}

/// A question of the next batch, and whose it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    pub frame: FrameRef,
    pub ask: Ask,
}

/// The working state of passes; memory is used again from one to the next.
pub(super) struct Searcher {
    pub(super) frames: Frames,
    /// The roots of the pass and their levels of doubt: first the question that is asked, then
    /// those ahead.
    pub(super) tops: Vec<(FrameRef, u8)>,
    /// Evaluations when [`Searcher::weigh`] was last done.
    pub(super) weighed: u64,
    /// Open frames by (key, depth, separator).
    pub(super) open: HashMap<u64, FrameRef, std::hash::BuildHasherDefault<KeyHasher>>,
    pub(super) pool: Pool,
    pub(super) pending: Vec<Pending>,
    pub(super) news: Vec<News>,
    /// Working memory for the places of forcing moves.
    pub(super) forcing: Vec<u8>,
    /// Empty; memory for walks through the open frames.
    pub(super) walk: Vec<FrameRef>,
    pub(super) flights: Flights,
    /// Open frames from which on the deepest go first, and twice which none is opened.
    pub(super) frame_limit: usize,
    /// How late moves are treated.
    pub selectivity: Selectivity,
    /// What unlikely replies count less for the opponent: [`Costs`](super::opponent::Costs); 0 for
    /// a perfect one, and without a policy.
    pub opponent_errors: Value,
    /// Use what was found at a larger depth, proven mates too: more than a search of this depth
    /// could see.
    pub deeper_answers: bool,
    /// What the bins of the pool mean.
    pub order: Order,
    /// [`crate::Settings::fill`].
    pub fill: usize,
    /// Do leaves answer captures before their value is trusted?
    pub quiet_leaves: bool,
    /// Endgame tables, asked before anything is evaluated.
    pub tables: Option<Arc<Tablebases>>,
    /// What the network says of moves. A policy comes with the value: both are asked for at once.
    pub(super) move_scores: MoveScores,
    /// Deepest ply seen since the last [`Searcher::reset_statistics`].
    pub deepest: u32,
    /// Batches and the evaluations in them since then.
    pub batches: u64,
    pub evaluations: u64,
    /// Of those, by the root's move, in generation order, that led there.
    pub(super) spent: [u64; 256],
    /// Evaluations of the batch that was sent last.
    pub(super) last_batch: usize,
    /// Rank and bounds of the line that is being searched, for those who watch.
    pub line: (usize, Bounds),
}

impl std::fmt::Debug for Searcher {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Searcher")
            .field("open", &self.frames.open_count())
            .finish_non_exhaustive()
    }
}

/// Keys are random already.
#[derive(Clone, Copy, Default)]
pub(super) struct KeyHasher(u64);

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

pub(super) fn frame_key(key: u64, depth: i16, separator: Value) -> u64 {
    let question = u64::from(depth as u16) << 32 | u64::from(separator as u32);
    key ^ (question.wrapping_mul(0x9e37_79b9_7f4a_7c15)).rotate_left(17)
}

/// The key under which bounds are remembered: near the fifty-move limit a position is a different
/// one at each clock.
pub(super) fn memory_key(position: &Position) -> u64 {
    let clock = position.halfmove_clock();
    if clock < 70 {
        position.key()
    } else {
        position.key() ^ u64::from(clock).wrapping_mul(0xd6e8_feb8_6659_fd93)
    }
}

impl Searcher {
    /// `calibration` gives the bins and the meaning of move scores; `bytes` bound the frames.
    pub(super) fn new(calibration: &Calibration, bytes: usize) -> Self {
        Self {
            frames: Frames::default(),
            tops: Vec::new(),
            weighed: 0,
            open: HashMap::default(),
            pool: Pool::new(calibration),
            pending: Vec::new(),
            news: Vec::new(),
            forcing: Vec::new(),
            walk: Vec::new(),
            flights: Flights::default(),
            frame_limit: (bytes / 2 / Frames::TYPICAL_BYTES).max(64),
            selectivity: Selectivity::default(),
            opponent_errors: 0,
            deeper_answers: true,
            order: Order::Need,
            fill: 0,
            quiet_leaves: true,
            tables: None,
            move_scores: calibration.move_scores,
            deepest: 0,
            batches: 0,
            evaluations: 0,
            spent: [0; 256],
            last_batch: 0,
            line: (1, Bounds::default()),
        }
    }

    pub(super) fn reset_statistics(&mut self) {
        (self.deepest, self.batches, self.evaluations) = (0, 0, 0);
        self.spent.fill(0);
    }

    /// The part of the evaluations below the root since [`Searcher::reset_statistics`] that one of
    /// its moves, in generation order, has had.
    pub(super) fn share_of(&self, index: u8) -> Option<f64> {
        let all: u64 = self.spent[..usize::from(NO_MOVE)].iter().sum();
        (all > 0).then(|| self.spent[usize::from(index)] as f64 / all as f64)
    }

    /// Compares the root's value with `separator`, evaluating up to `width` positions together: as
    /// many as the evaluator likes, whatever they are, and beyond that those that will most likely
    /// be needed.
    pub(super) fn pass(
        &mut self,
        root: &Root<'_>,
        separator: Value,
        width: usize,
        context: &mut Context<'_>,
    ) -> Result<PassEnd, EvalError> {
        let end = self.compare(root, separator, width, context);
        let end = end.and_then(|end| self.recall(context).map(|()| end));
        if end.is_err() {
            self.ground(context.evaluator);
        }
        end
    }

    /// As [`Searcher::pass`], which takes back what this leaves in flight.
    fn compare(
        &mut self,
        root: &Root<'_>,
        separator: Value,
        width: usize,
        context: &mut Context<'_>,
    ) -> Result<PassEnd, EvalError> {
        self.frames.clear();
        self.open.clear();
        self.pool.clear();
        self.pending.clear();
        self.tops.clear();
        let top = self.add_root(root, root.depth, separator, 0);
        let mut end = None;
        self.ask_moves(root, top, context.memory);
        let mut turns = 0_u32;
        let Stream { batch: liked, in_flight: most_in_flight } =
            context.evaluator.preferred_stream();
        let free = if self.fill == 0 { liked } else { self.fill };
        let looks_ahead = self.looks_ahead(free.min(width) * most_in_flight);
        if looks_ahead {
            self.look_ahead(root, separator, context);
        }
        self.weighed = self.evaluations;
        loop {
            if looks_ahead && self.is_to_weigh() {
                self.weigh();
            }
            // Collect.
            let most =
                context.deadline.evaluations_left().min(context.deadline.affordable()).max(1);
            let width = (width as u64).min(most) as usize;
            while self.pending.len() < width && end.is_none() {
                turns = turns.wrapping_add(1);
                if turns.is_multiple_of(64) && context.deadline.is_over() {
                    break;
                }
                let open = self.frames.open_count();
                if self.pool.len() > 4 * open + 1024 {
                    let frames = &self.frames;
                    self.pool.retain(|ticket| frames.is_valid(ticket));
                }
                let crowded = open > self.frame_limit;
                if crowded {
                    self.drop_ahead();
                }
                let is_doubtful = self.pool.next_level().is_some_and(|level| level > SURE);
                if is_doubtful && self.pending.len() >= free && self.order == Order::Need {
                    break; // It can wait for the answers to this batch.
                }
                let ticket = if crowded { self.pool.pop_deepest() } else { self.pool.pop() };
                let Some(ticket) = ticket else { break };
                if !self.open_next(root, ticket, context.memory) {
                    if self.pending.is_empty() && self.flights.len() == 0 {
                        return Ok(PassEnd::Interrupted);
                    }
                    break; // No memory for another position: first those that there are.
                }
                end = self.back_up(root, top, context.memory);
            }
            if let Some(bounds) = end {
                return Ok(PassEnd::Decided(bounds));
            }
            // Evaluate.
            let frames = &self.frames;
            self.pending.retain(|pending| frames.get(pending.frame).is_some());
            let is_over = context.deadline.is_over();
            if is_over && self.flights.len() == 0 {
                return Ok(PassEnd::Interrupted);
            }
            // A further batch is for a device that would wait otherwise: half of one would delay
            // the next.
            let is_worth_it =
                self.flights.len() == 0 || self.pending.len() >= free.min(width).div_ceil(2);
            if !is_over && is_worth_it && !self.pending.is_empty() {
                let sent = self.send(width, context)?;
                if sent > 0 && context.deadline.wants_view() {
                    context.deadline.show(self.view(root, separator, width));
                }
                if sent == 0 && self.pool.len() > 0
                    || sent > 0 && self.flights.len() < most_in_flight
                {
                    continue; // The tree works while the device does; what is in flight already is asked no second time.
                }
            }
            if self.flights.len() == 0 {
                if self.pending.is_empty() && self.pool.len() == 0 {
                    return Ok(PassEnd::Interrupted); // Cannot be: an open root has open work.
                }
                continue;
            }
            self.receive(root, context)?;
            end = self.back_up(root, top, context.memory);
            if let Some(bounds) = end {
                return Ok(PassEnd::Decided(bounds));
            }
        }
    }

    fn view(&self, root: &Root<'_>, separator: Value, width: usize) -> View {
        let (line, Bounds { lower, upper, .. }) = self.line;
        View {
            depth: (root.depth / PLY) as u32,
            line,
            lower,
            upper,
            separator,
            open: self.frames.open_count(),
            bins: self.pool.census(),
            batch: self.last_batch,
            width,
            batches: self.batches,
            evaluations: self.evaluations,
            elapsed: Duration::ZERO,
        }
    }

    /// Works through the news; the root's bounds once it closes.
    fn back_up(&mut self, root: &Root<'_>, top: FrameRef, memory: &mut Memory) -> Option<Bounds> {
        while let Some(News { parent, child, lower, upper }) = self.news.pop() {
            let Link { frame: reference, edge, reduced, cost, doubt } = parent;
            let cost = Value::from(cost);
            let Some(frame) = self.frames.get_mut(reference) else { continue };
            if let Some(child) = child {
                // Only now: a parent is exhausted when its last child's result has arrived.
                frame.children.retain(|&other| other != child);
                frame.doubt = (frame.doubt - doubt).max(0.0);
            }
            let (at_least, at_most) = (from_child_less(upper, cost), from_child_less(lower, cost));
            if reduced && at_least >= frame.separator && at_least <= MATE_BOUND {
                // Better than a late move should be: look again at full depth.
                let place = frame.ranked.iter().position(|ranked| ranked.index() == edge);
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
                // Not that of the root if it is one of the questions ahead, and not all moves are
                // searched.
                let store = root.complete || frame.ply > 0;
                self.close(reference, lower, upper, memory, store);
            } else {
                let extra = match (self.order, self.move_scores) {
                    (Order::Decisiveness, _) => self.pool.indecision(frame),
                    (Order::Need, MoveScores::Policy) => frame.doubt_level(),
                    (Order::Need, MoveScores::Centipawns) => 0,
                };
                self.enqueue(reference, extra);
            }
        }
        None
    }

    /// Remembers the bounds, tells the parents, drops what was open for this frame's sake.
    pub(super) fn close(
        &mut self,
        reference: FrameRef,
        lower: Value,
        upper: Value,
        memory: &mut Memory,
        store: bool,
    ) {
        let Some(frame) = self.frames.get_mut(reference) else { return };
        let best = frame.best_known(lower, upper);
        let (key, depth, separator) = (frame.key, frame.depth, frame.separator);
        let parents = std::mem::take(&mut frame.parents);
        let children = std::mem::take(&mut frame.children);
        if store {
            memory.store_bounds(key, depth, Bounds { lower, upper, best });
            // A leaf counts its forcing moves only.
            let found = Bounds { lower, upper, best: if depth == 0 { NO_MOVE } else { best } };
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
    pub(super) fn drop_frame(&mut self, reference: FrameRef) {
        let mut doomed = std::mem::take(&mut self.walk);
        doomed.push(reference);
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
        self.walk = doomed;
    }
}
