//! Positions and games for tests and benchmarks, the same on every machine, and a word about tests
//! that a machine cannot run.

use std::io::Write;

use crate::{CastlingMode, Color, Game, Position, Role, Setup, SplitMix64, Square};

/// Positions of games of random moves, one after the other; a game ends after `plies` plies.
#[must_use]
pub fn random_positions(count: usize, plies: u32, seed: u64) -> Vec<Position> {
    let mut random = SplitMix64::new(seed);
    let mut list = Vec::with_capacity(count);
    let mut position = Position::default();
    while list.len() < count {
        let moves = position.legal_moves();
        if moves.is_empty() || position.ply() > plies {
            position = Position::default();
            continue;
        }
        position.play(moves[random.below(moves.len())]);
        list.push(position.clone());
    }
    list
}

/// A game of random moves from the standard start position, `plies` long or until it has ended.
#[must_use]
pub fn random_game(plies: usize, random: &mut SplitMix64) -> Game {
    let mut game = Game::default();
    for _ in 0..plies {
        let moves = game.position().legal_moves();
        if moves.is_empty() {
            break;
        }
        game.play(moves[random.below(moves.len())]);
    }
    game
}

/// Kings and 1 to `pieces` random other pieces, either side to move, with a legal move and enough
/// material to mate.
#[must_use]
pub fn small_position(random: &mut SplitMix64, pieces: usize) -> Position {
    const ROLES: [Role; 7] =
        [Role::Pawn, Role::Pawn, Role::Pawn, Role::Knight, Role::Bishop, Role::Rook, Role::Queen];
    let color = |random: &mut SplitMix64| match random.below(2) {
        0 => Color::White,
        _ => Color::Black,
    };
    let place = |random: &mut SplitMix64, setup: &mut Setup, role: Role, color: Color| {
        let square = Square::new(random.below(64) as u32);
        setup.board.set_piece_at(square, role.of(color));
    };
    loop {
        let mut setup = Setup::empty();
        setup.turn = color(random);
        for _ in 0..1 + random.below(pieces) {
            let color = color(random);
            let role = ROLES[random.below(ROLES.len())];
            place(random, &mut setup, role, color);
        }
        place(random, &mut setup, Role::King, Color::White);
        place(random, &mut setup, Role::King, Color::Black);
        if let Ok(position) = Position::from_setup(setup, CastlingMode::Standard)
            && position.has_legal_moves()
            && !position.is_insufficient_material()
        {
            return position;
        }
    }
}

/// Reports a test, or a part of it, that cannot run on this machine, with the reason: on stderr and,
/// if the environment variable `BATCH_FIRST_SKIPPED` names a file, as a line at its end, since test
/// runners hide the output of a passing test.
#[allow(clippy::print_stderr, reason = "the reader of a test's output is its only user")]
pub fn skip(test: &str, reason: &str) {
    let line = format!("SKIPPED {test}: {reason}");
    eprintln!("{line}");
    if let Some(path) = std::env::var_os("BATCH_FIRST_SKIPPED")
        && let Ok(mut file) = std::fs::OpenOptions::new().create(true).append(true).open(path)
    {
        writeln!(file, "{line}").ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_follow_from_the_seed() {
        assert_eq!(random_positions(50, 20, 1), random_positions(50, 20, 1));
        assert_ne!(random_positions(50, 20, 1), random_positions(50, 20, 2));
    }

    #[test]
    fn small_positions_are_small_and_playable() {
        let mut random = SplitMix64::new(1);
        for _ in 0..100 {
            let position = small_position(&mut random, 3);
            assert!((3..=5).contains(&position.board().occupied().count()), "{}", position.fen());
            assert!(position.has_legal_moves());
        }
    }
}
