//! How well a game was played: winning chances, accuracy and marks as Lichess defines them
//! (<https://lichess.org/page/accuracy>), so that the figures mean what players know.

use board::{Game, GameEnd, Score};

/// Beyond so many centipawns a game is won; a mate counts as this much.
const WON: i32 = 1000;

fn centipawns(white: Score) -> i32 {
    match white {
        Score::Centipawns(value) => value.clamp(-WON, WON),
        Score::Mate(moves) => WON * moves.signum(),
    }
}

/// White's chance to win in percent, at White's score.
#[must_use]
pub fn win_percent(white: Score) -> f64 {
    let value = f64::from(centipawns(white));
    50.0 + 50.0 * (2.0 / (1.0 + libm::exp(-0.003_682_08 * value)) - 1.0)
}

/// White's score of a position that ends the game, as a mate or a level score.
pub(crate) fn score_of_end(end: GameEnd) -> Score {
    match end {
        GameEnd::Checkmate { winner } => Score::Mate(if winner.is_white() { 1 } else { -1 }),
        _ => Score::Centipawns(0),
    }
}

/// What a move lost of its mover's winning chances, in percent; never negative.
#[must_use]
pub fn loss(before: Score, after: Score, white: bool) -> f64 {
    let gain = win_percent(after) - win_percent(before);
    (if white { -gain } else { gain }).max(0.0)
}

/// How bad a move was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mark {
    Inaccuracy,
    Mistake,
    Blunder,
}

impl Mark {
    /// All marks, the mildest first.
    pub const ALL: [Self; 3] = [Self::Inaccuracy, Self::Mistake, Self::Blunder];

    /// The mark of a loss of winning chances, in percent.
    #[must_use]
    pub fn of(loss: f64) -> Option<Self> {
        Self::ALL.into_iter().rev().find(|mark| loss >= mark.least())
    }

    /// The smallest loss with this mark.
    fn least(self) -> f64 {
        match self {
            Self::Inaccuracy => 5.0,
            Self::Mistake => 10.0,
            Self::Blunder => 15.0,
        }
    }

    /// PGN's numeric annotation glyph.
    #[must_use]
    pub fn glyph(self) -> u8 {
        match self {
            Self::Inaccuracy => 6,
            Self::Mistake => 2,
            Self::Blunder => 4,
        }
    }

    /// The sign that people write.
    #[must_use]
    pub fn sign(self) -> &'static str {
        match self {
            Self::Inaccuracy => "?!",
            Self::Mistake => "?",
            Self::Blunder => "??",
        }
    }

    /// In words.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Inaccuracy => "Inaccuracy",
            Self::Mistake => "Mistake",
            Self::Blunder => "Blunder",
        }
    }
}

/// A player's game in numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Grade {
    /// 0 to 100.
    pub accuracy: f64,
    /// Centipawns lost a move, each position within ±1,000.
    pub average_loss: f64,
    /// Moves that this is about.
    pub moves: usize,
}

/// White's grade and Black's, from White's score of each position (the start first); as far as
/// there are scores without a gap. Nothing for a player without a graded move.
#[must_use]
pub fn grades(game: &Game, scores: &[Option<Score>]) -> [Option<Grade>; 2] {
    let first = scores.iter().position(Option::is_some).unwrap_or(0);
    let known: Vec<Score> = scores[first..].iter().map_while(|&score| score).collect();
    let wins: Vec<f64> = known.iter().map(|&score| win_percent(score)).collect();
    let white_begins = game.start().turn().is_white() == first.is_multiple_of(2);
    let weights = weights(&wins);
    [true, false].map(|white| {
        let moves: Vec<usize> = (0..known.len().saturating_sub(1))
            .filter(|ply| ply.is_multiple_of(2) == (white == white_begins))
            .collect();
        if moves.is_empty() {
            return None;
        }
        let accuracies: Vec<f64> = moves
            .iter()
            .map(|&ply| move_accuracy(loss(known[ply], known[ply + 1], white)))
            .collect();
        let weight = |place: usize| weights[moves[place]];
        let total: f64 = (0..moves.len()).map(weight).sum();
        let weighted = accuracies
            .iter()
            .enumerate()
            .map(|(place, accuracy)| weight(place) * accuracy)
            .sum::<f64>();
        let harmonic = moves.len() as f64
            / accuracies.iter().map(|accuracy| 1.0 / accuracy.max(1.0)).sum::<f64>();
        let lost = |ply: usize| {
            let gain = centipawns(known[ply + 1]) - centipawns(known[ply]);
            f64::from((if white { -gain } else { gain }).max(0))
        };
        Some(Grade {
            accuracy: (weighted / total + harmonic) / 2.0,
            average_loss: moves.iter().map(|&ply| lost(ply)).sum::<f64>() / moves.len() as f64,
            moves: moves.len(),
        })
    })
}

