//! One chess position with its Zobrist key, kept up to date move by move.

use std::sync::Arc;

use shakmaty::{
    Bitboard, CastlingMode, Chess, Color, EnPassantMode, Move, MoveList, Position as _, Role,
    Square, attacks,
    fen::Fen,
    zobrist::{Zobrist64, ZobristValue},
};

use crate::fen_fault;

/// A legal chess position and its 64-bit key.
///
/// The key covers pieces, side to move, castling rights and the en-passant file where a capture is
/// legal: two positions with equal keys are equal for the repetition rule. Move counters are not
/// part of it.
#[derive(Clone, Debug)]
pub struct Position {
    chess: Chess,
    key: u64,
    /// See [`Position::remembering`].
    past: Option<Past>,
}

/// What a position remembers of the way to it.
#[derive(Clone, Default)]
struct Past {
    previous: Option<Arc<Position>>,
    has_occurred: bool,
}

impl std::fmt::Debug for Past {
    /// Without the positions before, which may be thousands.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Past").field("has_occurred", &self.has_occurred).finish_non_exhaustive()
    }
}

impl Drop for Past {
    /// Frees a long chain without recursion.
    fn drop(&mut self) {
        let mut next = self.previous.take();
        while let Some(position) = next {
            next = Arc::into_inner(position)
                .and_then(|mut owned| owned.past.as_mut()?.previous.take());
        }
    }
}

impl Default for Position {
    fn default() -> Self {
        Self::from(Chess::default())
    }
}

impl From<Chess> for Position {
    fn from(chess: Chess) -> Self {
        let key = Self::key_of(&chess);
        Self { chess, key, past: None }
    }
}

impl PartialEq for Position {
    /// Equal for the repetition rule (move counters do not count).
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key && self.chess == other.chess
    }
}

impl Eq for Position {}

impl Position {
    /// Builds a position from its parts, see [`Position::read_fen`].
    ///
    /// # Errors
    /// The rule that the position breaks, in words.
    pub fn from_setup(setup: shakmaty::Setup, mode: CastlingMode) -> Result<Self, String> {
        let board = setup.board.clone();
        setup
            .position::<Chess>(mode)
            .or_else(shakmaty::PositionError::ignore_invalid_ep_square)
            .or_else(shakmaty::PositionError::ignore_impossible_check)
            .map(Self::from)
            .map_err(|error| fen_fault::of_position(&error, &board))
    }

    /// The shakmaty position inside.
    #[must_use]
    pub fn chess(&self) -> &Chess {
        &self.chess
    }

    /// Zobrist key, see [`Position`].
    #[must_use]
    pub fn key(&self) -> u64 {
        self.key
    }

    /// Standard chess or Chess960: decides how castling moves are written.
    #[must_use]
    pub fn castling_mode(&self) -> CastlingMode {
        self.chess.castles().mode()
    }

    /// The side to move.
    #[must_use]
    pub fn turn(&self) -> Color {
        self.chess.turn()
    }

    /// The piece placement.
    #[must_use]
    pub fn board(&self) -> &shakmaty::Board {
        self.chess.board()
    }

    /// Every legal move, in a fixed order.
    #[must_use]
    pub fn legal_moves(&self) -> MoveList {
        self.chess.legal_moves()
    }

    /// Is there a legal move? Where a piece that cannot be pinned has one, as nearly always, this
    /// is much cheaper than the list.
    #[must_use]
    pub fn has_legal_moves(&self) -> bool {
        !self.is_check() && self.has_unpinned_move() || !self.legal_moves().is_empty()
    }

