//! Move generation against known counts, through the same calls that search makes.

use board::{CastlingMode, Position, perft};

/// One line of a fixture: a FEN and counts by depth.
fn fixture(text: &str) -> Vec<(&str, Vec<(u32, u64)>)> {
    text.lines()
        .filter(|line| !line.starts_with('#') && !line.trim().is_empty())
        .map(|line| {
            let (fen, counts) = line.split_once(" ;").expect("a FEN and counts");
            let counts = counts
                .split(" ;")
                .map(|count| {
                    let (depth, nodes) =
                        count.strip_prefix('D').and_then(|c| c.split_once(' ')).expect(count);
                    (depth.parse().expect(count), nodes.trim().parse().expect(count))
                })
                .collect();
            (fen, counts)
        })
        .collect()
}

fn check(text: &str, mode: CastlingMode, positions: usize, most: u64) {
    let entries = fixture(text);
    assert_eq!(entries.len(), positions);
    // Two threads: the test machine may have no more.
    std::thread::scope(|scope| {
        for part in entries.chunks(positions.div_ceil(2)) {
            scope.spawn(move || {
                for (fen, counts) in part {
                    let position = Position::from_fen(fen, mode).expect(fen);
                    for &(depth, nodes) in counts.iter().filter(|&&(_, nodes)| nodes <= most) {
                        assert_eq!(perft(&position, depth), nodes, "{fen} at depth {depth}");
                    }
                }
            });
        }
    });
}

#[test]
fn standard_positions() {
    check(include_str!("perft/standard.epd"), CastlingMode::Standard, 7, 200_000_000);
}

#[test]
fn chess960_positions() {
    check(include_str!("perft/chess960.epd"), CastlingMode::Chess960, 960, 20_000_000);
}

/// A standard position gives the same tree when it is read as Chess960.
#[test]
fn standard_positions_as_chess960() {
    check(include_str!("perft/standard.epd"), CastlingMode::Chess960, 7, 5_000_000);
}

/// Slow and independent of the incremental update: every key in the tree against the key from
/// scratch.
#[test]
fn keys_in_the_tree() {
    fn walk(position: &Position, depth: u32, checked: &mut u64) {
        assert_eq!(
            position.key(),
            Position::from(position.chess().clone()).key(),
            "{}",
            position.fen()
        );
        *checked += 1;
        if depth > 0 {
            for mv in position.legal_moves() {
                let after = position.after(mv);
                assert_eq!(position.key_after(mv), after.key(), "{mv:?} in {}", position.fen());
                assert_eq!(position.halfmove_clock_after(mv), after.halfmove_clock());
                walk(&after, depth - 1, checked);
            }
        }
    }
    let mut checked = 0;
    for (text, mode) in [
        (include_str!("perft/standard.epd"), CastlingMode::Standard),
        (include_str!("perft/chess960.epd"), CastlingMode::Chess960),
    ] {
        for (fen, _) in fixture(text).into_iter().take(20) {
            walk(&Position::from_fen(fen, mode).expect(fen), 3, &mut checked);
        }
    }
    assert!(checked > 400_000, "{checked}");
}
