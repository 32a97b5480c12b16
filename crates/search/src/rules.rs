//! Positions whose value the rules of chess or the endgame tables give, without an evaluation.

use board::{Position, Tablebases};

use crate::score::{MATE, Value, from_winner};

/// The value of a position that the rules or the endgame tables decide, repetitions apart: mate,
/// stalemate, fifty moves, insufficient material.
pub(crate) fn ended(position: &Position, tables: Option<&Tablebases>) -> Option<Value> {
    if !position.has_legal_moves() {
        return Some(if position.is_check() { -MATE } else { 0 });
    }
    if position.is_insufficient_material() || position.halfmove_clock() >= 100 {
        return Some(0);
    }
    let winner = tables?.winner(position)?;
    Some(from_winner(winner, position.turn()))
}

/// Has a position occurred below the root, or twice among the root and the game before it?
/// `way`: keys from the position's parent up to the root; `game`: keys before the root, oldest
/// first.
pub(crate) fn is_repetition(
    position: &Position,
    way: impl Iterator<Item = u64>,
    game: &[u64],
) -> bool {
    let key = position.key();
    let mut left = position.halfmove_clock() as usize;
    let mut earlier = 0;
    let mut way = way.peekable();
    while left > 0
        && let Some(past) = way.next()
    {
        left -= 1;
        if past == key {
            if way.peek().is_some() {
                return true;
            }
            earlier += 1;
        }
    }
    earlier += game.iter().rev().take(left).filter(|&&past| past == key).count();
    earlier >= 2
}

#[cfg(test)]
mod tests {
    use board::{CastlingMode, parse_uci};

    use super::*;

    #[test]
    fn once_inside_the_tree_or_twice_before_it() {
        let mut position =
            Position::from_fen("7k/8/8/8/8/8/2Q5/K7 w - - 0 1", CastlingMode::Standard).unwrap();
        let mut keys = vec![position.key()];
        for text in ["c2c1", "h8g8", "c1c2", "g8h8"] {
            let mv = parse_uci(&position, text).unwrap();
            position.play(mv);
            keys.push(position.key());
        }
        // The first position occurs again. `tree` of the four positions before it belong to the
        // tree, the root included.
        keys.pop();
        let is_repetition_here = |tree: usize, earlier: &[u64]| {
            let (game, way) = keys.split_at(4 - tree);
            is_repetition(&position, way.iter().rev().copied(), &[earlier, game].concat())
        };
        assert!(
            !is_repetition_here(3, &[]) && !is_repetition_here(4, &[]),
            "once, before the tree or at its root"
        );
        let twice = [position.key(), 1, 2, 3];
        assert!(!is_repetition_here(4, &twice), "the clock has run for four plies only");
        let inside = [1, 2].into_iter().chain([position.key(), 3, 4]);
        assert!(is_repetition(&position, inside, &[]), "once, below the root");
        assert!(is_repetition(&position, [1, position.key()].into_iter(), &[position.key(), 5]));
    }
}
