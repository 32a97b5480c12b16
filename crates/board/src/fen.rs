//! Reads FEN as people and programs write it: castling rights that the pieces no longer have are
//! dropped with a warning, as Stockfish, Lichess and python-chess do, and a file that does not say
//! whether it means Chess960 is read by its castling rights.

use shakmaty::{CastlingMode, Chess, fen::Fen};

use crate::{BoardError, Position, error::quoted, fen_fault};

/// A position that was read, and what was put right.
#[derive(Clone, Debug)]
pub struct ReadFen {
    pub position: Position,
    pub warning: Option<FenWarning>,
}

/// Castling rights of the text that the position does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FenWarning {
    /// King or rook is not where it must be: the rights as written, and those that are left.
    RightsDropped { written: String, left: String },
    /// They are rights of Chess960, and standard chess was asked for; as above.
    Chess960Rights { written: String, left: String },
}

impl std::fmt::Display for FenWarning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (Self::RightsDropped { written, left } | Self::Chess960Rights { written, left }) = self;
        write!(f, "the castling rights `{written}` became `{left}`: ")?;
        match self {
            Self::RightsDropped { .. } => f.write_str("king or rook is not where it must be"),
            Self::Chess960Rights { .. } => f.write_str("the others are rights of Chess960"),
        }
    }
}

impl Position {
    /// Reads a FEN of four to six fields. Castling rights may be written as `KQkq`, as rook files
    /// (Shredder-FEN) or as X-FEN; those that the pieces do not have are dropped with a warning. An
    /// en-passant square that allows no capture is dropped. Without a `mode` the position is one of
    /// Chess960 if its castling rights fit only there.
    ///
    /// # Errors
    /// The text is not a FEN, or the position breaks a rule that search depends on (kings, pawns on
    /// back ranks, side not to move in check, more pieces than a game can have).
    pub fn read_fen(text: &str, mode: Option<CastlingMode>) -> Result<ReadFen, BoardError> {
        let fen: Fen = text.trim().parse().map_err(|error: shakmaty::fen::ParseFenError| {
            BoardError::FenSyntax { fen: quoted(text), reason: fen_fault::of_text(&error, text) }
        })?;
        let setup = fen.into_setup();
        let standard = mode.unwrap_or(CastlingMode::Standard);
        let reason = match Self::from_setup(setup.clone(), standard) {
            Ok(position) => return Ok(ReadFen { position, warning: None }),
            Err(reason) => reason,
        };
        let as_chess960 = Self::from_setup(setup.clone(), CastlingMode::Chess960).ok();
        if let (None, Some(position)) = (mode, &as_chess960) {
            return Ok(ReadFen { position: position.clone(), warning: None });
        }
        let position = setup
            .position::<Chess>(standard)
            .or_else(shakmaty::PositionError::ignore_invalid_castling_rights)
            .or_else(shakmaty::PositionError::ignore_invalid_ep_square)
            .or_else(shakmaty::PositionError::ignore_impossible_check)
            .map(Self::from)
            .map_err(|_| BoardError::FenPosition { fen: quoted(text), reason })?;
        let written = quoted(text.split_whitespace().nth(2).unwrap_or("-"));
        let left = position.fen().split_whitespace().nth(2).unwrap_or("-").to_owned();
        let warning = Some(match as_chess960 {
            Some(_) => FenWarning::Chess960Rights { written, left },
            None => FenWarning::RightsDropped { written, left },
        });
        Ok(ReadFen { position, warning })
    }

    /// [`Position::read_fen`] without the warning.
    ///
    /// # Errors
    /// As there.
    pub fn from_fen(text: &str, mode: CastlingMode) -> Result<Self, BoardError> {
        Self::read_fen(text, Some(mode)).map(|read| read.position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mode, castling rights as read (Shredder-FEN in Chess960 where needed), and the warning's
    /// kind: `-` none, `d` dropped, `9` of Chess960.
    fn read(text: &str, mode: Option<CastlingMode>) -> String {
        let ReadFen { position, warning } = Position::read_fen(text, mode).unwrap();
        let kind = match warning {
            None => '-',
            Some(FenWarning::RightsDropped { .. }) => 'd',
            Some(FenWarning::Chess960Rights { .. }) => '9',
        };
        let mode = if position.castling_mode().is_standard() { "standard" } else { "chess960" };
        format!("{mode} {} {kind}", position.fen().split(' ').nth(2).unwrap())
    }

    #[test]
    fn rights_that_the_pieces_do_not_have_are_dropped() {
        let standard = Some(CastlingMode::Standard);
        let chess960 = Some(CastlingMode::Chess960);
        let king_moved = "r3k2r/8/8/8/8/8/8/R4K1R w KQkq - 2 3";
        let no_rook = "r3k2r/8/8/8/8/8/8/4K2R w KQkq - 0 1";
        let mid_board = "8/8/4k3/8/8/4K3/8/8 b KQkq - 0 1";
        let letters = "2nkn3/2p1p3/8/8/8/6r1/7r/RR3K2 w B - 0 1";
        let start960 = "bqnbrkrn/pppppppp/8/8/8/8/PPPPPPPP/BQNBRKRN w KQkq - 0 1";
        let fine = "r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 0 1";
        let knight = "r3k2r/8/8/8/8/8/8/R3K2N w KQkq - 0 1";
        for (text, mode, expected) in [
            (fine, standard, "standard KQkq -"),
            (fine, None, "standard KQkq -"),
            (king_moved, standard, "standard kq 9"),
            (king_moved, None, "chess960 KQkq -"),
            (no_rook, standard, "standard Kkq d"),
            (no_rook, None, "standard Kkq d"),
            (no_rook, chess960, "chess960 Kkq d"),
            (mid_board, standard, "standard - d"),
            (mid_board, None, "standard - d"),
            (letters, standard, "standard - 9"),
            (letters, None, "chess960 B -"),
            (letters, chess960, "chess960 B -"),
            (start960, standard, "standard - 9"),
            (start960, None, "chess960 KQkq -"),
            (knight, standard, "standard Qkq d"),
        ] {
            assert_eq!(read(text, mode), expected, "{text} {mode:?}");
        }
    }

    #[test]
    fn other_faults_are_still_refused() {
        for text in
            ["8/8/8/8/8/8/8/4K3 w KQkq - 0 1", "4k3/8/8/8/8/8/8/P3K3 w Q - 0 1", "k7/8/8/8 w KQ -"]
        {
            assert!(Position::read_fen(text, None).is_err(), "{text}");
        }
    }
}
