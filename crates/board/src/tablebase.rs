//! Syzygy endgame tables: the winner of a position of few pieces, and the moves that keep the result.

use std::{
    env, fmt,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use shakmaty::{Color, Move};
use shakmaty_syzygy::{AmbiguousWdl, Tablebase, Wdl};

use crate::{Game, GameEnd, Position};

/// Plies without a capture, pawn move or repetition that may pass before only the shortest way to a
/// won game's next is allowed.
const PATIENCE: u32 = 20;

/// Tables of one folder or several.
pub struct Tablebases {
    path: PathBuf,
    tables: Tablebase<shakmaty::Chess>,
    count: usize,
    unusable: Vec<TablebaseError>,
    hits: AtomicU64,
}

impl fmt::Debug for Tablebases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tablebases")
            .field("path", &self.path)
            .field("count", &self.count)
            .finish_non_exhaustive()
    }
}

impl PartialEq for Tablebases {
    /// Tables of the same folders.
    fn eq(&self, other: &Self) -> bool {
        (&self.path, self.count) == (&other.path, other.count)
    }
}

impl Eq for Tablebases {}

/// A folder without usable tables; one sentence.
#[derive(Debug, thiserror::Error)]
pub enum TablebaseError {
    #[error("cannot read the tables in `{folder}`: {source}")]
    Read { folder: String, source: std::io::Error },
    #[error("`{folder}` holds no Syzygy tables (KQvK.rtbw and so on)")]
    Empty { folder: String },
}

/// The answer of the tables for a game's current position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootMoves {
    /// The moves that keep the result.
    pub moves: Vec<Move>,
    /// The winner with best play; `None`: a draw.
    pub winner: Option<Color>,
}

/// A move with its result for the mover, and the number of plies from it to the next capture, pawn
/// move or mate.
struct ProbedMove {
    mv: Move,
    result: AmbiguousWdl,
    distance: u32,
}

impl Tablebases {
    /// Finds the tables of a folder, or of several in the notation of `PATH`: `:` between them, on
    /// Windows `;`. A folder without tables costs only itself ([`Tablebases::unusable`]).
    ///
    /// # Errors
    /// No folder has tables: the reason of the first.
    pub fn open(path: &Path) -> Result<Self, TablebaseError> {
        let mut tables = Tablebase::new();
        let mut count = 0;
        let mut unusable = Vec::new();
        for folder in env::split_paths(path) {
            let shown = || folder.display().to_string();
            match tables.add_directory(&folder) {
                Err(source) => unusable.push(TablebaseError::Read { folder: shown(), source }),
                Ok(0) => unusable.push(TablebaseError::Empty { folder: shown() }),
                Ok(more) => count += more,
            }
        }
        if count == 0 && !unusable.is_empty() {
            return Err(unusable.swap_remove(0));
        }
        Ok(Self { path: path.to_owned(), tables, count, unusable, hits: AtomicU64::new(0) })
    }

    /// The folders that gave no tables, and why.
    #[must_use]
    pub fn unusable(&self) -> &[TablebaseError] {
        &self.unusable
    }

    /// The folders as they were given.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Positions that were found in the tables so far.
    #[must_use]
    pub fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }

    /// Can the tables have this position? They have none with castling rights.
    fn may_have(&self, position: &Position) -> bool {
        position.board().occupied().count() <= self.tables.max_pieces()
            && position.castling_rights().is_empty()
    }

    fn count_hit(&self) {
        self.hits.fetch_add(1, Ordering::Relaxed);
    }

    /// The winner (`Some(None)`: a draw) with best play and the fifty-move rule. `None` where the
    /// tables have no answer: too many pieces, castling rights, or moves already counted towards the
    /// fifty.
    #[must_use]
    pub fn winner(&self, position: &Position) -> Option<Option<Color>> {
        if position.halfmove_clock() != 0 || !self.may_have(position) {
            return None;
        }
        let result = self.tables.probe_wdl_after_zeroing(position.chess()).ok()?;
        self.count_hit();
        Some(winner(result, position.turn()))
    }

    /// The moves that keep the result of a game's current position under the fifty-move rule,
    /// repetitions included; if files of distances (`.rtbz`) are missing, without counting the
    /// fifty moves. `None` where the tables have no answer.
    ///
    /// In a won position all winning moves are returned. After a repetition, or ten moves without
    /// capture and pawn move, only the winning moves nearest to the next capture, pawn move or mate
    /// are returned, so that the game makes progress. The same holds at once for a win that the
    /// fifty-move rule can take away.
    #[must_use]
    pub fn root(&self, game: &Game) -> Option<RootMoves> {
        let position = game.position();
        if !self.may_have(position) {
            return None;
        }
        let probe = |with_distances| -> Option<Vec<ProbedMove>> {
            position
                .legal_moves()
                .into_iter()
                .map(|mv| self.probe(game, mv, with_distances))
                .collect()
        };
        let mut probed = probe(true).or_else(|| probe(false))?;
        let best = probed.iter().map(|probed| probed.result).max()?;
        probed.retain(|probed| probed.result == best);
        let lacks_progress = best == AmbiguousWdl::Win
            && (game.has_repeated() || position.halfmove_clock() >= PATIENCE);
        if lacks_progress || matches!(best, AmbiguousWdl::MaybeWin | AmbiguousWdl::CursedWin) {
            let least = probed.iter().map(|probed| probed.distance).min();
            probed.retain(|probed| Some(probed.distance) == least);
        }
        self.count_hit();
        Some(RootMoves {
            moves: probed.into_iter().map(|probed| probed.mv).collect(),
            winner: winner(best.after_zeroing(), position.turn()),
        })
    }

    fn probe(&self, game: &Game, mv: Move, with_distances: bool) -> Option<ProbedMove> {
        let mut next = game.clone();
        next.play(mv);
        let after = next.position();
        let (theirs, distance) = match next.end() {
            Some(GameEnd::Checkmate { .. }) => (AmbiguousWdl::Loss, 0),
            Some(_) => (AmbiguousWdl::Draw, 0),
            None if with_distances => {
                let dtz = self.tables.probe_dtz(after.chess()).ok()?;
                let clock = after.halfmove_clock();
                let distance = if clock == 0 { 0 } else { dtz.ignore_rounding().0.unsigned_abs() };
                (AmbiguousWdl::from_dtz_and_halfmoves(dtz, clock), distance)
            }
            None => (self.tables.probe_wdl_after_zeroing(after.chess()).ok()?.into(), 0),
        };
        Some(ProbedMove { mv, result: -theirs, distance })
    }
}

fn winner(result: Wdl, turn: Color) -> Option<Color> {
    match result {
        Wdl::Win => Some(turn),
        Wdl::Loss => Some(!turn),
        Wdl::Draw | Wdl::CursedWin | Wdl::BlessedLoss => None,
    }
}

#[cfg(test)]
mod tests;
