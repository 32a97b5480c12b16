//! Mating knowledge for KXK and KBNK: a bare king against material that can force mate.
//!
//! A network gives all such positions about the same value, so a search that does not see the mate
//! makes no progress until the fifty-move rule. The value here grows as the bare king is driven to
//! an edge or, with bishop and knight, to a corner of the bishop's colour, and as the other king
//! comes nearer.
//!
//! The positions and the two rules are those of Stockfish's classical endgames `KXK` and `KBNK`;
//! the numbers are our own.

use eval::{Answered, Batch, EvalError, Evaluator, Stream};
use nets::Squares;

/// An evaluator decorated with the values of KXK and KBNK positions.
#[derive(Debug)]
pub(crate) struct MatingKnowledge<E>(pub(crate) E);

impl<E: Evaluator> Evaluator for MatingKnowledge<E> {
    fn submit(&mut self, batch: Batch) -> Result<(), EvalError> {
        self.0.submit(batch)
    }

    fn wait(&mut self) -> Result<Answered, EvalError> {
        let mut answered = self.0.wait()?;
        for (query, value) in answered.batch.queries.iter().zip(&mut answered.scores.values) {
            if query.value
                && let Some(known) = value_of(&query.squares)
            {
                *value = known as f32;
            }
        }
        Ok(answered)
    }

    fn in_flight(&self) -> usize {
        self.0.in_flight()
    }

    fn preferred_batch(&self) -> usize {
        self.0.preferred_batch()
    }

    fn largest_batch(&self) -> usize {
        self.0.largest_batch()
    }

    fn preferred_stream(&self) -> Stream {
        self.0.preferred_stream()
    }

    fn describe(&self) -> String {
        self.0.describe()
    }

    fn apart(&self) -> Vec<Box<dyn Evaluator>> {
        let with_knowledge =
            |evaluator| -> Box<dyn Evaluator> { Box::new(MatingKnowledge(evaluator)) };
        self.0.apart().into_iter().map(with_knowledge).collect()
    }
}

/// Centipawns of such a position besides material: more than networks give a position with a pawn
/// left, too little to give a queen for the last pawn.
const WON: i32 = 300;

/// Centipawns of a pawn, knight, bishop, rook and queen.
const WORTH: [i32; 5] = [60, 150, 160, 300, 600];

/// Centipawns of a step towards the edge or between the kings, and of a step towards the right
/// corner: more than the tolerance of the K-best-first search.
const STEP: i32 = 20;
const CORNER_STEP: i32 = 40;

/// The pieces of one side; squares as in [`Squares`].
#[derive(Clone, Copy, Debug, Default)]
struct Men {
    /// Pawns, knights, bishops, rooks, queens.
    counts: [u8; 5],
    /// Bishops on dark squares (as a1 is), and on light ones.
    bishops: [u8; 2],
    king: usize,
}

impl Men {
    fn is_lone(&self) -> bool {
        self.counts == [0; 5]
    }

    /// Queens, rooks and bishops on both colours can mate at any edge.
    fn mates_at_an_edge(&self) -> bool {
        let [_, _, _, rooks, queens] = self.counts;
        rooks + queens > 0 || self.bishops.iter().all(|&bishops| bishops > 0)
    }

    /// The colour of the corners where bishops and knights mate; 0: dark.
    fn mating_corner(&self) -> Option<usize> {
        let colour = self.bishops.iter().position(|&bishops| bishops > 0)?;
        (self.counts[1] > 0).then_some(colour)
    }
}

/// The pieces of the side to move, and those of the other side.
fn men(squares: &Squares) -> [Men; 2] {
    const BISHOP: usize = 2;
    let mut men = [Men::default(); 2];
    for (square, role, own) in squares.pieces() {
        let side = &mut men[usize::from(!own)];
        match side.counts.get_mut(role) {
            Some(count) => *count += 1,
            None => side.king = square,
        }
        if role == BISHOP {
            side.bishops[(square / 8 + square % 8) % 2] += 1;
        }
    }
    men
}

/// Centipawns for the mover where one side has nothing but its king and the other can force mate.
fn value_of(squares: &Squares) -> Option<i32> {
    // Fast exit: nearly always both sides have more than a king.
    let [own, others] = squares.men();
    if own.min(others) > 1 {
        return None;
    }
    match men(squares) {
        [strong, weak] if weak.is_lone() => won(&strong, &weak),
        [weak, strong] if weak.is_lone() => won(&strong, &weak).map(|value| -value),
        _ => None,
    }
}

