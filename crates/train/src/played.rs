//! The played move among the legal moves: the training target of cross entropy.

use board::Color;
use data::NO_LABEL;
use nets::{PolicyIndex, Squares, policy_index};

use crate::Examples;

/// The legal moves of a position by output index, for the side to move; empty where the position
/// cannot be rebuilt.
#[must_use]
pub(crate) fn legal_indices(squares: &Squares) -> Vec<PolicyIndex> {
    // Squares are seen from the mover's side, so the mover can be White.
    let position = squares.position(Color::White);
    position.map_or_else(Vec::new, |position| {
        position.legal_moves().into_iter().map(|mv| policy_index(mv, Color::White)).collect()
    })
}

/// Extends a batch from the played move of each position to all legal moves, the played one first.
/// A position has weight 0 if its move lost more than `margin` centipawns for the mover, because
/// such a move was random or a mistake. A position whose played move is unknown or not legal gets no
/// moves.
pub(crate) fn with_legal_moves(examples: Examples, margin: i32) -> Examples {
    let count = examples.squares.len();
    let mut moves = Vec::with_capacity(40 * count);
    let (mut ends, mut weights) = (Vec::with_capacity(count), Vec::with_capacity(count));
    for (index, (squares, played)) in examples.squares.iter().zip(&examples.moves).enumerate() {
        let mut legal =
            if *played == PolicyIndex::MAX { Vec::new() } else { legal_indices(squares) };
        match legal.iter().position(|mv| mv == played) {
            Some(place) => legal.swap(0, place),
            None => legal.clear(),
        }
        let kept = !legal.is_empty()
            && is_within_margin(examples.values[index], examples.move_values[index], margin);
        moves.append(&mut legal);
        ends.push(moves.len());
        weights.push(f32::from(u8::from(kept)));
    }
    Examples { moves, ends, weights, move_values: Vec::new(), ..examples }
}

/// True unless a move is known to lose more than `margin` centipawns; `before` and `after` are the
/// mover's values.
pub(crate) fn is_within_margin(before: i32, after: i32, margin: i32) -> bool {
    before == NO_LABEL || after == NO_LABEL || after.saturating_add(margin) >= before
}

#[cfg(test)]
mod tests {
    use board::{CastlingMode, Position};

    use super::*;

    #[test]
    fn the_played_move_comes_first_and_blunders_do_not_count() {
        let fen = "rnbqkbnr/pppp1ppp/8/4p3/6P1/5P2/PPPPP2P/RNBQKBNR b KQkq - 0 2";
        let position = Position::from_fen(fen, CastlingMode::Standard).unwrap();
        let squares = Squares::of(&position);
        let legal: Vec<PolicyIndex> =
            position.legal_moves().into_iter().map(|mv| policy_index(mv, Color::Black)).collect();
        let examples = Examples {
            squares: vec![squares; 4],
            values: vec![50, 50, 109_999, i32::MIN + 1],
            moves: vec![legal[7], legal[3], legal[0], PolicyIndex::MAX],
            move_values: vec![-50, -51, 900, 0],
            ..Examples::default()
        };
        let extended = with_legal_moves(examples, 100);
        assert_eq!(extended.ends, [legal.len(), 2 * legal.len(), 3 * legal.len(), 3 * legal.len()]);
        assert_eq!(extended.weights, [1.0, 0.0, 0.0, 0.0]);
        for (moves, played) in
            extended.moves.chunks(legal.len()).zip([legal[7], legal[3], legal[0]])
        {
            assert_eq!(moves[0], played);
            let (mut moves, mut legal) = (moves.to_vec(), legal.clone());
            moves.sort_unstable();
            legal.sort_unstable();
            assert_eq!(moves, legal);
        }
    }
}
