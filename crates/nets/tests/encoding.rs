//! Properties of the input planes and the move planes.

mod positions;

use std::collections::{BTreeMap, BTreeSet};

use board::{CastlingMode, Color, Position, Square, to_uci};
use nets::{
    Encoding, HeadOutput, MovePlaces, PLANES, POLICY_SIZE, PolicyIndex, Squares, mirror_index,
    move_of_index, policy_index,
};
use positions::position;
use proptest::prelude::*;

/// The same position with colours swapped and ranks mirrored, made from the FEN alone.
fn colours_swapped(position: &Position) -> Position {
    let fen = position.fen();
    let fields: Vec<&str> = fen.split(' ').collect();
    let swap_case = |text: &str| -> String {
        text.chars()
            .map(|c| {
                if c.is_ascii_uppercase() { c.to_ascii_lowercase() } else { c.to_ascii_uppercase() }
            })
            .collect()
    };
    let ranks: Vec<String> = fields[0].split('/').rev().map(swap_case).collect();
    let turn = if fields[1] == "w" { "b" } else { "w" };
    let castling = swap_case(fields[2]);
    let fen = format!("{} {turn} {castling} {} 0 1", ranks.join("/"), ranks_mirrored(fields[3]));
    Position::from_fen(&fen, position.castling_mode()).expect(&fen)
}

/// A square or move text with rank 1 for rank 8 and so on.
fn ranks_mirrored(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_ascii_digit() { char::from(b'9' - (c as u8 - b'0')) } else { c })
        .collect()
}

/// The left-right mirror image of a position without castling rights, made from the FEN alone.
fn files_mirrored(position: &Position) -> Option<Position> {
    let fen = position.fen();
    let fields: Vec<&str> = fen.split(' ').collect();
    if fields[2] != "-" {
        return None;
    }
    let ranks: Vec<String> =
        fields[0].split('/').map(|rank| rank.chars().rev().collect()).collect();
    let fen = format!("{} {} - {} 0 1", ranks.join("/"), fields[1], text_mirrored(fields[3]));
    Some(Position::from_fen(&fen, position.castling_mode()).expect(&fen))
}

/// A square or move text with file a for file h and so on; the promotion letter stays.
fn text_mirrored(text: &str) -> String {
    let mirror =
        |c: char| if ('a'..='h').contains(&c) { char::from(b'a' + b'h' - c as u8) } else { c };
    text.char_indices().map(|(index, c)| if index < 4 { mirror(c) } else { c }).collect()
}