    /// Has a piece away from the lines of its king a move? Only out of check is it surely legal.
    fn has_unpinned_move(&self) -> bool {
        let (board, turn) = (self.chess.board(), self.turn());
        let (own, occupied) = (board.by_color(turn), board.occupied());
        let Some(king) = board.king_of(turn) else { return false };
        let free = own & !attacks::queen_attacks(king, Bitboard::EMPTY) & !Bitboard::from(king);
        let pawns = (free & board.pawns()).shift(turn.fold_wb(8, -8));
        (pawns & !occupied).any()
            || (free & !board.pawns()).into_iter().any(|square| {
                let piece = board.piece_at(square);
                let reached = piece.map(|piece| attacks::attacks(square, piece, occupied));
                reached.is_some_and(|reached| (reached & !own).any())
            })
    }

    /// True when the side to move is in check.
    #[must_use]
    pub fn is_check(&self) -> bool {
        self.chess.is_check()
    }

    /// Does this legal move give check? Much cheaper than playing it.
    #[must_use]
    pub fn gives_check(&self, mv: Move) -> bool {
        let board = self.chess.board();
        let (Move::Normal { role, from, to, promotion, .. }, Some(king)) =
            (mv, board.king_of(!self.turn()))
        else {
            return self.after(mv).is_check();
        };
        let occupied = board.occupied().without(from).with(to);
        let own = board.by_color(self.turn()).without(from);
        let straight = own & (board.rooks() | board.queens());
        let diagonal = own & (board.bishops() | board.queens());
        let of_mover = promotion.unwrap_or(role).of(self.turn());
        attacks::attacks(to, of_mover, occupied).contains(king)
            // Or a piece that the move uncovers gives check.
            || (attacks::rook_attacks(king, occupied) & straight).any()
            || (attacks::bishop_attacks(king, occupied) & diagonal).any()
    }

    /// Neither side can mate by any sequence of legal moves (bare kings, a lone minor piece,
    /// same-coloured bishops).
    #[must_use]
    pub fn is_insufficient_material(&self) -> bool {
        self.chess.is_insufficient_material()
    }

    /// Could this side ever mate with its material, if the other side helped?
    #[must_use]
    pub fn can_mate(&self, side: Color) -> bool {
        !self.chess.has_insufficient_material(side)
    }

    /// The winner when a side's time is up: the other one, or nobody (`None`) if that one could not
    /// mate by any sequence of moves (FIDE 6.9).
    #[must_use]
    pub fn winner_on_time(&self, loser: Color) -> Option<Color> {
        self.can_mate(!loser).then_some(!loser)
    }

    /// Plies since the last capture or pawn move.
    #[must_use]
    pub fn halfmove_clock(&self) -> u32 {
        self.chess.halfmoves()
    }

    /// Plies since the start of a game that began at move 1 with White.
    #[must_use]
    pub fn ply(&self) -> u32 {
        (self.chess.fullmoves().get().saturating_sub(1))
            .saturating_mul(2)
            .saturating_add(u32::from(self.turn() == Color::Black))
    }

    /// The en-passant target square, where a capture onto it is legal.
    #[must_use]
    pub fn en_passant(&self) -> Option<Square> {
        self.chess.ep_square(EnPassantMode::Legal)
    }

    /// This position, and every one that follows it, knows the positions before it: for networks
    /// that see them. A move then costs an allocation.
    #[must_use]
    pub fn remembering(mut self) -> Self {
        self.past.get_or_insert_default();
        self
    }

    /// The position before this one, as far as it is [remembered](Self::remembering).
    #[must_use]
    pub fn previous(&self) -> Option<&Self> {
        self.past.as_ref()?.previous.as_deref()
    }

    /// Is this position equal to one that is [remembered](Self::remembering)?
    #[must_use]
    pub fn has_occurred(&self) -> bool {
        self.past.as_ref().is_some_and(|past| past.has_occurred)
    }

    /// Plays a move that must be legal here.
    pub fn play(&mut self, mv: Move) {
        if self.past.is_none() {
            return self.play_and_forget(mv);
        }
        let before = Arc::new(self.clone());
        self.play_and_forget(mv);
        let key = self.key;
        let plies = self.halfmove_clock() as usize;
        let mut earlier = std::iter::successors(Some(&*before), |at| at.previous()).take(plies);
        let has_occurred = earlier.any(|at| at.key == key);
        self.past = Some(Past { previous: Some(before), has_occurred });
    }

