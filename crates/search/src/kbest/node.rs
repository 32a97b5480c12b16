//! A node of the tree: a position whose value is being compared with a bound, and its moves.

use board::{Move, Position};

use super::{correction::Structures, opponent::ReplyPenalty};
use crate::{
    cache::NO_MOVE,
    score::{LARGEST_VALUE, Value},
};

/// The score of moves that are searched because they are forcing.
pub(super) const FORCING: i16 = i16::MAX;

/// In place of a move's index in a [`Link`]: a null move.
pub(super) const NULL_MOVE: u8 = NO_MOVE - 1;

/// A slot of the [`Arena`](super::arena::Arena) and the life of the node that was meant: outdated
/// ids are recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NodeId {
    pub slot: u32,
    pub life: u32,
}

/// A parent, and the move of it that leads to the child.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub node: NodeId,
    /// Index of the move in generation order.
    pub edge: u8,
    /// Is the move searched to less than its full depth?
    pub reduced: bool,
    /// [`Edge::penalty`].
    pub penalty: u8,
    /// What the move adds to [`Node::priority_cost`] while it is being searched.
    pub priority_cost: f32,
}

/// One move of an open node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Edge {
    pub mv: Move,
    /// Index in generation order.
    pub index: u8,
    /// Centipawns for the mover after the move, as the move head sees it, or hundredths of the
    /// natural logarithm of the move's chance (a policy); [`FORCING`] where only forcing moves are
    /// searched.
    pub score: i16,
    /// Centipawns that the move counts less than it is worth: the opponent may not find it.
    pub penalty: u8,
}

/// A move's score and its index in generation order in one number: the smallest is searched first.
/// A position has some thirty moves, most of which are never expanded, so the rest of an [`Edge`]
/// is made on demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct OrderedMove(u32);

impl OrderedMove {
    /// Sorts as: the move that `is_first`, then falling scores, then generation order.
    pub(super) fn new(index: u8, score: i16, is_first: bool) -> Self {
        let falling = (i32::from(i16::MAX) - i32::from(score)) as u32;
        Self(u32::from(!is_first) << 24 | falling << 8 | u32::from(index))
    }

    /// Index in generation order.
    pub(super) fn index(self) -> u8 {
        self.0 as u8
    }

    pub(super) fn score(self) -> i16 {
        (i32::from(i16::MAX) - i32::from((self.0 >> 8) as u16)) as i16
    }
}

/// What a slot's node waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The slot is free.
    Free,
    /// Its move scores or its value are being evaluated.
    Evaluation,
    /// Its next move may be expanded.
    Open,
}

/// A position whose value is being compared with a bound.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub state: State,
    /// Number of the nodes that this slot held before.
    pub life: u32,
    pub position: Position,
    /// Is the side to move in check?
    pub check: bool,
    /// Legal moves in generation order; empty means not generated yet.
    pub(super) legal: Vec<Move>,
    /// See [`Node::structures`].
    pub(super) structures: Option<Structures>,
    /// Key in the search cache.
    pub key: u64,
    /// Remaining depth in parts of a ply; 0: a leaf that resolves forcing moves.
    pub depth: i16,
    /// The question: is the value at least this?
    pub bound: Value,
    /// Distance from the root.
    pub ply: u16,
    /// The root's move that leads here, in generation order; [`NO_MOVE`] at the root.
    pub root_edge: u8,
    /// Priority of its first move, the sum of the costs on the way from the root; `u8::MAX`: not
    /// known yet.
    pub priority: u8,
    /// The value is proven to be at least this.
    pub lower: Value,
    /// The value through the moves resolved so far is at most this.
    pub upper: Value,
    /// Index in generation order of the move behind `lower`.
    pub best: u8,
    /// Index in generation order of the move with the largest upper bound so far: the move to
    /// search first next time.
    pub best_by_upper: u8,
    /// The moves in the order in which they are expanded; [`Node::generate_moves`] comes first.
    pub ordered: Vec<OrderedMove>,
    /// What unlikely replies count less.
    pub penalties: ReplyPenalty,
    /// Place in `ordered` of the next move to expand.
    pub next: usize,
    /// Minus the natural logarithm of the chance that all moves that are being searched miss the
    /// bound and the next one is needed; without meaning where moves have scores in centipawns.
    pub priority_cost: f32,
    /// Places in `ordered` of moves whose reduced search reached the bound: they are searched again
    /// to full depth.
    pub re_search: Vec<u8>,
    /// What the parent's static evaluation says of this position, for its side to move; `None`
    /// where it is not mixed with the position's own.
    pub parent_value: Option<Value>,
    /// Does a null move lead here?
    pub after_null_move: bool,
    /// Has a null move been tried, or ruled out?
    pub null_move_tried: bool,
    /// Open children.
    pub children: Vec<NodeId>,
    /// Open parents; repetitions are looked for along the first one.
    pub parents: Vec<Link>,
    /// Stamp of the queue entry that is valid.
    pub latest_entry: u32,
    /// Priority of that queue entry; `u8::MAX`: none is in the queue.
    pub queued_priority: u8,
}

