//! What a file of analysed games says of its players, read from the file itself: so it does not
//! matter in how many runs it was made.

use std::{collections::BTreeMap, io};

use board::Score;
use games::PgnGame;

use crate::grade::{Grade, Mark, grades, score_of_end, win_percent};

/// One game in short.
#[derive(Clone, Debug)]
pub struct GameSummary {
    pub white: String,
    pub black: String,
    pub result: String,
    /// White's and Black's.
    pub grades: [Option<Grade>; 2],
    /// White's chance to win in percent after each ply, the start first, as far as it is known.
    pub wins: Vec<Option<f64>>,
    /// Inaccuracies, mistakes and blunders of White and of Black.
    pub marks: [[usize; 3]; 2],
}

/// All games of one name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlayerSummary {
    pub games: usize,
    pub moves: usize,
    /// Mean over the games, 0 to 100.
    pub accuracy: f64,
    /// Centipawns lost a move.
    pub average_loss: f64,
    /// Inaccuracies, mistakes and blunders.
    pub marks: [usize; 3],
}

/// A whole file.
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
        for game in games::read(pgn) {
            summary.add(&game?);
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
        for ((name, grade), marks) in
            [&game.white, &game.black].into_iter().zip(game.grades).zip(game.marks)
        {
            let Some(grade) = grade else { continue };
            let player = self.players.entry(name.clone()).or_default();
            player.games += 1;
            player.moves += grade.moves;
            // Sums until the end, see `read`.
            player.accuracy += grade.accuracy;
            player.average_loss += grade.average_loss * grade.moves as f64;
            player.marks.iter_mut().zip(marks).for_each(|(sum, count)| *sum += count);
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
        if let Some(end) =
            found.game.end().filter(|_| found.game.position().legal_moves().is_empty())
        {
            scores[plies] = Some(score_of_end(end));
        }
        let mut marks = [[0; 3]; 2];
        for &(ply, glyph) in &found.glyphs {
            // The move before the glyph.
            let white = found.game.start().turn().is_white() != ply.is_multiple_of(2);
            if let Some(kind) = Mark::ALL.iter().position(|mark| mark.glyph() == glyph) {
                marks[usize::from(!white)][kind] += 1;
            }
        }
        Self {
            white: tag("White"),
            black: tag("Black"),
            result: tag("Result"),
            grades: grades(&found.game, &scores),
            wins: scores.into_iter().map(|score| score.map(win_percent)).collect(),
            marks,
        }
    }
}