/// Accuracy of a move in percent, by the winning chances that it lost.
fn move_accuracy(loss: f64) -> f64 {
    (103.1668 * libm::exp(-0.043_54 * loss) - 3.1669).clamp(0.0, 100.0)
}

/// A weight a move: how much the winning chances swing around it.
fn weights(wins: &[f64]) -> Vec<f64> {
    let moves = wins.len().saturating_sub(1);
    let width = (moves / 10).clamp(2, 8).min(wins.len().max(1));
    let windows: Vec<&[f64]> = wins.windows(width).collect();
    let late = moves.saturating_sub(windows.len());
    (0..moves).map(|ply| deviation(windows[ply.saturating_sub(late)]).clamp(0.5, 12.0)).collect()
}

fn deviation(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn game(moves: usize) -> Game {
        let mut game = Game::default();
        for _ in 0..moves {
            let mv = game.position().legal_moves()[0];
            game.play(mv);
        }
        game
    }

    fn centipawns(values: &[i32]) -> Vec<Option<Score>> {
        values.iter().map(|&value| Some(Score::Centipawns(value))).collect()
    }

    #[test]
    fn winning_chances_are_those_of_the_published_formula() {
        let close = |score, percent: f64| (win_percent(score) - percent).abs() < 0.05;
        assert!(close(Score::Centipawns(0), 50.0));
        assert!(close(Score::Centipawns(100), 59.1), "{}", win_percent(Score::Centipawns(100)));
        assert!(close(Score::Centipawns(-300), 24.9), "{}", win_percent(Score::Centipawns(-300)));
        assert_eq!(win_percent(Score::Mate(-4)), win_percent(Score::Centipawns(-5000)));
    }

    #[test]
    fn marks_follow_the_loss() {
        assert_eq!(Mark::of(4.9), None);
        assert_eq!(Mark::of(5.0), Some(Mark::Inaccuracy));
        assert_eq!(Mark::of(14.9), Some(Mark::Mistake));
        assert_eq!(Mark::of(60.0), Some(Mark::Blunder));
    }

    #[test]
    fn a_game_without_losses_is_perfect_and_a_blunder_counts_for_its_player() {
        let level = grades(&game(30), &centipawns(&[20; 31]));
        for grade in level {
            let grade = grade.unwrap();
            assert!(
                grade.accuracy > 99.9 && grade.average_loss == 0.0 && grade.moves == 15,
                "{grade:?}"
            );
        }
        let mut values = [0; 31];
        values[8..].fill(500); // Black's fourth move.
        let [white, black] = grades(&game(30), &centipawns(&values)).map(Option::unwrap);
        assert!(white.accuracy > 99.9 && black.accuracy < 90.0, "{white:?} {black:?}");
        assert!((black.average_loss - 500.0 / 15.0).abs() < 1e-9);
    }

    #[test]
    fn parts_of_games_are_graded_as_far_as_they_are_known() {
        let mut scores = centipawns(&[0, 0, 0, -300, -300, -300]);
        scores[0] = None;
        scores[1] = None;
        let [white, black] = grades(&game(5), &scores);
        assert_eq!((white.unwrap().moves, black.unwrap().moves), (2, 1));
        assert!(white.unwrap().accuracy < 80.0);
        assert_eq!(grades(&game(5), &[None; 6]), [None, None]);
        assert_eq!(grades(&game(0), &centipawns(&[3])), [None, None]);
    }
}