/// Policy index of every legal move by its UCI text.
fn indices(position: &Position) -> BTreeMap<String, PolicyIndex> {
    let turn = position.turn();
    position
        .legal_moves()
        .into_iter()
        .map(|mv| (to_uci(position, mv), policy_index(mv, turn)))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn both_colours_look_the_same(position in position()) {
        let swapped = colours_swapped(&position);
        prop_assert!(swapped.turn() != position.turn());
        prop_assert_eq!(Squares::of(&position), Squares::of(&swapped), "{}", position.fen());
        let expected: BTreeMap<_, _> =
            indices(&position).into_iter().map(|(text, index)| (ranks_mirrored(&text), index)).collect();
        prop_assert_eq!(indices(&swapped), expected, "{}", position.fen());
    }

    #[test]
    fn the_mirror_image_has_mirrored_moves(position in position()) {
        let squares = Squares::of(&position);
        prop_assert_eq!(squares.mirror().mirror(), squares);
        let mirrored = files_mirrored(&position);
        prop_assert_eq!(squares.can_mirror(), mirrored.is_some());
        if let Some(mirrored) = mirrored {
            prop_assert_eq!(Squares::of(&mirrored), squares.mirror(), "{}", position.fen());
            let expected: BTreeMap<_, _> = indices(&position)
                .into_iter()
                .map(|(text, index)| (text_mirrored(&text), mirror_index(index)))
                .collect();
            prop_assert_eq!(indices(&mirrored), expected, "{}", position.fen());
        }
    }

    #[test]
    fn squares_are_the_whole_position(position in position()) {
        let squares = Squares::of(&position);
        prop_assert_eq!(Squares::unpack(&squares.pack()), squares);
        let back = squares.position(position.turn()).expect("a legal position");
        // The key covers pieces, turn, castling rights and en passant.
        prop_assert_eq!(back.key(), position.key(), "{} became {}", position.fen(), back.fen());
        prop_assert_eq!(back.castling_rights(), position.castling_rights());
        prop_assert_eq!(back.en_passant(), position.en_passant());
        prop_assert_eq!(Squares::of(&back), squares);
        let own: BTreeSet<_> = indices(&position).into_values().collect();
        prop_assert_eq!(indices(&back).into_values().collect::<BTreeSet<_>>(), own);
    }

    #[test]
    fn attack_planes_name_the_cheapest_attacker(position in position()) {
        let (squares, turn, board) = (Squares::of(&position), position.turn(), position.board());
        let states = Encoding::Attacks21.states_of(&squares, turn);
        for square in Square::ALL {
            let state = states[usize::from(square) ^ if turn.is_white() { 0 } else { 56 }];
            let mut expected: Vec<usize> =
                Encoding::BatchFirst15.planes_of(usize::from(state % 16)).into_iter().map(|(plane, _)| plane).collect();
            for (color, first) in [(turn, PLANES), (turn.other(), PLANES + 3)] {
                let attackers = board.attacks_to(square, color, board.occupied());
                let kinds = [board.pawns(), board.knights() | board.bishops(), board.rooks_and_queens() | board.kings()];
                expected.extend(kinds.iter().position(|&kind| !(attackers & kind).is_empty()).map(|kind| first + kind));
            }
            let planes = Encoding::Attacks21.planes_of(usize::from(state));
            prop_assert_eq!(planes.iter().map(|&(plane, _)| plane).collect::<Vec<_>>(), expected, "{} of {}", square, position.fen());
            prop_assert!(planes.iter().all(|&(plane, value)| plane < Encoding::Attacks21.planes() && value == 1.0));
        }
    }

    #[test]
    fn the_king_is_seen_on_the_right(position in position()) {
        let (squares, turn, encoding) = (Squares::of(&position), position.turn(), Encoding::KingRight21);
        let seen = encoding.board_of(&squares);
        let king = seen.0.iter().position(|&class| class == 7).expect("a king");
        prop_assert!(king % 8 >= 4 || seen == squares && !squares.can_mirror(), "{}", position.fen());
        prop_assert_eq!(encoding.states_of(&squares, turn), Encoding::Attacks21.states_of(&seen, turn));
        // A position and its mirror image are seen alike, their moves too.
        if squares.can_mirror() {
            let image = squares.mirror();
            prop_assert_eq!(encoding.states_of(&image, turn), encoding.states_of(&squares, turn));
            let [own, others] =
                [&squares, &image].map(|board| MovePlaces::new(HeadOutput::Plain, encoding, board));
            for index in indices(&position).into_values() {
                prop_assert_eq!(own.of(index), others.of(mirror_index(index)));
                let expected = if seen == squares { index } else { mirror_index(index) };
                prop_assert_eq!(own.of(index), usize::from(expected));
            }
        }
    }

    #[test]
    fn a_square_has_one_plane_at_most(position in position()) {
        let squares = Squares::of(&position);
        let mut seen = BTreeSet::new();
        let mut pieces = 0;
        for (square, plane) in squares.active() {
            prop_assert!(square < 64 && plane < PLANES && seen.insert(square));
            pieces += usize::from(plane != 0);
        }
        prop_assert_eq!(pieces, position.board().occupied().count());
        prop_assert!(seen.len() <= 33);
    }

    #[test]
    fn moves_and_indices_are_one_to_one(position in position(), other in 0..POLICY_SIZE as PolicyIndex) {
        let turn = position.turn();
        let mut seen = BTreeSet::new();
        for mv in position.legal_moves() {
            let index = policy_index(mv, turn);
            prop_assert!(usize::from(index) < POLICY_SIZE);
            prop_assert!(seen.insert(index), "{} has two moves with index {index}", position.fen());
            prop_assert_eq!(move_of_index(&position, index), Some(mv));
        }
        prop_assert_eq!(move_of_index(&position, other).is_some(), seen.contains(&other));
    }

    /// Whatever 32 bytes a damaged file brings: a position or none, never a panic.
    #[test]
    fn any_bytes_unpack(packed in any::<[u8; 32]>(), few in prop::collection::vec((0..64_usize, 0..16_u8), 0..9)) {
        let squares = Squares::unpack(&packed);
        prop_assert_eq!(squares.pack(), packed);
        let mut sparse = [0; 64];
        sparse[4] = 7;
        sparse[60] = 14;
        for (square, class) in few {
            sparse[square] = class;
        }
        for squares in [squares, Squares(sparse)] {
            for turn in Color::ALL {
                if let Some(position) = squares.position(turn) {
                    // An en-passant square that allows no capture is dropped; all else is kept.
                    let kept = Squares::of(&position);
                    for square in 0..64 {
                        prop_assert!(kept.0[square] == squares.0[square] || squares.0[square] == 1);
                    }
                }
            }
        }
    }
}

/// Random games must reach what the properties above are about.
#[test]
fn the_positions_are_varied() {
    use proptest::{strategy::ValueTree, test_runner::TestRunner};
    let mut runner = TestRunner::deterministic();
    let mut counts = BTreeMap::<&str, usize>::new();
    for _ in 0..1500 {
        let position = position().new_tree(&mut runner).expect("a position").current();
        let moves = position.legal_moves();
        let unusual = position.castling_mode() == CastlingMode::Chess960;
        for (what, holds) in [
            ("en passant", position.en_passant().is_some()),
            ("black to move", position.turn().is_black()),
            ("castling", !unusual && moves.iter().any(|mv| mv.is_castle())),
            ("Chess960 castling", unusual && moves.iter().any(|mv| mv.is_castle())),
            ("promotion", moves.iter().any(|mv| mv.is_promotion())),
            ("capture with promotion", moves.iter().any(|mv| mv.is_promotion() && mv.is_capture())),
            ("no castling rights", position.castling_rights().is_empty()),
        ] {
            *counts.entry(what).or_default() += usize::from(holds);
        }
    }
    assert!(counts.values().all(|&count| count >= 20), "{counts:?}");
}
