//! A batch of queries and its scores, as flat arrays that need no allocation per query.

use board::{Color, Move, Position};
use nets::{PLANES, POLICY_SIZE, PolicyIndex, Squares, policy_index};

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
    /// Is the value of the position requested?
    pub value: bool,
    /// Index of this query's first move in [`Batch::moves`].
    pub first_move: u32,
    /// Number of moves to score; may be 0.
    pub move_count: u32,
}

impl Query {
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
    }

    /// Adds a query: the value of `position` if `value`, and the score of each of `moves`, which
    /// must be legal there.
    pub fn push(&mut self, position: &Position, value: bool, moves: &[Move]) {
        let first_move = self.moves.len() as u32;
        let turn = position.turn();
        self.moves.extend(moves.iter().map(|&mv| policy_index(mv, turn)));
        self.queries.push(Query {
            key: position.key(),
            squares: Squares::of(position),
            turn,
            value,
            first_move,
            move_count: moves.len() as u32,
        });
    }

    /// Checks the fields, which are public: moves are in the order of the queries, squares and move
    /// indices are in range.
    pub(crate) fn check(&self) -> Result<(), EvalError> {
        let malformed = |what: &str| Err(EvalError::Device(format!("a malformed batch: {what}")));
        let mut next_move = 0;
        for query in &self.queries {
            if query.first_move as usize != next_move {
                return malformed("moves are not in the order of the queries");
            }
            next_move += query.move_count as usize;
            if query.squares.0.iter().any(|&class| usize::from(class) > PLANES) {
                return malformed("a square has an unknown class");
            }
        }
        if next_move != self.moves.len() {
            return malformed("the queries' moves are not those of the batch");
        }
        if self.moves.iter().any(|&index| usize::from(index) >= POLICY_SIZE) {
            return malformed("a move index is too large");
        }
        Ok(())
    }

    /// Adds a copy of `query`, whose moves are `moves`.
    pub fn push_query(&mut self, query: &Query, moves: &[PolicyIndex]) {
        let first_move = self.moves.len() as u32;
        self.moves.extend_from_slice(moves);
        self.queries.push(Query { first_move, move_count: moves.len() as u32, ..*query });
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
