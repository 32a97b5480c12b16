//! Open positions of one zero-window pass, in a slab whose slots are used again.

use board::{Move, Position};

use super::{opponent::Costs, pool::Ticket};
use crate::{
    memory::NO_MOVE,
    score::{INFINITY, Value},
};

/// Levels of the pool for each unit of the natural logarithm of a chance.
const LEVELS_A_UNIT: f32 = 12.0;

/// No position is further back: `u8::MAX` says that there is no level.
pub(super) const LAST_LEVEL: u8 = u8::MAX - 1;

/// A smaller doubt is none: what it leaves at level 0 is evaluated although it costs as much as any
/// other. That wastes 1.3 % of the evaluations, twice as large a doubt 4.1 % (docs/2-search.md).
const CERTAIN: f32 = 0.02;

/// Levels of the pool for minus the logarithm of a chance.
pub(super) fn levels(doubt: f32) -> u8 {
    if doubt < CERTAIN {
        return 0;
    }
    // `as` saturates.
    ((doubt * LEVELS_A_UNIT + 0.5) as u8).max(1)
}

/// The score of moves that are looked at because they are forcing.
pub(super) const FORCING: i16 = i16::MAX;

/// A slot number and the life it meant: outdated references are recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameRef {
    pub slot: u32,
    pub life: u32,
}

/// A parent, and which of its moves leads here.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub frame: FrameRef,
    /// Place in generation order.
    pub edge: u8,
    /// Is the move searched to less than its full depth?
    pub reduced: bool,
    /// [`Edge::cost`].
    pub cost: u8,
    /// What the move, while it is being searched, adds to [`Frame::doubt`].
    pub doubt: f32,
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
    pub cost: u8,
}

/// A move's score and its place in generation order in one number: the smallest is opened first.
/// There are thirty in a position, most of which are never opened, so what else an [`Edge`] has is
/// found when somebody wants it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ranked(u32);

impl Ranked {
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

/// A position whose value is being compared with a separator.
#[derive(Clone, Debug)]
pub(super) struct Frame {
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
    pub separator: Value,
    pub ply: u16,
    /// The root's move that leads here, in generation order; [`NO_MOVE`] at the root.
    pub root_edge: u8,
    /// Level of the pool that its first move has, by the doubts on the way from the root;
    /// `u8::MAX`: not known yet.
    pub speculation: u8,
    /// Proven: the value is at least this.
    pub lower: Value,
    /// The value through the moves resolved so far is at most this.
    pub upper: Value,
    /// Place in generation order of the move behind `lower`.
    pub best: u8,
    /// The same of the one with the largest upper bound so far: the move to try first next time.
    pub hopeful: u8,
    /// Its moves in the order in which they are opened; [`Frame::find_legal`] comes first.
    pub ranked: Vec<Ranked>,
    /// What its moves count less than they are worth.
    pub costs: Costs,
    /// Place in the order of the next move to open.
    pub next: usize,
    /// Minus the logarithm of the chance that all moves that are being searched miss the separator,
    /// and the next is needed; without meaning where moves have scores in centipawns.
    pub doubt: f32,
    /// Places in the order of moves whose reduced search reached the separator: to be searched to
    /// full depth.
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
    /// Finds the position's legal moves, once: a position that is evaluated is asked for them three
    /// times.
    pub(super) fn find_legal(&mut self) {
        if self.legal.is_empty() {
            self.legal.extend_from_slice(&self.position.legal_moves());
        }
    }

    /// What [`Frame::find_legal`] has found.
    pub(super) fn legal(&self) -> &[Move] {
        &self.legal
    }

    /// Somebody has found them already; none: nobody has.
    pub(super) fn know_legal(&mut self, moves: &[Move]) {
        self.legal.clear();
        self.legal.extend_from_slice(moves);
    }

    /// The move at a place of the order.
    pub(super) fn edge(&self, place: usize) -> Option<Edge> {
        let ranked = *self.ranked.get(place)?;
        let (index, score) = (ranked.index(), ranked.score());
        debug_assert!(usize::from(index) < self.legal.len(), "nobody has found the legal moves");
        let mv = *self.legal.get(usize::from(index))?;
        Some(Edge { mv, index, score, cost: self.costs.of(score) })
    }

    /// Is there a move to open?
    pub(super) fn has_moves(&self) -> bool {
        self.next < self.ranked.len() || !self.verify.is_empty()
    }

    /// How doubtful it is that the next move will be needed, in levels of the pool.
    pub(super) fn doubt_level(&self) -> u8 {
        levels(self.doubt)
    }