/// The value of a position for the side that has more than its king.
fn won(strong: &Men, weak: &Men) -> Option<i32> {
    let (rank, file) = ((weak.king / 8) as i32, (weak.king % 8) as i32);
    let from_centre = |line: i32| if line < 4 { 3 - line } else { line - 4 };
    let way = if strong.mates_at_an_edge() {
        STEP * (from_centre(rank) + from_centre(file))
    } else {
        // Distance from the diagonal between the wrong corners: 7 on a1 and h8, or on a8 and h1.
        CORNER_STEP
            * if strong.mating_corner()? == 0 {
                (7 - rank - file).abs()
            } else {
                (rank - file).abs()
            }
    };
    let apart =
        (strong.king / 8).abs_diff(weak.king / 8).max((strong.king % 8).abs_diff(weak.king % 8));
    let material: i32 =
        strong.counts.iter().zip(WORTH).map(|(&count, worth)| i32::from(count) * worth).sum();
    Some(WON + material + way + STEP * (7 - apart as i32))
}

#[cfg(test)]
mod tests {
    use board::{CastlingMode, Game, Position};
    use eval::Mock;
    use nets::Calibration;

    use super::*;
    use crate::{Algorithm, Control, Limits, Search, Settings};

    fn value(fen: &str) -> Option<i32> {
        value_of(&Squares::of(&Position::from_fen(fen, CastlingMode::Standard).unwrap()))
    }

    #[test]
    fn only_a_bare_king_that_can_be_mated_has_a_value() {
        for fen in [
            "8/8/8/3k4/8/8/8/KR6 w - - 0 1",
            "8/8/8/3k4/8/8/8/KBB5 w - - 0 1",
            "8/8/8/3k4/8/8/8/KBN5 w - - 0 1",
            "8/8/8/3k4/8/8/P7/KQ6 w - - 0 1",
            "4k3/8/8/8/8/8/8/R3K3 w Q - 0 1",
        ] {
            let mine = value(fen).unwrap();
            assert!(mine > WON, "{fen}");
            assert_eq!(
                value(&fen.replace(" w Q ", " b Q ").replace(" w ", " b ")),
                Some(-mine),
                "{fen}"
            );
        }
        for fen in [
            "8/8/8/3k4/8/8/8/KN6 w - - 0 1",
            "8/8/8/3k4/8/8/8/KNN5 w - - 0 1",
            "8/8/8/3k4/8/8/8/K1B1B3 w - - 0 1",
            "8/8/8/3k4/8/8/P7/K7 w - - 0 1",
            "8/8/8/3kp3/8/8/8/KR6 w - - 0 1",
            "8/8/8/3k4/8/8/8/K7 w - - 0 1",
        ] {
            assert_eq!(value(fen), None, "{fen}");
        }
    }

    #[test]
    fn edges_corners_and_a_near_king_are_better() {
        let pairs = [
            // Edge; corner; the other king nearer.
            ("8/8/K7/3k4/8/8/8/7R w - - 0 1", "3k4/8/K7/8/8/8/8/7R w - - 0 1"),
            ("3k4/8/8/8/8/8/8/K6R w - - 0 1", "k7/8/8/8/8/8/8/K6R w - - 0 1"),
            ("3k4/8/8/8/8/8/8/K6R w - - 0 1", "3k4/8/8/8/8/8/1K6/7R w - - 0 1"),
            // A dark bishop wants a1 or h8, a light one a8 or h1.
            ("k7/8/8/8/4K3/8/8/2B3N1 w - - 0 1", "7k/8/8/8/4K3/8/8/2B3N1 w - - 0 1"),
            ("7k/8/8/8/4K3/8/8/1B4N1 w - - 0 1", "k7/8/8/8/4K3/8/8/1B4N1 w - - 0 1"),
            // A pawn that becomes a queen.
            ("8/3P4/8/8/8/2k5/8/K6R w - - 0 1", "3Q4/8/8/8/8/2k5/8/K6R w - - 0 1"),
        ];
        for (worse, better) in pairs {
            assert!(value(worse) < value(better), "{worse} {better}");
        }
    }

    /// Moves until mate when one search over a mock network plays both sides.
    fn moves_to_mate(fen: &str) -> Option<usize> {
        let evaluator = Box::new(Mock::new(1));
        let settings = Settings { batch: 1, hash_mib: 16, ..Settings::default() };
        let mut search: Box<dyn Search> =
            Algorithm::KBest.over(evaluator, &Calibration::default(), true, &settings);
        let limits = Limits { nodes: Some(4000), ..Limits::default() };
        let mut game = Game::new(Position::from_fen(fen, CastlingMode::Standard).unwrap());
        for ply in 0..100 {
            if !game.position().has_legal_moves() {
                return game.position().is_check().then_some(ply / 2);
            }
            let outcome = search.search(&game, &limits, &Control::default(), &mut |_| {}).unwrap();
            game.play(outcome.best.unwrap());
        }
        None
    }

    #[test]
    fn elementary_mates_are_found_whatever_the_network() {
        for fen in [
            "8/8/8/3k4/8/8/8/K5Q1 w - - 0 1",
            "8/8/8/3k4/8/8/8/K6R w - - 0 1",
            "8/8/8/3k4/8/8/8/KBB5 w - - 0 1",
            "3k4/8/3K4/8/8/8/8/2BN4 w - - 0 1",
        ] {
            assert!(moves_to_mate(fen).is_some(), "{fen}");
        }
    }
}
