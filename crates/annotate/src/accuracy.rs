//! How well a game was played: winning chances, accuracy and judgments by the definitions of
//! Lichess (<https://lichess.org/page/accuracy>), so that players know the scale of the figures.

use board::{Game, GameEnd, Score};

/// Scores are clamped to this many centipawns; a mate counts as this much.
const WON: i32 = 1000;

fn centipawns(white: Score) -> i32 {
    match white {
        Score::Centipawns(value) => value.clamp(-WON, WON),
        Score::Mate(moves) => WON * moves.signum(),
    }
}

/// White's chance to win in percent, from White's score.
#[must_use]
pub fn win_percent(white: Score) -> f64 {
    let value = f64::from(centipawns(white));
    50.0 + 50.0 * (2.0 / (1.0 + libm::exp(-0.003_682_08 * value)) - 1.0)
}

/// White's score of a position that ends the game: a mate, or 0 for a draw.
pub(crate) fn score_of_end(end: GameEnd) -> Score {
    match end {
        GameEnd::Checkmate { winner } => Score::Mate(if winner.is_white() { 1 } else { -1 }),
        _ => Score::Centipawns(0),
    }
}

/// Loss of the mover's winning chances by a move, in percent, from White's scores before and after
/// it; never negative. `white`: White moved.
#[must_use]
pub fn loss(before: Score, after: Score, white: bool) -> f64 {
    let gain = win_percent(after) - win_percent(before);
    (if white { -gain } else { gain }).max(0.0)
}

/// The judgment on a bad move, as Lichess calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Judgment {
    Inaccuracy,
    Mistake,
    Blunder,
}

impl Judgment {
    /// All judgments, the mildest first.
    pub const ALL: [Self; 3] = [Self::Inaccuracy, Self::Mistake, Self::Blunder];

    /// The judgment on a loss of winning chances in percent; `None` for a small loss.
    #[must_use]
    pub fn from_loss(loss: f64) -> Option<Self> {
        Self::ALL.into_iter().rev().find(|judgment| loss >= judgment.smallest_loss())
    }

    /// The smallest loss of winning chances with this judgment, in percent.
    fn smallest_loss(self) -> f64 {
        match self {
            Self::Inaccuracy => 5.0,
            Self::Mistake => 10.0,
            Self::Blunder => 15.0,
        }
    }

    /// The numeric annotation glyph (NAG) of PGN.
    #[must_use]
    pub fn nag(self) -> u16 {
        match self {
            Self::Inaccuracy => 6,
            Self::Mistake => 2,
            Self::Blunder => 4,
        }
    }

    /// The symbol in chess notation.
    #[must_use]
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Inaccuracy => "?!",
            Self::Mistake => "?",
            Self::Blunder => "??",
        }
    }

    /// The judgment as a sentence of its own, where the move has somebody else's glyph.
    #[must_use]
    pub fn sentence(self) -> &'static str {
        match self {
            Self::Inaccuracy => "An inaccuracy",
            Self::Mistake => "A mistake",
            Self::Blunder => "A blunder",
        }
    }

    /// The English name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Inaccuracy => "Inaccuracy",
            Self::Mistake => "Mistake",
            Self::Blunder => "Blunder",
        }
    }
}

/// How well one player played a game.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlayerAnalysis {
    /// In percent.
    pub accuracy: f64,
    /// Average centipawn loss a move; scores are clamped to ±1,000.
    pub average_loss: f64,
    /// Number of judged moves.
    pub moves: usize,
}

/// White's analysis and Black's, from White's score of each position (the start first). Only the
/// first run of scores without a gap counts. `None` for a player without a judged move.
#[must_use]
pub fn player_analyses(game: &Game, scores: &[Option<Score>]) -> [Option<PlayerAnalysis>; 2] {
    let first = scores.iter().position(Option::is_some).unwrap_or(0);
    let known: Vec<Score> = scores[first..].iter().map_while(|&score| score).collect();
    let wins: Vec<f64> = known.iter().map(|&score| win_percent(score)).collect();
    let white_begins = game.start().turn().is_white() == first.is_multiple_of(2);
    let weights = weights(&wins);
    [true, false].map(|white| {
        let plies: Vec<usize> = (0..known.len().saturating_sub(1))
            .filter(|ply| ply.is_multiple_of(2) == (white == white_begins))
            .collect();
        (!plies.is_empty()).then(|| player_analysis(&known, &weights, &plies, white))
    })
}

