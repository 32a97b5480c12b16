//! A game in progress: the moves so far and the rules that look back at them.

use std::collections::HashSet;

use shakmaty::{Color, Move};

use crate::Position;

/// Why a game is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GameEnd {
    /// The side to move is mated; the other side wins.
    Checkmate { winner: Color },
    /// The side to move has no move and is not in check.
    Stalemate,
    /// Neither side can mate.
    InsufficientMaterial,
    /// The position has occurred three times (claimable).
    Repetition,
    /// Fifty moves by each side without a capture or pawn move (claimable).
    FiftyMoves,
}

/// A start position, the moves played from it, and the position reached.
#[derive(Clone, Debug, Default)]
pub struct Game {
    start: Position,
    current: Position,
    moves: Vec<Move>,
    /// Keys of every position before the current one.
    keys: Vec<u64>,
}

impl Game {
    /// A game that begins at `start`.
    #[must_use]
    pub fn new(start: Position) -> Self {
        Self { current: start.clone(), start, moves: Vec::new(), keys: Vec::new() }
    }

    /// Where the game began.
    #[must_use]
    pub fn start(&self) -> &Position {
        &self.start
    }

    /// The position now.
    #[must_use]
    pub fn position(&self) -> &Position {
        &self.current
    }

    /// The moves played.
    #[must_use]
    pub fn moves(&self) -> &[Move] {
        &self.moves
    }

    /// Keys of the positions before the current one, oldest first.
    #[must_use]
    pub fn keys(&self) -> &[u64] {
        &self.keys
    }

    /// Plays a move that must be legal.
    pub fn play(&mut self, mv: Move) {
        self.keys.push(self.current.key());
        self.current.play(mv);
        self.moves.push(mv);
    }

    /// The same game with [remembering](Position::remembering) positions.
    #[must_use]
    pub fn remembering(&self) -> Self {
        let mut game = Self::new(self.start.clone().remembering());
        self.moves.iter().for_each(|&mv| game.play(mv));
        game
    }

    /// How often the current position has occurred in this game, this time included.
    #[must_use]
    pub fn occurrences(&self) -> usize {
        let reversible = self.current.halfmove_clock() as usize;
        let earliest = self.keys.len().saturating_sub(reversible);
        1 + self.keys[earliest..].iter().filter(|&&key| key == self.current.key()).count()
    }

    /// Has any position since the last capture or pawn move occurred more than once?
    #[must_use]
    pub fn has_repeated(&self) -> bool {
        let reversible = self.current.halfmove_clock() as usize;
        let earliest = self.keys.len().saturating_sub(reversible);
        let mut seen = HashSet::from([self.current.key()]);
        self.keys[earliest..].iter().any(|&key| !seen.insert(key))
    }

    /// The rule that ends the game here, if any; mate and stalemate come before claims of a draw.
    #[must_use]
    pub fn end(&self) -> Option<GameEnd> {
        let position = &self.current;
        if !position.has_legal_moves() {
            return Some(if position.is_check() {
                GameEnd::Checkmate { winner: !position.turn() }
            } else {
                GameEnd::Stalemate
            });
        }
        if position.is_insufficient_material() {
            Some(GameEnd::InsufficientMaterial)
        } else if self.occurrences() >= 3 {
            Some(GameEnd::Repetition)
        } else if position.halfmove_clock() >= 100 {
            Some(GameEnd::FiftyMoves)
        } else {
            None
        }
    }
}
