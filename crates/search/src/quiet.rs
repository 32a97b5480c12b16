//! Quiescence search: captures and promotions are resolved before the value of a leaf counts.
//!
//! A leaf's value is the larger of its evaluation (the mover may decline every capture) and the
//! best outcome of its forcing moves: captures and queen promotions that do not lose material on
//! their square by exchange. A leaf in check has no static evaluation, and every legal move counts.
//! A search may prune captures that cannot lift the evaluation to the bound (delta pruning).

use board::{Checks, Move, Position, Role, Square};
use shakmaty::{Color, attacks};

/// Piece values for exchanges, in centipawns.
pub(crate) fn worth(role: Role) -> i32 {
    match role {
        Role::Pawn => 100,
        Role::Knight => 310,
        Role::Bishop => 325,
        Role::Rook => 500,
        Role::Queen => 950,
        Role::King => 20_000,
    }
}

/// The moves of quiescence search, ordered by most valuable victim, then least valuable attacker
/// (MVV-LVA); all legal moves in check.
pub(crate) fn forcing_moves(position: &Position) -> Vec<Move> {
    let (legal, mut places) = (position.legal_moves(), Vec::new());
    forcing_among(position, position.is_check(), &legal, &mut places);
    places.into_iter().map(|place| legal[usize::from(place)]).collect()
}

/// The [`forcing_moves`] and every quiet check, because a check may mate.
pub(crate) fn forcing_moves_and_checks(position: &Position) -> Vec<Move> {
    let (legal, mut places) = (position.legal_moves(), Vec::new());
    forcing_among(position, position.is_check(), &legal, &mut places);
    add_checks(position, &legal, &mut places);
    places.into_iter().map(|place| legal[usize::from(place)]).collect()
}

/// Replaces `places` by the places of the [`forcing_moves`] among all `legal` moves. `check`: is
/// the mover in check?
pub(crate) fn forcing_among(
    position: &Position,
    check: bool,
    legal: &[Move],
    places: &mut Vec<u8>,
) {
    places.clear();
    let all = (0_u8..).zip(legal);
    if check {
        places.extend(all.map(|(place, _)| place));
    } else {
        let counts = |mv: Move| {
            matches!(mv.promotion(), None | Some(Role::Queen)) && exchange(position, mv) >= 0
        };
        let captures = all.clone().filter(|(_, mv)| mv.is_capture() && counts(**mv));
        places.extend(captures.map(|(place, _)| place));
        let promotions =
            all.filter(|(_, mv)| mv.is_promotion() && !mv.is_capture() && counts(**mv));
        places.extend(promotions.map(|(place, _)| place));
    }
    places.sort_by_key(|&place| {
        let mv = legal[usize::from(place)];
        let gain = mv.capture().map_or(0, worth) * 16 + mv.promotion().map_or(0, worth) * 16;
        -(gain - worth(mv.role()).min(1000))
    });
}

/// Adds every quiet check to what [`forcing_among`] found.
pub(crate) fn add_checks(position: &Position, legal: &[Move], places: &mut Vec<u8>) {
    let checks = Checks::of(position);
    for (place, &mv) in (0_u8..).zip(legal) {
        if checks.gives(mv) && !places.contains(&place) {
            places.push(place);
        }
    }
}

/// Static exchange evaluation: material won or lost, in centipawns, if both sides capture on the
/// target square with their least valuable piece and stop when that is better. Pins are ignored.
pub(crate) fn exchange(position: &Position, mv: Move) -> i32 {
    let board = position.board();
    let Some(from) = mv.from() else { return 0 };
    if mv.is_castle() {
        return 0; // Castling is written as king takes own rook; nothing is captured.
    }
    let target = mv.to();
    let mut occupied = board.occupied();
    occupied.discard(from);
    if mv.is_en_passant() {
        occupied.discard(Square::from_coords(target.file(), from.rank()));
    }
    occupied.add(target);

    let mut on_square = worth(mv.promotion().unwrap_or(mv.role()));
    let first = mv.capture().map_or(0, worth) + mv.promotion().map_or(0, |role| worth(role) - 100);
    let mut gains = [0_i32; 34];
    gains[0] = first;
    let mut last = 0;
    let mut side = !position.turn();
    while last + 1 < gains.len() {
        let attackers = attackers_to(board, target, occupied) & occupied;
        let own = attackers & board.by_color(side);
        let Some((from, role)) = least_valuable(board, own) else { break };
        if role == Role::King && (attackers & board.by_color(!side)).any() {
            break; // A king may not capture into an attack.
        }
        last += 1;
        gains[last] = on_square - gains[last - 1];
        on_square = worth(role);
        occupied.discard(from);
        side = !side;
    }
    while last > 0 {
        gains[last - 1] = -gains[last].max(-gains[last - 1]);
        last -= 1;
    }
    gains[0]
}