impl Node {
    /// Generates the legal moves once: a node that is evaluated needs them three times.
    pub(super) fn generate_moves(&mut self) {
        if self.legal.is_empty() {
            self.legal.extend_from_slice(&self.position.legal_moves());
        }
    }

    /// The legal moves that [`Node::generate_moves`] has generated.
    pub(super) fn legal(&self) -> &[Move] {
        &self.legal
    }

    /// The position's structures, computed once.
    pub(super) fn structures(&mut self) -> Structures {
        *self.structures.get_or_insert_with(|| Structures::of(&self.position))
    }

    /// The move at a place of the order.
    pub(super) fn edge(&self, place: usize) -> Option<Edge> {
        let ordered = *self.ordered.get(place)?;
        let (index, score) = (ordered.index(), ordered.score());
        debug_assert!(usize::from(index) < self.legal.len(), "legal moves are not generated");
        let mv = *self.legal.get(usize::from(index))?;
        Some(Edge { mv, index, score, penalty: self.penalties.of(score) })
    }

    /// The scores of the moves, in their order.
    pub(super) fn scores(&self) -> impl ExactSizeIterator<Item = i16> + Clone {
        self.ordered.iter().map(|ordered| ordered.score())
    }

    /// May a null move be tried? Not in check, not twice in a row, not in a pawn endgame or with
    /// one piece left, where zugzwang is likely, and not where only forcing moves are searched.
    pub(super) fn may_pass(&self) -> bool {
        self.ply > 0
            && !self.check
            && !self.after_null_move
            && self.next == 0
            && self.ordered.first().is_some_and(|first| first.score() != FORCING)
            && self.position.piece_count() > 1
    }

    /// Is there a move left to expand?
    pub(super) fn has_moves(&self) -> bool {
        self.next < self.ordered.len() || !self.re_search.is_empty()
    }

    /// Takes the result of a move into both bounds: each is the largest of the moves so far.
    pub(super) fn raise(&mut self, edge: u8, at_least: Value, at_most: Value) {
        if at_least > self.lower {
            self.lower = at_least;
            self.best = edge;
        }
        if at_most > self.upper || self.best_by_upper == NO_MOVE {
            self.upper = self.upper.max(at_most);
            self.best_by_upper = edge;
        }
    }

    /// Takes the result of a null move into the lower bound, if it reaches the bound; it is never a
    /// mate. A null move that misses says nothing of the moves.
    pub(super) fn raise_by_null_move(&mut self, at_least: Value) {
        if at_least >= self.bound {
            self.lower = self.lower.max(at_least.min(LARGEST_VALUE));
            self.best = NO_MOVE;
        }
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

#[cfg(test)]
mod tests {
    use board::CastlingMode;

    use super::*;
    use crate::{kbest::arena::Arena, selectivity::PLY};

    #[test]
    fn a_null_move_comes_first_and_needs_two_pieces() {
        let may_pass = |fen: &str, ply: u16, change: fn(&mut Node)| {
            let position = Position::from_fen(fen, CastlingMode::Standard).unwrap();
            let (mut nodes, check) = (Arena::default(), position.is_check());
            let id = nodes.add(position, check, 0, 4 * PLY, 0, ply);
            let node = nodes.get_mut(id).unwrap();
            node.ordered = vec![OrderedMove::new(0, -50, false)];
            change(node);
            node.may_pass()
        };
        let two_rooks = "4k3/8/8/8/8/8/r7/R3K2R w - - 0 1";
        assert!(may_pass(two_rooks, 1, |_| {}));
        assert!(!may_pass(two_rooks, 0, |_| {}), "at the root a move is wanted");
        assert!(!may_pass(two_rooks, 1, |node| node.after_null_move = true));
        assert!(!may_pass(two_rooks, 1, |node| node.next = 1));
        let forcing = |node: &mut Node| node.ordered = vec![OrderedMove::new(0, FORCING, false)];
        assert!(!may_pass(two_rooks, 1, forcing));
        assert!(!may_pass("4k3/8/8/8/8/8/r7/4K2R w - - 0 1", 1, |_| {}), "one piece");
        assert!(!may_pass("4k3/8/8/8/8/8/4r3/R3K2R w - - 0 1", 1, |_| {}), "in check");
    }

    #[test]
    fn a_null_move_proves_no_mate_and_no_upper_bound() {
        let mut nodes = Arena::default();
        let id = nodes.add(Position::default(), false, 0, 4 * PLY, 30, 1);
        let node = nodes.get_mut(id).unwrap();
        let before = (node.lower, node.upper);
        node.raise_by_null_move(29);
        assert_eq!((node.lower, node.upper), before);
        node.raise_by_null_move(crate::score::MATE);
        assert_eq!((node.lower, node.upper, node.best), (LARGEST_VALUE, before.1, NO_MOVE));
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
}
