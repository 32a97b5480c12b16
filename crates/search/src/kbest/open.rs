//! How a position comes into a pass: rules and memory first, then its value or its move scores, then its moves.

use board::Position;
use nets::MoveScores;

use super::{
    frame::{Edge, FORCING, Frame, FrameRef, LAST_LEVEL, Link, State},
    opponent::Costs,
    pass::{Ask, News, PROVEN, Pending, Root, Searcher, frame_key, memory_key},
    pool::{Order, Ticket},
};
use crate::{
    memory::{Bounds, Memory},
    quiet::{exchange, forcing_moves, forcing_moves_and_checks},
    rules,
    score::{INFINITY, MATE, Value, child_separator_less, from_winner},
    selectivity::{PLY, Selectivity, Verdict},
};

/// Moves in front of the order whose positions are looked up before one is opened. Making a move costs a hundredth of an
/// evaluation, and there are thirty.
const LOOKED_UP: usize = 6;

/// What is to be done with a move, unless it gives check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    /// Search to full depth.
    Full,
    /// Search to this many plies less.
    Reduced(i16),
    /// Take it to miss the separator.
    Skip,
}

/// What is to be done with the move at this place of the frame's order; `value` is the position's own, if known.
fn wish(rules: &Selectivity, frame: &Frame, place: usize, value: Option<Value>, scores: MoveScores) -> Wish {
    let edge = frame.edges[place];
    if frame.depth == 0 || !rules.is_late(&frame.position, frame.check, edge.mv, place, frame.ply == 0) {
        return Wish::Full;
    }
    if frame.ply > 0 && rules.is_hopeless(edge.score, frame.depth, frame.separator, value, scores) {
        return Wish::Skip;
    }
    match rules.reduction(frame.depth, place) {
        0 => Wish::Full,
        plies => Wish::Reduced(plies),
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
    /// Orders a position's moves by their scores, or asks for those. The best move of an earlier pass comes first, and
    /// before it one of the first moves whose position is known to decide the question, but at the root: looking it up costs no
    /// evaluation (enhanced transposition cutoffs, Plaat 1996).
    pub(super) fn ask_moves(&mut self, root: &Root<'_>, reference: FrameRef, memory: &Memory) {
        let Some(frame) = self.frames.get_mut(reference) else { return };
        frame.find_legal();
        let (frame, moves) = (&*frame, frame.legal());
        let Some(scores) = memory.scores(frame.position.key(), moves.len()) else {
            self.pending.push(Pending { frame: reference, ask: Ask::Moves });
            return;
        };
        let is_root = frame.ply == 0;
        let first = memory.best_move(frame.key);
        let depth = (frame.depth - PLY).max(0);
        let key_after = |edge: &Edge| memory_key(&frame.position.after(edge.mv));
        let reaches = |edge: &Edge, key: u64| {
            let separator = child_separator_less(frame.separator, edge.cost.into());
            memory
                .answer(key, depth, self.deeper_answers.then_some(depth), |known| known.upper < separator)
                .is_some()
        };
        let is_allowed = |index: u8| !is_root || root.moves.iter().any(|&(_, allowed)| allowed == index);
        let order = &mut self.order_of_moves;
        order.clear();
        order.extend((0_u8..).zip(scores).filter(|&(index, _)| is_allowed(index)).map(|(index, &score)| {
            // The first move, then falling scores, then generation order.
            let falling = (i32::from(i16::MAX) - i32::from(score)) as u32;
            u32::from(index != first) << 24 | falling << 8 | u32::from(index)
        }));
        order.sort_unstable();
        let costs = Costs::at(frame.ply.into(), frame.depth == 0, self.opponent_errors, scores);
        let mut edges = std::mem::take(&mut self.spare_edges);
        edges.extend(order.iter().map(|&place| {
            let index = place as u8;
            let score = scores[usize::from(index)];
            Edge { mv: moves[usize::from(index)], index, score, cost: costs.of(score) }
        }));
        let looked_up = if is_root { &[] } else { &edges[..edges.len().min(LOOKED_UP)] };
        let known = looked_up.split_first().and_then(|(first, others)| {
            if reaches(first, key_after(first)) {
                return Some(0);
            }
            // The others' keys before any of their answers: the processor then waits for all of these at once.
            let mut keys = [0; LOOKED_UP];
            keys.iter_mut().zip(others).for_each(|(key, edge)| *key = key_after(edge));
            Some(1 + others.iter().zip(keys).position(|(edge, key)| reaches(edge, key))?)
        });
        if let Some(place) = known {
            edges[..=place].rotate_right(1);
        }
        self.set_edges(reference, edges);
    }

    /// Gives a frame its moves, in their order, and puts it into the pool.
    pub(super) fn set_edges(&mut self, reference: FrameRef, edges: Vec<Edge>) {
        let Some(frame) = self.frames.get_mut(reference) else { return };
        self.spare_edges = std::mem::replace(&mut frame.edges, edges);
        self.spare_edges.clear();
        frame.state = State::Open;
        let extra = match self.order {
            Order::Need => 0,
            Order::Decisiveness => self.pool.indecision(frame),
        };
        self.enqueue(reference, extra);
    }

    /// Puts a ticket for the frame's next move into the pool.
    pub(super) fn enqueue(&mut self, reference: FrameRef, extra: u8) {
        let Some(frame) = self.frames.get_mut(reference) else { return };
        if !frame.has_moves() {
            return;
        }
        let level = frame.speculation.saturating_add(extra).min(LAST_LEVEL);
        if frame.ticket_level <= level {
            return; // Already waiting at least as far in front.
        }
        frame.ticket = frame.ticket.wrapping_add(1);
        frame.ticket_level = level;
        let ticket = Ticket { frame: reference.slot, stamp: frame.ticket, ply: frame.ply };
        self.pool.push(ticket, level);
    }

    /// Opens the next move of the frame behind a ticket. False when there is no memory for it.
    pub(super) fn open_next(&mut self, root: &Root<'_>, ticket: Ticket, memory: &Memory) -> bool {
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
        let wish = if full {
            Wish::Full
        } else {
            wish(&self.selectivity, frame, place, memory.value(frame.position.key()), self.move_scores)
        };
        let (opened, reduced) = self.open_move(root, reference, edge, wish, level, memory);
        match opened {
            Opened::Known(lower, upper) => {
                let parent =
                    Link { frame: reference, edge: edge.index, reduced, cost: edge.cost, doubt: 0.0 };
                self.news.push(News { parent, child: None, lower, upper });
            }
            Opened::Frame(child) => {
                let (Some(frame), Some(other)) = (self.frames.get(reference), self.frames.get(child)) else {
                    return true;
                };
                let before = memory.reached_before(other.key, other.depth, other.separator);
                let doubt =
                    frame.doubt_by(place, memory.value(frame.position.key()), before.map(|reached| !reached));
                let root_edge = if frame.ply > 0 { frame.root_edge } else { edge.index };
                if let Some(frame) = self.frames.get_mut(child) {
                    if frame.parents.is_empty() {
                        frame.root_edge = root_edge;
                    }
                    let index = edge.index;
                    frame.parents.push(Link {
                        frame: reference,
                        edge: index,
                        reduced,
                        cost: edge.cost,
                        doubt,
                    });
                }
                let Some(frame) = self.frames.get_mut(reference) else { return true };
                // What is verified is needed before what came after it.
                let at = if full { 0 } else { frame.children.len() };
                frame.children.insert(at, child);
                frame.doubt += doubt;
                let step = match frame.edges.get(frame.next) {
                    Some(_) if self.order == Order::Decisiveness => self.pool.indecision(frame),
                    Some(next) if next.score == FORCING => frame.doubt_level(),
                    Some(next) => match self.move_scores {
                        MoveScores::Centipawns => {
                            self.pool.speculation(f32::from(next.score) - frame.separator as f32)
                        }
                        MoveScores::Policy => frame.doubt_level(),
                    },
                    None => 0,
                };
                self.enqueue(reference, step);
            }
            Opened::Full => {
                let Some(frame) = self.frames.get_mut(reference) else { return false };
                if full {
                    frame.verify.extend(u8::try_from(place));
                } else {
                    frame.next = place;
                }
                let extra = level.saturating_sub(frame.speculation);
                self.enqueue(reference, extra);
                return false;
            }
        }
        true
    }

    /// Rules and memory first; a frame where they do not decide.
    fn open_move(
        &mut self,
        root: &Root<'_>,
        parent: FrameRef,
        edge: Edge,
        mut wish: Wish,
        level: u8,
        memory: &Memory,
    ) -> (Opened, bool) {
        let Some(frame) = self.frames.get(parent) else { return (Opened::Known(-INFINITY, INFINITY), false) };
        let separator = child_separator_less(frame.separator, edge.cost.into());
        if wish != Wish::Full && frame.position.gives_check(edge.mv) {
            wish = Wish::Full;
        }
        // However unlikely a reply is, the game is drawn if it is the third time; further down that is seen in time.
        let may_draw = frame.ply == 1;
        if wish == Wish::Skip && !may_draw {
            return (Opened::Known(separator, INFINITY), false);
        }
        let position = frame.position.after(edge.mv);
        if wish != Wish::Full && may_draw && self.is_repetition(root, parent, &position) {
            wish = Wish::Full;
        }
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
        let is_leaf = frame.depth == 0;
        let ply = frame.ply + 1;
        self.deepest = self.deepest.max(u32::from(ply));
        if position.is_insufficient_material() {
            return Opened::Known(0, 0);
        }
        if !is_leaf && self.is_repetition(root, parent, &position) {
            return Opened::Known(0, 0);
        }
        // A capture may give mate, which is worth more than a win by tables.
        if let Some(tables) = &self.tables
            && let Some(winner) = tables.winner(&position)
            && !position.legal_moves().is_empty()
        {
            let value = from_winner(winner, position.turn());
            return Opened::Known(value, value);
        }
        let key = memory_key(&position);
        // Before the answer: the processor then waits for both at once.
        let value = memory.value(position.key());
        let decides = |known: &Bounds| known.lower >= separator || known.upper < separator;
        // What a leaf learns holds for every root, so it must not come from a search, which saw one game's repetitions.
        let deeper = self.deeper_answers.then_some(if is_leaf { PROVEN } else { depth });
        if let Some(known) = memory.answer(key, depth, deeper, decides) {
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
        let check = position.is_check();
        if position.halfmove_clock() < 100
            && let Some(value) = value
            && let Verdict::Reaches(lower) = self.selectivity.verdict(depth, separator, check, value)
        {
            return Opened::Known(lower, INFINITY);
        }
        // What was evaluated has moves, unless two positions share a key.
        let legal = if value.is_none() { position.legal_moves() } else { Default::default() };
        if value.is_none() && legal.is_empty() {
            let value = if check { -MATE } else { 0 };
            return Opened::Known(value, value);
        }
        if position.halfmove_clock() >= 100 {
            return Opened::Known(0, 0);
        }
        if self.frames.open_count() >= 2 * self.frame_limit {
            return Opened::Full;
        }
        let child = self.frames.add(position, check, key, depth, separator, ply);
        if let Some(frame) = self.frames.get_mut(child) {
            frame.know_legal(&legal);
            if self.order == Order::Need {
                frame.speculation = level;
            }
        }
        if let Some((lower, upper)) = self.begin(root, child, value, memory) {
            self.drop_frame(child);
            return Opened::Known(lower, upper);
        }
        self.open.insert(frame_key(key, depth, separator), child);
        Opened::Frame(child)
    }

    /// Takes the first step on a position; its bounds where that settles it.
    pub(super) fn begin(
        &mut self,
        root: &Root<'_>,
        reference: FrameRef,
        value: Option<Value>,
        memory: &Memory,
    ) -> Option<(Value, Value)> {
        let frame = self.frames.get(reference)?;
        // Loud leaves are taken at the network's word, in check too.
        let check = frame.check && (frame.depth > 0 || self.quiet_leaves);
        if frame.depth == 0 && check {
            self.set_forcing(reference, (-INFINITY, -INFINITY));
            return None;
        }
        if !self.selectivity.asks_value(frame.depth, frame.separator, check) {
            self.ask_moves(root, reference, memory);
            return None;
        }
        let Some(value) = value else {
            self.pending.push(Pending { frame: reference, ask: Ask::Value });
            return None;
        };
        self.take_value(root, reference, value, memory)
    }

    /// Goes on with a position whose value is known; its bounds where that settles it.
    pub(super) fn take_value(
        &mut self,
        root: &Root<'_>,
        reference: FrameRef,
        value: Value,
        memory: &Memory,
    ) -> Option<(Value, Value)> {
        let frame = self.frames.get(reference)?;
        if frame.depth == 0 && !self.quiet_leaves {
            return Some((value, value));
        }
        let (lower, upper) = match self.selectivity.verdict(frame.depth, frame.separator, false, value) {
            Verdict::Reaches(lower) => return Some((lower, INFINITY)),
            Verdict::Open => {
                self.ask_moves(root, reference, memory);
                return None;
            }
            // A leaf's mover may decline every capture.
            Verdict::Misses(upper) => (if frame.depth == 0 { value } else { -INFINITY }, upper),
        };
        self.set_forcing(reference, (lower, upper))
    }

    /// Lets a position look at its forcing moves only; `bounds` are what declining them is worth. The bounds if there is none.
    fn set_forcing(&mut self, reference: FrameRef, bounds: (Value, Value)) -> Option<(Value, Value)> {
        let frame = self.frames.get_mut(reference)?;
        (frame.lower, frame.upper) = bounds;
        let is_leaf = frame.depth == 0;
        let moves = if is_leaf {
            forcing_moves(&frame.position)
        } else {
            frame.find_legal();
            forcing_moves_and_checks(&frame.position, frame.legal())
        };
        let (rules, tables) = (self.selectivity, self.tables.as_deref());
        let mut edges = std::mem::take(&mut self.spare_edges);
        for (place, &mv) in moves.iter().enumerate() {
            let is_capture = mv.is_capture() || mv.is_promotion();
            if is_capture
                && !frame.check
                && let Some(reach) =
                    rules.too_little(bounds.1, exchange(&frame.position, mv), frame.separator)
            {
                // It may mate, or leave too little to mate, or what the tables know.
                let after = frame.position.after(mv);
                let decides = after.is_check()
                    || after.is_insufficient_material()
                    || tables.is_some_and(|tables| tables.winner(&after).is_some());
                if !decides {
                    frame.upper = frame.upper.max(reach);
                    continue;
                }
            }
            // A leaf counts its forcing moves only.
            let place =
                if is_leaf { Some(place) } else { frame.legal().iter().position(|&other| other == mv) };
            let index = place.and_then(|place| u8::try_from(place).ok());
            edges.extend(index.map(|index| Edge { mv, index, score: FORCING, cost: 0 }));
        }
        let bounds = (frame.lower, frame.upper);
        let is_settled = edges.is_empty();
        self.set_edges(reference, edges);
        is_settled.then_some(bounds)
    }

    /// Has this position occurred on the way from the root, or twice before it?
    fn is_repetition(&self, root: &Root<'_>, parent: FrameRef, position: &Position) -> bool {
        let mut at = self.frames.get(parent);
        let way = std::iter::from_fn(|| {
            let frame = at?;
            at = frame.parents.first().and_then(|link| self.frames.get(link.frame));
            Some(frame.position.key())
        });
        rules::is_repetition(position, way, root.history)
    }
}
