//! Statistics of players and games of an annotated PGN. They are read from the file itself, so that
//! they cover all the runs that made it.

use std::{collections::BTreeMap, io};

use board::Score;
use games::PgnGame;

use crate::{
    accuracy::{Judgment, PlayerAnalysis, player_analyses, score_of_end, win_percent},
    old_verdicts::without_verdicts,
};

/// One game in numbers.
#[derive(Clone, Debug)]
pub struct GameSummary {
    pub white: String,
    pub black: String,
    pub result: String,
    /// White's analysis and Black's.
    pub player_analyses: [Option<PlayerAnalysis>; 2],
    /// White's chance to win in percent after each ply, the start first; `None` where it is
    /// unknown.
    pub win_percents: Vec<Option<f64>>,
    /// Inaccuracies, mistakes and blunders of White and of Black.
    pub judgments: [[usize; 3]; 2],
}

/// All games of one player name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlayerSummary {
    pub games: usize,
    pub moves: usize,
    /// Mean accuracy of the games, in percent.
    pub accuracy: f64,
    /// Average centipawn loss a move.
    pub average_loss: f64,
    /// Inaccuracies, mistakes and blunders.
    pub judgments: [usize; 3],
}

/// All games of a file.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    pub games: Vec<GameSummary>,
    pub players: BTreeMap<String, PlayerSummary>,
    /// Positions with an evaluation.
    pub positions: usize,
}

impl Summary {
    /// Reads an annotated PGN.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read(pgn: impl io::Read) -> io::Result<Self> {
        let mut summary = Self::default();
        for game in games::read_pgn(pgn) {
            if let Some(game) = game?.into_game() {
                summary.add(&game);
            }
        }
        for player in summary.players.values_mut() {
            player.accuracy /= player.games.max(1) as f64;
            player.average_loss /= player.moves.max(1) as f64;
        }
        Ok(summary)
    }

    fn add(&mut self, found: &PgnGame) {
        let game = GameSummary::of(found);
        self.positions += found.evaluations.len();
        for ((name, analysis), judgments) in
            [&game.white, &game.black].into_iter().zip(game.player_analyses).zip(game.judgments)
        {
            let Some(analysis) = analysis else { continue };
            let player = self.players.entry(name.clone()).or_default();
            player.games += 1;
            player.moves += analysis.moves;
            // Sums; `read` divides them at the end.
            player.accuracy += analysis.accuracy;
            player.average_loss += analysis.average_loss * analysis.moves as f64;
            player.judgments.iter_mut().zip(judgments).for_each(|(sum, count)| *sum += count);
        }
        self.games.push(game);
    }
}

impl GameSummary {
    fn of(found: &PgnGame) -> Self {
        let tag = |name: &str| found.tag(name).unwrap_or("?").to_owned();
        let plies = found.game.moves().len();
        let mut scores: Vec<Option<Score>> = vec![None; plies + 1];
        for &(ply, score) in &found.evaluations {
            scores[ply] = Some(score);
        }
        if let Some(end) = found.game.end().filter(|_| !found.game.position().has_legal_moves()) {
            scores[plies] = Some(score_of_end(end));
        }
        let mut judgments = [[0; 3]; 2];
        // Verdicts, not glyphs: those may be a person's.
        for (ply, comment) in &found.comments {
            let mut verdicts = Vec::new();
            without_verdicts(comment, &mut verdicts);
            let said = |judgment: &Judgment| {
                let is_said = |text: &String| {
                    text.contains(judgment.name()) || text.contains(judgment.sentence())
                };
                verdicts.iter().any(is_said)
            };
            // A comment stands after its move.
            let white = found.game.start().turn().is_white() != ply.is_multiple_of(2);
            if let Some(kind) = Judgment::ALL.iter().position(said) {
                judgments[usize::from(!white)][kind] += 1;
            }
        }
        Self {
            white: tag("White"),
            black: tag("Black"),
            result: tag("Result"),
            player_analyses: player_analyses(&found.game, &scores),
            win_percents: scores.into_iter().map(|score| score.map(win_percent)).collect(),
            judgments,
        }
    }
}