    /// What a move adds to the doubt while it is being searched: minus the logarithm of its chance
    /// to miss the separator once those before it have. `value` is the position's own; `before` is
    /// whether the move reached the separator when it was last searched to a smaller depth, if it
    /// is known.
    ///
    /// Logistic regressions over moves that were searched one at a time in positions of games
    /// (docs/2-search.md).
    pub(super) fn doubt_by(&self, place: usize, value: Option<Value>, before: Option<bool>) -> f32 {
        let Some(score) = self.ranked.get(place).map(|ranked| ranked.score()) else { return 0.0 };
        let above =
            value.map_or(0.0, |value| (value - self.separator) as f32 / 100.0).clamp(-5.0, 5.0);
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
    /// Bytes that one frame takes, moves and links included, for a usual number of moves.
    pub(super) const TYPICAL_BYTES: usize = size_of::<Frame>()
        + 40 * (size_of::<Ranked>() + size_of::<Move>())
        + 6 * size_of::<FrameRef>();

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
        check: bool,
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
                check: false,
                legal: Vec::new(),
                key: 0,
                depth: 0,
                separator: 0,
                ply: 0,
                root_edge: NO_MOVE,
                speculation: 0,
                lower: -INFINITY,
                upper: -INFINITY,
                best: NO_MOVE,
                hopeful: NO_MOVE,
                ranked: Vec::new(),
                costs: Costs::default(),
                next: 0,
                doubt: 0.0,
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
        frame.check = check;
        frame.key = key;
        frame.depth = depth;
        frame.separator = separator;
        frame.ply = ply;
        frame.root_edge = NO_MOVE;
        frame.speculation = 0;
        frame.lower = -INFINITY;
        frame.upper = -INFINITY;
        frame.best = NO_MOVE;
        frame.hopeful = NO_MOVE;
        frame.costs = Costs::default();
        frame.next = 0;
        frame.doubt = 0.0;
        frame.ticket_level = u8::MAX;
        self.reference(slot)
    }

    /// Positions for which there is memory, open or not.
    pub(super) fn slot_count(&self) -> usize {
        self.slots.len()
    }

    /// No position is in the pool, and none has a level.
    pub(super) fn forget_levels(&mut self) {
        for frame in &mut self.slots {
            (frame.speculation, frame.ticket_level) = (u8::MAX, u8::MAX);
        }
    }

    /// Frees a slot; its vectors keep their memory.
    pub(super) fn release(&mut self, slot: u32) {
        let frame = &mut self.slots[slot as usize];
        frame.state = State::Free;
        frame.life = frame.life.wrapping_add(1);
        frame.ticket = frame.ticket.wrapping_add(1);
        frame.legal.clear();
        frame.ranked.clear();
        frame.verify.clear();
        frame.children.clear();
        frame.parents.clear();
        self.free.push(slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_move_is_in_doubt_while_a_good_first_one_is_searched() {
        let mut frames = Frames::default();
        let reference = frames.add(Position::default(), false, 0, 32, 0, 1);
        let frame = frames.get_mut(reference).unwrap();
        // Chances of 60 %, 30 % and 5 %.
        frame.ranked = (0..)
            .zip([-51, -120, -300])
            .map(|(index, score)| Ranked::new(index, score, false))
            .collect();
        assert_eq!(frame.doubt_level(), 0, "the first move is needed");
        let doubts = [-500, 0, 300].map(|value| frame.doubt_by(0, Some(value), None));
        assert!(levels(doubts[0]) == 1 && doubts.is_sorted(), "{doubts:?}");
        assert_eq!(
            levels(frame.doubt_by(0, Some(-500), Some(false))),
            0,
            "hopeless, and so it was before"
        );
        let doubts = [0, 1, 2].map(|place| frame.doubt_by(place, Some(0), None));
        assert!(doubts.is_sorted_by(|one, other| one > other), "{doubts:?}");
        let doubts =
            [Some(false), None, Some(true)].map(|before| frame.doubt_by(0, Some(0), before));
        assert!(doubts.is_sorted_by(|one, other| one < other), "{doubts:?}");
    }

    #[test]
    fn the_first_move_then_falling_scores_then_generation_order() {
        let scores = [-5, FORCING, i16::MIN, -5, 7];
        let mut order: Vec<Ranked> =
            (0..).zip(scores).map(|(index, score)| Ranked::new(index, score, index == 2)).collect();
        for (ranked, score) in order.iter().zip(scores) {
            assert_eq!(ranked.score(), score);
        }
        order.sort_unstable();
        assert_eq!(order.iter().map(|ranked| ranked.index()).collect::<Vec<_>>(), [2, 1, 4, 0, 3]);
    }

    #[test]
    fn only_a_small_doubt_is_none() {
        assert_eq!([0.0, 0.019, 0.021, 0.1, 0.5, 1.0].map(levels), [0, 0, 1, 1, 6, 12]);
        assert_eq!(levels(1000.0), u8::MAX);
    }

    /// A leaf that declines captures, one in check, and a razored position, which hardly ever
    /// reaches its separator.
    #[test]
    fn forcing_moves_leave_doubt() {
        let mut frames = Frames::default();
        let position = Position::default();
        let doubts = [(0, false), (0, true), (16, false)].map(|(depth, check)| {
            let reference = frames.add(position.clone(), check, 0, depth, 0, 1);
            let frame = frames.get_mut(reference).unwrap();
            frame.ranked = vec![Ranked::new(0, FORCING, false)];
            frame.doubt_by(0, Some(-100), None)
        });
        assert!(doubts[1] > doubts[0] && doubts[0] > doubts[2] && doubts[2] > 0.0, "{doubts:?}");
    }
}
