//! Games that Syzygy tables decide end there.

use std::{fmt, path::Path};

use board::{Color, Position};
use shakmaty_syzygy::{Tablebase, Wdl};

/// Tables of some folder.
pub struct Tablebases {
    tables: Tablebase<shakmaty::Chess>,
    count: usize,
}

impl fmt::Debug for Tablebases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tablebases").field("count", &self.count).finish_non_exhaustive()
    }
}

/// A folder without usable tables; one sentence.
#[derive(Debug, thiserror::Error)]
pub enum TablebaseError {
    #[error("cannot read the tables in `{folder}`: {source}")]
    Read { folder: String, source: std::io::Error },
    #[error("`{folder}` holds no Syzygy tables (KQvK.rtbw and so on)")]
    Empty { folder: String },
}

impl Tablebases {
    /// Finds the tables of a folder.
    ///
    /// # Errors
    /// It cannot be read or holds none.
    pub fn open(folder: &Path) -> Result<Self, TablebaseError> {
        let shown = || folder.display().to_string();
        let mut tables = Tablebase::new();
        let count = tables
            .add_directory(folder)
            .map_err(|source| TablebaseError::Read { folder: shown(), source })?;
        if count == 0 {
            return Err(TablebaseError::Empty { folder: shown() });
        }
        Ok(Self { tables, count })
    }

    /// The winner (`Some(None)`: a draw) with best play and the fifty-move rule. `None` where the tables do not say: too
    /// many pieces, castling rights, or moves already counted towards the fifty.
    #[must_use]
    pub fn winner(&self, position: &Position) -> Option<Option<Color>> {
        let known = position.board().occupied().count() <= self.tables.max_pieces()
            && position.halfmove_clock() == 0
            && position.castling_rights().is_empty();
        if !known {
            return None;
        }
        match self.tables.probe_wdl_after_zeroing(position.chess()).ok()? {
            Wdl::Win => Some(Some(position.turn())),
            Wdl::Loss => Some(Some(!position.turn())),
            Wdl::Draw | Wdl::CursedWin | Wdl::BlessedLoss => Some(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use board::CastlingMode;

    #[test]
    fn three_pieces_are_known() {
        let tables = Tablebases::open(Path::new("tests/tables")).unwrap();
        let winner = |fen| tables.winner(&Position::from_fen(fen, CastlingMode::Standard).unwrap());
        assert_eq!(winner("8/8/8/4k3/8/8/8/KQ6 w - - 0 1"), Some(Some(Color::White)));
        assert_eq!(winner("8/8/8/4K3/8/8/8/kq6 w - - 0 1"), Some(Some(Color::Black)));
        assert_eq!(winner("8/8/8/4k3/8/8/8/KB6 w - - 0 1"), Some(None));
        assert_eq!(winner("8/8/8/8/8/8/1k6/1Q5K b - - 0 1"), Some(None), "the queen is lost");
        assert_eq!(winner("8/8/8/4k3/8/8/8/KQ6 w - - 1 1"), None, "moves count already");
        assert_eq!(winner("8/8/8/4k3/8/8/8/KN6 w - - 0 1"), None, "no such table");
        assert_eq!(winner("8/8/8/4k3/8/8/8/4K2R w K - 0 1"), None, "castling");
        assert_eq!(winner("8/8/8/4k3/8/8/1P6/KQ6 w - - 0 1"), None, "too many pieces");
    }

    #[test]
    fn a_folder_without_tables_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(Tablebases::open(folder.path()), Err(TablebaseError::Empty { .. })));
        let missing = folder.path().join("missing");
        assert!(matches!(Tablebases::open(&missing), Err(TablebaseError::Read { .. })));
    }
}
