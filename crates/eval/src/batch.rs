//! The questions a search asks at once and the answers it gets, as flat arrays.

use board::{Color, Move, Position};
use nets::{PLANES, POLICY_SIZE, PolicyIndex, Squares, policy_index};

use crate::EvalError;

/// One position to score.
#[derive(Clone, Copy, Debug)]
pub struct Query {
    /// Zobrist key of the position, for caches.
    pub key: u64,
    /// From the mover's side.
    pub squares: Squares,
    /// The mover.
    pub turn: Color,
    /// Is the value of the position asked for?
    pub value: bool,
    /// Where this query's moves begin in [`Batch::moves`].
    pub first_move: u32,
    /// How many moves are to be scored; 0 for none.
    pub move_count: u32,
}

impl Query {
    /// This query's part of [`Batch::moves`] and [`Scores::moves`].
    #[must_use]
    pub fn move_range(&self) -> std::ops::Range<usize> {
        self.first_move as usize..(self.first_move + self.move_count) as usize
    }
}

/// Positions to score together.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    pub queries: Vec<Query>,
    /// Indices of the moves to score, query after query.
    pub moves: Vec<PolicyIndex>,
}

impl Batch {
    /// Number of positions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.queries.len()
    }

    /// True when there is nothing to score.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.queries.is_empty()
    }

    /// Forgets the queries, keeps the memory.
    pub fn clear(&mut self) {
        self.queries.clear();
        self.moves.clear();
    }

    /// Asks for the value of `position` if `value`, and for the score of each of `moves` (legal
    /// there).
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

    /// Checks what [`Batch::push`] and [`Batch::push_query`] ensure: moves in the order of the
    /// queries, and squares and move indices in their ranges.
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

/// Answers; the sides are those of [`Query`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scores {
    /// One a query: centipawns for the side to move; 0.0 where no value was asked for.
    pub values: Vec<f32>,
    /// One a move of [`Batch::moves`]: centipawns for the side that plays it, after the move, or
    /// the natural logarithm of the move's chance, up to a number that is the same for all moves of
    /// the query (`nets::MoveScores`).
    pub moves: Vec<f32>,
}

/// A batch that came back.
#[derive(Clone, Debug, Default)]
pub struct Answered {
    pub batch: Batch,
    pub scores: Scores,
}