fn attackers_to(
    board: &board::Board,
    square: Square,
    occupied: board::Bitboard,
) -> board::Bitboard {
    let diagonal = board.bishops() | board.queens();
    let straight = board.rooks() | board.queens();
    (attacks::knight_attacks(square) & board.knights())
        | (attacks::king_attacks(square) & board.kings())
        | (attacks::pawn_attacks(Color::Black, square) & board.pawns() & board.white())
        | (attacks::pawn_attacks(Color::White, square) & board.pawns() & board.black())
        | (attacks::bishop_attacks(square, occupied) & diagonal)
        | (attacks::rook_attacks(square, occupied) & straight)
}

fn least_valuable(board: &board::Board, attackers: board::Bitboard) -> Option<(Square, Role)> {
    [Role::Pawn, Role::Knight, Role::Bishop, Role::Rook, Role::Queen, Role::King]
        .into_iter()
        .find_map(|role| (attackers & board.by_role(role)).first().map(|square| (square, role)))
}

#[cfg(test)]
mod tests {
    use board::{CastlingMode, parse_uci};

    use super::*;

    fn gain(fen: &str, mv: &str) -> i32 {
        let position = Position::from_fen(fen, CastlingMode::Standard).unwrap();
        exchange(&position, parse_uci(&position, mv).unwrap())
    }

    #[test]
    fn forcing_moves_are_captures_and_queens_that_lose_nothing_then_checks() {
        let names = |fen: &str, of: fn(&Position) -> Vec<Move>| -> Vec<String> {
            let position = Position::from_fen(fen, CastlingMode::Standard).unwrap();
            of(&position).into_iter().map(|mv| board::to_uci(&position, mv)).collect()
        };
        let fen = "6k1/P4p2/4n1p1/3P4/8/1Q6/8/R3K2r w Q - 0 1";
        let in_check = names(fen, forcing_moves);
        assert_eq!(in_check, ["e1d2", "e1e2", "e1f2"]);
        // A pawn captures and promotes; earlier contents of `places` are cleared.
        let position =
            Position::from_fen("1n4k1/P7/8/8/8/8/8/K7 w - - 0 1", CastlingMode::Standard).unwrap();
        let (legal, mut places) = (position.legal_moves(), vec![9]);
        forcing_among(&position, false, &legal, &mut places);
        let found: Vec<String> =
            places.iter().map(|&at| board::to_uci(&position, legal[usize::from(at)])).collect();
        assert_eq!(found, ["a7b8q", "a7a8q"]);
        // The queen's capture of the defended pawn loses material but gives check, as do a rook on
        // a8 and the queen on b8.
        let fen = "6k1/P4p2/4n1p1/3P4/8/r5Q1/8/R3K3 w Q - 0 1";
        assert_eq!(names(fen, forcing_moves), ["a7a8q", "a1a3", "g3a3", "d5e6"]);
        let (forcing, all) = (names(fen, forcing_moves), names(fen, forcing_moves_and_checks));
        let (first, mut checks) = (&all[..forcing.len()], all[forcing.len()..].to_vec());
        checks.sort();
        assert_eq!(first, forcing);
        assert_eq!(checks, ["a7a8r", "g3b8", "g3g6"]);
    }

    #[test]
    fn exchanges_known_by_hand() {
        // A free pawn; a defended pawn taken by a rook; x-rays behind the rook; en passant;
        // promotion.
        assert_eq!(gain("1k1r4/1pp4p/p7/4p3/8/P5P1/1PP4P/2K1R3 w - - 0 1", "e1e5"), 100);
        assert_eq!(gain("1k1r4/1pp4p/p2p4/4p3/8/P5P1/1PP4P/2K1R3 w - - 0 1", "e1e5"), 100 - 500);
        assert_eq!(
            gain("1k1r3q/1ppn3p/p4b2/4p3/8/P2N2P1/1PP1R1BP/2K1Q3 w - - 0 1", "d3e5"),
            100 - 310
        );
        assert_eq!(gain("4k3/8/8/3pP3/8/8/8/4K3 w - d6 0 1", "e5d6"), 100);
        assert_eq!(gain("4k3/P7/8/8/8/8/8/4K3 w - - 0 1", "a7a8q"), 850);
        // Castling with an attacked rook.
        assert_eq!(gain("4k3/1b6/8/8/8/8/5P2/4K2R w K - 0 1", "e1g1"), 0);
    }
}
