//! Adjudication: a game ends before the rules of chess end it where its result is clear, so that a
//! match takes less time.

use std::time::Duration;

use board::{Color, Game, GameEnd, Score, Tablebases};

use crate::{MoveEvaluation, Termination};

/// When a game is adjudicated, and how much time over the limit is a fault. The debug text of this
/// type is part of `match.json`, which tells matches apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// A game of this many plies after its opening is a draw.
    pub max_plies: usize,
    /// A game is won if both engines report a score of at least this many centipawns for the same
    /// side over `win_plies` plies. 0 turns this off.
    pub win_centipawns: i32,
    pub win_plies: usize,
    /// A game is drawn if both engines report a score of at most this many centipawns for either
    /// side over `draw_plies` plies, from `draw_from_ply` on. A negative value turns this off.
    pub draw_centipawns: i32,
    pub draw_plies: usize,
    pub draw_from_ply: usize,
    /// Time over the limit that is not counted as a fault.
    pub margin: Duration,
    /// An engine without a move stalls after the limit, the margin and this time.
    pub stall: Duration,
    /// The time limit of a search by nodes or depth.
    pub untimed: Duration,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            max_plies: 400,
            win_centipawns: 1000,
            win_plies: 8,
            draw_centipawns: 8,
            draw_plies: 16,
            draw_from_ply: 80,
            margin: Duration::from_millis(100),
            stall: Duration::from_secs(10),
            untimed: Duration::from_secs(60),
        }
    }
}

impl Rules {
    /// The same rules without adjudication by scores.
    #[must_use]
    pub fn without_adjudication(self) -> Self {
        Self { win_centipawns: 0, draw_centipawns: -1, ..self }
    }
}

/// Decides whether a game is over.
#[derive(Clone, Copy, Debug)]
pub struct Adjudicator<'a> {
    pub rules: &'a Rules,
    pub tables: Option<&'a Tablebases>,
}

impl Adjudicator<'_> {
    /// The winner (`None` for a draw) and the termination of a game that is over: by the rules of
    /// chess, by the agreement of the engines, by the endgame tables or by its length.
    /// `evaluations` are those of the moves after the first `book_plies`.
    pub(crate) fn result(
        &self,
        game: &Game,
        book_plies: usize,
        evaluations: &[MoveEvaluation],
    ) -> Option<(Option<Color>, Termination)> {
        let Self { rules, tables } = self;
        if let Some(end) = game.end() {
            let winner = match end {
                GameEnd::Checkmate { winner } => Some(winner),
                _ => None,
            };
            return Some((winner, Termination::GameEnd(end)));
        }
        let (plies, turn) = (game.moves().len(), game.position().turn());
        if let Some(winner) = agreed_result(evaluations, plies, turn, rules) {
            return Some((winner, Termination::Adjudicated));
        }
        if let Some(winner) = tables.and_then(|tables| tables.winner(game.position())) {
            return Some((winner, Termination::Tablebase));
        }
        (plies >= book_plies + rules.max_plies).then_some((None, Termination::PlyLimit))
    }
}

/// The winner (`Some(None)` for a draw) if the scores of both engines have agreed for as many plies
/// as the rules ask for. `turn` is the side to move.
fn agreed_result(
    evaluations: &[MoveEvaluation],
    plies: usize,
    turn: Color,
    rules: &Rules,
) -> Option<Option<Color>> {
    let value = |evaluation: &MoveEvaluation| match evaluation.score? {
        // The clamp keeps the negative of any score representable.
        Score::Centipawns(value) => Some(value.max(-i32::MAX)),
        Score::Mate(moves) if moves > 0 => Some(i32::MAX),
        Score::Mate(_) => Some(-i32::MAX),
    };
    // The last scores from the side to move; the last evaluation is the opponent's.
    let recent = |count: usize| -> Option<Vec<i32>> {
        let from = evaluations.len().checked_sub(count)?;
        let signs = [-1, 1];
        evaluations[from..]
            .iter()
            .rev()
            .enumerate()
            .map(|(back, evaluation)| Some(value(evaluation)? * signs[back % 2]))
            .collect()
    };
    if rules.win_centipawns > 0
        && let Some(values) = recent(rules.win_plies.max(2))
    {
        if values.iter().all(|&value| value >= rules.win_centipawns) {
            return Some(Some(turn));
        }
        if values.iter().all(|&value| value <= -rules.win_centipawns) {
            return Some(Some(!turn));
        }
    }
    if rules.draw_centipawns >= 0
        && plies >= rules.draw_from_ply
        && let Some(values) = recent(rules.draw_plies.max(2))
        && values.iter().all(|value| value.abs() <= rules.draw_centipawns)
    {
        return Some(None);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evaluations(values: &[i32]) -> Vec<MoveEvaluation> {
        values
            .iter()
            .map(|&value| MoveEvaluation {
                score: Some(Score::Centipawns(value)),
                depth: None,
                elapsed: Duration::ZERO,
            })
            .collect()
    }

    #[test]
    fn both_engines_must_agree() {
        let rules = Rules { win_plies: 4, draw_plies: 4, draw_from_ply: 10, ..Rules::default() };
        let result = |values: &[i32], plies| {
            agreed_result(&evaluations(values), plies, Color::White, &rules)
        };
        assert_eq!(result(&[1200, -1500, 1200, -1500], 4), Some(Some(Color::White)));
        assert_eq!(result(&[-1200, 1500, -1200, 1500], 4), Some(Some(Color::Black)));
        assert_eq!(result(&[1200, -900, 1200, -1500], 4), None, "one engine does not agree");
        assert_eq!(result(&[1200, 1500, 1200, 1500], 4), None, "both see themselves winning");
        assert_eq!(result(&[1200, -1500, 1200], 4), None, "not for long enough");
        assert_eq!(result(&[0, 5, -8, 0], 10), Some(None));
        assert_eq!(result(&[0, 5, -8, 0], 9), None);
        assert_eq!(result(&[0, 5, -9, 0], 10), None);
        let never = rules.without_adjudication();
        assert_eq!(
            agreed_result(&evaluations(&[1200, -1500, 1200, -1500]), 99, Color::White, &never),
            None
        );
        assert_eq!(agreed_result(&evaluations(&[0, 0, 0, 0]), 99, Color::White, &never), None);
    }
}