    fn play_and_forget(&mut self, mv: Move) {
        let next = self.simple_key_after(mv);
        self.chess.play_unchecked(mv);
        self.key = next.unwrap_or_else(|| Self::key_of(&self.chess));
    }

    fn key_of(chess: &Chess) -> u64 {
        let Zobrist64(key) = chess.zobrist_hash(EnPassantMode::Legal);
        key
    }

    /// The key after a legal move, without playing it; `None` where the move changes castling
    /// rights or may be answered en passant.
    fn simple_key_after(&self, mv: Move) -> Option<u64> {
        let Move::Normal { role, from, capture, to, promotion } = mv else { return None };
        let (turn, castles) = (self.turn(), self.chess.castles());
        let is_double_step = role == Role::Pawn && u8::from(from) ^ u8::from(to) == 16;
        let keeps_castling = match role {
            Role::King => !castles.has_color(turn),
            _ => !castles.castling_rights().contains(from),
        } && !castles.castling_rights().contains(to);
        if is_double_step || !keeps_castling {
            return None;
        }
        let mut key = Zobrist64(self.key);
        key ^= Zobrist64::zobrist_for_white_turn();
        key ^= Zobrist64::zobrist_for_piece(from, role.of(turn));
        key ^= Zobrist64::zobrist_for_piece(to, promotion.unwrap_or(role).of(turn));
        if let Some(capture) = capture {
            key ^= Zobrist64::zobrist_for_piece(to, capture.of(!turn));
        }
        // Cheap: the square without looking whether a capture is legal.
        if self.chess.ep_square(EnPassantMode::Always).is_some()
            && let Some(square) = self.en_passant()
        {
            key ^= Zobrist64::zobrist_for_en_passant_file(square.file());
        }
        Some(key.0)
    }

    /// The [key](Self::key) of the position after a legal move; mostly without playing it.
    #[must_use]
    pub fn key_after(&self, mv: Move) -> u64 {
        self.simple_key_after(mv).unwrap_or_else(|| {
            let mut next = self.chess.clone();
            next.play_unchecked(mv);
            Self::key_of(&next)
        })
    }

    /// [`halfmove_clock`](Self::halfmove_clock) after a legal move.
    #[must_use]
    pub fn halfmove_clock_after(&self, mv: Move) -> u32 {
        if mv.is_zeroing() { 0 } else { self.halfmove_clock().saturating_add(1) }
    }

    /// The position after a legal move.
    #[must_use]
    pub fn after(&self, mv: Move) -> Self {
        let mut next = self.clone();
        next.play(mv);
        next
    }

    /// The position after a null move: the other side is to move, en passant is over, and the
    /// fifty-move clock starts again, because no repetition reaches across it; what came before is
    /// forgotten. `None` in check.
    #[must_use]
    pub fn after_null_move(&self) -> Option<Self> {
        let mut setup = self.chess.to_setup(EnPassantMode::Legal);
        setup.swap_turn();
        setup.halfmoves = 0;
        let after = setup.position::<Chess>(self.castling_mode()).ok().map(Self::from)?;
        Some(if self.past.is_some() { after.remembering() } else { after })
    }

    /// How many pieces other than king and pawns the side to move has.
    #[must_use]
    pub fn piece_count(&self) -> usize {
        let board = self.chess.board();
        (board.by_color(self.turn()) & !(board.pawns() | board.kings())).count()
    }

    /// The rooks that may still castle.
    #[must_use]
    pub fn castling_rights(&self) -> shakmaty::Bitboard {
        self.chess.castles().castling_rights()
    }

    /// The full six-field FEN.
    #[must_use]
    pub fn fen(&self) -> String {
        Fen::from_position(&self.chess, EnPassantMode::Legal).to_string()
    }
}
