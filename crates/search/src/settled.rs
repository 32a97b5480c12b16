//! The value of a position after its captures, by any evaluation: quiescence search alone, for
//! labels of positions.

use board::{Position, Score};

use crate::quiet::{forcing_moves, worth};

/// Above every evaluation; a mate counts this less its plies.
const MATE: i32 = 1_000_000;
/// A capture is looked at if its victim and this many centipawns lift the value to the bound.
const MARGIN: i32 = 200;

/// From this depth on a position not in check is evaluated as it is: boards full of queens have
/// captures without end.
const DEEPEST: i32 = 24;

/// The value for the player to move after captures and promotions that lose nothing by exchange,
/// with all moves in check. `evaluate` gives a position's value for its player to move, within half
/// a million centipawns, and is not asked in check.
pub fn settled(position: &Position, evaluate: &mut dyn FnMut(&Position) -> i32) -> Score {
    let value = bounded(position, (-MATE, MATE), 0, evaluate);
    match MATE - value.abs() {
        plies if plies > 1000 => Score::Centipawns(value),
        plies if value > 0 => Score::Mate((plies + 1) / 2),
        plies => Score::Mate(-(plies / 2)),
    }
}

fn bounded(
    position: &Position,
    (mut alpha, beta): (i32, i32),
    ply: i32,
    evaluate: &mut dyn FnMut(&Position) -> i32,
) -> i32 {
    if position.is_insufficient_material() {
        return 0;
    }
    let is_check = position.is_check();
    let moves = forcing_moves(position);
    if moves.is_empty() && !position.has_legal_moves() {
        return if is_check { ply - MATE } else { 0 };
    }
    let declined = if is_check { -MATE } else { evaluate(position) };
    if ply >= DEEPEST && !is_check {
        return declined;
    }
    let mut best = declined;
    for mv in moves {
        alpha = alpha.max(best);
        if alpha >= beta {
            break;
        }
        let gain = mv.capture().map_or(0, worth) + mv.promotion().map_or(0, worth);
        if !is_check && declined + gain + MARGIN <= alpha {
            continue;
        }
        best = best.max(-bounded(&position.after(mv), (-beta, -alpha), ply + 1, evaluate));
    }
    best
}

#[cfg(test)]
mod tests {
    use board::{CastlingMode, Color, Role};

    use super::*;

    /// Material for the player to move, in centipawns.
    fn material(position: &Position) -> i32 {
        let board = position.board();
        let of = |color: Color| {
            let roles = [Role::Pawn, Role::Knight, Role::Bishop, Role::Rook, Role::Queen];
            let men = |role| (board.by_role(role) & board.by_color(color)).count() as i32;
            roles.map(|role| men(role) * worth(role)).iter().sum::<i32>()
        };
        of(position.turn()) - of(!position.turn())
    }

    fn value(fen: &str) -> Score {
        settled(&Position::from_fen(fen, CastlingMode::Standard).unwrap(), &mut material)
    }

    #[test]
    fn captures_are_resolved_and_mates_are_counted() {
        let hanging = "4k3/p7/8/3q4/8/4N3/P7/4K3 w - - 0 1";
        assert_eq!(value(hanging), Score::Centipawns(310));
        let defended = "4k3/p7/2p5/3p4/8/4N3/P7/4K3 w - - 0 1";
        assert_eq!(value(defended), Score::Centipawns(110), "the knight takes nothing");
        let back_rank = "7k/6pp/8/8/8/8/8/R5K1 w - - 0 1";
        assert_eq!(value(back_rank), Score::Centipawns(300), "a quiet mate is not seen");
        assert_eq!(value("r6k/6pp/8/8/8/8/8/R5K1 w - - 0 1"), Score::Mate(1));
        assert_eq!(value("7k/5KQ1/8/8/8/8/8/8 b - - 0 1"), Score::Mate(0));
        assert_eq!(value("7k/5K2/6Q1/8/8/8/8/8 b - - 0 1"), Score::Centipawns(0), "stalemate");
        assert_eq!(value("4k3/8/8/8/8/8/4q3/4K3 w - - 0 1"), Score::Centipawns(0), "bare kings");
    }
}
