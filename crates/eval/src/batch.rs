//! A batch of queries and its scores, as flat arrays that need no allocation per query.

use board::{Color, Move, Position};
use nets::{
    BoardSeen, PAST_BOARDS, PLANES, POLICY_SIZE, PastBoard, PolicyIndex, Squares, policy_index,
};

use crate::EvalError;

/// One position to score.
#[derive(Clone, Copy, Debug)]
pub struct Query {
    /// Zobrist key of the position, for caches.
    pub key: u64,
    /// The board, seen from the side to move.
    pub squares: Squares,
    /// The side to move.
    pub turn: Color,
    /// Plies since the last capture or pawn move, at most 255; few networks see them.
    pub halfmove_clock: u8,
    /// Has the position occurred before, as far as it remembers?
    pub has_occurred: bool,
    /// Number of boards before this one in [`Batch::past`].
    pub past_count: u8,
    /// Index of the first of them, the newest.
    pub first_past: u32,
    /// Is the value of the position requested?
    pub value: bool,
    /// Index of this query's first move in [`Batch::moves`].
    pub first_move: u32,
    /// Number of moves to score; may be 0.
    pub move_count: u32,
}

impl Query {
    /// A question about a board of which nothing else is known.
    #[must_use]
    pub fn of_board(key: u64, squares: Squares, turn: Color, value: bool) -> Self {
        Self {
            key,
            squares,
            turn,
            halfmove_clock: 0,
            has_occurred: false,
            past_count: 0,
            first_past: 0,
            value,
            first_move: 0,
            move_count: 0,
        }
    }

    /// The range of the boards before this one in [`Batch::past`].
    #[must_use]
    pub fn past_range(&self) -> std::ops::Range<usize> {
        self.first_past as usize..self.first_past as usize + usize::from(self.past_count)
    }

    /// The range of this query's moves in [`Batch::moves`] and [`Scores::moves`].
    #[must_use]
    pub fn move_range(&self) -> std::ops::Range<usize> {
        self.first_move as usize..(self.first_move + self.move_count) as usize
    }
}

/// Positions to score together.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    pub queries: Vec<Query>,
    /// Policy indices of the moves to score, in the order of the queries.
    pub moves: Vec<PolicyIndex>,
    /// Boards before those of the queries, in their order, for positions that
    /// [remember](Position::remembering) them.
    pub past: Vec<PastBoard>,
}

impl Batch {
    /// Number of queries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.queries.len()
    }

    /// Does the batch hold no query?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.queries.is_empty()
    }

    /// Removes all queries and keeps the memory.
    pub fn clear(&mut self) {
        self.queries.clear();
        self.moves.clear();
        self.past.clear();
    }

    /// Adds a query: the value of `position` if `value`, and the score of each of `moves`, which
    /// must be legal there.
    pub fn push(&mut self, position: &Position, value: bool, moves: &[Move]) {
        let first_move = self.moves.len() as u32;
        let turn = position.turn();
        let first_past = self.past.len();
        self.past.extend(PastBoard::before(position));
        self.moves.extend(moves.iter().map(|&mv| policy_index(mv, turn)));
        self.queries.push(Query {
            halfmove_clock: u8::try_from(position.halfmove_clock()).unwrap_or(u8::MAX),
            has_occurred: position.has_occurred(),
            past_count: (self.past.len() - first_past) as u8,
            first_past: first_past as u32,
            first_move,
            move_count: moves.len() as u32,
            ..Query::of_board(position.key(), Squares::of(position), turn, value)
        });
    }

    /// All that a network may be told of a query's position.
    #[must_use]
    pub fn seen(&self, query: usize) -> BoardSeen<'_> {
        let query = &self.queries[query];
        BoardSeen {
            squares: &query.squares,
            turn: query.turn,
            halfmove_clock: query.halfmove_clock,
            has_occurred: query.has_occurred,
            past: &self.past[query.past_range()],
        }
    }

    /// Checks the fields, which are public: moves are in the order of the queries, squares and move
    /// indices are in range.
    pub(crate) fn check(&self) -> Result<(), EvalError> {
        let malformed = |what: &str| Err(EvalError::Device(format!("a malformed batch: {what}")));
        // The largest of all, in place of a search for the first: the compiler vectorises it.
        let unknown = |squares: &Squares| {
            let largest = squares.0.iter().fold(0, |largest, &class| class.max(largest));
            usize::from(largest) > PLANES
        };
        let mut next_move = 0;
        for query in &self.queries {
            if query.first_move as usize != next_move {
                return malformed("moves are not in the order of the queries");
            }
            next_move += query.move_count as usize;
            let past = self.past.get(query.past_range());
            let Some(past) = past.filter(|past| past.len() <= PAST_BOARDS) else {
                return malformed("the boards before a query are not those of the batch");
            };
            if unknown(&query.squares) || past.iter().any(|board| unknown(&board.squares)) {
                return malformed("a square has an unknown class");
            }
        }
        if next_move != self.moves.len() {
            return malformed("the queries' moves are not those of the batch");
        }
        let largest = self.moves.iter().fold(0, |largest, &index| index.max(largest));
        if usize::from(largest) >= POLICY_SIZE {
            return malformed("a move index is too large");
        }
        Ok(())
    }

    /// Adds a copy of `query`, whose moves are `moves`, with the boards before it.
    pub fn push_query(&mut self, query: &Query, moves: &[PolicyIndex], past: &[PastBoard]) {
        let (first_move, first_past) = (self.moves.len() as u32, self.past.len() as u32);
        self.moves.extend_from_slice(moves);
        self.past.extend_from_slice(past);
        let (move_count, past_count) = (moves.len() as u32, past.len() as u8);
        self.queries.push(Query { first_move, move_count, first_past, past_count, ..*query });
    }
}

/// The scores of a batch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scores {
    /// One a query: centipawns for the side to move; 0.0 where no value was requested.
    pub values: Vec<f32>,
    /// One a move of [`Batch::moves`]. Either the value after the move, in centipawns for the side
    /// that plays it, or the natural logarithm of the move's probability plus a constant of the
    /// query (`nets::MoveScores` says which).
    pub moves: Vec<f32>,
}

/// An evaluated batch.
#[derive(Clone, Debug, Default)]
pub struct Answered {
    pub batch: Batch,
    pub scores: Scores,
}