/// The analysis of the player who moved at `plies`, which are not empty. The accuracy is the mean
/// of the weighted and the harmonic mean of the moves' accuracies.
fn player_analysis(
    scores: &[Score],
    weights: &[f64],
    plies: &[usize],
    white: bool,
) -> PlayerAnalysis {
    let accuracies: Vec<f64> =
        plies.iter().map(|&ply| move_accuracy(loss(scores[ply], scores[ply + 1], white))).collect();
    let weight = |index: usize| weights[plies[index]];
    let total: f64 = (0..plies.len()).map(weight).sum();
    let weighted = accuracies
        .iter()
        .enumerate()
        .map(|(index, accuracy)| weight(index) * accuracy)
        .sum::<f64>();
    let harmonic =
        plies.len() as f64 / accuracies.iter().map(|accuracy| 1.0 / accuracy.max(1.0)).sum::<f64>();
    let lost = |ply: usize| {
        let gain = centipawns(scores[ply + 1]) - centipawns(scores[ply]);
        f64::from((if white { -gain } else { gain }).max(0))
    };
    PlayerAnalysis {
        accuracy: (weighted / total + harmonic) / 2.0,
        average_loss: plies.iter().map(|&ply| lost(ply)).sum::<f64>() / plies.len() as f64,
        moves: plies.len(),
    }
}

/// Accuracy of a move in percent, from its loss of winning chances.
fn move_accuracy(loss: f64) -> f64 {
    (103.1668 * libm::exp(-0.043_54 * loss) - 3.1669).clamp(0.0, 100.0)
}

/// The weight of each move: the standard deviation of the winning chances in a window around it,
/// from 0.5 to 12.
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
    fn winning_chances_follow_the_published_formula() {
        let close = |score, percent: f64| (win_percent(score) - percent).abs() < 0.05;
        assert!(close(Score::Centipawns(0), 50.0));
        assert!(close(Score::Centipawns(100), 59.1), "{}", win_percent(Score::Centipawns(100)));
        assert!(close(Score::Centipawns(-300), 24.9), "{}", win_percent(Score::Centipawns(-300)));
        assert_eq!(win_percent(Score::Mate(-4)), win_percent(Score::Centipawns(-5000)));
    }

    #[test]
    fn judgments_follow_the_loss() {
        assert_eq!(Judgment::from_loss(4.9), None);
        assert_eq!(Judgment::from_loss(5.0), Some(Judgment::Inaccuracy));
        assert_eq!(Judgment::from_loss(14.9), Some(Judgment::Mistake));
        assert_eq!(Judgment::from_loss(60.0), Some(Judgment::Blunder));
    }

    #[test]
    fn a_game_without_losses_has_full_accuracy_and_a_blunder_lowers_that_of_its_player() {
        let level = player_analyses(&game(30), &centipawns(&[20; 31]));
        for player in level {
            let player = player.unwrap();
            assert!(
                player.accuracy > 99.9 && player.average_loss == 0.0 && player.moves == 15,
                "{player:?}"
            );
        }
        let mut values = [0; 31];
        values[8..].fill(500); // Black's fourth move.
        let [white, black] = player_analyses(&game(30), &centipawns(&values)).map(Option::unwrap);
        assert!(white.accuracy > 99.9 && black.accuracy < 90.0, "{white:?} {black:?}");
        assert!((black.average_loss - 500.0 / 15.0).abs() < 1e-9);
    }

    #[test]
    fn only_the_first_run_of_known_scores_is_judged() {
        let mut scores = centipawns(&[0, 0, 0, -300, -300, -300]);
        scores[0] = None;
        scores[1] = None;
        let [white, black] = player_analyses(&game(5), &scores);
        assert_eq!((white.unwrap().moves, black.unwrap().moves), (2, 1));
        assert!(white.unwrap().accuracy < 80.0);
        assert_eq!(player_analyses(&game(5), &[None; 6]), [None, None]);
        assert_eq!(player_analyses(&game(0), &centipawns(&[3])), [None, None]);
    }
}
