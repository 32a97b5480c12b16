//! How a position comes into a pass: rules and memory first, then its value or its move scores,
//! then its moves.

use board::{Checks, Position};
use nets::MoveScores;

use super::{
    frame::{Edge, FORCING, Frame, FrameRef, LAST_LEVEL, Link, Ranked, State},
    opponent::Costs,
    pass::{Ask, News, PROVEN, Pending, Root, Searcher, frame_key, memory_key},
    pool::{Order, Ticket},
};
use crate::{
    memory::{Bounds, Memory, NO_MOVE},
    quiet::{add_checks, exchange, forcing_among},
    rules,
    score::{INFINITY, MATE, Value, child_separator_less, from_child_less, from_winner},
    selectivity::{PLY, Selectivity, Verdict},
};

/// Moves in front of the order whose positions are looked up before one is opened. Making a move
/// costs a hundredth of an evaluation, and there are thirty.
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

/// What is to be done with the move at this place of the frame's order, unless it gives check;
/// `value` is the position's own, if known.
fn wish(
    rules: &Selectivity,
    frame: &Frame,
    place: usize,
    edge: Edge,
    value: Option<Value>,
    scores: MoveScores,
) -> Wish {
    if frame.depth == 0
        || !rules.is_late(&frame.position, frame.check, edge.mv, place, frame.ply == 0)
    {
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

/// What is to be done with the frame's next move. Moves that are to be skipped are most of a
/// position's, so they are passed over at once. Not the last: what becomes of it may close the
/// frame. Nor where a reply may draw by repetition. The frame's lower bound and best move stay,
/// since a move that misses the separator says nothing of them, and so does its level: nothing new
/// is open.
fn next_wish(
    rules: &Selectivity,
    frame: &mut Frame,
    value: Option<Value>,
    scores: MoveScores,
) -> Wish {
    let (mut next, mut upper, mut hopeful) = (frame.next, frame.upper, frame.hopeful);
    let mut checks = None;
    let mut found = Wish::Full;
    while let Some(edge) = frame.edge(next) {
        found = wish(rules, frame, next, edge, value, scores);
        if found != Wish::Full
            && checks.get_or_insert_with(|| Checks::of(&frame.position)).gives(edge.mv)
        {
            found = Wish::Full;
        }
        if found != Wish::Skip || frame.ply <= 1 || next + 1 == frame.ranked.len() {
            break;
        }
        let cost = edge.cost.into();
        let at_most = from_child_less(child_separator_less(frame.separator, cost), cost);
        if at_most > upper || hopeful == NO_MOVE {
            (upper, hopeful) = (upper.max(at_most), edge.index);
        }
        next += 1;
    }
    (frame.next, frame.upper, frame.hopeful) = (next, upper, hopeful);
    found
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
    /// Orders a position's moves by their scores, or asks for those. The best move of an earlier
    /// pass comes first, and before it one of the first moves whose position is known to decide the
    /// question, but at the root: looking it up costs no evaluation (enhanced transposition
    /// cutoffs, Plaat 1996).
    pub(super) fn ask_moves(&mut self, root: &Root<'_>, reference: FrameRef, memory: &Memory) {
        let Some(frame) = self.frames.get_mut(reference) else { return };
        frame.find_legal();
        let Some(scores) = memory.scores(frame.position.key(), frame.legal().len()) else {
            self.pending.push(Pending { frame: reference, ask: Ask::Moves });
            return;
        };
        let is_root = frame.ply == 0;
        let first = memory.best_move(frame.key);
        frame.costs = Costs::at(frame.ply.into(), frame.depth == 0, self.opponent_errors, scores);
        frame.ranked.clear();
        frame.ranked.extend(
            (0_u8..).zip(scores).map(|(index, &score)| Ranked::new(index, score, index == first)),
        );
        if is_root && !root.complete {
            frame
                .ranked
                .retain(|ranked| root.moves.iter().any(|&(_, allowed)| allowed == ranked.index()));
        }
        frame.ranked.sort_unstable();
        if !is_root
            && let Some(place) = self.known_cutoff(reference, memory)
            && let Some(frame) = self.frames.get_mut(reference)
        {
            frame.ranked[..=place].rotate_right(1);
        }
        self.line_up(reference);
    }

    /// The place of the first of the moves in front whose position is known to make this one reach
    /// its separator.
    fn known_cutoff(&self, reference: FrameRef, memory: &Memory) -> Option<usize> {
        let frame = self.frames.get(reference)?;
        let depth = (frame.depth - PLY).max(0);
        let deeper = self.deeper_answers.then_some(depth);
        let key_after = |edge: &Edge| memory_key(&frame.position.after(edge.mv));
        let reaches = |edge: &Edge, key: u64| {
            let separator = child_separator_less(frame.separator, edge.cost.into());
            memory.answer(key, depth, deeper, |known| known.upper < separator).is_some()
        };
        let first = frame.edge(0)?;
        if reaches(&first, key_after(&first)) {
            return Some(0);
        }
        // The others' keys before any of their answers: the processor then waits for all of these
        // at once.
        let mut keys = [0; LOOKED_UP];
        let others = (1..LOOKED_UP).map_while(|place| frame.edge(place));
        keys.iter_mut().zip(others.clone()).for_each(|(key, edge)| *key = key_after(&edge));
        Some(1 + others.zip(keys).position(|(edge, key)| reaches(&edge, key))?)
    }

    /// A frame whose moves are in order waits for its turn.
    pub(super) fn line_up(&mut self, reference: FrameRef) {
        let Some(frame) = self.frames.get_mut(reference) else { return };
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
        let value = memory.value(frame.position.key());
        let verified = frame.verify.pop();
        let full = verified.is_some();
        let (place, wish) = match verified {
            Some(place) => (usize::from(place), Wish::Full),
            None => {
                let wish = next_wish(&self.selectivity, frame, value, self.move_scores);
                (frame.next, wish)
            }
        };
        let Some(edge) = frame.edge(place) else { return true };
        if !full {
            frame.next += 1;
        }
        let (opened, reduced) = self.open_move(root, reference, edge, wish, level, memory);
        match opened {
            Opened::Known(lower, upper) => {
                let parent = Link {
                    frame: reference,
                    edge: edge.index,
                    reduced,
                    cost: edge.cost,
                    doubt: 0.0,
                };
                self.news.push(News { parent, child: None, lower, upper });
            }
            Opened::Frame(child) => {
                let (Some(frame), Some(other)) =
                    (self.frames.get(reference), self.frames.get(child))
                else {
                    return true;
                };
                let before = memory.reached_before(other.key, other.depth, other.separator);
                let doubt = frame.doubt_by(place, value, before.map(|reached| !reached));
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
                let step = match frame.ranked.get(frame.next).map(|next| next.score()) {
                    Some(_) if self.order == Order::Decisiveness => self.pool.indecision(frame),
                    Some(FORCING) => frame.doubt_level(),
                    Some(next) => match self.move_scores {
                        MoveScores::Centipawns => {
                            self.pool.speculation(f32::from(next) - frame.separator as f32)
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
        let Some(frame) = self.frames.get(parent) else {
            return (Opened::Known(-INFINITY, INFINITY), false);
        };
        let separator = child_separator_less(frame.separator, edge.cost.into());
        // However unlikely a reply is, the game is drawn if it is the third time; further down that
        // is seen in time.
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
        (
            self.open_position(root, parent, position, depth.max(0), separator, level, memory),
            reduced,
        )
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
        let Some(frame) = self.frames.get(parent) else {
            return Opened::Known(-INFINITY, INFINITY);
        };
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
        // What a leaf learns holds for every root, so it must not come from a search, which saw one
        // game's repetitions.
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
            && let Verdict::Reaches(lower) =
                self.selectivity.verdict(depth, separator, check, value)
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
        let (lower, upper) =
            match self.selectivity.verdict(frame.depth, frame.separator, false, value) {
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

    /// Lets a position look at its forcing moves only; `bounds` are what declining them is worth.
    /// The bounds if there is none.
    fn set_forcing(
        &mut self,
        reference: FrameRef,
        bounds: (Value, Value),
    ) -> Option<(Value, Value)> {
        let frame = self.frames.get_mut(reference)?;
        (frame.lower, frame.upper) = bounds;
        frame.find_legal();
        forcing_among(&frame.position, frame.check, frame.legal(), &mut self.forcing);
        if frame.depth > 0 {
            add_checks(&frame.position, frame.legal(), &mut self.forcing);
        }
        let (rules, tables) = (self.selectivity, self.tables.as_deref());
        frame.ranked.clear();
        for &index in &self.forcing {
            let mv = frame.legal()[usize::from(index)];
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
            frame.ranked.push(Ranked::new(index, FORCING, false));
        }
        let (bounds, is_settled) = ((frame.lower, frame.upper), frame.ranked.is_empty());
        self.line_up(reference);
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

#[cfg(test)]
mod tests {
    use board::CastlingMode;

    use super::*;
    use crate::kbest::frame::Frames;

    #[test]
    fn skipped_moves_are_passed_over_but_no_check_and_not_the_last() {
        let position =
            Position::from_fen("4k3/8/8/8/8/8/4P3/R3K3 w - - 0 1", CastlingMode::Standard).unwrap();
        let legal = position.legal_moves();
        let check = legal.iter().position(|&mv| position.gives_check(mv)).unwrap();
        let mut frames = Frames::default();
        let mut passed = |ply, scores: &[i16], from| {
            let reference = frames.add(position.clone(), false, 0, 3 * PLY, 0, ply);
            let frame = frames.get_mut(reference).unwrap();
            frame.find_legal();
            // The check comes sixth.
            let others = (0..legal.len()).filter(|&place| place != check);
            let mut order: Vec<usize> = others.collect();
            order.insert(5, check);
            let score = |place: usize| scores[place.min(scores.len() - 1)];
            frame.ranked = order
                .iter()
                .enumerate()
                .map(|(place, &index)| Ranked::new(index as u8, score(place), false))
                .collect();
            frame.next = from;
            let wish = next_wish(&Selectivity::default(), frame, Some(0), MoveScores::Policy);
            (wish, frame.next, frame.upper, frame.hopeful == order[from] as u8)
        };
        let unlikely = [-50, -50, -50, -900];
        assert_eq!(
            passed(2, &unlikely, 0),
            (Wish::Full, 0, -INFINITY, false),
            "the first are searched"
        );
        let before_the_check = (Wish::Full, 5, -1, true);
        assert_eq!(
            passed(2, &unlikely, 3),
            before_the_check,
            "what was passed misses the separator"
        );
        assert_eq!(passed(2, &unlikely, 6), (Wish::Skip, legal.len() - 1, -1, true));
        assert_eq!(
            passed(2, &[-50], 3),
            (Wish::Reduced(1), 3, -INFINITY, false),
            "likely moves are searched"
        );
        assert_eq!(
            passed(1, &unlikely, 3),
            (Wish::Skip, 3, -INFINITY, false),
            "a reply may draw by repetition"
        );
    }
}
